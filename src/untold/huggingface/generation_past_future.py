"""A model of transformers with past and future: for its trainers, its generate() and its hub.

The modules, the losses and the names of all parameters are untold's own. Training runs as in
untold, over a whole target at once; generate() reads token by token with the caches of
transformers, where coverage is one more layer.

Keeps what each hypothesis has covered as one more layer of a cache of transformers.

generate() reorders all layers of a cache with its beams, and so reorders coverage, too. Coverage is
kept position by position, so that assisted generation can take tokens back.

Joins past and future to the tokens that a decoder of transformers has read in one call.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.errors import UntoldError
from untold.huggingface.configuration_past_future import PastFutureConfig
from untold.huggingface.modeling_past_future import (
    FramedSource,
    PastFutureEncoderOutput,
    PastFutureOutput,
    PastFuturePreTrainedModel,
    count_labels,
    frame_source,
    make_batch,
)
from untold.huggingface.optional import import_transformers
from untold.huggingface.pretrained_precision import WideBackbone
from untold.models.backbone import Decoded, Source
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.objective import Objective

_caches: Any = import_transformers("cache_utils")


class CoverageLayer(_caches.DynamicLayer):
    """Holds coverage (r 1 t i) where other layers hold keys; no attention reads it."""


def read_coverage(cache: Any) -> Float[Tensor, "r i"]:
    """Returns the coverage after the last token that a cache holds."""
    layer = cache.self_attention_cache.layers[-1]
    if not isinstance(layer, CoverageLayer):
        raise UntoldError(
            "the cache holds no coverage: take past_key_values from an output of this model"
        )
    return layer.keys[:, 0, -1]


def add_coverage(cache: Any, covered: Float[Tensor, "r t i"]) -> None:
    """Adds the coverage after each of some more tokens, in a layer behind those of the decoder."""
    layers = cache.self_attention_cache.layers
    if not (layers and isinstance(layers[-1], CoverageLayer)):
        layers.append(CoverageLayer())
    layers[-1].update(covered[:, None], covered[:, None, :, :0])  # it has no values beside it


@dataclass(frozen=True)
class DecodedTokens:
    """Holds tokens, and the states of a decoder that has read them after those of its cache."""

    ids: Int[Tensor, "b t"]
    states: Float[Tensor, "b t d"]
    start: int  # the number of tokens that the cache holds
    frame: int  # positions before that of BOS, where nothing is separated

    @property
    def hidden(self) -> int:
        """Counts the tokens here that are part of the frame."""
        return min(self.ids.shape[1], max(0, self.frame - self.start))

    @property
    def begins(self) -> bool:
        """Tells if no token of the text, not even BOS, was read before."""
        return self.start <= self.frame


def separate_tokens(
    seq2seq: Seq2Seq, source: Source, read: DecodedTokens, cache: Any
) -> tuple[Float[Tensor, "b t o"], Float[Tensor, "b u i g"]]:
    """Returns what the output layer reads at all positions, and the shares of the u last ones.

    The others are part of the frame. A `cache` then holds what was covered.
    """
    hidden, (rows, length) = read.hidden, read.ids.shape
    parts, shares = [seq2seq.backbone.finish(read.states[:, :hidden])], []
    assert seq2seq.past_future is not None
    covers = seq2seq.past_future.coverage is not None
    ids, states = read.ids[:, hidden:], read.states[:, hidden:]
    if hidden < length and (read.begins or not covers):
        made = seq2seq.decode(source, ids, decoded=Decoded(states))
        parts.append(made.holistic)
        shares.append(made.assignments)
        covered = None if made.separated is None else made.separated.covered
        if cache is not None and covered is not None:
            add_coverage(cache, covered)
    elif hidden < length:
        covered = read_coverage(cache)
        for last, state in zip(ids.split(1, dim=1), states.split(1, dim=1), strict=True):
            step = seq2seq.read_step(source, last, Decoded(state), covered, begins=False)
            parts.append(step.holistic)
            shares.append(step.signals.assignments)
            assert step.covered is not None
            covered = step.covered
            add_coverage(cache, covered[:, None])
    none = read.states.new_zeros(rows, 0, source.mask.shape[1], 3)
    return torch.cat(parts, dim=1), torch.cat([none, *shares], dim=1)


def spread_shares(
    shares: Float[Tensor, "b u i g"], places: Int[Tensor, "b i"], hidden: int, width: int
) -> Float[Tensor, "b t f g"]:
    """Puts shares to the columns of the input, behind positions at which nothing is separated."""
    whole = shares.new_zeros(len(shares), hidden + shares.shape[1], width, shares.shape[3])
    index = places[:, None, :, None].expand_as(shares)
    whole[:, hidden:].scatter_(2, index, shares)  # zero at places behind the end of a row
    return whole


_transformers: Any = import_transformers()
_Output: Any = PastFutureOutput  # type checkers do not know the fields that it inherits
_SOURCE = ("input_ids", "inputs_embeds", "attention_mask")
_INNER = (
    *("encoder_attentions", "decoder_attentions", "cross_attentions"),
    *("encoder_hidden_states", "decoder_hidden_states"),
)


class PastFutureForConditionalGeneration(PastFuturePreTrainedModel, _transformers.GenerationMixin):
    """Puts past and future on top of Marian, BART, mBART, M2M100, NLLB or T5."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Computes the loss of labels, or predicts what follows decoder_input_ids.

        `options` are those of transformers: inputs_embeds, past_key_values, use_cache,
        decoder_attention_mask, output_attentions, output_hidden_states, num_items_in_batch and
        return_dict. With labels, logits are computed in evaluation mode alone.
        """
        if options.get("decoder_inputs_embeds") is not None:
            raise UntoldError(
                "decoder_inputs_embeds do not tell which words were said, as coverage has to know: "
                "give decoder_input_ids"
            )
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        given["inputs_embeds"] = options.get("inputs_embeds")
        if labels is not None:
            made = self._learn(given, labels, decoder_input_ids, options)
        else:
            made = self._predict(given, decoder_input_ids, encoder_outputs, options)
        as_values = options.get("return_dict")
        as_values = self.config.return_dict if as_values is None else as_values
        return made if as_values else made.to_tuple()

    def _learn(
        self,
        given: Mapping[str, Any],
        labels: Tensor,
        prefix: Tensor | None,
        options: Mapping[str, Any],
    ) -> PastFutureOutput:
        """Computes untold's objective, divided by the number of labels."""
        input_ids = given["input_ids"]
        if input_ids is None or given["inputs_embeds"] is not None:
            raise UntoldError(
                "labels need input_ids, and no inputs_embeds: losses read the words of the source"
            )
        if prefix is None:
            prefix = self.prepare_decoder_input_ids_from_labels(labels)
        framed = frame_source(input_ids, given["attention_mask"], self.frame)
        batch = make_batch(framed, labels, prefix, self.frame)
        seq2seq, outputs, before = self._run(framed, batch, prefix)
        with self._draws():
            losses = Objective(seq2seq, self.losses)(batch, 1, outputs)
        count = options.get("num_items_in_batch")
        count = count_labels(labels, self.frame) if count is None else count
        logits = None
        if not self.training:
            logits = self._logits(torch.cat([before, outputs.holistic], dim=1))
        assert outputs.assignments is not None
        sizes = before.shape[1], input_ids.shape[1]
        shares = spread_shares(outputs.assignments, framed.places, *sizes)
        inner = self._inner_values(given, prefix, options)
        return _Output(loss=losses.total / count, logits=logits, assignments=shares, **inner)

    def _run(
        self, framed: FramedSource, batch: Batch, prefix: Tensor
    ) -> tuple[Seq2Seq, Outputs, Float[Tensor, "b h o"]]:
        """Reads whole targets, for losses; returns also what is read out within the frame."""
        assert framed.ids is not None
        backbone, hidden, kind = self.backbone, self.frame.hidden, self.capsule_dtype
        encoded = backbone.encode_framed(framed.ids, framed.real)
        own = Source(framed.pick(encoded.states).to(kind), framed.mask, encoded.memory)
        source = self.separation.cast(own)
        states = backbone.decode_framed(source, prefix).states.to(kind)
        is_alike = backbone.output_embedding().dtype == kind
        seq2seq = self.seq2seq_on(backbone if is_alike else WideBackbone(backbone, kind))
        outputs = seq2seq.decode(source, batch.prefix, decoded=Decoded(states[:, hidden:]))
        return seq2seq, outputs, backbone.finish(states[:, :hidden])

    def _predict(
        self,
        given: Mapping[str, Any],
        ids: Tensor | None,
        encoded: Any,
        options: Mapping[str, Any],
    ) -> PastFutureOutput:
        """Reads more tokens of each translation, after those that the cache holds."""
        cache = options.get("past_key_values")
        uses_cache = cache is not None or bool(options.get("use_cache"))
        self._refuse_training(uses_cache=uses_cache)
        if ids is None:
            raise UntoldError("neither labels nor decoder_input_ids: give one of them")
        if encoded is None:
            encoded = self.get_encoder()(**given, **self.recorded(options))
        _refuse_foreign(encoded)
        start = 0 if cache is None else int(cache.get_seq_length())
        self.frame.check_length(start + ids.shape[1])
        mask = given["attention_mask"]
        read = self.stock.get_decoder()(
            input_ids=ids,
            attention_mask=options.get("decoder_attention_mask"),
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=encoded.real if mask is None else mask,
            past_key_values=cache,
            use_cache=uses_cache,
            **self.recorded(options),
        )
        cache = read.past_key_values if uses_cache else None
        states = read.last_hidden_state.to(self.capsule_dtype)
        tokens = DecodedTokens(ids, states, start, self.frame.hidden)
        holistic, shares = separate_tokens(self.seq2seq, encoded.source(), tokens, cache)
        width = encoded.last_hidden_state.shape[1]
        return _Output(
            logits=self._logits(holistic),
            past_key_values=cache,
            decoder_hidden_states=read.hidden_states,
            decoder_attentions=read.attentions,
            cross_attentions=read.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
            assignments=spread_shares(shares, encoded.places, tokens.hidden, width),
        )

    def _refuse_training(self, *, uses_cache: bool) -> None:
        """Refuses to predict where a trainer must have lost the labels, or the cache gets lost."""
        if self.training and torch.is_grad_enabled():
            raise UntoldError(
                "no labels to train on: if the trainer smooths labels it takes them away: set "
                "label_smoothing of from_backbone, not label_smoothing_factor"
            )
        if self.training and uses_cache and self.is_gradient_checkpointing:
            raise UntoldError(
                "layers that are checkpointed for training drop the cache of generate(): call "
                "model.eval() first, or give use_cache=False"
            )

    def _inner_values(
        self, given: Mapping[str, Any], prefix: Tensor, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns attention weights and hidden states, if they are asked for beside the loss."""
        if not self.recorded(options):
            return {}
        if self.training:
            raise UntoldError(
                "output_attentions and output_hidden_states are for evaluation: call "
                "model.eval() first"
            )
        shown = self._predict(given, prefix, None, options)
        return {name: shown.get(name) for name in _INNER}

    def _logits(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t v"]:
        output = self.backbone.output_layer()
        return output.logits(readout.to(output.weight.dtype))

    def generate(self, inputs: Any = None, generation_config: Any = None, **options: Any) -> Any:
        """Generates as transformers does; with return_dict_in_generate also gives `assignments`.

        assignments[:, t] are those before the token sequences[:, t + 1] was said: one parallel pass
        over the chosen sequences gives them. They are zero after the end of a sequence.
        """
        early = options.get("assistant_early_exit")
        if early or getattr(generation_config, "assistant_early_exit", None):
            raise UntoldError(
                "assistant_early_exit: past and future are read after the last layer: give an "
                "assistant_model, or prompt_lookup_num_tokens"
            )
        encoded = options.get("encoder_outputs")
        if encoded is not None:  # generate() repeats its tensors for the beams, where they are
            options["encoder_outputs"] = copy.copy(encoded)
        made = super().generate(inputs, generation_config, **options)
        if isinstance(made, Tensor):
            return made
        given = {name: options.get(name) for name in _SOURCE}
        if inputs is not None:
            given["input_ids"] = inputs
        with torch.no_grad():
            if encoded is None:
                encoded = self.get_encoder()(**given)
            made["assignments"] = self._shares_of(given, encoded, made["sequences"])
        return made

    def _shares_of(
        self, given: Mapping[str, Any], encoded: Any, sequences: Tensor
    ) -> Float[Tensor, "r t f g"]:
        """Reads whole sequences, of which each sentence has the same number."""
        times = len(sequences) // len(encoded.last_hidden_state)
        mask = given["attention_mask"]
        rows = {"attention_mask": None if mask is None else mask.repeat_interleave(times, dim=0)}
        read = self._predict(rows, sequences[:, :-1], encoded.repeat(times), {})
        said = sequences[:, 1:] != self.frame.target.pad
        return read["assignments"] * said[:, :, None, None]

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shifts labels as the backbone does: mBART moves the last, a language, to the front."""
        stock = self.stock
        shift = getattr(stock, "prepare_decoder_input_ids_from_labels", None)
        if shift is not None:
            return shift(labels)
        start = torch.full_like(labels[:, :1], stock.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == -100, stock.config.pad_token_id)

    @staticmethod
    def create_masks_for_generate(attention_mask: Any = None, **options: Any) -> Any:  # noqa: ARG004
        """Leaves masks to the decoder, which knows its attention."""
        return attention_mask

    def _draws(self) -> AbstractContextManager[None]:
        """Lets evaluation draw the same numbers every time, and training go on with its own."""
        return nullcontext() if self.training else _same_draws(self.device)


def _refuse_foreign(encoded: Any) -> None:
    if not isinstance(encoded, PastFutureEncoderOutput):
        raise UntoldError(
            "encoder_outputs have no votes: take them from get_encoder() of this model"
        )


@contextmanager
def _same_draws(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        yield


_transformers.AutoConfig.register(PastFutureConfig.model_type, PastFutureConfig)
_transformers.AutoModelForSeq2SeqLM.register(PastFutureConfig, PastFutureForConditionalGeneration)
