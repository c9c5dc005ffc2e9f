"""Finds where a run starts: at its last checkpoint, or at the weights of another model.

Warm start: a new model takes over every tensor of another one that fits, and reports it.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from untold.config import Config
from untold.corpus.tokenizer import Tokenizers
from untold.errors import UntoldError
from untold.files import write_file
from untold.hardware import warn_of_memory
from untold.models.build import build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import (
    TrainedModel,
    hugging_face_name,
    load_model,
    read_config,
)
from untold.storage.summary import RunRecord, read_record, write_record
from untold.training.checkpoint import Checkpoint, Checkpoints, check_init, restore_optimizer
from untold.training.distributed import ProcessGroup
from untold.training.preflight import check_int8
from untold.training.progress import Progress

logger = logging.getLogger(__name__)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WarmStart:
    """Names the parameters that were taken over, are new, and were ignored in the other model.

    One of another shape is new and ignored at once; `reshaped` has its shapes there and here.
    """

    matched: tuple[str, ...]
    new: tuple[str, ...]
    ignored: tuple[str, ...]
    reshaped: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{len(self.matched)} tensors taken over"]
        for words, names in self._others().items():
            if names:
                example = f", such as {names[0]}" if names[0] in self.reshaped else ""
                count = f"{len(names)} {words} ({_count_by_module(names)})"
                parts.append(f"{count}{example}{self._shapes(names[0])}")
        return "; ".join(parts)

    def listing(self) -> str:
        """Lists every name with what became of it, a line each."""
        rows = {"taken over": self.matched, **self._others()}
        return "".join(
            f"{words}: {name}{self._shapes(name)}\n"
            for words, names in rows.items()
            for name in names
        )

    def _others(self) -> dict[str, tuple[str, ...]]:
        """Sorts the names that were not taken over by the reason."""
        return {
            "of another shape": tuple(self.reshaped),
            "new": tuple(name for name in self.new if name not in self.reshaped),
            "not used": tuple(name for name in self.ignored if name not in self.reshaped),
        }

    def _shapes(self, name: str) -> str:
        there, here = self.reshaped.get(name, ((), ()))
        return f", {there} there and {here} here" if there or here else ""


@torch.no_grad()
def warm_start(model: nn.Module, other: nn.Module) -> WarmStart:
    """Copies into `model` each parameter of `other` that has the same name and shape."""
    theirs = dict(other.named_parameters())
    matched, reshaped = [], {}
    for name, parameter in model.named_parameters():
        if name not in theirs:
            continue
        if theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
            matched.append(name)
        else:
            reshaped[name] = (tuple(theirs[name].shape), tuple(parameter.shape))
    new = tuple(name for name, _ in model.named_parameters() if name not in matched)
    ignored = tuple(name for name in theirs if name not in matched)
    return WarmStart(tuple(matched), new, ignored, reshaped)


def _count_by_module(names: Iterable[str]) -> str:
    """Counts by module, such as "backbone.encoder 12, past_future 15"."""
    modules = Counter(
        ".".join(name.split(".")[: 2 if name.startswith("backbone.") else 1]) for name in names
    )
    return ", ".join(f"{module} {count}" for module, count in modules.items())


@dataclass(frozen=True)
class RunOptions:
    """Says where a run writes, which model it starts from, and if changed settings may resume."""

    out: Path
    init: Path | None = None
    allow_changed: bool = False
    calibrate: bool = True  # fit probabilities of omissions when the run is over


@dataclass(frozen=True)
class Start:
    """The checkpoint that a run goes on from, or the model that a new run begins with."""

    checkpoint: Checkpoint | None
    init: Path | None
    model: TrainedModel | None

    @property
    def tokenizers(self) -> Tokenizers | None:
        """Returns the tokenizers that belong to the weights to start from, if there are such."""
        if self.checkpoint is not None:
            return Tokenizers.load(self.checkpoint.directory)
        return None if self.model is None else self.model.tokenizers

    def restore(self, model: Seq2Seq, optimizer: torch.optim.Optimizer) -> Progress:
        """Restores the optimizer; returns how far the run was."""
        if self.checkpoint is None:
            return Progress()
        restore_optimizer(self.checkpoint.directory, model, optimizer)
        return self.checkpoint.progress

    def complete(self, config: Config) -> Config:
        """Completes the settings by what only the weights to start from can tell."""
        if self.checkpoint is None:
            return config if self.model is None else config.starting_from(self.model.config.model)
        before = read_config(self.checkpoint.directory)
        if config.train.precision == "auto":  # another choice would change the numbers of the run
            config = config.with_train(precision=before.train.precision)
        return config.starting_from(before.model)


def find_start(config: Config, options: RunOptions, processes: ProcessGroup) -> Start:
    """Finds the checkpoint to go on from, or the model that --init names."""
    checkpoints = Checkpoints(options.out, config.train.keep)
    found: tuple[Checkpoint | None, RunRecord | None] = processes.broadcast(
        (checkpoints.latest(), read_record(options.out)) if processes.is_main else None
    )
    checkpoint, record = found
    if checkpoint is not None:
        check_init(options.init, record)
        return Start(checkpoint, options.init if record is None else record.init, None)
    if options.allow_changed:
        logger.info(
            "--allow-changed has no effect: %s has no checkpoint to go on from", options.out
        )
    if processes.is_main:  # now, since preparing the data may take long
        write_record(options.out, config, options.init)
    init = options.init
    return Start(None, init, None if init is None else _load_init(config, init))


def _load_init(config: Config, init: Path) -> TrainedModel:
    """Reads the model that a run begins with; a Hugging Face folder needs the run's languages."""
    if hugging_face_name(init) is None:
        return load_model(init)
    if config.model.backbone != "huggingface":
        raise UntoldError(
            f"--init {init}: is a Hugging Face model, and model.backbone is "
            f'{config.model.backbone}: set model.backbone to "huggingface"'
        )
    names = ("source_language", "target_language", "source_prefix")
    given = {name: getattr(config.model, name) for name in names}
    return load_model(init, settings={name: value for name, value in given.items() if value})


