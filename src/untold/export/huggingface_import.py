"""Turns a Marian or Pegasus model of transformers into untold's own Transformer.

The logits stay the same, which is checked before anything is written.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from untold.config import ModelConfig
from untold.errors import UntoldError, shorten
from untold.export.huggingface import bart_tensors, pairs_from_halves, reorder_states
from untold.export.marian_vocabulary import ImportedVocabulary, import_vocabulary
from untold.huggingface.backbone import HuggingFaceBackbone
from untold.huggingface.folder import HuggingFaceFolder, read_folder
from untold.models.build import build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer
from untold.storage.model_directory import TrainedModel

_NORMS = {"marian": "post", "pegasus": "pre"}
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
_REASONS = {
    "bart": "BART's positions are learnt, and untold's Transformer computes them",
    "mbart": "mBART's positions are learnt, and untold's Transformer computes them",
    "m2m_100": "M2M100 has other sinusoids than untold's Transformer",
    "t5": "T5 has relative positions, and untold's Transformer absolute ones",
}
_UNSAID = -100.0  # the logit's bias of an id that the other model does not have
_TOLERANCE = 1e-4  # of logits, for each unit of the largest of them


@dataclass(frozen=True)
class ImportedModel:
    """Holds the new model, and how far its logits on a small batch are from the old ones."""

    trained: TrainedModel
    difference: float


def import_folder(name: str) -> ImportedModel:
    """Reads a Hugging Face folder, or a model of the hub, as a Transformer of untold."""
    where, folder = f"hf:{name}", read_folder(name, {})
    backbone = folder.model.backbone
    assert isinstance(backbone, HuggingFaceBackbone)
    stock = backbone.model
    kind = stock.config.model_type
    if kind not in _NORMS:
        reason = _REASONS.get(kind, f"untold's Transformer cannot express a {shorten(kind)}")
        raise UntoldError(f"{where}: {reason}: use it as it is, as {where}")
    start, target = stock.config.decoder_start_token_id, _embedding(stock, "decoder")
    is_shared = _embedding(stock, "encoder") is target
    vocabulary = import_vocabulary(folder.tokenizers.wrapped, start, where, shared=is_shared)
    is_tied = stock.get_output_embeddings().weight is target
    config = _model_config(stock.config, where, is_tied=is_tied)
    with torch.random.fork_rng(devices=[]):  # building draws weights that are overwritten below
        model = build_model_for(vocabulary.tokenizers, config).eval()
    _copy_weights(model, stock, vocabulary)
    difference = _difference(model, folder, vocabulary, where)
    own = folder.config.model_copy(update={"model": config})
    return ImportedModel(TrainedModel(model, own, vocabulary.tokenizers), difference)


def _model_config(theirs: Any, where: str, *, is_tied: bool) -> ModelConfig:
    """Describes the model; refuses one whose parts have different shapes."""
    sides = {}
    for setting, key in (("attention_heads", "heads"), ("ffn_dim", "d_ffn")):
        found = [getattr(theirs, f"{side}_{setting}") for side in ("encoder", "decoder")]
        if found[0] != found[1]:
            raise UntoldError(
                f"{where}: its encoder and decoder have {setting} {found[0]} and {found[1]}, but "
                f"untold's Transformer has one: use it as it is, as {where}"
            )
        sides[key] = found[0]
    if theirs.activation_function not in _ACTIVATIONS:
        raise UntoldError(
            f"{where}: its activation is {shorten(theirs.activation_function)}, and untold's "
            f"Transformer knows {', '.join(_ACTIVATIONS)}: use it as it is, as {where}"
        )
    return ModelConfig.model_validate(
        {
            "backbone": "transformer",
            "d_model": theirs.d_model,
            "encoder_layers": theirs.encoder_layers,
            "decoder_layers": theirs.decoder_layers,
            "dropout": float(theirs.dropout),
            "attention_dropout": float(theirs.attention_dropout),
            "activation_dropout": float(theirs.activation_dropout),
            "norm": _NORMS[theirs.model_type],
            "activation": _ACTIVATIONS[theirs.activation_function],
            # An embedding that is read without a factor, but also scores words, is two of ours.
            "tie_embeddings": is_tied and bool(theirs.scale_embedding),
            "output_bias": True,  # ids that the other model lacks are never said
            **sides,
        }
    )


def _embedding(stock: Any, side: str) -> Tensor:
    return getattr(stock.model, side).embed_tokens.weight


@torch.no_grad()
def _copy_weights(model: Seq2Seq, stock: Any, vocabulary: ImportedVocabulary) -> None:
    ours = model.backbone
    assert isinstance(ours, Transformer)
    assert ours.output_bias is not None
    theirs = stock.model.state_dict()
    for name, view in bart_tensors(ours).items():
        view.copy_(theirs[name])
    scale = 1.0 if stock.config.scale_embedding else ours.d_model**-0.5
    rows = torch.tensor(vocabulary.target.rows)
    ours.target_embedding.embedding.weight.copy_(_embedding(stock, "decoder")[rows] * scale)
    if vocabulary.source is not vocabulary.target:
        own = torch.tensor(vocabulary.source.rows)
        ours.source_embedding.embedding.weight.copy_(_embedding(stock, "encoder")[own] * scale)
    if ours.output is not None:
        ours.output.weight.copy_(stock.get_output_embeddings().weight[rows])
    ours.output_bias.copy_(stock.final_logits_bias.flatten()[rows])
    ours.output_bias[list(vocabulary.target.unsaid)] = _UNSAID
    reorder_states(ours, pairs_from_halves(ours.d_model))


@torch.inference_mode()
def _difference(
    model: Seq2Seq, folder: HuggingFaceFolder, vocabulary: ImportedVocabulary, where: str
) -> float:
    """Compares the logits of all ids on two short pairs; refuses a model that gives others."""
    source, target = vocabulary.source, vocabulary.target
    ours = _sample(len(source.rows), 6), _sample(len(target.rows), 5)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    prefix = torch.cat([torch.full((2, 1), target.tokenizer.special_ids.bos), ours[1]], dim=1)
    ids = torch.where(mask, ours[0], source.tokenizer.special_ids.pad)
    logits = model.logits(model(ids, mask, prefix).holistic)
    rows, theirs = torch.tensor(target.rows), folder.model
    expected = theirs.logits(theirs(torch.tensor(source.rows)[ids], mask, rows[prefix]).holistic)[
        ..., rows
    ]
    said = torch.ones(len(rows), dtype=torch.bool)
    said[list(target.unsaid)] = False
    difference = float((logits - expected)[..., said].abs().max())
    if not difference <= _TOLERANCE * max(1.0, float(expected.abs().max())):  # also refuses NaN
        raise UntoldError(
            f"{where}: imported, its logits would differ by {difference:.2g}: use it as it is, "
            f"as {where}"
        )
    return difference


def _sample(size: int, length: int) -> Tensor:
    """Takes two rows of ids from all over a vocabulary, without control tokens."""
    return torch.linspace(4, size - 1, 2 * length).long().view(2, length)
