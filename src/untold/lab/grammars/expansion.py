"""Turns rules with features into a plain grammar: one symbol for each set of feature values.

A variable that occurs once on the right of a rule passes its values on as a set. A variable that
ties two constituents together is expanded into one instance for each value. Instances that can
never end in words are left out, so a sampler never has to backtrack. Sets of rules are the bits of
integers. Mistakes of a grammar are found before anyone samples from it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from math import inf, prod
from typing import NamedTuple

from untold.lab.grammars.notation import Notation
from untold.lab.grammars.rules import Item, Place, Rule, Slot, Variable, Word

Constraints = tuple[tuple[str, frozenset[str]], ...]
Bindings = dict[str, frozenset[str]]


# A category, and for each of its features a set of values or the name of a variable.
PreparedConstituent = tuple[str, tuple[tuple[str, frozenset[str] | str], ...]]


@dataclass(frozen=True, slots=True)
class PreparedRule:
    """Holds a rule with its variables resolved.

    `bindings` maps each variable to the values it may take. `ties` lists the variables that occur
    in two or more constituents. `own_words` counts the words of the rule's longer side.
    """

    rule: Rule
    features: dict[str, str]  # feature of the left side -> the variable that it has as its value
    bindings: Bindings
    ties: tuple[tuple[str, str], ...]  # (variable, the feature it takes values and weights from)
    children: tuple[PreparedConstituent, ...]
    own_words: int


class RuleIndex:
    """Finds the rules of a category by feature values. Each entry is a set of rules as bits.

    `by_value[category, feature][value]` are the rules that can have the value,
    `fits(category, feature, values)` those that can have one of the values, and
    `passing[category, feature]` those that pass the feature on to a constituent.
    """

    def __init__(self, notation: Notation) -> None:
        self.domains = {name: frozenset(values) for name, values in notation.features.items()}
        self.rules: dict[str, list[PreparedRule]] = defaultdict(list)
        for rule in notation.rules:
            self.rules[rule.category].append(self._prepare(rule))
        self.by_value: dict[tuple[str, str], dict[str, int]] = {}
        self.passing: dict[tuple[str, str], int] = {}
        for category, rules in self.rules.items():
            for feature, domain in self.domains.items():
                self._index(category, feature, domain, rules)
        self.fits = cache(self._fits)

    def fitting(self, category: str, constraints: Constraints) -> int:
        """Returns the rules of the category that meet each constraint by itself."""
        mask = (1 << len(self.rules[category])) - 1
        for name, allowed in constraints:
            mask &= self.fits(category, name, allowed)
        return mask

    def _fits(self, category: str, feature: str, allowed: frozenset[str]) -> int:
        masks, fit = self.by_value[category, feature], 0
        for value in allowed:
            fit |= masks[value]
        return fit

    def _index(
        self, category: str, feature: str, domain: frozenset[str], rules: list[PreparedRule]
    ) -> None:
        masks = dict.fromkeys(domain, 0)
        passing = 0
        for number, prepared in enumerate(rules):
            term = prepared.rule.features.get(feature, domain)
            if isinstance(term, Variable):
                passing |= 1 << number
                term = prepared.bindings[term.name]
            for value in term:
                masks[value] |= 1 << number
        self.by_value[category, feature] = masks
        self.passing[category, feature] = passing

    def _prepare(self, rule: Rule) -> PreparedRule:
        bindings: Bindings = dict(rule.domains)
        uses: dict[str, int] = {}
        named: dict[str, str] = {}
        for position, features in enumerate([rule.features, *(c.features for c in rule.children)]):
            for name, term in features.items():
                if isinstance(term, Variable):
                    domain = self.domains[name] & (term.values or self.domains[name])
                    bindings[term.name] = bindings.get(term.name, domain) & domain
                    uses[term.name] = uses.get(term.name, 0) + (position > 0)
                    named.setdefault(term.name, name)
        children = [
            [(n, t.name if isinstance(t, Variable) else t) for n, t in sorted(c.features.items())]
            for c in rule.children
        ]
        words = [sum(isinstance(item, Word) for item in s) for s in (rule.source, rule.target)]
        return PreparedRule(
            rule=rule,
            features={n: t.name for n, t in rule.features.items() if isinstance(t, Variable)},
            bindings=bindings,
            ties=tuple((name, named[name]) for name, count in uses.items() if count > 1),
            children=tuple(
                (c.category, tuple(terms)) for c, terms in zip(rule.children, children, strict=True)
            ),
            own_words=max(words),
        )


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
            for category, features in prepared.children:
                terms = [(f, chosen[t] if isinstance(t, str) else t) for f, t in features]
                # A feature that may take all its values constrains nothing and is left out.
                symbol = category, tuple([t for t in terms if t[1] != domains[t[0]]])
                known = self.numbers.get(symbol)
                children.append(self.number(symbol) if known is None else known)
            yield RuleInstance(prepared.rule, number, tuple(children), weight, prepared.own_words)

    def _assign(self, prepared: PreparedRule, bound: Bindings) -> list["_Choice"]:
        """Lists the choices of one value for each tie that leave every child at least one rule."""
        masks = []
        for category, features in prepared.children:
            mask = -1
            for feature, term in features:
                values = bound[term] if isinstance(term, str) else term
                mask &= self.index.fits(category, feature, values)
            masks.append(mask)
        ties = [
            (
                [(v, w) for v, w in self.weights[feature].items() if v in bound[name]],
                [
                    (position, self.index.by_value[category, f])
                    for position, (category, features) in enumerate(prepared.children)
                    for f, term in features
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
    sizes = [inf] * len(instances)
    before: list[float] = []
    while before != sizes:
        before = sizes.copy()
        for symbol in reversed(range(len(sizes))):  # children mostly have higher numbers
            ends = [
                choice.own_words + sum([sizes[child] for child in choice.children])
                for choice in instances[symbol]
            ]
            sizes[symbol] = min(ends, default=inf)
    return [None if size == inf else int(size) for size in sizes]


class Production(NamedTuple):
    """Holds one way to rewrite a symbol.

    `size` bounds the words of both sides of its shortest derivation: it adds the words of its own
    longer side to the sizes of its children. It is a tuple and no dataclass because a grammar has
    very many of them.
    """

    children: tuple[int, ...]
    source: tuple[Item, ...]
    target: tuple[Item, ...]
    weight: float
    size: int
    origin: int


@dataclass(frozen=True)
class PlainGrammar:
    """Numbers the symbols from the start symbol 0; each has at least one production.

    `sizes` holds the size of each symbol's smallest production.
    """

    symbols: tuple[Symbol, ...]  # category and features behind each number
    productions: tuple[tuple[Production, ...], ...]
    sizes: tuple[int, ...]
    nullable: tuple[bool, ...]  # True if a symbol can have no source word


def build_plain_grammar(expansion: Expansion) -> PlainGrammar:
    """Numbers the symbols that end in words, and divides each rule's weight among its instances."""
    kept = {old: size for old, size in enumerate(expansion.sizes) if size is not None}
    numbers = {old: new for new, old in enumerate(kept)}
    fits = _fit_probabilities(expansion)
    productions = []
    for old in kept:
        instances = expansion.instances[old]
        shares = [
            instance.weight * prod([fits[c] for c in instance.children]) for instance in instances
        ]
        totals: dict[int, float] = defaultdict(float)
        for instance, share in zip(instances, shares, strict=True):
            totals[instance.number] += share
        choices = [
            Production(
                children=tuple([numbers[child] for child in instance.children]),
                source=instance.rule.source,
                target=instance.rule.target,
                weight=instance.rule.weight * share / totals[instance.number],
                size=instance.own_words + sum([kept[child] for child in instance.children]),
                origin=instance.rule.origin,
            )
            for instance, share in zip(instances, shares, strict=True)
        ]
        productions.append(tuple(choices))
    symbols = tuple(expansion.symbols[old] for old in kept)
    return PlainGrammar(symbols, tuple(productions), tuple(kept.values()), _nullable(productions))


