"""The limits are inclusive, reasons are counted, and nothing is lost between the counts."""

import pytest

from untold.corpus.filters import FilterReport, Limits, reason_to_drop
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


@pytest.mark.parametrize(("tokens", "ratio"), [(0, None), (10, 0.5)])
def test_limits_that_leave_nothing_are_refused(tokens, ratio):
    with pytest.raises(UntoldError):
        Limits(max_tokens=tokens, max_ratio=ratio)


def test_the_report_reads_as_a_sentence():
    report = FilterReport(kept=5, dropped={"too long": 2, "empty": 1})
    assert report.total == 8
    assert str(report) == "5 of 8 pairs kept (1 empty, 2 too long dropped)"
    assert str(FilterReport(kept=5, dropped={})) == "5 of 5 pairs kept"
