"""Text into the words that links count, in one of a few ways that the user chooses.

blank: what stands between blanks, for text that is tokenised. word: for plain text, marks of
punctuation stand alone. character: also every character of a script that is written without
blanks. jieba: Chinese cut into words by rjieba, an extra.
"""

import importlib
import re
from collections.abc import Callable, Sequence

from untold.config import Splitting
from untold.corpus.word_spans import UNSPACED
from untold.errors import UntoldError

__all__ = ["refuse_unsegmented", "splitter"]

_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_CHARACTER = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+|[^\w\s]")
_LONGEST = 6  # characters to a word on average; of segmented Chinese two, of Thai four


def splitter(splitting: Splitting) -> Callable[[str], list[str]]:
    """A function from a text to its words; no word is empty or has a blank in it."""
    ways: dict[Splitting, Callable[[], Callable[[str], list[str]]]] = {
        "blank": lambda: str.split,
        "word": lambda: _WORD.findall,
        "character": lambda: _CHARACTER.findall,
        "jieba": _jieba,
    }
    return ways[splitting]()


def refuse_unsegmented(texts: Sequence[str], splitting: Splitting, side: str) -> None:
    """Chinese and its like without blanks must not be taken for one long word a sentence."""
    if splitting not in ("blank", "word"):
        return
    characters = sum(len(UNSPACED.findall(text)) for text in texts)
    words = sum(1 for text in texts for word in text.split() if UNSPACED.search(word))
    if characters > _LONGEST * words:
        raise UntoldError(
            f"the {side} side has {characters / words:.0f} characters to a word, as if written "
            f"without blanks: choose jieba or character as its words, not {splitting}"
        )


def _jieba() -> Callable[[str], list[str]]:
    try:
        rjieba = importlib.import_module("rjieba")
    except ImportError:
        raise UntoldError("words by jieba need rjieba: pip install 'untold[zh]'") from None
    return lambda text: [word for part in text.split() for word in rjieba.cut(part)]
