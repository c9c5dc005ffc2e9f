"""The prepared model against the general one, which defines what it must compute."""

import random
from typing import Any

import pytest
import torch

from same_steps import assert_same_steps
from toys import BOS, EOS, PAD, SEPARATORS, separator, toy_model
from untold.config import DecodeConfig
from untold.corpus.batching import pad_rows
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.inference import linear, routing, transformer
from untold.inference.kernels import load
from untold.inference.linear import PANELS, has_int8
from untold.inference.model import PreparedModel, prepare
from untold.models.seq2seq import Seq2Seq

SIZE = 40
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied": {"tie_embeddings": False},
    "bias": {"output_bias": True},
    "norms after": {"norm": "post"},
    "norms after, gdr": {"norm": "post", "separator": separator("gdr-said")},
    "swish": {"activation": "swish"},
    "gelu": {"activation": "gelu", "norm": "post"},
    "copying": {"copying": True},
    "copying and gdr": {"copying": True, "separator": separator("gdr-said")},
    "one round": {"separator": separator("gdr-said", num_iterations=1)},
    "two rounds": {"separator": separator("gdr-said", num_iterations=2)},
    "even counts": {"separator": {"kind": "gdr", "d_capsule": 7}},
    "no redundant": {"separator": {"kind": "gdr", "redundant": 0}},
    "no coverage": {"separator": separator("gdr-dot", coverage=False)},
} | {name: {"separator": separator(name)} for name in SEPARATORS}


def model(form: str, *, shared: bool = True) -> Seq2Seq:
    """Its fusion and biases are shaken, so that everything counts."""
    made = toy_model((SIZE, SIZE), shared=shared, **FORMS[form])
    generator = torch.Generator().manual_seed(7)
    for weight in made.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    return made


def sources(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    dice = random.Random(sum(lengths))
    rows = [[dice.randrange(4, SIZE) for _ in range(length)] + [EOS] for length in lengths]
    return pad_rows(rows, PAD)


@pytest.fixture(params=["kernels", "torch alone"])
def kernels(request, monkeypatch):
    """Runs a test with the compiled kernels, and as if there were none."""
    if request.param == "torch alone":
        for module in (linear, transformer, routing):
            monkeypatch.setattr(module, "load", lambda: None)
        layouts = tuple(name for name in linear.FLOAT_LAYOUTS if name != PANELS)
        monkeypatch.setattr(linear, "FLOAT_LAYOUTS", layouts)
    elif load() is None:
        pytest.skip("the kernels were not compiled here")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lengths", [(6,), (5, 5, 5), (7, 2, 9)], ids=str)
def test_steps_are_those_of_the_model(form, lengths):
    """Beams grow, change places and leave, and translations outgrow the first room."""
    general = model(form)
    prepared = prepare(general)
    assert isinstance(prepared, PreparedModel)
    assert_same_steps(general, prepared, sources(*lengths), BOS, range(4, SIZE))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("form", ["plain", "gdr-said", "gdr-mlp"])
def test_padding_changes_nothing(form):
    prepared = prepare(model(form))
    alone, mask = sources(4)
    padded = torch.nn.functional.pad(alone, (0, 5), value=PAD)
    with torch.inference_mode():
        logits = []
        for ids, real in ((alone, mask), (padded, padded != PAD)):
            source = prepared.encode(ids, real)
            state, last = prepared.start(source, 1), torch.tensor([[BOS]])
            for token in (5, 6, 7):
                step = prepared.step(source, last, state)
                state, last = step.state, torch.tensor([[token]])
            logits.append(step.logits)
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["plain", "gdr-said"])
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_the_model_to_the_token(form, beam):
    general = model(form)
    dice = random.Random(beam)
    config = DecodeConfig(beam=beam, max_length=12)
    rows = [[dice.randrange(4, SIZE) for _ in range(dice.randrange(1, 9))] for _ in range(500)]
    for first in range(0, 500, 125):
        batch = [[*row, EOS] for row in rows[first : first + 125]]
        sentences = Sentences(*pad_rows(batch, PAD), SENTENCEPIECE_IDS)
        expected = search(general, sentences, config, {"assignments"})
        found = search(prepare(general), sentences, config, {"assignments"})
        for (own, *_), (other, *_) in zip(expected, found, strict=True):
            assert own.tokens == other.tokens
            assert own.score == pytest.approx(other.score, abs=1e-4)


def test_a_sentence_alone_and_in_a_batch_is_translated_alike():
    prepared, config = prepare(model("gdr-said")), DecodeConfig(beam=3, max_length=12)
    ids, mask = sources(3, 8, 5)
    together = search(prepared, Sentences(ids, mask, SENTENCEPIECE_IDS), config)
    for row, length in enumerate((3, 8, 5)):
        real = ids[row : row + 1, : length + 1]
        (alone,) = search(prepared, Sentences(real, real != PAD, SENTENCEPIECE_IDS), config)
        assert alone[0].tokens == together[row][0].tokens


def test_an_ensemble_of_prepared_models_is_one_of_the_models():
    members = [model("plain"), model("gdr-said")]
    ids, mask = sources(3, 6)
    sentences, config = Sentences(ids, mask, SENTENCEPIECE_IDS), DecodeConfig(beam=3, max_length=9)
    expected = search(Ensemble(members), sentences, config)
    found = search(Ensemble([prepare(member) for member in members]), sentences, config)
    assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]


def test_changed_weights_are_noticed():
    general = model("plain")
    prepared = prepare(general)
    assert prepared.is_current
    with torch.no_grad():
        next(general.parameters()).mul_(2.0)
    assert not prepared.is_current
    prepared = prepare(general)
    general.load_state_dict(model("plain").state_dict())
    assert not prepared.is_current


def test_other_backbones_and_kinds_of_numbers_stay_as_they_are():
    recurrent = toy_model((SIZE, SIZE), backbone="rnmt")
    assert prepare(recurrent) is recurrent
    half = model("plain").double()
    assert prepare(half) is half
    for refused, word in ((recurrent, "another backbone"), (half, "float64 on cpu")):
        with pytest.raises(UntoldError, match=f"decode.int8 is for Transformers.*{word}"):
            prepare(refused, int8=True)


def test_a_machine_without_8_bit_products_says_so(monkeypatch):
    monkeypatch.setattr("untold.inference.model.has_int8", lambda: False)
    with pytest.raises(UntoldError, match=r"decode\.int8.*leave it out"):
        prepare(model("plain"), int8=True)


@pytest.mark.skipif(not has_int8(), reason="nothing multiplies 8-bit numbers here")
@pytest.mark.parametrize("form", ["plain", "gdr-said"])
def test_8_bits_translate_nearly_alike_and_each_sentence_by_itself(form, monkeypatch):
    monkeypatch.setattr("untold.inference.linear._LARGE", 0)
    general = model(form)
    rounded = prepare(general, int8=True)
    ids, mask = sources(5, 5)
    last = torch.tensor([[BOS], [BOS]])
    with torch.inference_mode():
        exact, near, alone = (
            side.step(source := side.encode(ids[k:], mask[k:]), last[k:], side.start(source, 1))
            for side, k in ((general, 0), (rounded, 0), (rounded, 1))
        )
    assert not torch.equal(exact.logits, near.logits)
    assert (exact.logits - near.logits).abs().max() < 0.1 * exact.logits.abs().max()
    torch.testing.assert_close(alone.logits, near.logits[1:], rtol=1e-3, atol=3e-4)
