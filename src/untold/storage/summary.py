"""What a directory holds: a summary of a model for `untold info`, and how a run was last started.

The record of the start lets a run go on from its directory alone. Checkpoints hold the settings,
too. But a run that was killed before its first checkpoint has none, and no checkpoint says which
model a run began with, or where its data were found.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.config import Config, SeparatorConfig
from untold.config.older import bring_up_to_date
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.errors import UntoldError
from untold.files import MANIFEST, new_directory, verify_directory
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import (
    CHECKPOINTS,
    CONFIG,
    TrainedModel,
    absolute_model,
    find_model,
    hugging_face_name,
    step_directories,
)

SETTINGS, START = "settings", "start.json"


@dataclass(frozen=True)
class Parameters:
    """Counts parameters: all, all but embeddings, and all that translations need."""

    total: int
    without_embeddings: int
    to_translate_with: int


def count_parameters(model: Seq2Seq) -> Parameters:
    """Counts every parameter once; a shared one counts once, too."""
    total = sum(p.numel() for p in model.parameters())
    # These have a row for each word of a vocabulary; the latter ones in Hugging Face models.
    tables = ("embedding", ".lexicon.", ".shared.", "embed_tokens", "lm_head")
    embeddings = sum(
        p.numel() for name, p in model.named_parameters() if any(part in name for part in tables)
    )
    idle = sum(p.numel() for name, p in model.named_parameters() if _is_idle(name))
    return Parameters(total, total - embeddings, total - idle)


def _is_idle(name: str) -> bool:
    """Returns True for the heads, which serve losses and analysis but no translation."""
    return ".heads." in name or name.startswith("word_prediction.")


def summarise(trained: TrainedModel, path: Path) -> dict[str, Any]:
    """Maps names to values, in reading order."""
    config, parameters = trained.config, count_parameters(trained.model)
    shape = config.model
    return {
        "model": str(path if hugging_face_name(path) else find_model(path)),
        "languages": f"{config.data.source_language} -> {config.data.target_language}",
        "backbone": shape.backbone,
        **shape.describe(),
        "past and future": _separator(shape.separator),
        "copying": "yes" if shape.copying else "no",
        "vocabulary": f"{len(trained.tokenizers.source)} + {len(trained.tokenizers.target)}"
        f"{' (one for both)' if trained.tokenizers.joint else ''}, {_tokenizer_kind(trained)}",
        "parameters": parameters.total,
        "parameters without embeddings": parameters.without_embeddings,
        "parameters to translate with": parameters.to_translate_with,
        "decoding": ", ".join(f"{k} {v}" for k, v in config.decode.model_dump().items()),
    }


def _tokenizer_kind(trained: TrainedModel) -> str:
    if isinstance(trained.tokenizers.source, SentencePieceTokenizer):
        return trained.config.tokenizer.kind
    return "the tokenizer that the model came with"


def _separator(config: SeparatorConfig) -> str:
    if config.kind == "none":
        return "none"
    past, future, redundant = config.counts
    how = config.kind
    if how == "gdr":
        how += f", {config.agreement} agreement, {config.num_iterations} iterations"
    return f"{how}, capsules {past} + {future} + {redundant}"


@dataclass(frozen=True)
class RunRecord:
    """Holds the settings of a run as JSON has them, and absolute paths of what it was made from.

    A run of a version that kept no record has the settings of its last checkpoint and no paths.
    """

    values: dict[str, Any]
    init: Path | None = None  # the model of --init
    root: Path | None = None  # the directory of the data


def write_record(run: Path, config: Config, init: Path | None) -> None:
    """Records a start; it replaces the record of the start before."""
    start = {
        "init": None if init is None else str(absolute_model(init)),
        "root": str(Path(config.data.root).absolute()),
    }
    with new_directory(run / SETTINGS, replace=True) as directory:
        (directory / CONFIG).write_text(config.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (directory / START).write_text(json.dumps(start, indent=1) + "\n", encoding="utf-8")


def read_record(run: Path) -> RunRecord | None:
    """Returns the record of the last start, or None if there is none or it is damaged."""
    directory = run / SETTINGS
    try:
        values = _read_settings(directory)
        start = json.loads((directory / START).read_text(encoding="utf-8"))
        init = None if start["init"] is None else Path(start["init"])
        return RunRecord(values, init, Path(start["root"]))
    except (UntoldError, OSError, ValueError, KeyError, TypeError):
        return None


def find_record(run: Path) -> RunRecord:
    """Returns the record of the run in a directory; anything but a run is an error with a cure."""
    if (run / MANIFEST).exists():
        raise UntoldError(
            f"{run}: is a model and no run: start a run from it with untold train CONFIG.toml "
            f"--init {run}{_run_of_checkpoint(run)}"
        )
    if record := read_record(run):
        return record
    checkpoints = step_directories(run / CHECKPOINTS)
    for directory in reversed(checkpoints):
        try:
            return RunRecord(_read_settings(directory))
        except (UntoldError, OSError, ValueError):
            continue  # it is damaged, which training reports when it passes the checkpoint over
    what = "its settings and checkpoints are damaged" if checkpoints else "holds no training run"
    raise UntoldError(
        f"{run}: {what}: name a configuration, as in untold train CONFIG.toml --out {run}"
    )


def _read_settings(directory: Path) -> dict[str, Any]:
    verify_directory(directory)
    values = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise UntoldError(f"{directory}: {CONFIG} holds no settings")
    return bring_up_to_date(values)


def _run_of_checkpoint(model: Path) -> str:
    """Names the run that a checkpoint belongs to, since going on with it may have been meant."""
    parent = model.absolute().parent
    return f", or go on with untold train {parent.parent}" if parent.name == CHECKPOINTS else ""
