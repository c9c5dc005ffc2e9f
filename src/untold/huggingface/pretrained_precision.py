"""Keeps past and future in 32 bits on top of a backbone whose weights have 16.

Coverage is a sum over the whole target, and losses take logarithms of shares that are nearly zero
or one: 16 bits round the former away and make the latter infinite.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.models.backbone import Backbone, Decoded, DecoderState, OutputLayer, Source


def sparing(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns `change`, which moves or converts weights, but for one thing.

    The weights of `module` are moved, and not converted to fewer than 32 bits.
    """
    held = (*module.parameters(), *module.buffers())
    spared = {id(each) for each in (*held, *(p.grad for p in held if p.grad is not None))}

    def changed(tensor: Tensor) -> Tensor:
        made = change(tensor)
        narrows = _is_narrow(made.dtype) and not _is_narrow(tensor.dtype)
        return tensor.to(made.device) if narrows and id(tensor) in spared else made

    return changed


def _is_narrow(kind: torch.dtype) -> bool:
    """Tells if numbers of this kind have fewer than 32 bits."""
    return kind.is_floating_point and kind.itemsize < 4


class WideBackbone(Backbone):
    """Shows losses the states and the output layer of a backbone in numbers of another kind."""

    def __init__(self, narrow: Backbone, kind: torch.dtype) -> None:
        """Copies the output layer of `narrow`; gradients flow back to it."""
        super().__init__()
        self._narrow = (narrow,)  # in a tuple, so that its parameters are not listed here again
        self._kind, self.widths, output = kind, narrow.widths, narrow.output_layer()
        bias = None if output.bias is None else output.bias.to(kind)
        self._output = OutputLayer(output.weight.to(kind), bias)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Reads the source."""
        read = self._narrow[0].encode(ids, mask)
        return replace(read, states=read.states.to(self._kind))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Computes all positions at once."""
        read = self._narrow[0].decode(source, prefix, attention=attention)
        return Decoded(read.states.to(self._kind), read.attention)

    def start(self, source: Source, beams: int) -> DecoderState:
        """Returns the state of empty hypotheses."""
        return self._narrow[0].start(source, beams)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, DecoderState]:
        """Reads one more token of every hypothesis."""
        read, state = self._narrow[0].step(source, last, state, attention=attention)
        return Decoded(read.states.to(self._kind), read.attention), state

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """Completes the readout."""
        return self._narrow[0].finish(readout)

    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Returns one vector for each target token."""
        return self._output.weight

    def output_layer(self) -> OutputLayer:
        """Returns the map from readouts to logits."""
        return self._output
