"""The plain synchronous grammar that is sampled from: no features, no dead ends."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import NamedTuple

from untold.corpus.grammars.expansion import Expansion, Symbol
from untold.corpus.grammars.notation import Item, Slot

__all__ = ["Plain", "Production", "finish"]


class Production(NamedTuple):
    """One way to rewrite a symbol. (A tuple: there are very many.)

    `size` bounds the words of both sides at its shortest: the longer of its own two sides and the
    sizes of its children.
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

    symbols: tuple[Symbol, ...]  # what the numbers stand for
    productions: tuple[tuple[Production, ...], ...]
    sizes: tuple[int, ...]
    nullable: tuple[bool, ...]  # whether a symbol can have no source word


def finish(expansion: Expansion) -> Plain:
    """Number the symbols that end, and share each rule's weight among its instances."""
    kept = {old: size for old, size in enumerate(expansion.sizes) if size is not None}
    numbers = {old: new for new, old in enumerate(kept)}
    fits = _fits(expansion)
    productions = []
    for old in kept:
        drafts = expansion.drafts[old]
        shares = [draft.weight * prod([fits[c] for c in draft.children]) for draft in drafts]
        totals: dict[int, float] = defaultdict(float)
        for draft, share in zip(drafts, shares, strict=True):
            totals[draft.number] += share
        choices = [
            Production(
                children=tuple([numbers[child] for child in draft.children]),
                source=draft.rule.source,
                target=draft.rule.target,
                weight=draft.rule.weight * share / totals[draft.number],
                size=draft.own + sum([kept[child] for child in draft.children]),
                origin=draft.rule.origin,
            )
            for draft, share in zip(drafts, shares, strict=True)
        ]
        productions.append(tuple(choices))
    symbols = tuple(expansion.symbols[old] for old in kept)
    return Plain(symbols, tuple(productions), tuple(kept.values()), _nullable(productions))


def _fits(expansion: Expansion) -> list[float]:
    """How likely a free choice would meet each symbol's features; 1 where a category has no end.

    Instances of a rule share its weight in this proportion, so that a word is as likely in a large
    class as in a small one, a rare gender say. A category that may contain itself has derivations
    enough for any features.
    """
    finite = _finite_categories(expansion)
    totals: dict[str, float] = defaultdict(float)
    for rule in {id(d.rule): d.rule for choices in expansion.drafts for d in choices}.values():
        totals[rule.category] += rule.weight

    @cache
    def fit(symbol: int) -> float:
        category, _ = expansion.symbols[symbol]
        if category not in finite:
            return 1.0
        return sum(
            draft.rule.weight * draft.weight * prod(fit(child) for child in draft.children)
            for draft in expansion.drafts[symbol]
        ) / (totals[category] or 1.0)

    return [fit(symbol) for symbol in range(len(expansion.symbols))]


def _finite_categories(expansion: Expansion) -> set[str]:
    """The categories that lead to no category that can contain itself."""
    below: dict[str, set[str]] = defaultdict(set)
    for (category, _), choices in zip(expansion.symbols, expansion.drafts, strict=True):
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
