"""Search against exhaustive search and plain Python, with a model that remembers all it read."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toys import BOS, EOS, collate, pad_rows
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.decoding.penalties import CoveragePenalty
from untold.decoding.scoring import score_pairs
from untold.models.signals import Signals, Step

SIZE = 7  # four control tokens and three words


@dataclass(frozen=True)
class Memory:
    """One number for each row, which select picks from."""

    values: torch.Tensor

    def select(self, rows):
        return Memory(self.values[rows])


class HistoryModel:
    """Logits by closed formula from a hash of the source and of the whole prefix."""

    def __init__(self, size=SIZE, sharpness=2.0):
        self.size, self.sharpness = size, sharpness
        self.words = range(4, size)

    def encode(self, ids, mask):
        places = torch.arange(1, ids.shape[1] + 1)
        return Memory(torch.cat([(ids * places * mask).sum(1, keepdim=True), mask.long()], dim=1))

    def start(self, source, beams):
        return Memory(source.values[:, :1].repeat_interleave(beams, 0).squeeze(1))

    def step(self, source, last, state, *, attention=False):
        assert len(source.values) == len(last) and last.numel() == len(state.values)
        values = _hash(state.values, last.flatten())
        logits = self._logits(values).view(*last.shape, -1)
        weights = _weights(values.view(last.shape), source.values[:, 1:]) if attention else None
        return Step(logits, Memory(values), Signals(attention=weights))

    def __call__(self, source_ids, source_mask, prefix, *, attention=False):
        source = self.encode(source_ids, source_mask)
        values, seen = source.values[:, 0], []
        for tokens in prefix.unbind(1):
            values = _hash(values, tokens)
            seen.append(values)
        values = torch.stack(seen, 1)
        weights = _weights(values, source.values[:, 1:]) if attention else None
        return SimpleNamespace(holistic=self._logits(values), signals=Signals(attention=weights))

    def scores(self, outputs, rows, steps):
        return outputs.holistic[rows, steps].clone()

    def output_embedding(self):
        return torch.eye(self.size)

    def _logits(self, values):
        tokens = torch.arange(self.size).double()
        return (self.sharpness * torch.sin(values[..., None] * (tokens + 1.3) + tokens)).float()


def _hash(values, tokens):
    return (values * 31 + tokens * 17 + 7) % 1009


def _weights(values, mask):
    places = torch.arange(mask.shape[1]).double()
    scores = torch.sin(values[..., None] * (places + 0.7)).float()
    return scores.masked_fill(mask[:, None] == 0, -torch.inf).softmax(-1)


def batch_of(sources, **given):
    rows = [[*source, EOS] for source in sources]
    return Sentences(*pad_rows(rows), SENTENCEPIECE_IDS, **given)


def limit_of(source, config):
    limit = math.ceil(config.max_ratio * (len(source) + 1)) + 10
    return min(max(limit, config.min_length + 1), config.max_length)


def next_log_probs(model, source, tokens):
    sentences = batch_of([source])
    outputs = model(sentences.source_ids, sentences.source_mask, torch.tensor([[BOS, *tokens]]))
    return outputs.holistic[0, -1].log_softmax(-1).tolist()


def uncovered(model, source, tokens, beta):
    """GNMT's coverage penalty, word by word of the source; its EOS is none."""
    sentences = batch_of([source])
    prefix = torch.tensor([[BOS, *tokens]])
    outputs = model(sentences.source_ids, sentences.source_mask, prefix, attention=True)
    weights = outputs.signals.attention[0].tolist()
    covered = [sum(step[place] for step in weights) for place in range(len(source))]
    return beta * sum(math.log(min(amount, 1.0)) for amount in covered)


def final(model, source, tokens, total, config):
    """The score of a translation whose tokens and end have log-probability `total`."""
    penalty = ((5 + len(tokens) + 1) / 6) ** config.length_penalty
    return total / penalty + uncovered(model, source, tokens, config.coverage_penalty)


def allowed(words, tokens, limit, config, prefix=()):
    """The tokens that may follow, by the plain words of the documentation."""
    if len(tokens) < len(prefix):
        return [prefix[len(tokens)]]
    if len(tokens) == limit - 1:
        return [EOS]
    return ([EOS] if len(tokens) >= config.min_length else []) + list(words) or [EOS]


def exhaustive(model, source, config):
    """Every translation that is allowed with its score, best first."""
    limit, found = limit_of(source, config), []

    def grow(tokens, total):
        log_probs = next_log_probs(model, source, tokens)
        for token in allowed(model.words, tokens, limit, config):
            if token == EOS:
                score = final(model, source, tokens, total + log_probs[EOS], config)
                found.append((score, tokens))
            else:
                grow((*tokens, token), total + log_probs[token])

    grow((), 0.0)
    return sorted(found, key=lambda pair: -pair[0])


def plain_beam_search(model, source, config, prefix=()):
    """The search as one would explain it, one hypothesis at a time."""
    limit, alpha = limit_of(source, config), config.length_penalty
    live, done, room = [(0.0, ())], [], config.beam
    while True:
        options = []
        for beam, (total, tokens) in enumerate(live):
            log_probs = next_log_probs(model, source, tokens)
            for token in allowed(model.words, tokens, limit, config, prefix):
                options.append((-(total + log_probs[token]), beam, token))
        best = [(-cost, live[beam][1], token) for cost, beam, token in sorted(options)[:room]]
        ends = [(total, tokens) for total, tokens, token in best if token == EOS]
        done += [(final(model, source, tokens, total, config), tokens) for total, tokens in ends]
        done = sorted(done, key=lambda pair: -pair[0])[: config.nbest]
        live = [(total, (*tokens, token)) for total, tokens, token in best if token != EOS]
        room -= len(best) - len(live)
        worst = done[-1][0] if len(done) == config.nbest else -math.inf
        if not live or live[0][0] / ((5 + limit) / 6) ** alpha <= worst:
            return done


