"""Beam search, and sampling in the same loop. A beam of one is greedy search.

Every sentence has room for `beam` hypotheses. Each step keeps its best continuations. One that ends
in EOS is scored with the penalties and put aside, and leaves room for one less. A sentence is done
when all have ended, or when no growing hypothesis can enter the n-best list any more: since
log-probabilities only fall, log p / length_penalty(limit) bounds the score that a hypothesis can
reach, and the coverage penalty only lowers it. A beam wide enough to hold everything is therefore
exhaustive search.

    search(...)        runs to the end and returns n-best lists
    beam_search(...)   yields a SearchStep after every token
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.constraints import Constraints
from untold.decoding.hypotheses import BackPointers, End, FinishedHypotheses
from untold.decoding.interface import NOT_NUMBERS, Hypothesis, Searchable, Sentences
from untold.decoding.penalties import CoveragePenalty, Covered, length_penalty
from untold.decoding.sampling import draw, uniforms
from untold.decoding.telling import Telling, UntoldRule
from untold.decoding.top_k import best_tokens
from untold.errors import UntoldError
from untold.models.seq2seq import Step

__all__ = [
    "Candidates",
    "SearchStep",
    "beam_search",
    "best_candidates",
    "continue_with",
    "search",
]


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
                room = config.beam - step.finished.counts[step.live]
                candidates = best_candidates(log_probs, step.scores, room, sentences.special.pad)
            else:
                tokens = draw(log_probs, chances[step.live, step.length, None], config)
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
    live: Int[Tensor, " b"]  # places in the batch of the sentences that are not done
    constraints: Constraints
    bounds: Float64[Tensor, " b"]  # the length penalty at the length limit
    last: Int[Tensor, "b n"]
    scores: Float64[Tensor, "b n"]  # log-probabilities so far, best first
    covered: Covered | None  # with a coverage penalty
    telling: Telling | None  # with config.tell_all
    pointers: BackPointers
    finished: FinishedHypotheses

    def best(self) -> list[Hypothesis]:
        """Builds the best hypothesis so far of each sentence, finished or growing.

        A growing hypothesis is scored with the length penalty of its present length and without a
        coverage penalty.
        """
        options = [kept[:1] for kept in self.finished.kept]
        penalty = length_penalty(float(self.length), self.config.length_penalty)
        totals, width = self.scores[:, 0].tolist(), self.last.shape[1]
        for position, number in enumerate(self.live.tolist()):
            total = totals[position]
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
            live=self.live[:0],
            bounds=self.bounds[:0],
            last=self.last[:0],
            scores=self.scores[:0],
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


@dataclass(frozen=True)
class Candidates:
    """Holds continuations of each sentence's beams, best first; a score of -inf is no candidate."""

    scores: Float64[Tensor, "b m"]  # log-probability of the whole hypothesis
    log_probs: Float[Tensor, "b m"]  # log-probability of its last token
    beams: Int[Tensor, "b m"]  # which hypothesis it continues
    tokens: Int[Tensor, "b m"]  # padding where it is no candidate

    def select(self, rows: Int[Tensor, " r"]) -> "Candidates":
        """Keeps the sentences at sorted `rows`, without columns that are empty for all."""
        everyone = len(rows) == len(self.scores)
        scores = self.scores if everyone else self.scores[rows]
        width = int((scores > -torch.inf).any(0).sum())
        if everyone and width == scores.shape[1]:
            return self
        return Candidates(
            scores[:, :width],
            self.log_probs[rows, :width],
            self.beams[rows, :width],
            self.tokens[rows, :width],
        )

    def without(self, gone: Bool[Tensor, "b m"], pad: int) -> "Candidates":
        """Removes those that are `gone`; the others keep their order and come first."""
        scores = self.scores.masked_fill(gone, -torch.inf)
        order = (scores == -torch.inf).byte().sort(dim=1, stable=True).indices
        return Candidates(
            scores.gather(1, order),
            self.log_probs.gather(1, order),
            self.beams.gather(1, order),
            self.tokens.masked_fill(gone, pad).gather(1, order),
        )


def best_candidates(
    log_probs: Float[Tensor, "b n v"],
    scores: Float64[Tensor, "b n"],
    room: Int[Tensor, " b"],
    pad: int,
) -> Candidates:
    """Finds the best continuations of all beams, as many as each sentence has `room` for.

    Ties go to the lower beam, then to the lower token id.
    """
    most = int(room.max())
    values, tokens = best_tokens(log_probs, most)
    totals = (scores[..., None] + values).flatten(1)
    totals, order = totals.sort(dim=1, descending=True, stable=True)
    totals, order = totals[:, :most], order[:, :most]
    beyond = torch.arange(totals.shape[1], device=room.device) >= room[:, None]
    totals = totals.masked_fill(beyond, -torch.inf)
    return Candidates(
        totals,
        values.flatten(1).gather(1, order),
        order // values.shape[-1],
        tokens.flatten(1).gather(1, order).masked_fill(totals == -torch.inf, pad),
    )


def continue_with(
    tokens: Int[Tensor, "b 1"], log_probs: Float[Tensor, "b 1 v"], scores: Float64[Tensor, "b 1"]
) -> Candidates:
    """Continues each sentence's only hypothesis with a given token."""
    values = log_probs.gather(-1, tokens[..., None]).squeeze(-1)
    return Candidates(scores + values, values, torch.zeros_like(tokens), tokens)


