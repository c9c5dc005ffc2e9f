"""How much memory does training take: with a large corpus, and with past and future?

    python benchmarks/memory.py

Every row is a process of its own, whose peak includes Python, torch and the corpus. The first ones
are whole runs of `untold.train`, with vocabulary, store and updates, on a small corpus and on a
large one of made-up words. The promise is that the large one takes at most a gigabyte more. The
last ones make updates of a plain model and of one with past and future on the same batches.
"""

import argparse
import gzip
import itertools
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import untold
from contenders import (
    PRESETS,
    UntoldTraining,
    add_text_options,
    past_future_variants,
    read_workload,
    shape,
    training_batches,
    varied,
)
from race import Table, measure_peak, write_json
from untold.config import parse_config

WORDS = 20_000
SMALL = 20_000  # pairs of the small corpus, and of the validation's below
VALIDATION = 100
UPDATES = 2  # of a run: the first makes the optimizer's memory, the second works beside it
PROMISE_MB = 1000.0
VARIANTS = ("plain", "GDR", "GDR, default")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_text_options(parser)
    parser.add_argument("--large", type=int, default=2_000_000, help="pairs of the large corpus")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=["tiny", "base"])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=8, help="updates of each variant")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, help="of train.py --past-future")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    corpora, extra = measure_corpora(options)
    updates = measure_updates(options)
    for table in (corpora, updates):
        print(table.text(), end="\n\n")
    if options.json:
        write_json(options.json, [], vars(options), [corpora, updates])
    if extra > PROMISE_MB:
        sys.exit(f"{extra:.0f} MB for the size of the corpus, more than {PROMISE_MB:.0f} MB")


def measure_corpora(options: argparse.Namespace) -> tuple[Table, float]:
    """Whole runs on both corpora, and what the large one takes beyond the small one."""
    rows, peaks = [], []
    with tempfile.TemporaryDirectory() as directory:
        for pairs in (SMALL, options.large):
            corpus = Path(directory) / str(pairs)
            write_corpus(corpus, pairs)
            peak = measure_peak(train, corpus, options.presets[0], options.vocabulary)
            rows.append([f"{pairs:,} pairs", peak.mb, peak.mapped_mb, peak.seconds])
            peaks.append(peak.mb)
    extra = peaks[1] - peaks[0]
    title = f"A run of {options.presets[0]}: {extra:+.0f} MB for the larger corpus"
    columns = ["corpus", "peak MB", "of them mapped files", "seconds"]
    return Table(f"{title}, at most {PROMISE_MB:.0f}", columns, rows), extra


def train(corpus: Path, preset: str, vocabulary: int) -> None:
    """A whole run, from text to a model that has made some updates."""
    data = {side: {"source": f"{side}.src.gz", "target": f"{side}.tgt.gz"} for side in SIDES}
    settings = {"steps": UPDATES, "best_by": "loss"}
    config = parse_config(
        {
            "data": {"root": str(corpus), **data},
            "tokenizer": {"size": vocabulary},
            "model": {"preset": preset},
            "train": {"device": "cpu", **settings},
        }
    )
    untold.train(config, untold.RunOptions(corpus / "run"))


SIDES = ("train", "valid")


def write_corpus(root: Path, pairs: int) -> None:
    """Sentences of made-up words; the target is the source in other words and reversed order."""
    root.mkdir()
    sentences = _sentences()
    for side, count in zip(SIDES, (pairs, VALIDATION), strict=True):
        with (
            gzip.open(root / f"{side}.src.gz", "wt", compresslevel=1, encoding="utf-8") as source,
            gzip.open(root / f"{side}.tgt.gz", "wt", compresslevel=1, encoding="utf-8") as target,
        ):
            for one, other in itertools.islice(sentences, count):
                source.write(one + "\n")
                target.write(other + "\n")


def _sentences() -> Iterator[tuple[str, str]]:
    generator = random.Random(1)
    sources, targets = ([_word(generator) for _ in range(WORDS)] for _ in range(2))
    while True:
        length = generator.randint(3, 30)
        # Squaring makes low numbers frequent, as in language some words are.
        words = [int(WORDS * generator.random() ** 2) for _ in range(length)]
        yield (
            " ".join([sources[word] for word in words]),
            " ".join([targets[word] for word in reversed(words)]),
        )


def _word(generator: random.Random) -> str:
    syllables = generator.randint(1, 4)
    return "".join(
        generator.choice("bdfgklmnprstvz") + generator.choice("aeiou") for _ in range(syllables)
    )


def measure_updates(options: argparse.Namespace) -> Table:
    """Peaks of processes that make updates, beside those of a plain model."""
    rows: list[list[Any]] = []
    for preset in options.presets:
        plain = None
        for name in options.variants:
            peak = measure_peak(update, options, preset, name).mb
            plain = plain or peak
            rows.append([f"{preset}, {name}", peak, peak / plain])
    title = f"{options.batches} updates of {options.batch_tokens} tokens"
    return Table(title, ["model", "peak MB", f"of {options.variants[0]}"], rows)


def update(options: argparse.Namespace, preset: str, name: str) -> None:
    """Makes one update on each batch."""
    torch.set_num_threads(1)
    workload = read_workload(options)
    config = varied(shape(preset, 0.1), past_future_variants()[name])
    training = UntoldTraining(config, options.vocabulary, workload)
    for batch in training_batches(workload, options.batch_tokens, options.batches):
        training.update(batch)


if __name__ == "__main__":
    main()
