"""What a search may not say: small rules that take log-probabilities away, in place.

A forbidden token gets -inf, the others keep what the model gave them: nothing is normalised again,
so a score remains the probability of the translation under the model alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import BOS, EOS, PAD, UNK
from untold.decoding.sentences import Sentences, length_limits

__all__ = ["FREE", "Rules", "close", "forbid", "forbid_repeats", "force", "release"]

FREE = -1  # where a prefix forces nothing
NEVER_SAID = (PAD, UNK, BOS)


@dataclass(frozen=True)
class Rules:
    """The rules for each sentence of the live batch."""

    limits: Int[Tensor, " b"]  # most tokens, EOS counted
    prefixes: Int[Tensor, "b p"] | None  # FREE after the end of each
    min_length: int  # fewest tokens, EOS not counted
    no_repeat_ngram: int

    @classmethod
    def of(cls, sentences: Sentences, config: DecodeConfig) -> "Rules":
        """The rules for a whole batch, checked against each other."""
        limits = length_limits(sentences, config)
        prefixes = _padded(sentences.prefixes, limits.device) if sentences.prefixes else None
        return cls(limits, prefixes, config.min_length, config.no_repeat_ngram)

    def select(self, rows: Int[Tensor, " r"]) -> "Rules":
        """The rules for the sentences at `rows`."""
        prefixes = None if self.prefixes is None else self.prefixes[rows]
        return Rules(self.limits[rows], prefixes, self.min_length, self.no_repeat_ngram)

    def apply(
        self, log_probs: Float[Tensor, "b n v"], length: int, history: Int[Tensor, "b n t"] | None
    ) -> None:
        """Leave what may come after `length` tokens; `history` is read by forbid_repeats alone.

        A prefix stands above all other rules, and the limit above the rest. Where the rules leave
        nothing to say, the hypothesis ends.
        """
        forced = self._forced(length)
        kept = None if forced is None else _read(log_probs, forced)
        ending = log_probs[..., EOS].clone()
        forbid(log_probs, NEVER_SAID)
        if length < self.min_length:
            forbid(log_probs, (EOS,))
        if history is not None:
            forbid_repeats(log_probs, history, self.no_repeat_ngram)
        if length < self.min_length or history is not None:
            release(log_probs, ending)
        close(log_probs, self.limits == length + 1)
        if forced is not None and kept is not None:
            force(log_probs, forced, kept)

    def _forced(self, length: int) -> Int[Tensor, " b"] | None:
        if self.prefixes is None or length >= self.prefixes.shape[1]:
            return None
        return self.prefixes[:, length]


def forbid(log_probs: Float[Tensor, "b n v"], tokens: tuple[int, ...]) -> None:
    """None of `tokens`, anywhere."""
    for token in tokens:  # one strided fill each: indexing with a list would copy
        log_probs[..., token] = -torch.inf


def forbid_repeats(
    log_probs: Float[Tensor, "b n v"], history: Int[Tensor, "b n t"], size: int
) -> None:
    """No token that would complete an n-gram of `size` tokens which `history` already holds."""
    if history.shape[-1] < size:
        return
    ngrams = history.unfold(-1, size, 1)
    opening = history[..., history.shape[-1] - size + 1 :]
    seen = (ngrams[..., :-1] == opening[..., None, :]).all(-1)
    worth = torch.where(seen, -torch.inf, torch.inf).to(log_probs.dtype)
    # amin, since a token can end a seen and an unseen n-gram at once.
    log_probs.scatter_reduce_(-1, ngrams[..., -1], worth, "amin")


def release(log_probs: Float[Tensor, "b n v"], ending: Float[Tensor, "b n"]) -> None:
    """Where nothing is left to say, EOS with its log-probability `ending`."""
    stuck = log_probs.amax(-1) == -torch.inf
    log_probs[..., EOS] = torch.where(stuck, ending, log_probs[..., EOS])


def close(log_probs: Float[Tensor, "b n v"], at_limit: Bool[Tensor, " b"]) -> None:
    """Nothing but EOS in the sentences `at_limit`."""
    if bool(at_limit.any()):
        ending = log_probs[..., EOS].clone()
        log_probs[at_limit] = -torch.inf
        log_probs[..., EOS] = ending


def force(
    log_probs: Float[Tensor, "b n v"], tokens: Int[Tensor, " b"], kept: Float[Tensor, "b n 1"]
) -> None:
    """Nothing but the forced token, with its log-probability `kept`, where it is not FREE."""
    rows = (tokens != FREE).nonzero().squeeze(1)
    log_probs[rows] = -torch.inf
    log_probs[rows, :, tokens[rows]] = kept[rows, :, 0]


def _read(log_probs: Float[Tensor, "b n v"], tokens: Int[Tensor, " b"]) -> Float[Tensor, "b n 1"]:
    index = tokens.clamp(min=0)[:, None, None].expand(-1, log_probs.shape[1], 1)
    return log_probs.gather(-1, index)


def _padded(prefixes: tuple[tuple[int, ...], ...], device: torch.device) -> Int[Tensor, "b p"]:
    width = max(map(len, prefixes))
    rows = [[*prefix, *[FREE] * (width - len(prefix))] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(prefixes), width)
