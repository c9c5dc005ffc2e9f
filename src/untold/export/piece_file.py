"""Edits sentencepiece models: the pieces, their order, and which of them control the rest.

A model is a protocol buffer. Only the fields that have to change are understood here; all others,
such as the rules of normalisation, are kept as they are.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.errors import UntoldError

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # kinds of pieces
UNIGRAM = 1  # the kind of model that simply skips unused pieces
_PIECES, _TRAINER = 1, 2  # fields of a model
_KIND, _SIZE = 3, 4  # fields of its trainer
_CONTROLS = {  # fields of its trainer with id and text of a control token
    (40, 45): (SENTENCEPIECE_IDS.unk, "<unk>"),
    (41, 46): (SENTENCEPIECE_IDS.bos, "<s>"),
    (42, 47): (SENTENCEPIECE_IDS.eos, "</s>"),
    (43, 48): (SENTENCEPIECE_IDS.pad, "<pad>"),
}
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # how a field is written

Field = tuple[int, int | bytes]  # number and value


@dataclass(frozen=True)
class VocabularyPiece:
    """One entry of a vocabulary."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True)
class PieceFile:
    """Holds a sentencepiece model."""

    pieces: tuple[VocabularyPiece, ...]
    trainer: tuple[Field, ...]
    others: tuple[Field, ...]

    @classmethod
    def parse(cls, model: bytes) -> "PieceFile":
        """Reads a model."""
        try:
            fields = list(_fields(model))
            pieces = tuple(_piece(value) for number, value in fields if number == _PIECES)
            trainer = [value for number, value in fields if number == _TRAINER]
            others = tuple(field for field in fields if field[0] not in (_PIECES, _TRAINER))
            return cls(pieces, tuple(_fields(trainer[-1])) if trainer else (), others)
        except (IndexError, TypeError, ValueError, struct.error) as error:
            raise UntoldError(f"not a sentencepiece model: {error}: get it again") from None

    @property
    def kind(self) -> int:
        """Returns the kind of model: unigram or another."""
        return int(dict(self.trainer).get(_KIND, UNIGRAM))

    def with_pieces(self, pieces: Iterable[VocabularyPiece]) -> "PieceFile":
        """Returns a model with these pieces after the control tokens that untold has."""
        own = [
            VocabularyPiece(text, kind=UNKNOWN if number == SENTENCEPIECE_IDS.unk else CONTROL)
            for number, text in sorted(_CONTROLS.values())
        ]
        whole = (*own, *pieces)
        changed = {_SIZE, *(number for pair in _CONTROLS for number in pair)}
        trainer = [field for field in self.trainer if field[0] not in changed]
        trainer.append((_SIZE, len(whole)))
        for (place, name), (number, text) in _CONTROLS.items():
            trainer += [(place, number), (name, text.encode())]
        return replace(self, pieces=whole, trainer=tuple(trainer))

    def serialise(self) -> bytes:
        """Writes the model."""
        pieces = ((_PIECES, _piece_bytes(piece)) for piece in self.pieces)
        return b"".join(
            _field_bytes(*field)
            for field in (*pieces, (_TRAINER, _message(self.trainer)), *self.others)
        )


def _piece(value: int | bytes) -> VocabularyPiece:
    fields = dict(_fields(value))
    text, score = fields[1], fields.get(2, bytes(4))
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise TypeError("a piece has no text")
    return VocabularyPiece(text.decode(), struct.unpack("<f", score)[0], int(fields.get(3, NORMAL)))


def _piece_bytes(piece: VocabularyPiece) -> bytes:
    score = _varint(2 << 3 | _FOUR) + struct.pack("<f", piece.score)
    kind = b"" if piece.kind == NORMAL else _field_bytes(3, piece.kind)
    return _field_bytes(1, piece.text.encode()) + score + kind


def _message(fields: Iterable[Field]) -> bytes:
    return b"".join(_field_bytes(*field) for field in fields)


def _field_bytes(number: int, value: int | bytes) -> bytes:
    """Writes a whole number, or bytes after their length."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    if isinstance(value, _Fixed):
        return _varint(number << 3 | (_FOUR if len(value) == 4 else _EIGHT)) + value
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


class _Fixed(bytes):
    """A number of four or eight bytes."""


def _fields(message: int | bytes) -> Iterator[Field]:
    if isinstance(message, int):
        raise TypeError("a number in the place of a message")
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        number, written = tag >> 3, tag & 7
        if written == _VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if written == _BYTES:
            size, place = _read_varint(message, place)
        else:
            size = {_FOUR: 4, _EIGHT: 8}.get(written, 0)
        found = message[place : place + size]
        if (not size and written != _BYTES) or len(found) < size:
            raise ValueError("it ends early")
        yield number, found if written == _BYTES else _Fixed(found)
        place += size


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= (1 << 64) - 1  # negative numbers are written as their complement
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
