"""Defines the values that a grammar file is read into. docs/grammars.md explains the notation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "Constituent",
    "Features",
    "Item",
    "Notation",
    "Rule",
    "Slot",
    "Term",
    "Variable",
    "Word",
]


@dataclass(frozen=True, slots=True)
class Word:
    """Holds a terminal; words on the two sides of a rule that share a tag are aligned."""

    text: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """Marks the place of a rule's child on one side; all the child's words there take the tags."""

    child: int
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Variable:
    """Stands for one value wherever its name occurs in a rule; `values` restricts it, if given."""

    name: str
    values: frozenset[str] | None = None


Item = Word | Slot
Term = Variable | frozenset[str]
Features = Mapping[str, Term]


@dataclass(frozen=True)
class Constituent:
    """Names a category on the right of a rule, with the features that both sides ask of it."""

    category: str
    features: Features


@dataclass(frozen=True)
class Rule:
    """Rewrites a category: category -> source || target, with a slot for each child on both sides.

    `origin` is the line in the file that the rule comes from: its own, or a row of the lexicon.
    `domains` restricts the values of variables.
    """

    category: str
    features: Features
    children: tuple[Constituent, ...]
    source: tuple[Item, ...]
    target: tuple[Item, ...]
    weight: float
    origin: int
    domains: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Notation:
    """Holds a whole grammar file. Features keep the order in which their values are declared."""

    where: str
    languages: tuple[str, str]
    start: str
    length: tuple[int, int]
    capitalize: tuple[str, ...]
    absorb: Mapping[str, Mapping[str, frozenset[str]]]
    features: Mapping[str, Mapping[str, float]]
    rules: tuple[Rule, ...]
    entries: int
