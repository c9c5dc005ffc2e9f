"""The vocabularies of a Marian tokenizer as sentencepiece models with untold's control tokens.

Marian cuts a text with one file and numbers the pieces by another, vocab.json. Here both become one
sentencepiece model for each language, beside the row of Marian's embedding that each entry has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.corpus.tokenizer import SENTENCEPIECE_IDS, SentencePieceTokenizer, Tokenizers
from untold.errors import UntoldError, shorten
from untold.export.piece_file import (
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    PieceFile,
    VocabularyPiece,
)

_OWN = ("<pad>", "<unk>", "<s>", "</s>")
_USER_DEFINED = 4
_CUTTING = (NORMAL, _USER_DEFINED, BYTE)  # kinds of pieces that a text can be cut into


@dataclass(frozen=True)
class ImportedSide:
    """Holds the tokenizer of one language."""

    tokenizer: SentencePieceTokenizer
    rows: tuple[int, ...]  # of Marian's embedding, for each id of ours
    unsaid: tuple[int, ...]  # ids of ours that Marian's output layer does not have


@dataclass(frozen=True)
class ImportedVocabulary:
    """Holds both languages; a vocabulary that they share, and cut alike, is one object."""

    source: ImportedSide
    target: ImportedSide

    @property
    def tokenizers(self) -> Tokenizers:
        """Returns the tokenizers of both."""
        return Tokenizers(self.source.tokenizer, self.target.tokenizer)


def import_vocabulary(
    tokenizer: Any, start: int, where: str, *, shared: bool
) -> ImportedVocabulary:
    """Converts the tokenizer of transformers; a decoder begins with the id `start`.

    `shared`: both languages have one embedding.
    """
    kind = type(tokenizer).__name__
    if kind != "MarianTokenizer":
        raise UntoldError(
            f"{where}: its tokenizer is a {shorten(kind)}, not Marian's: {_cure(where)}"
        )
    if codes := tokenizer.supported_language_codes:
        raise UntoldError(
            f"{where}: the source begins with a language, such as {shorten(codes[0])}, which "
            f"untold's own models do not read: {_cure(where)}"
        )
    models = [Path(each).read_bytes() for each in tokenizer.spm_files]
    files = [PieceFile.parse(each) for each in models]
    tables = [tokenizer.encoder] * 2
    if tokenizer.separate_vocabs:
        tables[1] = tokenizer.target_encoder
    control = _Control.of(tokenizer, start, where)
    is_known = all(each.text in tables[1] for each in files[1].pieces if each.kind in _CUTTING)
    target = _side(files[1], tables[1], control, is_target=True)
    if shared and is_known and models[0] == models[1] and not tokenizer.separate_vocabs:
        return ImportedVocabulary(target, target)
    return ImportedVocabulary(_side(files[0], tables[0], control, is_target=False), target)


@dataclass(frozen=True)
class _Control:
    """Names Marian's control tokens."""

    pad: str
    unk: str
    eos: str
    start: int
    where: str

    @classmethod
    def of(cls, tokenizer: Any, start: int, where: str) -> "_Control":
        """Asks the tokenizer."""
        pad, unk, eos = tokenizer.pad_token, tokenizer.unk_token, tokenizer.eos_token
        return cls(str(pad), str(unk), str(eos), start, where)

    def rows(self, table: Mapping[str, int]) -> list[int]:
        """Lists their rows in the order of our own control tokens."""
        return [table[self.pad], table[self.unk], self.start, table[self.eos]]


def _side(
    file: PieceFile, table: Mapping[str, int], control: _Control, *, is_target: bool
) -> ImportedSide:
    """Converts one language.

    A piece without a number is unknown to Marian. In a source it becomes an entry with the vector
    of unknown words. Translations never hold one, so that a target is cut into others. What only
    the other language has can be said, too: it stays, but no text is cut into it.
    """
    pieces, rows = [], control.rows(table)
    # Marian's padding also begins a translation: then it is our BOS, and nothing is our padding.
    unsaid = [SENTENCEPIECE_IDS.pad] if table[control.pad] == control.start else []
    names = {*_OWN, control.pad, control.unk, control.eos}
    for piece in file.pieces:
        if piece.kind in (UNKNOWN, CONTROL) or piece.text in names:
            continue
        names.add(piece.text)
        is_known = piece.text in table
        if is_target and not is_known:
            piece = VocabularyPiece(piece.text, piece.score, UNUSED)
            unsaid.append(len(rows))
        pieces.append(piece)
        rows.append(table.get(piece.text, table[control.unk]))
    if is_target:
        others = sorted((number, text) for text, number in table.items() if text not in names)
        pieces += [VocabularyPiece(text, kind=UNUSED) for _, text in others]
        rows += [number for number, _ in others]
    if file.kind != UNIGRAM and any(piece.kind == UNUSED for piece in pieces):
        raise UntoldError(
            f"{control.where}: vocab.json and target.spm hold different pieces, which only a "
            f"unigram vocabulary can express: {_cure(control.where)}"
        )
    made = SentencePieceTokenizer(file.with_pieces(pieces).serialise())
    return ImportedSide(made, tuple(rows), tuple(unsaid))


def _cure(where: str) -> str:
    return f"use it as it is, as {where}"
