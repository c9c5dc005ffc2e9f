"""Which rules of a category meet which feature values: sets of rules as the bits of an integer."""

from collections import defaultdict
from dataclasses import dataclass

from untold.corpus.grammars.notation import Notation, Rule, Variable, Word

__all__ = ["Bindings", "Child", "Constraints", "Prepared", "RuleIndex"]

Constraints = tuple[tuple[str, frozenset[str]], ...]
Bindings = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Child:
    """A constituent of a rule: each feature's values, or the name of the variable that has them."""

    category: str
    features: tuple[tuple[str, frozenset[str] | str], ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A rule with its variables' values, those of them that tie constituents, and its words."""

    rule: Rule
    features: dict[str, str]  # the features of its left side that are variables
    bindings: Bindings
    ties: tuple[tuple[str, str], ...]  # (variable, the feature it takes values and weights from)
    children: tuple[Child, ...]
    own: int


class _Fits(dict[tuple[str, str, frozenset[str]], int]):
    """The rules of a category that can have one of several values of a feature, as asked for."""

    def __init__(self, by_value: dict[tuple[str, str], dict[str, int]]) -> None:
        super().__init__()
        self.by_value = by_value

    def __missing__(self, key: tuple[str, str, frozenset[str]]) -> int:
        category, feature, allowed = key
        masks, fit = self.by_value[category, feature], 0
        for value in allowed:
            fit |= masks[value]
        self[key] = fit
        return fit


class RuleIndex:
    """The rules by category.

    `by_value[category, feature][value]` are the rules that can have the value,
    `fits[category, feature, values]` those that can have one of the values, and
    `passing[category, feature]` those that hand the feature on to a constituent.
    """

    def __init__(self, notation: Notation) -> None:
        self.domains = {name: frozenset(values) for name, values in notation.features.items()}
        self.rules: dict[str, list[Prepared]] = defaultdict(list)
        for rule in notation.rules:
            self.rules[rule.category].append(self._prepare(rule))
        self.by_value: dict[tuple[str, str], dict[str, int]] = {}
        self.passing: dict[tuple[str, str], int] = {}
        for category, rules in self.rules.items():
            for feature, domain in self.domains.items():
                self._index(category, feature, domain, rules)
        self.fits = _Fits(self.by_value)

    def fitting(self, category: str, constraints: Constraints) -> int:
        """The rules of the category that contradict no single constraint."""
        mask = (1 << len(self.rules[category])) - 1
        for name, allowed in constraints:
            mask &= self.fits[category, name, allowed]
        return mask

    def _index(
        self, category: str, feature: str, domain: frozenset[str], rules: list[Prepared]
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

    def _prepare(self, rule: Rule) -> Prepared:
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
        return Prepared(
            rule=rule,
            features={n: t.name for n, t in rule.features.items() if isinstance(t, Variable)},
            bindings=bindings,
            ties=tuple((name, named[name]) for name, count in uses.items() if count > 1),
            children=tuple(
                Child(c.category, tuple(terms))
                for c, terms in zip(rule.children, children, strict=True)
            ),
            own=max(words),
        )
