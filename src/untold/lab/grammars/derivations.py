"""Samples derivations: draws a tree, then reads each side's words and their alignment from it."""

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from untold.lab.grammars.expansion import PlainGrammar, Production
from untold.lab.grammars.notation import Item, Notation, Slot

Tree = Sequence[Any]  # a production, then one tree for each child; a plain sequence is faster
Links = list[tuple[int, int]]  # (node and tag in one number, position of the word)

_TAGS = 1 << 16  # exceeds every tag


@dataclass(frozen=True)
class Sample:
    """Holds a sentence pair; `alignment` lists sorted (source, target) word positions from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]


class Sampler:
    """Draws productions top-down by weight; no side exceeds the grammar's longest sentence."""

    def __init__(self, notation: Notation, plain: PlainGrammar) -> None:
        self.productions = plain.productions
        self.sizes = plain.sizes
        self.shortest, self.longest = notation.length
        self.largest = [max(p.size for p in choices) for choices in plain.productions]
        self.cumulative = [list(accumulate(p.weight for p in c)) for c in plain.productions]
        self.restricted: dict[tuple[int, int], tuple[list[Production], list[float]]] = {}
        self.sides = [
            (language in notation.capitalize, notation.absorb.get(language, {}))
            for language in notation.languages
        ]

    def sample(self, rng: random.Random) -> Sample:
        """Draws one pair; draws again while a side is shorter than the grammar allows."""
        while True:
            sample = self.read(self._draw_tree(rng.random))
            if min(len(sample.source), len(sample.target)) >= self.shortest:
                return sample

    def read(self, tree: Tree) -> Sample:
        """Returns the sentence pair of a derivation."""
        source, source_links = self._words_and_links(tree, 0)
        target, target_links = self._words_and_links(tree, 1)
        return Sample(tuple(source), tuple(target), _join(source_links, target_links))

    def _draw_tree(self, draw: Callable[[], float]) -> Tree:
        """Draws a whole tree, leftmost node first.

        `spare` counts the words that may still be added beyond the least that all open nodes need.
        """
        spare = self.longest - self.sizes[0]
        root: list[Any] = []
        waiting: list[tuple[int, list[Any]]] = [(0, root)]
        while waiting:
            symbol, node = waiting.pop()
            budget = self.sizes[symbol] + spare
            if budget >= self.largest[symbol]:
                choices, weights = self.productions[symbol], self.cumulative[symbol]
            else:
                choices, weights = self._fitting_productions(symbol, budget)
            last = len(choices) - 1
            production = choices[bisect(weights, draw() * weights[-1], 0, last) if last else 0]
            spare = budget - production.size
            node.append(production)
            if production.children:
                node += [[] for _ in production.children]
                waiting += zip(production.children[::-1], node[:0:-1], strict=True)
        return root

    def _fitting_productions(
        self, symbol: int, budget: int
    ) -> tuple[list[Production], list[float]]:
        """Returns the productions that can end within the budget; the shortest one always can."""
        found = self.restricted.get((symbol, budget))
        if found is None:
            choices = [p for p in self.productions[symbol] if p.size <= budget]
            found = choices, list(accumulate(p.weight for p in choices))
            self.restricted[symbol, budget] = found
        return found

    def _words_and_links(self, tree: Tree, side: int) -> tuple[list[str], Links]:
        """Returns the words of one side in order, and the positions of the tagged ones."""
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
    """Returns the tags as numbers that differ between nodes of the same rule."""
    base = id(node) * _TAGS
    return tuple([base + tag for tag in tags])


def _join(source: Links, target: Links) -> tuple[tuple[int, int], ...]:
    """Links all source words to all target words with the same tag of the same node."""
    places: dict[int, list[int]] = defaultdict(list)
    for key, position in source:
        places[key].append(position)
    return tuple(sorted({(s, t) for key, t in target for s in places.get(key, ())}))
