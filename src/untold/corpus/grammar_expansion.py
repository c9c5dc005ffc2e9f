"""From rules with features to a plain synchronous grammar: one symbol per set of feature values.

A variable that stands once on the right of a rule hands its values on as a set; one that ties two
constituents together is written out, one production per value. All choices that could not be
brought to an end are gone afterwards, so no sampler ever has to turn back.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from untold.corpus.grammar_notation import Features, Notation, Rule, Variable, Word
from untold.errors import UntoldError

__all__ = ["Plain", "Production", "expand"]

Symbol = tuple[str, tuple[tuple[str, frozenset[str]], ...]]
Bindings = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Production:
    """One way to rewrite a symbol; `size` bounds the words of either side from its shortest end."""

    children: tuple[int, ...]
    source: tuple[Word | int, ...]
    target: tuple[Word | int, ...]
    weight: float
    size: int
    origin: int


@dataclass(frozen=True)
class Plain:
    """Symbols are numbers; `productions[symbol]` is never empty, and 0 is the start."""

    names: tuple[str, ...]
    productions: tuple[tuple[Production, ...], ...]
    sizes: tuple[int, ...]
    nullable: tuple[bool, ...]  # whether a symbol can have no source word


def expand(notation: Notation) -> Plain:
    """Instantiate every rule that the start can reach and some derivation can finish."""
    _check_categories(notation)
    drafts = _Expansion(notation).run()
    sizes = _sizes([[d for _, d in pairs] for _, pairs in drafts])
    _check_use(notation, drafts, sizes)
    plain = _prune(drafts, sizes)
    _check_cycles(notation, plain)
    return plain


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """An instance of a rule before anything is known about its children."""

    rule: Rule
    children: tuple[int, ...]
    weight: float
    own: int

    def size(self, sizes: list[int | None]) -> int | None:
        total = self.own
        for child in self.children:
            size = sizes[child]
            if size is None:
                return None
            total += size
        return total


class _Expansion:
    def __init__(self, notation: Notation) -> None:
        self.notation = notation
        self.domains = {name: frozenset(values) for name, values in notation.features.items()}
        self.numbers: dict[Symbol, int] = {}
        self.queue: list[Symbol] = []
        self.rules: dict[str, list[tuple[Rule, Bindings, tuple[str, ...], int]]] = defaultdict(list)
        for rule in notation.rules:
            self.rules[rule.category].append((rule, *self._prepare(rule)))

    def run(self) -> list[tuple[Symbol, list[tuple[int, _Draft]]]]:
        self._number((self.notation.start, ()))
        done: list[tuple[Symbol, list[tuple[int, _Draft]]]] = []
        while len(done) < len(self.queue):  # the queue grows as symbols are met
            symbol = self.queue[len(done)]
            done.append((symbol, list(self._rewrite(symbol))))
        return done

    def _prepare(self, rule: Rule) -> tuple[Bindings, tuple[str, ...], int]:
        """Each variable's values, the variables that tie constituents together, and the words."""
        bindings: Bindings = dict(rule.domains)
        uses: dict[str, int] = {}
        for position, features in enumerate([rule.features, *(c.features for c in rule.children)]):
            for name, term in features.items():
                if isinstance(term, Variable):
                    domain = self.domains[name]
                    bindings[term.name] = bindings.get(term.name, domain) & domain
                    uses[term.name] = uses.get(term.name, 0) + (position > 0)
        words = [sum(isinstance(i, Word) for i in side) for side in (rule.source, rule.target)]
        return bindings, tuple(name for name, count in uses.items() if count > 1), max(words)

    def _rewrite(self, symbol: Symbol) -> Iterator[tuple[int, _Draft]]:
        """Drafts with the number of the rule each comes from."""
        category, constraints = symbol
        for number, (rule, bindings, ties, own) in enumerate(self.rules[category]):
            bound = _unify(rule.features, constraints, bindings)
            if bound is None:
                continue
            for values in itertools.product(*(self._ordered(bound[name]) for name in ties)):
                chosen = {**bound, **{n: frozenset([v]) for n, (v, _) in zip(ties, values, strict=True)}}
                share = 1.0
                for _, weight in values:
                    share *= weight
                children = tuple(
                    self._number((c.category, self._normal(c.features, chosen)))
                    for c in rule.children
                )
                yield number, _Draft(rule, children, share, own)

    def _ordered(self, values: frozenset[str]) -> list[tuple[str, float]]:
        """Values with their weights in the order of declaration, whatever the hash seed."""
        for domain in self.notation.features.values():
            if values <= domain.keys():
                return [(value, weight) for value, weight in domain.items() if value in values]
        return []

    def _normal(
        self, features: Features, bound: Bindings
    ) -> tuple[tuple[str, frozenset[str]], ...]:
        """Only what constrains: a feature that may take all its values is left out."""
        terms = []
        for name in sorted(features):
            term = features[name]
            values = bound[term.name] if isinstance(term, Variable) else term
            if values != self.domains[name]:
                terms.append((name, values))
        return tuple(terms)

    def _number(self, symbol: Symbol) -> int:
        number = self.numbers.setdefault(symbol, len(self.queue))
        if number == len(self.queue):
            self.queue.append(symbol)
        return number


