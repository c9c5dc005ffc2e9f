"""The base of all items: a table or figure, what the paper says of it, and how it is made."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from untold.errors import UntoldError
from untold.experiments.evidence_parts import Evidence
from untold.experiments.systems import System
from untold.experiments.workshop import Workshop

__all__ = ["EvidenceItem", "SystemsItem"]


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
        """Returns all systems."""
        return self.systems

    def only(self, names: Collection[str]) -> "EvidenceItem":
        """Returns the item with some of its systems, and the first one, which is the baseline."""
        self.check_names(names)
        first, *others = self.systems
        return replace(self, systems=[first, *(each for each in others if each.name in names)])
