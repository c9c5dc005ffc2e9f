"""Beam search, and sampling in the same loop. A beam of one is greedy search.

Every sentence has room for `beam` hypotheses. Each step keeps its best continuations. One that ends
in EOS is scored with the penalties and put aside, and leaves room for one less. A sentence is done
when all have ended, or when no growing hypothesis can enter the n-best list any more: since
log-probabilities only fall, log p / length_penalty(limit) bounds the score that a hypothesis can
reach, and the coverage penalty only lowers it. A beam wide enough to hold everything is therefore
exhaustive search.

    search(...)        runs to the end and returns n-best lists
    beam_search(...)   yields a SearchStep after every token

Ties go to the lower beam, then to the lower token id. A sentence that is alone is ranked in plain
Python numbers, which costs less than a handful of tensor operations; many sentences are ranked in
tensors. Both give the same candidates.

What is drawn for a sentence hangs on the seed and on its index alone. Samples keep the scores of
the model itself, without temperature.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config.decode import DecodeConfig
from untold.decoding.constraints import Constraints
from untold.decoding.hypotheses import (
    NOT_NUMBERS,
    BackPointers,
    End,
    FinishedHypotheses,
    Hypothesis,
    Searchable,
    Sentences,
)
from untold.decoding.penalties import CoveragePenalty, Covered, length_penalty
from untold.errors import UntoldError
from untold.inference.kernels import load
from untold.models.signals import Step

# Continues one hypothesis of a sentence: (log-probability of the whole hypothesis, the beam that it
# continues, its token, the token's log-probability). A search makes thousands: plain tuples.
Candidate = tuple[float, int, int, float]

_MOST_OF_KERNEL = 64  # tokens


def best_candidates(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    """Finds the best continuations of all beams, best first, as many as a sentence has `room` for.

    A score of -inf marks a beam without a hypothesis.
    """
    if not max(room):
        return [[] for _ in scores]
    if len(scores) == 1:
        return [_rank_alone(log_probs[0], scores[0], room[0])]
    return _rank_many(log_probs, scores, room)


def _rank_alone(
    log_probs: Float[Tensor, "n v"], scores: Sequence[float], room: int
) -> list[Candidate]:
    if room == 1 and len(scores) == 1:  # of equal ones torch returns the first
        value, token = (part.item() for part in log_probs.max(-1))
        return [(scores[0] + value, 0, int(token), value)] if value > -math.inf else []
    values, tokens = (part.tolist() for part in best_tokens(log_probs, room))
    ranked = [
        (-(score + value), beam, token, value)
        for beam, score in enumerate(scores)
        for value, token in zip(values[beam], tokens[beam], strict=True)
        if score + value > -math.inf
    ]
    ranked.sort()
    return [(-score, beam, token, value) for score, beam, token, value in ranked[:room]]


def _rank_many(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    most = max(room)
    tokens = best_tokens(log_probs, most)[1].sort(-1).values  # (b n k)
    values = log_probs.gather(-1, tokens)
    before = torch.tensor(scores, dtype=torch.float64, device=log_probs.device)
    totals, order = (before[..., None] + values).flatten(1).sort(descending=True, stable=True)
    totals, order = totals[:, :most], order[:, :most]  # (b m)
    columns = (
        totals.tolist(),
        (order // values.shape[-1]).tolist(),
        tokens.flatten(1).gather(1, order).tolist(),
        values.flatten(1).gather(1, order).tolist(),
    )
    candidates = []
    for places, *rows in zip(room, *columns, strict=True):
        ranked = list(zip(*rows, strict=True))[:places]
        if ranked and ranked[-1][0] == -math.inf:  # they are sorted
            ranked = [candidate for candidate in ranked if candidate[0] > -math.inf]
        candidates.append(ranked)
    return candidates


def best_tokens(
    log_probs: Float[Tensor, "*b v"], count: int
) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """Finds the best tokens of each row: topk, but of equal tokens the lower ids are better.

    A compiled kernel finds them in one pass. It keeps them sorted, which is slow for many.
    """
    *rows, size = log_probs.shape
    count, kernels, is_common = min(count, size), load(), log_probs.dtype == torch.float32
    if kernels is not None and is_common and log_probs.is_cpu and count <= _MOST_OF_KERNEL:
        log_probs = log_probs.contiguous()
        values = log_probs.new_empty(*rows, count)
        tokens = torch.empty(*rows, count, dtype=torch.long)
        addresses = values.data_ptr(), tokens.data_ptr()
        kernels.largest(log_probs.data_ptr(), size, count, log_probs.numel() // size, *addresses)
        return values, tokens
    values, tokens = log_probs.topk(min(count + 1, size))
    tied = values[..., count - 1] == values[..., -1]
    values, tokens = values[..., :count], tokens[..., :count]
    if count < size and bool(tied.any()):  # topk returns any of the tied tokens
        values, tokens = log_probs.sort(descending=True, stable=True)
    return values[..., :count], tokens[..., :count]


def continue_with(
    tokens: Int[Tensor, "b 1"], log_probs: Float[Tensor, "b 1 v"], scores: Sequence[Sequence[float]]
) -> list[list[Candidate]]:
    """Continues each sentence's only hypothesis with a given token."""
    values = log_probs.gather(-1, tokens[..., None]).flatten().tolist()
    continued = zip((row[0] for row in scores), tokens.flatten().tolist(), values, strict=True)
    return [[(score + value, 0, token, value)] for score, token, value in continued]


