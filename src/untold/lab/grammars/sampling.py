"""Samples pairs from grammars, with word alignments, and writes corpora of them.

`load_grammar("en-de").sample(random.Random(7))` returns one pair. Grammars are readable files;
notes/grammars.md explains them, and those of the package lie in this directory.

References may lose clauses, as careless translators leave them out. A clause is the text between
two commas, or between a comma and an end of the sentence; its commas are deleted with it. The
source words that are linked to the clause must have no other link, so that their whole translation
is deleted and no other word's is.
"""

import filecmp
import hashlib
import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any

from untold.errors import UntoldError
from untold.files import move_files, new_file, remove_litter, scratch_directory, writing
from untold.lab.grammars.expansion import PlainGrammar, Production, expand
from untold.lab.grammars.notation import Notation, read_notation
from untold.lab.grammars.rules import Item, Slot
from untold.progress_bar import track

_SUFFIX = ".grammar"
_COMMAS = frozenset({",", "，"})
_MIN_WORDS = 2  # the words of a clause, without its commas
_MAX_MISSES = 20_000  # after so many draws in a row without a new pair, hardly any can be left
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


@dataclass(frozen=True)
class Grammar:
    """Samples from a checked grammar: every derivation that it starts can be finished."""

    name: str
    notation: Notation = field(repr=False)
    plain: PlainGrammar = field(repr=False)

    @property
    def languages(self) -> tuple[str, str]:
        return self.notation.languages

    @property
    def entries(self) -> int:
        """Counts the lexical entries: rows of the lexicon, and rules that hold only words.

        Inflected forms do not count.
        """
        return self.notation.entries

    def sample(self, rng: random.Random) -> Sample:
        """Draws one pair within the grammar's length limits; the rng's state determines it."""
        return self.sampler.sample(rng)

    def stream(self, seed: int) -> Iterator[Sample]:
        """Yields pairs without end, also duplicates; the same seed gives the same sequence."""
        rng = random.Random(seed)
        while True:
            yield self.sampler.sample(rng)

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler(self.notation, self.plain)


def load_grammar(name: str | Path) -> Grammar:
    """Loads a grammar of the package by its name, or a .grammar file by its path."""
    path = Path(name)
    if isinstance(name, str) and name in known_grammars():
        return _packaged(name)
    if not path.is_file():
        known = ", ".join(known_grammars())
        raise UntoldError(
            f"{name}: no such grammar; known: {known}, or the path of a {_SUFFIX} file"
        )
    try:
        return parse_grammar(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UntoldError(f"{path}: not UTF-8 text: save it as UTF-8") from None


def parse_grammar(text: str, where: str = "grammar") -> Grammar:
    """Parses the text of a grammar; errors name it as `where`:line."""
    notation = read_notation(text, where)
    return Grammar(Path(where).stem, notation, expand(notation))


def known_grammars() -> tuple[str, ...]:
    """Lists the names of the grammars that come with the package, sorted."""
    files = (resources.files("untold.lab.grammars")).iterdir()
    names = (file.name for file in files)
    return tuple(sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX)))


@cache
def _packaged(name: str) -> Grammar:
    file = resources.files("untold.lab.grammars") / (name + _SUFFIX)
    return parse_grammar(file.read_text(encoding="utf-8"), name + _SUFFIX)


def delete_clauses(
    samples: Sequence[Sample], share: float, seed: int, reserved: Collection[str]
) -> list[Sample]:
    """Deletes one clause from exactly this share of the samples; the order stays.

    The seed decides which samples change. No target becomes one of the `reserved` sentences.
    """
    rng, wanted = random.Random(seed), round(share * len(samples))
    noisy = list(samples)
    changed = 0
    for number in rng.sample(range(len(samples)), len(samples)):
        if changed == wanted:
            return noisy
        shorter = [remove_span(samples[number], *place) for place in clause_spans(samples[number])]
        choices = [each for each in shorter if " ".join(each.target) not in reserved]
        if choices:
            noisy[number] = rng.choice(choices)
            changed += 1
    if changed < wanted:
        raise UntoldError(
            f"noise {share}: only {changed} of {len(samples)} references have a clause to delete, "
            f"{wanted} are wanted: ask for at most {changed / len(samples):.2f}"
        )
    return noisy


def clause_spans(sample: Sample) -> Iterator[tuple[int, int]]:
    """Yields (start, stop) of each clause that covers at most half of the target.

    The final punctuation mark belongs to no clause.
    """
    target, last = sample.target, len(sample.target) - 1
    marks = [-1, *(place for place in range(last) if target[place] in _COMMAS), last]
    for left, right in combinations(marks, 2):
        start, stop = max(left, 0), min(right + 1, last)
        words = right - left - 1
        if (
            words >= _MIN_WORDS
            and 2 * (stop - start) <= len(target)
            and _is_closed(sample, range(start, stop))
        ):
            yield start, stop


def remove_span(sample: Sample, start: int, stop: int) -> Sample:
    """Removes the target words start .. stop - 1; a new first word takes over the capital."""
    target = [*sample.target[:start], *sample.target[stop:]]
    if start == 0 and sample.target[0][:1].isupper():
        target[0] = target[0][:1].upper() + target[0][1:]
    links = (
        (i, j if j < start else j - (stop - start))
        for i, j in sample.alignment
        if not start <= j < stop
    )
    return Sample(sample.source, tuple(target), tuple(links))


