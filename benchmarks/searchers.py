"""The contenders of the decoding race: ids of a batch of sources in, the best ids of each out.

Three of them have the very same weights: untold, Hugging Face's M2M100 (the one of its translation
models that norms before the sublayers, as we do) and CTranslate2. Marian norms after them and keeps
random weights of the same shape, so it takes part only where the lengths are forced.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from contenders import huggingface_settings, marian
from untold.config import Config, DecodeConfig
from untold.corpus.batching import pad_rows
from untold.corpus.vocabulary import SENTENCEPIECE_IDS
from untold.decoding import Sentences, search
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer
from untold.prepared import PreparedModel

PAD, UNK = SENTENCEPIECE_IDS.pad, SENTENCEPIECE_IDS.unk
BOS, EOS = SENTENCEPIECE_IDS.bos, SENTENCEPIECE_IDS.eos
__all__ = ["CTranslate2", "HuggingFace", "Searcher", "SourceBatch", "Untold", "converted", "marian"]

POSITIONS = 512  # that the converted models know


@dataclass(frozen=True)
class SourceBatch:
    """Holds sources that end in EOS, and the exact length wanted of translations or None."""

    rows: list[list[int]]
    length: int | None

    def limits(self) -> tuple[int, int]:
        """Returns (fewest, most) tokens without EOS; a trained model never reaches the most."""
        if self.length is None:
            return 0, 3 * max(map(len, self.rows)) + 10
        return self.length, self.length


class Searcher(Protocol):
    """Describes a model with its beam search."""

    name: str

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Returns the best translation of each source, without EOS."""
        ...


class Untold:
    """Runs the search behind `untold translate`."""

    def __init__(
        self,
        model: Seq2Seq | PreparedModel,
        beam: int,
        name: str = "untold",
        wanted: frozenset[str] = frozenset(),
    ) -> None:
        self.model, self.beam, self.name, self.wanted = model, beam, name, wanted

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Searches without a length penalty, as all contenders do."""
        fewest, most = batch.limits()
        config = DecodeConfig(
            beam=self.beam,
            length_penalty=0.0,
            min_length=fewest,
            max_length=most + 1,
            max_ratio=float(most),
        )
        sentences = Sentences(*pad_rows(batch.rows, PAD), SENTENCEPIECE_IDS)
        found = search(self.model, sentences, config, self.wanted)
        return [list(hypotheses[0].tokens) for hypotheses in found]


class HuggingFace:
    """Calls `generate` of a Hugging Face model, which stops as soon as it may."""

    def __init__(self, name: str, model: Any, beam: int) -> None:
        self.name, self.model, self.beam = name, model.eval(), beam

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Makes one call for the batch."""
        fewest, most = batch.limits()
        ids, mask = pad_rows(batch.rows, PAD)
        with torch.inference_mode():
            found = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                num_beams=self.beam,
                length_penalty=0.0,
                early_stopping=True,
                min_new_tokens=fewest,
                max_new_tokens=most + 1,
                do_sample=False,
            )
        return [_until_end(row[1:]) for row in found.tolist()]


class CTranslate2:
    """Runs CTranslate2. Raises ImportError where it is not installed."""

    def __init__(self, model: Seq2Seq, beam: int, threads: int, numbers: str = "float32") -> None:
        import ctranslate2

        self.beam, self.name = beam, f"CTranslate2, same weights, {numbers}"
        with tempfile.TemporaryDirectory() as directory:
            _ctranslate2_spec(model).save(directory)
            self._translator = ctranslate2.Translator(
                directory, compute_type=numbers, inter_threads=1, intra_threads=threads
            )

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Makes one call for the batch; the tokens are our ids as strings."""
        fewest, most = batch.limits()
        found = self._translator.translate_batch(
            [[_word(number) for number in row] for row in batch.rows],
            beam_size=self.beam,
            length_penalty=0.0,
            min_decoding_length=fewest,
            max_decoding_length=most + (batch.length is None),
            disable_unk=True,
        )
        return [[int(word[1:]) for word in result.hypotheses[0]] for result in found]


def converted(model: Seq2Seq, config: Config) -> Any:
    """Copies the weights of a model with one embedding to Hugging Face's M2M100."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ours = _transformer(model)
    embedding = ours.output_embedding()
    settings = huggingface_settings(config, embedding.shape[0])
    theirs = M2M100ForConditionalGeneration(M2M100Config(**settings))
    weights = {"model.shared.weight": embedding, "lm_head.weight": embedding}
    for name, linear in _huggingface_names(ours):
        weights |= {f"model.{name}.weight": linear.weight, f"model.{name}.bias": linear.bias}
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_tokens.weight"] = embedding
        # Its positions are numbered after the padding's.
        table = theirs.get_submodule(f"model.{side}.embed_positions").weights
        table[PAD + 1 : PAD + 1 + POSITIONS] = _positions(ours)
    theirs.load_state_dict(weights)
    return theirs


