"""The wiring: backbone, past/future and output layer, in one forward pass and one cached step."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError
from untold.models.backbone import Backbone, Decoded, DecoderState, Source
from untold.models.copy_mechanism import Copied, CopyLayer
from untold.models.past_future import PastFuture, Separated

__all__ = ["CoveringState", "Outputs", "Seq2Seq", "Step"]


@dataclass(frozen=True)
class Outputs:
    """What one forward pass over all target positions gives to losses, scoring and analysis."""

    source: Source
    states: Float[Tensor, "b t d"]  # z, the decoder states
    holistic: Float[Tensor, "b t o"]  # o, what the output layer reads
    attention: Float[Tensor, "b t i"] | None = None
    separated: Separated | None = None
    copied: Copied | None = None
    inner_states: Any = None  # of an InspectableBackbone

    @property
    def copying(self) -> Float[Tensor, "b t i"] | None:
        """The probability of copying each source word."""
        return None if self.copied is None else self.copied.weights

    @property
    def assignments(self) -> Float[Tensor, "b t i g"] | None:
        """Shares of past, future and redundant in each source word."""
        return None if self.separated is None else self.separated.shares


@dataclass(frozen=True)
class Step:
    """One decoding step of n beams for each sentence."""

    logits: Float[Tensor, "b n v"]
    state: DecoderState
    attention: Float[Tensor, "b n i"] | None = None
    assignments: Float[Tensor, "b n i g"] | None = None  # shares of past, future, redundant
    copying: Float[Tensor, "b n i"] | None = None  # the probability of copying each source word


@dataclass(frozen=True)
class CoveringState:
    """The memory of a backbone, and what each hypothesis has covered of its source."""

    backbone: DecoderState
    covered: Float[Tensor, "r i"]

    def select(self, rows: Int[Tensor, " s"]) -> "CoveringState":
        """The memory of the hypotheses at `rows`."""
        return CoveringState(self.backbone.select(rows), self.covered.index_select(0, rows))


class Seq2Seq(nn.Module):
    """p(y_t | y_<t, x) = softmax(E o_t), with E the backbone's output embedding.

    With a copy layer it is the mixture of that and of copying words of the source.
    """

    def __init__(
        self,
        backbone: Backbone,
        past_future: PastFuture | None = None,
        copy_layer: CopyLayer | None = None,
        word_prediction: nn.Linear | None = None,
    ) -> None:
        """`word_prediction`: a head that a loss of that name trains; no translation needs it."""
        super().__init__()
        self.backbone = backbone
        self.past_future = past_future
        self.copy_layer = copy_layer
        self.word_prediction = word_prediction

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
        return self.decode(source, prefix, attention=attention)

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Outputs:
        """The same on a source that is read already."""
        decoded = self.backbone.decode(source, prefix, attention=attention)
        separated = None
        if self.past_future is not None:
            separated = self.past_future.separate(source, decoded.states)
        holistic = self._read_out(decoded, separated)
        copied = None if self.copy_layer is None else self.copy_layer(source, holistic)
        states, weights = decoded.states, decoded.attention
        return Outputs(source, states, holistic, weights, separated, copied, decoded.inner_states)

    def freeze_backbone(self) -> None:
        """Let nothing learn that has a part in translations: only the separator and its heads."""
        if self.past_future is None:
            raise UntoldError(
                "a frozen backbone leaves nothing to train: set model.separator.kind to gdr, clf "
                "or attn, or train.freeze_backbone to false"
            )
        if not self.past_future.fusion.is_silent:
            raise UntoldError(
                "the model reads its capsules, so that its translations would change with them: "
                "start a frozen run from a plain model, or set train.freeze_backbone to false"
            )
        self.backbone.requires_grad_(False)
        self.past_future.fusion.requires_grad_(False)
        if self.copy_layer is not None:
            self.copy_layer.requires_grad_(False)

    def scores(
        self, outputs: Outputs, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """Of the next token at chosen positions: their log-softmax is log p(y_t | y_<t, x)."""
        logits = self.logits(outputs.holistic[rows, steps])
        if outputs.copied is None:
            return logits
        return outputs.copied.at(rows, steps).mix(logits[:, None])[:, 0]

    def logits(self, holistic: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """E o, of what is generated. The losses avoid calling this on whole batches."""
        return self.backbone.output_layer().logits(holistic)

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """E, one row for each target token."""
        return self.backbone.output_embedding()

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Read the source once; all decoding steps share the result."""
        source = self.backbone.encode(ids, mask)
        if self.past_future is not None:
            source = self.past_future.cast(source)
        return source if self.copy_layer is None else self.copy_layer.cast(source, ids)

    def start(self, source: Source, beams: int) -> DecoderState:
        """The memory of `beams` empty hypotheses for each sentence."""
        state = self.backbone.start(source, beams)
        if self.past_future is None or self.past_future.coverage is None:
            return state
        b, i = source.mask.shape
        return CoveringState(state, source.states.new_zeros(b * beams, i))

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> Step:
        """Scores of every hypothesis's next token after reading `last`."""
        covered = None
        if isinstance(state, CoveringState):
            covered, state = state.covered.view(*last.shape, -1), state.backbone
        decoded, state = self.backbone.step(source, last, state, attention=attention)
        separated = None
        if self.past_future is not None:
            separated = self.past_future.separate(source, decoded.states, covered)
            if separated.covered is not None:
                state = CoveringState(state, separated.covered.flatten(0, 1))
        shares = None if separated is None else separated.shares
        holistic = self._read_out(decoded, separated)
        logits = self.logits(holistic)
        if self.copy_layer is None:
            return Step(logits, state, decoded.attention, shares)
        copied = self.copy_layer(source, holistic)
        return Step(copied.mix(logits), state, decoded.attention, shares, copied.weights)

    def _read_out(self, decoded: Decoded, separated: Separated | None) -> Float[Tensor, "b t o"]:
        """o, the holistic context: what the output layer reads."""
        readout = decoded.states if decoded.readout is None else decoded.readout
        if self.past_future is not None and separated is not None:
            readout = readout + separated.fused
        return self.backbone.finish(readout)
