"""Tokenizers turn text into ids and back: one for both languages, or one for each.

`Tokenizer` is what the rest of untold relies on; `SentencePieceTokenizer` satisfies it, and any
other tokenizer that does can take its place. A sentencepiece model takes text as it is, so that
decode(encode(text)) == text for all text whose characters the vocabulary knows. sentencepiece keeps
four characters for itself: U+2581 comes back as a space; tab, NUL and U+2585 are never in a
vocabulary, so they are unknown unless it has bytes to fall back to.
"""

import hashlib
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import sentencepiece

from untold.config import TokenizerConfig
from untold.corpus.bpe_dropout import drop_merges
from untold.corpus.vocabulary import SENTENCEPIECE_IDS, SpecialIds
from untold.corpus.vocabulary_training import learn_vocabulary
from untold.errors import UntoldError
from untold.registry import Registry

__all__ = [
    "TOKENIZERS",
    "SentencePieceTokenizer",
    "Tokenizer",
    "Tokenizers",
    "check_unicode",
    "lines_to_learn_from",
    "train_tokenizers",
]

# Beyond this many sentences of all kinds of a corpus's text a vocabulary hardly changes, only
# training time and memory do.
_SENTENCES_ENOUGH = 2_000_000
_BYTES, _CONTROLS = 256, 4  # entries that a vocabulary has besides those that it learns
_SUFFIX = ".model"

# Tokenizers that untold does not train: subclasses of `Tokenizers`. A model directory that holds
# the folder NAME_tokenizer is read with the one of that name.
TOKENIZERS: Registry[Any] = Registry(
    "tokenizer",
    "untold.tokenizers",
    {"huggingface": "untold.huggingface.huggingface_tokenizer:HuggingFaceTokenizers"},
)


