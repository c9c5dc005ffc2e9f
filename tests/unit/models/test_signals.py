"""Signals: every field goes everywhere, and a new one is one field."""

import os
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch

from toys import toy_model, words
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.models.seq2seq import Outputs
from untold.models.signals import NO_SIGNALS, Signals, Step
from untold.translator import Translation

NAMES = [field.name for field in fields(Signals)]
TAILS = {"attention": (5,), "assignments": (5, 3), "copying": (5,)}


def one(name, first=0.0, rows=2):
    shape = (rows, *TAILS[name])
    return Signals(**{name: first + torch.arange(float(np.prod(shape))).view(shape)})


def test_every_signal_has_a_shape_here():
    assert set(NAMES) == set(TAILS), "a new signal needs its shape in this test, too"


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_survives_all_methods(name):
    signals = one(name)
    values = getattr(signals, name)
    others = [other for other in NAMES if other != name]
    for found, expected in (
        (signals.select(torch.tensor([1, 0, 1])), values[[1, 0, 1]]),
        (signals.cpu(), values),
        (signals.map(lambda each: each * 2), values * 2),
        (signals.only([name]), values),
        (Signals.mean([signals, NO_SIGNALS, one(name, first=4.0)]), values + 2),
        (Signals.combine([signals, signals], torch.cat), torch.cat([values, values])),
    ):
        assert torch.equal(getattr(found, name), expected)
        assert all(getattr(found, other) is None for other in others)
    array = getattr(signals.map(lambda each: each.bfloat16()).numpy(), name)
    assert isinstance(array, np.ndarray) and array.dtype == np.float32
    assert getattr(signals.only(others), name) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_is_read_from_whatever_carries_it(name):
    signals = one(name)
    array = signals.numpy()
    translation = Translation("", 0.0, 0.0, (), (), signals=array)
    assert getattr(translation, name) is getattr(array, name)
    for kind in (Outputs, Step):
        assert isinstance(getattr(kind, name), property)


@pytest.mark.skipif(os.environ.get("UNTOLD_TYPECHECK") != "1", reason="UNTOLD_TYPECHECK is not 1")
def test_source_tokens_are_the_same_for_all_signals():
    with pytest.raises(Exception, match="copying"):
        Signals(attention=torch.zeros(2, 5), copying=torch.zeros(2, 4))


def test_an_unknown_signal_is_refused_by_its_name():
    with pytest.raises(UntoldError, match="unknown signal atention: choose from attention, "):
        NO_SIGNALS.only({"atention"})


@dataclass(frozen=True)
class MoreSignals(Signals):
    """One more field is all that a new signal needs."""

    surprise: object = None


class Surprised:
    """Adds a signal to those of a model: the id of the last token, at every source token."""

    def __init__(self, model, scale=1.0):
        self.model, self.scale = model, scale

    def __getattr__(self, name):
        return getattr(self.model, name)

    def step(self, source, last, state, *, attention=False):
        step = self.model.step(source, last, state, attention=attention)
        surprise = last[..., None] * self.scale * torch.ones(source.mask.shape[1])
        return replace(step, signals=MoreSignals(**vars(step.signals), surprise=surprise))


SOURCES = Sentences(words(3, 5), torch.arange(5) < torch.tensor([[5], [2], [4]]), SENTENCEPIECE_IDS)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_made_up_signal_comes_out_of_the_search_along_the_path_of_its_hypothesis(temperature):
    config = DecodeConfig(beam=4, nbest=3, max_length=9, temperature=temperature)
    found = search(Surprised(toy_model()), SOURCES, config, {"surprise", "attention"})
    for real, hypotheses in zip(SOURCES.source_mask.sum(1).tolist(), found, strict=True):
        for hypothesis in hypotheses:
            read = torch.tensor([SENTENCEPIECE_IDS.bos, *hypothesis.tokens]).float()
            expected = read[:, None].expand(-1, real)
            assert torch.equal(hypothesis.signals.surprise, expected)
            assert hypothesis.attention.shape == expected.shape
            assert hypothesis.copying is None


def test_an_ensemble_averages_a_made_up_signal():
    ensemble = Ensemble([Surprised(toy_model(), 1.0), Surprised(toy_model(), 3.0)])
    found = search(ensemble, SOURCES, DecodeConfig(beam=2, max_length=5), {"surprise"})
    for (hypothesis,) in found:
        read = [SENTENCEPIECE_IDS.bos, *hypothesis.tokens]
        assert hypothesis.signals.surprise[:, 0].tolist() == [2.0 * token for token in read]
