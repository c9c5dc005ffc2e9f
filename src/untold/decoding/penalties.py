"""Length penalty and coverage penalty (Wu et al., 2016, eq. 14).

    score(y, x) = log p(y | x) / length_penalty(y)  +  beta * sum_i log min(covered_i, 1)

The sum goes over the words i of the source; its EOS is not a word. By attention, covered_i is the
attention weight that word i got from all steps, the one that predicts EOS among them. A model that
separates past and future knows it directly: covered_i is the share of the word that is not FUTURE
when EOS is predicted. The coverage penalty is never positive, so the search may stop a sentence by
bounds that leave it out.

The search that tells all: a translation may end where the model believes that nothing is untold.

    log p'(EOS | y, x) = log p(EOS | y, x) + strength * sum_i max(-2, log(1 - u_i))

u_i is the probability that source token i is still untold, by the shares of past, future and
redundant before EOS. A model that has said everything is sure of it, and nothing changes; where it
is sure that words are missing, ending costs much, and the search goes on. Unlike the coverage
penalty, which compares translations when they have ended, this counts before a search chooses. One
token costs at most 2 times the strength: else a search would babble on because of one false alarm.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.hypotheses import Hypothesis
from untold.errors import UntoldError
from untold.models.seq2seq import Signals
from untold.models.signals import FUTURE, PAST, REDUNDANT

_MIN_COVERED = 1e-6  # bounds the penalty of a word that was never attended to

Length = TypeVar("Length", float, Tensor)


def length_penalty(length: Length, alpha: float) -> Length:
    """Computes ((5 + |y|) / 6)^alpha; |y| counts EOS, and alpha 0 means no penalty."""
    return ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(
    covered: Float[Tensor, "*b i"], words: Bool[Tensor, "*#b i"], beta: float
) -> Float64[Tensor, "*b"]:
    """Computes beta * sum over the words of log min(covered, 1)."""
    logs = covered.double().clamp(_MIN_COVERED, 1.0).log()
    return beta * logs.masked_fill(~words, 0.0).sum(-1)


@dataclass(frozen=True)
class CoveragePenalty:
    """Says how much coverage counts and which signal measures it."""

    beta: float
    by_attention: bool  # False: by past and future

    @classmethod
    def of(cls, config: DecodeConfig) -> "CoveragePenalty | None":
        """Reads the settings; None means that there is no penalty."""
        if not config.coverage_penalty:
            return None
        return cls(config.coverage_penalty, config.coverage_source == "attention")

    def of_steps(self, signals: Signals) -> Float[Tensor, "b t i"]:
        """Returns the attention of each step, or else the share that is not FUTURE at each step."""
        if self.by_attention:
            if signals.attention is None:
                raise UntoldError(
                    "the model shows no attention to measure coverage by: set "
                    "decode.coverage_penalty to 0"
                )
            return signals.attention
        if signals.assignments is None:
            raise UntoldError(
                'decode.coverage_source = "past" needs a model that separates past and future: '
                'set it to "attention", or decode.coverage_penalty to 0'
            )
        return 1 - signals.assignments[..., FUTURE]

    def of_targets(self, signals: Signals, mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b i"]:
        """Returns how far whole targets cover their sources."""
        steps = self.of_steps(signals)
        if self.by_attention:
            return (steps * mask[..., None]).sum(1)
        return steps[torch.arange(len(steps), device=mask.device), mask.sum(1) - 1]


@dataclass(frozen=True)
class Covered:
    """Tracks how far each of n hypotheses has covered its source."""

    rule: CoveragePenalty
    words: Bool[Tensor, "b i"]
    amounts: Float[Tensor, "b n i"]

    @classmethod
    def nothing(cls, rule: CoveragePenalty, words: Bool[Tensor, "b i"], beams: int) -> "Covered":
        """Starts with empty hypotheses."""
        b, i = words.shape
        return cls(rule, words, torch.zeros(b, beams, i, device=words.device))

    def after(self, signals: Signals) -> "Covered":
        """Adds what one more step has covered."""
        amounts = self.rule.of_steps(signals).float()
        if self.rule.by_attention:
            amounts = self.amounts + amounts
        return replace(self, amounts=amounts)

    def select(self, live: list[int], rows: list[int]) -> "Covered":
        """Keeps the sentences `live`, with the hypotheses at `rows` of the flattened (b n)."""
        kept = self.amounts.flatten(0, 1)[rows]
        return Covered(self.rule, self.words[live], kept.view(len(live), -1, kept.shape[-1]))

    def penalties(self, beams: Int[Tensor, "b m"]) -> Float64[Tensor, "b m"]:
        """Computes the penalty of candidates that continue these beams of each sentence."""
        each = coverage_penalty(self.amounts, self.words[:, None], self.rule.beta)
        return each.gather(1, beams)


_MOST = 2.0  # what one token may cost, before the strength
_CERTAIN = 1e-4  # probabilities nearer to 0 or 1 than this are not told apart


@dataclass(frozen=True)
class UntoldRule:
    """Says how probable it is, by its shares, that a source token is untold.

    log u/(1 - u) = bias + weights . (log-odds of FUTURE against PAST, of REDUNDANT at the first
    step). A calibration learns the numbers; without one u is the share of FUTURE in PAST and
    FUTURE.
    """

    strength: float
    weights: tuple[float, float] = (1.0, 0.0)
    bias: float = 0.0

    def log_said(
        self, shares: Float[Tensor, "*b i g"], first: Float[Tensor, "*b i"]
    ) -> Float64[Tensor, "*b i"]:
        """Computes log(1 - u) of every token, at least -2; `first` is R at the first step."""
        past, future = shares[..., PAST].double(), shares[..., FUTURE].double()
        untold = _log_odds(future / (past + future).clamp(min=1e-9))
        odds = self.weights[0] * untold + self.weights[1] * _log_odds(first.double()) + self.bias
        return torch.nn.functional.logsigmoid(-odds).clamp(min=-_MOST)

    def lost(
        self,
        shares: Float[Tensor, "*b i g"],
        first: Float[Tensor, "*b i"],
        words: Bool[Tensor, "*b i"],
    ) -> Float64[Tensor, "*b"]:
        """Computes what ending costs: strength times the sum over the words."""
        return self.strength * (self.log_said(shares, first) * words).sum(-1)


@dataclass(frozen=True)
class Telling:
    """Tracks what each hypothesis of a search would lose by ending."""

    rule: UntoldRule
    words: Bool[Tensor, "b i"]
    first: Float[Tensor, "b i"] | None = None  # REDUNDANT at the first step
    lost: Float64[Tensor, "b n"] | None = None  # by ending now

    def after(self, signals: Signals) -> "Telling":
        """Looks at the shares of one more step."""
        shares = _shares(signals)
        first = shares[:, 0, :, REDUNDANT] if self.first is None else self.first
        every = first[:, None].expand(-1, shares.shape[1], -1)
        lost = self.rule.lost(shares, every, self.words[:, None].expand_as(every))
        return replace(self, first=first, lost=lost)

    def select(self, live: Int[Tensor, " s"]) -> "Telling":
        """Keeps the sentences `live`; what their hypotheses lose is known after the next step."""
        assert self.first is not None
        return replace(self, words=self.words[live], first=self.first[live], lost=None)


def charge_untold(hypothesis: Hypothesis, rule: UntoldRule, alpha: float) -> Hypothesis:
    """Scores a given translation as a search would, with the length penalty `alpha`."""
    shares = _shares(hypothesis.signals)[:, :-1]  # the source's EOS is no word
    words = torch.ones(shares.shape[1], dtype=torch.bool, device=shares.device)
    lost = rule.lost(shares[-1], shares[0, :, REDUNDANT], words).item()
    penalty = length_penalty(float(len(hypothesis.token_log_probabilities)), alpha)
    return replace(hypothesis, score=hypothesis.score + lost / penalty)


def _shares(signals: Signals[Tensor]) -> Tensor:
    if signals.assignments is None:
        raise UntoldError(
            "decode.tell_all needs a model that separates past and future: set it to 0, or train "
            'one with model.separator.kind = "gdr"'
        )
    return signals.assignments


def _log_odds(chance: Float64[Tensor, "*n"]) -> Float64[Tensor, "*n"]:
    inside = chance.clamp(_CERTAIN, 1 - _CERTAIN)
    return (inside / (1 - inside)).log()