@runtime_checkable
class Tokenizer(Protocol):
    """One vocabulary. Ids passed in or out never include BOS and EOS of a whole sentence."""

    def __len__(self) -> int: ...

    @property
    def special_ids(self) -> SpecialIds:
        """Names the ids that stand for no text."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when anything about the vocabulary or the segmentation does."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. No text can yield a control token but UNK."""
        ...

    def encode_sampled(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Encodes with BPE-dropout; the same seed gives the same ids in any process."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids on one line, without control tokens."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subwords, a leading ▁ where a space stands before one."""
        ...

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Inverts `pieces`; a piece that is not in the vocabulary becomes UNK."""
        ...

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Marks the ids that begin a word."""
        ...

    def save(self, directory: Path, name: str) -> None:
        """Writes its files, whose names begin with `name`, into a directory."""
        ...


class SentencePieceTokenizer:
    """A sentencepiece vocabulary; `model` is the serialised model, all there is to save."""

    special_ids = SENTENCEPIECE_IDS

    def __init__(self, model: bytes) -> None:
        self.model = model
        if not model:
            raise UntoldError("not a sentencepiece model: it is empty: get it again")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self._processor.id_to_piece(list(range(len(self))))  # every piece must be UTF-8,
            self._processor.decode([self.special_ids.unk])  # and what stands for an unknown one
        except (RuntimeError, ValueError, IndexError) as error:
            raise UntoldError(f"not a sentencepiece model: {error}: get it again") from None
        p, ids = self._processor, self.special_ids
        if SpecialIds(p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id()) != ids:
            raise UntoldError(
                f"the sentencepiece model has other control ids than pad {ids.pad}, unk {ids.unk}, "
                f"bos {ids.bos}, eos {ids.eos}: train one with untold"
            )

    @classmethod
    def load(cls, directory: Path, name: str) -> "SentencePieceTokenizer":
        """Reads what `save` wrote under the same name."""
        path = directory / f"{name}{_SUFFIX}"
        try:
            return cls(path.read_bytes())
        except UntoldError as error:
            raise UntoldError(f"{path}: {error}") from None

    def save(self, directory: Path, name: str) -> None:
        """Writes the model as NAME.model."""
        (directory / f"{name}{_SUFFIX}").write_bytes(self.model)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything about the vocabulary does."""
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. No text can yield a control token but UNK."""
        return self._processor.encode(check_unicode(texts), num_threads=1)

    def encode_sampled(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Encodes with BPE-dropout; the same seed gives the same ids in any process."""
        dice = random.Random(seed)
        return [
            self._ids(drop_merges(text, self._merges, dropout, dice))
            for text in check_unicode(texts)
        ]

    @cached_property
    def _merges(self) -> dict[str, float]:
        """Maps each piece that merges can make to its score; control tokens and bytes are none."""
        p = self._processor
        ids = (i for i in range(len(self)) if not (p.is_control(i) or p.is_unknown(i)))
        return {p.id_to_piece(i): p.get_score(i) for i in ids if not p.is_byte(i)}

    def _ids(self, pieces: Iterable[str]) -> list[int]:
        """Looks pieces up as sentencepiece does: unknown neighbours become bytes or one UNK."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self._merges:
                ids.append(self._processor.piece_to_id(piece))
            elif self._has_bytes:
                ids += [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]
            elif ids[-1:] != [self.special_ids.unk]:
                ids.append(self.special_ids.unk)
        return ids

    @cached_property
    def _has_bytes(self) -> bool:
        return any(self._processor.is_byte(i) for i in range(len(self)))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns text without control tokens, always on one line: a byte piece cannot break it."""
        return self._processor.decode(list(ids)).replace("\n", " ").replace("\r", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subwords as sentencepiece writes them, a leading ▁ for a space."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Inverts `pieces`; a piece that is not in the vocabulary becomes UNK."""
        return [self._processor.piece_to_id(piece) for piece in pieces]

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Marks the ids that begin a word: their piece begins with a space."""
        return [piece.startswith("▁") for piece in self.pieces(ids)]


@dataclass(frozen=True)
class Tokenizers:
    """Holds the tokenizers of both languages; they may be the same object."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Says that both languages share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Changes when either vocabulary does."""
        return hashlib.sha256(
            f"{self.source.fingerprint} {self.target.fingerprint}".encode()
        ).hexdigest()

    @property
    def special_ids(self) -> tuple[SpecialIds, SpecialIds]:
        """Names the special ids of the source's and of the target's vocabulary."""
        return self.source.special_ids, self.target.special_ids

    @property
    def sizes(self) -> tuple[int, int]:
        """Counts the entries of the source's and of the target's vocabulary."""
        return len(self.source), len(self.target)

    def counterparts(self) -> list[int]:
        """Maps each source id to the target id of the same piece.

        A piece that the target lacks, and every special id, is mapped to the target's PAD.
        """
        pad = self.target.special_ids.pad
        ids = {piece: i for i, piece in enumerate(self.target.pieces(range(len(self.target))))}
        found = [ids.get(piece, pad) for piece in self.source.pieces(range(len(self.source)))]
        own = self.source.special_ids
        special = own.control | {own.unk}
        return [pad if i in special else same for i, same in enumerate(found)]

    def save(self, directory: Path) -> None:
        """Writes one tokenizer under the name joint, or two under source and target."""
        if self.joint:
            self.source.save(directory, "joint")
        else:
            self.source.save(directory, "source")
            self.target.save(directory, "target")

    @classmethod
    def load(cls, directory: Path) -> "Tokenizers":
        """Reads what `save` wrote, or what a tokenizer of another kind wrote to its folder."""
        for kind in TOKENIZERS.names:
            if (directory / f"{kind}_tokenizer").is_dir():
                return TOKENIZERS[kind].load(directory)
        load = SentencePieceTokenizer.load
        if (directory / f"joint{_SUFFIX}").exists():
            tokenizer = load(directory, "joint")
            return cls(tokenizer, tokenizer)
        try:
            return cls(load(directory, "source"), load(directory, "target"))
        except FileNotFoundError as error:
            raise UntoldError(f"{error.filename}: no tokenizer here") from None


def lines_to_learn_from(config: TokenizerConfig) -> int:
    """Counts the lines of each language that `train_tokenizers` looks at; it ignores all others."""
    return _SENTENCES_ENOUGH // 2 if config.joint else _SENTENCES_ENOUGH


def train_tokenizers(
    config: TokenizerConfig, sources: Iterable[str], targets: Iterable[str]
) -> Tokenizers:
    """Learns one vocabulary from both languages' text, or one from each."""
    most = lines_to_learn_from(config)
    sides = [itertools.islice(texts, most) for texts in (sources, targets)]
    if config.joint:
        tokenizer = _train(config, itertools.chain(*sides))
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(_train(config, sides[0]), _train(config, sides[1]))


def _train(config: TokenizerConfig, texts: Iterable[str]) -> SentencePieceTokenizer:
    if config.byte_fallback and config.size <= _BYTES + _CONTROLS:
        raise UntoldError(
            f"tokenizer.size = {config.size}: with tokenizer.byte_fallback, {_BYTES} bytes and "
            f"{_CONTROLS} control tokens take their places first: raise tokenizer.size above "
            f"{_BYTES + _CONTROLS}"
        )
    texts = (_valid(text, number) for number, text in enumerate(texts, start=1))
    first = next((text for text in texts if text.strip()), None)
    if first is None:
        raise UntoldError("no text to learn a vocabulary from: the training data are all blank")
    options = {
        "model_type": config.kind,
        "vocab_size": config.size,
        "hard_vocab_limit": False,
        "character_coverage": config.character_coverage,
        "byte_fallback": config.byte_fallback,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "input_sentence_size": _SENTENCES_ENOUGH,
        "shuffle_input_sentence": False,
        "max_sentence_length": 1 << 20,
        "pad_id": SENTENCEPIECE_IDS.pad,
        "unk_id": SENTENCEPIECE_IDS.unk,
        "bos_id": SENTENCEPIECE_IDS.bos,
        "eos_id": SENTENCEPIECE_IDS.eos,
        "unk_surface": "⁇",
        "num_threads": 1,
        "minloglevel": 2,
    }
    return SentencePieceTokenizer(learn_vocabulary(itertools.chain([first], texts), options))


def check_unicode(texts: Sequence[str]) -> list[str]:
    """Returns the texts; refuses one that is not valid Unicode, which no tokenizer can encode."""
    return [_valid(text, number) for number, text in enumerate(texts, start=1)]


def _valid(text: str, number: int) -> str:
    """Returns the text; no encoder takes one that is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UntoldError(
            f"text {number} holds a lone surrogate (U+{ord(text[error.start]):04X}) at character "
            f"{error.start + 1}: it is not valid Unicode, remove it"
        ) from None
    return text
