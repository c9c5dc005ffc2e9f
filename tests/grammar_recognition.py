"""Finds the derivation of a given pair, and counts derivations, by dynamic programming."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from untold.lab.grammars.expansion import PlainGrammar, Production
from untold.lab.grammars.notation import Notation
from untold.lab.grammars.rules import Item, Slot, Word
from untold.lab.grammars.sampling import Grammar, Sample, Tree

Span = tuple[int, int]


def derives(grammar: Grammar, source: str, target: str) -> bool:
    """Returns True if the grammar generates this pair of tokenised sentences."""
    return derive(grammar, source, target) is not None


def derive(grammar: Grammar, source: str, target: str) -> Sample | None:
    """Aligns a pair of tokenised sentences; returns None if the grammar cannot generate it."""
    if id(grammar) not in _KNOWN:
        _KNOWN[id(grammar)] = grammar, Recognizer(grammar.notation, grammar.plain)
    _, recognizer = _KNOWN[id(grammar)]
    tree = recognizer.derive(tuple(source.split()), tuple(target.split()))
    return None if tree is None else grammar.sampler.read(tree)


def count_derivations(plain: PlainGrammar, max_words: int) -> int:
    """Counts the derivations of the start whose size is at most `max_words`.

    The size of a derivation bounds the words of both its sides.
    """

    @cache
    def ways(children: tuple[int, ...], words: int) -> int:
        if not children:
            return int(words == 0)
        first, rest = children[0], children[1:]
        least, others = plain.sizes[first], sum(plain.sizes[child] for child in rest)
        if not rest:
            return count(first, words)
        return sum(
            count(first, share) * ways(rest, words - share)
            for share in range(least, words - others + 1)
        )

    @cache
    def count(symbol: int, words: int) -> int:
        return sum(
            ways(p.children, words - p.size + sum(plain.sizes[child] for child in p.children))
            for p in plain.productions[symbol]
            if p.size <= words
        )

    return sum(count(0, words) for words in range(plain.sizes[0], max_words + 1))


class Recognizer:
    """Finds a derivation: splits the source top-down, and finds all target spans of each part."""

    def __init__(self, notation: Notation, plain: PlainGrammar) -> None:
        self.notation = notation
        self.plain = plain
        self.words: dict[str, int] = {}  # the bit of each source word
        self.first_words, self.all_words = self._masks()
        self.index = [self._by_first_word(choices) for choices in plain.productions]

    def derive(self, source: tuple[str, ...], target: tuple[str, ...]) -> Tree | None:
        """Returns a derivation of this pair, or None if the grammar has none.

        Capitals and absorbed marks must agree too.
        """
        sides = [
            _Sentence(
                words,
                language in self.notation.capitalize,
                self.notation.absorb.get(language, {}),
            )
            for words, language in zip((source, target), self.notation.languages, strict=True)
        ]
        search = _Search(self, sides[0], sides[1])
        whole = (0, len(source)), (0, len(target))
        return search.tree(0, *whole) if whole[1] in search.spans(0, *whole[0]) else None

    def _masks(self) -> tuple[list[int], list[int]]:
        """Returns as bits the source words that can open each symbol, and those it can contain."""
        parts = [self._own_words_and_children(choices) for choices in self.plain.productions]
        opening, within = [part[0] for part in parts], [part[1] for part in parts]
        changed = True
        while changed:
            changed = False
            for symbol in range(len(parts) - 1, -1, -1):  # children mostly come later
                _, _, first, inner = parts[symbol]
                masks = opening[symbol], within[symbol]
                for child in first:
                    opening[symbol] |= opening[child]
                for child in inner:
                    within[symbol] |= within[child]
                changed = changed or masks != (opening[symbol], within[symbol])
        return opening, within

    def _own_words_and_children(
        self, choices: tuple[Production, ...]
    ) -> tuple[int, int, set[int], set[int]]:
        """Returns one symbol's own words, first and all, and its children, first and all."""
        absorb = self.notation.absorb.get(self.notation.languages[0], {})
        opening = within = 0
        first: set[int] = set()
        inner: set[int] = set()
        for production in choices:
            opens = True
            inner.update(production.children)
            for item in production.source:
                if isinstance(item, Word):
                    bit = 1 << self.words.setdefault(item.text, len(self.words))
                    within |= bit
                    opening |= bit * opens
                    opens = opens and item.text in absorb
                elif opens:
                    first.add(production.children[item.child])
                    opens = self.plain.nullable[production.children[item.child]]
        return opening, within, first, inner

    def _by_first_word(self, choices: tuple[Production, ...]) -> dict[str, list[Production]]:
        """Groups productions by the word they must open with; "" stands for no fixed word."""
        absorb = self.notation.absorb.get(self.notation.languages[0], {})
        index: dict[str, list[Production]] = defaultdict(list)
        for production in choices:
            first = production.source[0] if production.source else None
            text = first.text if isinstance(first, Word) else ""
            index["" if text in absorb else text].append(production)
        return index


