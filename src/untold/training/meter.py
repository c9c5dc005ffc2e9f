"""The result of one update, and the sums of such results between two log lines."""

import math
from dataclasses import dataclass

import torch

from untold.training.distributed import ProcessGroup
from untold.training.progress import UnloggedSums

__all__ = ["Meter", "Update"]


@dataclass(frozen=True)
class Update:
    """The result of an update. `norm`, `tokens` and `stop` are those of all processes together."""

    norm: float  # of the gradient, before it is clipped
    tokens: int
    parts: dict[str, float]
    stop: bool
    suspects: tuple[int, ...] = ()  # the batches of the update whose loss is not finite
    own_tokens: int = 0  # of this process: those that `parts` are sums over


class Meter:
    """Adds up figures since the last log line; skipped updates count only as time and tokens."""

    def __init__(
        self,
        processes: ProcessGroup,
        device: torch.device,
        names: tuple[str, ...],
        unlogged: UnloggedSums | None = None,
    ) -> None:
        """`names` are the columns of the objective, `unlogged` the sums of a stopped run."""
        self._processes, self._device, self._names = processes, device, names
        self._clear()
        if unlogged is not None and unlogged.parts.keys() == set(names):
            self._restore(unlogged)  # other columns have no sums over these updates

    def add(self, update: Update, seconds: float) -> None:
        """Counts one update."""
        self._all_tokens += update.tokens
        self._seconds += seconds
        self._norm = update.norm
        if math.isfinite(update.norm):
            self._tokens += update.tokens
            self._own_tokens += update.own_tokens
            for name, value in update.parts.items():
                self._parts[name] += value

    def figures(self) -> dict[str, float | int | None]:
        """Returns the means per target token, and the speed, since the last call."""
        sums = self._processes.all_reduce_sum(
            [self._parts[name] for name in self._names], self._device
        )
        figures = self._means(sums)
        self._clear()
        return figures

    def peek(self) -> dict[str, float | int | None]:
        """Returns the figures so far without a new beginning, as this process alone knows them."""
        scale = self._tokens / self._own_tokens if self._own_tokens else 0.0
        return self._means([self._parts[name] * scale for name in self._names])

    def _means(self, sums: list[float]) -> dict[str, float | int | None]:
        figures: dict[str, float | int | None] = {
            name: value / self._tokens if self._tokens else None
            for name, value in zip(self._names, sums, strict=True)
        }
        speed = round(self._all_tokens / self._seconds)
        return figures | {"norm": self._norm, "tokens_per_second": speed}

    def unlogged(self) -> UnloggedSums:
        """Returns the sums since the last log line; all processes must call it together."""
        size, rank = self._processes.world_size, self._processes.rank
        own = [self._parts[name] if k == rank else 0.0 for name in self._names for k in range(size)]
        sums = self._processes.all_reduce_sum(own, self._device)
        parts = {name: sums[k * size : (k + 1) * size] for k, name in enumerate(self._names)}
        return UnloggedSums(self._tokens, self._all_tokens, self._seconds, parts)

    def _restore(self, unlogged: UnloggedSums) -> None:
        """Takes over the sums of this process, and of others if there are fewer processes now."""
        self._tokens, self._all_tokens = unlogged.tokens, unlogged.all_tokens
        self._seconds = unlogged.seconds
        self._own_tokens = self._tokens // self._processes.world_size
        for name, sums in unlogged.parts.items():
            self._parts[name] = sum(sums[self._processes.rank :: self._processes.world_size])

    def _clear(self) -> None:
        self._tokens, self._all_tokens, self._seconds, self._norm = 0, 0, 0.0, 0.0
        self._own_tokens = 0
        self._parts = dict.fromkeys(self._names, 0.0)
