"""Writes a Transformer as a folder that transformers reads without untold.

Norms before the sublayers make it a Pegasus, norms after them a Marian: these two have our
sinusoids, only in another order. Their tokenizer is Marian's, which runs the very sentencepiece
models that untold has.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from untold.conversion.bart_names import bart_tensors
from untold.conversion.plain_model import PlainModel
from untold.conversion.position_order import halves_from_pairs, reorder_states
from untold.corpus.vocabulary import SENTENCEPIECE_IDS
from untold.durable import new_directory
from untold.huggingface.transformers_extra import import_transformers, quiet, system_errors

__all__ = ["make_huggingface_model", "write_huggingface_folder"]

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
            made = transformers.PegasusForConditionalGeneration(
                transformers.PegasusConfig(**settings)
            )
        else:
            made = transformers.MarianMTModel(transformers.MarianConfig(**settings))
    made.load_state_dict(_weights(plain, made.state_dict()))
    generation, decode = made.generation_config, plain.config.decode
    generation.num_beams, generation.length_penalty = decode.beam, decode.length_penalty
    generation.max_length = decode.max_length + 1  # it counts the beginning, too
    generation.suppress_tokens = list(SENTENCEPIECE_IDS.forbidden)
    return made.eval()


def _settings(plain: PlainModel) -> dict[str, Any]:
    shape, (source, target) = plain.shape, plain.tokenizers.sizes
    found: dict[str, Any] = {
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
        found |= {"share_encoder_decoder_embeddings": is_shared, "vocab_size": source}
        found |= {"decoder_vocab_size": target, "tie_word_embeddings": shape.tie_embeddings}
    for side, layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers)):
        found |= {
            f"{side}_layers": layers,
            f"{side}_ffn_dim": shape.d_ffn,
            f"{side}_attention_heads": shape.heads,
        }
    return found


def _positions(plain: PlainModel) -> int:
    return max(_POSITIONS, plain.config.decode.max_length + 1, plain.config.data.max_tokens + 1)


def _weights(plain: PlainModel, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the weights under the names of the other model; those of its positions stay."""
    ours = plain.transformer
    reorder_states(ours, halves_from_pairs(ours.d_model))
    found = dict(theirs) | {f"model.{name}": view for name, view in bart_tensors(ours).items()}
    source = ours.source_embedding.embedding.weight.detach()
    target = ours.target_embedding.embedding.weight.detach()
    embeddings = {
        "model.shared.weight": target,
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target,
        "lm_head.weight": ours.output_embedding().detach(),
    }
    for name in embeddings.keys() & theirs.keys():
        found[name] = torch.zeros_like(theirs[name])
        found[name][: len(embeddings[name])] = embeddings[name]
    bias = torch.full_like(theirs["final_logits_bias"], _UNSAID)
    layer = ours.output_layer()
    bias[0, : len(target)] = 0.0 if layer.bias is None else layer.bias.detach()
    return found | {"final_logits_bias": bias}


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
