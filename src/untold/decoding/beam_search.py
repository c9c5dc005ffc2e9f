"""Beam search, and sampling in the same loop. A beam of one is greedy search.

Every sentence has room for `beam` hypotheses. Each step keeps its best continuations. One that ends
in EOS is scored with the penalties and put aside, and leaves room for one less. A sentence is done
when all have ended, or when no growing hypothesis can enter the n-best list any more: since
log-probabilities only fall, log p / length_penalty(limit) bounds the score that a hypothesis can
reach, and the coverage penalty only lowers it. A beam wide enough to hold everything is therefore
exhaustive search.

    search(...)        runs to the end and returns n-best lists
    beam_search(...)   yields a SearchStep after every token

Candidates of a search: the best continuations of the hypotheses of each sentence.

Ties go to the lower beam, then to the lower token id. A sentence that is alone is ranked in plain
Python numbers, which costs less than a handful of tensor operations; many sentences are ranked in
tensors. Both give the same candidates.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.config import DecodeConfig
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
from untold.decoding.penalties import CoveragePenalty, Covered, Telling, UntoldRule, length_penalty
from untold.decoding.sampling import best_tokens, draw, top, uniforms
from untold.errors import UntoldError
from untold.models.seq2seq import Step

# Continues one hypothesis of a sentence: (log-probability of the whole hypothesis, the beam that it
# continues, its token, the token's log-probability). A search makes thousands: plain tuples.
Candidate = tuple[float, int, int, float]


def best_candidates(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    """Finds the best continuations of all beams, best first, as many as a sentence has `room` for.

    A score of -inf marks a beam without a hypothesis.
    """
    if len(scores) == 1:
        alone = rank_alone(log_probs[0], scores[0], room[0])
        if alone is not None:
            return [alone]
    return rank_many(log_probs, scores, room)


def rank_alone(
    log_probs: Float[Tensor, "n v"], scores: Sequence[float], room: int
) -> list[Candidate] | None:
    """Ranks the continuations of one sentence; None if tokens at the edge of the best are tied."""
    if not room:
        return []
    if room == 1 and len(scores) == 1:  # of equal ones torch returns the first
        value, token = (part.item() for part in log_probs.max(-1))
        return [(scores[0] + value, 0, int(token), value)] if value > -math.inf else []
    values, tokens = top(log_probs, min(room + 1, log_probs.shape[-1]))
    found = []
    for beam, (score, row, ids) in enumerate(
        zip(scores, values.tolist(), tokens.tolist(), strict=True)
    ):
        if score == -math.inf:
            continue
        if len(row) > room and row[room] == row[room - 1] > -math.inf:
            return None  # torch returns any of the tied tokens
        found += [
            (-(score + value), beam, token, value)
            for value, token in zip(row[:room], ids[:room], strict=True)
            if value > -math.inf
        ]
    found.sort()
    return [(-score, beam, token, value) for score, beam, token, value in found[:room]]


def rank_many(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    """Ranks the continuations of several sentences."""
    most = max(room)
    if not most:
        return [[] for _ in scores]
    values, tokens = best_tokens(log_probs, most)  # in the order of their ids
    before = torch.tensor(scores, dtype=torch.float64, device=log_probs.device)
    totals, order = (before[..., None] + values).flatten(1).sort(descending=True, stable=True)
    totals, order = totals[:, :most], order[:, :most]
    width = values.shape[-1]
    columns = (
        totals.tolist(),
        (order // width).tolist(),
        tokens.flatten(1).gather(1, order).tolist(),
        values.flatten(1).gather(1, order).tolist(),
    )
    found = []
    for places, *rows in zip(room, *columns, strict=True):
        own = list(zip(*rows, strict=True))[:places]
        if own and own[-1][0] == -math.inf:  # they are sorted
            own = [each for each in own if each[0] > -math.inf]
        found.append(own)
    return found


def continue_with(
    tokens: Int[Tensor, "b 1"], log_probs: Float[Tensor, "b 1 v"], scores: Sequence[Sequence[float]]
) -> list[list[Candidate]]:
    """Continues each sentence's only hypothesis with a given token."""
    values = log_probs.gather(-1, tokens[..., None]).flatten().tolist()
    chosen = tokens.flatten().tolist()
    found = zip((row[0] for row in scores), chosen, values, strict=True)
    return [[(score + value, 0, token, value)] for score, token, value in found]


def search(
    model: Searchable,
    sentences: Sentences,
    config: DecodeConfig,
    wanted: Collection[str] = (),
    untold: UntoldRule | None = None,
) -> list[list[Hypothesis]]:
    """Finds the `nbest` translations of each sentence, best first; fewer if there are no more.

    `wanted` names the Signals that the hypotheses carry. Put the model in evaluation mode first.
    """
    last = deque(beam_search(model, sentences, config, wanted, untold), maxlen=1)
    return last[0].nbest() if last else []