def _start(sentences: Sentences, config: DecodeConfig, untold: UntoldRule | None) -> SearchStep:
    """Begins one empty hypothesis of each sentence."""
    ids, device, covered = sentences.source_ids, sentences.source_ids.device, None
    if config.tell_all and untold is None:
        untold = UntoldRule(config.tell_all)
    constraints = Constraints.of(sentences, config)
    coverage = CoveragePenalty.of(config) if config.coverage_penalty else None
    if coverage is not None:
        covered = Covered.nothing(coverage, sentences.words(), 1)
    last = torch.full((len(ids), 1), sentences.special.bos, device=device)
    kept = 1 if config.sample else config.nbest
    return SearchStep(
        sentences=sentences,
        config=config,
        length=0,
        live=torch.arange(len(ids), device=device),
        constraints=constraints,
        bounds=length_penalty(constraints.limits.double(), config.length_penalty),
        last=last,
        scores=torch.zeros(last.shape, dtype=torch.float64, device=device),
        covered=covered,
        telling=Telling(untold, sentences.words()) if config.tell_all and untold else None,
        pointers=BackPointers(last.flatten()),
        finished=FinishedHypotheses.none(len(ids), kept, device),
    )


def _allowed(logits: Float[Tensor, "b n v"], step: SearchStep) -> Float[Tensor, "b n v"]:
    """Computes the log-probabilities of the tokens that may come next; the others get -inf."""
    log_probs = logits.float()
    # In place, for memory's sake; and measured faster than logsumexp, which takes more passes.
    torch.log_softmax(log_probs, -1, out=log_probs)
    # One NaN or +inf, or nothing but -inf, among the logits makes NaN of a whole row.
    bad = log_probs[..., 0].isnan() & (step.scores > -torch.inf)
    if bool(bad.any()):
        number = int(step.live[bad.any(1)][0])
        raise UntoldError(f"{step.sentences.name(number)}: {NOT_NUMBERS}")
    history = None
    if step.config.no_repeat_ngram:
        history = step.pointers.history().view(*step.last.shape, -1)
    step.constraints.apply(log_probs, step.length, history)
    return log_probs


def _tell(step: SearchStep, predicted: Step, log_probs: Float[Tensor, "b n v"]) -> SearchStep:
    """Lowers the log-probability of EOS by what each hypothesis would leave untold."""
    assert step.telling is not None
    telling = step.telling.after(predicted.signals)
    assert telling.lost is not None
    log_probs[..., step.sentences.special.eos] += telling.lost.to(log_probs.dtype)
    return replace(step, telling=telling)


def _advance(
    step: SearchStep, predicted: Step, candidates: Candidates, source: Any
) -> tuple[SearchStep, Any, Any]:
    """Puts finished candidates aside, drops sentences that are done and grows the others.

    Returns the new step, and the source and decoder state of its hypotheses.
    """
    special, finished, covered = step.sentences.special, step.finished, step.covered
    if covered is not None:
        covered = covered.after(predicted.signals)
    ending = candidates.tokens == special.eos
    if bool(ending.any()):
        finished = finished.add(_ends(step, candidates, ending, covered))
        candidates = candidates.without(ending, special.pad)
    reachable = candidates.scores[:, 0] / step.bounds
    still = (reachable > finished.worst[step.live]).nonzero().flatten()
    if not len(still):
        return step.ended(finished), source, predicted.state
    candidates = candidates.select(still)
    rows = (still[:, None] * step.last.shape[1] + candidates.beams).flatten()
    step.pointers.append(rows, candidates.tokens.flatten(), candidates.log_probs.flatten())
    all_stay, count = len(still) == len(step.live), step.last.numel()
    in_place = len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
    grown = SearchStep(
        sentences=step.sentences,
        config=step.config,
        length=step.length + 1,
        live=step.live if all_stay else step.live[still],
        constraints=step.constraints if all_stay else step.constraints.select(still),
        bounds=step.bounds if all_stay else step.bounds[still],
        last=candidates.tokens,
        scores=candidates.scores,
        covered=None if covered is None else covered.select(still, rows),
        telling=None if step.telling is None else step.telling.select(still),
        pointers=step.pointers,
        finished=finished,
    )
    state = predicted.state if in_place else predicted.state.select(rows)
    return grown, source if all_stay else source.select(still), state


def _ends(
    step: SearchStep,
    candidates: Candidates,
    ending: Bool[Tensor, "b m"],
    covered: Covered | None,
) -> Iterator[tuple[int, End]]:
    """Scores the candidates that end and yields them as (sentence, End)."""
    length = step.length
    scores = candidates.scores / length_penalty(float(length + 1), step.config.length_penalty)
    if covered is not None:
        scores = scores + covered.penalties(candidates.beams)
    ending = ending & (scores > -torch.inf)
    positions = ending.nonzero()[:, 0]
    lost = torch.zeros_like(scores)
    if step.telling is not None and step.telling.lost is not None:
        lost = step.telling.lost.gather(1, candidates.beams)
    columns = (
        step.live[positions],
        scores[ending],
        (candidates.scores - lost)[ending],
        positions * step.last.shape[1] + candidates.beams[ending],
        (candidates.log_probs - lost)[ending],
        step.constraints.limits[positions] > length + 1,
    )
    for number, score, total, row, eos, by_itself in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield number, End(score, total, length, row, eos, by_itself)
