"""Holds what a model of transformers with past and future returns beside the usual."""

import copy
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from untold.huggingface.transformers_extra import import_transformers
from untold.models.backbone import Source

__all__ = ["PastFutureEncoderOutput", "PastFutureOutput"]

_outputs: Any = import_transformers("modeling_outputs")
_VOTES = "votes_"


@dataclass
class PastFutureOutput(_outputs.Seq2SeqLMOutput):
    """Holds what transformers expects, and the shares of past, future and redundant.

    The columns of `assignments` are those of `input_ids`; they are zero at padding and at what is
    no part of the text, and before the first word of a translation can be said.
    """

    assignments: Float[Tensor, "b t f g"] | None = None


@dataclass
class PastFutureEncoderOutput(_outputs.BaseModelOutput):
    """Holds an encoded source and its votes, under the names votes_0, votes_1 and so on.

    They are tensors of their own, so that generate() repeats them for its beams. Of the states,
    which are those of the whole frame, `places` and `mask` tell which are those of the text.
    """

    places: Tensor | None = None
    mask: Tensor | None = None

    @classmethod
    def of(
        cls, states: Float[Tensor, "b f d"], places: Int[Tensor, "b i"], source: Source
    ) -> "PastFutureEncoderOutput":
        """Takes over a source that was cast, with all states and the places of its own."""
        make: Any = cls  # type checkers do not know the fields that it inherits
        made = make(last_hidden_state=states, places=places, mask=source.mask)
        for number, part in enumerate(source.votes):
            made[f"{_VOTES}{number}"] = part
        return made

    def source(self) -> Source:
        """Returns what separation reads: votes and mask. Of the states only their kind counts."""
        votes = tuple(self[name] for name in self if name.startswith(_VOTES))
        mask = self["mask"]
        return Source(self["last_hidden_state"][:, : mask.shape[1]], mask, votes=votes)

    def repeat(self, times: int) -> "PastFutureEncoderOutput":
        """Repeats every sentence, each beside itself."""
        made = copy.copy(self)
        for name in list(made):
            made[name] = made[name].repeat_interleave(times, dim=0)
        return made