def beam_search(
    model: Searchable,
    sentences: Sentences,
    config: DecodeConfig,
    wanted: Collection[str] = (),
    untold: UntoldRule | None = None,
) -> Iterator["SearchStep"]:
    """Yields the state of the search after every token; the last state has the n-best lists.

    With config.sample, `nbest` hypotheses of each sentence continue with random tokens. Close the
    generator to stop early. `Sentences.prefixes` force how translations begin.
    """
    if not len(sentences.source_ids):
        return
    chances = None
    with torch.inference_mode():
        if config.sample:
            sentences = sentences.repeated(config.nbest)
        source = model.encode(sentences.source_ids, sentences.source_mask)
        state, step = model.start(source, 1), _start(sentences, config, untold)
        if config.sample:
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
            if step.telling is not None:
                step = _tell(step, predicted, log_probs)
            if chances is None:
                room = [config.beam - step.finished.counts[number] for number in step.live]
                candidates = best_candidates(log_probs, step.scores, room)
            else:
                tokens = draw(log_probs, chances[list(step.live), step.length, None], config)
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
    telling: Telling | None  # with config.tell_all
    history: Int[Tensor, "b n t"] | None  # all tokens, with config.no_repeat_ngram
    pointers: BackPointers
    finished: FinishedHypotheses

    def best(self) -> list[Hypothesis]:
        """Builds the best hypothesis so far of each sentence, finished or growing.

        A growing hypothesis is scored with the length penalty of its present length and without a
        coverage penalty.
        """
        options = [kept[:1] for kept in self.finished.kept]
        penalty = length_penalty(float(self.length), self.config.length_penalty)
        width = self.last.shape[1]
        for position, number in enumerate(self.live):
            total = self.scores[position][0]
            growing = End(total / penalty, total, self.length, position * width)
            options[number] = (*options[number], growing)
        return [hypotheses[0] for hypotheses in self._build(options, best_only=True)]

    def nbest(self) -> list[list[Hypothesis]]:
        """Builds the finished hypotheses of each sentence, best first: at least one."""
        return self._build(self.finished.kept)

    def ended(self, finished: FinishedHypotheses) -> "SearchStep":
        """Adds the last token: no sentence is live any more."""
        return replace(
            self,
            length=self.length + 1,
            live=(),
            bounds=(),
            last=self.last[:0],
            scores=(),
            history=None,
            finished=finished,
        )

    def _build(
        self, ends: Sequence[tuple[End, ...]], *, best_only: bool = False
    ) -> list[list[Hypothesis]]:
        """Builds hypotheses, sorted by score; samples of one sentence form one list."""
        for number, own in enumerate(ends):
            if not own:
                raise UntoldError(
                    f"{self.sentences.name(number)}: the model gives no probability to any "
                    "translation that the limits and constraints allow"
                )
        samples = self.config.nbest if self.config.sample else 1
        groups = []
        for first in range(0, len(ends), samples):
            group = [(k, end) for k in range(first, first + samples) for end in ends[k]]
            group.sort(key=lambda pair: -pair[1].score)
            groups.append(group[:1] if best_only else group)
        chosen = [pair for group in groups for pair in group]
        found = iter(self.pointers.hypotheses(chosen, self.sentences.source_mask))
        return [[next(found) for _ in group] for group in groups]


def _start(sentences: Sentences, config: DecodeConfig, untold: UntoldRule | None) -> SearchStep:
    """Begins one empty hypothesis of each sentence."""
    ids, device, covered = sentences.source_ids, sentences.source_ids.device, None
    if config.tell_all and untold is None:
        untold = UntoldRule(config.tell_all)
    constraints = Constraints.of(sentences, config)
    coverage = CoveragePenalty.of(config) if config.coverage_penalty else None
    if coverage is not None:
        covered = Covered.nothing(coverage, sentences.words(), 1)
    bounds = length_penalty(constraints.limits.double(), config.length_penalty)
    last = torch.full((len(ids), 1), sentences.special.bos, device=device)
    kept = 1 if config.sample else config.nbest
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
        telling=Telling(untold, sentences.words()) if config.tell_all and untold else None,
        history=last[..., None][..., :0] if config.no_repeat_ngram else None,
        pointers=BackPointers([sentences.special.bos] * len(ids)),
        finished=FinishedHypotheses.none(len(ids), kept),
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
    step.constraints.apply(log_probs, step.length, step.history)
    return log_probs


