"""Rules with features: what they hold, and how one is parsed.

A pattern is a rule whose words may still have blanks to fill.
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
