"""Results of `untold reproduce` as they were written: one folder for each corpus and scale."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.errors import UntoldError
from untold.experiments.items.item_registry import ITEMS
from untold.experiments.systems import SYSTEMS

__all__ = ["ResultSet", "SystemTest", "read_result_set"]


@dataclass(frozen=True)
class SystemTest:
    """The difference of two systems, with the p-values of both tests over sentences."""

    difference: float
    p_bootstrap: float
    p_randomisation: float
    by_seed: tuple[float, ...]  # of the seeds that both have

    @property
    def is_better(self) -> bool:
        """Says whether the difference is positive and above chance by both tests."""
        return self.difference > 0 and max(self.p_bootstrap, self.p_randomisation) < 0.05

    @property
    def is_worse(self) -> bool:
        """Says whether the difference is negative and above chance by both tests."""
        return self.difference < 0 and max(self.p_bootstrap, self.p_randomisation) < 0.05

    def __str__(self) -> str:
        seeds = ", ".join(f"{value:+.2f}" for value in self.by_seed)
        return (
            f"{self.difference:+.2f} BLEU (p = {self.p_bootstrap:.3f} and "
            f"{self.p_randomisation:.3f}; by seed {seeds})"
        )


@dataclass(frozen=True)
class ResultSet:
    """The items that were made of one corpus, by name."""

    name: str
    items: Mapping[str, Mapping[str, Any]]

    def figures(self, item: str) -> Mapping[str, Any] | None:
        """Returns what an item measured; None if it was not made."""
        record = self.items.get(item)
        return None if record is None else record["figures"]

    def measured(self, item: str, system: str) -> Any | None:
        """Returns what an item measured of a system, mostly a value for each seed."""
        figures = self.figures(item)
        return None if figures is None else figures.get(SYSTEMS[system].title)

    def test(self, item: str, system: str, against: str) -> SystemTest | None:
        """Finds the test of two systems; `ours, penalty by past` is one with a way of searching."""
        figures = self.figures(item)
        if figures is None:
            return None
        names = _title(system), _title(against)
        for found in figures["tests"]:
            if (found["system"], found["against"]) == names:
                after, before = (figures["systems"][name]["bleu"] for name in names)
                by_seed = tuple(x - y for x, y in zip(after, before, strict=False))
                keys = "difference", "p_bootstrap", "p_randomisation"
                return SystemTest(**{key: found[key] for key in keys}, by_seed=by_seed)
        return None


def _title(name: str) -> str:
    system, comma, search = name.partition(", ")
    return SYSTEMS[system].title + comma + search


def read_result_set(folder: Path, name: str | None = None) -> ResultSet:
    """Reads the results of a folder; other files in it do not matter."""
    items = {}
    for item in ITEMS:
        path = folder / f"{item}.json"
        if path.exists():
            try:
                items[item] = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise UntoldError(f"{path}: no result ({error}): make it again") from None
    return ResultSet(name or folder.name, items)
