"""The limits are inclusive, reasons are counted, and nothing is lost between the counts."""

import pytest

from untold.corpus.filters import FilterReport, Limits, has_too_many_words, reason_to_drop
from untold.errors import UntoldError


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (0, 0, "empty"),
        (0, 5, "empty"),
        (5, 0, "empty"),
        (10, 5, None),
        (5, 10, None),
        (11, 10, "too long"),
        (10, 11, "too long"),
        (10, 4, "unequal"),
        (4, 10, "unequal"),
        (100, 1, "too long"),
        (1, 1, None),
        (1, 2, None),
        (1, 3, "unequal"),
    ],
)
def test_the_first_reason_that_holds(source, target, reason):
    assert reason_to_drop(source, target, Limits(max_tokens=10, max_ratio=2.0)) == reason


def test_without_a_ratio_lengths_may_differ_freely():
    assert reason_to_drop(1, 10, Limits(max_tokens=10)) is None


@pytest.mark.parametrize(
    ("texts", "too_many"),
    [
        (("a b c", "a"), False),
        (("a", "a b c"), False),
        (("a b c d", "a"), True),
        (("a", "a b c d"), True),
        (("  a  b\t c  ", "x" * 99), False),  # blanks part words and are none
        (("一 二 三 四", "a"), True),
    ],
)
def test_words_of_either_side_are_limited(texts, too_many):
    assert has_too_many_words(texts, Limits(max_tokens=10, max_words=3)) == too_many
    assert not has_too_many_words(texts, Limits(max_tokens=10))


@pytest.mark.parametrize(("tokens", "ratio", "words"), [(0, None, 9), (9, 0.5, 9), (9, None, 0)])
def test_limits_that_leave_nothing_are_refused(tokens, ratio, words):
    with pytest.raises(UntoldError):
        Limits(max_tokens=tokens, max_ratio=ratio, max_words=words)


def test_the_report_reads_as_a_sentence():
    report = FilterReport(kept=5, dropped={"too long": 2, "empty": 1})
    assert report.total == 8
    assert str(report) == "5 of 8 pairs kept (1 empty, 2 too long dropped)"
    assert str(FilterReport(kept=5, dropped={})) == "5 of 5 pairs kept"
