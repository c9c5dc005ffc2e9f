"""What a model shows beside its predictions: attention, past and future, and copies.

One value, `Signals`, goes from the model through search and scoring to tables and pages.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.errors import UntoldError

# The categories of a source word, in the order of the last axis of all assignments.
CATEGORIES = ("past", "future", "redundant")
PAST, FUTURE, REDUNDANT = range(len(CATEGORIES))

Array = TypeVar("Array", Tensor, np.ndarray)
OtherArray = TypeVar("OtherArray", Tensor, np.ndarray)


@dataclass(frozen=True)
class Signals(Generic[Array]):
    """Holds what a model shows beside its predictions: at positions t, about source tokens i.

    A signal is None where the model has none or nobody asked for it. The methods go through the
    fields, so a new signal needs one field here and a value in `Seq2Seq._read_out`.
    """

    attention: Float[Array, "*t i"] | None = None  # sums to one over i
    assignments: Float[Array, "*t i g"] | None = None  # shares of past, future, redundant
    copying: Float[Array, "*t i"] | None = None  # the probability of copying each source token

    def only(self, names: Collection[str]) -> "Signals[Array]":
        """Keeps the signals with these names."""
        known = [field.name for field in fields(self)]
        for name in names:
            if name not in known:
                raise UntoldError(f"unknown signal {name}: choose from {', '.join(known)}")
        return type(self)(**{name: getattr(self, name) for name in names})

    def map(self, function: Callable[[Array], OtherArray]) -> "Signals[OtherArray]":
        """Applies `function` to every signal that is there."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        kind: Callable[..., Any] = type(self)
        return kind(**{k: v if v is None else function(v) for k, v in values.items()})

    def select(self: "Signals[Tensor]", rows: Int[Tensor, " r"]) -> "Signals[Tensor]":
        """Takes these rows of the first axis."""
        return self.map(lambda values: values[rows])

    def cpu(self: "Signals[Tensor]") -> "Signals[Tensor]":
        """Copies to the CPU."""
        return self.map(lambda values: values.cpu())

    def numpy(self: "Signals[Tensor]") -> "Signals[np.ndarray]":
        """Copies to the CPU as float32 arrays."""
        return self.map(lambda values: values.float().cpu().numpy())

    @staticmethod
    def combine(
        several: "Sequence[Signals[Tensor]]", function: Callable[[list[Tensor]], Tensor]
    ) -> "Signals[Tensor]":
        """Applies `function` to the list of each signal's values, of those that have the signal."""
        kind, found = type(several[0]), {}
        for field in fields(kind):
            values = [getattr(each, field.name) for each in several]
            values = [value for value in values if value is not None]
            if values:
                found[field.name] = function(values)
        return kind(**found)

    @staticmethod
    def mean(several: "Sequence[Signals[Tensor]]") -> "Signals[Tensor]":
        """Averages each signal over those that have it."""
        return Signals.combine(several, lambda values: torch.stack(values).mean(0))


NO_SIGNALS: Signals = Signals()


class SignalsMixin(Generic[Array]):
    """Lets the well-known signals be read without naming `signals`."""

    if TYPE_CHECKING:  # the dataclasses that use this have it as a field

        @property
        def signals(self) -> Signals[Array]:
            """Holds all signals."""
            ...

    @property
    def attention(self) -> Array | None:
        """Returns attention weights (... i), which sum to one over the source tokens."""
        return self.signals.attention

    @property
    def assignments(self) -> Array | None:
        """Returns shares (... i g) of past, future and redundant in each source token."""
        return self.signals.assignments

    @property
    def copying(self) -> Array | None:
        """Returns probabilities (... i) of copying each source token."""
        return self.signals.copying


@dataclass(frozen=True)
class Step(SignalsMixin[Tensor]):
    """Holds the predictions of one decoding step for n beams of each sentence."""

    logits: Float[Tensor, "b n v"]
    state: Any  # a DecoderState: what was read so far
    signals: Signals[Tensor] = NO_SIGNALS
