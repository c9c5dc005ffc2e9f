"""From sentencepiece's pieces to words: where each word stands, its text, its assignments.

A word stands between spaces. Pieces write a space as a leading ▁; the ▁ may be a piece of its own,
before the pieces of its word or, for a second space in a row, before no word at all.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.categories import REDUNDANT

__all__ = [
    "UNSPACED",
    "Span",
    "display_spans",
    "merge_assignments",
    "merge_copying",
    "span_text",
    "word_spans",
]

_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Thai and Lao; Burmese; Khmer; CJK punctuation and kana; Chinese characters; full-width forms.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003fffd]"
)


@dataclass(frozen=True)
class Span:
    """The pieces start, start + 1, ..., stop - 1; never none."""

    start: int
    stop: int


def word_spans(pieces: Sequence[str]) -> tuple[Span, ...]:
    """One span for each word between spaces, in order; without a word there are none.

    The spans cover all pieces: a lone ▁ belongs to the word after it, at the end to the one before.
    """
    starts, blank = [0], True  # blank: the last span has no text yet
    for place, piece in enumerate(pieces):
        if piece.startswith(_SPACE) and not blank:
            starts.append(place)
            blank = True
        blank = blank and not piece.strip(_SPACE)
    if blank:
        starts.pop()
    return _between(starts, len(pieces))


def display_spans(pieces: Sequence[str]) -> tuple[Span, ...]:
    """As word_spans, but a piece of a script that is written without spaces is a word of its own.

    So a Chinese sentence is shown in its pieces, and a Latin name inside it as one word.
    """
    starts = []
    for word in word_spans(pieces):
        starts.append(word.start)
        before: bool | None = None  # was the character before unspaced? None: there is none yet
        for part in _characters(pieces, word):
            text = span_text(pieces, part)
            unspaced = bool(UNSPACED.search(text))
            if text and before is not None and (unspaced or before):
                starts.append(part.start)
            if text:
                before = unspaced
    return _between(starts, len(pieces))


def span_text(pieces: Sequence[str], span: Span) -> str:
    """What a reader sees of these pieces: no ▁, bytes as characters, ⁇ for the unknown."""
    spelt, text = bytearray(), ""
    for piece in pieces[span.start : span.stop]:
        if byte := _BYTE.fullmatch(piece):
            spelt.append(int(byte[1], 16))
            continue
        text += spelt.decode(errors="replace")
        spelt.clear()
        text += "⁇" if piece == "<unk>" else piece.replace(_SPACE, " ")
    return (text + spelt.decode(errors="replace")).strip(" ")


def merge_assignments(
    assignments: Float[np.ndarray, "pieces_t pieces_i g"],
    target: Sequence[Span],
    source: Sequence[Span],
) -> Float[np.ndarray, "t i g"]:
    """Shares of source words before each target word, and before the end (EOS), the last row.

    A target word has the row of its first piece. A source word is redundant only as far as all of
    its pieces are (the ▁ before a word, or an ending, often is); of the rest, past and future have
    what they have of its pieces. EOS is the last row of `assignments`; the column of the source's
    EOS belongs to no word.
    """
    rows = assignments[[*(span.start for span in target), len(assignments) - 1]]
    merged = [_merge_pieces(rows[:, span.start : span.stop]) for span in source]
    shape = (len(rows), 0, assignments.shape[2])
    return np.stack(merged, axis=1) if merged else np.zeros(shape, assignments.dtype)


def merge_copying(
    copying: Float[np.ndarray, "pieces_t pieces_i"],
    target: Sequence[Span],
    source: Sequence[Span],
) -> Float[np.ndarray, "t i"]:
    """The share of each target word that was copied from each source word; EOS is the last row.

    Of a target word the mean of its pieces, each of which is copied from a piece of a source word
    with the sum of their probabilities.
    """
    ends = (*target, Span(len(copying) - 1, len(copying)))
    rows = np.stack([copying[span.start : span.stop].mean(axis=0) for span in ends])
    words = [rows[:, span.start : span.stop].sum(axis=1) for span in source]
    return np.stack(words, axis=1) if words else np.zeros((len(rows), 0), copying.dtype)


def _merge_pieces(shares: Float[np.ndarray, "t pieces g"]) -> Float[np.ndarray, "t g"]:
    others, redundant = shares[..., :REDUNDANT].sum(axis=1), shares[..., REDUNDANT:]
    every, rest = redundant.prod(axis=1), (1 - redundant).sum(axis=1)
    return np.concatenate([others * (1 - every) / np.where(rest > 0, rest, 1), every], axis=-1)


def _between(starts: Sequence[int], stop: int) -> tuple[Span, ...]:
    return tuple(map(Span, starts, [*starts[1:], stop]))


def _characters(pieces: Sequence[str], word: Span) -> Iterator[Span]:
    """Single pieces, but the bytes of one character together."""
    start = word.start
    for place in range(word.start + 1, word.stop):
        byte = _BYTE.fullmatch(pieces[place])
        if byte is None or not 0x80 <= int(byte[1], 16) < 0xC0:  # not a byte that continues one
            yield Span(start, place)
            start = place
    yield Span(start, word.stop)
