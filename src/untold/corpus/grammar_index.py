"""Which rules of a category meet which feature values: sets of rules as the bits of an integer."""

from collections import defaultdict
from dataclasses import dataclass

from untold.corpus.grammar_notation import Features, Notation, Rule, Variable, Word

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


class RuleIndex:
    """The rules by category, and quick answers to what fits."""

    def __init__(self, notation: Notation) -> None:
        self.domains = {name: frozenset(values) for name, values in notation.features.items()}
        self.rules: dict[str, list[Prepared]] = defaultdict(list)
        for rule in notation.rules:
            self.rules[rule.category].append(self._prepare(rule))
        self._by_value: dict[tuple[str, str], dict[str, int]] = {}
        self._passing: dict[tuple[str, str], int] = {}

    def fitting(self, category: str, constraints: Constraints) -> int:
        """The rules of the category that contradict no single constraint."""
        mask = (1 << len(self.rules[category])) - 1
        for name, allowed in constraints:
            mask &= self.fit(category, name, allowed)
        return mask

    def fit(self, category: str, feature: str, allowed: frozenset[str]) -> int:
        """The rules of the category that can have one of the allowed values."""
        by_value = self.by_value(category, feature)
        mask = 0
        for value in allowed:
            mask |= by_value[value]
        return mask

    def by_value(self, category: str, feature: str) -> dict[str, int]:
        """For each value of a feature, the rules of the category that can have it."""
        key = category, feature
        masks = self._by_value.get(key)
        if masks is None:
            masks = self._by_value[key] = dict.fromkeys(self.domains[feature], 0)
            for number, prepared in enumerate(self.rules[category]):
                term = prepared.rule.features.get(feature, self.domains[feature])
                values = prepared.bindings[term.name] if isinstance(term, Variable) else term
                for value in values:
                    masks[value] |= 1 << number
        return masks

    def passing(self, category: str, feature: str) -> int:
        """The rules of the category that hand this feature on to a constituent."""
        key = category, feature
        mask = self._passing.get(key)
        if mask is None:
            rules = enumerate(self.rules[category])
            mask = sum(1 << number for number, prepared in rules if feature in prepared.features)
            self._passing[key] = mask
        return mask

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
        words = [sum(isinstance(item, Word) for item in s) for s in (rule.source, rule.target)]
        return Prepared(
            rule=rule,
            features={n: t.name for n, t in rule.features.items() if isinstance(t, Variable)},
            bindings=bindings,
            ties=tuple((name, named[name]) for name, count in uses.items() if count > 1),
            children=tuple(_child(c.category, c.features) for c in rule.children),
            own=max(words),
        )


def _child(category: str, features: Features) -> Child:
    terms = ((n, t.name if isinstance(t, Variable) else t) for n, t in sorted(features.items()))
    return Child(category, tuple(terms))
