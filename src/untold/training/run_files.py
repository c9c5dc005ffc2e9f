"""Chooses how a run restores and saves itself: whole, or each process its own part."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from untold.storage.model_directory import TrainedModel
from untold.training.checkpoint import Checkpoint, Checkpoints, restore
from untold.training.progress import Progress
from untold.training.sharded_checkpoint import ShardedCheckpoints
from untold.training.sharding import Shards


@dataclass(frozen=True)
class RunFiles:
    """Says how this run restores and saves itself."""

    restore: Callable[[Checkpoint], Progress]
    save: Callable[[Progress], None]
    save_best: Callable[[Progress], None]


def run_files(
    checkpoints: Checkpoints,
    trained: TrainedModel,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    shards: Shards | None,
) -> RunFiles:
    """Returns the ways of a run that is sharded, or is not."""
    if shards is not None:
        parts = ShardedCheckpoints(checkpoints, shards, optimizer)
        return RunFiles(parts.restore, partial(parts.save, facts), parts.save_best)
    save = partial(checkpoints.save, trained, optimizer, facts)
    load = partial(restore, trained=trained, optimizer=optimizer)
    return RunFiles(load, save, partial(checkpoints.save_best, trained))
