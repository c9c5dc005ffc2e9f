"""Distributed training: the processes that torchrun started for one run, or this one alone."""

import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from untold.errors import UntoldError
from untold.training.parallel.peer_watch import PeerWatch

__all__ = ["ProcessGroup"]

_START = "untold/start"  # the key under which the main process names a start of the job
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ProcessGroup:
    """The process group of a run. Only the main process writes files and prints.

    With one process every operation returns at once.
    """

    rank: int = 0
    world_size: int = 1
    watch: PeerWatch | None = None

    @classmethod
    def init(cls, device: str, timeout_minutes: float) -> "ProcessGroup":
        """Initialises the process group; a process that stays silent ends the run in time."""
        if cls.launched_processes() == 1:
            return cls()
        timeout = timedelta(minutes=timeout_minutes)
        backend = "nccl" if device == "cuda" else "gloo"
        with _collective():
            store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
            start = _agree_on_start(store, rank, size, timeout)
            fresh = dist.PrefixStore(start, store)
            dist.init_process_group(
                backend, store=fresh, rank=rank, world_size=size, timeout=timeout
            )
            watch = PeerWatch(rank, size, fresh, timeout.total_seconds())
        return cls(rank, size, watch)

    @staticmethod
    def launched_processes() -> int:
        """Returns the number of processes that torchrun started, before `init`."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @staticmethod
    def local_rank() -> int:
        """Returns the number of this process on its machine, which is the number of its GPU."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def destroy(self) -> None:
        """Destroys the process group; other processes learn if this one is ending with an error."""
        if self.watch is not None:
            self.watch.close(failed=sys.exc_info()[0] is not None)
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
        with self._collective():
            dist.all_reduce(tensor)
        return tensor.tolist()

    def all_reduce_async(self, tensor: Tensor) -> dist.Work:
        """Begins to sum a tensor over all processes in place; `wait` ends it."""
        with self._collective():
            work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        return work

    def wait(self, work: dist.Work) -> None:
        """Waits for something that was begun."""
        with self._collective():
            work.wait()

    def broadcast(self, value: Any) -> Any:
        """Returns the main process's value in every process."""
        if self.world_size == 1:
            return value
        box = [value]
        with self._collective():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def all_gather(self, value: Any) -> list[Any]:
        """Returns the values of all processes, in the order of their ranks."""
        if self.world_size == 1:
            return [value]
        values = [None] * self.world_size
        with self._collective():
            dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Waits until all processes have come here."""
        if self.world_size > 1:
            with self._collective():
                dist.barrier()

    def _collective(self) -> AbstractContextManager[None]:
        return _collective(self.watch)

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
def _collective(watch: PeerWatch | None = None) -> Iterator[None]:
    """Turns the errors of torch.distributed, which are RuntimeErrors, into one clear line."""
    try:
        yield
    except (RuntimeError, TimeoutError) as error:
        if watch is not None and (lost := watch.wait_for_name()):
            raise UntoldError(lost) from error
        raise UntoldError(
            "another process of this run has died or stayed silent for train.timeout_minutes; "
            f"resume from the last checkpoint: {error}"
        ) from error
