"""Sums gradients over all processes in buckets, while the backward pass still computes others.

A bucket is sent as soon as the last of its gradients is final, and buckets are sent in the same
order by all processes. torch's DistributedDataParallel does the same for models that are called
once and differentiated once; here a batch has up to three backward passes, in which a parameter may
take part more than once, and a process may have no batch at all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.distributed import Work

from untold.training.distributed import ProcessGroup

__all__ = ["BUCKET_BYTES", "GradientBuckets", "reached_parameters"]

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
