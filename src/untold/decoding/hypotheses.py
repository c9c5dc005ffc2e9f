"""What a search takes and returns, what it asks of a model, and how it recovers its hypotheses.

The encoded source and the decoder state pass through a search unread. The search only calls their
`select(rows)`: rows are sentences for a source and flattened (b n) hypotheses for a state.

A search only appends to its back-pointers; nothing is reordered when beams change places. Row r of
step s continues row parents[r] of step s-1, also when sentences have left the batch, so that one
walk back over the steps recovers any number of hypotheses at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.tokenizer import SpecialIds
from untold.errors import UntoldError
from untold.models.signals import NO_SIGNALS, Signals, SignalsMixin, Step

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


class End(NamedTuple):
    """Points to the last token of a hypothesis: row `row` of step `step` of the back-pointers."""

    score: float  # with all penalties
    log_probability: float  # of the whole hypothesis
    step: int  # also the number of its tokens
    row: int
    eos_log_probability: float | None = None  # None: EOS is yet to come
    by_itself: bool = False  # the model chose EOS, below the length limit


class Paths(NamedTuple):
    """Holds hypotheses f from their first token on."""

    tokens: list[list[int]]
    log_probs: list[list[float]]
    signals: Signals[Tensor]  # (f, s, ...) at each step s; beyond the end of a path without meaning


class BackPointers:
    """Records for every step where its rows come from and which tokens they add.

    They are plain numbers: a step has few rows, and a tensor operation costs more than they do.
    """

    def __init__(self, start: Sequence[int]) -> None:
        """Begins with the tokens that the first step reads: BOS for every row."""
        self._parents: list[Sequence[int]] = [[0] * len(start)]
        self._tokens: list[Sequence[int]] = [start]
        self._log_probs: list[Sequence[float]] = [[0.0] * len(start)]
        self._signals: list[Signals[Tensor]] = []

    def show(self, signals: Signals[Tensor]) -> None:
        """Records the signals (r, ...) of the current rows."""
        self._signals.append(signals)

    def append(
        self, parents: Sequence[int], tokens: Sequence[int], log_probs: Sequence[float]
    ) -> None:
        """Adds the rows of the next step: which row each continues, and its token."""
        self._parents.append(parents)
        self._tokens.append(tokens)
        self._log_probs.append(log_probs)

    def follow(self, ends: Sequence[tuple[int, int]]) -> Paths:
        """Recovers the paths that end at these (step, row)."""
        places = [self._places(step, row) for step, row in ends]
        tokens = [[self._tokens[step][row] for step, row in path[1:]] for path in places]
        log_probs = [[self._log_probs[step][row] for step, row in path[1:]] for path in places]
        return Paths(tokens, log_probs, self._seen(places) if self._signals else NO_SIGNALS)

    def hypotheses(
        self, ends: Iterable[tuple[int, End]], source_mask: Bool[Tensor, "b i"]
    ) -> list[Hypothesis]:
        """Builds the hypotheses of these (sentence, end) pairs."""
        pairs = list(ends)
        paths, hypotheses = self.follow([(end.step, end.row) for _, end in pairs]), []
        for path, (number, end) in enumerate(pairs):
            log_probs, signals = paths.log_probs[path], paths.signals
            if end.eos_log_probability is not None:
                log_probs.append(end.eos_log_probability)
            if self._signals:
                signals = _cut(signals, path, len(log_probs), source_mask[number])
            hypotheses.append(
                Hypothesis(
                    tokens=tuple(paths.tokens[path]),
                    score=end.score,
                    log_probability=end.log_probability,
                    token_log_probabilities=tuple(log_probs),
                    finished=end.by_itself,
                    signals=signals,
                    complete=end.eos_log_probability is not None,
                )
            )
        return hypotheses

    def _places(self, step: int, row: int) -> list[tuple[int, int]]:
        """Finds the (step, row) of a path at every step, from the first on."""
        places = []
        for number in range(step, -1, -1):
            places.append((number, row))
            row = self._parents[number][row]
        return places[::-1]

    def _seen(self, places: list[list[tuple[int, int]]]) -> Signals[Tensor]:
        """Gathers the signals (f, s, ...) that the paths met; row 0 fills the ends."""
        steps = max(map(len, places))
        rows = [[row for _, row in path] + [0] * (steps - len(path)) for path in places]
        at = torch.tensor(rows).T
        return Signals.combine(self._signals, lambda values: _along(values, at))


@dataclass(frozen=True)
class FinishedHypotheses:
    """Keeps the `size` best finished hypotheses of each sentence; of equals the earlier."""

    size: int
    best: tuple[tuple[End, ...], ...]  # for each sentence, best first
    counts: tuple[int, ...]  # hypotheses that have finished, kept or not
    worst: tuple[float, ...]  # the score to beat: -inf while places are empty

    @classmethod
    def none(cls, sentences: int, size: int) -> "FinishedHypotheses":
        """Starts with nothing finished."""
        return cls(size, ((),) * sentences, (0,) * sentences, (-math.inf,) * sentences)

    def add(self, ends: Iterable[tuple[int, End]]) -> "FinishedHypotheses":
        """Adds (sentence, end) pairs."""
        best, counts, worst = list(self.best), list(self.counts), list(self.worst)
        for number, end in ends:
            ranked = sorted((*best[number], end), key=lambda other: -other.score)
            best[number] = tuple(ranked[: self.size])
            counts[number] += 1
            if len(best[number]) == self.size:
                worst[number] = best[number][-1].score
        return FinishedHypotheses(self.size, tuple(best), tuple(counts), tuple(worst))


def _along(series: Sequence[Tensor], at: Tensor) -> Tensor:
    """Gathers the values (f, s, ...) that each path met."""
    pairs = zip(series, at.to(series[0].device), strict=False)
    return torch.stack([values[rows] for values, rows in pairs], dim=1)


def _cut(
    signals: Signals[Tensor], path: int, length: int, real: Bool[Tensor, " i"]
) -> Signals[Tensor]:
    """Takes the first `length` steps of one path over the real source tokens."""
    return signals.map(lambda values: values[path, :length, real])
