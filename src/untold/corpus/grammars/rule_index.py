"""Indexes the rules of each category by feature values; a set of rules is an integer's bits."""

from collections import defaultdict
from dataclasses import dataclass

from untold.corpus.grammars.notation import Notation, Rule, Variable, Word

__all__ = ["Bindings", "Constraints", "PreparedConstituent", "PreparedRule", "RuleIndex"]

Constraints = tuple[tuple[str, frozenset[str]], ...]
Bindings = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class PreparedConstituent:
    """Lists a constituent's features: each has a set of values or the name of a variable."""

    category: str
    features: tuple[tuple[str, frozenset[str] | str], ...]


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


class _RulesByValues(dict[tuple[str, str, frozenset[str]], int]):
    """Maps (category, feature, values) to the rules that can have one of the values, lazily."""

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
    """Finds the rules of a category by feature values. Each entry is a set of rules as bits.

    `by_value[category, feature][value]` are the rules that can have the value,
    `fits[category, feature, values]` those that can have one of the values, and
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
        self.fits = _RulesByValues(self.by_value)

    def fitting(self, category: str, constraints: Constraints) -> int:
        """Returns the rules of the category that meet each constraint by itself."""
        mask = (1 << len(self.rules[category])) - 1
        for name, allowed in constraints:
            mask &= self.fits[category, name, allowed]
        return mask

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
                PreparedConstituent(c.category, tuple(terms))
                for c, terms in zip(rule.children, children, strict=True)
            ),
            own_words=max(words),
        )
