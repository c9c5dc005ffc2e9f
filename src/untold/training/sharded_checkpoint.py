"""Checkpoints of a sharded run: every process writes and reads its own part of the optimizer.

The files are those of torch.distributed.checkpoint in the format of safetensors, which holds no
code. The weights are whole, as in any other checkpoint, so that all commands can read it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from untold.errors import UntoldError, shorten
from untold.training.checkpoint import OPTIMIZER_SHARDS, Checkpoint, Checkpoints
from untold.training.progress import Progress
from untold.training.sharding import Shards


class ShardedCheckpoints:
    """Writes and restores the checkpoints of a sharded run; all processes call it together."""

    def __init__(
        self, checkpoints: Checkpoints, shards: Shards, optimizer: torch.optim.Optimizer
    ) -> None:
        self._checkpoints, self._shards, self._optimizer = checkpoints, shards, optimizer

    def save(self, facts: dict[str, Any], progress: Progress) -> None:
        """Writes a checkpoint, completely or not at all."""
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint import HuggingFaceStorageWriter

        self._shards.gather()
        with self._new_directory(facts, progress) as directory:
            path = str(directory / OPTIMIZER_SHARDS)
            writer = HuggingFaceStorageWriter(path, save_distributed=True)
            checkpoint.save(self._state(), storage_writer=writer)
            self._shards.processes.barrier()  # now all parts are there to be sealed

    def save_best(self, progress: Progress) -> None:
        """Writes the best model, which is an ordinary model directory."""
        self._shards.gather()
        if self._shards.twin is not None:
            self._checkpoints.save_best(self._shards.twin, progress)

    def restore(self, saved: Checkpoint) -> Progress:
        """Restores the optimizer; another number of processes parts it anew."""
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint import HuggingFaceStorageReader

        directory = saved.directory / OPTIMIZER_SHARDS
        if not directory.is_dir():
            raise UntoldError(f"{saved.directory} was made without train.shard: leave it out")
        try:
            reader = HuggingFaceStorageReader(str(directory))
            keys = list(reader.read_metadata().state_dict_metadata)
            state = {key: self._empty(key) for key in keys}
            checkpoint.load(state, storage_reader=reader)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise UntoldError(
                f"{directory}: not the parts of an optimizer: {shorten(error)}"
            ) from None
        parameters = self._parameters()
        for key, value in state.items():
            kind, _, name = key.partition("/")
            self._optimizer.state[parameters[name]][kind] = value
        return saved.progress

    def _empty(self, key: str) -> Tensor:
        """Makes room for one value, parted as its parameter is; `step` is a single number."""
        kind, _, name = key.partition("/")
        parameter = self._parameters()[name]
        return torch.zeros(()) if kind == "step" else torch.zeros_like(parameter).detach()

    def _state(self) -> dict[str, Tensor]:
        return {
            f"{kind}/{name}": value
            for name, parameter in self._parameters().items()
            for kind, value in self._optimizer.state.get(parameter, {}).items()
        }

    def _parameters(self) -> dict[str, Tensor]:
        return dict(self._shards.trained.model.named_parameters())

    @contextmanager
    def _new_directory(self, facts: dict[str, Any], progress: Progress) -> Iterator[Path]:
        """Yields the unfinished directory that the main process has made and will seal."""
        processes, twin = self._shards.processes, self._shards.twin
        if twin is None:
            yield Path(processes.broadcast(None))
            return
        with self._checkpoints.new_directory(twin, facts, progress) as directory:
            processes.broadcast(str(directory))
            yield directory
