"""Small corpora, configurations and models that tests share."""

import json
import math
import random
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file

from untold.config import Config, ModelConfig, TrainConfig, model_config_class, parse_config
from untold.corpus import batching
from untold.corpus.batching import Batch, Ids
from untold.corpus.tokenizer import SENTENCEPIECE_IDS, Tokenizers
from untold.corpus.vocabulary import train_tokenizers
from untold.models.build import build_model, build_model_for
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.storage.model_directory import TrainedModel
from untold.training.losses.objective import Losses, Objective

Module = TypeVar("Module", bound=torch.nn.Module)
LETTERS = "abcdefgh"
PAD, UNK = SENTENCEPIECE_IDS.pad, SENTENCEPIECE_IDS.unk
BOS, EOS = SENTENCEPIECE_IDS.bos, SENTENCEPIECE_IDS.eos

# The smallest shapes of a run and of a model by formula, by backbone; all widths differ. A backbone
# that is not listed here, since another package registers it, is tested with its first preset.
RUN_SHAPES: dict[str, dict[str, Any]] = {
    "transformer": {
        "d_model": 8,
        "d_ffn": 12,
        "heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
    "rnmt": {"d_embedding": 6, "d_model": 8, "d_ffn": 12, "encoder_layers": 1},
}
SHAPES: dict[str, dict[str, Any]] = {
    "transformer": {
        "d_model": 44,
        "d_ffn": 19,
        "heads": 11,
        "encoder_layers": 2,
        "decoder_layers": 3,
    },
    "rnmt": {"preset": "tiny", "d_embedding": 22, "d_model": 14, "d_ffn": 19, "encoder_layers": 2},
}

for shapes in (RUN_SHAPES, SHAPES):
    shapes["pfrnn"] = shapes["rnmt"]
    own = shapes["transformer"]
    shapes["huggingface"] = {
        "preset": "base",
        "architecture": {
            "model_type": "marian",
            "d_model": own["d_model"],
            "max_position_embeddings": 300,
            "pad_token_id": PAD,
            "decoder_start_token_id": BOS,
            "eos_token_id": EOS,
            **{
                f"{side}_{name}": own[key]
                for side in ("encoder", "decoder")
                for name, key in (("attention_heads", "heads"), ("ffn_dim", "d_ffn"))
            },
            "encoder_layers": own["encoder_layers"],
            "decoder_layers": own["decoder_layers"],
        },
    }


def shape_of(backbone: str, shapes: Mapping[str, dict[str, Any]] = SHAPES) -> dict[str, Any]:
    """The settings of a small model."""
    presets = model_config_class(backbone).presets
    return shapes.get(backbone) or ({"preset": next(iter(presets))} if presets else {})


# Every way of telling past from future; `separator` gives them capsules of distinct numbers.
SEPARATORS: dict[str, dict[str, Any]] = {
    "gdr-dot": {"kind": "gdr", "token_coverage": False},
    "gdr-said": {"kind": "gdr", "token_coverage": True},
    "gdr-mlp": {"kind": "gdr", "preset": "paper"},
    "clf": {"kind": "clf"},
    "attn": {"kind": "attn"},
}


def write_corpus(directory: Path, pairs: int = 60, valid: int = 3, seed: int = 1) -> Path:
    """train.src and train.tgt, valid.src and valid.tgt: words, and the same words backwards."""
    directory.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    for name, count in (("train", pairs), ("valid", valid)):
        lines = [_words(dice) for _ in range(count)]
        (directory / f"{name}.src").write_text("".join(f"{' '.join(w)}\n" for w in lines))
        (directory / f"{name}.tgt").write_text("".join(f"{' '.join(w[::-1])}\n" for w in lines))
    return directory


def _words(dice: random.Random) -> list[str]:
    return ["".join(dice.choices(LETTERS, k=dice.randint(1, 4))) for _ in range(dice.randint(1, 6))]


def toy_values(root: Path, **sections: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of a run of seconds, as a TOML file would have them; dropout is on."""
    backbone = sections.get("model", {}).get("backbone", "transformer")
    values: dict[str, dict[str, Any]] = {
        "data": {
            "root": str(root),
            "train": {"source": "train.src", "target": "train.tgt"},
            "valid": {"source": "valid.src", "target": "valid.tgt"},
            "bleu_tokenize": "none",
        },
        "tokenizer": {"size": 40},
        "model": {"preset": "tiny", **shape_of(backbone, RUN_SHAPES)},
        "train": {
            "steps": 12,
            "batch_tokens": 60,
            "accumulate": 2,
            "learning_rate": 0.01,
            "warmup": 4,
            "log_every": 3,
            "validate_every": 5,
            "save_every": 4,
            "keep": 20,
            "device": "cpu",
        },
        "decode": {"max_length": 5, "beam": 2},
    }
    return {name: values.get(name, {}) | dict(sections.get(name, {})) for name in values | sections}


def toy_config(root: Path, **sections: Mapping[str, Any]) -> Config:
    """`toy_values`, checked."""
    return parse_config(toy_values(root, **sections))


def toy_tokenizers(root: Path, config: Config) -> Tokenizers:
    """Learnt from a toy corpus."""
    sides = [(root / f"train.{side}").read_text().split("\n")[:-1] for side in ("src", "tgt")]
    return train_tokenizers(config.tokenizer, *sides)


def toy_trained(root: Path, **sections: Mapping[str, Any]) -> TrainedModel:
    """A model of a toy corpus with its tokenizers; its weights are a closed formula."""
    config = toy_config(root, **sections)
    tokenizers = toy_tokenizers(root, config)
    return TrainedModel(fill(build_model_for(tokenizers, config.model)).eval(), config, tokenizers)


def toy_model(
    vocabularies: tuple[int, int] = (13, 13), *, shared: bool = True, **settings: Any
) -> Seq2Seq:
    """A model in evaluation mode whose weights are a closed formula, free of torch's generators."""
    small = shape_of(settings.get("backbone", "transformer"))
    config = ModelConfig.model_validate(small | settings)
    same = None if shared else counterparts(*vocabularies)
    return fill(build_model(config, vocabularies, shared=shared, counterparts=same)).eval()


def counterparts(source: int, target: int) -> list[int]:
    """Some words of one vocabulary in another: every third has none, a few share theirs."""
    return [4 + 5 * k % (target - 5) if k > 3 and k % 3 else 0 for k in range(source)]


def all_scores(model: Seq2Seq, outputs: Outputs) -> torch.Tensor:
    """Scores of the next token at all positions (b, t, v)."""
    b, t = outputs.states.shape[:2]
    rows, steps = torch.arange(b).repeat_interleave(t), torch.arange(t).repeat(b)
    return model.scores(outputs, rows, steps).view(b, t, -1)


def separator(name: str, **settings: Any) -> dict[str, Any]:
    """Settings of 2 past, 3 future and 6 redundant capsules: narrower, wider than d_model of 44."""
    if name == "none":
        return {"kind": "none"}
    sizes = {"past": 2, "future": 3, "redundant": 6, "d_capsule": 17, "lexicon": 5}
    return sizes | SEPARATORS[name] | settings


def fill(model: Module, scale: float = 0.4) -> Module:
    """Weights by formula: sines that start elsewhere for each name; gains of norms around one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            first = zlib.crc32(name.encode()) % 10_000
            numbers = torch.arange(first, first + parameter.numel(), dtype=torch.float64)
            values = scale * torch.sin(numbers * math.sqrt(2)).view(parameter.shape)
            if name.startswith("copy_layer."):
                values *= 0.3  # prefers some words, but excludes none
            is_gain = "norm" in name and name.endswith("weight")
            parameter.copy_(values * 0.5 + 1 if is_gain else values)
    return model


def words(*shape: int, size: int = 13, start: int = 0) -> torch.Tensor:
    """Ids of words (never control tokens) in a pattern without a short period."""
    numbers = torch.arange(start, start + math.prod(shape))
    return 4 + ((numbers * numbers + 3 * numbers) % 101 % (size - 4)).view(shape)


def collate(pairs: Sequence[tuple[Ids, Ids]], indices: Sequence[int]) -> Batch:
    """A batch with the special ids of the vocabularies that untold trains."""
    return batching.collate(pairs, indices, (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS))


def pad_rows(rows: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows padded with the id of these vocabularies, and their mask."""
    return batching.pad_rows(rows, PAD)


def toy_batch(lengths: list[tuple[int, int]], size: int = 13):
    """A batch of pairs of these lengths, control tokens not counted."""
    pairs = [
        (words(s, size=size, start=k).tolist(), words(t, size=size, start=50 + k).tolist())
        for k, (s, t) in enumerate(lengths)
    ]
    return collate(pairs, range(len(pairs)))


def compute_losses(model: Seq2Seq, batch: Batch, config: TrainConfig, step: int) -> Losses:
    """Computes the losses of one batch at one update."""
    return Objective(model, config)(batch, step)


def log_columns(model: Seq2Seq, config: TrainConfig) -> tuple[str, ...]:
    """Returns the names under which a run logs its losses."""
    return Objective(model, config).names


def checkpoint_contents(directory: Path) -> dict[str, Any]:
    """All that the next update depends on: bytes of both tensor files, and the progress."""
    progress = json.loads((directory / "progress.json").read_text())["progress"]
    del progress["seconds"], progress["unlogged"]["seconds"]  # the clock's, not the run's
    names = ("model.safetensors", "optimizer.safetensors")
    return {name: (directory / name).read_bytes() for name in names} | progress


def weights(directory: Path) -> dict[str, torch.Tensor]:
    """The tensors of a model directory."""
    return load_file(directory / "model.safetensors")


def lasting_records(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without what the clock decides."""
    clock = ("time", "tokens_per_second")
    return [{k: v for k, v in record.items() if k not in clock} for record in records(run)]


def records(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, each of which must be JSON as the standard has it."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    lines = (run / "metrics.jsonl").read_text().split("\n")
    assert lines.pop() == ""
    found = [json.loads(line, parse_constant=refuse) for line in lines]
    return [record for record in found if kind in (None, record["kind"])]