def _fit_probabilities(expansion: Expansion) -> list[float]:
    """Returns for each symbol the probability that a free choice in its category has its features.

    Instances of a rule divide its weight in this proportion. A word is therefore as likely in a
    large class as in a small one, such as a rare gender. The probability is 1 for a category that
    leads to a category that may contain itself: it has derivations enough for any features.
    """
    finite = _finite_categories(expansion)
    totals: dict[str, float] = defaultdict(float)
    for rule in {id(d.rule): d.rule for choices in expansion.instances for d in choices}.values():
        totals[rule.category] += rule.weight

    @cache
    def fit(symbol: int) -> float:
        category, _ = expansion.symbols[symbol]
        if category not in finite:
            return 1.0
        return sum(
            instance.rule.weight * instance.weight * prod(fit(child) for child in instance.children)
            for instance in expansion.instances[symbol]
        ) / (totals[category] or 1.0)

    return [fit(symbol) for symbol in range(len(expansion.symbols))]


def _finite_categories(expansion: Expansion) -> set[str]:
    """Returns the categories that lead to no category that can contain itself."""
    below: dict[str, set[str]] = defaultdict(set)
    for (category, _), choices in zip(expansion.symbols, expansion.instances, strict=True):
        below[category] |= {expansion.symbols[child][0] for d in choices for child in d.children}
    finite: set[str] = set()
    while more := {c for c, inside in below.items() if c not in finite and inside <= finite}:
        finite |= more
    return finite


