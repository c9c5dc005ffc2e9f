"""Results are kept with everything that they depend on, and read back as they were."""

import json
from pathlib import Path

import pytest

from race import Race, Table, describe_conditions, read_json, write_json

RACE = Race("a title", {"untold": [1.0, 2.0, 4.0], "other": [2.0, 3.0, 4.0]}, {"tokens": 10})
TABLE = Table("limits", ["part", "share"], [["linear", 0.5], ["other", 12345.0]])


def test_races_and_tables_come_back(tmp_path):
    file = tmp_path / "results" / "race.json"
    write_json(file, [RACE], {"threads": 1}, [TABLE])
    kept = read_json(file)
    conditions = kept.conditions
    assert (kept.races, kept.tables, kept.facts) == ([RACE], [TABLE], {"threads": 1})
    assert {"date", "machine", "versions", "load", "threads", "malloc"} <= conditions.keys()
    assert {"python", "torch", "untold", "commit"} <= conditions["versions"].keys()
    assert {"processor", "cores", "caches", "governor"} <= conditions["machine"].keys()


def test_the_ratio_of_a_race_is_the_median_of_its_rounds(tmp_path):
    assert RACE.ratios("other") == [2.0, 1.5, 1.0]
    write_json(tmp_path / "race.json", [RACE], {})
    kept = json.loads((tmp_path / "race.json").read_bytes())
    assert kept["races"][0]["median_ratios"] == {"other": 1.5}


@pytest.mark.parametrize("path", [Path("/home/me/runs/demo"), "/home/me/runs/demo"])
def test_no_file_says_where_things_lie_on_this_machine(tmp_path, path):
    write_json(tmp_path / "race.json", [RACE], {"model": path, "json": tmp_path / "race.json"})
    assert json.loads((tmp_path / "race.json").read_bytes())["facts"] == {"model": "demo"}


def test_another_layout_is_refused(tmp_path):
    (tmp_path / "old.json").write_text('{"facts": {}, "races": []}')
    with pytest.raises(SystemExit, match=r"layout None, not 1: measure it anew"):
        read_json(tmp_path / "old.json")


def test_a_machine_is_described_by_its_own_files(tmp_path):
    files = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Fast 9000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
        "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
        "sys/devices/system/cpu/cpu0/cache/index0/size": "32K\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = describe_conditions(tmp_path)["machine"]
    assert found["processor"] == "Fast 9000"
    assert found["governor"] == "performance"
    assert found["caches"] == {"L1 data": "32K"}


def test_a_table_has_a_line_for_each_row():
    title, heading, *rows = TABLE.text().split("\n")
    assert (title, heading.split()) == ("limits", ["part", "share"])
    assert [row.split() for row in rows] == [["linear", "0.5"], ["other", "12,345"]]
