"""Constraints on what a search may generate. They change log-probabilities in place.

A forbidden token gets -inf and the others keep what the model gave them. Nothing is normalised
again, so a score remains the probability of the translation under the model alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.config.decode import DecodeConfig
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError

FREE = -1  # marks places where a prefix forces nothing
_SOME = 64  # tokens that are looked at first, to see that some are left
SLACK = 10  # tokens that a translation may have beyond max_ratio times its source


@dataclass(frozen=True)
class Constraints:
    """Holds the constraints of each sentence that is still being searched."""

    eos: int
    forbidden: tuple[int, ...]  # ids that are never generated
    limits: Int[Tensor, " b"]  # most tokens, EOS counted
    shortest: int  # the least of the limits
    prefixes: Int[Tensor, "b p"] | None  # FREE after the end of each
    min_length: int  # fewest tokens, EOS not counted

    @classmethod
    def of(cls, sentences: Sentences, config: DecodeConfig) -> "Constraints":
        """Reads the settings for a batch and checks them against each other."""
        limits, prefixes = length_limits(sentences, config), None
        if sentences.prefixes:
            prefixes = _padded(sentences.prefixes, limits.device)
        return cls(
            sentences.special.eos,
            sentences.special.forbidden,
            limits,
            int(limits.min()),
            prefixes,
            config.min_length,
        )

    def select(self, rows: Int[Tensor, " r"]) -> "Constraints":
        """Keeps the sentences at `rows`."""
        prefixes = None if self.prefixes is None else self.prefixes[rows]
        limits = self.limits[rows]
        return replace(self, limits=limits, shortest=int(limits.min()), prefixes=prefixes)

    def apply(self, log_probs: Float[Tensor, "b n v"], length: int) -> None:
        """Leaves the tokens that may follow `length` tokens.

        A prefix overrides all other constraints, and the length limit overrides the rest. Where the
        constraints leave no token, the hypothesis ends.
        """
        eos, forced, kept = self.eos, None, None
        if self.prefixes is not None and length < self.prefixes.shape[1]:
            forced = self.prefixes[:, length]
            kept = _read(log_probs, forced)
        forbid(log_probs, self.forbidden)
        if length < self.min_length:
            ending = log_probs[..., eos].clone()
            forbid(log_probs, (eos,))
            release(log_probs, ending, eos)
        if length + 1 >= self.shortest:
            close(log_probs, self.limits == length + 1, eos)
        if forced is not None and kept is not None:
            force(log_probs, forced, kept)


def length_limits(sentences: Sentences, config: DecodeConfig) -> Int[Tensor, " b"]:
    """Computes the most tokens of each translation, EOS counted: ceil(max_ratio |x|) + SLACK.

    min_length raises the limit (it does not count EOS) and max_length bounds it.
    """
    if config.min_length >= config.max_length:
        raise UntoldError(
            f"min_length {config.min_length} leaves no room for the end under max_length "
            f"{config.max_length}: raise max_length or lower min_length"
        )
    lengths = sentences.source_mask.sum(1)
    limits = (lengths.double() * config.max_ratio).ceil().long() + SLACK
    limits = limits.clamp(min=config.min_length + 1).clamp(max=config.max_length)
    for position, prefix in enumerate(sentences.prefixes or ()):
        limit = int(limits[position])
        if len(prefix) >= limit:
            raise UntoldError(
                f"prefix of {sentences.name(position)}: {len(prefix)} tokens and the end do not "
                f"fit the limit of {limit}: shorten it, or raise max_length and max_ratio"
            )
    return limits


def forbid(log_probs: Float[Tensor, "b n v"], tokens: Iterable[int]) -> None:
    """Forbids these tokens everywhere."""
    for first, count in _runs(tuple(tokens)):  # indexing with a list would copy
        log_probs.narrow(-1, first, count).fill_(-torch.inf)


def release(log_probs: Float[Tensor, "b n v"], ending: Float[Tensor, "b n"], eos: int) -> None:
    """Allows EOS with log-probability `ending` where no token is left."""
    if bool((log_probs[..., -_SOME:].amax(-1) > -torch.inf).all()):
        return  # nearly always: a glance at a few tokens is enough
    stuck = log_probs.amax(-1) == -torch.inf
    log_probs[..., eos] = torch.where(stuck, ending, log_probs[..., eos])


def close(log_probs: Float[Tensor, "b n v"], at_limit: Bool[Tensor, " b"], eos: int) -> None:
    """Leaves nothing but EOS in the sentences `at_limit`."""
    ending = log_probs[..., eos].clone()
    log_probs[at_limit] = -torch.inf
    log_probs[..., eos] = ending


def force(
    log_probs: Float[Tensor, "b n v"], tokens: Int[Tensor, " b"], kept: Float[Tensor, "b n 1"]
) -> None:
    """Leaves nothing but the forced token, with log-probability `kept`, where it is not FREE."""
    rows = (tokens != FREE).nonzero().squeeze(1)
    log_probs[rows] = -torch.inf
    log_probs[rows, :, tokens[rows]] = kept[rows, :, 0]


@lru_cache(maxsize=64)
def _runs(tokens: tuple[int, ...]) -> list[tuple[int, int]]:
    """Joins neighbouring ids to (first, count)."""
    runs: list[tuple[int, int]] = []
    for token in sorted(set(tokens)):
        first, count = runs[-1] if runs else (-1, 0)
        if first + count == token and count:
            runs[-1] = (first, count + 1)
        else:
            runs.append((token, 1))
    return runs


def _read(log_probs: Float[Tensor, "b n v"], tokens: Int[Tensor, " b"]) -> Float[Tensor, "b n 1"]:
    index = tokens.clamp(min=0)[:, None, None].expand(-1, log_probs.shape[1], 1)
    return log_probs.gather(-1, index)


def _padded(prefixes: tuple[tuple[int, ...], ...], device: torch.device) -> Int[Tensor, "b p"]:
    width = max(map(len, prefixes))
    rows = [[*prefix, *[FREE] * (width - len(prefix))] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(prefixes), width)
