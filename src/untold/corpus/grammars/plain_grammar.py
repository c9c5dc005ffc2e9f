"""Builds the plain synchronous grammar that is sampled from, without features or dead ends."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import NamedTuple

from untold.corpus.grammars.expansion import Expansion, Symbol
from untold.corpus.grammars.notation import Item, Slot

__all__ = ["PlainGrammar", "Production", "build_plain_grammar"]


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
