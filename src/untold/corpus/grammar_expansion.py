"""From rules with features to a plain synchronous grammar: one symbol per set of feature values.

A variable that stands once on the right of a rule hands its values on as a set; one that ties two
constituents together is written out, one production per value. What could never be brought to an
end is gone afterwards, so no sampler ever has to turn back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from untold.corpus.grammar_index import Bindings, Child, Constraints, Prepared, RuleIndex
from untold.corpus.grammar_notation import Notation, Rule

__all__ = ["Draft", "Expansion", "Symbol", "expand_rules"]

Symbol = tuple[str, Constraints]
_Uses = list[tuple[int, dict[str, int]]]  # the children that a variable stands in, and their rules


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """An instance of a rule (the `number`th of its category), its children not yet looked into."""

    rule: Rule
    number: int
    children: tuple[int, ...]
    weight: float
    own: int

    def size(self, sizes: list[int | None]) -> int | None:
        """The fewest words it can end with, None as long as a child cannot end."""
        total = self.own
        for child in self.children:
            size = sizes[child]
            if size is None:
                return None
            total += size
        return total


@dataclass(frozen=True)
class Expansion:
    """Every symbol that the start leads to, with its drafts and its size."""

    symbols: list[Symbol]
    drafts: list[list[Draft]]
    sizes: list[int | None]


def expand_rules(notation: Notation) -> Expansion:
    """Instantiate every rule that the start can reach."""
    expander = _Expander(notation)
    expander.number(notation.start, ())
    drafts: list[list[Draft]] = []
    while len(drafts) < len(expander.symbols):  # symbols are added as they are met
        drafts.append(list(expander.rewrite(expander.symbols[len(drafts)])))
    return Expansion(expander.symbols, drafts, _sizes(drafts))


class _Expander:
    def __init__(self, notation: Notation) -> None:
        self.weights = notation.features
        self.index = RuleIndex(notation)
        self.symbols: list[Symbol] = []
        self.numbers: dict[Symbol, int] = {}
        self.alike: dict[tuple[str, int, Constraints], int] = {}

    def number(self, category: str, constraints: Constraints) -> int:
        """The symbol's number; symbols that allow the same rules and hand on the same are one."""
        symbol = category, constraints
        number = self.numbers.get(symbol)
        if number is None:
            mask = self.index.fitting(category, constraints)
            handed = tuple(c for c in constraints if mask & self.index.passing(category, c[0]))
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
            bound = _unify(prepared, constraints)
            if bound is None:
                continue
            masks = [
                self.index.fitting(child.category, self._constrain(child, bound))
                for child in prepared.children
            ]
            if all(masks):
                yield from self._instances(prepared, number, bound, masks)

    def _instances(
        self, prepared: Prepared, number: int, bound: Bindings, masks: list[int]
    ) -> Iterator[Draft]:
        uses = [
            [
                (position, self.index.by_value(child.category, feature))
                for position, child in enumerate(prepared.children)
                for feature, term in child.features
                if term == variable
            ]
            for variable, _ in prepared.ties
        ]
        for values, weight in self._assign(prepared, uses, bound, masks):
            named = {name: frozenset([v]) for (name, _), v in zip(prepared.ties, values, strict=True)}
            chosen = bound | named
            children = tuple(
                [self.number(c.category, self._constrain(c, chosen)) for c in prepared.children]
            )
            yield Draft(prepared.rule, number, children, weight, prepared.own)

    def _assign(
        self, prepared: Prepared, uses: list[_Uses], bound: Bindings, masks: list[int]
    ) -> list[tuple[tuple[str, ...], float]]:
        """Every choice of one value per tie that leaves each child with a rule of its own."""
        found: list[tuple[tuple[str, ...], float, list[int]]] = [((), 1.0, masks)]
        for (name, feature), places in zip(prepared.ties, uses, strict=True):
            values = [(v, w) for v, w in self.weights[feature].items() if v in bound[name]]
            found = [
                ((*before, value), share * weight, rest)
                for before, share, left in found
                for value, weight in values
                if (rest := _narrow(left, places, value)) is not None
            ]
        return [(values, weight) for values, weight, _ in found]

    def _constrain(self, child: Child, bound: Bindings) -> Constraints:
        """Only what constrains: a feature that may take all its values is left out."""
        domains = self.index.domains
        terms = [(f, bound[t] if isinstance(t, str) else t) for f, t in child.features]
        return tuple([term for term in terms if term[1] != domains[term[0]]])


def _narrow(masks: list[int], places: _Uses, value: str) -> list[int] | None:
    """The rules left to each child once a tie has this value; None where a child has none."""
    masks = masks.copy()
    for position, by_value in places:
        masks[position] &= by_value[value]
        if not masks[position]:
            return None
    return masks


def _unify(prepared: Prepared, constraints: Constraints) -> Bindings | None:
    """The variables' values under the constraints from above; None where they contradict."""
    bound = dict(prepared.bindings)
    for name, allowed in constraints:
        variable = prepared.features.get(name)
        if variable is not None:
            bound[variable] &= allowed
            if not bound[variable]:
                return None
    return bound


def _sizes(drafts: list[list[Draft]]) -> list[int | None]:
    """The fewest words each symbol can end with; None where it never ends."""
    sizes: list[int | None] = [None] * len(drafts)
    parents: list[set[int]] = [set() for _ in drafts]
    for symbol, choices in enumerate(drafts):
        for draft in choices:
            for child in draft.children:
                parents[child].add(symbol)
    waiting = set(range(len(drafts)))
    while waiting:
        changed: set[int] = set()
        for symbol in sorted(waiting, reverse=True):  # children mostly have the higher numbers
            found = [size for d in drafts[symbol] if (size := d.size(sizes)) is not None]
            if found and min(found) != sizes[symbol]:
                sizes[symbol] = min(found)
                changed |= parents[symbol]
        waiting = changed
    return sizes