def take_over(model: Seq2Seq, start: Start, out: Path | None) -> WarmStart | None:
    """Takes over the weights of --init and says so.

    Unless all tensors fitted, a file in `out` tells what became of each.
    """
    if start.model is None:
        return None
    warm = warm_start(model, start.model.model)
    where = ""
    if (warm.new or warm.ignored) and out is not None:
        path = out / "warm_start.txt"
        write_file(path, warm.listing().encode())
        where = f"; every name is in {path}"
    logger.info("starting from %s: %s%s", start.init, warm, where)
    return warm


def freeze_backbone(model: Seq2Seq, warm: WarmStart | None, *, is_resumed: bool) -> None:
    """Freezes what translates; all of it must come from the model that the run starts from."""
    if warm is None and not is_resumed:
        raise UntoldError(
            "train.freeze_backbone keeps the model that a run starts from: name one with --init"
        )
    translating = ("backbone.", "copy_layer.")
    if strange := [name for name in (warm.new if warm else ()) if name.startswith(translating)]:
        raise UntoldError(
            f"train.freeze_backbone: the model of --init has no {strange[0]} of the same shape "
            f"({len(strange)} such tensors), which would stay untrained: give [model] its shape"
        )
    model.freeze_backbone()


def build_model(config: Config, tokenizers: Tokenizers, start: Start, out: Path | None) -> Seq2Seq:
    """Builds the model of a run with the weights that the seed gives, or that it takes over.

    `out` is the directory for the account of a warm start, in the process that writes files.
    """
    torch.manual_seed(config.train.seed)
    model = build_model_for(tokenizers, config.model)
    check_int8(config, model)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    parameters = sum(p.numel() for p in model.parameters())
    logger.info("vocabulary %d + %d, %s parameters", *sizes, f"{parameters:,}")
    if not config.train.freeze_backbone:
        # Weights, gradients and two means of Adam, in four bytes each.
        cure = "lower the sizes in [model] or tokenizer.size"
        warn_of_memory("training this model", 4 * 4 * parameters, cure)
    warm = take_over(model, start, out)
    if config.train.freeze_backbone:
        freeze_backbone(model, warm, is_resumed=start.checkpoint is not None)
    return model
