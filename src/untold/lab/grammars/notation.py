"""Reads a grammar file into rules, statement by statement; notes/grammars.md explains the notation.

A statement is an unindented line with the indented lines below it. A pattern is a rule whose words
may still have blanks to fill.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from untold.errors import UntoldError


@dataclass(frozen=True, slots=True)
class Word:
    """Holds a terminal; words on the two sides of a rule that share a tag are aligned."""

    text: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Slot:
    """Marks the place of a rule's child on one side; all the child's words there take the tags."""

    child: int
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Variable:
    """Stands for one value wherever its name occurs in a rule; `values` restricts it, if given."""

    name: str
    values: frozenset[str] | None = None


Item = Word | Slot
Term = Variable | frozenset[str]
Features = Mapping[str, Term]


@dataclass(frozen=True)
class Constituent:
    """Names a category on the right of a rule, with the features that both sides ask of it."""

    category: str
    features: Features


@dataclass(frozen=True)
class Rule:
    """Rewrites a category: category -> source || target, with a slot for each child on both sides.

    `origin` is the line in the file that the rule comes from: its own, or a row of the lexicon.
    `domains` restricts the values of variables.
    """

    category: str
    features: Features
    children: tuple[Constituent, ...]
    source: tuple[Item, ...]
    target: tuple[Item, ...]
    weight: float
    origin: int
    domains: Mapping[str, frozenset[str]] = field(default_factory=dict)


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


_NO_PARTNER = -1  # the tag of a word marked `~`: the word counts as tagged but aligns with nothing

_ITEM = re.compile(
    r'\s*(?:"(?P<words>[^"]*)"|(?P<category>[A-Z]\w*)(?::(?P<label>\w+))?(?P<features>\[[^\]]*\])?)'
    r"(?P<tags>~[\d,]*)?(?=\s|$)"
)
_LEFT = re.compile(r"(?P<category>[A-Z]\w*)(?P<features>\[[^\]]*\])?$")
_WEIGHT = re.compile(r"\s\*\s*(\d+(?:\.\d+)?)$")
_BLANK = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True)
class Place:
    """Names a line of a grammar file in errors."""

    where: str
    line: int

    def error(self, message: str) -> UntoldError:
        """Makes an error whose message begins with file:line."""
        return UntoldError(f"{self.where}:{self.line}: {message}")


@dataclass(frozen=True)
class FeatureTable:
    """Holds the declared features: their values with weights, and the named groups of values."""

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def parse(self, text: str | None, place: Place) -> Features:
        """Parses `[name=value ...]`.

        `case` is short for `case=?case`, `case=nom,acc` allows either value, and `case=?c:nom,acc`
        restricts the variable ?c to them.
        """
        features: dict[str, Term] = {}
        for item in (text or "[]")[1:-1].split():
            name, equals, value = item.partition("=")
            if name not in self.values:
                known = ", ".join(self.values) or "none"
                raise place.error(f"unknown feature {name}; declared above: {known}")
            if not equals or value.startswith("?"):
                variable, colon, values = value[1:].partition(":")
                allowed = self.resolve(name, values.split(","), place) if colon else None
                features[name] = Variable(variable or name, allowed)
            else:
                features[name] = self.resolve(name, value.split(","), place)
        return features

    def resolve(self, feature: str, values: list[str], place: Place) -> frozenset[str]:
        """Replaces groups by their values."""
        found: frozenset[str] = frozenset()
        for value in values:
            if value not in self.values[feature] and (feature, value) not in self.groups:
                known = ", ".join(self.values[feature])
                raise place.error(f"{feature}={value}: the values of {feature} are {known}")
            found |= self.groups.get((feature, value), frozenset([value]))
        return found


@dataclass(frozen=True)
class _Quote:
    """Holds the text between two quotes before its blanks are filled."""

    text: str
    tags: str | None


@dataclass(frozen=True)
class Pattern:
    """Holds a rule before its blanks are filled."""

    rule: Rule  # its sides are still empty
    source: tuple[_Quote | Slot, ...]
    target: tuple[_Quote | Slot, ...]
    place: Place

    @property
    def blanks(self) -> frozenset[str]:
        """Names the forms that the pattern needs."""
        quotes = (item for item in (*self.source, *self.target) if isinstance(item, _Quote))
        return frozenset(name for quote in quotes for name in _BLANK.findall(quote.text))

    @property
    def unused_features(self) -> frozenset[str]:
        """Names the features on the left whose variable occurs nowhere on the right."""
        terms = [term for child in self.rule.children for term in child.features.values()]
        used = {term.name for term in terms if isinstance(term, Variable)}
        variables = {n: t for n, t in self.rule.features.items() if isinstance(t, Variable)}
        return frozenset(name for name, term in variables.items() if term.name not in used)

    def fill(self, forms: Mapping[str, str], place: Place) -> Rule:
        """Fills the forms into the blanks; the rule counts as written at `place`."""
        source = [word for item in self.source for word in _fill(item, forms, place)]
        target = [word for item in self.target for word in _fill(item, forms, place)]
        tags = [{tag for item in side for tag in item.tags} for side in (source, target)]
        if odd := (tags[0] ^ tags[1]) - {_NO_PARTNER}:
            raise place.error(f"tag ~{min(odd)} stands on one side only: tag words of both sides")
        whole = (1,) if not (self.rule.children or tags[0] or tags[1]) else None
        return Rule(
            self.rule.category,
            self.rule.features,
            self.rule.children,
            _with_final_tags(source, whole),
            _with_final_tags(target, whole),
            self.rule.weight,
            place.line,
        )


def parse_pattern(text: str, table: FeatureTable, place: Place) -> Pattern:
    """Parses `Category[features] -> source || target * weight`."""
    text, weight = split_weight(text, place)
    left, _, right = text.partition("->")
    head = _LEFT.match(left.strip())
    sides = right.split("||")
    if head is None or len(sides) != 2:
        raise place.error(f"{text.strip()!r}: write Category[features] -> source || target")
    source, target = (_RuleSide(sides[0], table, place), _RuleSide(sides[1], table, place))
    if odd := sorted(source.children.keys() ^ target.children.keys()):
        raise place.error(f"{odd[0]} stands on one side only: each constituent stands on both")
    order = {name: number for number, name in enumerate(source.children)}
    children = tuple(
        Constituent(name.partition(":")[0], {**source.children[name], **target.children[name]})
        for name in order
    )
    features = table.parse(head["features"], place)
    rule = Rule(head["category"], features, children, (), (), weight, place.line)
    return Pattern(rule, source.items(order), target.items(order), place)


class _RuleSide:
    """Parses one side of a rule into quotes and constituents, in order."""

    def __init__(self, text: str, table: FeatureTable, place: Place) -> None:
        self.parts: list[_Quote | tuple[str, str | None]] = []
        self.children: dict[str, Features] = {}
        position, text = 0, text.strip()
        while position < len(text):
            match = _ITEM.match(text, position)
            if match is None:
                raise place.error(
                    f'{text[position:].strip()!r}: words stand in "quotes", constituents have a'
                    " capital, as NP or NP:2[case=acc]"
                )
            position = match.end()
            tags = match["tags"] and match["tags"][1:]
            if match["category"] is None:
                self.parts.append(_Quote(match["words"], tags))
                continue
            name = match["category"] + (f":{match['label']}" if match["label"] else "")
            if name in self.children:
                plain = match["category"]
                raise place.error(f"{name} stands twice on a side: label them {plain}:1, {plain}:2")
            self.children[name] = table.parse(match["features"], place)
            self.parts.append((name, tags))

    def items(self, order: Mapping[str, int]) -> tuple[_Quote | Slot, ...]:
        """Returns the parts, with constituents as slots numbered by `order`."""
        return tuple(
            part if isinstance(part, _Quote) else Slot(order[part[0]], _tags(part[1]))
            for part in self.parts
        )


def _fill(item: _Quote | Slot, forms: Mapping[str, str], place: Place) -> Iterator[Item]:
    """Yields the words of a quote; a word's own tags replace those of the quote."""
    if isinstance(item, Slot):
        yield item
        return
    text = _BLANK.sub(lambda match: forms[match[1]], item.text)
    for piece in text.replace("_", " ").split():
        text, tilde, own = piece.partition("~")
        if not text or own.strip("0123456789,"):
            raise place.error(f"{piece!r}: a tag is a number behind a word, as in word~1")
        yield Word(text, _tags(own if tilde else item.tags))


