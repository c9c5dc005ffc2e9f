"""From the corpora that a configuration names to a tokenizer and stores in the run's directory."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from untold.config import Config
from untold.corpus.codec import TextCodec
from untold.corpus.filters import Limits
from untold.corpus.readers import fingerprint_corpus, read_pairs
from untold.corpus.store import Store, prepare
from untold.corpus.tokenizer import Tokenizers, train_tokenizers
from untold.durable import new_directory, verify_directory
from untold.errors import UntoldError

__all__ = ["TrainingData", "prepare_data", "prepare_tokenizers"]


@dataclass(frozen=True)
class TrainingData:
    """What a run reads: ids from disk for training, text too for validation."""

    train: Store
    valid: Store | None
    valid_pairs: list[tuple[str, str]]

    def fingerprints(self) -> dict[str, str]:
        """Change when the training or validation data do."""
        stores = {"train": self.train} | ({"valid": self.valid} if self.valid else {})
        return {name: store.fingerprint for name, store in stores.items()}


def prepare_tokenizers(config: Config, run: Path) -> Tokenizers:
    """The run's tokenizers: those it has if they fit, else learnt from its training data."""
    directory = run / "tokenizer"
    root = Path(config.data.root)
    if not config.data.train:
        raise UntoldError("data.train is empty: name the files to train on")
    described = {
        "corpora": [fingerprint_corpus(corpus, root) for corpus in config.data.train],
        "settings": config.tokenizer.model_dump(exclude={"dropout"}),
        "lowercase": config.data.lowercase,
    }
    fingerprint = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    if _has(directory, fingerprint):
        return Tokenizers.load(directory)
    tokenizers = train_tokenizers(config.tokenizer, _texts(config, 0), _texts(config, 1))
    with new_directory(directory, replace=True) as unfinished:
        tokenizers.save(unfinished)
        (unfinished / "fingerprint").write_text(fingerprint)
    return tokenizers


def prepare_data(
    config: Config, tokenizers: Tokenizers, run: Path, say: Callable[[str], None]
) -> TrainingData:
    """Tokenised stores of both corpora, made now or found from an earlier start of the run."""
    root, limits = Path(config.data.root), Limits(config.data.max_tokens, config.data.max_ratio)
    encoder = TextCodec(tokenizers, config.data.lowercase)
    train = prepare(run / "corpus" / "train", config.data.train, root, encoder, limits)
    say(f"training data: {train.report}")
    if config.data.valid is None:
        return TrainingData(train, None, [])
    valid = prepare(run / "corpus" / "valid", [config.data.valid], root, encoder, limits)
    say(f"validation data: {valid.report}")
    pairs = [(pair.source, pair.target) for pair in read_pairs(config.data.valid, root)]
    return TrainingData(train, valid, pairs)


def _has(directory: Path, fingerprint: str) -> bool:
    try:
        verify_directory(directory)
    except UntoldError:
        return False
    return (directory / "fingerprint").read_text() == fingerprint


def _texts(config: Config, side: int) -> Iterator[str]:
    for corpus in config.data.train:
        for pair in read_pairs(corpus, Path(config.data.root)):
            text = (pair.source, pair.target)[side]
            yield text.lower() if config.data.lowercase else text
