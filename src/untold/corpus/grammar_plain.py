"""The plain synchronous grammar that is sampled from: no features, no dead ends."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from untold.corpus.grammar_expansion import Draft, Expansion, Symbol
from untold.corpus.grammar_notation import Item, Slot

__all__ = ["Plain", "Production", "finish"]


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


def finish(expansion: Expansion) -> Plain:
    """Leave out what never ends, and share each rule's weight among its instances."""
    sizes = expansion.sizes
    kept = [number for number, size in enumerate(sizes) if size is not None]
    numbers = {old: new for new, old in enumerate(kept)}
    fits = _fits(expansion)
    productions = []
    for old in kept:
        alive = [draft for draft in expansion.drafts[old] if draft.size(sizes) is not None]
        shares = [draft.weight * prod(fits[c] for c in draft.children) for draft in alive]
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


def _fits(expansion: Expansion) -> list[float]:
    """How likely a free choice would meet each symbol's features; 1 for symbols without end.

    Instances of a rule share its weight in this proportion, so that a word is as likely in a large
    class as in a small one, a rare gender say. A symbol that may contain itself has too many
    derivations for its features to matter.
    """
    totals: dict[str, float] = defaultdict(float)
    for rule in {id(d.rule): d.rule for choices in expansion.drafts for d in choices}.values():
        totals[rule.category] += rule.weight
    fits = [1.0] * len(expansion.symbols)
    for symbol in _finite(expansion.drafts):
        fits[symbol] = sum(
            draft.rule.weight / totals[draft.rule.category]
            * draft.weight * prod(fits[child] for child in draft.children)
            for draft in expansion.drafts[symbol]
            if draft.size(expansion.sizes) is not None
        )
    return fits


def _finite(drafts: list[list[Draft]]) -> Iterator[int]:
    """The symbols with finitely many derivations, children before their parents."""
    parents: list[list[int]] = [[] for _ in drafts]
    missing: list[int] = []
    for symbol, choices in enumerate(drafts):
        children = sorted({child for draft in choices for child in draft.children})
        missing.append(len(children))
        for child in children:
            parents[child].append(symbol)
    ready = [symbol for symbol, count in enumerate(missing) if count == 0]
    while ready:
        symbol = ready.pop()
        yield symbol
        for parent in parents[symbol]:
            missing[parent] -= 1
            if missing[parent] == 0:
                ready.append(parent)


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
