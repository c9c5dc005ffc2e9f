"""Writes a model with its past and future as two ONNX graphs, and describes them in JSON."""

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import Dim

from untold.conversion.onnx_graphs import DecoderStepGraph, EncoderGraph
from untold.conversion.optional_package import import_optional
from untold.conversion.plain_model import check_exportable
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.corpus.vocabulary import SENTENCEPIECE_IDS
from untold.durable import new_directory
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import DecoderLayer, Transformer, TransformerConfig
from untold.storage.model_directory import TrainedModel

__all__ = ["DESCRIPTION", "write_onnx_model"]

DESCRIPTION = "untold.onnx.json"
_LARGE = 1_000_000_000  # bytes of weights; beyond, they are written to a file of their own
_SENTENCES, _BEAMS, _SOURCE, _READ = 2, 3, 5, 4  # lengths of the example that is traced
_POSITIONS = 1024  # that the tables of every Transformer have
_BY_HYPOTHESIS = {0: "sentences", 1: "beams"}
_BY_WORD = {0: "sentences", 1: "source"}


@dataclass(frozen=True)
class _Named:
    """A tensor of the example, with its name and the names of its axes that vary."""

    name: str
    value: Tensor
    axes: Mapping[int, str]

    def described(self) -> dict[str, Any]:
        """Tells type and shape; an axis that varies has a name instead of a size."""
        shape = [self.axes.get(k, size) for k, size in enumerate(self.value.shape)]
        return {"type": str(self.value.dtype).removeprefix("torch."), "shape": shape}


def write_onnx_model(trained: TrainedModel, out: Path, where: str) -> None:
    """Writes the graphs, their description and the sentencepiece models, or nothing at all."""
    check_exportable(trained, where)
    import_optional("onnx", "onnx")
    import_optional("onnxscript", "onnx")
    model = copy.deepcopy(trained.model).float().cpu().eval()
    model.requires_grad_(False)
    description: dict[str, Any] = _description(trained)
    with new_directory(out) as directory, torch.no_grad(), _silence():
        description["graphs"] = _write_graphs(model, directory)
        sides = zip(("source", "target"), _sides(trained), strict=True)
        for name, tokenizer in sides:
            (directory / f"{name}.spm").write_bytes(tokenizer.model)
        text = json.dumps(description, indent=1) + "\n"
        (directory / DESCRIPTION).write_text(text, encoding="utf-8")


def _sides(trained: TrainedModel) -> list[SentencePieceTokenizer]:
    found = trained.tokenizers.source, trained.tokenizers.target
    return [each for each in found if isinstance(each, SentencePieceTokenizer)]


def _description(trained: TrainedModel) -> dict[str, Any]:
    shape, ids = trained.config.model, SENTENCEPIECE_IDS
    assert isinstance(shape, TransformerConfig)
    return {
        "format": "untold onnx 1",
        "special_ids": {"pad": ids.pad, "unk": ids.unk, "bos": ids.bos, "eos": ids.eos},
        "never_generated": list(ids.forbidden),
        "categories": ["past", "future", "redundant"],
        "layers": shape.decoder_layers,
        "heads": shape.heads,
        "head_width": shape.d_model // shape.heads,
        "positions": _POSITIONS,
        "lowercase": trained.config.data.lowercase,
        "max_length": trained.config.decode.max_length,
        "max_ratio": trained.config.decode.max_ratio,
    }


def _write_graphs(model: Seq2Seq, directory: Path) -> dict[str, Any]:
    """Writes encoder.onnx and step.onnx, and describes what goes in and comes out."""
    encoder, source = EncoderGraph(model), _sources(_SOURCE)
    encoded = _name_encoded(encoder(*_values(source)), encoder(*_values(_sources(_SOURCE + 1))))
    step = DecoderStepGraph(model)
    last, *state = _state(model, covers=step.covers)
    asked = [last, source[1], *state, *encoded]
    answers = _name_answers(step(*_values(asked)), covers=step.covers)
    return {
        "encoder": _write(directory / "encoder.onnx", encoder, source, encoded),
        "step": _write(directory / "step.onnx", step, asked, answers),
    }


