"""Groups sentencepiece's pieces into words, finds the words in the text, and merges figures.

The module reads sentencepiece's notation only; another tokenizer's pieces must be written in it
first. In this notation a leading ▁ stands for a space, <0xHH> for a byte and <unk> for the unknown.
A piece of a byte-level tokenizer may hold several bytes, and characters beside them.

A word stands between spaces. The ▁ may be a piece of its own: before the pieces of its word or, for
a second space in a row, before no word at all.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_BLANKS = re.compile(r"\s*")
# Thai and Lao; Burmese; Khmer; CJK punctuation and kana; Chinese characters; full-width forms.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003fffd]"
)

_Edges = tuple[int, int]  # start and stop


@dataclass(frozen=True)
class Word:
    """A word of a text: as it is written there, where it stands, and what a model reads of it."""

    text: str
    characters: tuple[int, int] | None  # [start, stop) in the text; None if it is not found there
    pieces: slice  # never empty
    read_as: str  # the pieces as text, ⁇ for what the tokenizer does not know


def words(text: str, pieces: Sequence[str]) -> tuple[Word, ...]:
    """Splits a text and its pieces into words for display.

    In scripts that are written without spaces each piece is a word: a Chinese sentence is shown in
    its pieces, and a Latin name inside it as one word. Without a text, words are what the pieces
    say.
    """
    whole = _spaced(pieces)
    starts = [start for word in whole for start in _display_starts(pieces, word)]
    return _find(text, pieces, whole, _edges(starts, len(pieces)))


def words_between_spaces(text: str, pieces: Sequence[str]) -> tuple[Word, ...]:
    """Splits a text and its pieces at spaces, in any script: the words that links count.

    They cover all pieces: a lone ▁ belongs to the word after it, or at the end of the text to the
    word before it. A blank text has none.
    """
    whole = _spaced(pieces)
    return _find(text, pieces, whole, whole)


def piece_text(pieces: Sequence[str]) -> str:
    """Returns the pieces as readable text: no ▁, bytes as characters, ⁇ for the unknown."""
    byte_run, text = bytearray(), ""
    for piece in pieces:
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
    looks = {match.start() for match in _BYTE.finditer(text)}
    parts = []
    for place, sign in enumerate(text):
        if "\udc80" <= sign <= "\udcff":
            parts.append(f"<0x{ord(sign) - 0xDC00:02X}>")
        elif sign == _SPACE or place in looks:
            parts += [f"<0x{byte:02X}>" for byte in sign.encode()]
        else:
            parts.append(_SPACE if sign == " " else sign)
    return "".join(parts)


def merge_values(
    values: Float[np.ndarray, " pieces"],
    words: Sequence[Word],
    how: Callable[[np.ndarray], float],
) -> Float[np.ndarray, " n"]:
    """Gives each word the mean, the highest or the sum of its pieces, as `how` says."""
    return np.array([how(values[word.pieces]) for word in words])


def merge_links(
    values: Float[np.ndarray, "pieces_t pieces_i"], target: Sequence[Word], source: Sequence[Word]
) -> Float[np.ndarray, "t i"]:
    """Gives two words the highest value of any two of their pieces; words follow each other."""
    if not target or not source:
        return np.zeros((len(target), len(source)), values.dtype)
    rows = values[: target[-1].pieces.stop, : source[-1].pieces.stop]
    for axis, words in enumerate((target, source)):
        rows = np.maximum.reduceat(rows, [word.pieces.start for word in words], axis=axis)
    return rows


def merge_assignments(
    assignments: Float[np.ndarray, "pieces_t pieces_i g"],
    target: Sequence[Word],
    source: Sequence[Word],
) -> Float[np.ndarray, "t i g"]:
    """Merges the assignments of pieces into assignments of words.

    Row t gives the shares of the source words (past, future, redundant) before target word t is
    generated; the last row gives them before EOS. A target word takes the row of its first piece.
    EOS is the last row of `assignments`; the column of the source's EOS belongs to no word.
    """
    return merge_shares(assignments[word_steps(target, len(assignments))], source)


def word_steps(target: Sequence[Word], steps: int) -> list[int]:
    """Lists the steps before each target word and, last, before EOS."""
    return [*(word.pieces.start for word in target), steps - 1]


def merge_shares(
    shares: Float[np.ndarray, "t pieces_i g"], source: Sequence[Word]
) -> Float[np.ndarray, "t i g"]:
    """Merges the shares of source pieces into shares of source words, at all steps.

    The redundant share of a source word is the product of its pieces' redundant shares, because
    often only the ▁ before a word or its ending is redundant. Past and future divide the rest in
    the proportion of their sums over the pieces.
    """
    merged = [_merge_pieces(shares[:, word.pieces]) for word in source]
    shape = (len(shares), 0, shares.shape[2])
    return np.stack(merged, axis=1) if merged else np.zeros(shape, shares.dtype)


def merge_copying(
    copying: Float[np.ndarray, "pieces_t pieces_i"],
    target: Sequence[Word],
    source: Sequence[Word],
) -> Float[np.ndarray, "t i"]:
    """Returns the share of each target word that was copied from each source word.

    It sums the probabilities over the pieces of the source word, and averages them over the pieces
    of the target word. The last row is that of EOS.
    """
    rows = [copying[word.pieces].mean(axis=0) for word in target]
    steps = np.stack([*rows, copying[-1]])
    merged = [steps[:, word.pieces].sum(axis=1) for word in source]
    return np.stack(merged, axis=1) if merged else np.zeros((len(steps), 0), copying.dtype)


def _find(
    text: str, pieces: Sequence[str], whole: Sequence[_Edges], edges: Sequence[_Edges]
) -> tuple[Word, ...]:
    """Makes words of pieces; takes whole ones from the text, which may have unknown characters."""
    written = [word for word in text.split(" ") if word]
    by_edges = dict(zip(whole, written, strict=True)) if len(whole) == len(written) else {}
    read = [piece_text(pieces[start:stop]) for start, stop in edges]
    texts = [by_edges.get(edge) or shown for edge, shown in zip(edges, read, strict=True)]
    places = _places(text, texts) or [None] * len(texts)
    parts = (slice(*edge) for edge in edges)
    return tuple(map(Word, texts, places, parts, read))


def _places(text: str, texts: Sequence[str]) -> list[tuple[int, int] | None] | None:
    """Finds where each word stands in the text; None unless they are all that is in it."""
    places: list[tuple[int, int] | None] = []
    place = _end_of_blanks(text, 0)
    for word in texts:
        stop = place + len(word)
        if not text.startswith(word, place):
            return None
        places.append((place, stop))
        place = _end_of_blanks(text, stop)
    return places if place == len(text) else None


def _end_of_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    return blanks.end() if blanks else place


def _spaced(pieces: Sequence[str]) -> list[_Edges]:
    starts, blank = [0], True  # blank: the last word has no text yet
    for position, piece in enumerate(pieces):
        if piece.startswith(_SPACE) and not blank:
            starts.append(position)
            blank = True
        blank = blank and not piece.strip(_SPACE)
    if blank:
        starts.pop()
    return _edges(starts, len(pieces))


def _display_starts(pieces: Sequence[str], word: _Edges) -> Iterator[int]:
    """Yields where a word between spaces starts, and where its pieces are words of their own."""
    yield word[0]
    previous: bool | None = None  # the previous character is unspaced; None at the word's start
    for start, stop in _whole_characters(pieces, word):
        text = piece_text(pieces[start:stop])
        unspaced = bool(UNSPACED.search(text))
        if text and previous is not None and (unspaced or previous):
            yield start
        if text:
            previous = unspaced


def _whole_characters(pieces: Sequence[str], word: _Edges) -> Iterator[_Edges]:
    """Yields single pieces, but keeps the bytes of one UTF-8 character together."""
    start, stop = word
    for position in range(start + 1, stop):
        byte = _BYTE.match(pieces[position])
        if byte is None or not 0x80 <= int(byte[1], 16) < 0xC0:  # no UTF-8 continuation byte
            yield start, position
            start = position
    yield start, stop


def _edges(starts: Sequence[int], stop: int) -> list[_Edges]:
    return list(zip(starts, [*starts[1:], stop], strict=True)) if starts else []


def _merge_pieces(shares: Float[np.ndarray, "t pieces g"]) -> Float[np.ndarray, "t g"]:
    # Redundant is the last category.
    past_future, redundant = shares[..., :-1].sum(axis=1), shares[..., -1:]
    all_redundant, rest = redundant.prod(axis=1), (1 - redundant).sum(axis=1)
    past_future = past_future * (1 - all_redundant) / np.where(rest > 0, rest, 1)
    return np.concatenate([past_future, all_redundant], axis=-1)
