"""Writes a Transformer as a folder that transformers reads without untold.

Norms before the sublayers make it a Pegasus, norms after them a Marian: these two have our
sinusoids, only in another order. untold writes sines and cosines pair by pair, as Vaswani et al.
do; they write all sines first. States of one order become those of the other if every weight that
reads or writes them is permuted. Their tokenizer is Marian's, which runs the very sentencepiece
models that untold has.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.export.plain_model import PlainModel
from untold.files import new_directory
from untold.huggingface.optional import import_transformers, quiet, system_errors
from untold.models.layers import FeedForward
from untold.models.transformer import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    SelfAttention,
    Transformer,
)

_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
# Linear layers of a Transformer by the side on which the states are; heads keep their order.
_READ = ("qkv", "query", "key_value", "inner")
_WRITE = ("out", "outer")
_POSITIONS = 1024  # that the table of the folder has at least
_UNSAID = -1e9  # the bias of rows that only the longer vocabulary has
_IDS = {
    "pad_token_id": SENTENCEPIECE_IDS.pad,
    "bos_token_id": SENTENCEPIECE_IDS.bos,
    "eos_token_id": SENTENCEPIECE_IDS.eos,
    "decoder_start_token_id": SENTENCEPIECE_IDS.bos,
    "forced_eos_token_id": SENTENCEPIECE_IDS.eos,  # at the greatest length, as in our search
}


def write_huggingface_folder(plain: PlainModel, out: Path) -> None:
    """Writes model and tokenizer, completely or not at all."""
    model = make_huggingface_model(plain)
    with new_directory(out) as directory, quiet(), system_errors(directory):
        model.save_pretrained(directory)
        with tempfile.TemporaryDirectory() as files:
            _tokenizer(plain, Path(files)).save_pretrained(directory)


def make_huggingface_model(plain: PlainModel) -> Any:
    """Makes a model of transformers with the same logits."""
    transformers, is_pre = import_transformers(), plain.shape.norm == "pre"
    settings = _settings(plain)
    with torch.random.fork_rng(devices=[]), quiet():
        if is_pre:
            config = transformers.PegasusConfig(**settings)
            model = transformers.PegasusForConditionalGeneration(config)
        else:
            model = transformers.MarianMTModel(transformers.MarianConfig(**settings))
    model.load_state_dict(_weights(plain, model.state_dict()))
    generation, decode = model.generation_config, plain.config.decode
    generation.num_beams, generation.length_penalty = decode.beam, decode.length_penalty
    generation.max_length = decode.max_length + 1  # it counts the beginning, too
    generation.suppress_tokens = list(SENTENCEPIECE_IDS.forbidden)
    return model.eval()


def _settings(plain: PlainModel) -> dict[str, Any]:
    shape, (source, target) = plain.shape, plain.tokenizers.sizes
    settings: dict[str, Any] = {
        "vocab_size": max(source, target),
        "d_model": shape.d_model,
        "max_position_embeddings": _positions(plain),
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
        "activation_function": shape.activation,
        "scale_embedding": True,
        "tie_word_embeddings": plain.tokenizers.joint and shape.tie_embeddings,
        **_IDS,
    }
    if shape.norm == "post":
        is_shared = plain.tokenizers.joint
        settings |= {"share_encoder_decoder_embeddings": is_shared, "vocab_size": source}
        settings |= {"decoder_vocab_size": target, "tie_word_embeddings": shape.tie_embeddings}
    for side, layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers)):
        settings |= {
            f"{side}_layers": layers,
            f"{side}_ffn_dim": shape.d_ffn,
            f"{side}_attention_heads": shape.heads,
        }
    return settings


def _positions(plain: PlainModel) -> int:
    return max(_POSITIONS, plain.config.decode.max_length + 1, plain.config.data.max_tokens + 1)


def _weights(plain: PlainModel, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the weights under the names of the other model; those of its positions stay."""
    ours = plain.transformer
    reorder_states(ours, halves_from_pairs(ours.d_model))
    weights = dict(theirs) | {f"model.{name}": view for name, view in bart_tensors(ours).items()}
    source = ours.source_embedding.embedding.weight.detach()
    target = ours.target_embedding.embedding.weight.detach()
    embeddings = {
        "model.shared.weight": target,
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target,
        "lm_head.weight": ours.output_embedding().detach(),
    }
    for name in embeddings.keys() & theirs.keys():
        weights[name] = torch.zeros_like(theirs[name])
        weights[name][: len(embeddings[name])] = embeddings[name]
    bias = torch.full_like(theirs["final_logits_bias"], _UNSAID)
    layer = ours.output_layer()
    bias[0, : len(target)] = 0.0 if layer.bias is None else layer.bias.detach()
    return weights | {"final_logits_bias": bias}


