"""Finds the text of an HTML fragment, so that its tags stay as they are."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape

# Comments, scripts, styles and tags; whatever is between them is text.
_MARKUP = re.compile(
    r"(<!--.*?-->|<(?:script|style)\b.*?</(?:script|style)\s*>|<[^<>]*>)",
    re.DOTALL | re.IGNORECASE,
)
_BLANKS = re.compile(r"^(\s*)(.*?)(\s*)$", re.DOTALL)


@dataclass(frozen=True)
class HtmlTexts:
    """A fragment cut into text and markup, which take turns; text comes first."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, fragment: str) -> "HtmlTexts":
        """Cuts a fragment."""
        return cls(tuple(_MARKUP.split(fragment)))

    @property
    def texts(self) -> list[str]:
        """Lists the texts that are not blank, without entities."""
        return [text for _, text, _ in self._cut() if text]

    def filled(self, texts: Sequence[str]) -> str:
        """Puts other texts in the place of `texts`, one for each."""
        others, result = iter(texts), []
        for number, (before, text, after) in enumerate(self._cut()):
            result += [before, escape(next(others), quote=False) if text else "", after]
            result += self.parts[2 * number + 1 : 2 * number + 2]
        return "".join(result)

    def _cut(self) -> Iterator[tuple[str, str, str]]:
        for part in self.parts[::2]:
            found = _BLANKS.match(part)
            before, text, after = found.groups() if found else ("", part, "")
            yield before, unescape(text), after
