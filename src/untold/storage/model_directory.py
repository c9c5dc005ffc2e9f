"""Reads and writes model directories: config.json, model.safetensors, tokenizers, a manifest.

A folder of transformers that holds past and future (`untold.huggingface`) has its settings in
untold.json, because config.json belongs to transformers; other files may lie beside those of the
manifest, and weights may be in several files, which model.safetensors.index.json names. A
calibrated model also has calibration.json. A path that begins with `hf:` names a Hugging Face
folder, or a model of the hub, which is read as it is.

Nothing in a model directory is ever executed, and every file is checked against the manifest before
it is used.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from untold.config import Config, parse_config_json
from untold.corpus.batching import TextCodec
from untold.corpus.tokenizer import Tokenizers
from untold.errors import UntoldError, shorten
from untold.files import MANIFEST, is_complete, new_directory, verify_directory
from untold.hardware import warn_of_memory
from untold.models.build import build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.storage.calibration import Calibration

CONFIG, WEIGHTS = "config.json", "model.safetensors"
WEIGHT_INDEX = "model.safetensors.index.json"  # names the files of weights that were divided
OWN_CONFIG = "untold.json"  # of a folder whose config.json is that of transformers
CALIBRATION = "calibration.json"
BEST, CHECKPOINTS = "best", "checkpoints"
_HUGGING_FACE = "hf:"
_SHARD = re.compile(r"[\w.-]+\.safetensors")
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")  # how safetensors, which is Rust, cites errno


@dataclass(frozen=True)
class TrainedModel:
    """A model with the configuration and the tokenizers that are needed to use it."""

    model: Seq2Seq
    config: Config
    tokenizers: Tokenizers
    calibration: Calibration | None = None  # how its account becomes probabilities

    @property
    def codec(self) -> TextCodec:
        """Encodes text for this model, on the device where it is now."""
        device = next(self.model.parameters()).device
        return TextCodec(self.tokenizers, self.config.data.lowercase, device)


def save_model(path: Path, trained: TrainedModel, *, replace: bool = False) -> None:
    """Writes a model directory, completely or not at all."""
    with new_directory(path, replace=replace) as directory:
        fill_model_directory(directory, trained)


def fill_model_directory(directory: Path, trained: TrainedModel) -> None:
    """Writes a model's files to a directory that the caller seals with a manifest."""
    (directory / CONFIG).write_text(
        trained.config.model_dump_json(indent=1) + "\n", encoding="utf-8"
    )
    trained.tokenizers.save(directory)
    if trained.calibration is not None:
        (directory / CALIBRATION).write_text(trained.calibration.to_json(), encoding="utf-8")
    write_tensors(directory / WEIGHTS, named_weights(trained.model))


def named_weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """Returns every parameter once, under its first name: shared ones are not repeated."""
    return {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}


def add_calibration(path: Path, calibration: Calibration) -> None:
    """Puts a calibration into a model directory; its other files stay the same bytes.

    The directory may be a checkpoint, which also holds what resuming needs.
    """
    with new_directory(path, replace=True) as directory:
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path)
            if file.is_file() and not any(part.startswith(".") for part in name.parts):
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, directory / name)
        (directory / MANIFEST).unlink()  # a new one seals the directory
        (directory / CALIBRATION).write_text(calibration.to_json(), encoding="utf-8")


def load_model(
    path: str | Path,
    device: str = "cpu",
    *,
    with_calibration: bool = True,
    settings: Mapping[str, object] | None = None,
) -> TrainedModel:
    """Reads a model directory, or the best model of a training run; refuses damaged files.

    `settings` are keys of [model] that a Hugging Face folder leaves open, such as languages.
    """
    if (name := hugging_face_name(path)) is not None:
        return _load_folder(name, device, settings or {})
    if settings:
        raise UntoldError(
            f"--set model.{shorten(min(settings))}: only decode settings can change here"
        )
    directory = find_model(Path(path))
    verify_directory(directory, shared_by=OWN_CONFIG)
    config = read_config(directory)
    tokenizers = Tokenizers.load(directory)
    # The weights are in memory twice, since they are read from a file and copied.
    files = [directory / name for name in weight_files(directory)]
    size = sum(file.stat().st_size for file in files if file.exists())
    warn_of_memory(f"loading {directory}", 2 * size, "use a larger machine")
    with torch.random.fork_rng(devices=[]):  # building draws weights that are overwritten below
        model = build_model_for(tokenizers, config.model)
    load_weights(model, directory)
    calibration, file = None, directory / CALIBRATION
    if with_calibration and file.exists():
        calibration = Calibration.from_json(_read_text(file), str(file))
    return TrainedModel(model.to(device).eval(), config, tokenizers, calibration)