def _is_closed(sample: Sample, gone: range) -> bool:
    """Returns True if some source words are linked to these target words, and to no others."""
    inside = {i for i, j in sample.alignment if j in gone}
    return bool(inside) and all(j in gone for i, j in sample.alignment if i in inside)


@dataclass(frozen=True)
class SplitReport:
    """Counts the pairs of one split, with the mean and the longest length of its sides in words."""

    name: str
    pairs: int
    mean_source: float
    mean_target: float
    max_source: int
    max_target: int

    def __str__(self) -> str:
        words = f"{self.mean_source:.1f} and {self.mean_target:.1f} words on average"
        longest = max(self.max_source, self.max_target)
        return f"{self.name} {self.pairs} pairs, {words}, {longest} at most"


@dataclass(frozen=True)
class SampleReport:
    """Tells what `write_sample` wrote, and where."""

    grammar: str
    languages: tuple[str, str]
    seed: int
    out: Path
    train: SplitReport
    dev: SplitReport
    test: SplitReport

    def __str__(self) -> str:
        splits = "; ".join(map(str, (self.train, self.dev, self.test)))
        return f"{self.out}: {self.grammar}, seed {self.seed}: {splits}"


def write_sample(
    name: str | Path, pairs: int, seed: int, out: str | Path, *, noise: float = 0.0
) -> SampleReport:
    """Writes train (`pairs` pairs), dev and test with alignments; the seed determines the files.

    No source and no target sentence occurs in two splits, and no pair occurs twice in one. `noise`
    is the share of training references that lose a clause; it changes nothing else. If a file
    exists with other contents, that is an error, and nothing changes.
    """
    if pairs < 1:
        raise UntoldError(f"{pairs} pairs: ask for at least 1")
    if not 0.0 <= noise < 1.0:
        raise UntoldError(f"noise {noise}: give a share of at least 0 and below 1")
    grammar = load_grammar(name)
    out = Path(out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    remove_litter(out)
    held_out_pairs = min(max(pairs // 20, 100), 1000)
    splits = _Splits(grammar, grammar.stream(seed))
    reports = {}
    with scratch_directory(out / "sample") as folder:
        for split, count in (("test", held_out_pairs), ("dev", held_out_pairs), ("train", pairs)):
            taken = splits.take(count, keep=split != "train")
            samples: Iterable[Sample] = track(taken, f"generating {split}", count)
            if noise and split == "train":
                samples = delete_clauses(list(samples), noise, seed, splits.held_out[1])
            reports[split] = _write(grammar, split, folder, samples)
            _refuse_other_files(folder, out)  # the test set shows soon if the corpus is another
        move_files(folder, out)
    return SampleReport(grammar.name, grammar.languages, seed, out, **reports)


def _refuse_other_files(folder: Path, out: Path) -> None:
    """Refuses to replace files that differ from the new ones of the same name."""
    files = [(path, out / path.name) for path in sorted(folder.iterdir())]
    others = [
        old for new, old in files if old.exists() and not filecmp.cmp(new, old, shallow=False)
    ]
    if others:
        names = ", ".join(str(path) for path in others)
        raise UntoldError(
            f"{names}: would be replaced by another text: choose another --out, remove the old "
            "text, or give untold sample the option --overwrite"
        )


class _Splits:
    """Distributes a stream of pairs to splits.

    Held-out splits are taken first, and later splits do not get their sentences.
    """

    def __init__(self, grammar: Grammar, stream: Iterator[Sample]) -> None:
        self.grammar = grammar
        self.stream = stream
        self.held_out: tuple[set[str], set[str]] = set(), set()

    def take(self, count: int, keep: bool) -> Iterator[Sample]:
        """Yields `count` new pairs; `keep` withholds their sentences from later splits."""
        seen: set[bytes] = set()
        own: tuple[list[str], list[str]] = [], []
        misses = 0
        while len(seen) < count:
            sample = next(self.stream)
            source, target = " ".join(sample.source), " ".join(sample.target)
            digest = hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
            if digest in seen or source in self.held_out[0] or target in self.held_out[1]:
                misses += 1
                if misses > _MAX_MISSES:
                    raise UntoldError(
                        f"{self.grammar.name}: only {len(seen)} of {count} new pairs found before"
                        " they ran out: ask for fewer pairs"
                    )
                continue
            misses = 0
            seen.add(digest)
            if keep:
                own[0].append(source)
                own[1].append(target)
            yield sample
        self.held_out[0].update(own[0])
        self.held_out[1].update(own[1])


def _write(grammar: Grammar, split: str, out: Path, samples: Iterable[Sample]) -> SplitReport:
    totals, longest, count = [0, 0], [0, 0], 0
    with ExitStack() as stack:
        files = [
            stack.enter_context(new_file(out / f"{split}.{suffix}"))
            for suffix in (*grammar.languages, "align")
        ]
        for sample in samples:
            count += 1
            for side, words in enumerate((sample.source, sample.target)):
                files[side].write(f"{' '.join(words)}\n".encode())
                totals[side] += len(words)
                longest[side] = max(longest[side], len(words))
            links = " ".join(f"{i}-{j}" for i, j in sample.alignment)
            files[2].write(f"{links}\n".encode())
    means = [total / count for total in totals]
    return SplitReport(split, count, means[0], means[1], longest[0], longest[1])
