"""Expands rules with features into rules without: one symbol for each set of feature values.

A variable that occurs once on the right of a rule passes its values on as a set. A variable that
ties two constituents together is expanded into one instance for each value. Instances that can
never end in words are left out, so a sampler never has to backtrack.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from untold.corpus.grammars.notation import Notation, Rule
from untold.corpus.grammars.rule_index import Bindings, Constraints, PreparedRule, RuleIndex

__all__ = ["Expansion", "RuleInstance", "Symbol", "expand_rules"]

Symbol = tuple[str, Constraints]


class RuleInstance(NamedTuple):
    """Holds one instance of rule `number` of a category.

    It is a tuple and no dataclass because a grammar has very many of them.
    """

    rule: Rule
    number: int
    children: tuple[int, ...]
    weight: float
    own_words: int


@dataclass(frozen=True)
class Expansion:
    """Holds every symbol that the start leads to, with its instances and its smallest size.

    A symbol that never ends in words has size None, and no instance has it as a child.
    """

    symbols: list[Symbol]
    instances: list[list[RuleInstance]]
    sizes: list[int | None]


def expand_rules(notation: Notation) -> Expansion:
    """Instantiates every rule that the start can reach."""
    expander = _Expander(notation)
    expander.number((notation.start, ()))
    instances: list[list[RuleInstance]] = []
    while len(instances) < len(expander.symbols):  # rewrite appends the symbols that it meets
        instances.append(list(expander.rewrite(expander.symbols[len(instances)])))
    sizes = _sizes(instances)
    ending = [
        [each for each in choices if None not in [sizes[child] for child in each.children]]
        for choices in instances
    ]
    return Expansion(expander.symbols, ending, sizes)


class _Expander:
    def __init__(self, notation: Notation) -> None:
        self.weights = notation.features
        self.index = RuleIndex(notation)
        self.symbols: list[Symbol] = []
        self.numbers: dict[Symbol, int] = {}
        self.number_by_use: dict[tuple[str, int, Constraints], int] = {}

    def number(self, symbol: Symbol) -> int:
        """Returns the symbol's number.

        Symbols that allow the same rules and pass on the same constraints share one number.
        """
        category, constraints = symbol
        mask, passing = self.index.fitting(category, constraints), self.index.passing
        passed_on = tuple([c for c in constraints if mask & passing[category, c[0]]])
        number = self.number_by_use.setdefault((category, mask, passed_on), len(self.symbols))
        if number == len(self.symbols):
            self.symbols.append(symbol)
        self.numbers[symbol] = number
        return number

    def rewrite(self, symbol: Symbol) -> Iterator[RuleInstance]:
        """Yields all instances of the rules that fit the symbol, in the order of the file."""
        category, constraints = symbol
        mask = self.index.fitting(category, constraints)
        while mask:
            number = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            prepared = self.index.rules[category][number]
            if not prepared.children:
                yield RuleInstance(prepared.rule, number, (), 1.0, prepared.own_words)
                continue
            bound = dict(prepared.bindings)
            for feature, allowed in constraints:
                if feature in prepared.features:
                    bound[prepared.features[feature]] &= allowed
            if all(bound.values()):
                yield from self._instances(prepared, number, bound)

    def _instances(
        self, prepared: PreparedRule, number: int, bound: Bindings
    ) -> Iterator[RuleInstance]:
        domains = self.index.domains
        names = [name for name, _ in prepared.ties]
        for values, weight, _ in self._assign(prepared, bound):
            chosen = dict(bound)
            for name, value in zip(names, values, strict=True):
                chosen[name] = frozenset((value,))
            children = []
            for child in prepared.children:
                terms = [(f, chosen[t] if isinstance(t, str) else t) for f, t in child.features]
                # A feature that may take all its values constrains nothing and is left out.
                symbol = child.category, tuple([t for t in terms if t[1] != domains[t[0]]])
                known = self.numbers.get(symbol)
                children.append(self.number(symbol) if known is None else known)
            yield RuleInstance(prepared.rule, number, tuple(children), weight, prepared.own_words)

    def _assign(self, prepared: PreparedRule, bound: Bindings) -> list["_Choice"]:
        """Lists the choices of one value for each tie that leave every child at least one rule."""
        masks = []
        for child in prepared.children:
            mask = -1
            for feature, term in child.features:
                values = bound[term] if isinstance(term, str) else term
                mask &= self.index.fits[child.category, feature, values]
            masks.append(mask)
        ties = [
            (
                [(v, w) for v, w in self.weights[feature].items() if v in bound[name]],
                [
                    (position, self.index.by_value[child.category, f])
                    for position, child in enumerate(prepared.children)
                    for f, term in child.features
                    if term == name
                ],
            )
            for name, feature in prepared.ties
        ]
        return _choose([((), 1.0, masks)] if all(masks) else [], ties)


_Choice = tuple[tuple[str, ...], float, list[int]]  # values, weight, rules left to each child
_Tie = tuple[list[tuple[str, float]], list[tuple[int, dict[str, int]]]]  # values, occurrences


def _choose(found: list[_Choice], ties: list[_Tie]) -> list[_Choice]:
    """Extends each choice, tie by tie, by each value that leaves a rule at every occurrence."""
    for options, occurrences in ties:
        longer: list[_Choice] = []
        for values, share, masks in found:
            for value, weight in options:
                left = masks.copy()
                for position, by_value in occurrences:
                    left[position] &= by_value[value]
                if all(left):
                    longer.append(((*values, value), share * weight, left))
        found = longer
    return found


def _sizes(instances: list[list[RuleInstance]]) -> list[int | None]:
    """Returns the fewest words of each symbol; None if it never ends in words."""
    never = float("inf")
    sizes = [never] * len(instances)
    parents: list[set[int]] = [set() for _ in instances]
    for symbol, choices in enumerate(instances):
        for instance in choices:
            for child in instance.children:
                parents[child].add(symbol)
    waiting = set(range(len(instances)))
    while waiting:
        changed: set[int] = set()
        for symbol in sorted(waiting, reverse=True):  # children mostly have higher numbers
            ends = [
                d.own_words + sum([sizes[child] for child in d.children]) for d in instances[symbol]
            ]
            best = min(ends, default=never)
            if best < sizes[symbol]:
                sizes[symbol] = best
                changed |= parents[symbol]
        waiting = changed
    return [None if size == never else int(size) for size in sizes]
