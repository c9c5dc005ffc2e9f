"""Splits text into the words that alignments link, in one of four ways.

blank      splits at blanks, for text that is tokenised
word       also separates punctuation, for plain text
character  also separates every character of scripts that are written without blanks
jieba      splits Chinese into words by rjieba (the extra `zh`)
"""

import importlib
import re
from collections.abc import Callable, Sequence

from untold.config import Splitting
from untold.corpus.word_spans import UNSPACED
from untold.errors import UntoldError

__all__ = ["looks_unsegmented", "refuse_unsegmented", "splitter"]

_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_CHARACTER = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+|[^\w\s]")
_LONGEST = 6  # mean characters per word; segmented Chinese has about 2, Thai 4


def splitter(splitting: Splitting) -> Callable[[str], list[str]]:
    """Returns a function that splits a text; no word is empty or contains a blank."""
    ways: dict[Splitting, Callable[[], Callable[[str], list[str]]]] = {
        "blank": lambda: str.split,
        "word": lambda: _WORD.findall,
        "character": lambda: _CHARACTER.findall,
        "jieba": _jieba,
    }
    return ways[splitting]()


def refuse_unsegmented(texts: Sequence[str], splitting: Splitting, side: str) -> None:
    """Refuses text without blanks, such as Chinese, which would be one long word a sentence."""
    if splitting not in ("blank", "word"):
        return
    if looks_unsegmented(texts):
        raise UntoldError(
            f"the {side} side has {_mean_length(texts):.0f} characters to a word, as if written "
            f"without blanks: choose jieba or character as its words, not {splitting}"
        )


def looks_unsegmented(texts: Sequence[str]) -> bool:
    """Tells if words of scripts such as Chinese are too long to be words."""
    return _mean_length(texts) > _LONGEST


def _mean_length(texts: Sequence[str]) -> float:
    """Returns the mean length of the words that have characters of a script without blanks."""
    characters = sum(len(UNSPACED.findall(text)) for text in texts)
    words = sum(1 for text in texts for word in text.split() if UNSPACED.search(word))
    return characters / words if words else 0.0


def _jieba() -> Callable[[str], list[str]]:
    try:
        rjieba = importlib.import_module("rjieba")
    except ImportError:
        raise UntoldError("words by jieba need rjieba: pip install 'untold[zh]'") from None
    return lambda text: [word for part in text.split() for word in rjieba.cut(part)]
