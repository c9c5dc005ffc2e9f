"""From rules with features to a plain synchronous grammar: one symbol per set of feature values.

A variable that stands once on the right of a rule hands its values on as a set; one that ties two
constituents together is written out, one instance per value. What could never be brought to an end
is left out, so no sampler ever has to turn back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from untold.corpus.grammars.index import Bindings, Constraints, Prepared, RuleIndex
from untold.corpus.grammars.notation import Notation, Rule

__all__ = ["Draft", "Expansion", "Symbol", "expand_rules"]

Symbol = tuple[str, Constraints]


class Draft(NamedTuple):
    """An instance of a rule, the `number`th of its category. (A tuple: there are very many.)"""

    rule: Rule
    number: int
    children: tuple[int, ...]
    weight: float
    own: int


@dataclass(frozen=True)
class Expansion:
    """Every symbol the start leads to; one that never ends has no size and is in no draft."""

    symbols: list[Symbol]
    drafts: list[list[Draft]]
    sizes: list[int | None]


def expand_rules(notation: Notation) -> Expansion:
    """Instantiate every rule that the start can reach."""
    expander = _Expander(notation)
    expander.number((notation.start, ()))
    drafts: list[list[Draft]] = []
    while len(drafts) < len(expander.symbols):  # symbols are added as they are met
        drafts.append(list(expander.rewrite(expander.symbols[len(drafts)])))
    sizes = _sizes(drafts)
    alive = [[d for d in c if None not in [sizes[i] for i in d.children]] for c in drafts]
    return Expansion(expander.symbols, alive, sizes)


class _Expander:
    def __init__(self, notation: Notation) -> None:
        self.weights = notation.features
        self.index = RuleIndex(notation)
        self.symbols: list[Symbol] = []
        self.numbers: dict[Symbol, int] = {}
        self.alike: dict[tuple[str, int, Constraints], int] = {}

    def number(self, symbol: Symbol) -> int:
        """The symbol's number; symbols that allow the same rules and hand on the same are one."""
        category, constraints = symbol
        mask, passing = self.index.fitting(category, constraints), self.index.passing
        handed = tuple([c for c in constraints if mask & passing[category, c[0]]])
        number = self.alike.setdefault((category, mask, handed), len(self.symbols))
        if number == len(self.symbols):
            self.symbols.append(symbol)
        self.numbers[symbol] = number
        return number

    def rewrite(self, symbol: Symbol) -> Iterator[Draft]:
        """All instances of the rules that fit the symbol, in the order of the file."""
        category, constraints = symbol
        mask = self.index.fitting(category, constraints)
        while mask:
            number = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            prepared = self.index.rules[category][number]
            if not prepared.children:
                yield Draft(prepared.rule, number, (), 1.0, prepared.own)
                continue
            bound = dict(prepared.bindings)
            for feature, allowed in constraints:
                if feature in prepared.features:
                    bound[prepared.features[feature]] &= allowed
            if all(bound.values()):
                yield from self._instances(prepared, number, bound)

    def _instances(self, prepared: Prepared, number: int, bound: Bindings) -> Iterator[Draft]:
        domains = self.index.domains
        names = [name for name, _ in prepared.ties]
        for values, weight, _ in self._assign(prepared, bound):
            chosen = dict(bound)
            for name, value in zip(names, values, strict=True):
                chosen[name] = frozenset((value,))
            children = []
            for child in prepared.children:
                terms = [(f, chosen[t] if isinstance(t, str) else t) for f, t in child.features]
                # only what constrains: a feature that may take all its values is left out
                symbol = child.category, tuple([t for t in terms if t[1] != domains[t[0]]])
                known = self.numbers.get(symbol)
                children.append(self.number(symbol) if known is None else known)
            yield Draft(prepared.rule, number, tuple(children), weight, prepared.own)

    def _assign(self, prepared: Prepared, bound: Bindings) -> list["_Choice"]:
        """Every choice of one value per tie that leaves each child with a rule of its own."""
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


_Choice = tuple[tuple[str, ...], float, list[int]]  # values, weight, the rules left to each child
_Tie = tuple[list[tuple[str, float]], list[tuple[int, dict[str, int]]]]  # values, and its places


def _choose(found: list[_Choice], ties: list[_Tie]) -> list[_Choice]:
    """Tie by tie, each choice so far with each value that leaves a rule wherever it stands."""
    for options, places in ties:
        longer: list[_Choice] = []
        for values, share, masks in found:
            for value, weight in options:
                left = masks.copy()
                for position, by_value in places:
                    left[position] &= by_value[value]
                if all(left):
                    longer.append(((*values, value), share * weight, left))
        found = longer
    return found


def _sizes(drafts: list[list[Draft]]) -> list[int | None]:
    """The fewest words each symbol can end with; None where it never ends."""
    never = float("inf")
    sizes = [never] * len(drafts)
    parents: list[set[int]] = [set() for _ in drafts]
    for symbol, choices in enumerate(drafts):
        for draft in choices:
            for child in draft.children:
                parents[child].add(symbol)
    waiting = set(range(len(drafts)))
    while waiting:
        changed: set[int] = set()
        for symbol in sorted(waiting, reverse=True):  # children mostly have the higher numbers
            ends = [d.own + sum([sizes[child] for child in d.children]) for d in drafts[symbol]]
            best = min(ends, default=never)
            if best < sizes[symbol]:
                sizes[symbol] = best
                changed |= parents[symbol]
        waiting = changed
    return [None if size == never else int(size) for size in sizes]
