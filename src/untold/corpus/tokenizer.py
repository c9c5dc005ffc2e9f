"""Tokenizers turn text into ids and back: one for both languages, or one for each.

`Tokenizer` is what the rest of untold relies on; `SentencePieceTokenizer` satisfies it, and any
other tokenizer that does can take its place. A sentencepiece model takes text as it is, so that
decode(encode(text)) == text for all text whose characters the vocabulary knows. sentencepiece keeps
four characters for itself: U+2581 comes back as a space; tab, NUL and U+2585 are never in a
vocabulary, so they are unknown unless it has bytes to fall back to.

BPE-dropout (Provilkov et al., 2020) skips random merges, so that segmentations of a word vary.
sentencepiece offers it too, but seeds its random numbers differently in every process: a resumed
run would not repeat an uninterrupted one. Here a segmentation depends only on the text and the
random generator.
"""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import sentencepiece

from untold.errors import UntoldError
from untold.registry import Registry

# sentencepiece dies at a word of 65,536 characters; of kind "word" it makes entries that it cannot
# load from 8,000 bytes on; of kind "unigram" it takes hours for long lines that repeat themselves.
LONGEST_WORD = 1_000  # characters; lines to learn from are cut to the same length
_WORD_PIECES = re.compile("▁[^▁]*")
_SUFFIX = ".model"


@dataclass(frozen=True)
class SpecialIds:
    """Lists the ids of one vocabulary that stand for no text."""

    pad: int
    unk: int
    bos: int
    eos: int
    never_generated: tuple[int, ...] = ()  # further ids that no translation holds: language codes

    @cached_property
    def forbidden(self) -> tuple[int, ...]:
        """Lists the ids that a search never generates; it generates EOS to end a translation."""
        return (self.pad, self.unk, self.bos, *self.never_generated)

    @property
    def control(self) -> frozenset[int]:
        """Holds the ids that given text may not contain."""
        return frozenset((self.pad, self.bos, self.eos, *self.never_generated))


SENTENCEPIECE_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)  # of every vocabulary that untold trains


# Tokenizers that untold does not train: subclasses of `Tokenizers`. A model directory that holds
# the folder NAME_tokenizer is read with the one of that name.
TOKENIZERS: Registry[Any] = Registry(
    "tokenizer",
    "untold.tokenizers",
    {"huggingface": "untold.huggingface.tokenizer:HuggingFaceTokenizers"},
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
        return self._processor.encode(list(check_unicode(texts)), num_threads=1)

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


def drop_merges(
    text: str, scores: Mapping[str, float], dropout: float, rng: random.Random
) -> Iterator[str]:
    """Yields the pieces of a text, with ▁ for a space; dropout 0 gives sentencepiece's own pieces.

    `scores` maps each piece that a merge may make to its score; the highest score merges first. No
    merge crosses a multiple of LONGEST_WORD characters in a word: the time for a word grows with
    the square of its length, and so the time for a text grows with its length alone.
    """
    if text:
        for word in _WORD_PIECES.findall("▁" + text.replace(" ", "▁")):
            for start in range(0, len(word), LONGEST_WORD):
                yield from _merge(list(word[start : start + LONGEST_WORD]), scores, dropout, rng)


def _merge(
    pieces: list[str], scores: Mapping[str, float], dropout: float, rng: random.Random
) -> list[str]:
    """Merges the best pair until none is left; each round skips each pair with p = dropout."""
    while True:
        best_score, position = -float("inf"), -1
        for k in range(len(pieces) - 1):
            score = scores.get(pieces[k] + pieces[k + 1])
            if score is not None and score > best_score and rng.random() >= dropout:
                best_score, position = score, k
        if position < 0:
            return pieces
        pieces[position : position + 2] = [pieces[position] + pieces[position + 1]]


def check_unicode(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts; refuses one that is not valid Unicode, which no tokenizer can encode."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UntoldError(
                f"text {number} holds a lone surrogate (U+{ord(text[error.start]):04X}) at "
                f"character {error.start + 1}: it is not valid Unicode, remove it"
            ) from None
        yield text
