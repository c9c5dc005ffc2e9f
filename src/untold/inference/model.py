"""A whole model for translation: the prepared Transformer, with past and future on top of it."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.errors import UntoldError
from untold.inference.kv_cache import HypothesisMemory, RaggedSource
from untold.inference.linear import has_int8
from untold.inference.routing import PreparedRouting
from untold.inference.transformer import PreparedTransformer
from untold.models.backbone import Decoded, Source, TransformerParts
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.models.signals import Signals, Step


class PreparedModel:
    """Translates as the model does, faster, on a CPU. It scores by the model itself.

    It copies weights: whoever changes those of the model prepares it again (`is_current`).
    """

    def __init__(self, model: Seq2Seq, parts: TransformerParts, *, int8: bool = False) -> None:
        self.model = model
        self._versions, self._first = _versions(model), len(parts.target_before)
        with torch.inference_mode():
            output = model.backbone.output_layer()
            self._backbone = PreparedTransformer(parts, output, int8=int8)
            self._routing = None
            if model.past_future is not None and model.copy_layer is None:
                self._routing = PreparedRouting.of(model.past_future, model.output_embedding())

    @property
    def is_current(self) -> bool:
        """Tells if the model's weights are those that were prepared."""
        return self._versions == _versions(self.model)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> RaggedSource:
        """Encodes the source once, and lays out what routing needs of it."""
        encoded = self._backbone.encode(ids, mask)
        if self._routing is not None:
            return self._routing.cast(encoded)
        source: Source = encoded
        past_future, copy_layer = self.model.past_future, self.model.copy_layer
        if past_future is not None:
            source = past_future.cast(source)
        if copy_layer is not None:
            source = copy_layer.cast(source, ids)
        assert isinstance(source, RaggedSource)
        return source

    def start(self, source: RaggedSource, beams: int) -> HypothesisMemory:
        """Creates the memory of `beams` empty hypotheses for each sentence."""
        return self._backbone.start(source, beams)

    def step(
        self,
        source: RaggedSource,
        last: Int[Tensor, "b n"],
        state: HypothesisMemory,
        *,
        attention: bool = False,
    ) -> Step:
        """Scores the next token of every hypothesis after reading its token `last`."""
        states, shown, memory = self._backbone.step(source, last, state, attention=attention)
        if self._routing is not None:
            routed = self._routing.step(source, states, last, state.covered)
            memory.covered = routed.covered
            signals = Signals(attention=shown, assignments=routed.shares)
            return Step(self._logits(routed.holistic), memory, signals)
        begins = state.length == self._first
        decoded = Decoded(states, shown)
        read = self.model.read_step(source, last, decoded, state.covered, begins=begins)
        memory.covered = read.covered
        logits = self._logits(read.holistic)
        return Step(
            logits if read.copied is None else read.copied.mix(logits), memory, read.signals
        )

    def __call__(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> Outputs:
        """Predicts all positions of given targets with the model itself."""
        return self.model(source_ids, source_mask, prefix, attention=attention)

    def scores(
        self, outputs: Outputs, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """Scores the next token at chosen positions."""
        return self.model.scores(outputs, rows, steps)

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Returns one vector for each target token."""
        return self.model.output_embedding()

    def _logits(self, holistic: Float[Tensor, "b n o"]) -> Float[Tensor, "b n v"]:
        b, n, _ = holistic.shape
        return self._backbone.logits(holistic.view(b * n, -1)).view(b, n, -1)


@torch.inference_mode()
def prepare(model: Seq2Seq, *, int8: bool = False) -> PreparedModel | Seq2Seq:
    """Prepares a Transformer on a CPU in fp32; returns other models as they are, but for int8."""
    weight, parts = model.output_embedding(), model.backbone.parts()
    if parts is not None and weight.device.type == "cpu" and weight.dtype == torch.float32:
        if int8 and not has_int8():
            raise UntoldError(
                "decode.int8: nothing multiplies 8-bit numbers on this machine: leave it out"
            )
        return PreparedModel(model, parts, int8=int8)
    if int8:
        kind = "another backbone" if parts is None else f"{weight.dtype} on {weight.device.type}"
        raise UntoldError(
            f"decode.int8 is for Transformers in float32 on a CPU, and this model is {kind}: "
            "leave it out"
        )
    return model


def _versions(model: Seq2Seq) -> list[tuple[int, int]]:
    """Tells weights apart from those that a later update or load puts in their place."""
    return [
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        for weight in model.parameters()
    ]
