"""From rules with features to a plain synchronous grammar: one symbol per set of feature values.

A variable that stands once on the right of a rule hands its values on as a set; one that ties two
constituents together is written out, one production per value. What could never be brought to an
end is gone afterwards, so no sampler ever has to turn back.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from untold.corpus.grammar_notation import Features, Item, Notation, Rule, Slot, Variable, Word

__all__ = ["Draft", "Expansion", "Plain", "Production", "Symbol", "expand_rules", "finish"]

Constraints = tuple[tuple[str, frozenset[str]], ...]
Symbol = tuple[str, Constraints]
Bindings = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Production:
    """One way to rewrite a symbol; neither side ends with fewer than `size` words' room.

    `size` is the larger of its own sides' words plus the sizes of its children.
    """

    children: tuple[int, ...]
    source: tuple[Item, ...]
    target: tuple[Item, ...]
    weight: float
    size: int
    origin: int


@dataclass(frozen=True)
class Plain:
    """Symbols are numbers and 0 is the start; each has a production, and `sizes` the smallest."""

    names: tuple[str, ...]
    productions: tuple[tuple[Production, ...], ...]
    sizes: tuple[int, ...]
    nullable: tuple[bool, ...]  # whether a symbol can have no source word


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
    expander.number((notation.start, ()))
    drafts: list[list[Draft]] = []
    while len(drafts) < len(expander.symbols):  # symbols are added as they are met
        drafts.append(list(expander.rewrite(expander.symbols[len(drafts)])))
    return Expansion(expander.symbols, drafts, _sizes(drafts))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A rule with its variables' values, those of them that tie constituents, and its words."""

    rule: Rule
    bindings: Bindings
    ties: tuple[str, ...]
    own: int


class _Expander:
    def __init__(self, notation: Notation) -> None:
        self.values = notation.features
        self.domains = {name: frozenset(values) for name, values in notation.features.items()}
        self.numbers: dict[Symbol, int] = {}
        self.symbols: list[Symbol] = []
        self.rules: dict[str, list[_Prepared]] = defaultdict(list)
        for rule in notation.rules:
            self.rules[rule.category].append(self._prepare(rule))
        self.fits: dict[tuple[str, str, frozenset[str]], int] = {}

    def number(self, symbol: Symbol) -> int:
        number = self.numbers.setdefault(symbol, len(self.symbols))
        if number == len(self.symbols):
            self.symbols.append(symbol)
        return number

    def rewrite(self, symbol: Symbol) -> Iterator[Draft]:
        """All instances of the rules that fit the symbol, in the order of the file."""
        category, constraints = symbol
        mask = self._fitting(category, constraints)
        for number, prepared in enumerate(self.rules[category]):
            if not mask >> number & 1:
                continue
            rule = prepared.rule
            bound = _unify(rule.features, constraints, prepared.bindings)
            if bound is None or not self._hopeful(rule, bound):
                continue
            for chosen, weight in self._assign(rule, prepared.ties, bound):
                children = tuple(
                    self.number((child.category, self._constrain(child.features, chosen)))
                    for child in rule.children
                )
                yield Draft(rule, number, children, weight, prepared.own)

    def _prepare(self, rule: Rule) -> _Prepared:
        bindings: Bindings = dict(rule.domains)
        uses: dict[str, int] = {}
        for position, features in enumerate([rule.features, *(c.features for c in rule.children)]):
            for name, term in features.items():
                if isinstance(term, Variable):
                    domain = self.domains[name]
                    bindings[term.name] = bindings.get(term.name, domain) & domain
                    uses[term.name] = uses.get(term.name, 0) + (position > 0)
        words = [sum(isinstance(i, Word) for i in side) for side in (rule.source, rule.target)]
        ties = tuple(name for name, count in uses.items() if count > 1)
        return _Prepared(rule, bindings, ties, max(words))

    def _assign(
        self, rule: Rule, ties: tuple[str, ...], bound: Bindings
    ) -> Iterator[tuple[Bindings, float]]:
        """Every choice of one value per tie that leaves each child with a rule of its own."""
        if not ties:
            yield bound, 1.0
            return
        for value, weight in self._weighted(bound[ties[0]]):
            chosen = {**bound, ties[0]: frozenset([value])}
            if self._hopeful(rule, chosen):
                for rest, share in self._assign(rule, ties[1:], chosen):
                    yield rest, weight * share

    def _weighted(self, values: frozenset[str]) -> Iterable[tuple[str, float]]:
        """Values in the order of declaration, whatever the hash seed."""
        for domain in self.values.values():
            if values <= domain.keys():
                return [(value, weight) for value, weight in domain.items() if value in values]
        return []

    def _hopeful(self, rule: Rule, bound: Bindings) -> bool:
        return all(
            self._fitting(child.category, self._constrain(child.features, bound))
            for child in rule.children
        )

    def _constrain(self, features: Features, bound: Bindings) -> Constraints:
        """Only what constrains: a feature that may take all its values is left out."""
        terms = []
        for name in sorted(features):
            term = features[name]
            values = bound[term.name] if isinstance(term, Variable) else term
            if values != self.domains[name]:
                terms.append((name, values))
        return tuple(terms)

    def _fitting(self, category: str, constraints: Constraints) -> int:
        """The rules of a category that contradict no single constraint, as bits."""
        mask = -1
        for name, allowed in constraints:
            key = category, name, allowed
            fit = self.fits.get(key)
            if fit is None:
                fit = self.fits[key] = self._fit(category, name, allowed)
            mask &= fit
        return mask & ((1 << len(self.rules[category])) - 1)

    def _fit(self, category: str, name: str, allowed: frozenset[str]) -> int:
        fit = 0
        for number, prepared in enumerate(self.rules[category]):
            term = prepared.rule.features.get(name)
            values = prepared.bindings[term.name] if isinstance(term, Variable) else term
            if values is None or not values.isdisjoint(allowed):
                fit |= 1 << number
        return fit


