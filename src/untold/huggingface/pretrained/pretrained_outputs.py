"""Holds what a model of transformers with past and future returns beside the usual."""

import copy
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from untold.huggingface.pretrained.pretrained_batch import FramedSource
from untold.huggingface.transformers_extra import import_transformers
from untold.models.backbone import Source

__all__ = ["PastFutureEncoderOutput", "PastFutureOutput"]

_outputs: Any = import_transformers("modeling_outputs")
_VOTES = "votes_"


@dataclass
class PastFutureOutput(_outputs.Seq2SeqLMOutput):
    """Holds what transformers expects, and the shares of past, future and redundant.

    The columns of `assignments` are those of `input_ids`; they are zero at padding and at what is
    no part of the text, and before the first word of a translation can be said. Of the fields of
    transformers those are named here that need not have 32 bits.
    """

    loss: Any = None  # a number, or all fields in a dictionary: so accelerate copies outputs
    logits: Tensor | None = None
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    assignments: Float[Tensor, "b t f g"] | None = None


@dataclass
class PastFutureEncoderOutput(_outputs.BaseModelOutput):
    """Holds an encoded source and its votes, under the names votes_0, votes_1 and so on.

    They are tensors of their own, so that generate() repeats them for its beams. Of the states,
    which are those of the whole frame, `places` and `mask` tell which are those of the text;
    `real` is zero at padding.
    """

    last_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    places: Tensor | None = None
    mask: Tensor | None = None
    real: Tensor | None = None

    @classmethod
    def of(cls, read: Any, framed: FramedSource, source: Source) -> "PastFutureEncoderOutput":
        """Takes over what an encoder of transformers gave, and the source that was cast."""
        made = cls(
            last_hidden_state=read.last_hidden_state,
            hidden_states=read.hidden_states,
            attentions=read.attentions,
            places=framed.places,
            mask=source.mask,
            real=framed.real.long(),
        )
        for number, part in enumerate(source.votes):
            made[f"{_VOTES}{number}"] = part
        return made

    def source(self) -> Source:
        """Returns what separation reads: votes and mask. Of the states only their shape counts."""
        votes = tuple(self[name] for name in self if name.startswith(_VOTES))
        mask = self["mask"]
        states = self["last_hidden_state"][:, : mask.shape[1]]
        return Source(states.to(votes[0].dtype), mask, votes=votes)

    def repeat(self, times: int) -> "PastFutureEncoderOutput":
        """Repeats every sentence, each beside itself; leaves out what nothing reads any more."""
        made = copy.copy(self)
        for name, value in self.items():
            repeats = isinstance(value, Tensor)
            made[name] = value.repeat_interleave(times, dim=0) if repeats else None
        return made
