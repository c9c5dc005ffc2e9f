"""Reads a grammar file statement by statement; notes/grammars.md explains the notation.

A statement is an unindented line with the indented lines below it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from untold.lab.grammars.rules import (
    Features,
    FeatureTable,
    Pattern,
    Place,
    Rule,
    Variable,
    parse_pattern,
    parse_weight,
    split_weight,
)

Lines = tuple[tuple[Place, str], ...]

_COMMENT = re.compile(r'(^|\s)#(?=(?:[^"]*"[^"]*")*[^"]*$).*')
_RULE_START = re.compile(r"[A-Z]\w*(\[[^\]]*\])?\s*(->|$)")
_ROW_FEATURES = re.compile(r"\s*(\[[^\]]*\])$")
_HEADER = ("languages", "start", "length", "capitalize")
_LENGTH_DIGITS = 4  # a sentence has fewer than 10,000 words
_STATEMENTS = {
    "absorb": re.compile(r"absorb\s+(?P<language>\S+)\s+(?P<mark>\S+)\s+before\s+(?P<marks>.+)$"),
    "feature": re.compile(r"feature\s+(?P<names>[\w\s]+?)\s*=\s*(?P<values>.+)$"),
    "group": re.compile(r"group\s+(?P<feature>\w+)\s+(?P<name>\w+)\s*=\s*(?P<values>.+)$"),
    "paradigm": re.compile(r"paradigm\s+(?P<name>\w+)\s*\((?P<forms>[^=)]*=[^=)]*)\)$"),
    "words": re.compile(r"words\s+(?P<name>\w+)\s*(?P<features>\[[^\]]*\])?$"),
}
_SHAPES = {
    "absorb": "absorb language mark before mark mark ...",
    "feature": "feature name = value value ...",
    "group": "group feature name = value value ...",
    "paradigm": "paradigm name(source, forms = target, forms)",
    "words": "words paradigm[features]",
}


@dataclass(frozen=True)
class Notation:
    """Holds a whole grammar file. Features keep the order in which their values are declared."""

    where: str
    languages: tuple[str, str]
    start: str
    length: tuple[int, int]
    capitalize: tuple[str, ...]
    absorb: Mapping[str, Mapping[str, frozenset[str]]]
    features: Mapping[str, Mapping[str, float]]
    rules: tuple[Rule, ...]
    entries: int


def read_notation(text: str, where: str) -> Notation:
    """Reads a whole grammar file and checks its syntax; `where` names it in errors."""
    reader = _Reader(where)
    for place, line, body in _statements(text, where):
        reader.read(place, line, body)
    return reader.finish()


def _statements(text: str, where: str) -> Iterator[tuple[Place, str, Lines]]:
    head: tuple[Place, str] | None = None
    body: list[tuple[Place, str]] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line, place = _COMMENT.sub("", raw).rstrip(), Place(where, number)
        if not line:
            continue
        if not line[0].isspace():
            if head is not None:
                yield *head, tuple(body)
            head, body = (place, line), []
        elif head is None:
            raise place.error("an indented line belongs to a line above it: there is none")
        else:
            body.append((place, line))
    if head is not None:
        yield *head, tuple(body)


@dataclass(frozen=True)
class _Paradigm:
    """Holds rules with blanks; a row of the lexicon has a cell for each form.

    Optional forms come last on their side.
    """

    forms: tuple[tuple[str, ...], tuple[str, ...]]
    patterns: tuple[Pattern, ...]

    def row(self, text: str, place: Place) -> dict[str, str]:
        """Maps the names of the forms to the cells of a row."""
        sides = text.split("=")
        cells: dict[str, str] = {}
        for side, names in zip(sides, self.forms, strict=False):
            values = _cells(side)
            needed = sum(not name.endswith("?") for name in names)
            if len(sides) != 2 or not needed <= len(values) <= len(names):
                wanted = " = ".join(", ".join(part) for part in self.forms)
                raise place.error(f"{text!r}: a row here reads {wanted}")
            values += [""] * (len(names) - len(values))
            cells |= {name.rstrip("?"): v for name, v in zip(names, values, strict=True)}
        return cells


class _Reader:
    """Collects the statements of one file; features and paradigms are declared before their use."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.table = FeatureTable()
        self.paradigms: dict[str, _Paradigm] = {}
        self.absorb: dict[str, dict[str, frozenset[str]]] = {}
        self.header: dict[str, tuple[Place, list[str]]] = {}
        self.rules: list[Rule] = []
        self.entries = 0

    def read(self, place: Place, line: str, body: Lines) -> None:
        word = line.split(maxsplit=1)[0]
        if word not in ("paradigm", "words") and not word[0].isupper():
            line = " ".join([line, *(text.strip() for _, text in body)])
        if word[0].isupper():
            for pattern in self._patterns(((place, line), *body)):
                rule = pattern.fill({}, pattern.place)
                self.rules.append(rule)
                self.entries += bool(not rule.children and rule.source and rule.target)
        elif word in _HEADER:
            self.header[word] = place, line.split()[1:]
        elif word not in _STATEMENTS:
            known = ", ".join((*_HEADER, *_STATEMENTS))
            raise place.error(f"{word!r} starts no statement: a rule has a capital, else {known}")
        else:
            match = _STATEMENTS[word].match(line)
            if match is None:
                raise place.error(f"{line!r}: write `{_SHAPES[word]}`")
            getattr(self, f"_{word}")(place, match, body)

    def finish(self) -> Notation:
        languages = self._header("languages", 2)
        start = self._header("start", 1)
        low, high = self._header("length", 2) if "length" in self.header else ["1", "60"]
        digits = low.isdecimal() and high.isdecimal() and len(low + high) <= 2 * _LENGTH_DIGITS
        if not (digits and 1 <= int(low) <= int(high) < 10**_LENGTH_DIGITS):
            place = self.header["length"][0]
            raise place.error(
                f"length {low[:20]} {high[:20]}: give the fewest and the most words, below "
                f"{10**_LENGTH_DIGITS}"
            )
        place, capitalize = self.header.get("capitalize", (Place(self.where, 1), []))
        for name in (*capitalize, *self.absorb):
            if name not in languages:
                raise place.error(f"{name} is none of the languages {' '.join(languages)}")
        return Notation(
            where=self.where,
            languages=(languages[0], languages[1]),
            start=start[0],
            length=(int(low), int(high)),
            capitalize=tuple(capitalize),
            absorb=self.absorb,
            features=self.table.values,
            rules=tuple(self.rules),
            entries=self.entries,
        )

    def _header(self, name: str, count: int) -> list[str]:
        place, values = self.header.get(name, (Place(self.where, 1), []))
        if len(values) != count:
            raise place.error(
                f"`{name}` needs {count} value(s), not {len(values)}: write them there"
            )
        return values

    def _patterns(self, lines: Lines) -> Iterator[Pattern]:
        """Yields whole rules.

        A line that begins with `->` takes the left side above it; any other indented line continues
        the rule above it.
        """
        groups: list[list[tuple[Place, str]]] = []
        left = ""
        for place, raw in lines:
            text = raw.strip()
            if _RULE_START.match(raw if "->" not in text else text):
                left, arrow, right = text.partition("->")
                groups.append([(place, f"{left}->{right}")] if arrow else [])
            elif text.startswith("->") and groups:
                groups[-1].append((place, left + text))
            elif groups and groups[-1]:
                groups[-1][-1] = (groups[-1][-1][0], f"{groups[-1][-1][1]} {text}")
            else:
                raise place.error(f"{text!r}: write Category[features] -> source || target")
        for group in groups:
            patterns = [parse_pattern(text, self.table, place) for place, text in group]
            unused = [pattern.unused_features for pattern in patterns]
            if patterns and (idle := frozenset.intersection(*unused)):
                raise group[0][0].error(f"{min(idle)} on the left ties nothing: use or remove it")
            yield from patterns

    def _feature(self, place: Place, match: re.Match[str], _: Lines) -> None:
        values: dict[str, float] = {}
        for item in match["values"].split():
            value, star, weight = item.partition("*")
            values[value] = parse_weight(weight, place) if star else 1.0
        for name in match["names"].split():
            if name in self.table.values:
                raise place.error(f"feature {name} was declared above: declare it once")
            self.table.values[name] = values

    def _group(self, place: Place, match: re.Match[str], _: Lines) -> None:
        if match["feature"] not in self.table.values:
            raise place.error(f"unknown feature {match['feature']}: declare it above its groups")
        values = self.table.resolve(match["feature"], match["values"].split(), place)
        for name, domain in self.table.values.items():
            # Features that one statement declares together share their groups.
            if domain is self.table.values[match["feature"]]:
                self.table.groups[name, match["name"]] = values

    def _absorb(self, _: Place, match: re.Match[str], _body: Lines) -> None:
        marks = self.absorb.setdefault(match["language"], {})
        marks[match["mark"]] = frozenset(match["marks"].split())

    def _paradigm(self, _: Place, match: re.Match[str], body: Lines) -> None:
        source, target = (tuple(_cells(part)) for part in match["forms"].split("="))
        paradigm = _Paradigm((source, target), tuple(self._patterns(body)))
        known = {name.rstrip("?") for name in (*source, *target)}
        for pattern in paradigm.patterns:
            if odd := sorted(pattern.blanks - known):
                raise pattern.place.error(f"{{{odd[0]}}} is no form of this paradigm")
        self.paradigms[match["name"]] = paradigm

    def _words(self, place: Place, match: re.Match[str], body: Lines) -> None:
        paradigm = self.paradigms.get(match["name"])
        if paradigm is None:
            known = ", ".join(self.paradigms) or "none"
            raise place.error(f"no paradigm {match['name']}; declared above: {known}")
        shared = self.table.parse(match["features"], place)
        for row_place, text in _rows(body):
            self.entries += 1
            self.rules += self._row(row_place, text, paradigm, shared)

    def _row(
        self, place: Place, text: str, paradigm: _Paradigm, shared: Features
    ) -> Iterator[Rule]:
        """Yields the rules of one entry: fills its forms into each pattern that lacks none."""
        text, weight = split_weight(text, place)
        found = _ROW_FEATURES.search(text)
        features = {**shared, **self.table.parse(found[1] if found else None, place)}
        forms = paradigm.row(_ROW_FEATURES.sub("", text), place)
        missing = {name for name, form in forms.items() if form == "-"}
        for pattern in paradigm.patterns:
            if not pattern.blanks & missing:
                rule = _specialise(pattern.fill(forms, place), features)
                yield replace(rule, weight=rule.weight * weight)


def _rows(body: Lines) -> Iterator[tuple[Place, str]]:
    """Yields the rows of a lexicon; a line indented deeper than the first continues a row."""
    margin = min((len(raw) - len(raw.lstrip()) for _, raw in body[:1]), default=0)
    rows: list[tuple[Place, str]] = []
    for place, raw in body:
        if len(raw) - len(raw.lstrip()) > margin:
            rows[-1] = rows[-1][0], f"{rows[-1][1]} {raw.strip()}"
        else:
            rows.append((place, raw.strip()))
    yield from rows


def _cells(text: str) -> list[str]:
    return [" ".join(cell.split()) for cell in text.split(",")]


def _specialise(rule: Rule, features: Features) -> Rule:
    """Applies a row's features to a rule: they replace values, and narrow variables everywhere."""
    merged, domains = dict(rule.features), dict(rule.domains)
    for name, term in features.items():
        own = rule.features.get(name)
        if isinstance(own, Variable) and isinstance(term, frozenset):
            domains[own.name] = domains.get(own.name, term) & term
        else:
            merged[name] = term
    return replace(rule, features=merged, domains=domains)
