"""Writes a model with its past and future as two ONNX graphs, and describes them in JSON.

The graphs are the encoder and one step of the decoder. Both are functions of tensors alone. All
that a decoder remembers goes in and comes out:

    source_ids, source_mask                          -> memory, votes
    last, source_mask, past, covered, memory, votes  -> logits, past, covered, assignments

Shape letters: b sentences, n beams of each, i source tokens, t tokens read before, l layers,
k heads, e width of a head, v vocabulary. What a model without past and future lacks is left out.
"""

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
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.export import Dim

from untold.corpus.tokenizer import SENTENCEPIECE_IDS, SentencePieceTokenizer
from untold.export.plain_model import check_exportable
from untold.files import new_directory
from untold.huggingface.optional import import_optional
from untold.models.backbone import Decoded, Source
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import DecoderLayer, SelfAttention, Transformer, TransformerConfig
from untold.storage.model_directory import TrainedModel

DESCRIPTION = "untold.onnx.json"
_LARGE = 1_000_000_000  # bytes of weights; beyond, they are written to a file of their own
_SENTENCES, _BEAMS, _SOURCE, _READ = 2, 3, 5, 4  # lengths of the example that is traced
_POSITIONS = 1024  # that the tables of every Transformer have
_BY_HYPOTHESIS = {0: "sentences", 1: "beams"}
_BY_WORD = {0: "sentences", 1: "source"}


class EncoderGraph(nn.Module):
    """Reads sources."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source_ids: Int[Tensor, "b i"], source_mask: Bool[Tensor, "b i"]
    ) -> tuple[Tensor, ...]:
        """Returns the keys and values of every layer (b l 2 k i e), and the votes."""
        source = self.model.encode(source_ids, source_mask)
        return torch.stack(source.memory, dim=1), *source.votes


class DecoderStepGraph(nn.Module):
    """Reads one more token of every hypothesis."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    @property
    def covers(self) -> bool:
        """Tells if hypotheses remember what they have covered."""
        past_future = self.model.past_future
        return past_future is not None and past_future.coverage is not None

    def forward(
        self,
        last: Int[Tensor, "b n"],
        source_mask: Bool[Tensor, "b i"],
        past: Float[Tensor, "b n l 2 k t e"],
        *others: Tensor,
    ) -> tuple[Tensor, ...]:
        """Computes what Seq2Seq.step does, with memory that is given and returned.

        The others are what is covered (b n i), if the model remembers that, and all that the
        encoder returned. Returns logits, the longer past and, where the model has them, what is
        covered now and the assignments.
        """
        before = others[0].flatten(0, 1) if self.covers else None
        memory, *votes = others[self.covers :]
        # Nothing but their type is read of the states: all that steps need was made of them.
        source = Source(memory[:, 0, 0, 0], source_mask, memory.unbind(1), tuple(votes))
        decoded, grown = self._decode(source, last, past)
        begins = last == SENTENCEPIECE_IDS.bos
        read = self.model.read_step(source, last, decoded, before, begins=begins)
        logits = self.model.logits(read.holistic)
        now = None if read.covered is None else read.covered.unflatten(0, last.shape)
        answers = (logits, grown, now, read.signals.assignments)
        return tuple(answer for answer in answers if answer is not None)

    def _decode(
        self, source: Source, last: Int[Tensor, "b n"], past: Float[Tensor, "b n l 2 k t e"]
    ) -> tuple[Decoded, Float[Tensor, "b n l 2 k s e"]]:
        """Runs the layers, as Transformer.step does."""
        ours = self.model.backbone
        assert isinstance(ours, Transformer)
        wanted = source.mask[:, None, None]
        x = ours.target_embedding(last.reshape(-1, 1), past.shape[5])
        memory = []
        for number, layer in enumerate(cast("list[DecoderLayer]", ours.decoder)):
            before = past[:, :, number].flatten(0, 1)
            seen, longer = _read_past(layer.self_attention, layer.self_norm(x), before)
            memory.append(longer.unflatten(0, last.shape))
            x = layer.self_end(x + seen).view(*last.shape, -1)
            x, _ = layer.read_source(x, source.memory[number], wanted, explain=False)
            x = x.view(-1, 1, ours.d_model)
        states = ours.decoder_norm(x).view(*last.shape, -1)
        return Decoded(states), torch.stack(memory, dim=2)


def _read_past(
    attention: SelfAttention, x: Float[Tensor, "r 1 d"], past: Float[Tensor, "r 2 k t e"]
) -> tuple[Float[Tensor, "r 1 d"], Float[Tensor, "r 2 k s e"]]:
    """Attends to the token itself and those before; returns their keys and values, too."""
    qkv = attention.qkv(x).view(-1, 3, attention.heads, 1, past.shape[-1])
    memory = torch.cat([past, qkv[:, 1:]], dim=3)
    keys, values = memory.unbind(1)
    context = F.scaled_dot_product_attention(qkv[:, 0], keys, values)
    return attention.out(context.transpose(1, 2).flatten(2)), memory


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
    sides = trained.tokenizers.source, trained.tokenizers.target
    return [side for side in sides if isinstance(side, SentencePieceTokenizer)]


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
    return tuple(tensor.value for tensor in named)


def _sources(length: int) -> list[_Named]:
    ids = torch.full((_SENTENCES, length), SENTENCEPIECE_IDS.eos)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, -1] = False
    return [_Named("source_ids", ids, _BY_WORD), _Named("source_mask", mask, _BY_WORD)]


def _name_encoded(values: Sequence[Tensor], longer: Sequence[Tensor]) -> list[_Named]:
    """Names what the encoder returns; an axis that a longer source makes longer varies."""
    encoded, names = [], ["memory", *(f"votes_{number}" for number in range(len(values) - 1))]
    for name, value, other in zip(names, values, longer, strict=True):
        pairs = enumerate(zip(value.shape, other.shape, strict=True))
        axes = {0: "sentences"} | {k: "source" for k, (size, more) in pairs if size != more}
        encoded.append(_Named(name, value, axes))
    return encoded


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
    dims = {name: Dim(name, max=most.get(name)) for one in inputs for name in one.axes.values()}
    shapes = [{k: dims[name] for k, name in one.axes.items()} for one in inputs]
    if isinstance(graph, DecoderStepGraph):
        nested: tuple[Any, ...] = (*shapes[:3], tuple(shapes[3:]))
    else:
        nested = tuple(shapes)
    size = sum(weight.numel() for weight in graph.parameters()) * 4
    torch.onnx.export(
        graph,
        _values(inputs),
        str(path),
        input_names=[one.name for one in inputs],
        output_names=[one.name for one in outputs],
        dynamic_shapes=nested,
        dynamo=True,
        external_data=size > _LARGE,
        verbose=False,
    )
    return {
        "file": path.name,
        "inputs": {one.name: one.described() for one in inputs},
        "outputs": {one.name: one.described() for one in outputs},
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
