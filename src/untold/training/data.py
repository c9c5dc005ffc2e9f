"""Training data: makes the tokenizers and the stores of encoded pairs in the run's directory."""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from untold.config import Config, DataConfig
from untold.corpus.batching import TextCodec
from untold.corpus.corpora import CorpusText, Pair, match_files
from untold.corpus.filters import Limits
from untold.corpus.store import Store, prepare
from untold.corpus.tokenizer import LONGEST_WORD, Tokenizers
from untold.corpus.vocabulary import has_long_word, lines_to_learn_from, train_tokenizers
from untold.errors import UntoldError
from untold.files import new_directory, verify_directory
from untold.progress_bar import task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """Holds the stores of a run, and the validation pairs as text."""

    tokenizers: Tokenizers
    train: Store
    valid: Store | None
    valid_pairs: list[tuple[str, str]]

    def fingerprints(self) -> dict[str, str]:
        """Returns hashes that change when the training or validation data change."""
        stores = {"train": self.train} | ({"valid": self.valid} if self.valid else {})
        return {name: store.fingerprint for name, store in stores.items()}


def check_files(data: DataConfig, known_root: Path | None) -> None:
    """Refuses corpora whose files are missing, and says how to find them.

    `known_root` is where an earlier start of the run found them.
    """
    corpora = [*data.train, *([] if data.valid is None else [data.valid])]
    names = [name for each in corpora for name in (each.source, each.target, each.path) if name]
    missing = [name for name in names if not match_files(Path(data.root), name)]
    if not missing:
        return
    path = Path(data.root) / missing[0]
    if path.is_absolute():
        cure = "correct its name in [data], or give --set data.root=DIRECTORY"
    else:
        cure = f"the name counts from {Path.cwd()}: go elsewhere, or give --set data.root=DIRECTORY"
    if known_root is not None and all((known_root / name).exists() for name in missing):
        cure = f"the run was started with another directory: give --set data.root={known_root}"
    raise UntoldError(f"{path}: no such file: {cure}")


def prepare_data(config: Config, tokenizers: Tokenizers | None, run: Path) -> TrainingData:
    """Encodes both corpora, or opens the stores that an earlier start of the run made.

    Without tokenizers it trains them, or loads those of an earlier start. Each corpus is read once.
    """
    data = config.data
    root, limits = Path(data.root), Limits(data.max_tokens, data.max_ratio, data.max_words)
    with CorpusText(data.train, root, run) as text:
        if tokenizers is None:
            tokenizers = prepare_tokenizers(config, text, run)
        codec = TextCodec(tokenizers, config.data.lowercase)
        train = prepare(run / "corpus" / "train", text, codec, limits)
    logger.info("training data: %s", train.report)
    if config.data.valid is None:
        return TrainingData(tokenizers, train, None, [])
    with CorpusText([config.data.valid], root, run) as text:
        valid = prepare(run / "corpus" / "valid", text, codec, limits)
        pairs = [(pair.source, pair.target) for pair in text.pairs()]
    logger.info("validation data: %s", valid.report)
    return TrainingData(tokenizers, train, valid, pairs)


def prepare_tokenizers(config: Config, text: CorpusText, run: Path) -> Tokenizers:
    """Loads the tokenizers of the run if they fit its data, and else trains them."""
    if not text.corpora:
        raise UntoldError("data.train is empty: name the files to train on")
    described = {
        "corpora": text.fingerprints(),
        "settings": config.tokenizer.model_dump(exclude={"dropout"}),
        "lowercase": config.data.lowercase,
    }
    fingerprint = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    directory = run / "tokenizer"
    if _has(directory, fingerprint):
        return Tokenizers.load(directory)
    long_words = _LongWords()
    count = text.count()  # reads the corpus, which shows its own progress
    most = lines_to_learn_from(config.tokenizer)

    def lines(side: int) -> Iterator[str]:
        pairs = _evenly_spaced(text.pairs(), count, most)
        return _lines(pairs, side, config.data.lowercase, long_words)

    with task("learning the vocabulary"):
        tokenizers = train_tokenizers(config.tokenizer, lines(0), lines(1))
    if long_words.lines:
        logger.warning(str(long_words))
    with new_directory(directory, replace=True) as unfinished:
        tokenizers.save(unfinished)
        (unfinished / "fingerprint").write_text(fingerprint, encoding="utf-8")
    return tokenizers


@dataclass
class _LongWords:
    """Counts the lines with words that are cut before a vocabulary is learnt from them."""

    lines: int = 0
    first: str = ""

    def note(self, place: str) -> None:
        """Counts the line at this place."""
        self.first = self.first or place
        self.lines += 1

    def __str__(self) -> str:
        return (
            f"the vocabulary was learnt from words of at most {LONGEST_WORD:,} characters: longer "
            f"ones were cut (lines: {self.lines:,}, first: {self.first})"
        )


def _evenly_spaced(pairs: Iterable[Pair], count: int, most: int) -> Iterator[Pair]:
    """Yields all pairs, or `most` of them from all over the corpus.

    The beginning of a large corpus is often of one kind: WMT begins with a parliament.
    """
    for number, pair in enumerate(pairs):
        if count <= most or (number + 1) * most // count > number * most // count:
            yield pair


def _lines(
    pairs: Iterable[Pair], side: int, lowercase: bool, long_words: _LongWords
) -> Iterator[str]:
    for pair in pairs:
        line = (pair.source, pair.target)[side]
        if has_long_word(line):
            long_words.note(f"{pair.file}:{pair.line}")
        yield line.lower() if lowercase else line


def _has(directory: Path, fingerprint: str) -> bool:
    try:
        verify_directory(directory)
    except UntoldError:
        return False
    return (directory / "fingerprint").read_text(encoding="utf-8") == fingerprint
