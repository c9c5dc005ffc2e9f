"""What the contenders work on: pairs of ids, from the embedded grammar or from two files."""

import itertools
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path

from race import CLOCKS
from untold.config import CorpusConfig, TokenizerConfig
from untold.corpus.batching import Batch, PairsInMemory, collate, plan_epoch
from untold.corpus.corpora import read_pairs
from untold.corpus.tokenizer import Tokenizers, train_tokenizers
from untold.lab.grammars.sampling import load_grammar

__all__ = ["Workload", "add_options", "read_workload", "small_workload", "training_batches"]


@dataclass(frozen=True)
class Workload(PairsInMemory):
    """Pairs of ids, and the tokenizers that made them."""

    tokenizers: Tokenizers


def add_options(parser: ArgumentParser) -> None:
    """The options that every race has."""
    parser.add_argument("--source", type=Path, help="plain text, .gz or not; else the grammar's")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--pairs", type=int, default=20_000, help="at most so many are read")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="rows of the embedding")
    parser.add_argument("--preset", choices=["tiny", "small", "base"], default="tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: on a busy machine, one thread"
    )
    parser.add_argument("--json", type=Path, help="also write the measurements here")


def read_workload(options: Namespace, tokenizers: Tokenizers | None = None) -> Workload:
    """The pairs that the options ask for; without `tokenizers` they make their own vocabulary."""
    texts = _texts(options)
    if tokenizers is None:
        config = TokenizerConfig(size=options.vocabulary)
        tokenizers = train_tokenizers(config, (s for s, _ in texts), (t for _, t in texts))
    sources = tokenizers.source.encode([source for source, _ in texts])
    targets = tokenizers.target.encode([target for _, target in texts])
    return Workload(list(zip(sources, targets, strict=True)), tokenizers)


def small_workload(vocabulary: int, pairs: int = 2000) -> Workload:
    """Pairs of the embedded grammar, for what has no options."""
    return read_workload(Namespace(source=None, target=None, pairs=pairs, vocabulary=vocabulary))


def training_batches(workload: Workload, batch_tokens: int, count: int) -> list[Batch]:
    """The first batches of an epoch: they differ in length as an epoch's batches do."""
    plan = plan_epoch(workload, batch_tokens, seed=1, epoch=0)
    count, special = min(count, len(plan)), workload.tokenizers.special_ids
    return [
        collate(plan.read(workload, number), plan.indices(number), special)
        for number in range(count)
    ]


def _texts(options: Namespace) -> list[tuple[str, str]]:
    if options.source is None:
        samples = itertools.islice(load_grammar("en-de").stream(1), options.pairs)
        return [(" ".join(sample.source), " ".join(sample.target)) for sample in samples]
    corpus = CorpusConfig(source=str(options.source), target=str(options.target or options.source))
    pairs = itertools.islice(read_pairs(corpus, Path()), options.pairs)
    return [(pair.source, pair.target) for pair in pairs]
