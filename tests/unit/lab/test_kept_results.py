import json

import pytest

from untold.lab.results import KeptResults, fingerprint


@pytest.fixture
def kept(tmp_path):
    said = []
    made = KeptResults(tmp_path, said.append)
    made.said, made.path = said, tmp_path / "a/b.json"
    return made


def test_a_result_is_made_once(kept):
    made = []
    for _ in range(3):
        value = kept.get("a/b", [1, "x"], lambda: made.append(1) or {"n": 1.5, "t": ["é", None]})
        assert value == {"n": 1.5, "t": ["é", None]}
    assert len(made) == 1 and not kept.said


def test_what_was_made_from_something_else_is_made_again(kept):
    assert kept.get("a/b", [1], lambda: "old") == "old"
    assert kept.find("a/b", [2]) is None
    assert kept.get("a/b", [2], lambda: "new") == "new"
    assert kept.find("a/b", [1]) is None and kept.find("a/b", [2]) == "new"
    assert not kept.said


@pytest.mark.parametrize("place", range(0, 160, 7))
def test_a_changed_byte_is_noticed_and_the_result_made_again(kept, place):
    kept.get("a/b", [1], lambda: {"bleu": [12.5, 13.5]})
    data = bytearray(kept.path.read_bytes())
    data[place % len(data)] ^= 0x10
    kept.path.write_bytes(bytes(data))
    try:
        same = json.loads(bytes(data)) is None
    except ValueError:
        same = False
    assert not same
    assert kept.get("a/b", [1], lambda: "made again") == "made again"
    assert kept.said == [f"{kept.path} is damaged: it is made again"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"value": 1, "seal": "0"}'])
def test_no_result_is_damage(kept, text):
    kept.path.parent.mkdir()
    kept.path.write_text(text, encoding="utf-8")
    assert kept.find("a/b", [1]) is None and kept.said


def test_an_error_keeps_nothing(kept):
    with pytest.raises(ZeroDivisionError):
        kept.get("a/b", [1], lambda: 1 / 0)
    assert not kept.path.exists()


def test_other_values_have_other_fingerprints():
    values = [[], [1], ["1"], [1.0, 2], [{"a": 1}], [{"a": 2}], ["é"], [None]]
    assert len({fingerprint(value) for value in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