def search(
    model: Searchable,
    sentences: Sentences,
    config: DecodeConfig,
    wanted: Collection[str] = (),
) -> list[list[Hypothesis]]:
    """Finds the `nbest` translations of each sentence, best first; fewer if there are no more.

    `wanted` names the Signals that the hypotheses carry. Put the model in evaluation mode first.
    """
    last = deque(beam_search(model, sentences, config, wanted), maxlen=1)
    return last[0].nbest() if last else []


def beam_search(
    model: Searchable,
    sentences: Sentences,
    config: DecodeConfig,
    wanted: Collection[str] = (),
) -> Iterator["SearchStep"]:
    """Yields the state of the search after every token; the last state has the n-best lists.

    With a temperature, `nbest` hypotheses of each sentence continue with random tokens. Close the
    generator to stop early. `Sentences.prefixes` force how translations begin.
    """
    if not len(sentences.source_ids):
        return
    chances = None
    with torch.inference_mode():
        if config.temperature:
            sentences = sentences.repeated(config.nbest)
        source = model.encode(sentences.source_ids, sentences.source_mask)
        state, step = model.start(source, 1), _start(sentences, config)
        if config.temperature:
            chances = uniforms(sentences, config, step.constraints.limits)
    covered = step.covered
    attention = "attention" in wanted or (covered is not None and covered.rule.by_attention)
    while len(step.live):
        with torch.inference_mode():  # not around `yield`: it would stay on in the caller
            predicted = model.step(source, step.last, state, attention=attention)
            state = predicted.state  # nothing holds the caches of the step before any more
            if wanted:
                shown = predicted.signals.only(wanted)
                step.pointers.show(shown.map(lambda values: values.flatten(0, 1)))
            log_probs = _allowed(predicted.logits, step)
            if chances is None:
                room = [config.beam - step.finished.counts[number] for number in step.live]
                candidates = best_candidates(log_probs, step.scores, room)
            else:
                due = chances[list(step.live), step.length, None]
                tokens = draw(log_probs, due, config.temperature)
                candidates = continue_with(tokens, log_probs, step.scores)
            step, source, state = _advance(step, predicted, candidates, source)
            del predicted, log_probs  # frees the largest tensors before the model runs again
        yield step


