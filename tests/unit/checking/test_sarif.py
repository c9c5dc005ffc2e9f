"""SARIF: what the schema of version 2.1.0 requires, and results that are known by their texts."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fake_checks import TEXTS, judged
from untold.checking.reports import damage_record, sarif_log, segment_record
from untold.checking.segments import Damage, Segment
from untold.version import __version__

ROOT = Path("/project")


def record(source, target="x", file="/project/po/de.po", line=7, name=""):
    checked = judged(Segment(file, line, source, target, name))
    return segment_record(checked, checked.findings({"omission": 0.3, "addition": 0.3}))


def document(*records):
    return json.loads(json.dumps(sarif_log(records, ROOT)))


def results(*records):
    return document(*records)["runs"][0]["results"]


# Of each object of the schema: its required and its other properties that untold writes.
SCHEMA = {
    "sarifLog": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"results", "invocations", "columnKind"}),
    "tool": ({"driver"}, set()),
    "toolComponent": ({"name"}, {"version", "rules"}),
    "reportingDescriptor": (
        {"id"},
        {
            *("name", "shortDescription", "fullDescription", "help"),
            *("defaultConfiguration", "properties"),
        },
    ),
    "multiformatMessageString": ({"text"}, set()),
    "reportingConfiguration": (set(), {"level"}),
    "invocation": ({"executionSuccessful"}, set()),
    "result": (
        {"message"},
        {
            *("ruleId", "ruleIndex", "level", "rank", "locations"),
            *("partialFingerprints", "properties"),
        },
    ),
    "message": ({"text"}, set()),
    "location": (set(), {"physicalLocation", "logicalLocations"}),
    "logicalLocation": (set(), {"name"}),
    "physicalLocation": ({"artifactLocation"}, {"region"}),
    "artifactLocation": (set(), {"uri", "uriBaseId"}),
    "region": (set(), {"startLine"}),
}
KINDS = {
    "runs": "run",
    "tool": "tool",
    "driver": "toolComponent",
    "rules": "reportingDescriptor",
    "shortDescription": "multiformatMessageString",
    "fullDescription": "multiformatMessageString",
    "help": "multiformatMessageString",
    "defaultConfiguration": "reportingConfiguration",
    "invocations": "invocation",
    "results": "result",
    "message": "message",
    "locations": "location",
    "logicalLocations": "logicalLocation",
    "physicalLocation": "physicalLocation",
    "artifactLocation": "artifactLocation",
    "region": "region",
}
LISTS = {"runs", "rules", "results", "locations", "logicalLocations", "invocations"}


def validate(values, kind="sarifLog"):
    required, other = SCHEMA[kind]
    assert required <= values.keys() <= required | other, (kind, values.keys())
    for name, value in values.items():
        assert isinstance(value, list) == (name in LISTS), name
        if name in KINDS:
            for each in value if name in LISTS else [value]:
                validate(each, KINDS[name])
    if "level" in values:
        assert values["level"] in ("none", "note", "warning", "error")
    if "uri" in values:
        assert re.fullmatch(r"[\w.~:/%!$&'()*+,;=@-]+", values["uri"], re.ASCII)
    if kind == "region":
        assert isinstance(values["startLine"], int) and values["startLine"] >= 1
    if kind == "result":
        assert 0 <= values.get("rank", 0) <= 100
        assert all(isinstance(each, str) for each in values["partialFingerprints"].values())
        assert values["message"]["text"]


def check_whole(made):
    validate(made)
    assert made["version"] == "2.1.0"
    (run,) = made["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["omission", "addition", "damage"]
    assert len({rule["help"]["text"] for rule in rules}) == 3
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_a_file_without_findings_is_valid():
    made = document()
    check_whole(made)
    assert made["runs"][0]["results"] == []
    assert made["runs"][0]["tool"]["driver"]["version"] == __version__


@pytest.mark.parametrize("missing", ["version", "runs"])
def test_the_control_an_invalid_file_is_noticed(missing):
    made = document(record("hat_93"))
    del made[missing]
    with pytest.raises(AssertionError):
        validate(made)


@given(st.text(), st.text(TEXTS), st.text(st.characters(exclude_characters="\0")))
@example(TEXTS, TEXTS, TEXTS.replace("\0", ""))
def test_any_text_makes_a_valid_file(source, target, name):
    damage = damage_record(Damage(f"/project/{name}x", 0, source))
    made = document(record(f"{source} hat_93", target, f"{name}.po", 1, name), damage)
    check_whole(made)
    text = made["runs"][0]["results"][0]["message"]["text"]
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_levels_follow_probabilities():
    found = results(record("a_30 b c_49 d e_50 f g_89 h i_90 j k_99"))
    assert {each["rank"]: each["level"] for each in found} == {
        **{99: "error", 90: "error", 89: "warning", 50: "warning", 49: "note", 30: "note"}
    }
    (damage,) = results(damage_record(Damage("/project/x", 3, "cut")))
    assert (damage["ruleId"], damage["level"]) == ("damage", "error")
    assert damage["message"]["text"] == "This place could not be read: cut"


@pytest.mark.parametrize("name", ["po/de.po", "a b/ä.po", "100%.po", "#?.po", "caf\udce9.po"])
def test_files_are_named_relative_to_the_root(name):
    (found,) = results(record("hat_93", file=f"/project/{name}"))
    place = found["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uriBaseId"] == "%SRCROOT%"
    assert unquote(place["uri"], errors="surrogateescape") == name
    assert not urlsplit(place["uri"]).scheme


def test_a_file_elsewhere_has_an_absolute_name():
    (found,) = results(record("hat_93", file="/other/de.po"))
    place = found["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "file:///other/de.po"}


def test_results_are_recognised_when_lines_move_and_only_then():
    def known(*records):
        return [each["partialFingerprints"]["untold/v1"] for each in results(*records)]

    first = known(record("a hat_93 b cap_80", line=7))
    assert len(set(first)) == 2
    assert known(record("a hat_93 b cap_80", line=70)) == first
    assert set(known(record("a hat_93 b cap_80", "y"))).isdisjoint(first)
    twice = known(record("hat_93", line=1), record("hat_93", line=2))
    assert len(set(twice)) == 2 and twice[0].split(":")[0] == twice[1].split(":")[0]


def test_braces_and_links_of_a_text_are_no_placeholders():
    checked = record("{0}_93")
    checked["findings"] = [
        {"kind": "omission", "probability": 0.5, "text": "{0} [x](http://y)"},
    ]
    (found,) = results(checked)
    expected = "The translation leaves out “{{0}} [x] (http://y)” (probability 0.50)"
    assert found["message"]["text"] == expected
    assert found["properties"]["source"] == "{0}_93"
    assert found["properties"]["probability"] == 0.5


def test_the_unit_is_a_logical_location():
    (found,) = results(record("hat_93", name="menu.hat"))
    assert found["locations"][0]["logicalLocations"] == [{"name": "menu.hat"}]
    (found,) = results(record("hat_93"))
    assert "logicalLocations" not in found["locations"][0]
    assert found["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}


def test_the_working_directory_does_not_matter(monkeypatch, tmp_path):
    before = results(record("hat_93"))
    monkeypatch.chdir(tmp_path)
    assert results(record("hat_93")) == before
