"""Distributed training: the processes that torchrun started for one run, or this one alone.

Sums gradients over all processes in buckets, while the backward pass still computes others.

A bucket is sent as soon as the last of its gradients is final, and buckets are sent in the same
order by all processes. torch's DistributedDataParallel does the same for models that are called
once and differentiated once; here a batch has up to three backward passes, in which a parameter may
take part more than once, and a process may have no batch at all.

Compiles the layers of a Transformer (torch.compile), where the device can run the result.
"""

import json
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import Work

from untold.errors import UntoldError
from untold.models.layers import FeedForward
from untold.models.transformer import CrossAttention, SelfAttention
from untold.training.peer_watch import PeerWatch

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


BUCKET_BYTES = 25 << 20  # as in DistributedDataParallel


class GradientBuckets:
    """Holds the parameters of a run in buckets; `finish` leaves their summed gradients behind.

    Between two calls of `finish` any number of batches may add gradients. Before the last backward
    passes of the last batch, `announce` is told where these begin. Without it all is sent at the
    end.
    """

    def __init__(
        self,
        processes: ProcessGroup,
        parameters: Iterable[Tensor],
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        self._processes = processes
        # Gradients come in the opposite order of layers, which is about that of parameters.
        learning = [each for each in parameters if each.requires_grad][::-1]
        self._buckets = _fill_buckets(learning, bucket_bytes)
        self._home = {id(p): k for k, bucket in enumerate(self._buckets) for p in bucket}
        self._passes: dict[int, int] | None = None  # those still to come, by parameter
        self._missing: list[int] = []  # gradients that each bucket waits for
        self._sent: list[tuple[Tensor, Work]] = []
        for parameter in learning:
            parameter.register_post_accumulate_grad_hook(self._note)

    @property
    def sent(self) -> int:
        """Counts the buckets that are on their way."""
        return len(self._sent)

    def announce(self, passes: Sequence[Sequence[Tensor]]) -> None:
        """Learns from which tensors each of the last backward passes of this update begins.

        Gradients of parameters that none of them reaches are final now.
        """
        reached = (number for roots in passes for number in reached_parameters(roots))
        self._passes = dict(Counter(number for number in reached if number in self._home))
        waiting = Counter(self._home[number] for number in self._passes)
        self._missing = [waiting[number] for number in range(len(self._buckets))]
        self._send_complete()

    def finish(self) -> None:
        """Sends what was not sent yet and waits until the gradients of all processes are added.

        A parameter that had no gradient in any process has none, as if one process worked alone.
        """
        while self.sent < len(self._buckets):
            self._send()
        for bucket, (flat, work) in zip(self._buckets, self._sent, strict=True):
            self._processes.wait(work)
            counts = flat[-len(bucket) :].tolist()
            for parameter, count in zip(bucket, counts, strict=True):
                if not count:
                    parameter.grad = None
        self._passes, self._missing, self._sent = None, [], []

    def _note(self, parameter: Tensor) -> None:
        """Counts a gradient that a backward pass has added to a parameter."""
        if self._passes is None:  # more batches come
            return
        left = self._passes.get(id(parameter), 0) - 1
        if left < 0:
            raise RuntimeError(
                "a parameter got a gradient after its gradient was sent to other processes: a loss "
                "ran a backward pass that Objective.backward had not announced"
            )
        self._passes[id(parameter)] = left
        if not left:
            self._missing[self._home[id(parameter)]] -= 1
            self._send_complete()

    def _send_complete(self) -> None:
        while self.sent < len(self._buckets) and not self._missing[self.sent]:
            self._send()

    def _send(self) -> None:
        """Sends the next bucket. Its last numbers count the processes that have each gradient."""
        bucket = self._buckets[self.sent]
        with torch.no_grad():
            parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
            counts = parts[0].new_tensor([float(p.grad is not None) for p in bucket])
            flat = torch.cat([*(part.flatten() for part in parts), counts])
            views = flat[: -len(bucket)].split([p.numel() for p in bucket])
            for parameter, view in zip(bucket, views, strict=True):
                parameter.grad = view.view_as(parameter)
        self._sent.append((flat, self._processes.all_reduce_async(flat)))


def _fill_buckets(parameters: Sequence[Tensor], most: int) -> list[list[Tensor]]:
    """Puts neighbours of one type and device together, up to so many bytes."""
    buckets: list[list[Tensor]] = []
    for _, alike in groupby(parameters, key=lambda each: (each.dtype, each.device)):
        size = most + 1
        for parameter in alike:
            size += parameter.nbytes
            if size > most:
                buckets.append([])
                size = parameter.nbytes
            buckets[-1].append(parameter)
    return buckets


def reached_parameters(roots: Sequence[Tensor]) -> set[int]:
    """Finds the parameters, by id, to which a backward pass from these tensors leads."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen, found = set(waiting), set()
    while waiting:
        node = waiting.pop()
        if (variable := getattr(node, "variable", None)) is not None:
            found.add(id(variable))
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
    return found


_LEAST_CAPABILITY = (7, 0)  # of a GPU that Triton, which makes the kernels, can write for


def check_compilation(device: torch.device) -> None:
    """Refuses devices for which no kernels can be made.

    On CPUs the kernels of untold are faster than what torch.compile would write.
    """
    cure = "leave out train.compile"
    if device.type != "cuda":
        raise UntoldError(f"train.compile = true needs a GPU, and this run is on a CPU: {cure}")
    found = torch.cuda.get_device_capability(device)
    if found < _LEAST_CAPABILITY:
        least, has = (".".join(map(str, each)) for each in (_LEAST_CAPABILITY, found))
        raise UntoldError(
            f"train.compile = true needs a GPU of compute capability {least}, not {has}: {cure}"
        )


def compile_layers(model: nn.Module, backend: str = "inductor") -> int:
    """Compiles every attention and feed-forward layer in place, and returns how many there are.

    Batches have all lengths, so shapes are dynamic. Names of parameters stay as they are.
    """
    kinds = (CrossAttention, FeedForward, SelfAttention)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)
    return len(layers)
