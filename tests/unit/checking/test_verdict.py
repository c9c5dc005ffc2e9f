"""When a check fails: kinds, thresholds, a budget for each file, and damages always."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_checks import judged
from untold.checking.checker import Finding
from untold.checking.segments import Segment
from untold.checking.verdict import FailRules, Verdict, baseline_entry, read_fail_rules
from untold.errors import UntoldError

KINDS = ("omission", "addition")
PROBABILITIES = st.floats(0, 1)
RULES = st.dictionaries(st.sampled_from(KINDS), PROBABILITIES)


def finding(kind, probability):
    return Finding(kind, 0, 1, "x", probability, None)


FINDINGS = st.lists(st.builds(finding, st.sampled_from(KINDS), PROBABILITIES), max_size=6)


@given(st.dictionaries(st.text(max_size=2), FINDINGS, max_size=3), RULES, st.integers(0, 3))
def test_a_check_fails_if_and_only_if_some_file_has_more_than_its_budget(files, limits, budget):
    rules = FailRules(limits, budget)
    counted = {file: sum(map(rules.counts, found)) for file, found in files.items()}
    over = False
    for found in files.values():  # the plain form
        number = 0
        for each in found:
            if each.kind in limits and each.probability >= limits[each.kind]:
                number += 1
        over = over or number > budget
    assert rules.fail(counted, 0) == over
    assert rules.fail(counted, 1)


@given(RULES, PROBABILITIES, FINDINGS)
def test_whatever_counts_is_reported(limits, threshold, findings):
    rules = FailRules(limits)
    shown = rules.shown(threshold)
    for each in findings:
        assert each.probability >= shown[each.kind] or not rules.counts(each)
        assert each.probability < threshold or each.probability >= shown[each.kind]


@given(RULES, st.integers(0, 5), st.integers(0, 5), st.dictionaries(st.text(), st.integers(0, 9)))
def test_a_larger_budget_fails_no_more(limits, one, other, counted):
    small, large = sorted((one, other))
    assert FailRules(limits, small).fail(counted, 0) >= FailRules(limits, large).fail(counted, 0)


@pytest.mark.parametrize(
    ("given_rules", "expected"),
    [
        ([], {"omission": 0.4, "addition": 0.4}),
        (["omission:0.9"], {"omission": 0.9}),
        (["addition"], {"addition": 0.4}),
        (["addition:1", "omission:0"], {"addition": 1.0, "omission": 0.0}),
        (["damage"], {}),
        (["damage", "omission:0.5"], {"omission": 0.5}),
    ],
)
def test_rules_are_read(given_rules, expected):
    assert read_fail_rules(given_rules, 0.4, 2) == FailRules(expected, 2)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("omision:0.9", "unknown kind; known: omission, addition, damage"),
        ("", "unknown kind"),
        (":0.5", "unknown kind"),
        ("omission:", "must be a number from 0 to 1"),
        ("omission:nan", "must be a number from 0 to 1"),
        ("omission:1.01", "1.01 must be a number from 0 to 1"),
        ("addition:-0.1", "must be a number from 0 to 1"),
        ("addition:0.5:0.6", "must be a number from 0 to 1"),
        ("damage:0.5", "a damage has no probability: write --fail-on damage"),
    ],
)
def test_a_wrong_rule_names_itself_and_the_cure(rule, words):
    with pytest.raises(UntoldError, match=r"^--fail-on ") as caught:
        read_fail_rules([rule], 0.5, 0)
    assert words in str(caught.value)


def test_a_kind_is_named_once():
    with pytest.raises(UntoldError, match="--fail-on omission is given twice"):
        read_fail_rules(["omission:0.9", "omission"], 0.5, 0)


def test_the_summary_counts_everything():
    verdict = Verdict(FailRules({"omission": 0.9, "addition": 0.9}), threshold=0.6)
    verdict.unchecked.update(fuzzy=3, empty=1)
    assert verdict.summary([]) == (
        "segments checked: 0; not checked: 4 (empty 1, fuzzy 3); findings: 0"
    )
    segments = [Segment("a.po", n, "a_95 b_70", "c_80 d") for n in range(600)]
    old, stale = replace(segments[0], source="old_95"), replace(segments[0], source="gone")
    elsewhere = replace(old, file="b.po")
    verdict.known = {baseline_entry(each, "omission") for each in (old, stale, elsewhere)}
    for segment in (*segments, *[old] * 5):
        verdict.new_findings(judged(segment))
    verdict.damages = 7
    assert verdict.summary([Path("a.po")]) == (
        "segments checked: 605; not checked: 4 (empty 1, fuzzy 3); "
        "findings: 1,205 (addition 605, omission 600); of them count: 600; "
        "known by the baseline: 5; stale entries of the baseline: 1; damaged places: 7"
    )
