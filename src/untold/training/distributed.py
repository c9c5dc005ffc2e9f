"""Distributed training: the processes that torchrun started for one run, or this one alone.

A batch has up to three backward passes, in which a parameter may take part more than once, and a
process may have no batch at all. torch's DistributedDataParallel expects one pass through every
parameter in every process, so gradients are added up here, in one flat tensor after the last pass.
"""

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from untold.errors import UntoldError

_PATIENCE = timedelta(minutes=30)  # with a process that stays silent
_START = "untold/start"  # the key under which the main process names a start of the job
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ProcessGroup:
    """The process group of a run. Only the main process writes files and prints.

    With one process every operation returns at once.
    """

    rank: int = 0
    world_size: int = 1

    @classmethod
    def init(cls, device: str) -> "ProcessGroup":
        """Initialises the process group."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        backend = "nccl" if device == "cuda" else "gloo"
        with _collective():
            store, rank, size = next(dist.rendezvous("env://", timeout=_PATIENCE))
            fresh = dist.PrefixStore(_agree_on_start(store, rank, size, _PATIENCE), store)
            dist.init_process_group(
                backend, store=fresh, rank=rank, world_size=size, timeout=_PATIENCE
            )
        return cls(rank, size)

    @staticmethod
    def local_rank() -> int:
        """Returns the number of this process on its machine, which is the number of its GPU."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def destroy(self) -> None:
        """Destroys the process group."""
        if self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        """True for the one process that writes files and prints."""
        return self.rank == 0

    def all_reduce_sum(self, values: Iterable[float], device: torch.device) -> list[float]:
        """Sums each value over all processes."""
        values = list(values)
        if self.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        with _collective():
            dist.all_reduce(tensor)
        return tensor.tolist()

    @torch.no_grad()
    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Adds up the gradients of all processes.

        A parameter that had no gradient in any process has none, as if one process worked alone:
        the last numbers of the flat tensor count the processes that have each gradient.
        """
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        if self.world_size == 1 or not learning:
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        counts = gradients[0].new_tensor([float(p.grad is not None) for p in learning])
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), counts])  # (sum n + p)
        with _collective():
            dist.all_reduce(flat)
        sums = flat[: -len(learning)].split([p.numel() for p in learning])
        for parameter, total, count in zip(
            learning, sums, flat[-len(learning) :].tolist(), strict=True
        ):
            parameter.grad = total.view_as(parameter) if count else None

    def broadcast(self, value: Any) -> Any:
        """Returns the main process's value in every process."""
        if self.world_size == 1:
            return value
        box = [value]
        with _collective():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def barrier(self) -> None:
        """Waits until all processes have come here."""
        if self.world_size > 1:
            with _collective():
                dist.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Lets the main process finish the block before the others enter it."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()


def _agree_on_start(store: dist.Store, rank: int, world_size: int, timeout: timedelta) -> str:
    """Returns a name that all processes of this start of the job share, and no earlier start had.

    torchrun keeps one store for all its restarts. Without a name of their own, restarted processes
    find the addresses of dead ones in it, and wait for these until the timeout. The number of the
    restart is no such name: every machine counts its own.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    if rank == 0:
        return _announce_start(store, world_size, deadline)
    me = secrets.token_hex(8)
    store.set(_member(rank), me)
    while time.monotonic() < deadline:
        start, *members = json.loads(store.get(_START))
        if me in members:  # the main process is one of this start: it has seen this process
            store.set(f"{start}/{_member(rank)}", me)
            return start
        time.sleep(_POLL_SECONDS)
    raise RuntimeError("the main process has not come")


def _announce_start(store: dist.Store, world_size: int, deadline: float) -> str:
    """Names the newest processes of all ranks, as the main process, until each has seen itself."""
    start, members = f"start-{secrets.token_hex(8)}", [_member(k) for k in range(1, world_size)]
    while time.monotonic() < deadline:
        names = [name.decode() for name in store.multi_get(members)]
        store.set(_START, json.dumps([start, *names]))
        if store.check([f"{start}/{member}" for member in members]):
            return start
        time.sleep(_POLL_SECONDS)
    raise RuntimeError("not all processes have come")


def _member(rank: int) -> str:
    return f"untold/member-{rank}"


@contextmanager
def _collective() -> Iterator[None]:
    """Turns the errors of torch.distributed, which are RuntimeErrors, into one clear line."""
    try:
        yield
    except (RuntimeError, TimeoutError) as error:
        raise UntoldError(
            "another process of this run has died or stays silent; resume from the last "
            f"checkpoint: {error}"
        ) from error
