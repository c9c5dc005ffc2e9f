"""What decoding asks of a model. Seq2Seq answers to it, and so does an Ensemble of them.

The encoded source and the decoder state pass through the search unread: it only calls their
`select(rows)`, rows of sentences for a source, rows of the flattened (b n) hypotheses for a state.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.models.seq2seq import Step

__all__ = ["Scorable", "Searchable"]


@runtime_checkable
class Searchable(Protocol):
    """A model that predicts one token at a time."""

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Any:
        """The source, read once."""
        ...

    def start(self, source: Any, beams: int) -> Any:
        """The memory of `beams` empty hypotheses for each sentence."""
        ...

    def step(
        self, source: Any, last: Int[Tensor, "b n"], state: Any, *, attention: bool = False
    ) -> Step:
        """Scores of the token after `last`; b and n may differ from one step to the next.

        The search overwrites the logits.
        """
        ...


@runtime_checkable
class Scorable(Protocol):
    """A model that predicts all positions of a given target at once."""

    def __call__(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> Any:
        """With `attention`, `copying` (b t i) and `assignments` (b t i g), as Outputs."""
        ...

    def scores(
        self, outputs: Any, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """Of the next token at chosen positions of the outputs."""
        ...