def _unify(
    features: Features, constraints: tuple[tuple[str, frozenset[str]], ...], bindings: Bindings
) -> Bindings | None:
    """The variables' values under the constraints from above; None where they contradict."""
    bound = bindings
    for name, allowed in constraints:
        term = features.get(name)
        if isinstance(term, Variable):
            values = bound[term.name] & allowed
            if not values:
                return None
            bound = {**bound, term.name: values}
        elif term is not None and term.isdisjoint(allowed):
            return None
    return bound


def _sizes(drafts: list[list[_Draft]]) -> list[int | None]:
    """The fewest words each symbol can end with; None where it never ends."""
    sizes: list[int | None] = [None] * len(drafts)
    parents: list[set[int]] = [set() for _ in drafts]
    for symbol, choices in enumerate(drafts):
        for draft in choices:
            for child in draft.children:
                parents[child].add(symbol)
    waiting = list(range(len(drafts) - 1, -1, -1))
    while waiting:
        again: set[int] = set()
        for symbol in waiting:
            found = [s for draft in drafts[symbol] if (s := draft.size(sizes)) is not None]
            best = min(found, default=None)
            if best is not None and best != sizes[symbol]:
                sizes[symbol] = best
                again |= parents[symbol]
        waiting = sorted(again, reverse=True)
    return sizes


def _prune(
    drafts: list[tuple[Symbol, list[tuple[int, _Draft]]]], sizes: list[int | None]
) -> Plain:
    """Leave out what never ends, and share each rule's weight among its instances."""
    kept = [number for number, size in enumerate(sizes) if size is not None]
    renumber = {old: new for new, old in enumerate(kept)}
    breadth = [_breadth(pairs, sizes) for _, pairs in drafts]
    productions = []
    for old in kept:
        alive = [(n, d, s) for n, d in drafts[old][1] if (s := d.size(sizes)) is not None]
        shares = [draft.weight * _product(breadth[c] for c in draft.children) for _, draft, _ in alive]
        totals: dict[int, float] = defaultdict(float)
        for (number, _, _), share in zip(alive, shares, strict=True):
            totals[number] += share
        productions.append(tuple(
            Production(
                children=tuple(renumber[child] for child in draft.children),
                source=draft.rule.source,
                target=draft.rule.target,
                weight=draft.rule.weight * share / totals[number],
                size=size,
                origin=draft.rule.origin,
            )
            for (number, draft, size), share in zip(alive, shares, strict=True)
        ))
    names = tuple(_show(drafts[old][0]) for old in kept)
    return Plain(
        names,
        tuple(productions),
        tuple(sizes[old] or 0 for old in kept),
        _nullable(productions),
    )


def _nullable(productions: list[tuple[Production, ...]]) -> tuple[bool, ...]:
    empty = [False] * len(productions)
    while True:
        again = [
            any(
                all(isinstance(item, int) and empty[p.children[item]] for item in p.source)
                for p in choices
            )
            for choices in productions
        ]
        if again == empty:
            return tuple(empty)
        empty = again


