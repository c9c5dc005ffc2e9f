"""What one update did, and the sums of it between two log lines."""

import math
from dataclasses import dataclass

import torch

from untold.training.distributed import ProcessGroup

__all__ = ["Meter", "Update"]


@dataclass(frozen=True)
class Update:
    """One update. `norm`, `tokens` and `stop` are of all processes, the rest of this one."""

    norm: float  # of the gradient, before it is clipped
    tokens: int
    parts: dict[str, float]
    stop: bool
    suspects: tuple[int, ...] = ()  # places in the update of batches whose loss is not finite

    @property
    def is_finite(self) -> bool:
        """False: the gradient holds NaN or infinity, and the weights were left as they were."""
        return math.isfinite(self.norm)


class Meter:
    """Sums since the last log line; updates that were skipped count only as time and tokens."""

    def __init__(self, world: ProcessGroup, device: torch.device, names: tuple[str, ...]) -> None:
        """`names`: the figures of the objective."""
        self._world, self._device, self._names = world, device, names
        self._clear()

    def add(self, update: Update, seconds: float) -> None:
        """Count one update."""
        self._all_tokens += update.tokens
        self._seconds += seconds
        self._norm = update.norm
        if update.is_finite:
            self._tokens += update.tokens
            for name, value in update.parts.items():
                self._parts[name] += value

    def figures(self) -> dict[str, float | int | None]:
        """Means per target token, and the speed, since the last call."""
        sums = self._world.total([self._parts[name] for name in self._names], self._device)
        figures: dict[str, float | int | None] = {
            name: value / self._tokens if self._tokens else None
            for name, value in zip(self._names, sums, strict=True)
        }
        speed = round(self._all_tokens / self._seconds)
        figures |= {"norm": self._norm, "tokens_per_second": speed}
        self._clear()
        return figures

    def _clear(self) -> None:
        self._tokens, self._all_tokens, self._seconds, self._norm = 0, 0, 0.0, 0.0
        self._parts = dict.fromkeys(self._names, 0.0)