def _unify(features: Features, constraints: Constraints, bindings: Bindings) -> Bindings | None:
    """The variables' values under the constraints from above; None where they contradict."""
    bound = bindings
    for name, allowed in constraints:
        term = features.get(name)
        if isinstance(term, Variable):
            values = bound[term.name] & allowed
            if not values:
                return None
            bound = {**bound, term.name: values}
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


def finish(expansion: Expansion) -> Plain:
    """Leave out what never ends, and share each rule's weight among its instances."""
    sizes = expansion.sizes
    kept = [number for number, size in enumerate(sizes) if size is not None]
    numbers = {old: new for new, old in enumerate(kept)}
    breadth = [_breadth(choices) for choices in expansion.drafts]
    productions = []
    for old in kept:
        alive = [draft for draft in expansion.drafts[old] if draft.size(sizes) is not None]
        shares = [draft.weight * prod(breadth[c] for c in draft.children) for draft in alive]
        totals: dict[int, float] = defaultdict(float)
        for draft, share in zip(alive, shares, strict=True):
            totals[draft.number] += share
        productions.append(
            tuple(
                _produce(draft, numbers, sizes, share / totals[draft.number])
                for draft, share in zip(alive, shares, strict=True)
            )
        )
    names = tuple(_show(expansion.symbols[old]) for old in kept)
    ends = tuple(size for size in sizes if size is not None)
    return Plain(names, tuple(productions), ends, _nullable(productions))


def _produce(
    draft: Draft, numbers: dict[int, int], sizes: list[int | None], share: float
) -> Production:
    return Production(
        children=tuple(numbers[child] for child in draft.children),
        source=draft.rule.source,
        target=draft.rule.target,
        weight=draft.rule.weight * share,
        size=draft.size(sizes) or 0,
        origin=draft.rule.origin,
    )


def _breadth(choices: list[Draft]) -> float:
    """How many entries a symbol of the lexicon chooses from; 1 for every other symbol.

    Instances of a rule share its weight in this proportion, so that a word is as likely in a large
    class as in a small one, a rare gender say.
    """
    if any(draft.children for draft in choices):
        return 1.0
    return sum(draft.rule.weight for draft in choices) or 1.0


def _nullable(productions: list[tuple[Production, ...]]) -> tuple[bool, ...]:
    empty = [False] * len(productions)
    while True:
        again = [
            any(
                all(isinstance(i, Slot) and empty[p.children[i.child]] for i in p.source)
                for p in choices
            )
            for choices in productions
        ]
        if again == empty:
            return tuple(empty)
        empty = again


def _show(symbol: Symbol) -> str:
    category, constraints = symbol
    inside = " ".join(f"{name}={','.join(sorted(values))}" for name, values in constraints)
    return f"{category}[{inside}]" if inside else category
