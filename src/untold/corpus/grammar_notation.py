"""The notation of a synchronous grammar: text in, checked rules out. docs/grammars.md tells it all.

Nothing here chooses or generates: a `Notation` is the file as values, each rule with its line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from untold.errors import UntoldError

__all__ = ["Notation", "Reference", "Rule", "Variable", "Word", "read_notation"]


@dataclass(frozen=True)
class Word:
    """A terminal; words of the two sides of a rule that share a tag are aligned."""

    text: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Variable:
    """A feature value that must be the same wherever its name stands in one rule."""

    name: str


Term = Variable | frozenset[str]
Features = Mapping[str, Term]


@dataclass(frozen=True)
class Reference:
    """A nonterminal on the right: the same constituent on both sides, with all its features."""

    category: str
    features: Features


@dataclass(frozen=True)
class Rule:
    """category -> source || target; an integer on a side is an index into `children`.

    `origin` is the line that wrote the rule: its own, or the lexicon's row. `domains` narrows
    variables.
    """

    category: str
    features: Features
    children: tuple[Reference, ...]
    source: tuple[Word | int, ...]
    target: tuple[Word | int, ...]
    weight: float
    origin: int
    domains: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def is_entry(self) -> bool:
        """Whether it is words alone, on both sides."""
        return not self.children and bool(self.source) and bool(self.target)


@dataclass(frozen=True)
class Notation:
    """A grammar file as it stands. Features keep the order in which their values are declared."""

    where: str
    languages: tuple[str, str]
    start: str
    length: tuple[int, int]
    capitalize: tuple[str, ...]
    absorb: Mapping[str, Mapping[str, frozenset[str]]]
    features: Mapping[str, Mapping[str, float]]
    rules: tuple[Rule, ...]
    entries: int


@dataclass(frozen=True)
class _Statement:
    line: int
    text: str
    body: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class _Paradigm:
    parameters: tuple[tuple[str, ...], tuple[str, ...]]
    rules: tuple[tuple[int, str], ...]
    line: int


_NAME = r"[A-Za-z_]\w*"
_CATEGORY = r"[A-Z]\w*"
_FEATURES = r"\[[^\]]*\]"
_ITEM = re.compile(
    rf'\s*(?:"(?P<words>[^"]*)"(?:~(?P<tags>[\d,]*))?'
    rf"|(?P<category>{_CATEGORY})(?::(?P<label>\w+))?(?P<features>{_FEATURES})?)(?=\s|$)"
)
_LEFT = re.compile(rf"(?P<category>{_CATEGORY})(?P<features>{_FEATURES})?$")
_WEIGHT = re.compile(r"\s\*\s*(\d+(?:\.\d+)?)$")
_PARADIGM = re.compile(rf"paradigm\s+(?P<name>{_NAME})\s*\((?P<source>[^=)]*)=(?P<target>[^)]*)\)$")
_WORDS = re.compile(rf"words\s+(?P<name>{_NAME})\s*(?P<features>{_FEATURES})?$")
_FEATURE = re.compile(r"feature\s+(?P<names>[\w\s]+?)\s*=\s*(?P<values>.+)$")
_GROUP = re.compile(r"group\s+(?P<feature>\w+)\s+(?P<name>\w+)\s*=\s*(?P<values>.+)$")
_ABSORB = re.compile(r"absorb\s+(?P<language>\S+)\s+(?P<mark>\S+)\s+before\s+(?P<words>.+)$")
_COMMENT = re.compile(r'(^|\s)#(?=(?:[^"]*"[^"]*")*[^"]*$).*')
_ROW_FEATURES = re.compile(rf"\s*({_FEATURES})$")


def read_notation(text: str, where: str) -> Notation:
    """Read a whole grammar file; `where` names it in errors."""
    reader = _Reader(where)
    for statement in _statements(text, reader):
        reader.read(statement)
    return reader.finish()


def _statements(text: str, reader: "_Reader") -> Iterator[_Statement]:
    """A line that starts at the margin, with the indented lines below it."""
    head: tuple[int, str] | None = None
    body: list[tuple[int, str]] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _COMMENT.sub("", raw).rstrip()
        if not line.strip():
            continue
        if line[0].isspace():
            if head is None:
                raise reader.error(number, "an indented line belongs to a line above: there is none")
            body.append((number, line.strip()))
            continue
        if head is not None:
            yield _Statement(*head, tuple(body))
        head, body = (number, line), []
    if head is not None:
        yield _Statement(*head, tuple(body))


class _Reader:
    """Collects the statements of one file; features and paradigms come before their use."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.features: dict[str, dict[str, float]] = {}
        self.groups: dict[tuple[str, str], frozenset[str]] = {}
        self.paradigms: dict[str, _Paradigm] = {}
        self.absorb: dict[str, dict[str, frozenset[str]]] = {}
        self.header: dict[str, tuple[int, list[str]]] = {}
        self.rules: list[Rule] = []
        self.rows = 0

    def error(self, line: int, message: str) -> UntoldError:
        return UntoldError(f"{self.where}:{line}: {message}")

    def read(self, statement: _Statement) -> None:
        word = statement.text.split(maxsplit=1)[0]
        readers = {
            "feature": self._feature,
            "group": self._group,
            "absorb": self._absorb,
            "paradigm": self._paradigm,
            "words": self._words,
        }
        if word in readers:
            readers[word](statement)
        elif word in ("languages", "start", "length", "capitalize"):
            self.header[word] = (statement.line, statement.text.split()[1:])
        elif word[0].isupper():
            lines = ((statement.line, statement.text), *statement.body)
            self.rules += [self._rule(line, text) for line, text in self._rule_texts(lines)]
        else:
            raise self.error(
                statement.line,
                f"{word!r} starts no statement: write languages, start, length, capitalize, absorb,"
                " feature, group, paradigm, words, or a rule whose category has a capital",
            )

    def finish(self) -> Notation:
        languages = self._header("languages", 2, None)
        low, high = self._header("length", 2, ["1", "60"])
        if not (low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high)):
            line = self.header["length"][0]
            raise self.error(line, f"length {low} {high}: give the fewest and the most words")
        return Notation(
            where=self.where,
            languages=(languages[0], languages[1]),
            start=self._header("start", 1, None)[0],
            length=(int(low), int(high)),
            capitalize=self._capitalize(languages),
            absorb=self.absorb,
            features=self.features,
            rules=tuple(self.rules),
            entries=self.rows,
        )

    def _header(self, name: str, count: int, default: list[str] | None) -> list[str]:
        if name not in self.header and default is not None:
            return default
        line, values = self.header.get(name, (1, []))
        if len(values) != count:
            raise self.error(line, f"needs one line `{name}` with {count} value(s), found {values}")
        return values

    def _capitalize(self, languages: list[str]) -> tuple[str, ...]:
        line, values = self.header.get("capitalize", (1, []))
        for name in [*values, *self.absorb]:
            if name not in languages:
                raise self.error(line, f"{name} is neither of the languages {' and '.join(languages)}")
        return tuple(values)

    def _feature(self, statement: _Statement) -> None:
        match = self._match(_FEATURE, statement, "feature name ... = value value ...")
        values: dict[str, float] = {}
        for item in match["values"].split():
            value, star, weight = item.partition("*")
            try:
                values[value] = float(weight) if star else 1.0
            except ValueError:
                raise self.error(statement.line, f"{item}: a weight is a number, as in sg*2") from None
        for name in match["names"].split():
            self.features[name] = values

    def _group(self, statement: _Statement) -> None:
        match = self._match(_GROUP, statement, "group feature name = value value ...")
        values = self._values(statement.line, match["feature"], match["values"].split())
        for name, domain in self.features.items():
            if domain is self.features[match["feature"]]:  # features declared together share groups
                self.groups[name, match["name"]] = values

    def _absorb(self, statement: _Statement) -> None:
        match = self._match(_ABSORB, statement, "absorb language mark before mark mark ...")
        marks = self.absorb.setdefault(match["language"], {})
        marks[match["mark"]] = frozenset(match["words"].split())

    def _paradigm(self, statement: _Statement) -> None:
        match = self._match(_PARADIGM, statement, "paradigm name(source, forms = target, forms)")
        source, target = _cells(match["source"]), _cells(match["target"])
        rules = tuple(self._rule_texts(statement.body))
        self.paradigms[match["name"]] = _Paradigm((source, target), rules, statement.line)
        known = {*source, *target}
        for line, text in rules:
            for name in re.findall(r"\{(\w*)\}", text):
                if name not in known:
                    raise self.error(line, f"{{{name}}} is no form of {match['name']}: {sorted(known)}")

    def _words(self, statement: _Statement) -> None:
        match = self._match(_WORDS, statement, "words paradigm[features]")
        paradigm = self.paradigms.get(match["name"])
        if paradigm is None:
            known = ", ".join(self.paradigms) or "none yet"
            raise self.error(statement.line, f"no paradigm {match['name']}; known above: {known}")
        shared = self._parse_features(statement.line, match["features"])
        for line, text in statement.body:
            self.rows += 1
            self.rules += self._row(line, text, paradigm, shared)

    def _row(self, line: int, text: str, paradigm: _Paradigm, shared: Features) -> Iterator[Rule]:
        """The rules of one lexical entry: its forms put into every rule of the paradigm."""
        text, weight = self._weight(text)
        found = _ROW_FEATURES.search(text)
        features = {**shared, **self._parse_features(line, found[1] if found else None)}
        source, equals, target = _ROW_FEATURES.sub("", text).partition("=")
        forms: dict[str, str] = {}
        for names, cells in zip(paradigm.parameters, (_cells(source), _cells(target)), strict=True):
            if not equals or len(names) != len(cells):
                wanted = " = ".join(", ".join(part) for part in paradigm.parameters)
                raise self.error(line, f"{text!r} does not have the forms: {wanted}")
            forms |= dict(zip(names, cells, strict=True))
        for _, pattern in paradigm.rules:
            if all(forms[name] != "-" for name in re.findall(r"\{(\w+)\}", pattern)):
                filled = re.sub(r"\{(\w+)\}", lambda match: forms[match[1]], pattern)
                rule = _specialise(self._rule(line, filled), features)
                yield replace(rule, weight=rule.weight * weight)

    def _rule_texts(self, lines: tuple[tuple[int, str], ...]) -> Iterator[tuple[int, str]]:
        """Whole rules: `->` on a line of its own repeats the left side, other lines continue."""
        left, line, text = "", 0, ""
        for number, piece in lines:
            if piece.startswith("->") or re.match(rf"{_CATEGORY}({_FEATURES})?\s*(->|$)", piece):
                if "->" in text:
                    yield line, text
                if not piece.startswith("->"):
                    left = piece.partition("->")[0].strip()
                line, text = number, f"{left} -> {piece.partition('->')[2]}" if "->" in piece else ""
            else:
                text += " " + piece
        if "->" not in text:
            where = line or (lines[0][0] if lines else 1)
            raise self.error(where, "no rule here: write Category -> source || target")
        yield line, text

    def _rule(self, line: int, text: str) -> Rule:
        text, weight = self._weight(text)
        left, _, right = text.partition("->")
        head = _LEFT.match(left.strip())
        sides = right.split("||")
        if head is None or len(sides) != 2:
            raise self.error(line, f"{text!r}: write Category[features] -> source || target")
        source, source_children = self._side(line, sides[0], "source")
        target, target_children = self._side(line, sides[1], "target")
        if set(source_children) != set(target_children):
            odd = ", ".join(sorted(set(source_children) ^ set(target_children)))
            raise self.error(line, f"{odd} stands on one side only: each constituent is on both")
        order = list(source_children)
        source, target = self._align(line, source, target, has_children=bool(order))
        return Rule(
            category=head["category"],
            features=self._parse_features(line, head["features"]),
            children=tuple(
                Reference(name.partition(":")[0], {**source_children[name], **target_children[name]})
                for name in order
            ),
            source=tuple(order.index(item) if isinstance(item, str) else item for item in source),
            target=tuple(order.index(item) if isinstance(item, str) else item for item in target),
            weight=weight,
            origin=line,
        )

    def _side(
        self, line: int, text: str, side: str
    ) -> tuple[list[Word | str], dict[str, Features]]:
        items: list[Word | str] = []
        children: dict[str, Features] = {}
        position, text = 0, text.strip()
        while position < len(text):
            match = _ITEM.match(text, position)
            if match is None:
                raise self.error(
                    line, f'{text[position:].strip()!r}: words stand in "quotes", constituents'
                    " have a capital, as NP or NP:2[case=acc]"
                )
            position = match.end()
            if match["category"] is None:
                items += self._quoted(line, match["words"], match["tags"])
                continue
            name = match["category"] + (f":{match['label']}" if match["label"] else "")
            if name in children:
                raise self.error(line, f"{name} stands twice on the {side} side: label each, as "
                                 f"{match['category']}:1 and {match['category']}:2")
            items.append(name)
            children[name] = self._parse_features(line, match["features"])
        return items, children

    def _quoted(self, line: int, text: str, tags: str | None) -> Iterator[Word]:
        """The words between quotes; -1 marks a word that was tagged `~` with no number."""
        for item in text.split():
            word, tilde, own = item.partition("~")
            spec = own if tilde else tags
            numbers = (-1,) if spec == "" else tuple(int(n) for n in (spec or "").split(",") if n)
            if not word:
                raise self.error(line, f'"{text}": a tag follows a word, as in "word"~1')
            yield Word(word, numbers)

    def _align(
        self, line: int, source: list[Word | str], target: list[Word | str], has_children: bool
    ) -> tuple[list[Word | str], list[Word | str]]:
        """An entry without tags aligns all its words with all; tags must meet on the other side."""
        sides = [{t for w in side if isinstance(w, Word) for t in w.tags} for side in (source, target)]
        if not sides[0] and not sides[1] and not has_children:
            whole = [[replace(w, tags=(1,)) for w in side if isinstance(w, Word)]
                     for side in (source, target)]
            return list(whole[0]), list(whole[1])
        odd = (sides[0] ^ sides[1]) - {-1}
        if odd:
            raise self.error(line, f"tag ~{min(odd)} stands on one side only: tag words of both sides")
        return _untag(source), _untag(target)

    def _parse_features(self, line: int, text: str | None) -> Features:
        """`case` is short for `case=?case`; `case=nom,acc` allows either."""
        features: dict[str, Term] = {}
        for item in (text or "[]")[1:-1].split():
            name, equals, value = item.partition("=")
            if name not in self.features:
                known = ", ".join(self.features) or "none"
                raise self.error(line, f"unknown feature {name}; declared above: {known}")
            if not equals or value.startswith("?"):
                features[name] = Variable(value[1:] or name)
            else:
                features[name] = self._values(line, name, value.split(","))
        return features

    def _values(self, line: int, feature: str, values: list[str]) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for value in values:
            if value not in self.features.get(feature, {}) and (feature, value) not in self.groups:
                known = ", ".join(self.features.get(feature, {}))
                raise self.error(line, f"{feature}={value}: the values of {feature} are {known}")
            found |= self.groups.get((feature, value), frozenset([value]))
        return found

    def _weight(self, text: str) -> tuple[str, float]:
        match = _WEIGHT.search(text)
        return (text[: match.start()].rstrip(), float(match[1])) if match else (text, 1.0)

    def _match(self, pattern: re.Pattern[str], statement: _Statement, form: str) -> re.Match[str]:
        match = pattern.match(statement.text)
        if match is None:
            raise self.error(statement.line, f"{statement.text!r}: write `{form}`")
        return match


def _cells(text: str) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) for cell in text.split(","))


def _untag(side: list[Word | str]) -> list[Word | str]:
    return [replace(w, tags=tuple(t for t in w.tags if t >= 0)) if isinstance(w, Word) else w
            for w in side]


def _specialise(rule: Rule, features: Features) -> Rule:
    """The rule with a row's features: they replace values, and narrow variables everywhere."""
    domains = dict(rule.domains)
    merged = dict(rule.features)
    for name, term in features.items():
        own = rule.features.get(name)
        if isinstance(own, Variable) and isinstance(term, frozenset):
            domains[own.name] = domains.get(own.name, term) & term
        else:
            merged[name] = term
    return replace(rule, features=merged, domains=domains)
