"""A Hugging Face encoder-decoder behind the interface of every backbone.

All the rest of untold sees sources `x EOS` and targets `BOS y EOS`. What else a model wants to
read, such as language codes, is inserted here, and its rows and columns are hidden again:

    encoder reads   source_before x EOS source_after
    decoder reads   target_before BOS y

Where the families differ is in `_FAMILIES`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from untold.config import ModelConfig
from untold.config.section import as_tuple
from untold.errors import UntoldError, shorten
from untold.huggingface.folded_attention import register_folded_attention, showing
from untold.huggingface.transformers_extra import import_transformers, quiet
from untold.models.backbone import Backbone, Decoded, DecoderState, Source, Widths

__all__ = ["HuggingFaceBackbone", "HuggingFaceConfig", "HuggingFaceState", "refuse_architecture"]

TokenIds = Annotated[
    tuple[Annotated[int, Field(ge=0, le=100_000_000)], ...], BeforeValidator(as_tuple)
]
LanguageCode = Annotated[str, Field(max_length=100)]


class HuggingFaceConfig(ModelConfig):
    """The settings of a Hugging Face encoder-decoder; `--init hf:PATH` fills most of them in."""

    backbone: str = "huggingface"
    source_language: LanguageCode = ""
    """The code of the source language as the tokenizer writes it, for multilingual models."""
    target_language: LanguageCode = ""
    """The code of the target language as the tokenizer writes it, for multilingual models."""
    source_prefix: Annotated[str, Field(max_length=1000)] = ""
    """Text that the encoder reads before every source, such as the task of a T5."""
    architecture: dict[str, Any] = Field(default_factory=dict)
    """The configuration of the Hugging Face model; --init hf:PATH fills it in."""
    source_before: TokenIds = ()
    """Ids that the encoder reads before a source; --init hf:PATH fills them in."""
    source_after: TokenIds = ()
    """Ids that the encoder reads after the end of a source; --init hf:PATH fills them in."""
    target_before: TokenIds = ()
    """Ids that the decoder reads before the beginning; --init hf:PATH fills them in."""

    @property
    def d_model(self) -> int:
        """Returns the width of the states."""
        return self.architecture.get("d_model", 0)

    @property
    def decoder_layers(self) -> int:
        """Counts the layers of the decoder."""
        names = ("decoder_layers", "num_decoder_layers", "num_layers")
        return next((self.architecture[n] for n in names if self.architecture.get(n)), 0)

    @property
    def longest(self) -> int | None:
        """Counts the positions of a side, with all that is read there; None means any number."""
        return self.architecture.get("max_position_embeddings")

    @property
    def most_tokens(self) -> int | None:
        """Counts the pieces of text that fit the positions, beside BOS or EOS and the frame."""
        if self.longest is None:
            return None
        frames = len(self.source_before) + len(self.source_after), len(self.target_before)
        return max(1, self.longest - max(frames) - 1)

    def starting_from(self, other: ModelConfig) -> "HuggingFaceConfig":
        """Takes over all that describes the other model; what was written out here stays."""
        if not isinstance(other, HuggingFaceConfig):
            raise UntoldError(
                f'model.backbone = "huggingface" cannot start from a model with the backbone '
                f"{other.backbone}: give --init hf:PATH"
            )
        described = ("architecture", "source_before", "source_after", "target_before")
        chosen = ("source_language", "target_language", "source_prefix", "dropout", "output_bias")
        names = (*described, *(name for name in chosen if name not in self.model_fields_set))
        for name in ("source_language", "target_language", "source_prefix"):
            asked, there = getattr(self, name), getattr(other, name)
            if name in self.model_fields_set and asked != there:
                raise UntoldError(
                    f"model.{name} = {shorten(asked)}: the model of --init has {shorten(there)!r}: "
                    "leave it out"
                )
        if other.output_bias and not self.output_bias and "output_bias" in self.model_fields_set:
            raise UntoldError(
                "model.output_bias = false: the model of --init has one: leave it out"
            )
        return self.model_copy(update={name: getattr(other, name) for name in names})

    def describe(self) -> dict[str, str]:
        """Describes the model for `untold info`."""
        names = self.architecture.get("architectures") or ["no model yet"]
        described = {"wraps": shorten(names[0])}
        if self.architecture:
            described["shape"] = f"d_model {self.d_model}, decoder_layers {self.decoder_layers}"
        if self.target_language:
            described["reads and writes"] = f"{self.source_language} -> {self.target_language}"
        return described


@dataclass(frozen=True)
class _ArchitectureFamily:
    """Says where a family of models keeps what the adapter needs."""

    cross_attentions: Callable[[Any], list[nn.Module]]  # of a decoder, one for each layer
    keys: str
    values: str
    heads: str
    dropout: str  # a key of its configuration


def _bart_attentions(decoder: Any) -> list[nn.Module]:
    return [layer.encoder_attn for layer in decoder.layers]


def _t5_attentions(decoder: Any) -> list[nn.Module]:
    return [block.layer[1].EncDecAttention for block in decoder.block]


_BART = _ArchitectureFamily(_bart_attentions, "k_proj", "v_proj", "num_heads", "dropout")
_FAMILIES: Mapping[str, _ArchitectureFamily] = {
    "marian": _BART,
    "bart": _BART,
    "mbart": _BART,
    "m2m_100": _BART,
    "t5": _ArchitectureFamily(_t5_attentions, "k", "v", "n_heads", "dropout_rate"),
}


def refuse_architecture(architecture: Mapping[str, Any], where: str) -> None:
    """Refuses models that the adapter does not know, in one sentence."""
    kind = architecture.get("model_type")
    if kind in _FAMILIES:
        return
    known = "Marian, BART, mBART, M2M100 (NLLB) and T5"
    if not architecture.get("is_encoder_decoder"):
        raise UntoldError(
            f"{where}: {shorten(kind)} is no encoder-decoder, and past and future need a source: "
            f"choose one of {known}"
        )
    raise UntoldError(f"{where}: {shorten(kind)} is not supported: choose one of {known}")


@dataclass(frozen=True)
class HuggingFaceState:
    """Keeps the keys and values of the tokens that each hypothesis has read, layer by layer."""

    layers: tuple[tuple[Float[Tensor, "r k t e"], Float[Tensor, "r k t e"]], ...] = ()

    def select(self, rows: Int[Tensor, " s"]) -> "HuggingFaceState":
        """Keeps the hypotheses at `rows`."""
        return HuggingFaceState(
            tuple((k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.layers)
        )

    @property
    def length(self) -> int:
        """Counts the tokens that were read."""
        return self.layers[0][0].shape[2] if self.layers else 0


class HuggingFaceBackbone(Backbone):
    """Wraps Marian, BART, mBART, M2M100, NLLB or T5."""

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
        self.family = _FAMILIES[config.architecture["model_type"]]
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
        whole, first = self.encode_framed(*self._frame(ids, mask)), len(self.before)
        return Source(whole.states[:, first : first + ids.shape[1]], mask, whole.memory)

    def encode_framed(self, ids: Int[Tensor, "b f"], real: Bool[Tensor, "b f"]) -> Source:
        """Reads sources that are within their frames already; `real` is False at padding."""
        self._check_length(ids.shape[1])
        read = self.model.get_encoder()(input_ids=ids, attention_mask=real[:, None, None])
        states, memory = read.last_hidden_state, [real]
        for each in self._cross_attentions():
            memory += [self._project(each, name, states) for name in self._key_names]
        return Source(states, real, tuple(memory))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Computes all positions at once under a causal mask."""
        whole = self.decode_framed(source, self._begin(prefix), attention=attention)
        weights, hidden = whole.attention, len(self.target_before)
        return Decoded(whole.states[:, hidden:], None if weights is None else weights[:, hidden:])

    def decode_framed(
        self, source: Source, ids: Int[Tensor, "b u"], *, attention: bool = False
    ) -> Decoded:
        """Computes all positions, those of `target_before` too, which the ids begin with."""
        states, weights, _ = self._read(source, ids, HuggingFaceState(), attention=attention)
        return Decoded(states, weights)

    def start(self, source: Source, beams: int) -> HuggingFaceState:  # noqa: ARG002
        """Returns an empty state: the first step tells how many hypotheses there are."""
        return HuggingFaceState()

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, HuggingFaceState]:
        """Reads one more token of every hypothesis; at the beginning also what goes before it."""
        assert isinstance(state, HuggingFaceState)
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
        """Returns the weight of the output layer."""
        return self.model.get_output_embeddings().weight

    @property
    def _key_names(self) -> tuple[str, str]:
        return self.family.keys, self.family.values

    def _cross_attentions(self) -> list[nn.Module]:
        return self.family.cross_attentions(self.model.get_decoder())

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
        known, length = state.length, ids.shape[1]
        self._check_length(known + length)
        causal = torch.ones(length, known + length, dtype=torch.bool, device=ids.device)
        cross, layers = source.memory[1:], self._cross_attentions()
        cache = _cache(state.layers, tuple(zip(cross[::2], cross[1::2], strict=True)))
        # The layer before the last: its attention follows word alignments best.
        shown_layer = layers[max(0, len(layers) - 2)] if attention else None
        with showing(shown_layer) as shown:
            read = self.model.get_decoder()(
                input_ids=ids,
                attention_mask=causal.tril(known)[None, None],
                encoder_hidden_states=source.states,  # only its presence counts: keys are cached
                encoder_attention_mask=source.memory[0][:, None, None],
                past_key_values=cache,
            )
        weights = None if shown is None else self._visible(shown.weights, source)
        kept = tuple((each.keys, each.values) for each in cache.self_attention_cache.layers)
        return read.last_hidden_state, weights, HuggingFaceState(kept)

    def _visible(
        self, weights: Float[Tensor, "r t f"] | None, source: Source
    ) -> Float[Tensor, "r t i"]:
        """Leaves out the columns of the frame; the rest sums to one over the source again."""
        assert weights is not None
        first, (sentences, width) = len(self.before), source.mask.shape
        mask = source.mask.repeat_interleave(len(weights) // sentences, dim=0)[:, None]
        own = weights[:, :, first : first + width].masked_fill(~mask, 0.0)
        tiny = torch.finfo(own.dtype).tiny
        return own / own.sum(-1, keepdim=True).clamp(min=tiny)

    def _check_length(self, length: int) -> None:
        if self.longest is not None and length > self.longest:
            raise UntoldError(
                f"{length} tokens with all that the model adds: its positions end at "
                f"{self.longest}: divide the text, or lower data.max_tokens and decode.max_length"
            )


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
    architecture[_FAMILIES[architecture["model_type"]].dropout] = config.dropout
    transformers = import_transformers()
    try:
        with quiet():
            settings = transformers.AutoConfig.for_model(**architecture)
            return transformers.AutoModelForSeq2SeqLM.from_config(settings, dtype=torch.float32)
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


def _cache(own: Sequence[tuple[Tensor, Tensor]], cross: Sequence[tuple[Tensor, Tensor]]) -> Any:
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

    return caches.EncoderDecoderCache(filled(own), filled(cross))
