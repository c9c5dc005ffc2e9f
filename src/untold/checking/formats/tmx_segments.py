"""Reads segments from translation memories (TMX 1.4 and before)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from untold.checking.formats.segment_rules import (
    ReadOptions,
    finish_segment,
    ignored_kinds,
    language_rank,
)
from untold.checking.formats.xml_units import XmlKind, XmlUnit, read_units
from untold.checking.inline_markup import inline_text
from untold.checking.segment import Damage, Segment
from untold.errors import UntoldError, shorten

__all__ = ["read_tmx_segments"]

_TMX = XmlKind(root="tmx", units=frozenset({"tu"}), header="header")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MOST_LANGUAGES = 50  # that are remembered to be named
_CHOOSE = "choose with --source-language and --target-language"


def read_tmx_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each unit in two languages.

    By default the source is the `srclang` of the header, or else the language that comes first, and
    the target is the other language. If there are several others, one must be chosen.
    """
    languages = _Languages(str(path), options)
    for unit in read_units(path, _TMX):
        if isinstance(unit, Damage):
            yield unit
            continue
        variants = [_Variant.read(child) for child in unit.element if _named(child, "tuv")]
        source, target = languages.choose(variants, unit.header.get("srclang", "*all*"))
        if source is not None or target is not None:
            yield finish_segment(_raw(unit, source, target, str(path)), gui=False)
    languages.check()


@dataclass(frozen=True)
class _Variant:
    """A unit in one language."""

    element: Any
    language: str

    @classmethod
    def read(cls, element: Any) -> "_Variant":
        return cls(element, element.get(_LANGUAGE) or element.get("lang") or "")

    @property
    def text(self) -> str:
        return "".join(inline_text(child) for child in self.element if _named(child, "seg"))


@dataclass
class _Languages:
    """Chooses two variants of each unit, and remembers which languages there were."""

    file: str
    options: ReadOptions
    source: str | None = None
    seen: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)  # that could be the target
    found: set[str] = field(default_factory=set)  # sides that were there at least once

    def choose(
        self, variants: list[_Variant], declared: str
    ) -> tuple[_Variant | None, _Variant | None]:
        """Returns the variants of source and target; None if the unit has none."""
        if len(self.seen) < _MOST_LANGUAGES:
            self.seen.update(dict.fromkeys(each.language for each in variants))
        if self.source is None:
            chosen = self.options.source_language or declared
            first = variants[0].language if len(variants) > 1 else None
            self.source = chosen if chosen.lower() != "*all*" else first
        source = _best(variants, self.source) if self.source is not None else None
        if self.options.target_language is not None:
            target = _best(variants, self.options.target_language)
        else:
            target = None if source is None else self._other(variants, source)
        self.found |= {"source"} if source else set()
        self.found |= {"target"} if target else set()
        return source, target

    def check(self) -> None:
        """Refuses a language that never occurred."""
        if not self.seen:
            return
        there = ", ".join(shorten(language) for language in self.seen)
        if self.source is not None and "source" not in self.found:
            raise UntoldError(
                f"{self.file}: no text in the source language {shorten(self.source)}; there are "
                f"{there}: {_CHOOSE}"
            )
        if self.options.target_language is not None and "target" not in self.found:
            raise UntoldError(
                f"{self.file}: no text in the target language "
                f"{shorten(self.options.target_language)}; there are {there}: {_CHOOSE}"
            )

    def _other(self, variants: list[_Variant], source: _Variant) -> _Variant | None:
        others = [each for each in variants if each.language != source.language]
        self.others.update(dict.fromkeys(each.language for each in others))
        if len(self.others) > 1:
            there = ", ".join(shorten(language) for language in self.seen)
            raise UntoldError(f"{self.file}: several languages ({there}): {_CHOOSE}")
        return others[0] if others else None


def _best(variants: list[_Variant], wanted: str) -> _Variant | None:
    ranks = [language_rank(wanted, each.language) for each in variants]
    fitting = [pair for pair in zip(ranks, variants, strict=True) if pair[0] is not None]
    return min(fitting, key=lambda pair: pair[0] or 0)[1] if fitting else None


def _raw(unit: XmlUnit, source: _Variant | None, target: _Variant | None, file: str) -> Segment:
    within = [unit.element, *(each.element for each in (source, target) if each is not None)]
    notes = [inline_text(child) for each in within for child in each if _named(child, "note")]
    return Segment(
        file,
        unit.line(unit.element if target is None else target.element),
        "" if source is None else source.text,
        "" if target is None else target.text,
        shorten(unit.element.get("tuid", "")),
        ignored_kinds("\n".join(notes)),
    )


def _named(element: Any, name: str) -> bool:
    return isinstance(element.tag, str) and element.tag.rpartition("}")[2] == name