def _tags(text: str | None) -> tuple[int, ...]:
    if text == "":
        return (_NO_PARTNER,)
    return tuple(int(number) for number in (text or "").split(",") if number)


def _with_final_tags(side: list[Item], tags: tuple[int, ...] | None) -> tuple[Item, ...]:
    """Gives every word `tags`, or if that is None removes only the mark of no partner."""
    if tags is not None:
        return tuple([Word(item.text, tags) for item in side if isinstance(item, Word)])
    return tuple([_without_no_partner(item) if _NO_PARTNER in item.tags else item for item in side])


def _without_no_partner(item: Item) -> Item:
    return replace(item, tags=tuple(tag for tag in item.tags if tag != _NO_PARTNER))


def split_weight(text: str, place: Place) -> tuple[str, float]:
    """Splits ` * number` off the end of a text; without it the weight is 1."""
    match = _WEIGHT.search(text)
    if match is None:
        return text, 1.0
    return text[: match.start()].rstrip(), parse_weight(match[1], place)


def parse_weight(text: str, place: Place) -> float:
    """Parses a weight, which is between a millionth and a million."""
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 1e-6 <= weight <= 1e6:  # not true of NaN
        raise place.error(f"{text[:20]}: a weight is a number from 1e-6 to 1e6, as in sg*2")
    return weight


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
