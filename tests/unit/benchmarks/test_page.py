"""The page on speed says what the files of results say."""

import re
from pathlib import Path

import pytest

from page import (
    PAGE,
    PICTURES,
    draw_picture,
    picture_digest,
    picture_path,
    picture_races,
    with_results,
)
from race import RESULTS, Race, Table, write_json

CURE = "run: python benchmarks/page.py --write"
PAIR = "<!-- results: {0} begin -->\nstale\n<!-- results: {0} end -->"


def test_the_page_is_that_of_the_results():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_results(page), CURE


@pytest.mark.parametrize("name", [name for name in PICTURES if picture_races(name)])
def test_pictures_show_the_results(name):
    assert picture_digest(picture_races(name)) in picture_path(name).read_text("utf-8"), CURE
    assert f"](images/{picture_path(name).name})" in PAGE.read_text(encoding="utf-8")


def test_every_file_of_results_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    files = sorted(RESULTS.glob("*.json"))
    assert files
    for path in files:
        assert f"`benchmarks/results/{path.name}`" in page, CURE


@pytest.fixture
def results(tmp_path: Path) -> Path:
    race = Race("Title", {"untold": [1.0, 1.0], "other": [2.0, 3.0]}, {"tokens": 100})
    write_json(tmp_path / "one.json", [race], {"absent": {"slow": "it is not installed"}})
    write_json(tmp_path / "two.json", [race], {"past_future": True})
    write_json(tmp_path / "three.json", [], {}, [Table("Limits", ["part", "ms"], [["all", 0.5]])])
    return tmp_path


def test_a_table_stands_at_its_markers_and_other_files_are_named(results):
    markers = f"{PAIR.format('one')}\n\n{PAIR.format('two')}\n\n{PAIR.format('three')}"
    page = with_results(f"# Title\n\n{markers}\n\nOthers: {PAIR.format('others')}\n", results)
    assert "stale" not in page and "None" in page
    assert "| other | 40.0 | 2.50 x (2.00 to 3.00) |" in page
    assert "Not taking part: slow (it is not installed)." in page
    assert "| other | 40.0 | 0.42 x (0.33 to 0.50) |" in page
    assert "| all | 0.5 |" in page
    assert with_results(page, results) == page, "it changes nothing a second time"
    named = with_results(f"{PAIR.format('two')}\n{PAIR.format('others')}", results).split("end")[1]
    assert re.findall(r"results/(\w+)\.json", named) == ["one", "three"]


def test_a_number_that_was_changed_by_hand_is_noticed(results):
    page = with_results(PAIR.format("one"), results)
    forged = page.replace("2.50 x", "9.50 x")
    assert forged != page and with_results(forged, results) == page


def test_markers_without_a_file_are_refused(results):
    with pytest.raises(SystemExit, match=r"there is no four\.json"):
        with_results(PAIR.format("four"), results)


def test_a_picture_carries_the_digest_of_what_it_shows(tmp_path):
    race = Race("Title", {"untold": [1.0, 1.0], "other": [2.0, 3.0]}, {"tokens": 100})
    draw_picture([race, race], tmp_path / "speed.svg")
    text = (tmp_path / "speed.svg").read_text("utf-8")
    assert picture_digest([race, race]) in text
    assert picture_digest([race]) not in text
    assert "other" in text and "0.42" in text
