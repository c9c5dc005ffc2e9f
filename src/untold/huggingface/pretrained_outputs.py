"""What a model of transformers with past and future returns: beside the usual, who holds what."""

import copy
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
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

    They are tensors of their own, so that generate() repeats them for its beams.
    """

    visible: Tensor | None = None

    @classmethod
    def of(cls, source: Source) -> "PastFutureEncoderOutput":
        """Takes over a source that was cast."""
        make: Any = cls  # type checkers do not know the fields that it inherits
        made = make(last_hidden_state=source.states, visible=source.mask)
        for number, part in enumerate(source.votes):
            made[f"{_VOTES}{number}"] = part
        return made

    def source(self) -> Source:
        """Returns the source, without keys: the cache holds them."""
        votes = tuple(self[name] for name in self if name.startswith(_VOTES))
        return Source(self["last_hidden_state"], self["visible"], votes=votes)

    def repeat(self, times: int) -> "PastFutureEncoderOutput":
        """Repeats every sentence, each beside itself."""
        made = copy.copy(self)
        for name in list(made):
            made[name] = made[name].repeat_interleave(times, dim=0)
        return made