def _tokenizer(plain: PlainModel, files: Path) -> Any:
    """Makes Marian's tokenizer of our sentencepiece models."""
    names = [files / "source.spm", files / "target.spm"]
    for name, model in zip(names, plain.models, strict=True):
        name.write_bytes(model)
    tables = [files / "vocab.json", files / "target_vocab.json"]
    for name, pieces in zip(tables, plain.pieces, strict=True):
        table = {piece: number for number, piece in enumerate(pieces)}
        name.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    data, is_separate = plain.config.data, not plain.tokenizers.joint
    return import_transformers().MarianTokenizer(
        *map(str, names),
        str(tables[0]),
        target_vocab_file=str(tables[1]) if is_separate else None,
        separate_vocabs=is_separate,
        source_lang=data.source_language or None,
        target_lang=data.target_language or None,
        bos_token="<s>",
        model_max_length=_positions(plain),
        clean_up_tokenization_spaces=False,
    )


def bart_tensors(ours: Transformer) -> dict[str, Tensor]:
    """Maps names such as encoder.layers.0.fc1.weight to views of the weights, but embeddings.

    BART, Marian and Pegasus share these names; embeddings are shared in different ways.
    """
    views: dict[str, Tensor] = {}
    for side, norm in (("encoder", ours.encoder_norm), ("decoder", ours.decoder_norm)):
        views |= _norm(f"{side}.layer_norm", norm)
    for number, layer in enumerate(cast("list[EncoderLayer]", ours.encoder)):
        views |= dict(_encoder_layer(f"encoder.layers.{number}", layer))
    for number, layer in enumerate(cast("list[DecoderLayer]", ours.decoder)):
        views |= dict(_decoder_layer(f"decoder.layers.{number}", layer))
    return views


def _encoder_layer(here: str, layer: EncoderLayer) -> Iterator[tuple[str, Tensor]]:
    yield from _self_attention(f"{here}.self_attn", layer.attention)
    yield from _norm(f"{here}.self_attn_layer_norm", layer.attention_norm, layer.attention_end)
    yield from _feed_forward(here, layer.ffn)
    yield from _norm(f"{here}.final_layer_norm", layer.ffn_norm, layer.ffn_end)


def _decoder_layer(here: str, layer: DecoderLayer) -> Iterator[tuple[str, Tensor]]:
    yield from _self_attention(f"{here}.self_attn", layer.self_attention)
    yield from _norm(f"{here}.self_attn_layer_norm", layer.self_norm, layer.self_end)
    yield from _cross_attention(f"{here}.encoder_attn", layer.cross_attention)
    yield from _norm(f"{here}.encoder_attn_layer_norm", layer.cross_norm, layer.cross_end)
    yield from _feed_forward(here, layer.ffn)
    yield from _norm(f"{here}.final_layer_norm", layer.ffn_norm, layer.ffn_end)


def _self_attention(here: str, attention: SelfAttention) -> Iterator[tuple[str, Tensor]]:
    yield from _chunks(here, _PROJECTIONS, attention.qkv)
    yield from _linear(f"{here}.out_proj", attention.out)


def _cross_attention(here: str, cross: CrossAttention) -> Iterator[tuple[str, Tensor]]:
    yield from _linear(f"{here}.q_proj", cross.query)
    yield from _chunks(here, _PROJECTIONS[1:], cross.key_value)
    yield from _linear(f"{here}.out_proj", cross.out)


def _feed_forward(here: str, ffn: FeedForward) -> Iterator[tuple[str, Tensor]]:
    yield from _linear(f"{here}.fc1", ffn.inner)
    yield from _linear(f"{here}.fc2", ffn.outer)


def _chunks(here: str, names: Sequence[str], linear: nn.Linear) -> Iterator[tuple[str, Tensor]]:
    """Divides a linear layer that computes several projections at once."""
    parts = (whole.detach().chunk(len(names)) for whole in (linear.weight, linear.bias))
    for name, weight, bias in zip(names, *parts, strict=True):
        yield f"{here}.{name}.weight", weight
        yield f"{here}.{name}.bias", bias


def _linear(here: str, linear: nn.Linear) -> Iterator[tuple[str, Tensor]]:
    yield f"{here}.weight", linear.weight.detach()
    yield f"{here}.bias", linear.bias.detach()


def _norm(here: str, *places: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yields the norm that stands in one of the places; a stack may have none."""
    for norm in places:
        if isinstance(norm, nn.LayerNorm):
            yield f"{here}.weight", norm.weight.detach()
            yield f"{here}.bias", norm.bias.detach()


def halves_from_pairs(width: int) -> Int[Tensor, " d"]:
    """Returns where states that hold all sines first find their numbers among ours."""
    return torch.arange(width).view(-1, 2).T.flatten()


@torch.no_grad()
def reorder_states(transformer: Transformer, order: Int[Tensor, " d"]) -> None:
    """Permutes the states in place: number k becomes what number order[k] was.

    The table of positions stays as it is, so that the weights alone are in the new order.
    """
    for name, module in transformer.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.LayerNorm):
            module.weight.copy_(module.weight[order])
            module.bias.copy_(module.bias[order])
        elif isinstance(module, nn.Embedding) or (isinstance(module, nn.Linear) and last in _READ):
            module.weight.copy_(module.weight[:, order])
        elif isinstance(module, nn.Linear) and last in _WRITE:
            module.weight.copy_(module.weight[order])
            module.bias.copy_(module.bias[order])