def _load_folder(name: str, device: str, settings: Mapping[str, object]) -> TrainedModel:
    from untold.huggingface.folder import read_folder  # it asks for an extra

    found = read_folder(name, settings)
    return TrainedModel(found.model.to(device).eval(), found.config, found.tokenizers)


def read_config(directory: Path) -> Config:
    """Reads the settings of a model directory."""
    name = OWN_CONFIG if (directory / OWN_CONFIG).exists() else CONFIG
    return parse_config_json(_read_text(directory / name), f"{directory}/{name}")


def hugging_face_name(path: str | Path) -> str | None:
    """Returns the folder or hub name behind `hf:`; None if the path is one of untold's own."""
    text = str(path)
    return text.removeprefix(_HUGGING_FACE) if text.startswith(_HUGGING_FACE) else None


def absolute_model(path: Path) -> Path:
    """Returns a path that means the same from everywhere; names of the hub stay as they are."""
    name = hugging_face_name(path)
    if name is None:
        return path.absolute()
    return Path(f"{_HUGGING_FACE}{Path(name).absolute()}") if Path(name).exists() else path


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UntoldError(f"{file.parent}: {file.name} cannot be read: {error}") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of one safetensors file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise UntoldError(f"{path}: not a readable safetensors file: {error}") from None


def weight_files(directory: Path) -> list[str]:
    """Names the files that hold the weights: one, or several that an index names."""
    if (directory / WEIGHTS).exists() or not (directory / WEIGHT_INDEX).exists():
        return [WEIGHTS]
    try:
        names = list(json.loads(_read_text(directory / WEIGHT_INDEX))["weight_map"].values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        names = []
    if not names or not all(isinstance(each, str) and _SHARD.fullmatch(each) for each in names):
        raise UntoldError(f"{directory}: {WEIGHT_INDEX} names no files of weights")
    return sorted(set(names))


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file; a full disk is an OSError here, as for any other file."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        if found := _SYSTEM_ERROR.search(str(error)):
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(path)) from error
        raise


def find_model(path: Path) -> Path:
    """Resolves `path` to a model directory: itself, a run's best, or a run's last checkpoint."""
    if hugging_face_name(path) is not None:
        raise UntoldError(f"{path}: is no model directory of untold: make one with untold adopt")
    if (path / MANIFEST).exists():
        return path
    for parent in (path / BEST, path / CHECKPOINTS):
        if complete := [step for step in step_directories(parent) if is_complete(step)]:
            return complete[-1]
    if not path.exists():
        raise UntoldError(f"{path}: no such model")
    raise UntoldError(
        f"{path}: holds neither a model ({MANIFEST}) nor a training run's checkpoints"
    )


def run_of(directory: Path) -> Path | None:
    """Finds the training run that a model directory is part of; None if it stands alone."""
    parent = directory.absolute().parent
    return parent.parent if parent.name in (BEST, CHECKPOINTS) else None


def step_directories(parent: Path) -> list[Path]:
    """Lists the step-N directories of a parent, oldest first."""
    return sorted(parent.glob("step-*"), key=lambda path: (len(path.name), path.name))


def load_weights(model: Seq2Seq, directory: Path) -> None:
    """Loads the weights of a directory, whose names and shapes must be those of the model."""
    parameters, tensors = dict(model.named_parameters()), {}
    for name in weight_files(directory):
        tensors |= read_tensors(directory / name)
    if missing := parameters.keys() - tensors.keys():
        raise UntoldError(f"{directory}: {WEIGHTS} lacks {sorted(missing)[0]}")
    buffers = dict(model.named_buffers()).keys()  # which transformers saves, and nothing reads
    if extra := tensors.keys() - parameters.keys() - buffers:
        raise UntoldError(f"{directory}: {WEIGHTS} has {sorted(extra)[0]}, which the model has not")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise UntoldError(
                f"{directory}: {name} has shape {tuple(tensors[name].shape)}, but {CONFIG} and the "
                f"tokenizer ask for {tuple(parameter.shape)}"
            )
        parameter.data.copy_(tensors[name])