def _nullable(productions: list[tuple[Production, ...]]) -> tuple[bool, ...]:
    empty, before = [False] * len(productions), None
    while before != empty:
        before = empty
        empty = [
            any(
                all(isinstance(i, Slot) and before[p.children[i.child]] for i in p.source)
                for p in choices
            )
            for choices in productions
        ]
    return tuple(empty)


def expand(notation: Notation) -> PlainGrammar:
    """Checks the rules of a file and turns them into a plain grammar.

    Every rule can be reached from the start, can end in words, and is used.
    """
    _check_categories(notation)
    expansion = expand_rules(notation)
    _check_use(notation, expansion)
    plain = build_plain_grammar(expansion)
    _check_loops(notation, plain)
    if plain.sizes[0] > notation.length[1]:
        raise Place(notation.where, 1).error(
            f"the shortest sentence has {plain.sizes[0]} words, length allows {notation.length[1]}:"
            " raise it"
        )
    return plain


def _check_categories(notation: Notation) -> None:
    """Checks that every constituent has rules, and that some rule has each feature it needs."""
    known: dict[str, set[str]] = defaultdict(set)
    for rule in notation.rules:
        known[rule.category] |= rule.features.keys()
    if notation.start not in known:
        raise Place(notation.where, 1).error(f"start {notation.start} has no rule: write one")
    for rule in notation.rules:
        place = Place(notation.where, rule.origin)
        for child in rule.children:
            if child.category not in known:
                raise place.error(f"{child.category} has no rule: write one or mend the name")
            if odd := sorted(child.features.keys() - known[child.category]):
                raise place.error(
                    f"no rule of {child.category} has the feature {odd[0]}: give it to their left"
                    " sides or do not ask for it"
                )


def _check_use(notation: Notation, expansion: Expansion) -> None:
    """Checks that every category can end in words, and that every rule and row can be used."""
    sizes = expansion.sizes
    reached = {category for category, _ in expansion.symbols}
    ended = {s[0] for s, size in zip(expansion.symbols, sizes, strict=True) if size is not None}
    used = {instance.rule.origin for choices in expansion.instances for instance in choices}
    for rule in notation.rules:
        place = Place(notation.where, rule.origin)
        if rule.category not in reached:
            raise place.error(f"{notation.start} never leads to {rule.category}: use or remove it")
        if rule.category not in ended:
            raise place.error(
                f"{rule.category} never ends in words: give it a rule that does not lead back to"
                " itself, with features that can be met"
            )
        if rule.origin not in used:
            raise place.error(
                f"this {rule.category} can never be used: nothing asks for its features, or a"
                " constituent cannot meet them"
            )


def _check_loops(notation: Notation, plain: PlainGrammar) -> None:
    """Checks that no symbol leads back to itself without a new source word.

    The derivations of a source sentence are therefore finite in number.
    """
    steps = {
        symbol: {
            child
            for production in choices
            for child in _children_spanning_source(production, plain.nullable)
        }
        for symbol, choices in enumerate(plain.productions)
    }
    try:
        TopologicalSorter(steps).prepare()
    except CycleError as error:
        symbol = error.args[1][0]
        raise Place(notation.where, plain.productions[symbol][0].origin).error(
            f"{plain.symbols[symbol][0]} leads back to itself without a new source word: add a "
            "word to the loop or break it"
        ) from None


def _children_spanning_source(production: Production, nullable: tuple[bool, ...]) -> list[int]:
    """Lists the children that can be the whole source side of a production."""
    full = [child for child in production.children if not nullable[child]]
    if len(full) > 1 or any(isinstance(item, Word) for item in production.source):
        return []
    return full or list(production.children)
