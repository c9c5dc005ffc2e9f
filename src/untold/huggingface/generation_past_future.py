"""A model of transformers with past and future: its losses, and its generate().

Training runs as in untold, over a whole target at once. generate() reads token by token with the
caches of transformers, where coverage is one more layer: so it is reordered with the beams. It is
kept position by position, so that assisted generation can take tokens back.
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
    TextFrame,
    frame_source,
    is_no_text,
)
from untold.huggingface.optional import import_transformers
from untold.models.backbone import Decoded, OutputLayer, Source
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.objective import Objective

_transformers: Any = import_transformers()
_caches: Any = import_transformers("cache_utils")
_Output: Any = PastFutureOutput  # type checkers do not know the fields that it inherits
_IGNORED = -100  # marks padding in labels
_INNER = (
    *("encoder_attentions", "decoder_attentions", "cross_attentions"),
    *("encoder_hidden_states", "decoder_hidden_states"),
)


class CoverageLayer(_caches.DynamicLayer):
    """Holds coverage (r 1 t i) where other layers hold keys; no attention reads it."""


def _read_coverage(cache: Any) -> Float[Tensor, "r i"]:
    """Returns the coverage after the last token that a cache holds."""
    layer = cache.self_attention_cache.layers[-1]
    if not isinstance(layer, CoverageLayer):
        raise UntoldError(
            "the cache holds no coverage: take past_key_values from an output of this model"
        )
    return layer.keys[:, 0, -1]


def _add_coverage(cache: Any, covered: Float[Tensor, "r t i"]) -> None:
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
    hidden: int  # the first tokens, which stand before BOS, where nothing is separated
    begins: bool  # no token of the text, not even BOS, was read before


def _separate_tokens(
    seq2seq: Seq2Seq, source: Source, read: DecodedTokens, cache: Any
) -> tuple[Float[Tensor, "b t o"], Float[Tensor, "b u i g"]]:
    """Returns what the output layer reads at all positions, and the shares of the u last ones.

    The others are part of the frame. A `cache` then holds what was covered.
    """
    hidden, (rows, length) = read.hidden, read.ids.shape
    readouts, shares = [seq2seq.backbone.finish(read.states[:, :hidden])], []
    assert seq2seq.past_future is not None
    covers = seq2seq.past_future.coverage is not None
    ids, states = read.ids[:, hidden:], read.states[:, hidden:]
    if hidden < length and (read.begins or not covers):
        outputs = seq2seq.decode(source, ids, decoded=Decoded(states))
        readouts.append(outputs.holistic)
        shares.append(outputs.assignments)
        covered = None if outputs.separated is None else outputs.separated.covered
        if cache is not None and covered is not None:
            _add_coverage(cache, covered)
    elif hidden < length:
        covered = _read_coverage(cache)
        for last, state in zip(ids.split(1, dim=1), states.split(1, dim=1), strict=True):
            step = seq2seq.read_step(source, last, Decoded(state), covered, begins=False)
            readouts.append(step.holistic)
            shares.append(step.signals.assignments)
            assert step.covered is not None
            covered = step.covered
            _add_coverage(cache, covered[:, None])
    none = read.states.new_zeros(rows, 0, source.mask.shape[1], 3)
    return torch.cat(readouts, dim=1), torch.cat([none, *shares], dim=1)


def _spread_shares(
    shares: Float[Tensor, "b u i g"], places: Int[Tensor, "b i"], hidden: int, width: int
) -> Float[Tensor, "b t f g"]:
    """Puts shares to the columns of the input, behind positions at which nothing is separated."""
    spread = shares.new_zeros(len(shares), hidden + shares.shape[1], width, shares.shape[3])
    index = places[:, None, :, None].expand_as(shares)
    spread[:, hidden:].scatter_(2, index, shares)  # zero at places behind the end of a row
    return spread


def _make_batch(
    source: FramedSource,
    labels: Int[Tensor, "b u"],
    prefix: Int[Tensor, "b u"],
    frame: TextFrame,
) -> Batch:
    """Makes a batch; `prefix` is what the decoder reads, u positions with those of the frame."""
    special, first = frame.target, frame.hidden
    real = (labels != _IGNORED) & (labels != special.pad)
    if bool((real[:, 1:] & ~real[:, :-1]).any()):
        raise UntoldError(
            "labels are padded on the left: pad on the right (tokenizer.padding_side = 'right')"
        )
    hidden = is_no_text(labels, special)
    if first and not bool(hidden[:, first - 1].all()):
        raise UntoldError(
            f"labels begin with the id {int(labels[~hidden[:, first - 1], first - 1][0])}, not "
            "with what the decoder reads first: make them with tokenizer(text_target=...)"
        )
    mask = (real & ~hidden)[:, first:]
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()) or not bool(mask.any(1).all()):
        raise UntoldError(
            "labels hold a special id in the midst of a text, or no text: make them with "
            "tokenizer(text_target=...)"
        )
    words = source.ids.gather(1, source.places).masked_fill(~source.mask, frame.source.pad)
    return Batch(
        words,
        source.mask,
        prefix[:, first:].masked_fill(~mask, special.pad),
        labels[:, first:].masked_fill(~mask, special.pad),
        mask,
        torch.arange(len(labels)),
        source.mask & (words != frame.source.eos),
        special,
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

        `options` are those of transformers: past_key_values, use_cache, decoder_attention_mask,
        output_attentions, output_hidden_states, num_items_in_batch and return_dict. With labels,
        logits are computed in evaluation mode alone.
        """
        for name in ("inputs_embeds", "decoder_inputs_embeds"):
            if options.get(name) is not None:
                raise UntoldError(
                    f"{name} do not tell the words, which past and future have to know: give "
                    f"{name.replace('inputs_embeds', 'input_ids')}"
                )
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        if labels is not None:
            outputs = self._learn(given, labels, decoder_input_ids, options)
        else:
            outputs = self._predict(given, decoder_input_ids, encoder_outputs, options)
        as_values = options.get("return_dict")
        as_values = self.config.return_dict if as_values is None else as_values
        return outputs if as_values else outputs.to_tuple()

    def _learn(
        self,
        given: Mapping[str, Any],
        labels: Tensor,
        prefix: Tensor | None,
        options: Mapping[str, Any],
    ) -> PastFutureOutput:
        """Computes untold's objective, divided by the number of labels."""
        input_ids, frame = given["input_ids"], self.frame
        if input_ids is None:
            raise UntoldError("labels need input_ids: losses read the words of the source")
        if prefix is None:
            prefix = self.prepare_decoder_input_ids_from_labels(labels)
        framed = frame_source(input_ids, given["attention_mask"], frame)
        batch = _make_batch(framed, labels, prefix, frame)
        with self._precision():
            outputs, frame_readout = self._teacher_forced(framed, batch, prefix)
            with self._draws():
                losses = Objective(self.seq2seq, self.losses)(batch, 1, outputs)
        count = options.get("num_items_in_batch")
        if count is None:  # as a trainer counts
            count = ((labels != _IGNORED) & (labels != frame.target.pad)).sum()
        logits = None
        if not self.training:
            logits = self._logits(torch.cat([frame_readout, outputs.holistic], dim=1))
        assert outputs.assignments is not None
        sizes = frame_readout.shape[1], input_ids.shape[1]
        shares = _spread_shares(outputs.assignments, framed.places, *sizes)
        inner = self._inner_values(given, prefix, options)
        return _Output(loss=losses.total / count, logits=logits, assignments=shares, **inner)

    def _teacher_forced(
        self, framed: FramedSource, batch: Batch, prefix: Tensor
    ) -> tuple[Outputs, Float[Tensor, "b h o"]]:
        """Reads whole targets; also returns the readouts at the language codes before them."""
        backbone, hidden, dtype = self.backbone, self.frame.hidden, self.capsule_dtype
        encoded = backbone.encode_framed(framed.ids, framed.real)
        text = Source(framed.pick(encoded.states).to(dtype), framed.mask, encoded.memory)
        source = self.separation.cast(text)
        states = backbone.decode_framed(source, prefix).states.to(dtype)
        outputs = self.seq2seq.decode(source, batch.prefix, decoded=Decoded(states[:, hidden:]))
        return outputs, backbone.finish(states[:, :hidden])

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
        frame = self.frame.hidden
        hidden = min(ids.shape[1], max(0, frame - start))
        tokens = DecodedTokens(ids, states, hidden, begins=start <= frame)
        readout, shares = _separate_tokens(self.seq2seq, encoded.source(), tokens, cache)
        return _Output(
            logits=self._logits(readout),
            past_key_values=cache,
            decoder_hidden_states=read.hidden_states,
            decoder_attentions=read.attentions,
            cross_attentions=read.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
            assignments=_spread_shares(shares, encoded.places, hidden, encoded.real.shape[1]),
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
        weight, bias = self.get_output_embeddings().weight, self.backbone.output_bias
        return OutputLayer(weight, bias).logits(readout.to(weight.dtype))

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
        generated = super().generate(inputs, generation_config, **options)
        if isinstance(generated, Tensor):
            return generated
        ids, mask = options.get("input_ids", inputs), options.get("attention_mask")
        with torch.no_grad():
            if encoded is None:
                encoded = self.get_encoder()(ids, mask)
            generated["assignments"] = self._shares_of(mask, encoded, generated["sequences"])
        return generated

    def _shares_of(
        self, mask: Tensor | None, encoded: Any, sequences: Tensor
    ) -> Float[Tensor, "r t f g"]:
        """Reads whole sequences, of which each sentence has the same number."""
        times = len(sequences) // len(encoded.last_hidden_state)
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
        return shifted.masked_fill(shifted == _IGNORED, stock.config.pad_token_id)

    @staticmethod
    def create_masks_for_generate(attention_mask: Any = None, **options: Any) -> Any:  # noqa: ARG004
        """Leaves masks to the decoder, which knows its attention."""
        return attention_mask

    def _precision(self) -> AbstractContextManager[Any]:
        """Joins a backbone that is stored in 16 bits to past and future, which have 32."""
        dtype = self.get_output_embeddings().weight.dtype
        if dtype is self.capsule_dtype:
            return nullcontext()
        return torch.autocast(self.device.type, dtype)

    @contextmanager
    def _draws(self) -> Iterator[None]:
        """Lets evaluation draw the same numbers every time, and training go on with its own."""
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda, enabled=not self.training):
            if not self.training:
                torch.manual_seed(0)
            yield


def _refuse_foreign(encoded: Any) -> None:
    if not isinstance(encoded, PastFutureEncoderOutput):
        raise UntoldError(
            "encoder_outputs have no votes: take them from get_encoder() of this model"
        )


_transformers.AutoConfig.register(PastFutureConfig.model_type, PastFutureConfig)
_transformers.AutoModelForSeq2SeqLM.register(PastFutureConfig, PastFutureForConditionalGeneration)