@dataclass(frozen=True)
class SearchStep:
    """Holds the state of a search: n growing hypotheses of each sentence that is not done.

    A score of -inf marks a place without a hypothesis. If the search samples, each sample counts as
    a sentence of its own in `sentences` and `live`.
    """

    sentences: Sentences  # all of the batch
    config: DecodeConfig
    length: int  # tokens that each growing hypothesis has
    live: tuple[int, ...]  # places in the batch of the b sentences that are not done
    constraints: Constraints
    bounds: Sequence[float]  # of b: the length penalty at the length limit
    last: Int[Tensor, "b n"]
    scores: Sequence[Sequence[float]]  # of b, n each: log-probabilities so far, best first
    covered: Covered | None  # with a coverage penalty
    pointers: BackPointers
    finished: FinishedHypotheses

    def best(self) -> list[Hypothesis]:
        """Builds the best hypothesis so far of each sentence, finished or growing.

        A growing hypothesis is scored with the length penalty of its present length and without a
        coverage penalty.
        """
        options = [ends[:1] for ends in self.finished.best]
        penalty = length_penalty(float(self.length), self.config.length_penalty)
        width = self.last.shape[1]
        for position, number in enumerate(self.live):
            total = self.scores[position][0]
            growing = End(total / penalty, total, self.length, position * width)
            options[number] = (*options[number], growing)
        return [hypotheses[0] for hypotheses in self._build(options, best_only=True)]

    def nbest(self) -> list[list[Hypothesis]]:
        """Builds the finished hypotheses of each sentence, best first: at least one."""
        return self._build(self.finished.best)

    def ended(self, finished: FinishedHypotheses) -> "SearchStep":
        """Adds the last token: no sentence is live any more."""
        return replace(
            self,
            length=self.length + 1,
            live=(),
            bounds=(),
            last=self.last[:0],
            scores=(),
            finished=finished,
        )

    def _build(
        self, ends: Sequence[tuple[End, ...]], *, best_only: bool = False
    ) -> list[list[Hypothesis]]:
        """Builds hypotheses, sorted by score; samples of one sentence form one list."""
        for number, options in enumerate(ends):
            if not options:
                raise UntoldError(
                    f"{self.sentences.name(number)}: the model gives no probability to any "
                    "translation that the limits and constraints allow"
                )
        samples = self.config.nbest if self.config.temperature else 1
        groups = []
        for first in range(0, len(ends), samples):
            group = [(k, end) for k in range(first, first + samples) for end in ends[k]]
            group.sort(key=lambda pair: -pair[1].score)
            groups.append(group[:1] if best_only else group)
        chosen = [pair for group in groups for pair in group]
        hypotheses = iter(self.pointers.hypotheses(chosen, self.sentences.source_mask))
        return [[next(hypotheses) for _ in group] for group in groups]


def _start(sentences: Sentences, config: DecodeConfig) -> SearchStep:
    """Begins one empty hypothesis of each sentence."""
    ids, device, covered = sentences.source_ids, sentences.source_ids.device, None
    constraints = Constraints.of(sentences, config)
    if (coverage := CoveragePenalty.of(config)) is not None:
        covered = Covered.nothing(coverage, sentences.words(), 1)
    bounds = length_penalty(constraints.limits.double(), config.length_penalty)
    last = torch.full((len(ids), 1), sentences.special.bos, device=device)
    size = 1 if config.temperature else config.nbest
    return SearchStep(
        sentences=sentences,
        config=config,
        length=0,
        live=tuple(range(len(ids))),
        constraints=constraints,
        bounds=bounds.tolist(),
        last=last,
        scores=[(0.0,)] * len(ids),
        covered=covered,
        pointers=BackPointers([sentences.special.bos] * len(ids)),
        finished=FinishedHypotheses.none(len(ids), size),
    )


def _allowed(logits: Float[Tensor, "b n v"], step: SearchStep) -> Float[Tensor, "b n v"]:
    """Computes the log-probabilities of the tokens that may come next; the others get -inf."""
    log_probs = logits.float()
    # In place, for memory's sake; and measured faster than logsumexp, which takes more passes.
    torch.log_softmax(log_probs, -1, out=log_probs)
    # One NaN or +inf, or nothing but -inf, among the logits makes NaN of a whole row.
    for number, row, scores in zip(step.live, log_probs[..., 0].tolist(), step.scores, strict=True):
        if any(x != x and score > -math.inf for x, score in zip(row, scores, strict=True)):
            raise UntoldError(f"{step.sentences.name(number)}: {NOT_NUMBERS}")
    step.constraints.apply(log_probs, step.length)
    return log_probs


