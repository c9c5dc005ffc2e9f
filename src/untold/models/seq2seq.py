"""The wiring: a backbone and the output layer, behind one forward pass and one cached step."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.models.backbone import Backbone, DecoderState, Source

__all__ = ["Outputs", "Seq2Seq", "Step"]


@dataclass(frozen=True)
class Outputs:
    """What one forward pass over all target positions gives to losses, scoring and analysis."""

    source: Source
    states: Float[Tensor, "b t d"]  # z, the decoder states
    holistic: Float[Tensor, "b t d"]  # o, what the output layer reads
    attention: Float[Tensor, "b t i"] | None = None


@dataclass(frozen=True)
class Step:
    """One decoding step of n beams for each sentence."""

    logits: Float[Tensor, "b n v"]
    state: DecoderState
    attention: Float[Tensor, "b n i"] | None = None


class Seq2Seq(nn.Module):
    """p(y_t | y_<t, x) = softmax(E o_t), with E the backbone's output embedding."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> Outputs:
        """Teacher-forced: position t has read prefix[:, :t+1] and predicts the token after it."""
        source = self.encode(source_ids, source_mask)
        decoded = self.backbone.decode(source, prefix, attention=attention)
        return Outputs(source, decoded.states, decoded.states, decoded.attention)

    def logits(self, holistic: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """E o: scores of the next token. The losses avoid calling this on whole batches."""
        return F.linear(holistic, self.output_embedding())

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """E, one row for each target token."""
        return self.backbone.output_embedding()

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Read the source once; all decoding steps share the result."""
        return self.backbone.encode(ids, mask)

    def start(self, source: Source, beams: int) -> DecoderState:
        """The memory of `beams` empty hypotheses for each sentence."""
        return self.backbone.start(source, beams)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> Step:
        """Scores of every hypothesis's next token after reading `last`."""
        decoded, state = self.backbone.step(source, last, state, attention=attention)
        return Step(self.logits(decoded.states), state, decoded.attention)