def _values(named: Sequence[_Named]) -> tuple[Tensor, ...]:
    return tuple(each.value for each in named)


def _sources(length: int) -> list[_Named]:
    ids = torch.full((_SENTENCES, length), SENTENCEPIECE_IDS.eos)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, -1] = False
    return [_Named("source_ids", ids, _BY_WORD), _Named("source_mask", mask, _BY_WORD)]


def _name_encoded(values: Sequence[Tensor], longer: Sequence[Tensor]) -> list[_Named]:
    """Names what the encoder returns; an axis that a longer source makes longer varies."""
    found, names = [], ["memory", *(f"votes_{number}" for number in range(len(values) - 1))]
    for name, value, other in zip(names, values, longer, strict=True):
        pairs = enumerate(zip(value.shape, other.shape, strict=True))
        axes = {0: "sentences"} | {k: "source" for k, (size, more) in pairs if size != more}
        found.append(_Named(name, value, axes))
    return found


def _state(model: Seq2Seq, *, covers: bool) -> list[_Named]:
    """Names the last tokens, and what their hypotheses remember."""
    ours = model.backbone
    assert isinstance(ours, Transformer)
    layers = cast("list[DecoderLayer]", list(ours.decoder))
    rows, heads = (_SENTENCES, _BEAMS), layers[0].heads
    last = torch.full(rows, SENTENCEPIECE_IDS.unk)
    past = torch.zeros(*rows, len(layers), 2, heads, _READ, ours.d_model // heads)
    named = [
        _Named("last", last, _BY_HYPOTHESIS),
        _Named("past", past, _BY_HYPOTHESIS | {5: "read"}),
    ]
    if covers:
        axes = _BY_HYPOTHESIS | {2: "source"}
        named.append(_Named("covered", torch.zeros(*rows, _SOURCE), axes))
    return named


def _name_answers(values: Sequence[Tensor], *, covers: bool) -> list[_Named]:
    """Names what a step returns."""
    axes = {
        "logits": _BY_HYPOTHESIS,
        "next_past": _BY_HYPOTHESIS | {5: "read + 1"},
        "next_covered": _BY_HYPOTHESIS | {2: "source"},
        "assignments": _BY_HYPOTHESIS | {2: "source"},
    }
    if not covers:
        del axes["next_covered"]
    pairs = zip(axes.items(), values, strict=False)  # a plain model assigns nothing
    return [_Named(name, value, where) for (name, where), value in pairs]


def _write(
    path: Path, graph: nn.Module, inputs: Sequence[_Named], outputs: Sequence[_Named]
) -> dict[str, Any]:
    """Writes one graph, whose named axes may have any length, and describes it."""
    most = {"source": _POSITIONS, "read": _POSITIONS - 1}
    dims = {name: Dim(name, max=most.get(name)) for each in inputs for name in each.axes.values()}
    shapes = [{k: dims[name] for k, name in each.axes.items()} for each in inputs]
    if isinstance(graph, DecoderStepGraph):
        nested: tuple[Any, ...] = (*shapes[:3], tuple(shapes[3:]))
    else:
        nested = tuple(shapes)
    size = sum(each.numel() for each in graph.parameters()) * 4
    torch.onnx.export(
        graph,
        _values(inputs),
        str(path),
        input_names=[each.name for each in inputs],
        output_names=[each.name for each in outputs],
        dynamic_shapes=nested,
        dynamo=True,
        external_data=size > _LARGE,
        verbose=False,
    )
    return {
        "file": path.name,
        "inputs": {each.name: each.described() for each in inputs},
        "outputs": {each.name: each.described() for each in outputs},
    }


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps torch's exporter from remarks that no user can act on."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
