"""The sentences a search is asked to translate, and how long their translations may grow."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import BOS, EOS, PAD
from untold.errors import UntoldError

__all__ = ["NOT_NUMBERS", "SLACK", "Sentences", "check_tokens", "length_limits"]

NOT_NUMBERS = (
    "the model's scores are not numbers (NaN or infinite); its weights may be damaged, or have "
    "diverged in training"
)
SLACK = 10  # tokens that a translation may have beyond max_ratio times its source


@dataclass(frozen=True)
class Sentences:
    """A batch of sources; for each, where wanted, tokens to begin with and a number of its own."""

    source_ids: Int[Tensor, "b i"]
    source_mask: Bool[Tensor, "b i"]  # True = real token
    prefixes: tuple[tuple[int, ...], ...] | None = None  # tokens every translation must begin with
    indices: tuple[int, ...] | None = None  # seeds sampling and names the sentence in errors

    def __post_init__(self) -> None:
        for name, given in (("prefixes", self.prefixes), ("indices", self.indices)):
            if given is not None and len(given) != len(self):
                raise UntoldError(f"{len(given)} {name} for {len(self)} sentences: give one each")
        for position, prefix in enumerate(self.prefixes or ()):
            check_tokens(prefix, f"prefix of {self.name(position)}")

    def __len__(self) -> int:
        return self.source_ids.shape[0]

    def repeated(self, times: int) -> "Sentences":
        """Each sentence so many times, one beside the other."""
        prefixes = self.prefixes
        if prefixes is not None:
            prefixes = tuple(prefix for prefix in prefixes for _ in range(times))
        return Sentences(
            self.source_ids.repeat_interleave(times, 0),
            self.source_mask.repeat_interleave(times, 0),
            prefixes,
            tuple(self.index(row // times) for row in range(times * len(self))),
        )

    def index(self, position: int) -> int:
        """The number a sentence is known by: its own, or else its place in the batch."""
        return position if self.indices is None else self.indices[position]

    def name(self, position: int) -> str:
        """How errors call the sentence."""
        return f"sentence {self.index(position)}"


def check_tokens(tokens: Sequence[int], what: str) -> None:
    """Given text holds no control tokens; the search alone places them."""
    for token in tokens:
        if token in (PAD, BOS, EOS) or token < 0:
            raise UntoldError(f"{what}: token id {token} is no text: leave control tokens out")


def length_limits(sentences: Sentences, config: DecodeConfig) -> Int[Tensor, " b"]:
    """The most tokens of each translation, EOS counted: ceil(max_ratio |x|) + SLACK.

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
