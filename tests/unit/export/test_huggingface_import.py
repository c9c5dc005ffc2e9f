"""Marian's models as Transformers of untold: logits, translations, tokenizers, refusals."""

import json

import pytest
import torch

from huggingface_toys import LINES, make_model, make_tokenizer, save_folder, spm
from untold import load
from untold.errors import UntoldError
from untold.export.huggingface import halves_from_pairs, pairs_from_halves
from untold.export.huggingface_import import import_folder
from untold.export.marian_vocabulary import import_vocabulary
from untold.huggingface.optional import import_transformers, quiet
from untold.storage.model_directory import save_model

SHARED, SEPARATE = "marian", "marian, two vocabularies"
TEXTS = [*LINES, "the dog sees the cat", "xyz Q", "", "  a  dog "]
FORMS = {
    "swish": {"activation_function": "swish"},
    "relu": {"activation_function": "relu"},
    "uneven stacks": {"encoder_layers": 3, "decoder_layers": 1},
}


def save(folder, family=SHARED, **changes):
    """A folder as transformers writes it; the bias of the output layer is not zero."""
    tokenizer = make_tokenizer(family, folder)
    model = make_model(family, tokenizer)
    for name, value in changes.items():
        setattr(model.config, name, value)
    model = import_transformers().MarianMTModel(model.config)
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.4 * torch.randn(parameter.shape, generator=generator)
    model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
    with quiet():
        model.eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.parametrize("family", [SHARED, SEPARATE])
@pytest.mark.parametrize("form", FORMS)
def test_logits_are_those_of_transformers(tmp_path, family, form):
    stock, tokenizer = save(tmp_path / "hf", family, **FORMS[form])
    ours = import_folder(str(tmp_path / "hf")).trained
    start, shared = stock.config.decoder_start_token_id, family == SHARED
    vocabulary = import_vocabulary(tokenizer, start, "toy", shared=shared)
    codec, rows = ours.tokenizers, torch.tensor(vocabulary.target.rows)
    with torch.inference_mode():
        for source, target in zip(LINES[:2], LINES[2:], strict=True):
            read = tokenizer([source], text_target=[target], return_tensors="pt")
            expected = stock(**read).logits[0]
            ids = torch.tensor([[*codec.source.encode([source])[0], codec.source.special_ids.eos]])
            words = [codec.target.special_ids.bos, *codec.target.encode([target])[0]]
            outputs = ours.model(ids, torch.ones_like(ids).bool(), torch.tensor([words]))
            logits = ours.model.logits(outputs.holistic)[0]
            said = [i for i in range(len(rows)) if i not in vocabulary.target.unsaid]
            assert (logits - expected[:, rows])[:, said].abs().max() < 2e-5
            # Everything that transformers can say is there: the probabilities are the same, too.
            assert sorted(rows[said].tolist()) == list(range(expected.shape[1]))
            assert torch.allclose(logits.logsumexp(-1), expected.logsumexp(-1), atol=2e-5)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("family", [SHARED, SEPARATE])
def test_translations_are_those_of_the_folder_and_need_no_transformers(tmp_path, family, beam):
    save_folder(family, tmp_path / "hf")
    imported = import_folder(str(tmp_path / "hf"))
    save_model(tmp_path / "own", imported.trained)
    theirs, ours = load(f"hf:{tmp_path / 'hf'}"), load(tmp_path / "own")
    theirs, ours = (each.with_decoding(beam=beam) for each in (theirs, ours))
    for text in TEXTS:
        found, expected = ours.translate(text), theirs.translate(text)
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-4)
    assert imported.trained.tokenizers.joint == (family == SHARED)
    assert sorted(path.suffix for path in (tmp_path / "own").iterdir())[:2] == [".json", ".json"]
    assert not (tmp_path / "own" / "huggingface_tokenizer").exists()


@pytest.mark.parametrize("changes", [{"scale_embedding": False}, {"tie_word_embeddings": False}])
def test_embeddings_without_a_factor_or_apart_from_the_output_layer(tmp_path, changes):
    save(tmp_path / "hf", **changes)
    imported = import_folder(str(tmp_path / "hf"))
    assert imported.difference < 2e-5
    assert not imported.trained.config.model.tie_embeddings


def test_two_files_of_pieces_that_share_their_numbers(tmp_path):
    """As most published models are: each language is cut by its own file, vocab.json has both."""
    save(tmp_path / "hf")
    (tmp_path / "hf" / "target.spm").write_bytes(spm(tuple(LINES[2:])))
    imported = import_folder(str(tmp_path / "hf"))
    assert imported.difference < 2e-5
    assert not imported.trained.tokenizers.joint
    save_model(tmp_path / "own", imported.trained)
    theirs, ours = load(f"hf:{tmp_path / 'hf'}"), load(tmp_path / "own")
    for text in TEXTS:
        assert ours.translate(text).text == theirs.translate(text).text
        assert ours.score([(text, "die Katze")])[0].score == pytest.approx(
            theirs.score([(text, "die Katze")])[0].score, abs=1e-4
        )


def test_pieces_that_have_no_number_are_read_as_unknown_and_never_said(tmp_path):
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "vocab.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    lost = "▁cat" if "▁cat" in table else next(piece for piece in table if piece.startswith("▁t"))
    table[f"lost {lost}"] = table.pop(lost)
    path.write_text(json.dumps(table), encoding="utf-8")
    imported = import_folder(str(tmp_path / "hf"))
    assert imported.difference < 2e-5
    save_model(tmp_path / "own", imported.trained)
    theirs, ours = load(f"hf:{tmp_path / 'hf'}"), load(tmp_path / "own")
    for text in TEXTS:
        assert ours.translate(text).text == theirs.translate(text).text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_ffn_dim": 20}, "ffn_dim 24 and 20, but untold's Transformer has one"),
        ({"activation_function": "tanh"}, "its activation is tanh"),
    ],
)
def test_a_shape_that_untold_lacks_is_refused_with_a_cure(tmp_path, changes, message):
    save(tmp_path / "hf", **changes)
    with pytest.raises(UntoldError, match=message) as caught:
        import_folder(str(tmp_path / "hf"))
    assert f"use it as it is, as hf:{tmp_path / 'hf'}" in str(caught.value)


@pytest.mark.parametrize(("family", "reason"), [("bart", "learnt"), ("t5", "relative")])
def test_other_families_are_refused_with_their_reason(tmp_path, family, reason):
    save_folder(family, tmp_path / "hf")
    with pytest.raises(UntoldError, match=rf"positions.*{reason}|{reason} positions"):
        import_folder(str(tmp_path / "hf"))


def test_a_model_of_several_languages_is_refused(tmp_path):
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "vocab.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    lost = next(piece for piece in table if piece.startswith("▁"))
    table[">>deu<<"] = table.pop(lost)
    path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(UntoldError, match="begins with a language, such as >>deu<<"):
        import_folder(str(tmp_path / "hf"))


def test_orders_of_positions_are_inverse_to_each_other():
    assert pairs_from_halves(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert pairs_from_halves(6)[halves_from_pairs(6)].tolist() == list(range(6))
