"""The whole model: a backbone, an optional past/future separator and copy layer, the output layer.

`Seq2Seq.forward` predicts all target positions at once, `Seq2Seq.step` predicts one more token from
a cache. Both return their predictions together with one `Signals` value.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError
from untold.models.backbone import Backbone, Decoded, DecoderState, Source
from untold.models.copy_mechanism import Copied, CopyLayer
from untold.models.past_future import PastFuture, Separated
from untold.models.routing import Reading
from untold.models.signals import NO_SIGNALS, Signals, SignalsMixin, Step


@dataclass(frozen=True)
class Outputs(SignalsMixin[Tensor]):
    """Holds what one pass over all target positions gives to losses, scoring and analysis."""

    source: Source
    states: Float[Tensor, "b t d"]  # z, the decoder states
    holistic: Float[Tensor, "b t o"]  # o, what the output layer reads
    signals: Signals[Tensor] = NO_SIGNALS
    separated: Separated | None = None
    copied: Copied | None = None
    inner_states: Any = None  # of an InspectableBackbone


class ReadStep(NamedTuple):
    """Holds what a step knows before the output layer."""

    holistic: Float[Tensor, "b n o"]
    copied: Copied | None
    signals: Signals[Tensor]
    covered: Float[Tensor, "r i"] | None


@dataclass(frozen=True)
class CoveringState:
    """Adds to a backbone's memory how much of its source each hypothesis has covered."""

    backbone: DecoderState
    covered: Float[Tensor, "r i"]
    begins: bool = False  # nothing was read yet, not even BOS

    def select(self, rows: Int[Tensor, " s"]) -> "CoveringState":
        """Keeps the hypotheses at `rows`."""
        covered = self.covered.index_select(0, rows)
        return CoveringState(self.backbone.select(rows), covered, self.begins)


class Seq2Seq(nn.Module):
    """Models p(y_t | y_<t, x) = softmax(E o_t), with E the backbone's output embedding.

    A copy layer mixes this distribution with one over the words of the source.
    """

    def __init__(
        self,
        backbone: Backbone,
        past_future: PastFuture | None = None,
        copy_layer: CopyLayer | None = None,
        word_prediction: nn.Linear | None = None,
    ) -> None:
        """Translation does not use `word_prediction`: the loss of that name trains this head."""
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
        """Runs with teacher forcing: position t reads prefix[:, :t+1] only."""
        source = self.encode(source_ids, source_mask)
        return self.decode(source, prefix, attention=attention)

    def decode(
        self,
        source: Source,
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
        decoded: Decoded | None = None,
    ) -> Outputs:
        """Runs with teacher forcing on an encoded source.

        `decoded` is what the backbone makes of it, if that is known already.
        """
        if decoded is None:
            decoded = self.backbone.decode(source, prefix, attention=attention)
        separated = None
        if self.past_future is not None:
            read = self._reading(prefix, decoded.states, begins=True)
            separated = self.past_future.separate(source, read)
        holistic, copied, signals = self._read_out(source, decoded, separated)
        states, inner = decoded.states, decoded.inner_states
        return Outputs(source, states, holistic, signals, separated, copied, inner)

    def freeze_backbone(self) -> None:
        """Stops training of all that translations depend on; only the separator still learns."""
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
        """Scores the next token at chosen positions; the log-softmax is log p(y_t | y_<t, x)."""
        logits = self.logits(outputs.holistic[rows, steps])
        if outputs.copied is None:
            return logits
        return outputs.copied.at(rows, steps).mix(logits[:, None])[:, 0]

    def logits(self, holistic: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """Applies the output layer. The losses avoid calling this on whole batches."""
        return self.backbone.output_layer().logits(holistic)

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Returns E, which has one row for each target token."""
        return self.backbone.output_embedding()

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Encodes the source once; all decoding steps share the result."""
        source = self.backbone.encode(ids, mask)
        if self.past_future is not None:
            source = self.past_future.cast(source)
        return source if self.copy_layer is None else self.copy_layer.cast(source, ids)

    def start(self, source: Source, beams: int) -> DecoderState:
        """Creates the memory of `beams` empty hypotheses for each sentence."""
        state = self.backbone.start(source, beams)
        if self.past_future is None or self.past_future.coverage is None:
            return state
        b, i = source.mask.shape
        return CoveringState(state, source.states.new_zeros(b * beams, i), begins=True)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> Step:
        """Scores the next token of every hypothesis after reading its token `last`."""
        covered, begins = None, False
        if isinstance(state, CoveringState):
            covered, begins = state.covered, state.begins
            state = state.backbone
        decoded, state = self.backbone.step(source, last, state, attention=attention)
        read = self.read_step(source, last, decoded, covered, begins=begins)
        if read.covered is not None:
            state = CoveringState(state, read.covered)
        logits = self.logits(read.holistic)
        return Step(logits if read.copied is None else read.copied.mix(logits), state, read.signals)

    def read_step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        decoded: Decoded,
        covered: Float[Tensor, "r i"] | None,
        *,
        begins: bool | Bool[Tensor, "b n"],
    ) -> "ReadStep":
        """Joins past and future, and copying, to what the backbone decoded in one step.

        `begins`: the token that was read is BOS; then `covered` may be None, as if it were zero.
        """
        separated, now = None, None
        if self.past_future is not None:
            if covered is None and self.past_future.coverage is not None:
                covered = source.states.new_zeros(last.numel(), source.mask.shape[1])
            before = None if covered is None else covered.view(*last.shape, -1)
            read = self._reading(last, decoded.states, begins=begins)
            separated = self.past_future.separate(source, read, before)
            if separated.covered is not None:
                now = separated.covered.flatten(0, 1)
        return ReadStep(*self._read_out(source, decoded, separated), now)

    def _reading(
        self,
        ids: Int[Tensor, "b t"],
        states: Float[Tensor, "b t d"],
        *,
        begins: bool | Bool[Tensor, "b t"],
    ) -> Reading:
        """Joins decoder states with the embeddings of the tokens that were read, if needed."""
        assert self.past_future is not None
        damp, tokens = self.past_future.damp, None
        if self.past_future.reads_tokens:
            tokens = damp(nn.functional.embedding(ids, self.output_embedding())).to(states.dtype)
        return Reading(states, damp(states), tokens, begins)

    def _read_out(
        self, source: Source, decoded: Decoded, separated: Separated | None
    ) -> tuple[Float[Tensor, "b t o"], Copied | None, Signals[Tensor]]:
        """Returns o, which the output layer reads, with copy probabilities and all signals."""
        readout = decoded.states if decoded.readout is None else decoded.readout
        if separated is not None:
            readout = readout + separated.fused
        holistic = self.backbone.finish(readout)
        copied = None if self.copy_layer is None else self.copy_layer(source, holistic)
        if decoded.attention is None and separated is None and copied is None:
            return holistic, None, NO_SIGNALS
        signals = Signals(
            attention=decoded.attention,
            assignments=None if separated is None else separated.shares,
            copying=None if copied is None else copied.weights,
        )
        return holistic, copied, signals
