"""Reads segments from XLIFF 1.2, 2.0 and 2.1."""

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

__all__ = ["read_xliff_segments"]

_XLIFF = XmlKind(root="xliff", units=frozenset({"trans-unit", "unit"}), header="", division="file")
_SOURCE = ("source-language", "srcLang")
_TARGET = ("target-language", "trgLang")
# States of a target that nobody has translated yet; a state that is absent says nothing.
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})
_MOST_PAIRS = 50  # that are remembered to be named
_FUZZY = frozenset({"fuzzy-match"})


def read_xliff_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each <trans-unit>, or each <segment> of each <unit>, that is to be translated."""
    pairs = _LanguagePairs(str(path), options)
    for unit in read_units(path, _XLIFF):
        if isinstance(unit, Damage):
            yield unit
        elif _is_translatable(unit) and pairs.wants(unit):
            for raw in _raw_segments(unit, str(path)):
                yield finish_segment(raw, gui=True)
    pairs.check()


@dataclass
class _LanguagePairs:
    """Selects the units of the chosen languages, and remembers which pairs there were."""

    file: str
    options: ReadOptions
    seen: dict[tuple[str, str], None] = field(default_factory=dict)
    found: bool = False

    def wants(self, unit: XmlUnit) -> bool:
        """Returns True for a unit of the chosen languages; a language that is not named fits."""
        pair = _attribute(unit, _SOURCE), _attribute(unit, _TARGET)
        if len(self.seen) < _MOST_PAIRS:
            self.seen[pair] = None
        chosen = self.options.source_language, self.options.target_language
        fits = all(
            not wanted or not language or language_rank(wanted, language) is not None
            for wanted, language in zip(chosen, pair, strict=True)
        )
        self.found = self.found or fits
        return fits

    def check(self) -> None:
        """Refuses languages that no unit has."""
        if self.seen and not self.found:
            there = ", ".join(f"{shorten(one)} to {shorten(other)}" for one, other in self.seen)
            raise UntoldError(
                f"{self.file}: no text in the chosen languages; there is {there}: choose with "
                "--source-language and --target-language"
            )


def _attribute(unit: XmlUnit, names: tuple[str, ...]) -> str:
    values = [each.attributes.get(name) for each in reversed(unit.around) for name in names]
    return next((value for value in values if value), "")


def _is_translatable(unit: XmlUnit) -> bool:
    """Returns False if the unit or else the innermost element around it says translate="no"."""
    around = [each.attributes.get("translate") for each in reversed(unit.around)]
    said = [value for value in (unit.element.get("translate"), *around) if value]
    return not said or said[0] != "no"


def _raw_segments(unit: XmlUnit, file: str) -> Iterator[Segment]:
    element = unit.element
    notes = [*_children(element, "note"), *(n for s in _children(element, "notes") for n in s)]
    texts = [inline_text(note) for note in notes if isinstance(note.tag, str)]
    ignored = ignored_kinds("\n".join(texts))
    parts = _children(element, "segment") or [element]  # XLIFF 2 has segments, XLIFF 1 has none
    for number, part in enumerate(parts, start=1):
        source, target = (next(iter(_children(part, name)), None) for name in ("source", "target"))
        place = next(each for each in (target, source, element) if each is not None)
        yield Segment(
            file,
            unit.line(place),
            "" if source is None else inline_text(source),
            "" if target is None else inline_text(target),
            _name(element, part, number if len(parts) > 1 else 0),
            ignored,
            _unchecked(part, target),
        )


def _name(unit: Any, part: Any, number: int) -> str:
    name = unit.get("id") or unit.get("resname") or ""
    if part is not unit:
        inner = part.get("id") or (str(number) if number else "")
        name = f"{name}/{inner}" if inner else name
    return shorten(name)


def _unchecked(part: Any, target: Any) -> str:
    """Reads the state, which stands at the target in XLIFF 1 and at the segment in XLIFF 2."""
    holders = [part] if target is None else [part, target]
    if any(each.get("state") in _UNTRANSLATED for each in holders):
        return "untranslated"
    return "fuzzy" if any(each.get("state-qualifier") in _FUZZY for each in holders) else ""


def _children(element: Any, name: str) -> list[Any]:
    """Lists the children of a name in the namespace of their parent; extensions have others."""
    space = element.tag.rpartition("}")[0]
    tag = f"{space}}}{name}" if space else name
    return [child for child in element if child.tag == tag]
