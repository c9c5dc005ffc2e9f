"""The types that decoding takes and returns: Sentences, Hypothesis, and what it asks of a model.

The encoded source and the decoder state pass through a search unread. The search only calls their
`select(rows)`: rows are sentences for a source and flattened (b n) hypotheses for a state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.vocabulary import SpecialIds
from untold.errors import UntoldError
from untold.models.seq2seq import NO_SIGNALS, Signals, SignalsMixin, Step

__all__ = ["NOT_NUMBERS", "Hypothesis", "Scorable", "Searchable", "Sentences", "check_tokens"]

NOT_NUMBERS = (
    "the model's scores are not numbers (NaN or infinite); its weights may be damaged, or have "
    "diverged in training"
)


@dataclass(frozen=True)
class Hypothesis(SignalsMixin[Tensor]):
    """Holds one translation in ids, complete or still growing.

    The signals have one row for each token and, if the hypothesis is complete, one for its EOS;
    their columns are the real tokens of the source.
    """

    tokens: tuple[int, ...]  # neither BOS nor EOS
    # log_probability / length penalty, plus the coverage penalty if complete; n-best lists are
    # sorted by it.
    score: float
    log_probability: float  # of all tokens and EOS under the model, without constraints
    token_log_probabilities: tuple[float, ...]  # of each token and, last, of EOS
    finished: bool = True  # False: EOS was forced at the length limit, or is yet to come
    signals: Signals[Tensor] = field(default=NO_SIGNALS, compare=False)
    complete: bool = True  # False: EOS is yet to come


@dataclass(frozen=True)
class Sentences:
    """Holds a batch of sources, with an optional target prefix and number for each."""

    source_ids: Int[Tensor, "b i"]
    source_mask: Bool[Tensor, "b i"]  # True = real token
    special: SpecialIds  # of the target's vocabulary
    prefixes: tuple[tuple[int, ...], ...] | None = None  # tokens every translation must begin with
    indices: tuple[int, ...] | None = None  # seed sampling and name the sentence in errors
    source_words: Bool[Tensor, "b i"] | None = None  # True = word; None: all tokens but EOS

    def __post_init__(self) -> None:
        if self.indices is not None and len(self.indices) != len(self.source_ids):
            raise self._count_error("indices", len(self.indices))
        if self.prefixes is not None:
            if len(self.prefixes) != len(self.source_ids):
                raise self._count_error("prefixes", len(self.prefixes))
            for position, prefix in enumerate(self.prefixes):
                check_tokens(prefix, self.special, f"prefix of {self.name(position)}")

    def __len__(self) -> int:
        return self.source_ids.shape[0]

    def words(self) -> Bool[Tensor, "b i"]:
        """Marks the source tokens that a translation should cover."""
        if self.source_words is not None:
            return self.source_words
        return self.source_mask & (self.source_ids != self.special.eos)

    def repeated(self, times: int) -> "Sentences":
        """Repeats each sentence; the copies stand next to each other and share its index."""
        prefixes, words = self.prefixes, self.source_words
        if prefixes is not None:
            prefixes = tuple(prefix for prefix in prefixes for _ in range(times))
        return Sentences(
            self.source_ids.repeat_interleave(times, 0),
            self.source_mask.repeat_interleave(times, 0),
            self.special,
            prefixes,
            tuple(self.index(row // times) for row in range(times * len(self))),
            None if words is None else words.repeat_interleave(times, 0),
        )

    def index(self, position: int) -> int:
        """Returns the sentence's own number, by default its place in the batch."""
        return position if self.indices is None else self.indices[position]

    def name(self, position: int) -> str:
        """Names the sentence for error messages, counting from 1."""
        return f"sentence {self.index(position) + 1}"

    def _count_error(self, name: str, given: int) -> UntoldError:
        return UntoldError(f"{given} {name} for {len(self)} sentences: give one each")


def check_tokens(tokens: Sequence[int], special: SpecialIds, name: str) -> None:
    """Refuses control tokens in given text; only the search places them."""
    for token in tokens:
        if token in special.control or token < 0:
            raise UntoldError(f"{name}: token id {token} is no text: leave control tokens out")


@runtime_checkable
class Searchable(Protocol):
    """Describes a model that predicts one token at a time."""

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Any:
        """Encodes the source once."""
        ...

    def start(self, source: Any, beams: int) -> Any:
        """Creates the memory of `beams` empty hypotheses for each sentence."""
        ...

    def step(
        self, source: Any, last: Int[Tensor, "b n"], state: Any, *, attention: bool = False
    ) -> Step:
        """Scores the token after `last`; b and n may differ from one step to the next.

        The search overwrites the logits. `attention` asks for the one signal that costs time.
        """
        ...


@runtime_checkable
class Scorable(Protocol):
    """Describes a model that predicts all positions of a given target at once."""

    def __call__(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> Any:
        """Returns outputs that have `signals` of shapes (b t i ...)."""
        ...

    def scores(
        self, outputs: Any, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """Scores the next token at chosen positions of the outputs."""
        ...
