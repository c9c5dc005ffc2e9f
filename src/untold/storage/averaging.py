"""Averages the weights of several models into one model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from untold.errors import UntoldError
from untold.files import is_complete
from untold.progress_bar import track
from untold.storage.model_directory import CHECKPOINTS, TrainedModel, load_model, step_directories


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Finds the newest `count` complete checkpoints of a training run."""
    complete = [path for path in step_directories(run / CHECKPOINTS) if is_complete(path)]
    if len(complete) < count:
        raise UntoldError(
            f"{run}: {len(complete)} checkpoints, not {count}: ask for fewer, or train with a "
            "larger train.keep"
        )
    return complete[-count:]


@torch.no_grad()
def average_models(paths: Sequence[Path]) -> TrainedModel:
    """Averages each parameter in double precision; all models must have one shape."""
    if not paths:
        raise UntoldError("nothing to average: name at least one model")
    models = ((path, load_model(path)) for path in track(paths, "averaging", len(paths)))
    _, first = next(models)
    sums = {name: p.double() for name, p in first.model.named_parameters()}
    for path, other in models:
        if other.tokenizers.fingerprint != first.tokenizers.fingerprint:
            raise UntoldError(f"{path}: has another tokenizer than {paths[0]}")
        theirs = dict(other.model.named_parameters())
        if {n: p.shape for n, p in theirs.items()} != {n: p.shape for n, p in sums.items()}:
            raise UntoldError(f"{path}: has another shape than {paths[0]}")
        for name, total in sums.items():
            total += theirs[name]
    for name, parameter in first.model.named_parameters():
        parameter.copy_(sums[name] / len(paths))
    return replace(first, calibration=None)  # it was learnt for other weights


def halve(trained: TrainedModel) -> TrainedModel:
    """Returns the model with weights of 16 bits, for saving: loading makes 32 bits of them again.

    The given model is changed, too.
    """
    largest = torch.finfo(torch.float16).max
    for name, parameter in trained.model.named_parameters():
        if parameter.numel() and parameter.detach().abs().max() > largest:
            raise UntoldError(
                f"{name} has a weight above {largest:.0f}, which 16 bits cannot hold: leave out "
                "--half"
            )
    return replace(trained, model=trained.model.half())
