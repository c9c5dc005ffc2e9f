"""A Hugging Face encoder-decoder behind the interface of every backbone.

All the rest of untold sees sources `x EOS` and targets `BOS y EOS`. What else a model wants to
read, such as language codes, is inserted here, and its rows and columns are hidden again:

    encoder reads   source_before x EOS source_after
    decoder reads   target_before BOS y

Beams share the keys of their source: for this the attention is our own, which transformers calls by
the name FOLDED. The adapter hands over all masks ready-made, as four axes of booleans; where
transformers makes them itself, as in generate(), the function of that name makes all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError, shorten
from untold.huggingface.config import HuggingFaceConfig
from untold.huggingface.families import FAMILIES, refuse_architecture
from untold.huggingface.optional import import_transformers, quiet
from untold.models.backbone import (
    Backbone,
    Decoded,
    DecoderState,
    Source,
    SourceFrame,
    TransformerParts,
    Widths,
    check_positions,
)
from untold.models.layers import widen

FOLDED = "untold_folded"


class ShownWeights:
    """Collects the weights of one attention layer while the decoder runs."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.weights: Float[Tensor, "b t i"] | None = None  # the mean of the heads


_SHOWN: ContextVar[ShownWeights | None] = ContextVar("shown weights", default=None)


@contextmanager
def showing(layer: nn.Module | None) -> Iterator[ShownWeights | None]:
    """Collects the weights of a layer within the block; None collects nothing."""
    shown = None if layer is None else ShownWeights(layer)
    token = _SHOWN.set(shown)
    try:
        yield shown
    finally:
        _SHOWN.reset(token)


def register_folded_attention() -> str:
    """Makes the attention known to transformers, and returns its name."""
    functions = import_transformers("modeling_utils").ALL_ATTENTION_FUNCTIONS
    if FOLDED not in functions:
        functions.register(FOLDED, folded_attention)
        import_transformers("masking_utils").ALL_MASK_ATTENTION_FUNCTIONS.register(
            FOLDED, _whole_mask
        )
    return FOLDED


def _whole_mask(*sizes: Any, **options: Any) -> Bool[Tensor, "b 1 t i"]:
    """Makes a mask of booleans, also where transformers would leave it to the attention."""
    always = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return import_transformers("masking_utils").sdpa_mask(*sizes, **options | always)


def folded_attention(
    module: nn.Module,
    query: Float[Tensor, "r k t e"],
    key: Float[Tensor, "b k i e"],
    value: Float[Tensor, "b k i e"],
    attention_mask: Bool[Tensor, "#b 1 #t i"],
    **options: Any,
) -> tuple[Float[Tensor, "r t k e"], Float[Tensor, "b k t i"] | None]:
    """Attends with r = b n queries over the keys of b sentences; n is 1 where nothing is folded.

    `options` are those of transformers: scaling, dropout, output_attentions, and the position bias
    of T5. Weights are returned where transformers asks for them.
    """
    dropout, scale = options.get("dropout", 0.0), options.get("scaling")
    bias: Tensor | None = options.get("position_bias")
    (rows, heads, length, width), sentences = query.shape, key.shape[0]
    is_folded = rows != sentences
    if is_folded:  # T5 gives cross attention a bias of zeros, which would not fit
        bias = None
        folded = query.view(sentences, -1, heads, length, width).transpose(1, 2)
        query = folded.reshape(sentences, heads, -1, width)
    mask: Tensor = attention_mask
    if bias is not None:
        mask = bias.masked_fill(~attention_mask, -torch.inf)
    shown, weights, returned = _SHOWN.get(), None, bool(options.get("output_attentions"))
    if returned or (shown is not None and shown.layer is module):
        scores = query @ key.transpose(2, 3) * (width**-0.5 if scale is None else scale)
        if bias is not None:
            scores = scores + bias
        # Not -inf: where all is masked, weights are even, as transformers has them, and not NaN.
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        if shown is not None and shown.layer is module:
            shown.weights = weights.mean(1).view(rows, length, -1)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
    )
    if is_folded:
        output = output.view(sentences, heads, -1, length, width).transpose(1, 2)
        output = output.reshape(rows, heads, length, width)
    return output.transpose(1, 2).contiguous(), weights if returned else None


