import threading
from collections.abc import Iterator

import pytest

from untold.corpus.text import ready_groups


def test_everything_comes_out_in_order_in_bounded_groups() -> None:
    groups = list(ready_groups(range(1000), most=7))
    assert [item for group in groups for item in group] == list(range(1000))
    assert all(1 <= len(group) <= 7 for group in groups)


def test_no_items_no_groups() -> None:
    assert list(ready_groups([], most=3)) == []


def test_a_line_is_answered_before_the_next_one_is_written() -> None:
    answered = threading.Event()

    def type_slowly() -> Iterator[str]:
        yield "first"
        assert answered.wait(timeout=30), "the first line was held back"
        yield "second"

    groups = ready_groups(type_slowly(), most=100)
    assert next(groups) == ["first"]
    answered.set()
    assert next(groups) == ["second"]


def test_an_error_comes_after_all_that_was_read() -> None:
    def fail() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("line 3")

    seen: list[int] = []
    with pytest.raises(ValueError, match="line 3"):
        for group in ready_groups(fail(), most=10):
            seen += group
    assert seen == [1, 2]
