"""The report in a terminal: a line for each finding, marks without colours, nothing obeyed."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_checks import TEXTS, judged
from untold.checking.reports import damage_record, print_record, record_lines, segment_record
from untold.checking.segments import Damage, Segment
from untold.terminal import console


def record(source, target, **more):
    checked = judged(Segment("po/de.po", 7, source, target, **more))
    return segment_record(checked, checked.findings({"omission": 0.5, "addition": 0.5}))


def plain(made):
    return ["".join(text for text, _ in line) for line in record_lines(made)]


def test_a_line_for_each_finding_and_both_texts():
    assert plain(record("a hat_93 b cap_60 d", "x new_70", name="menu")) == [
        'po/de.po:7: omission 0.93  "hat_93"  (menu)',
        'po/de.po:7: omission 0.60  "cap_60"  (menu)',
        'po/de.po:7: addition 0.70  "new_70"  (menu)',
        "    source: a >>hat_93<< b >>cap_60<< d",
        "    target: x >>new_70<<",
    ]


def test_a_name_that_repeats_the_source_is_left_out():
    assert plain(record("a hat_93", "x", name="a  hat_93"))[0].endswith('"hat_93"')
    assert plain(record("a hat_93", "x", name="n" * 900))[0].endswith(f"({'n' * 80})")


def test_a_damage_is_one_line():
    made = damage_record(Damage("de.po", 3, "cut:\nadd a quote"))
    assert plain(made) == ["de.po:3: damaged: cut: add a quote"]


@given(st.text(TEXTS), st.text(TEXTS), st.text(TEXTS))
def test_a_search_for_the_file_finds_the_findings_and_nothing_else(source, target, name):
    made = record(f"{source} hat_93 {source}", target, name=name)
    printed = "\n".join(plain(made)).split("\n")
    found = [line for line in printed if line.startswith("po/de.po:7: ")]
    assert len(found) == len(made["findings"]) == 1
    assert len(printed) == 3


def test_the_name_of_a_file_cannot_make_a_line():
    made = damage_record(Damage("a\nb.po:1: omission", 3, "x"))
    assert plain(made) == ["a\\nb.po:1: omission:3: damaged: x"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_shows_colours_and_obeys_no_text(monkeypatch, colours):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")  # lines are not broken
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    hostile = "\x1b[31m \x1b]0;t\x07 \x9b5m \u202ex \x08 \x7f [bold]長い言葉[/bold] :smile:"
    made = record(f"{hostile} hat_93", hostile, name=hostile)
    made["file"] = f"{hostile}.po"
    print_record(made, console())
    print_record(damage_record(Damage(hostile, 1, hostile)), console())
    printed = terminal.getvalue()
    assert bool(re.search(r"\x1b\[[\d;]*3\dm", printed)) == colours
    shown = re.sub(r"\x1b\[[\d;]*m", "", printed)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    escaped = r"\x1b[31m \x1b]0;t\x07 \x9b5m \u202ex \x08 \x7f [bold]長い言葉[/bold] :smile:"
    assert shown.split("\n")[:-1] == [
        f'{escaped}.po:7: omission 0.93  "hat_93"  ({escaped})',
        f"    source: {escaped} >>hat_93<<",
        f"    target: {escaped}",
        f"{escaped}:1: damaged: {escaped}",
    ]


def test_a_pipe_gets_the_texts_as_they_are(capsys):
    print_record(record("a \x1b[31m\x07 hat_93", "x"), console())
    assert "source: a \x1b[31m\x07 >>hat_93<<\n" in capsys.readouterr().out