@dataclass(frozen=True)
class HuggingFaceState:
    """Keeps the keys and values of the tokens that each hypothesis has read, layer by layer."""

    layers: tuple[tuple[Float[Tensor, "r k t e"], Float[Tensor, "r k t e"]], ...] = ()

    def select(self, rows: Int[Tensor, " s"]) -> "HuggingFaceState":
        return HuggingFaceState(
            tuple((k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.layers)
        )

    @property
    def length(self) -> int:
        return self.layers[0][0].shape[2] if self.layers else 0


class HuggingFaceBackbone(Backbone):
    """Wraps Marian, BART, mBART, M2M100, NLLB, Pegasus or T5."""

    config_class: ClassVar = HuggingFaceConfig

    def __init__(
        self,
        config: HuggingFaceConfig,
        vocabularies: tuple[int, int],
        *,
        shared: bool,  # noqa: ARG002 - the model itself says what it shares
        model: Any = None,
    ) -> None:
        """Builds an untrained model from `config.architecture`, or takes over a live `model`."""
        super().__init__()
        if not config.architecture:
            raise UntoldError(
                'model.backbone = "huggingface" needs a model to wrap: give --init hf:PATH'
            )
        refuse_architecture(config.architecture, "model.architecture")
        self.family = FAMILIES[config.architecture["model_type"]]
        self.model = _build(config, vocabularies) if model is None else model
        _fix_positions(self.model)
        self.model.set_attn_implementation(register_folded_attention())
        self.longest = config.longest
        self.before, self.after = config.source_before, config.source_after
        self.target_before = config.target_before
        self.scale = 1.0
        if getattr(self.model.config, "scale_decoder_outputs", False):
            self.scale = self.model.config.d_model**-0.5
        width = self.model.config.d_model
        self.widths = Widths(source=width, state=width, output=width)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Reads the source within its frame; `memory` holds the frame's mask, keys and values."""
        framed, first = self.encode_framed(*self._frame(ids, mask)), len(self.before)
        return Source(framed.states[:, first : first + ids.shape[1]], mask, framed.memory)

    def encode_framed(self, ids: Int[Tensor, "b f"], real: Bool[Tensor, "b f"]) -> Source:
        """Reads sources that are within their frames already; `real` is False at padding."""
        self._check_length(ids.shape[1])
        read = self.model.get_encoder()(input_ids=ids, attention_mask=real[:, None, None])
        states, memory = read.last_hidden_state, [real]
        if self.training and self.model.is_gradient_checkpointing:
            return Source(states, real, (real, states))  # its layers make their own keys
        for attention in self._cross_attentions():
            memory += [self._project(attention, name, states) for name in self._key_names]
        return Source(states, real, tuple(memory))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        framed = self.decode_framed(source, self._begin(prefix), attention=attention)
        weights, hidden = framed.attention, len(self.target_before)
        return Decoded(framed.states[:, hidden:], None if weights is None else weights[:, hidden:])

    def decode_framed(
        self, source: Source, ids: Int[Tensor, "b u"], *, attention: bool = False
    ) -> Decoded:
        """Computes all positions, those of `target_before` too, which the ids begin with."""
        states, weights, _ = self._read(source, ids, HuggingFaceState(), attention=attention)
        return Decoded(states, weights)

    def start(self, source: Source, beams: int) -> HuggingFaceState:  # noqa: ARG002
        return HuggingFaceState()  # the first step tells how many hypotheses there are

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, HuggingFaceState]:
        """Reads one more token of every hypothesis; at the beginning also what goes before it."""
        assert isinstance(state, HuggingFaceState) and len(source.memory) > 2
        ids = last.reshape(-1, 1)
        if not state.layers:
            ids = self._begin(ids)
        states, weights, state = self._read(source, ids, state, attention=attention)
        if weights is not None:
            weights = weights[:, -1].view(*last.shape, -1)
        return Decoded(states[:, -1].view(*last.shape, -1), weights), state

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """Scales the readout, as T5 does if its output layer is its embedding."""
        return readout if self.scale == 1.0 else readout * self.scale

    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Returns the weight of the output layer, in 32 bits: losses sum its rows."""
        return widen(self.model.get_output_embeddings().weight)

    def parts(self) -> TransformerParts | None:
        """Describes a model of BART's family; a T5 has other parts."""
        if self.family.parts is None:
            return None
        frame = SourceFrame(self._frame, len(self.before)) if self.before or self.after else None
        return self.family.parts(self.model, frame, self.target_before)

    def blocks(self) -> Iterable[nn.Module]:
        """Lists all layers; keys and values of the source are computed before those of a decoder.

        A model that drops whole layers in training (layerdrop) does not call all of them.
        """
        config, family = self.model.config, self.family
        if any(getattr(config, f"{side}_layerdrop", 0.0) for side in ("encoder", "decoder")):
            return
        yield from getattr(self.model.get_encoder(), family.layers)
        for layer in getattr(self.model.get_decoder(), family.layers):
            cross = family.cross_attention(layer)
            yield from (getattr(cross, name) for name in self._key_names)
            yield layer

    @property
    def _key_names(self) -> tuple[str, str]:
        return self.family.keys, self.family.values

    def _cross_attentions(self) -> list[nn.Module]:
        layers = getattr(self.model.get_decoder(), self.family.layers)
        return [self.family.cross_attention(layer) for layer in layers]

    def _project(
        self, attention: Any, name: str, states: Float[Tensor, "b i d"]
    ) -> Float[Tensor, "b k i e"]:
        """Computes keys or values of a source, once for all steps."""
        heads = getattr(attention, self.family.heads)
        projected = getattr(attention, name)(states)
        return projected.view(*states.shape[:2], heads, -1).transpose(1, 2)

    def _frame(
        self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]
    ) -> tuple[Int[Tensor, "b f"], Bool[Tensor, "b f"]]:
        """Inserts what the encoder reads before and after each source; returns ids and mask."""
        pad, first = self.model.config.pad_token_id, len(self.before)
        lengths = mask.sum(1, keepdim=True)
        width = first + ids.shape[1] + len(self.after)
        framed = ids.new_full((len(ids), width), pad)
        framed[:, :first] = ids.new_tensor(self.before)
        framed[:, first : first + ids.shape[1]] = ids.masked_fill(~mask, pad)
        for place, token in enumerate(self.after):
            framed.scatter_(1, first + lengths + place, token)
        real = torch.arange(width, device=ids.device) < first + lengths + len(self.after)
        return framed, real

    def _begin(self, ids: Int[Tensor, "r t"]) -> Int[Tensor, "r u"]:
        """Puts what the decoder reads before BOS before the targets."""
        if not self.target_before:
            return ids
        before = ids.new_tensor(self.target_before).expand(len(ids), -1)
        return torch.cat([before, ids], dim=1)

    def _read(
        self,
        source: Source,
        ids: Int[Tensor, "r t"],
        state: HuggingFaceState,
        *,
        attention: bool,
    ) -> tuple[Float[Tensor, "r t d"], Float[Tensor, "r t i"] | None, HuggingFaceState]:
        """Reads more tokens of r hypotheses; returns states, attention and the new memory."""
        start, length = state.length, ids.shape[1]
        self._check_length(start + length)
        causal = torch.ones(length, start + length, dtype=torch.bool, device=ids.device)
        known_source, layers = _known_source(source, state), self._cross_attentions()
        # The layer before the last: its attention follows word alignments best.
        shown_layer = layers[max(0, len(layers) - 2)] if attention else None
        with showing(shown_layer) as shown:
            read = self.model.get_decoder()(
                input_ids=ids,
                attention_mask=causal.tril(start)[None, None],
                **known_source,
            )
        weights = None if shown is None else self._visible(shown.weights, source)
        cache = known_source["past_key_values"]
        layers = () if cache is None else cache.self_attention_cache.layers
        memory = tuple((layer.keys, layer.values) for layer in layers)
        return read.last_hidden_state, weights, HuggingFaceState(memory)

    def _visible(
        self, weights: Float[Tensor, "r t f"] | None, source: Source
    ) -> Float[Tensor, "r t i"]:
        """Leaves out the columns of the frame; the rest sums to one over the source again."""
        assert weights is not None
        first, (sentences, width) = len(self.before), source.mask.shape
        mask = source.mask.repeat_interleave(len(weights) // sentences, dim=0)[:, None]
        visible = weights[:, :, first : first + width].masked_fill(~mask, 0.0)
        tiny = torch.finfo(visible.dtype).tiny
        return visible / visible.sum(-1, keepdim=True).clamp(min=tiny)

    def _check_length(self, length: int) -> None:
        if self.longest is not None:
            check_positions(length, self.longest)


def _build(config: HuggingFaceConfig, vocabularies: tuple[int, int]) -> Any:
    """Builds an untrained model for these vocabularies."""
    architecture = dict(config.architecture)
    source, target = vocabularies
    architecture["vocab_size"] = source
    if architecture["model_type"] == "marian":
        architecture["decoder_vocab_size"] = target
        if source != target:
            architecture["share_encoder_decoder_embeddings"] = False
    elif source != target:
        raise UntoldError(
            f"{shorten(architecture['model_type'])} has one vocabulary, not {source} and {target}"
        )
    architecture[FAMILIES[architecture["model_type"]].dropout] = config.dropout
    transformers = import_transformers()
    try:
        with quiet():
            settings = transformers.AutoConfig.for_model(**architecture)
            dtype = torch.get_default_dtype()  # which from_pretrained sets
            return transformers.AutoModelForSeq2SeqLM.from_config(settings, dtype=dtype)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UntoldError(
            f"model.architecture: transformers cannot build it: {shorten(error, 200)}"
        ) from None


def _fix_positions(model: Any) -> None:
    """Turns sinusoids that are parameters into buffers: nothing trains them or has to save them."""
    for module in model.modules():
        make = getattr(module, "create_weight", None)
        if isinstance(module, nn.Embedding) and callable(make) and "weight" in module._parameters:
            values = make().to(module.weight.device)
            del module.weight
            module.register_buffer("weight", values, persistent=False)


def _known_source(source: Source, state: HuggingFaceState) -> dict[str, Any]:
    """Returns what a decoder is given of its source: keys and values, or the states alone.

    The latter is for layers that are checkpointed: they compute all anew, and drop any cache.
    """
    real, *cross = source.memory
    given = {"encoder_attention_mask": real[:, None, None], "use_cache": len(cross) > 1}
    if len(cross) == 1:
        return given | {"encoder_hidden_states": cross[0], "past_key_values": None}
    cache = _cache(state.layers, tuple(zip(cross[::2], cross[1::2], strict=True)))
    # Of the states only their presence counts.
    return given | {"encoder_hidden_states": source.states, "past_key_values": cache}


def _cache(past: Sequence[tuple[Tensor, Tensor]], cross: Sequence[tuple[Tensor, Tensor]]) -> Any:
    """Makes the cache that a decoder adds to; the tensors that it begins with never change."""
    caches = import_transformers("cache_utils")

    def filled(pairs: Sequence[tuple[Tensor, Tensor]]) -> Any:
        cache = caches.DynamicCache()
        for keys, values in pairs:
            layer = caches.DynamicLayer()
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.keys, layer.values, layer.is_initialized = keys, values, True
            cache.layers.append(layer)
        return cache

    return caches.EncoderDecoderCache(filled(past), filled(cross))
