"""What a grammar file says, as values: features, rules and header. See docs/grammars.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Features", "Item", "Notation", "Reference", "Rule", "Slot", "Term", "Variable", "Word"]


@dataclass(frozen=True, slots=True)
class Word:
    """A terminal; words of the two sides of a rule that share a tag are aligned."""

    text: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a rule's child on one side; its words on that side all take the tags."""

    child: int
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Variable:
    """A value that is the same wherever its name stands in a rule; one of `values`, if given."""

    name: str
    values: frozenset[str] | None = None


Item = Word | Slot
Term = Variable | frozenset[str]
Features = Mapping[str, Term]


@dataclass(frozen=True)
class Reference:
    """A constituent on the right: the same on both sides, with all its features."""

    category: str
    features: Features


@dataclass(frozen=True)
class Rule:
    """category -> source || target, with one slot for each child on both sides.

    `origin` is the line that wrote it: the rule's own, or the lexicon's row. `domains` narrows
    variables.
    """

    category: str
    features: Features
    children: tuple[Reference, ...]
    source: tuple[Item, ...]
    target: tuple[Item, ...]
    weight: float
    origin: int
    domains: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Notation:
    """A grammar file as it stands. Features keep the order in which their values are declared."""

    where: str
    languages: tuple[str, str]
    start: str
    length: tuple[int, int]
    capitalize: tuple[str, ...]
    absorb: Mapping[str, Mapping[str, frozenset[str]]]
    features: Mapping[str, Mapping[str, float]]
    rules: tuple[Rule, ...]
    entries: int
