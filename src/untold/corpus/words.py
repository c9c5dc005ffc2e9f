"""Groups sentencepiece's pieces into words.

The module reads sentencepiece's notation only; another tokenizer's pieces must be written in it
first. In this notation a leading ▁ stands for a space, <0xHH> for a byte and <unk> for the unknown.
A piece of a byte-level tokenizer may hold several bytes, and characters beside them.

A word stands between spaces. The ▁ may be a piece of its own: before the pieces of its word or, for
a second space in a row, before no word at all.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Thai and Lao; Burmese; Khmer; CJK punctuation and kana; Chinese characters; full-width forms.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003fffd]"
)


@dataclass(frozen=True)
class Span:
    """Names the pieces start, start + 1, ..., stop - 1; there is at least one."""

    start: int
    stop: int


def word_spans(pieces: Sequence[str]) -> tuple[Span, ...]:
    """Returns one span for each word between spaces, in order; blank text has none.

    The spans cover all pieces: a lone ▁ belongs to the word after it, or at the end of the text to
    the word before it.
    """
    starts, blank = [0], True  # blank: the last span has no text yet
    for position, piece in enumerate(pieces):
        if piece.startswith(_SPACE) and not blank:
            starts.append(position)
            blank = True
        blank = blank and not piece.strip(_SPACE)
    if blank:
        starts.pop()
    return _spans_from_starts(starts, len(pieces))


def display_spans(pieces: Sequence[str]) -> tuple[Span, ...]:
    """Splits pieces into words for display.

    It differs from word_spans in scripts that are written without spaces: there each piece is a
    word. A Chinese sentence is shown in its pieces, and a Latin name inside it as one word.
    """
    starts = []
    for word in word_spans(pieces):
        starts.append(word.start)
        previous: bool | None = None  # the previous character is unspaced; None at the word's start
        for part in _whole_characters(pieces, word):
            text = span_text(pieces, part)
            unspaced = bool(UNSPACED.search(text))
            if text and previous is not None and (unspaced or previous):
                starts.append(part.start)
            if text:
                previous = unspaced
    return _spans_from_starts(starts, len(pieces))


def span_text(pieces: Sequence[str], span: Span) -> str:
    """Returns the pieces as readable text: no ▁, bytes as characters, ⁇ for the unknown."""
    byte_run, text = bytearray(), ""
    for piece in pieces[span.start : span.stop]:
        for number, part in enumerate(_BYTE.split(piece)):  # every second part is a byte
            if number % 2:
                byte_run.append(int(part, 16))
            elif part:
                text += byte_run.decode(errors="replace")
                byte_run.clear()
                text += "⁇" if part == "<unk>" else part.replace(_SPACE, " ")
    return (text + byte_run.decode(errors="replace")).strip(" ")


def byte_piece(raw: bytes) -> str:
    """Writes the bytes of a piece in sentencepiece's notation; no two are written alike.

    Whole characters stay as they are, but for ▁ and what would look like a byte.
    """
    text = raw.decode(errors="surrogateescape")
    looks = {found.start() for found in _BYTE.finditer(text)}
    parts = []
    for place, sign in enumerate(text):
        if "\udc80" <= sign <= "\udcff":
            parts.append(f"<0x{ord(sign) - 0xDC00:02X}>")
        elif sign == _SPACE or place in looks:
            parts += [f"<0x{byte:02X}>" for byte in sign.encode()]
        else:
            parts.append(_SPACE if sign == " " else sign)
    return "".join(parts)


def _spans_from_starts(starts: Sequence[int], stop: int) -> tuple[Span, ...]:
    return tuple(map(Span, starts, [*starts[1:], stop]))


def _whole_characters(pieces: Sequence[str], word: Span) -> Iterator[Span]:
    """Yields single pieces, but keeps the bytes of one UTF-8 character together."""
    start = word.start
    for position in range(word.start + 1, word.stop):
        byte = _BYTE.match(pieces[position])
        if byte is None or not 0x80 <= int(byte[1], 16) < 0xC0:  # no UTF-8 continuation byte
            yield Span(start, position)
            start = position
    yield Span(start, word.stop)