def _check_cycles(notation: Notation, plain: Plain) -> None:
    """No symbol comes back to itself without a new source word: derivations are finitely many."""
    steps = [
        sorted({child for p in choices for child in _alone(p, plain.nullable)})
        for choices in plain.productions
    ]
    state = [0] * len(steps)  # 1 while open, 2 when done
    for root in range(len(steps)):
        path = [(root, iter(steps[root]))] if state[root] == 0 else []
        state[root] = state[root] or 1
        while path:
            symbol, rest = path[-1]
            child = next(rest, None)
            if child is None:
                state[symbol] = 2
                path.pop()
            elif state[child] == 1:
                raise UntoldError(
                    f"{notation.where}:{plain.productions[child][0].origin}: {plain.names[child]} leads"
                    " back to itself without a new source word: add a word to the loop or break it"
                )
            elif state[child] == 0:
                state[child] = 1
                path.append((child, iter(steps[child])))


def _alone(production: Production, nullable: tuple[bool, ...]) -> list[int]:
    """The children that can be the whole source side."""
    if any(isinstance(item, Word) for item in production.source):
        return []
    full = [child for child in production.children if not nullable[child]]
    return full if len(full) == 1 else ([] if full else list(production.children))


def _breadth(pairs: list[tuple[int, _Draft]], sizes: list[int | None]) -> float:
    """How many entries a symbol of the lexicon chooses from; 1 for every other symbol.

    Instances of one rule share its weight in this proportion, so that a word is as likely in a
    small class (a rare gender, say) as in a large one.
    """
    if any(draft.children for _, draft in pairs):
        return 1.0
    return sum(draft.rule.weight for _, draft in pairs) or 1.0


def _product(numbers: Iterator[float]) -> float:
    result = 1.0
    for number in numbers:
        result *= number
    return result


def _show(symbol: Symbol) -> str:
    category, constraints = symbol
    inside = " ".join(f"{name}={','.join(sorted(values))}" for name, values in constraints)
    return f"{category}[{inside}]" if inside else category


def _check_categories(notation: Notation) -> None:
    """Every constituent has rules, and every feature asked of it is a feature of some of them."""
    known: dict[str, set[str]] = defaultdict(set)
    for rule in notation.rules:
        known[rule.category] |= rule.features.keys()
    if notation.start not in known:
        raise UntoldError(f"{notation.where}:1: start {notation.start} has no rule: write one")
    for rule in notation.rules:
        for child in rule.children:
            where = f"{notation.where}:{rule.origin}"
            if child.category not in known:
                raise UntoldError(f"{where}: {child.category} has no rule: write one or rename it")
            if odd := sorted(child.features.keys() - known[child.category]):
                raise UntoldError(
                    f"{where}: no rule of {child.category} has the feature {odd[0]}:"
                    " give it to its left sides or do not ask for it"
                )


def _check_use(
    notation: Notation,
    drafts: list[tuple[Symbol, list[tuple[int, _Draft]]]],
    sizes: list[int | None],
) -> None:
    """Every category ends, and every rule and every row of the lexicon has a use."""
    reached = {symbol[0] for symbol, _ in drafts}
    finished = {symbol[0] for (symbol, _), size in zip(drafts, sizes, strict=True) if size is not None}
    used = {d.rule.origin for _, pairs in drafts for _, d in pairs if d.size(sizes) is not None}
    for rule in notation.rules:
        where = f"{notation.where}:{rule.origin}"
        if rule.category not in reached:
            raise UntoldError(f"{where}: {notation.start} never leads to {rule.category}: remove it")
        if rule.category not in finished:
            raise UntoldError(
                f"{where}: {rule.category} never ends in words: give it a rule that does not lead"
                " back to itself, with features that can be met"
            )
        if rule.origin not in used:
            raise UntoldError(
                f"{where}: this {rule.category} can never be used: nothing asks for its features"
                " or a constituent cannot meet them"
            )
