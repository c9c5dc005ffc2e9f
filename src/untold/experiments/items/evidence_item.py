"""The base of all items: a table or figure, what the paper says of it, and how it is made."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

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

    @property
    @abstractmethod
    def trained(self) -> Sequence[System]:
        """Returns the systems that must be trained before it is made."""

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
