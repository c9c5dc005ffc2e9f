"""A fixed share of `make fuzz`, and proof that it would notice what it looks for."""

from pathlib import Path

import pytest

from fuzz.runner import Finding, Limits, fuzz

CASES = 250


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the workshop for all tests, since a training is in it."""
    return tmp_path_factory.mktemp("fuzz")


def test_generated_input_ends_as_documented(folder: Path) -> None:
    *findings, count = fuzz(folder, 0, range(CASES), Limits(seconds=600))
    assert not findings, findings
    assert count == CASES


def test_a_fault_a_signal_and_a_hang_are_noticed(folder: Path) -> None:
    *found, count = fuzz(folder, 0, range(-4, 0), Limits(seconds=120, case_seconds=6))
    assert count == 4
    findings = {each.number: each for each in found if isinstance(each, Finding)}
    assert {number: each.what for number, each in findings.items()} == {
        -3: "exit code 70",
        -2: "no end after 6 s",
        -1: "the process ended with -11",
    }
    assert "KeyError: 'a fault'" in findings[-3].output
    assert "time.sleep" in findings[-2].output or "_run_control" in findings[-2].output
