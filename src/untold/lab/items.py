"""An item of the paper's evidence, a table or a figure, and what it comes to: tables and notes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import ClassVar

from untold.errors import UntoldError
from untold.lab.runner import Workshop
from untold.lab.systems import System


@dataclass(frozen=True)
class EvidenceTable:
    """A table of texts; the first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A figure that can be drawn as png or svg."""

    name: str
    title: str
    draw: Callable[[str], bytes]  # from "png" or "svg"


@dataclass(frozen=True)
class Evidence:
    """The tables and figures of one item, with notes: signatures, numbers of sentences, seeds."""

    name: str
    title: str
    claim: str  # what the paper says
    tables: Sequence[EvidenceTable]
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, object] = field(default_factory=dict)  # what was measured, for programs
    files: Mapping[str, bytes] = field(default_factory=dict)  # others, by their path in the report
    command: str = ""  # that makes it


def over_seeds(values: Sequence[float | None], places: int = 2) -> str:
    """Formats the mean of the seeds, with the standard deviation where there are several."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return ""
    mean = number(fmean(known), places)
    return mean if len(known) == 1 else f"{mean} ± {number(stdev(known), places)}"


def number(value: float | None, digits: int = 2) -> str:
    """Formats a figure of a table; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True)
class EvidenceItem(ABC):
    """One item of the paper's evidence."""

    name: str  # that a user types
    title: str
    claim: str  # what the paper says
    one_seed: ClassVar[bool] = False  # whether it looks at the first training of a system alone

    @property
    @abstractmethod
    def trained(self) -> Sequence[System]:
        """Returns the systems that must be trained before it is made."""

    def only(self, names: Collection[str]) -> "EvidenceItem":
        """Returns the item with some of its systems alone; by default it has no choice."""
        raise UntoldError(
            f"--systems {','.join(names)}: {self.name} needs all its systems: leave out --systems"
        )

    def of_sentences(self, lines: Sequence[int]) -> "EvidenceItem":
        """Returns the item with these sentences of the first test set; most items show none."""
        raise UntoldError(
            f"--sentences {','.join(map(str, lines))} has no effect on {self.name}: leave it out"
        )

    def check_names(self, names: Collection[str]) -> None:
        """Raises an error if it has no system of a name."""
        known = [system.name for system in self.trained]
        if unknown := [name for name in names if name not in known]:
            raise UntoldError(
                f"--systems {unknown[0]}: {self.name} has no such system; it has {', '.join(known)}"
            )

    def prepare(self, workshop: Workshop) -> Workshop:
        """Returns the workshop in which it is made; some items change the training text."""
        return workshop

    @abstractmethod
    def make(self, workshop: Workshop) -> Evidence:
        """Translates and measures with trained systems."""


@dataclass(frozen=True)
class SystemsItem(EvidenceItem):
    """An item that is made of some systems."""

    systems: Sequence[System]

    @property
    def trained(self) -> Sequence[System]:
        return self.systems

    def only(self, names: Collection[str]) -> "EvidenceItem":
        """Returns the item with some of its systems, and the first one, which is the baseline."""
        self.check_names(names)
        first, *others = self.systems
        return replace(self, systems=[first, *(each for each in others if each.name in names)])
