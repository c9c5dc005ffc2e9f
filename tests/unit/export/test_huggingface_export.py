"""Folders for transformers: it reads them alone, with our logits, texts and translations."""

import pytest
import torch

from conversion_toys import TEXTS, one_fast, toy_trained, vocabularies
from toys import BOS, UNK, separator, toy_model
from untold import load
from untold.errors import UntoldError
from untold.export.huggingface import halves_from_pairs, write_huggingface_folder
from untold.export.plain_model import plain_model
from untold.huggingface.optional import import_transformers, quiet
from untold.storage.model_directory import TrainedModel, save_model

FORMS = {
    "norms before": ({}, {}),
    "norms after": ({}, {"norm": "post", "activation": "swish"}),
    "no bias": ({}, {"output_bias": False}),
    "untied": ({}, {"tie_embeddings": False}),
    "untied, norms after": ({}, {"tie_embeddings": False, "norm": "post"}),
    "two vocabularies": ({"joint": False}, {}),
    "two vocabularies, norms after": ({"joint": False}, {"norm": "post"}),
    "unigram with bytes": ({"kind": "unigram", "bytes_too": True}, {}),
}


def export(trained: TrainedModel, folder):
    """Writes a folder, and reads it with transformers alone."""
    write_huggingface_folder(plain_model(trained, "toy", drop_past_future=False), folder)
    transformers = import_transformers()
    with quiet():
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("form", one_fast(FORMS))
def test_transformers_alone_gives_our_logits_and_translations(tmp_path, form):
    vocabulary, shape = FORMS[form]
    trained = toy_trained(vocabularies(**vocabulary), **shape)
    model, tokenizer = export(trained, tmp_path / "hf")
    source = tokenizer(TEXTS, return_tensors="pt", padding=True)
    words = [row[:3] for row in trained.tokenizers.target.encode(TEXTS)]
    prefix = torch.tensor([[BOS, *(row * 3)[:3]] for row in words])
    with torch.inference_mode():
        found = model(**source, decoder_input_ids=prefix).logits
        read = trained.model(source["input_ids"], source["attention_mask"].bool(), prefix)
        expected = trained.model.logits(read.holistic)
    assert (found[..., : expected.shape[-1]] - expected).abs().max() < 1e-4
    assert (found[..., expected.shape[-1] :] < -1e8).all()  # what the source alone has is not said
    save_model(tmp_path / "own", trained)
    ours, wrapped = load(tmp_path / "own"), load(f"hf:{tmp_path / 'hf'}")
    for beam in (1, 4):
        stopping = (
            {"early_stopping": "never"} if beam > 1 else {}
        )  # as ours: nothing better is left
        made = model.generate(**source, num_beams=beam, **stopping)
        texts = tokenizer.batch_decode(made, skip_special_tokens=True)
        decode = {"beam": beam, "length_penalty": 0.0, "max_ratio": 50.0}
        assert texts == [
            ours.with_decoding(**decode).translate(text).text.strip() for text in TEXTS
        ]
        again = [wrapped.with_decoding(**decode).translate(text).text for text in TEXTS]
        assert texts == [text.strip() for text in again]
    assert len(set(texts)) > 2  # the comparison has something to compare


@pytest.mark.parametrize(
    "form", one_fast(["two vocabularies", "norms before", "unigram with bytes"])
)
def test_its_tokenizer_cuts_as_ours_does(tmp_path, form):
    vocabulary, shape = FORMS[form]
    trained = toy_trained(vocabularies(**vocabulary), **shape)
    _, tokenizer = export(trained, tmp_path / "hf")
    eos = [trained.tokenizers.source.special_ids.eos]
    for text in [*TEXTS, " a dog", "dog "]:
        assert tokenizer(text)["input_ids"] == trained.tokenizers.source.encode([text])[0] + eos
        (ids,) = trained.tokenizers.target.encode([text])
        assert tokenizer(text_target=text)["input_ids"] == ids + eos
        if UNK not in ids:  # which both write, but in different ways
            assert tokenizer.decode(ids) == trained.tokenizers.target.decode(ids).strip()


def test_sines_come_before_all_cosines():
    assert halves_from_pairs(6).tolist() == [0, 2, 4, 1, 3, 5]


def test_past_and_future_that_translations_read_are_left_out_only_if_asked(tmp_path):
    trained = toy_trained(updates=1, separator=separator("gdr-said"))
    assert not trained.model.past_future.fusion.is_silent
    with pytest.raises(UntoldError, match="--drop-past-future to get the plain decoder"):
        plain_model(trained, "toy", drop_past_future=False)
    plain = plain_model(trained, "toy", drop_past_future=True)
    assert "others will come out" in plain.left_out


def test_past_and_future_that_nothing_reads_change_nothing(tmp_path):
    trained = toy_trained(separator=separator("gdr-said"))
    trained.model.past_future.fusion.transform.weight.data.zero_()
    plain = plain_model(trained, "toy", drop_past_future=False)
    assert plain.left_out.endswith("do not depend")
    model, tokenizer = export(trained, tmp_path / "hf")
    save_model(tmp_path / "own", trained)
    made = model.generate(**tokenizer(TEXTS[:1], return_tensors="pt"), num_beams=1)
    decode = {"beam": 1, "length_penalty": 0.0, "max_ratio": 50.0}
    expected = load(tmp_path / "own").with_decoding(**decode).translate(TEXTS[0]).text
    assert tokenizer.batch_decode(made, skip_special_tokens=True) == [expected.strip()]


def test_a_model_that_copies_is_refused():
    with pytest.raises(UntoldError, match=r"copies words of its source.*model.copying = false"):
        plain_model(toy_trained(updates=0, copying=True), "toy", drop_past_future=True)


def test_another_backbone_is_refused():
    own = toy_trained(updates=0)
    other = TrainedModel(toy_model(backbone="rnmt"), own.config, own.tokenizers)
    with pytest.raises(UntoldError, match="only a transformer can be exported"):
        plain_model(other, "toy", drop_past_future=True)
