"""Checks and choices of a run before it writes anything: settings, files, device, precision."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from untold.config import Config
from untold.errors import UntoldError
from untold.hardware import check_precision, choose_precision
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel
from untold.storage.summary import read_record
from untold.training.data import check_files
from untold.training.distributed import ProcessGroup
from untold.training.losses.objective import Objective, check_loss_names
from untold.training.sequence.objective import make_objective
from untold.training.sequence.samples import make_reward


def choose_device(config: Config) -> torch.device:
    """Returns the device that train.device names; auto takes a GPU if there is one."""
    wanted = config.train.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UntoldError('train.device = "cuda": torch sees no GPU here; use "cpu" or "auto"')
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(ProcessGroup.local_rank())
    return torch.device("cuda", ProcessGroup.local_rank())


def settle_precision(config: Config, processes: ProcessGroup, device: torch.device) -> Config:
    """Chooses the precision if it is left open: the same one in all processes."""
    if config.train.precision != "auto":
        return config
    return config.with_train(precision=processes.broadcast(choose_precision(device)))


def choose_objective(config: Config) -> Callable[[TrainedModel], Objective]:
    """Returns what makes the objective of a run; its reward, if it has one, is made at once."""
    sequence = config.train.sequence
    reward = make_reward(sequence, config.data.bleu_tokenize) if sequence.is_on else None
    return partial(make_objective, reward=reward)


def check_settings(config: Config, out: Path, device: torch.device) -> None:
    """Refuses what would fail later; models that were trained so can still be loaded."""
    check_precision(config.train.precision, device)
    record = read_record(out)
    _check_search(config)
    check_files(config.data, None if record is None else record.root)
    check_loss_names(config.train)


def _check_search(config: Config) -> None:
    """Refuses a search that the first validation would fail with."""
    decode, separates = config.decode, config.model.separator.kind != "none"
    by_past = decode.coverage_penalty > 0 and decode.coverage_source == "past"
    if config.train.best_by == "bleu" and not separates and by_past:
        raise UntoldError(
            'decode.coverage_source = "past" needs a model with past and future: set '
            'model.separator.kind = "gdr", or leave it out'
        )


def check_int8(config: Config, model: Seq2Seq) -> None:
    """Refuses 8-bit numbers in validation by BLEU if nothing can lay the model out for them."""
    asked = config.train.best_by == "bleu" and config.decode.int8
    if asked and model.backbone.parts() is None:
        raise UntoldError(
            f"decode.int8 is for Transformers, and this model ({config.model.backbone}) cannot be "
            "laid out as one: leave it out"
        )
