"""The processes that share a run, started by torchrun; one process is a world of its own."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from untold.errors import UntoldError

__all__ = ["ProcessGroup"]


@dataclass(frozen=True)
class ProcessGroup:
    """Who this process is among `size` equals. The first one alone writes and speaks."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str, timeout_minutes: float) -> "ProcessGroup":
        """Meet the others, if torchrun started any; one that stays silent ends the job in time."""
        if cls.count() == 1:
            return cls()
        timeout = timedelta(minutes=timeout_minutes)
        with _meeting():
            dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=timeout)
        return cls(dist.get_rank(), dist.get_world_size())

    @staticmethod
    def count() -> int:
        """How many processes torchrun started; known before they meet."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @staticmethod
    def local() -> int:
        """The number of this process on its own machine, which is the number of its GPU."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def leave(self) -> None:
        """Part from the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        """True for the one process that writes files and prints."""
        return self.rank == 0

    def total(self, values: Iterable[float], device: torch.device) -> list[float]:
        """The sum of each value over all processes."""
        values = list(values)
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        with _meeting():
            dist.all_reduce(tensor)
        return tensor.tolist()

    def all_reduce_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up everyone's gradients in place, in one message; a missing one counts as zero."""
        if self.size == 1:
            return
        parameters = list(parameters)
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        with _meeting():
            dist.all_reduce(flat)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)

    def share(self, value: Any) -> Any:
        """The first process's value, in every process."""
        if self.size == 1:
            return value
        box = [value]
        with _meeting():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            with _meeting():
                dist.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The first process is through the block before the others enter it."""
        if not self.is_main:
            self.wait()
        yield
        if self.is_main:
            self.wait()


@contextmanager
def _meeting() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # of which torch's own errors are kinds
        raise UntoldError(
            "another process of this run has died or stayed silent for train.timeout_minutes; "
            f"resume from the last checkpoint: {error}"
        ) from error