def _tell(step: SearchStep, predicted: Step, log_probs: Float[Tensor, "b n v"]) -> SearchStep:
    """Lowers the log-probability of EOS by what each hypothesis would leave untold."""
    assert step.telling is not None
    telling = step.telling.after(predicted.signals)
    assert telling.lost is not None
    log_probs[..., step.sentences.special.eos] += telling.lost.to(log_probs.dtype)
    return replace(step, telling=telling)


def _advance(
    step: SearchStep, predicted: Step, candidates: list[list[Candidate]], source: Any
) -> tuple[SearchStep, Any, Any]:
    """Puts finished candidates aside, drops sentences that are done and grows the others.

    Returns the new step, and the source and decoder state of its hypotheses.
    """
    eos, finished, covered = step.sentences.special.eos, step.finished, step.covered
    if covered is not None:
        covered = covered.after(predicted.signals)
    if any(token == eos for own in candidates for _, _, token, _ in own):
        finished = finished.add(_ends(step, candidates, covered))
        candidates = [[each for each in own if each[2] != eos] for own in candidates]
    still = [
        position
        for position, (own, bound) in enumerate(zip(candidates, step.bounds, strict=True))
        if own and own[0][0] / bound > finished.worst[step.live[position]]
    ]
    if not still:
        return step.ended(finished), source, predicted.state
    kept = [(position, candidates[position]) for position in still]
    if finished is not step.finished or covered is not None:
        step = replace(step, covered=covered, finished=finished)
    return _grow(step, kept, source, predicted.state)


def _grow(
    step: SearchStep, kept: list[tuple[int, list[Candidate]]], source: Any, state: Any
) -> tuple[SearchStep, Any, Any]:
    """Adds one token to the hypotheses of the sentences that go on, given by position."""
    device, beams = step.last.device, step.last.shape[1]
    width = max(len(own) for _, own in kept)
    nothing = (-math.inf, 0, step.sentences.special.pad, -math.inf)
    padded = [(p, own + [nothing] * (width - len(own))) for p, own in kept]
    rows = [p * beams + beam for p, own in padded for _, beam, _, _ in own]
    tokens = [token for _, own in padded for _, _, token, _ in own]
    step.pointers.append(rows, tokens, [log_prob for _, own in padded for *_, log_prob in own])
    last = torch.tensor(tokens, device=device).view(len(kept), width)
    history, covered, telling = step.history, step.covered, step.telling
    if rows != list(range(step.last.numel())):
        state = state.select(torch.tensor(rows, device=device))
    live, constraints, bounds = step.live, step.constraints, step.bounds
    if len(kept) < len(live):
        still = torch.tensor([position for position, _ in kept], device=device)
        constraints, source = constraints.select(still), source.select(still)
        telling = None if telling is None else telling.select(still)
        live, bounds = tuple(live[p] for p, _ in kept), [bounds[p] for p, _ in kept]
    if history is not None:
        before = history.flatten(0, 1)[rows].view(len(kept), width, -1)
        history = torch.cat([before, last[..., None]], dim=-1)
    if covered is not None:
        covered = covered.select([position for position, _ in kept], rows)
    grown = SearchStep(
        sentences=step.sentences,
        config=step.config,
        length=step.length + 1,
        live=live,
        constraints=constraints,
        bounds=bounds,
        last=last,
        scores=[[score for score, *_ in own] for _, own in padded],
        covered=covered,
        telling=telling,
        history=history,
        pointers=step.pointers,
        finished=step.finished,
    )
    return grown, source, state


def _ends(
    step: SearchStep, candidates: list[list[Candidate]], covered: Covered | None
) -> Iterator[tuple[int, End]]:
    """Scores the candidates that end and yields them as (sentence, End)."""
    length, (b, beams) = step.length, step.last.shape
    penalty = length_penalty(float(length + 1), step.config.length_penalty)
    uncovered, lost = None, None
    if covered is not None:
        everyone = torch.arange(beams, device=step.last.device).expand(b, -1)
        uncovered = covered.penalties(everyone).tolist()
    if step.telling is not None and step.telling.lost is not None:
        lost = step.telling.lost.tolist()
    limits = step.constraints.limits.tolist()
    for position, (number, own) in enumerate(zip(step.live, candidates, strict=True)):
        for whole, beam, token, log_prob in own:
            if token != step.sentences.special.eos:
                continue
            score = whole / penalty + (uncovered[position][beam] if uncovered else 0.0)
            charged = lost[position][beam] if lost else 0.0
            by_itself = limits[position] > length + 1
            if score > -math.inf:
                row = position * beams + beam
                end = End(score, whole - charged, length, row, log_prob - charged, by_itself)
                yield number, end
