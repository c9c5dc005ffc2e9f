"""Derivations by chance: a tree first, then each side's words, then the alignment between them."""

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from untold.corpus.grammars.notation import Item, Notation, Slot
from untold.corpus.grammars.plain import Plain, Production

__all__ = ["Sample", "Sampler", "Tree"]

Tree = Sequence[Any]  # a production, then one tree per child: no class, for speed
Links = list[tuple[int, int]]  # (node and tag in one number, position of the word)

_TAGS = 1 << 16  # more than any tag


@dataclass(frozen=True)
class Sample:
    """A sentence pair; `alignment` holds sorted (source, target) word positions from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]


class Sampler:
    """Rewrites top-down by weight; no side grows past the longest sentence."""

    def __init__(self, notation: Notation, plain: Plain) -> None:
        self.productions = plain.productions
        self.sizes = plain.sizes
        self.shortest, self.longest = notation.length
        self.ease = [max(p.size for p in choices) for choices in plain.productions]
        self.cumulative = [list(accumulate(p.weight for p in c)) for c in plain.productions]
        self.tight: dict[tuple[int, int], tuple[list[Production], list[float]]] = {}
        self.sides = [
            (language in notation.capitalize, notation.absorb.get(language, {}))
            for language in notation.languages
        ]

    def sample(self, rng: random.Random) -> Sample:
        """One pair; draws again while a side is shorter than the grammar allows."""
        while True:
            sample = self.read(self._grow(rng.random))
            if min(len(sample.source), len(sample.target)) >= self.shortest:
                return sample

    def read(self, tree: Tree) -> Sample:
        """The pair that a derivation spells."""
        source, source_links = self._spell(tree, 0)
        target, target_links = self._spell(tree, 1)
        return Sample(tuple(source), tuple(target), _join(source_links, target_links))

    def _grow(self, draw: Callable[[], float]) -> Tree:
        """A whole tree, leftmost node first; `spare` words are left beyond what all nodes need."""
        spare = self.longest - self.sizes[0]
        root: list[Any] = []
        waiting: list[tuple[int, list[Any]]] = [(0, root)]
        while waiting:
            symbol, node = waiting.pop()
            budget = self.sizes[symbol] + spare
            if budget >= self.ease[symbol]:
                choices, weights = self.productions[symbol], self.cumulative[symbol]
            else:
                choices, weights = self._within(symbol, budget)
            last = len(choices) - 1
            production = choices[bisect(weights, draw() * weights[-1], 0, last) if last else 0]
            spare = budget - production.size
            node.append(production)
            if production.children:
                node += [[] for _ in production.children]
                waiting += zip(production.children[::-1], node[:0:-1], strict=True)
        return root

    def _within(self, symbol: int, budget: int) -> tuple[list[Production], list[float]]:
        """The productions that can still end within the budget: the shortest one always can."""
        found = self.tight.get((symbol, budget))
        if found is None:
            choices = [p for p in self.productions[symbol] if p.size <= budget]
            found = choices, list(accumulate(p.weight for p in choices))
            self.tight[symbol, budget] = found
        return found

    def _spell(self, tree: Tree, side: int) -> tuple[list[str], Links]:
        """The words of one side in their order, and where the tagged ones stand."""
        capitalize, absorb = self.sides[side]
        words: list[str] = []
        links: Links = []
        open_nodes: list[tuple[Tree, Iterator[Item], tuple[int, ...]]] = []
        open_nodes.append((tree, iter(_items(tree, side)), ()))
        while open_nodes:
            node, items, outer = open_nodes[-1]
            for item in items:
                keys = outer + _keys(node, item.tags) if item.tags else outer
                if isinstance(item, Slot):
                    child = node[item.child + 1]
                    open_nodes.append((child, iter(_items(child, side)), keys))
                    break
                while absorb and words and item.text in absorb.get(words[-1], ()):
                    words.pop()
                    links = [link for link in links if link[1] != len(words)]
                for key in keys:
                    links.append((key, len(words)))
                words.append(item.text)
            else:
                open_nodes.pop()
        if capitalize and words:
            words[0] = words[0][:1].upper() + words[0][1:]
        return words, links


def _items(node: Tree, side: int) -> tuple[Item, ...]:
    return node[0].target if side else node[0].source


def _keys(node: Tree, tags: tuple[int, ...]) -> tuple[int, ...]:
    """The tags as numbers that tell this node from others that came by the same rule."""
    base = id(node) * _TAGS
    return tuple([base + tag for tag in tags])


def _join(source: Links, target: Links) -> tuple[tuple[int, int], ...]:
    """All pairs of words with the same tag of the same node."""
    places: dict[int, list[int]] = defaultdict(list)
    for key, position in source:
        places[key].append(position)
    return tuple(sorted({(s, t) for key, t in target for s in places.get(key, ())}))
