"""The hypotheses that are still growing, and one step of the model for all of them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import BOS, PAD
from untold.decoding.candidates import Candidates
from untold.decoding.constraints import Rules
from untold.decoding.coverage_penalty import CoveragePenalty, Covered
from untold.decoding.length_penalty import length_penalty
from untold.decoding.pool import Ends
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import NOT_NUMBERS, Sentences
from untold.decoding.trace import Show, Trace
from untold.errors import UntoldError
from untold.models.seq2seq import Step

__all__ = ["Live", "predict"]


@dataclass(frozen=True)
class Live:
    """n hypotheses of each sentence that is not done. A score of -inf is no hypothesis."""

    numbers: Int[Tensor, " b"]  # which sentences of the batch
    rules: Rules
    source: Any
    state: Any
    last: Int[Tensor, "b n"]
    scores: Float64[Tensor, "b n"]  # log-probabilities so far
    covered: Covered | None  # where coverage counts

    @classmethod
    def begin(
        cls, model: Searchable, sentences: Sentences, config: DecodeConfig, beams: int
    ) -> "Live":
        """`beams` hypotheses without a token for each sentence."""
        ids, mask = sentences.source_ids, sentences.source_mask
        source, coverage = model.encode(ids, mask), CoveragePenalty.of(config)
        last = torch.full((len(sentences), beams), BOS, device=ids.device)
        return cls(
            numbers=torch.arange(len(sentences), device=ids.device),
            rules=Rules.of(sentences, config),
            source=source,
            state=model.start(source, beams),
            last=last,
            scores=torch.zeros(last.shape, dtype=torch.float64, device=ids.device),
            covered=None if coverage is None else Covered.nothing(coverage, ids, mask, beams),
        )

    def ends(
        self, candidates: Candidates, ending: Bool[Tensor, "b m"], length: int, alpha: float
    ) -> Ends:
        """Where the candidates that are `ending` stand in the trace, and what they are worth."""
        first = torch.arange(len(self.numbers), device=self.last.device) * self.last.shape[1]
        scores = candidates.scores / length_penalty(float(length + 1), alpha)
        if self.covered is not None:
            scores = scores + self.covered.penalties(candidates.beams)
        return Ends(
            scores=scores.masked_fill(~ending, -torch.inf),
            log_probs=candidates.scores,
            last=candidates.log_probs,
            rows=first[:, None] + candidates.beams,
            steps=torch.full_like(candidates.beams, length),
        )

    def advance(self, chosen: Candidates, still: Int[Tensor, " s"], trace: Trace) -> "Live":
        """The chosen continuations of the sentences `still` to be searched; the others leave."""
        b, n = self.last.shape
        chosen = chosen.select(still)
        rows = (still[:, None] * n + chosen.beams).flatten()
        trace.advance(rows, chosen.tokens.flatten(), chosen.log_probs.flatten())
        in_place = len(rows) == b * n and torch.equal(rows, torch.arange(b * n, device=rows.device))
        everyone = len(still) == b
        return Live(
            numbers=self.numbers[still],
            rules=self.rules if everyone else self.rules.select(still),
            source=self.source if everyone else self.source.select(still),
            state=self.state if in_place else self.state.select(rows),
            last=chosen.tokens,
            scores=chosen.scores,
            covered=None if self.covered is None else self.covered.select(still, rows),
        )


def predict(
    model: Searchable, live: Live, trace: Trace, sentences: Sentences, show: Show
) -> tuple[Float[Tensor, "b n v"], Live]:
    """(log-probabilities of the tokens that may come next, the hypotheses after this step)."""
    covered = live.covered
    attention = show.attention or (covered is not None and covered.rule.by_attention)
    step = model.step(live.source, live.last, live.state, attention=attention)
    trace.show(_shown(step, show))
    log_probs = step.logits.float()
    # In place, for memory's sake; and measured faster than logsumexp, which takes more passes.
    torch.log_softmax(log_probs, -1, out=log_probs)
    _check(log_probs, live, sentences)
    history = None
    if live.rules.no_repeat_ngram:
        history = trace.history().view(*live.last.shape, -1)
    live.rules.apply(log_probs, trace.length, history)
    return log_probs, replace(
        live, state=step.state, covered=None if covered is None else covered.after(step)
    )


def _shown(step: Step, show: Show) -> dict[str, Tensor]:
    """What is wanted of the step and known to the model, for the flattened (b n) rows."""
    values = {name: getattr(step, name) for name, wanted in vars(show).items() if wanted}
    return {name: value.flatten(0, 1) for name, value in values.items() if value is not None}


def _check(log_probs: Float[Tensor, "b n v"], live: Live, sentences: Sentences) -> None:
    """One NaN or +inf, or nothing but -inf, among the logits makes NaN of a whole row."""
    bad = log_probs[..., PAD].isnan() & (live.scores > -torch.inf)
    if bool(bad.any()):
        number = int(live.numbers[bad.any(1)][0])
        raise UntoldError(f"{sentences.name(number)}: {NOT_NUMBERS}")
