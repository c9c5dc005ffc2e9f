"""Progress is counted; bars on a terminal, lines in a log, and who sees which."""

import io
import re
import time

import pytest
from rich.console import Console

from untold import progress_bar
from untold.progress_bar import (
    ProgressBars,
    ProgressLines,
    active_display,
    error_console,
    is_decided,
    show,
    show_on,
    task,
    track,
)


def terminal() -> Console:
    return Console(file=io.StringIO(), width=120, force_terminal=True)


def seen(console: Console) -> str:
    """What was written, without the sequences that move the cursor and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())  # type: ignore[attr-defined]


def test_a_bar_has_a_count_and_a_note():
    console = terminal()
    with show_on(ProgressBars(console)), task("translating [b].txt", 3000) as begun:
        time.sleep(0.02)
        begun.advance(1000)
        begun.note = "loss 1.5"
        begun.show()
        time.sleep(0.5)
    text = seen(console)
    assert "translating [b].txt" in text, "text is no markup"
    assert "1000/3000" in text and "loss 1.5" in text


def test_work_of_unknown_size_shows_how_long_it_has_taken():
    console = terminal()
    with show_on(ProgressBars(console)), task("learning the vocabulary"):
        time.sleep(0.3)
    text = seen(console)
    assert "learning the vocabulary" in text and "0:00:00" in text


def test_the_cursor_comes_back_whatever_happens():
    console = terminal()
    display = ProgressBars(console)
    with pytest.raises(KeyError), show_on(display):
        display.add_task("broken off", total=5, completed=0, note="")  # and nobody ends it
        raise KeyError
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_a_task_within_a_task_has_a_row_of_its_own():
    console = terminal()
    with show_on(ProgressBars(console)), task("comparing", 2) as outer:
        with task("translating", 5) as inner:
            inner.advance(5)
            time.sleep(0.3)
        outer.advance()
    text = seen(console)
    assert "comparing" in text and "5/5" in text and "1/2" in text


def test_a_long_note_squeezes_no_bar():
    console = terminal()
    with show_on(ProgressBars(console)), task("training", 10) as begun:
        begun.note = "loss 1.25  " * 50
        begun.show()
        time.sleep(0.3)
    lines = [line for line in seen(console).split("\n") if "loss" in line]
    assert lines and all("0/10" in line and line.rstrip().endswith("…") for line in lines)


def test_a_log_has_a_line_at_the_beginning_and_more_only_if_it_takes_long():
    console = Console(file=io.StringIO(), width=20)
    with show_on(ProgressLines(console, seconds=0.2)):
        with task("quick", 2) as begun:
            begun.advance(2)
        with task("slow and with a name that is long", 4) as begun:
            for _ in range(3):
                time.sleep(0.11)
                begun.advance()
            begun.note = "and well"
    lines = console.file.getvalue().split("\n")  # type: ignore[attr-defined]
    assert lines[:2] == ["quick: 0 of 2", "slow and with a name that is long: 0 of 4"]
    assert re.fullmatch(r"slow .* long: [23] of 4", lines[2])


@pytest.mark.parametrize(
    ("mode", "is_terminal", "expected"),
    [
        ("auto", True, ProgressBars),
        ("auto", False, None),
        ("plain", True, ProgressLines),
        ("plain", False, ProgressLines),
        ("none", True, None),
    ],
)
def test_bars_are_for_a_terminal_and_lines_for_who_asks(monkeypatch, mode, is_terminal, expected):
    console = terminal() if is_terminal else Console(file=io.StringIO())
    monkeypatch.setattr(progress_bar, "error_console", lambda: console)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    with show(mode):
        found = active_display()
        assert is_decided()
        assert found is None if expected is None else isinstance(found, expected)


def test_a_variable_that_wants_colours_makes_a_log_no_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Console(stderr=True).is_terminal, "the control: rich believes it"
    monkeypatch.setattr(progress_bar, "error_console", lambda: Console(stderr=True))
    with show("auto"):
        assert active_display() is None


def test_of_several_processes_only_the_first_shows_anything(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with show("plain"):
        assert active_display() is None
    monkeypatch.setenv("RANK", "0")
    with show("plain"):
        assert active_display() is not None


def test_lines_and_bars_share_one_console():
    assert error_console() is error_console() and error_console().stderr


class Recorder:
    """A display that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple] = []

    def add_task(self, what, *, total, completed, note):
        self.events.append(("begin", what, total, completed))
        return len(self.events)

    def update(self, number, *, completed, total, note):
        self.events.append(("update", number, completed, total, note))

    def remove_task(self, number):
        self.events.append(("end", number))


def test_items_come_through_in_order_and_are_counted():
    display = Recorder()
    with show_on(display):
        assert list(track("abc", "spelling", 3)) == ["a", "b", "c"]
    assert display.events[0] == ("begin", "spelling", 3, 0)
    assert display.events[-2:] == [("update", 1, 3, 3, ""), ("end", 1)]


def test_a_display_is_told_now_and_then_and_not_of_each_item():
    display = Recorder()
    with show_on(display), task("counting", 10_000) as begun:
        for _ in range(10_000):
            begun.advance()
    told = [event for event in display.events if event[0] == "update"]
    assert 2 <= len(told) < 200
    assert told[-1] == ("update", 1, 10_000, 10_000, "")


def test_a_task_that_is_broken_off_ends_on_the_display_too():
    display = Recorder()
    with pytest.raises(KeyError), show_on(display), task("failing"):
        raise KeyError
    assert display.events[-1] == ("end", 1)


def test_nothing_is_active_or_decided_unless_somebody_says_so():
    assert active_display() is None and not is_decided()
    with show_on(None):
        assert active_display() is None and is_decided()
    with show_on(Recorder()):
        assert active_display() is not None
    assert active_display() is None and not is_decided()


def test_without_a_display_items_are_only_passed_on():
    asked = []
    items = (asked.append(n) or n for n in range(3))
    found = track(items, "unseen")
    assert next(found) == 0 and asked == [0], "an item is taken when it is wanted, not before"
    assert list(found) == [1, 2]
    with task("unseen", 3) as begun:
        begun.advance(2)
    assert begun.done == 2