@dataclass(frozen=True)
class _Sentence:
    """Holds one sentence, and tells which terminals match at a position of it."""

    words: tuple[str, ...]
    capitalize: bool
    absorb: Mapping[str, frozenset[str]]

    def spellings(self, position: int) -> list[str]:
        """Lists the terminals that can appear as the word at a position.

        The first word of a sentence may owe its capital to the sentence, so both forms count.
        """
        if position >= len(self.words):
            return []
        word = self.words[position]
        if self.capitalize and position == 0:
            return [w for w in (word, word[:1].lower() + word[1:]) if w[:1].upper() == word[:1]]
        return [word]

    def next_positions(self, text: str, position: int) -> list[int]:
        """Lists the positions that can follow this terminal; an absorbed one takes no position."""
        following = self.words[position : position + 2]
        absorbers = self.absorb.get(text, frozenset())
        ends = [position] if following and following[0] in absorbers else []
        taken = len(following) == 2 and following[1] in absorbers
        if text in self.spellings(position) and not taken:
            ends.append(position + 1)
        return ends


@dataclass(frozen=True)
class _ParseStep:
    """Records how a symbol covers a span of both sides: a production, and its children's spans."""

    production: Production
    source: tuple[Span, ...]
    target: tuple[Span, ...]


_Parts = tuple[tuple[int, Span], ...]  # children with their spans


class _Search:
    def __init__(self, recognizer: Recognizer, source: _Sentence, target: _Sentence) -> None:
        self.recognizer = recognizer
        self.source = source
        self.target = target
        self.memo: dict[tuple[int, int, int], dict[Span, _ParseStep]] = {}
        known = recognizer.words
        self.bits = [
            sum(1 << known[word] for word in source.spellings(position) if word in known)
            for position in range(len(source.words) + 1)  # there is no word past the end
        ]
        self.ends: dict[tuple[int, int], range] = {}

    def tree(self, symbol: int, source: Span, target: Span) -> Tree:
        """Builds the derivation of a pair of spans that `spans` has found."""
        step = self.spans(symbol, *source)[target]
        parts = zip(step.production.children, step.source, step.target, strict=True)
        return (step.production, *(self.tree(*part) for part in parts))

    def spans(self, symbol: int, start: int, end: int) -> dict[Span, _ParseStep]:
        """Maps each target span that the symbol derives with this source span to its step."""
        key = symbol, start, end
        if key not in self.memo:
            found: dict[Span, _ParseStep] = {}
            if end in self._ends(symbol, start):
                for production in self._candidates(symbol, start):
                    for parts in self._split(production, production.source, start, end):
                        self._cover(production, dict(parts), found)
            self.memo[key] = found
        return self.memo[key]

    def _ends(self, symbol: int, start: int) -> range:
        """Returns where the symbol may end, judged by the words it can open with and contain."""
        key = symbol, start
        if key not in self.ends:
            all_words, end = self.recognizer.all_words[symbol], start
            if self.bits[start] & self.recognizer.first_words[symbol]:
                while self.bits[end] & all_words:
                    end += 1
            nullable = self.recognizer.plain.nullable[symbol]
            self.ends[key] = range(start if nullable else start + 1, end + 1)
        return self.ends[key]

    def _candidates(self, symbol: int, start: int) -> Iterator[Production]:
        index = self.recognizer.index[symbol]
        for word in ["", *self.source.spellings(start)]:
            yield from index.get(word, ())

    def _split(
        self, production: Production, items: tuple[Item, ...], start: int, end: int
    ) -> Iterator[_Parts]:
        """Yields every way to lay these items of the source side over the span."""
        if not items:
            yield from [()] if start == end else []
        elif isinstance(items[0], Word):
            for position in self.source.next_positions(items[0].text, start):
                if position <= end:
                    yield from self._split(production, items[1:], position, end)
        else:
            symbol = production.children[items[0].child]
            known = self.ends.get((symbol, start))
            ends = self._ends(symbol, start) if known is None else known
            for position in range(max(ends.start, start if items[1:] else end), ends.stop):
                if position <= end:
                    yield from self._part(production, items, (start, position), end)

    def _part(
        self, production: Production, items: tuple[Item, ...], span: Span, end: int
    ) -> Iterator[_Parts]:
        """Yields the ways in which the first item has this span; it is expanded after the rest."""
        assert isinstance(items[0], Slot)
        child = items[0].child
        for rest in self._split(production, items[1:], span[1], end):
            if not self.spans(production.children[child], *span):
                return
            yield ((child, span), *rest)

    def _cover(
        self, production: Production, parts: dict[int, Span], found: dict[Span, _ParseStep]
    ) -> None:
        """Lays the target side's items one after another over the target sentence."""
        reached: dict[Span, _Parts] = {(k, k): () for k in range(len(self.target.words) + 1)}
        for item in production.target:
            reached = dict(self._extend(production, item, parts, reached))
        children = range(len(production.children))
        for span, chosen in reached.items():
            places = dict(chosen)
            step = _ParseStep(
                production, tuple(parts[c] for c in children), tuple(places[c] for c in children)
            )
            found.setdefault(span, step)

    def _extend(
        self,
        production: Production,
        item: Item,
        parts: dict[int, Span],
        reached: dict[Span, _Parts],
    ) -> Iterator[tuple[Span, _Parts]]:
        """Yields the spans that one more item of the target side reaches."""
        if isinstance(item, Slot):
            spans = self.spans(production.children[item.child], *parts[item.child])
            for (start, at), chosen in reached.items():
                for span in spans:
                    if span[0] == at:
                        yield (start, span[1]), (*chosen, (item.child, span))
            return
        for (start, at), chosen in reached.items():
            for position in self.target.next_positions(item.text, at):
                yield (start, position), chosen


_KNOWN: dict[int, tuple[Grammar, Recognizer]] = {}  # by identity; the grammar is kept alive
