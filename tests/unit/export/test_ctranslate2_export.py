"""Models for CTranslate2, which translates as we do."""

import sys

import ctranslate2
import pytest
import sentencepiece

from conversion_toys import TEXTS, one_fast, toy_trained, vocabularies
from untold import load
from untold.errors import UntoldError
from untold.export.ctranslate2 import write_ctranslate2_model
from untold.export.plain_model import plain_model
from untold.huggingface.optional import import_optional
from untold.storage.model_directory import save_model

FORMS = {
    "norms before": ({}, {}),
    "norms after": ({}, {"norm": "post", "activation": "swish"}),
    "gelu": ({}, {"activation": "gelu"}),
    "untied": ({}, {"tie_embeddings": False}),
    "two vocabularies": ({"joint": False}, {}),
    "unigram with bytes": ({"kind": "unigram", "bytes_too": True}, {}),
}


@pytest.mark.parametrize("form", one_fast(FORMS))
def test_ctranslate2_gives_our_translations_and_scores(tmp_path, form):
    vocabulary, shape = FORMS[form]
    trained = toy_trained(vocabularies(**vocabulary), **shape)
    write_ctranslate2_model(plain_model(trained, "toy", drop_past_future=False), tmp_path / "ct2")
    save_model(tmp_path / "own", trained)
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "ct2" / f"{side}.spm"))
        for side in ("source", "target")
    )
    for beam in (1, 4):
        ours = load(tmp_path / "own").with_decoding(beam=beam)
        found = translator.translate_batch(
            source.encode(TEXTS, out_type=str),
            beam_size=beam,
            length_penalty=0.0,
            max_decoding_length=59,
        )
        expected = [ours.translate(text) for text in TEXTS]
        texts = [target.decode(each.hypotheses[0]) for each in found]
        assert texts == [each.text for each in expected]
    scored = translator.score_batch(
        source.encode(TEXTS, out_type=str), target.encode(texts, out_type=str)
    )
    for each, text, known in zip(scored, texts, TEXTS, strict=True):
        own = ours.score([(known, text)])[0].score
        assert sum(each.log_probs) == pytest.approx(own, abs=1e-4)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(
        UntoldError, match=r"needs ctranslate2: pip install 'untold\[ctranslate2\]'"
    ):
        import_optional("ctranslate2.specs", "ctranslate2")
