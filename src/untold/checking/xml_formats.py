"""Reads segments from translation memories (TMX 1.4 and before) and XLIFF 1.2, 2.0 and 2.1.

Units are read one by one and emptied, so that memory does not grow with the file. The first place
that is not well-formed ends the file, and so does a tree that is deeper, or a text that is longer,
than libxml2 allows. Entities are never expanded, and nothing outside the file is read.
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from untold.checking.markup import inline_text
from untold.checking.segments import (
    Damage,
    Damaged,
    ReadOptions,
    Segment,
    finish_segment,
    ignored_kinds,
    language_rank,
    needs_files,
)
from untold.corpus.text import open_bytes
from untold.errors import UntoldError, one_line, shorten

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MOST_LANGUAGES = 50  # that are remembered to be named
_CHOOSE = "choose with --source-language and --target-language"
# States of a target that nobody has translated yet; a state that is absent says nothing.
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})
_ENTITY = 'an "&" that begins no known entity: write &amp;, or the text of the entity'
_PLACE = re.compile(r" ?, line \d+, column (\d+)")


def read_tmx(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each unit in two languages.

    By default the source is the `srclang` of the header, or else the language that comes first, and
    the target is the other language. If there are several others, one must be chosen.
    """
    languages = _Languages(str(path), options)
    declared = "*all*"
    for unit in _read_units(path, "tmx", {"header", "tu"}):
        if isinstance(unit, Damage):
            yield unit
        elif _local_name(unit) == "header":
            declared = unit.get("srclang", declared)
        else:
            source, target = languages.choose(_variants(unit), declared)
            if source is not None or target is not None:
                yield finish_segment(_tmx_segment(unit, source, target, str(path)), gui=False)
    languages.check()


