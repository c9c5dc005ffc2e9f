"""Explanations in the terminal, a line for each target word.

Signs repeat what colours say, so that the table can be read without colours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from untold.errors import UntoldError, escape_controls
from untold.explain.explanation import LIKELY, Explanation
from untold.models.signals import FUTURE, PAST, REDUNDANT
from untold.terminal import console as make_console

# In the order of CATEGORIES:
_SIGNS = ("✓", "○", "–")
_NAMES = ("told (PAST)", "untold (FUTURE)", "neither (REDUNDANT)")
_STYLES = ("blue", "bold yellow", "italic bright_black")
_JUST_TOLD, _FLIPPED = "»", "bold reverse blue"
_AGAIN, _FALLEN = "↩", "bold reverse yellow"
_COPIED, _COPIED_STYLE = "❐", "green"
_LACKING = "underline"
_UNCALIBRATED = "no word is judged to be untold or added: run untold calibrate first"


@dataclass(frozen=True)
class TurnedWords:
    """Source words whose past has overtaken future since the step before, or the other way round.

    A word that is mostly neither has not turned.
    """

    told: frozenset[int] = frozenset()
    fallen: frozenset[int] = frozenset()


def turned_words(shares: Float[np.ndarray, "t i g"], step: int) -> TurnedWords:
    """Finds the words that have turned between the step before and this one."""
    if not 0 < step < len(shares):
        return TurnedWords()
    before, now = (shares[k, :, PAST] > shares[k, :, FUTURE] for k in (step - 1, step))
    is_either = shares[step].argmax(axis=-1) != REDUNDANT
    told, fallen = (np.flatnonzero(change & is_either) for change in (now & ~before, before & ~now))
    return TurnedWords(frozenset(map(int, told)), frozenset(map(int, fallen)))


def any_falls_back(shares: Float[np.ndarray, "t i g"]) -> bool:
    """Tells whether a word that was told is untold again at some step."""
    return any(turned_words(shares, step).fallen for step in range(len(shares)))


def print_explanations(explanations: Sequence[Explanation], console: Console | None = None) -> None:
    """Prints all explanations; on a terminal, control characters in their texts are visible."""
    refuse_none(explanations)
    console = console or make_console()
    shown = with_visible_text(tuple(explanations)) if console.is_terminal else explanations
    for part in share_table(shown):
        console.print(part)


def share_table(explanations: Sequence[Explanation]) -> list[RenderableType]:
    """Shows both texts, and the source words before each target word and before the end."""
    parts: list[RenderableType] = [_legend(explanations)]
    if any(explanation.untold is None for explanation in explanations):
        parts.append(Text(_UNCALIBRATED, style="dim"))
    for explanation in explanations:
        source = Text(explanation.source.text, style="bold")
        target = Text(f"→ {explanation.target.text}  ({explanation.score:.3f})")
        parts += ["", source, target, _table(explanation)]
    return parts


def _legend(explanations: Sequence[Explanation]) -> Text:
    signs = zip(_SIGNS, _NAMES, _STYLES, strict=True)
    entries = [Text(f"{sign} {name}", style) for sign, name, style in signs]
    entries.append(Text(f"{_JUST_TOLD} just told", _FLIPPED))
    if any(any_falls_back(explanation.shares) for explanation in explanations):
        entries.append(Text(f"{_AGAIN} untold again", _FALLEN))
    if any(explanation.copies for explanation in explanations):
        entries.append(Text(f"{_COPIED} copied from", _COPIED_STYLE))
    return Text("   ").join(entries)


def _table(explanation: Explanation) -> Table:
    table = Table("before", "the source stands so", box=None, pad_edge=False, header_style="dim")
    origins = {copy.target: explanation.source.words[copy.source] for copy in explanation.copies}
    for step, word in enumerate(explanation.steps):
        said = Text(word)
        if explanation.added is not None and step < len(explanation.added):
            said = _judged(said, "added", explanation.added[step])
        if step in origins:
            said.append(f" {_COPIED}{origins[step]}", _COPIED_STYLE)
        table.add_row(said, _line(explanation, step))
    return table


def _line(explanation: Explanation, step: int) -> Text:
    turned = turned_words(explanation.shares, step)
    largest = explanation.shares[step].argmax(axis=-1)
    words = []
    for place, (word, category) in enumerate(zip(explanation.source.words, largest, strict=True)):
        if place in turned.told:
            words.append(Text(f"{_JUST_TOLD}{word}", _FLIPPED))
        elif place in turned.fallen:
            words.append(Text(f"{_AGAIN}{word}", _FALLEN))
        else:
            words.append(Text(f"{_SIGNS[category]}{word}", _STYLES[category]))
    if explanation.untold is not None and step == len(explanation.target.words):
        pairs = zip(words, explanation.untold, strict=True)
        words = [_judged(shown, "untold", likely) for shown, likely in pairs]
    return Text(" ").join(words)


def _judged(shown: Text, what: str, likely: float) -> Text:
    """Underlines a word that is likely to be untold or added, and writes the probability."""
    if likely < LIKELY:
        return shown
    shown.stylize(_LACKING)
    return shown.append(f" ({what} {likely:.2f})", "bold")


def with_visible_text(value: Any) -> Any:
    """Makes control characters visible in all texts of a value, before their widths are measured.

    XML forbids them, fonts lack them, and some turn the direction of a whole line.
    """
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, tuple):
        return tuple(map(with_visible_text, value))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **{name: with_visible_text(part) for name, part in parts.items()})
    return value


def refuse_none(explanations: Sequence[Explanation]) -> None:
    """Refuses to show nothing."""
    if not explanations:
        raise UntoldError("there is no explanation to show: explain at least one sentence")
