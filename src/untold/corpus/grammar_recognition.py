"""Is this pair in the grammar, and how many derivations are there? Exact answers, by tables."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from untold.corpus.grammar_notation import Notation, Slot, Word
from untold.corpus.grammar_plain import Plain, Production

__all__ = ["Recognizer", "count_derivations"]

Span = tuple[int, int]
Items = tuple[Word | int, ...]


def count_derivations(plain: Plain, max_words: int) -> int:
    """Derivations of the start whose size, a bound on both sides' words, is at most `max_words`."""

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
    """Finds whether a pair is derivable: source spans top-down, each with all its target spans."""

    def __init__(self, notation: Notation, plain: Plain) -> None:
        self.notation = notation
        self.plain = plain
        self.words: dict[str, int] = {}  # each source word's bit
        self.starts, self.inside = self._masks()
        self.index = [self._by_first(choices) for choices in plain.productions]

    def derives(self, source: tuple[str, ...], target: tuple[str, ...]) -> bool:
        """Whether the start derives exactly this pair, capitals and absorbed marks included."""
        sides = [
            _Side(
                words, language in self.notation.capitalize, self.notation.absorb.get(language, {})
            )
            for words, language in zip((source, target), self.notation.languages, strict=True)
        ]
        return (0, len(target)) in _Search(self, sides[0], sides[1]).spans(0, 0, len(source))

    def _masks(self) -> tuple[list[int], list[int]]:
        """Per symbol, as bits: the source words that can open it, and all those within it."""
        starts, inside = [0] * len(self.plain.productions), [0] * len(self.plain.productions)
        changed = True
        while changed:
            changed = False
            for symbol in range(len(starts) - 1, -1, -1):
                opening, within = starts[symbol], inside[symbol]
                for production in self.plain.productions[symbol]:
                    masks = self._production_masks(production, starts, inside)
                    opening, within = opening | masks[0], within | masks[1]
                if (opening, within) != (starts[symbol], inside[symbol]):
                    starts[symbol], inside[symbol], changed = opening, within, True
        return starts, inside

    def _production_masks(
        self, production: Production, starts: list[int], inside: list[int]
    ) -> tuple[int, int]:
        opening = within = 0
        open_still = True
        absorb = self.notation.absorb.get(self.notation.languages[0], {})
        for item in production.source:
            if isinstance(item, Word):
                bit = 1 << self.words.setdefault(item.text, len(self.words))
                opening |= bit if open_still else 0
                within |= bit
                open_still = open_still and item.text in absorb
            else:
                child = production.children[item.child]
                opening |= starts[child] if open_still else 0
                within |= inside[child]
                open_still = open_still and self.plain.nullable[child]
        return opening, within

    def _by_first(self, choices: tuple[Production, ...]) -> dict[str, list[Production]]:
        """Productions by the word they must open with; "" where it is not a fixed word."""
        absorb = self.notation.absorb.get(self.notation.languages[0], {})
        index: dict[str, list[Production]] = defaultdict(list)
        for production in choices:
            first = production.source[0] if production.source else None
            fixed = isinstance(first, Word) and first.text not in absorb
            index[first.text if isinstance(first, Word) and fixed else ""].append(production)
        return index


class _Side:
    """One sentence, and the ways in which a terminal can stand at a position of it."""

    def __init__(
        self, words: tuple[str, ...], capitalize: bool, absorb: dict[str, frozenset[str]]
    ) -> None:
        self.words = words
        self.capitalize = capitalize
        self.absorb = absorb

    def spellings(self, position: int) -> list[str]:
        """The grammar's words that read as the word here: a capital may be the sentence's own."""
        if position >= len(self.words):
            return []
        word = self.words[position]
        if self.capitalize and position == 0:
            return [w for w in (word, word[:1].lower() + word[1:]) if w[:1].upper() == word[:1]]
        return [word]

    def after(self, text: str, position: int) -> list[int]:
        """Where the sentence goes on after this terminal: the same place where it is absorbed."""
        following = self.words[position : position + 2]
        absorbers = self.absorb.get(text, frozenset())
        ends = [position] if following and following[0] in absorbers else []
        taken = len(following) == 2 and following[1] in absorbers
        if text in self.spellings(position) and not taken:
            ends.append(position + 1)
        return ends


class _Search:
    def __init__(self, recognizer: Recognizer, source: _Side, target: _Side) -> None:
        self.recognizer = recognizer
        self.source = source
        self.target = target
        self.memo: dict[tuple[int, int, int], frozenset[Span]] = {}

    def spans(self, symbol: int, start: int, end: int) -> frozenset[Span]:
        """The target spans that the symbol derives together with this source span."""
        key = symbol, start, end
        if key not in self.memo:
            found: set[Span] = set()
            if self._possible(symbol, start, end):
                for production in self._candidates(symbol, start):
                    for children in self._split(production, 0, start, end):
                        found |= self._targets(production, children)
            self.memo[key] = frozenset(found)
        return self.memo[key]

    def _possible(self, symbol: int, start: int, end: int) -> bool:
        if start == end:
            return self.recognizer.plain.nullable[symbol]
        return self._bits(start, self.recognizer.starts[symbol]) and all(
            self._bits(position, self.recognizer.inside[symbol]) for position in range(start, end)
        )

    def _bits(self, position: int, mask: int) -> bool:
        numbers = (self.recognizer.words.get(word) for word in self.source.spellings(position))
        return any(number is not None and mask >> number & 1 for number in numbers)

    def _candidates(self, symbol: int, start: int) -> Iterator[Production]:
        index = self.recognizer.index[symbol]
        for word in ["", *self.source.spellings(start)]:
            yield from index.get(word, ())

    def _split(
        self, production: Production, item: int, start: int, end: int
    ) -> Iterator[dict[int, frozenset[Span]]]:
        """Every way to lay the source side's items from here on over the span."""
        if item == len(production.source):
            if start == end:
                yield {}
            return
        part = production.source[item]
        last = item == len(production.source) - 1
        if isinstance(part, Word):
            for position in self.source.after(part.text, start):
                if position <= end:
                    yield from self._split(production, item + 1, position, end)
            return
        for position in range(end if last else start, end + 1):
            for rest in self._split(production, item + 1, position, end):
                spans = self.spans(production.children[part.child], start, position)
                if not spans:
                    break
                yield {**rest, part.child: spans}

    def _targets(self, production: Production, children: dict[int, frozenset[Span]]) -> set[Span]:
        """Lay the target side's items one after another over the target sentence."""
        reached = {(position, position) for position in range(len(self.target.words) + 1)}
        for item in production.target:
            if isinstance(item, Word):
                reached = {(k, m) for k, at in reached for m in self.target.after(item.text, at)}
            else:
                reached = {
                    (k, m) for k, at in reached for start, m in children[item.child] if start == at
                }
        return reached
