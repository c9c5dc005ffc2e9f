"""Writes a corpus from a grammar: train, dev and test files that share no sentence."""

import filecmp
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.grammars.grammar import Grammar, Sample, load_grammar
from untold.corpus.grammars.noise import delete_clauses
from untold.durable import move_files, new_file, remove_litter, scratch_directory, writing
from untold.errors import UntoldError
from untold.feedback import track

__all__ = ["SampleReport", "SplitReport", "write_sample"]

_MAX_MISSES = 20_000  # after so many draws in a row without a new pair, hardly any can be left


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
