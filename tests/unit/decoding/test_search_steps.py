"""The steps of a search: what each shows, that they lead to its end, and that it can be stopped."""

import math
from dataclasses import replace

import pytest
import torch

from toys import EOS, collate, separator, toy_model, words
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import beam_search, search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.decoding.penalties import length_penalty
from untold.decoding.scoring import score_pairs

IDS = words(3, 5)
SOURCES = Sentences(IDS, torch.arange(5) < torch.tensor([[5], [2], [4]]), SENTENCEPIECE_IDS)
SETTINGS = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "nbest": 2},
    "sampling": {"nbest": 3, "temperature": 2.0},
    "coverage": {"beam": 3, "coverage_penalty": 0.4},
    "long": {"beam": 3, "min_length": 3},
}
SIGNALS = ("attention", "assignments")


def settings(name):
    return DecodeConfig.model_validate({"max_length": 9} | SETTINGS[name])


def model_of(members):
    models = [toy_model(separator=separator(kind)) for kind in members]
    return Ensemble(models) if len(models) > 1 else models[0]


def same_signals(one, other):
    for name in SIGNALS:
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0)


@pytest.mark.parametrize("members", [("gdr-dot",), ("gdr-dot", "clf")])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_last_step_is_what_search_returns(name, members):
    model, config = model_of(members), settings(name)
    found = search(model, SOURCES, config, SIGNALS)
    *_, last = beam_search(model, SOURCES, config, SIGNALS)
    assert not len(last.live)
    assert last.nbest() == found
    assert last.best() == [hypotheses[0] for hypotheses in found]
    for one, (other, *_) in zip(last.best(), found, strict=True):
        same_signals(one, other)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_step_shows_the_best_hypotheses_with_what_the_model_showed(name):
    """Rescoring what is shown gives the same numbers: it is a real path, not a mixture."""
    model, config = model_of(["gdr-dot"]), settings(name)
    growing = 0
    for number, step in enumerate(beam_search(model, SOURCES, config, SIGNALS), start=1):
        assert step.length == number
        for row, hypothesis in enumerate(step.best()):
            source = IDS[row, SOURCES.source_mask[row]]
            rows = len(hypothesis.tokens) + hypothesis.complete
            assert hypothesis.assignments.shape == (rows, len(source), 3)
            assert hypothesis.attention.shape == (rows, len(source))
            if hypothesis.complete:
                assert len(hypothesis.tokens) < number
                continue
            growing += 1
            assert len(hypothesis.tokens) == number and not hypothesis.finished
            penalty = length_penalty(float(number), config.length_penalty)
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / penalty)
            ids, mask = source[None], torch.ones(1, len(source), dtype=torch.bool)
            batch = collate([(source[:-1].tolist(), hypothesis.tokens)], [0])
            batch = replace(batch, source=ids, source_mask=mask, source_words=mask)
            (scored,) = score_pairs(model, batch, 0.0, attention=True)
            values = scored.token_log_probabilities[:-1]
            assert hypothesis.token_log_probabilities == pytest.approx(values, abs=1e-4)
            assert hypothesis.log_probability == pytest.approx(sum(values), abs=1e-4)
            torch.testing.assert_close(
                hypothesis.assignments, scored.assignments[:-1], rtol=1e-3, atol=1e-4
            )
    assert growing


def test_a_step_can_be_asked_later(table_model):
    logits = torch.sin(torch.arange(3 * 7 * 7).view(3, 7, 7).float())
    logits[..., EOS] += 1.0
    sentences = Sentences(torch.arange(3)[:, None], torch.ones(3, 1) > 0, SENTENCEPIECE_IDS)
    config = DecodeConfig(beam=3, nbest=2, max_length=9)
    now = [step.best() for step in beam_search(table_model(logits), sentences, config)]
    later = [step.best() for step in list(beam_search(table_model(logits), sentences, config))]
    assert now == later and len(now) > 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_closed_search_asks_the_model_no_more(table_model, temperature):
    model = table_model(torch.zeros(1, 7, 7))
    ids = torch.zeros(1, 1, dtype=torch.long)
    config = DecodeConfig(beam=2, min_length=10, max_length=20, temperature=temperature)
    steps = beam_search(model, Sentences(ids, ids == 0, SENTENCEPIECE_IDS), config)
    assert model.rows == [], "nothing runs before it is asked for"
    next(steps)
    next(steps)
    steps.close()
    assert len(model.rows) == 2
    assert next(steps, None) is None


def test_between_steps_the_caller_keeps_its_gradients(table_model):
    ids = torch.zeros(1, 1, dtype=torch.long)
    steps = beam_search(
        table_model(torch.zeros(1, 7, 7)),
        Sentences(ids, ids == 0, SENTENCEPIECE_IDS),
        DecodeConfig(beam=2, min_length=3),
    )
    for step in steps:
        assert not torch.is_inference_mode_enabled()
        assert step.best()


@pytest.mark.parametrize("name", ["greedy", "beam", "sampling"])
def test_a_prefix_is_there_from_the_first_step_on(name):
    prefix, model = (7, 4, 9), toy_model()
    sentences = replace(SOURCES, prefixes=((), prefix, ()))
    for step in beam_search(model, sentences, settings(name)):
        tokens = step.best()[1].tokens
        assert tokens[: len(prefix)] == prefix[: len(tokens)]


def test_live_sentences_become_fewer(table_model):
    logits = torch.zeros(2, 7, 7)
    logits[1, :, EOS] = 30.0
    logits[0, :, 4] = 9.0
    sentences = Sentences(torch.tensor([[0], [1]]), torch.ones(2, 1) > 0, SENTENCEPIECE_IDS)
    steps = beam_search(table_model(logits), sentences, DecodeConfig(beam=1, max_length=4))
    assert [step.live for step in steps] == [(0,), (0,), (0,), ()]


@pytest.mark.parametrize(("chance", "complete"), [(0.1, False), (0.7, True)])
def test_the_best_so_far_is_the_one_with_the_better_score(table_model, chance, complete):
    """At the first step EOS has this chance, and another token nearly all the rest."""
    logits = torch.full((1, 7, 7), -30.0)
    logits[0, 2, [EOS, 5]] = torch.tensor([chance, 1 - chance]).log()
    logits[0, 5, 5] = 0.0
    ids = torch.zeros(1, 1, dtype=torch.long)
    config = DecodeConfig(beam=2, max_length=9, length_penalty=2.0)
    steps = beam_search(table_model(logits), Sentences(ids, ids == 0, SENTENCEPIECE_IDS), config)
    (best,) = next(steps).best()
    assert best.complete == complete
    assert best.tokens == (() if complete else (5,))
    assert best.log_probability == pytest.approx(math.log(max(chance, 1 - chance)), abs=1e-5)
    assert next(steps).live == (0,), "the search goes on in either case"