def read_xliff(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each <trans-unit>, or each <segment> of each <unit>, that is to be translated."""
    chosen = options.source_language, options.target_language
    pairs: dict[tuple[str, str], bool] = {}  # of languages, and whether they were chosen
    for unit in _read_units(path, "xliff", {"trans-unit", "unit"}):
        if isinstance(unit, Damage):
            yield unit
        elif _inherited(unit, "translate") != "no":
            pair = (
                _inherited(unit.getparent(), "source-language", "srcLang"),
                _inherited(unit.getparent(), "target-language", "trgLang"),
            )
            fits = all(
                not wanted or not language or language_rank(wanted, language) is not None
                for wanted, language in zip(chosen, pair, strict=True)
            )
            if fits or len(pairs) < _MOST_LANGUAGES:
                pairs[pair] = fits
            if fits:
                for raw in _xliff_segments(unit, str(path)):
                    yield finish_segment(raw, gui=True)
    if pairs and not any(pairs.values()):
        there = ", ".join(f"{shorten(one)} to {shorten(other)}" for one, other in pairs)
        raise UntoldError(f"{path}: no text in the chosen languages; there is {there}: {_CHOOSE}")


def _read_units(path: Path, root: str, names: set[str]) -> Iterator[Any]:
    """Yields each element of these names, and empties it when the next one is asked for.

    A Damage is the last item if the document is not whole.
    """
    tags: set[str] = set()
    unit = None
    try:
        for event, element in _events(path):
            if not tags:
                tags = _unit_tags(element, root, names)
            elif event == "start":
                unit = _enter(element, unit, tags)
            elif element is unit:
                _refuse_entities(unit)
                yield unit
                unit = None
                _empty(element)
            elif unit is None:
                _empty(element)
    except Damaged as damaged:
        yield Damage(str(path), *damaged.args)


def _enter(element: Any, unit: Any, tags: set[str]) -> Any:
    """Returns the unit that is open once the element has begun."""
    if element.tag not in tags:
        return unit
    if unit is not None:
        raise Damaged(unit.sourceline, "the unit is not closed: close its tag")
    return element


def _refuse_entities(unit: Any) -> None:
    """Refuses what is no element: comments are not read, and all else is an unknown entity."""
    if not all(isinstance(inner.tag, str) for inner in unit.iter()):
        raise Damaged(unit.sourceline, _ENTITY)


def _events(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from lxml import etree
    except ImportError:
        raise needs_files(path, "lxml") from None
    line = 0
    with open_bytes(path) as file:
        try:
            for event, element in etree.iterparse(
                file,
                events=("start", "end"),
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                huge_tree=False,
                remove_comments=True,
                remove_pis=True,
            ):
                line = element.sourceline if event == "start" else line
                yield event, element
        except etree.XMLSyntaxError as error:
            raise Damaged(error.lineno or max(line, 1), _reason(error, line > 0)) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Damaged(max(line, 1), f"not a whole .gz file ({error}): get it again") from None


def _reason(error: Any, begun: bool) -> str:
    if not error.lineno:  # libxml2 ends a document at an unknown entity without a word
        return _ENTITY if begun else "holds no XML document: check the file"
    message = _PLACE.sub(r", column \1", " ".join(error.msg.split()))
    cure = "convert the file to UTF-8" if "encoding" in message else "mend it"
    return one_line(f"not well-formed XML ({message}): {cure}")


def _unit_tags(root: Any, name: str, names: set[str]) -> set[str]:
    """Returns the tags of units, which have the namespace of the root; checks the document."""
    if _local_name(root) != name:
        wrong = one_line(f"the document is <{_local_name(root)}> and not <{name}>", 100)
        raise Damaged(root.sourceline, f"{wrong}: check the file")
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and next(declared.iterentities(), None) is not None:
        raise Damaged(root.sourceline, "declares entities: write their text in place of them")
    return {root.tag.removesuffix(name) + unit for unit in names}


def _empty(element: Any) -> None:
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _variants(unit: Any) -> dict[str, Any]:
    """Returns the <tuv> of each language, in their order."""
    variants: dict[str, Any] = {}
    for child in unit:
        if _local_name(child) == "tuv":
            variants.setdefault(child.get(_LANGUAGE) or child.get("lang") or "", child)
    return variants


@dataclass
class _Languages:
    """Chooses two variants of each unit, and remembers which languages there were."""

    file: str
    options: ReadOptions
    source: str | None = None
    seen: dict[str, None] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # that could be the target
    met: set[str | None] = field(default_factory=set)  # chosen ones that occurred

    def choose(self, variants: dict[str, Any], declared: str) -> tuple[Any, Any]:
        """Returns the variants of source and target; None if the unit has none."""
        if len(self.seen) < _MOST_LANGUAGES:
            self.seen.update(dict.fromkeys(variants))
        if self.source is None:
            chosen = self.options.source_language or declared
            first = next(iter(variants)) if len(variants) > 1 else None
            self.source = chosen if chosen.lower() != "*all*" else first
        source = _best(variants, self.source)
        target = _best(variants, self.options.target_language)
        if self.options.target_language is None and source is not None:
            target = self._other([language for language in variants if language != source])
        self.met |= {self.source} if source is not None else set()
        self.met |= {self.options.target_language} if target is not None else set()
        source_tuv, target_tuv = (
            None if language is None else variants[language] for language in (source, target)
        )
        return source_tuv, target_tuv

    def check(self) -> None:
        """Refuses a language that never occurred."""
        there = ", ".join(shorten(language) for language in self.seen)
        for side, wanted in ("source", self.source), ("target", self.options.target_language):
            if self.seen and wanted is not None and wanted not in self.met:
                raise UntoldError(
                    f"{self.file}: no text in the {side} language {shorten(wanted)}; there are "
                    f"{there}: {_CHOOSE}"
                )

    def _other(self, others: list[str]) -> str | None:
        self.others.update(others)
        if len(self.others) > 1:
            there = ", ".join(shorten(language) for language in self.seen)
            raise UntoldError(f"{self.file}: several languages ({there}): {_CHOOSE}")
        return others[0] if others else None


def _best(languages: Iterable[str], wanted: str | None) -> str | None:
    if wanted is None:
        return None
    ranks = {language: language_rank(wanted, language) for language in languages}
    fitting = {language: rank for language, rank in ranks.items() if rank is not None}
    return min(fitting, key=fitting.__getitem__, default=None)


def _tmx_segment(unit: Any, source: Any, target: Any, file: str) -> Segment:
    sides = [side for side in (source, target) if side is not None]
    notes = [
        inline_text(child)
        for element in (unit, *sides)
        for child in element
        if _local_name(child) == "note"
    ]
    return Segment(
        file,
        (unit if target is None else target).sourceline,
        _tuv_text(source),
        _tuv_text(target),
        shorten(unit.get("tuid", "")),
        ignored_kinds("\n".join(notes)),
    )


def _tuv_text(variant: Any) -> str:
    children = () if variant is None else variant
    return "".join(inline_text(child) for child in children if _local_name(child) == "seg")


def _inherited(element: Any, *names: str) -> str:
    """Returns the first value that the element, or else the innermost one around it, has."""
    around = (element, *element.iterancestors())
    values = (holder.get(name) for holder in around for name in names)
    return next((value for value in values if value), "")


def _xliff_segments(unit: Any, file: str) -> Iterator[Segment]:
    notes = [*_children(unit, "note"), *(n for s in _children(unit, "notes") for n in s)]
    ignored = ignored_kinds("\n".join(inline_text(note) for note in notes))
    parts = _children(unit, "segment") or [unit]  # XLIFF 2 has segments, XLIFF 1 has none
    for number, part in enumerate(parts, start=1):
        source, target = (next(iter(_children(part, name)), None) for name in ("source", "target"))
        yield Segment(
            file,
            next(place for place in (target, source, unit) if place is not None).sourceline,
            "" if source is None else inline_text(source),
            "" if target is None else inline_text(target),
            _xliff_name(unit, part, number if len(parts) > 1 else 0),
            ignored,
            _unchecked(part, target),
        )


def _xliff_name(unit: Any, part: Any, number: int) -> str:
    name = unit.get("id") or unit.get("resname") or ""
    if part is not unit:
        inner = part.get("id") or (str(number) if number else "")
        name = f"{name}/{inner}" if inner else name
    return shorten(name)


def _unchecked(part: Any, target: Any) -> str:
    """Reads the state, which stands at the target in XLIFF 1 and at the segment in XLIFF 2."""
    holders = [part] if target is None else [part, target]
    if any(holder.get("state") in _UNTRANSLATED for holder in holders):
        return "untranslated"
    return "fuzzy" if any(h.get("state-qualifier") == "fuzzy-match" for h in holders) else ""


def _children(element: Any, name: str) -> list[Any]:
    """Lists the children of a name in the namespace of their parent; extensions have others."""
    space = element.tag.rpartition("}")[0]
    return list(element.iterchildren(f"{space}}}{name}" if space else name))


def _local_name(element: Any) -> str:
    return element.tag.rpartition("}")[2]
