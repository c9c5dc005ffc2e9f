"""Registries: named parts that untold ships and that other packages add through entry points.

A package adds a part by naming it in its own pyproject.toml, under the registry's group:

    [project.entry-points."untold.backbones"]
    mine = "my_package.my_module:MyBackbone"

Parts are imported when they are first asked for, so that a registry costs nothing until then.

The registry of metrics: evaluation, comparison, rewards and validation look them up here.

It stands below the configuration, which checks the names of rewards. A metric is a class;
metrics/base.py says what it must have.
"""

import difflib
import importlib
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from untold.errors import UntoldError, shorten

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Maps names to parts. Each part is written as `module:attribute` and imported on demand."""

    def __init__(self, what: str, group: str, shipped: Mapping[str, str]) -> None:
        """`what` names one part in errors; `group` is the entry-point group that adds parts."""
        self.what = what
        self.group = group
        self._shipped = dict(shipped)
        self._found: dict[str, Part] = {}

    @property
    def shipped(self) -> tuple[str, ...]:
        """Lists the names of the parts that come with untold."""
        return tuple(self._shipped)

    @property
    def names(self) -> tuple[str, ...]:
        """Lists every known name, the shipped ones first."""
        return (*self._shipped, *(name for name in self._entry_points if name not in self._shipped))

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._entry_points

    def __getitem__(self, name: str) -> Part:
        if name not in self._found:
            self._found[name] = self._load(name)
        return self._found[name]

    def add(self, name: str, part: Part) -> None:
        """Registers a part from Python, for notebooks and tests."""
        if name in self._shipped:
            raise UntoldError(f"{self.what} {name} is shipped with untold: choose another name")
        self._found[name] = part
        self._entry_points[name] = EntryPoint(name, "", self.group)

    def remove(self, name: str) -> None:
        """Forgets a part that `add` registered."""
        self._found.pop(name, None)
        self._entry_points.pop(name, None)

    def unknown(self, name: object) -> str:
        """Says that a name is unknown and which ones are known."""
        close = difflib.get_close_matches(str(name), self.names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown {self.what} {shorten(name)}{hint}; known: {', '.join(self.names)}"

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=self.group)}

    def _load(self, name: str) -> Any:
        if name in self._shipped:
            module, _, attribute = self._shipped[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if name not in self._entry_points:
            raise UntoldError(self.unknown(name))
        try:
            return self._entry_points[name].load()
        except (ImportError, AttributeError) as error:
            place = self._entry_points[name].value
            raise UntoldError(
                f"{self.what} {name}: the entry point {place} cannot be loaded: {error}; install "
                "the package that it belongs to, or remove it"
            ) from error


METRICS: Registry[Any] = Registry(
    "metric",
    "untold.metrics",
    {
        "bleu": "untold.metrics.text_metrics:Bleu",
        "gleu": "untold.metrics.text_metrics:Gleu",
        "chrf": "untold.metrics.text_metrics:Chrf",
        "ter": "untold.metrics.text_metrics:Ter",
        "rouge": "untold.metrics.text_metrics:Rouge",
        "cdr": "untold.metrics.cdr:Cdr",
        "multi-bleu": "untold.metrics.text_metrics:MultiBleu",
    },
)


def metric_has(name: str, method: str) -> bool:
    """Says if a metric of this name exists and has a method, such as `sentence_scores`."""
    return name in METRICS and hasattr(METRICS[name], method)


def metrics_with(method: str) -> tuple[str, ...]:
    """Lists the metrics that have a method."""
    return tuple(name for name in METRICS.names if metric_has(name, method))
