"""Explanations by shares in the terminal, a line for each target word.

Signs repeat what colours say, so that the table can be read without colours.

Finds the source words that have just turned, as tables and figures mark them.

Explanations of a PFRNN in the terminal, a line for each target piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from untold.explain.explanation import LIKELY, PfrnnExplanation, PfrnnStates, ShareExplanation
from untold.models.signals import FUTURE, PAST, REDUNDANT


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
    told, fallen = (np.flatnonzero(each & is_either) for each in (now & ~before, before & ~now))
    return TurnedWords(frozenset(map(int, told)), frozenset(map(int, fallen)))


def any_falls_back(shares: Float[np.ndarray, "t i g"]) -> bool:
    """Tells whether a word that was told is untold again at some step."""
    return any(turned_words(shares, step).fallen for step in range(len(shares)))


# In the order of CATEGORIES:
_SIGNS = ("✓", "○", "–")
_NAMES = ("told (PAST)", "untold (FUTURE)", "neither (REDUNDANT)")
_STYLES = ("blue", "bold yellow", "italic bright_black")
_JUST_TOLD, _FLIPPED = "»", "bold reverse blue"
_AGAIN, _FALLEN = "↩", "bold reverse yellow"
_COPIED, _COPIED_STYLE = "❐", "green"
_LACKING = "underline"
_UNCALIBRATED = "no word is judged to be untold or added: run untold calibrate first"


def share_table(explanations: Sequence[ShareExplanation]) -> list[RenderableType]:
    """Shows both texts, and the source words before each target word and before the end."""
    parts: list[RenderableType] = [_legend(explanations)]
    if any(each.untold is None for each in explanations):
        parts.append(Text(_UNCALIBRATED, style="dim"))
    for explanation in explanations:
        source = Text(explanation.source.text, style="bold")
        target = Text(f"→ {explanation.target.text}  ({explanation.score:.3f})")
        parts += ["", source, target, _table(explanation)]
    return parts


def _legend(explanations: Sequence[ShareExplanation]) -> Text:
    signs = zip(_SIGNS, _NAMES, _STYLES, strict=True)
    entries = [Text(f"{sign} {name}", style) for sign, name, style in signs]
    entries.append(Text(f"{_JUST_TOLD} just told", _FLIPPED))
    if any(any_falls_back(each.shares) for each in explanations):
        entries.append(Text(f"{_AGAIN} untold again", _FALLEN))
    if any(each.copies for each in explanations):
        entries.append(Text(f"{_COPIED} copied from", _COPIED_STYLE))
    return Text("   ").join(entries)


def _table(explanation: ShareExplanation) -> Table:
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


def _line(explanation: ShareExplanation, step: int) -> Text:
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


_SAME, _OTHER = "=", "≠"
_pfrnn_table_STYLES = {_SAME: "blue", _OTHER: "bold yellow"}


def pfrnn_table(explanations: Sequence[PfrnnExplanation]) -> list[RenderableType]:
    """Shows both texts, the pieces that the layers predict, and the norms of their states."""
    parts: list[RenderableType] = [_pfrnn_table_legend()]
    for explanation in explanations:
        source = Text(explanation.source.text, style="bold")
        target = Text(f"→ {explanation.target.text}  ({explanation.score:.3f})")
        parts += [
            "",
            source,
            target,
            _pfrnn_table_table(explanation.pfrnn),
            _summary(explanation.pfrnn),
        ]
        if explanation.copies:
            parts.append(_copies(explanation))
    return parts


def _pfrnn_table_legend() -> Text:
    same = Text(f"{_SAME} the piece itself", _pfrnn_table_STYLES[_SAME])
    return Text("   ").join([same, Text(f"{_OTHER} another one", _pfrnn_table_STYLES[_OTHER])])


def _pfrnn_table_table(states: PfrnnStates) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("after", "added to past", "taken from future"):
        table.add_column(name, overflow="fold")
    for name in ("|past|", "|future|"):
        table.add_column(name, justify="right")
    norms = states.norms()
    rows = zip(
        states.pieces, states.added, states.taken, norms["past"], norms["future"], strict=True
    )
    for piece, added, taken, past, future in rows:
        guesses = (_guess(each, piece) for each in (added, taken))
        table.add_row(Text(piece), *guesses, f"{past:.2f}", f"{future:.2f}")
    return table


def _guess(guess: str, piece: str) -> Text:
    sign = _SAME if guess == piece else _OTHER
    return Text(f"{sign}{guess}", _pfrnn_table_STYLES[sign])


def _copies(explanation: PfrnnExplanation) -> Text:
    source, target = explanation.source.words, explanation.target.words
    pairs = (f"{target[copy.target]} ❐{source[copy.source]}" for copy in explanation.copies)
    return Text(f"copied (❐ from): {', '.join(pairs)}", "green")


def _summary(states: PfrnnStates) -> Text:
    counts = {
        name: sum(guess == piece for guess, piece in zip(guesses, states.pieces, strict=True))
        for name, guesses in (("past", states.added), ("future", states.taken))
    }
    said = ", ".join(f"{name} {count} of {len(states.pieces)}" for name, count in counts.items())
    return Text(f"the piece itself: {said}", "dim")