def same(hypotheses, expected):
    assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
    assert [h.score for h in hypotheses] == pytest.approx(
        [score for score, _ in expected], abs=1e-5
    )


sources = st.lists(st.lists(st.integers(4, 30), min_size=1, max_size=5), min_size=1, max_size=4)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
betas = st.sampled_from([0.0, 0.2, 3.0])


@settings(max_examples=20, deadline=None)
@given(
    batch=sources,
    alpha=alphas,
    beta=betas,
    nbest=st.integers(1, 9),
    shortest=st.integers(0, 2),
)
def test_a_wide_beam_is_exhaustive_search(batch, alpha, beta, nbest, shortest):
    config = DecodeConfig(
        beam=128,
        nbest=nbest,
        length_penalty=alpha,
        coverage_penalty=beta,
        max_length=4,
        min_length=shortest,
    )
    model = HistoryModel()
    for source, hypotheses in zip(batch, search(model, batch_of(batch), config), strict=True):
        same(hypotheses, exhaustive(model, source, config)[:nbest])


@settings(max_examples=30, deadline=None)
@given(
    batch=sources,
    alpha=alphas,
    beta=betas,
    beam=st.integers(1, 6),
    data=st.data(),
    shortest=st.integers(0, 3),
    longest=st.integers(4, 12),
)
def test_the_search_is_the_plain_one(batch, alpha, beta, beam, data, shortest, longest):
    config = DecodeConfig(
        beam=beam,
        nbest=data.draw(st.integers(1, beam)),
        length_penalty=alpha,
        coverage_penalty=beta,
        max_length=longest,
        min_length=shortest,
    )
    model = HistoryModel()
    words = st.lists(st.sampled_from(model.words), max_size=3).map(tuple)
    prefixes = tuple(data.draw(words) for _ in batch)
    found = search(model, batch_of(batch, prefixes=prefixes), config)
    for source, prefix, hypotheses in zip(batch, prefixes, found, strict=True):
        same(hypotheses, plain_beam_search(model, source, config, prefix))
        assert all(h.tokens[: len(prefix)] == prefix for h in hypotheses)


@settings(max_examples=10, deadline=None)
@given(batch=sources, sample=st.booleans())
def test_neighbours_and_padding_change_nothing(batch, sample):
    config = DecodeConfig(nbest=3, max_length=12, temperature=float(sample), coverage_penalty=0.7)
    model, numbers = HistoryModel(), tuple(range(10, 10 + len(batch)))
    together = search(model, batch_of(batch, indices=numbers), config, {"attention"})
    for source, number, hypotheses in zip(batch, numbers, together, strict=True):
        (alone,) = search(model, batch_of([source], indices=(number,)), config, {"attention"})
        assert hypotheses == alone
        for one, other in zip(hypotheses, alone, strict=True):
            torch.testing.assert_close(one.attention, other.attention)


@settings(max_examples=20, deadline=None)
@given(batch=sources, alpha=alphas, beta=betas, sample=st.booleans(), members=st.integers(1, 2))
def test_reported_scores_are_what_rescoring_gives(batch, alpha, beta, sample, members):
    config = DecodeConfig(
        nbest=3,
        max_length=9,
        temperature=float(sample),
        length_penalty=alpha,
        coverage_penalty=beta,
    )
    models = [HistoryModel(sharpness=number + 1.0) for number in range(members)]
    model = Ensemble(models) if members > 1 else models[0]
    found = search(model, batch_of(batch), config, {"attention"})
    for source, hypotheses in zip(batch, found, strict=True):
        pairs = collate([(source, h.tokens) for h in hypotheses], range(len(hypotheses)))
        rescored = score_pairs(model, pairs, alpha, CoveragePenalty.of(config), attention=True)
        for one, other in zip(hypotheses, rescored, strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
            values = other.token_log_probabilities
            assert one.token_log_probabilities == pytest.approx(values, abs=1e-5)
            torch.testing.assert_close(one.attention, other.attention)


@settings(max_examples=10, deadline=None)
@given(batch=sources, beam=st.integers(1, 6))
def test_n_best_lists_are_sorted_and_distinct(batch, beam):
    config = DecodeConfig(beam=beam, nbest=beam, max_length=10)
    for hypotheses in search(HistoryModel(), batch_of(batch), config):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert sum(hypothesis.token_log_probabilities) == pytest.approx(
                hypothesis.log_probability
            )


def test_a_wide_vocabulary_takes_the_fast_way_to_the_same_end():
    """Long enough for the columns of the top-k; three words more than columns, to leave a rest."""
    model = HistoryModel(size=16 * 16 * 6 + 3, sharpness=9.0)
    config = DecodeConfig(beam=4, nbest=4, max_length=6)
    (found,) = search(model, batch_of([[5, 6, 7]]), config)
    same(found, plain_beam_search(model, [5, 6, 7], config))