def _advance(
    step: SearchStep, predicted: Step, candidates: list[list[Candidate]], source: Any
) -> tuple[SearchStep, Any, Any]:
    """Puts finished candidates aside, drops sentences that are done and grows the others.

    Returns the new step, and the source and decoder state of its hypotheses.
    """
    eos, finished, covered = step.sentences.special.eos, step.finished, step.covered
    if covered is not None:
        covered = covered.after(predicted.signals)
    if any(token == eos for ranked in candidates for _, _, token, _ in ranked):
        finished = finished.add(_ends(step, candidates, covered))
        candidates = [[one for one in ranked if one[2] != eos] for ranked in candidates]
    growing = [
        (position, ranked)
        for position, (ranked, bound) in enumerate(zip(candidates, step.bounds, strict=True))
        if ranked and ranked[0][0] / bound > finished.worst[step.live[position]]
    ]
    if not growing:
        return step.ended(finished), source, predicted.state
    if finished is not step.finished or covered is not None:
        step = replace(step, covered=covered, finished=finished)
    return _grow(step, growing, source, predicted.state)


def _grow(
    step: SearchStep, growing: list[tuple[int, list[Candidate]]], source: Any, state: Any
) -> tuple[SearchStep, Any, Any]:
    """Adds one token to the hypotheses of the sentences that go on, given by position."""
    device, beams = step.last.device, step.last.shape[1]
    width = max(len(ranked) for _, ranked in growing)
    nothing = (-math.inf, 0, step.sentences.special.pad, -math.inf)
    padded = [(p, ranked + [nothing] * (width - len(ranked))) for p, ranked in growing]
    rows = [p * beams + beam for p, ranked in padded for _, beam, _, _ in ranked]
    tokens = [token for _, ranked in padded for _, _, token, _ in ranked]
    log_probs = [log_prob for _, ranked in padded for *_, log_prob in ranked]
    step.pointers.append(rows, tokens, log_probs)
    if rows != list(range(step.last.numel())):
        state = state.select(torch.tensor(rows, device=device))
    live, constraints, bounds, covered = step.live, step.constraints, step.bounds, step.covered
    if len(growing) < len(live):
        still = torch.tensor([position for position, _ in growing], device=device)
        constraints, source = constraints.select(still), source.select(still)
        live, bounds = tuple(live[p] for p, _ in growing), [bounds[p] for p, _ in growing]
    if covered is not None:
        covered = covered.select([position for position, _ in growing], rows)
    grown = replace(
        step,
        length=step.length + 1,
        live=live,
        constraints=constraints,
        bounds=bounds,
        last=torch.tensor(tokens, device=device).view(len(growing), width),
        scores=[[score for score, *_ in ranked] for _, ranked in padded],
        covered=covered,
    )
    return grown, source, state


def _ends(
    step: SearchStep, candidates: list[list[Candidate]], covered: Covered | None
) -> Iterator[tuple[int, End]]:
    """Scores the candidates that end and yields them as (sentence, End)."""
    length, beams = step.length, step.last.shape[1]
    penalty = length_penalty(float(length + 1), step.config.length_penalty)
    uncovered = None if covered is None else covered.penalties().tolist()
    limits = step.constraints.limits.tolist()
    for position, (number, ranked) in enumerate(zip(step.live, candidates, strict=True)):
        for whole, beam, token, log_prob in ranked:
            if token != step.sentences.special.eos:
                continue
            score = whole / penalty + (uncovered[position][beam] if uncovered else 0.0)
            by_itself = limits[position] > length + 1
            if score > -math.inf:
                row = position * beams + beam
                yield number, End(score, whole, length, row, log_prob, by_itself)


def draw(
    log_probs: Float[Tensor, "b n v"], chances: Float64[Tensor, "b n"], temperature: float
) -> Int[Tensor, "b n"]:
    """Finds the token at which the cumulated probabilities pass the chance, a number in [0, 1)."""
    cumulated = (log_probs / temperature).softmax(-1).double().cumsum(-1)
    total = cumulated[..., -1:]
    # Rounding may take the product up to the total itself, beyond the last token.
    passed = torch.minimum(chances[..., None] * total, total.nextafter(torch.zeros_like(total)))
    places = torch.searchsorted(cumulated, passed, right=True)
    return places.clamp(max=log_probs.shape[-1] - 1).squeeze(-1)


def uniforms(
    samples: Sentences, config: DecodeConfig, limits: Int[Tensor, " b"]
) -> Float64[Tensor, "b t"]:
    """Draws chances for every step of every sample, seeded by (seed, index, number of sample)."""
    chances = torch.zeros(len(samples), int(limits.max()), dtype=torch.float64)
    for row, limit in enumerate(limits.tolist()):
        key = (config.seed, samples.index(row), row % config.nbest)
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)
        chances[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    return chances.to(limits.device)