def _huggingface_names(ours: Transformer) -> Iterator[tuple[str, Any]]:
    for side, stack in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        yield f"{side}.layer_norm", getattr(ours, f"{side}_norm")
        for number, layer in enumerate(stack):
            here = f"{side}.layers.{number}"
            own = layer.attention if side == "encoder" else layer.self_attention
            norm = layer.attention_norm if side == "encoder" else layer.self_norm
            yield f"{here}.self_attn_layer_norm", norm
            yield from _attention_names(f"{here}.self_attn", _parts(own.qkv, 3), own.out)
            if side == "decoder":
                cross = layer.cross_attention
                parts = [cross.query, *_parts(cross.key_value, 2)]
                yield f"{here}.encoder_attn_layer_norm", layer.cross_norm
                yield from _attention_names(f"{here}.encoder_attn", parts, cross.out)
            yield f"{here}.final_layer_norm", layer.ffn_norm
            yield f"{here}.fc1", layer.ffn.inner
            yield f"{here}.fc2", layer.ffn.outer


def _attention_names(here: str, parts: list[Any], out: nn.Linear) -> Iterator[tuple[str, Any]]:
    for name, part in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
        yield f"{here}.{name}", part
    yield f"{here}.out_proj", out


@dataclass(frozen=True)
class _Part:
    weight: Tensor
    bias: Tensor


def _parts(linear: nn.Linear, count: int) -> list[_Part]:
    weights, biases = linear.weight.chunk(count), linear.bias.chunk(count)
    return [_Part(weight, bias) for weight, bias in zip(weights, biases, strict=True)]


def _ctranslate2_spec(model: Seq2Seq) -> Any:
    from ctranslate2.specs import TransformerSpec

    ours = _transformer(model)
    heads, embedding = ours.decoder[0].heads, ours.output_embedding()
    spec = TransformerSpec.from_config((len(ours.encoder), len(ours.decoder)), heads, pre_norm=True)
    spec.encoder.embeddings[0].weight = embedding.detach().numpy()
    spec.decoder.embeddings.weight = embedding.detach().numpy()
    spec.decoder.projection.weight = embedding.detach().numpy()
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = _positions(ours).numpy()
    _norm(spec.encoder.layer_norm, ours.encoder_norm)
    _norm(spec.decoder.layer_norm, ours.decoder_norm)
    for theirs, layer in zip(spec.encoder.layer, ours.encoder, strict=True):
        _norm(theirs.self_attention.layer_norm, layer.attention_norm)
        _linears(theirs.self_attention.linear, [layer.attention.qkv, layer.attention.out])
        _feed_forward(theirs.ffn, layer)
    for theirs, layer in zip(spec.decoder.layer, ours.decoder, strict=True):
        own, cross = layer.self_attention, layer.cross_attention
        _norm(theirs.self_attention.layer_norm, layer.self_norm)
        _linears(theirs.self_attention.linear, [own.qkv, own.out])
        _norm(theirs.attention.layer_norm, layer.cross_norm)
        _linears(theirs.attention.linear, [cross.query, cross.key_value, cross.out])
        _feed_forward(theirs.ffn, layer)
    words = [_word(number) for number in range(embedding.shape[0])]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token = (
        _word(BOS),
        _word(EOS),
    )
    spec.config.unk_token, spec.config.decoder_start_token = (
        _word(UNK),
        _word(BOS),
    )
    spec.validate()
    spec.optimize()
    return spec


def _feed_forward(theirs: Any, layer: Any) -> None:
    _norm(theirs.layer_norm, layer.ffn_norm)
    _linears([theirs.linear_0, theirs.linear_1], [layer.ffn.inner, layer.ffn.outer])


def _norm(theirs: Any, norm: nn.LayerNorm) -> None:
    theirs.gamma, theirs.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()


def _linears(theirs: list[Any], linears: list[nn.Linear]) -> None:
    for spec, linear in zip(theirs, linears, strict=True):
        spec.weight, spec.bias = linear.weight.detach().numpy(), linear.bias.detach().numpy()


def _transformer(model: Seq2Seq) -> Transformer:
    assert isinstance(model.backbone, Transformer)
    return model.backbone


def _positions(ours: Transformer) -> Tensor:
    return ours.source_embedding.table[:POSITIONS]


def _word(number: int) -> str:
    return f"w{number}"


def _until_end(row: list[int]) -> list[int]:
    row = row[: row.index(EOS)] if EOS in row else row
    return [number for number in row if number != PAD]
