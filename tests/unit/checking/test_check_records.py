"""Records of findings: what they hold, and where in a text the suspicious words are."""

import json
import os

from hypothesis import given
from hypothesis import strategies as st

from fake_checks import TEXTS, judged
from untold.checking.checker import CheckedSegment, JudgedSide
from untold.checking.reports import damage_record, json_line, marked_side, segment_record
from untold.checking.segments import Damage, Segment
from untold.corpus.words import Word

LIMITS = {"omission": 0.5, "addition": 0.5}


def record(source, target="x", **more):
    checked = judged(Segment("de.po", 7, source, target, **more))
    return segment_record(checked, checked.findings(LIMITS))


def test_a_record_has_the_layout_of_the_documentation():
    made = record("a  man_70 hat_93 b", "c add_60", name="unit")
    assert list(made) == ["file", "line", "name", "source", "target", "findings"]
    assert (made["file"], made["line"], made["name"]) == ("de.po", 7, "unit")
    assert made["source"] == {
        "text": "a  man_70 hat_93 b",
        "any": 0.93,
        "words": ["a", "man_70", "hat_93", "b"],
        "probabilities": [0.01, 0.7, 0.93, 0.01],
    }
    assert made["findings"] == [
        {
            "kind": "omission",
            "probability": 0.93,
            "text": "man_70 hat_93",
            "start": 1,
            "stop": 3,
            "characters": [3, 16],
        },
        {
            "kind": "addition",
            "probability": 0.6,
            "text": "add_60",
            "start": 1,
            "stop": 2,
            "characters": [2, 8],
        },
    ]
    assert damage_record(Damage("x", 3, "cut")) == {"file": "x", "line": 3, "damage": "cut"}


WORDS = st.sampled_from(["a", "b_80", "c_90", "長い", "d_20"])


@given(st.lists(WORDS, min_size=1), st.sampled_from([" ", "  ", "\n", "\u3000 "]))
def test_parts_are_the_text_and_the_marked_ones_are_the_findings(words, blank):
    text = blank + blank.join(words) + blank
    made = record(text)
    parts = marked_side(made, "source")
    assert "".join(part for part, _ in parts) == text
    marked = {number: part for part, number in parts if number is not None}
    assert [marked[n].split() for n in range(len(made["findings"]))] == [
        finding["text"].split() for finding in made["findings"]
    ]
    for part, number in parts:
        if number is not None:
            start, stop = made["findings"][number]["characters"]
            assert text[start:stop] == part
    assert marked_side(made, "target") == [("x", None)]


def judged_side(words, places, probabilities):
    parts = (slice(k, k + 1) for k in range(len(words)))
    return JudgedSide(tuple(map(Word, words, places, parts, words)), probabilities, 0.9)


def test_words_that_a_tokenizer_has_changed_are_shown_instead_of_the_text():
    text, words = "ﬁn d lost!", ("fin", "d", "lost")
    side = judged_side(words, [None] * 3, (0.9, 0.1, 0.8))
    other = judged_side(("x",), [(0, 1)], (0.1,))
    checked = CheckedSegment(Segment("f", 1, text, "x"), side, other)
    made = segment_record(checked, checked.findings(LIMITS))
    assert [finding["characters"] for finding in made["findings"]] == [None, None]
    assert marked_side(made, "source") == [("fin", 0), (" d ", None), ("lost", 1)]
    assert made["source"]["text"] == text


def test_words_of_a_script_without_spaces_are_found():
    side = judged_side(("再见", "世界"), [(0, 2), (2, 4)], (0.1, 0.9))
    other = judged_side(("x",), [(0, 1)], (0.1,))
    checked = CheckedSegment(Segment("f", 1, "再见世界", "x"), side, other)
    made = segment_record(checked, checked.findings(LIMITS))
    assert marked_side(made, "source") == [("再见", None), ("世界", 0)]


@given(st.text(), st.text(TEXTS))
def test_a_line_of_json_is_one_line_and_has_the_texts(source, target):
    made = record(source, target)
    line = json_line(made)
    assert "\n" not in line
    assert json.loads(line.encode()) == json.loads(json.dumps(made))


def test_a_name_that_is_not_utf8_makes_valid_json():
    line = json_line(damage_record(Damage(os.fsdecode(b"caf\xe9"), 1, "x")))
    assert json.loads(line.encode())["file"] == "caf\udce9"
