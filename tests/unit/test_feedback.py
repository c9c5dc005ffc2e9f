"""Progress is counted and told to a display, and to nobody where there is none."""

import pytest

from untold.progress_bar import active_display, is_decided, show_on, task, track


class Recorder:
    """A display that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple] = []

    def begin(self, what, total, done):
        self.events.append(("begin", what, total, done))
        return len(self.events)

    def update(self, number, done, total, note):
        self.events.append(("update", number, done, total, note))

    def end(self, number):
        self.events.append(("end", number))

    def close(self):
        self.events.append(("close",))


def test_items_come_through_in_order_and_are_counted():
    display = Recorder()
    with show_on(display):
        assert list(track("abc", "spelling", 3)) == ["a", "b", "c"]
    assert display.events[0] == ("begin", "spelling", 3, 0)
    assert display.events[-3:] == [("update", 1, 3, 3, ""), ("end", 1), ("close",)]


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
    assert display.events[-2:] == [("end", 1), ("close",)]


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
