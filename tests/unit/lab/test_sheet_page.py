"""The page of a sheet: self-contained, harmless, anonymous, and it saves what sheet.csv would."""

import base64
import csv
import hashlib
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from untold.lab.human_evaluation import (
    COLUMNS,
    GUARD,
    Sheet,
    SheetTexts,
    draw_sheet,
    guard_cell,
    sheet_csv,
    sheet_page,
    unguard_cell,
)

NASTY = "</script><b>x</b> <!--data--> <!--script-hash--> &amp; \u2028 <img src=x onerror=alert(1)>"
TEXTS = SheetTexts(
    [NASTY, "=1+1", "\tβ, \"q\" 'x'", "two"],
    {"secret-a": ["+1", "", "@x", NASTY], "secret-b": [" =cmd", GUARD, "＝字", '"quoted"']},
)
OVER, UNDER, COMMENT = COLUMNS[6:]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, and the text at the start of each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._is_open = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self._is_open = True

    def handle_endtag(self, tag: str) -> None:
        self._is_open = False

    def handle_data(self, data: str) -> None:
        if self._is_open:
            self.texts[-1] += data

    def text_of(self, tag: str, **attributes: str) -> str:
        (text,) = [
            text
            for (name, found), text in zip(self.elements, self.texts, strict=True)
            if name == tag and found == attributes
        ]
        return text

    def data(self) -> dict:
        return json.loads(self.text_of("script", type="application/json", id="data"))


def sheet(texts: SheetTexts = TEXTS) -> Sheet:
    return draw_sheet(texts, len(texts.source), 1)


def page(texts: SheetTexts = TEXTS) -> str:
    return sheet_page(sheet(texts)).decode()


PLAIN = SheetTexts(["a"], {"x": ["b"]})


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text())
@example(NASTY, NASTY[::-1])
def test_texts_cannot_become_markup(source, translation):
    texts = SheetTexts([f"x{source}"], {"x": [translation]}, [source])
    made = Reader(page(texts))
    assert made.elements == Reader(page(PLAIN)).elements
    (row,) = draw_sheet(texts, 1, 1).rows
    assert made.data()["rows"] == [[row.name, row.source, row.reference, row.translation]]


def test_the_page_names_no_system():
    assert "secret" not in page()


def test_the_browser_runs_this_script_and_this_style_alone():
    made = Reader(page())
    (policy,) = [
        str(values["content"])
        for _, values in made.elements
        if values.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    for tag in ("script", "style"):
        digest = hashlib.sha256(made.text_of(tag).encode()).digest()
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_the_page_needs_nothing_else():
    text = page(PLAIN)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|WebSocket", text)
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in text
    for tag, values in Reader(text).elements:
        assert tag not in ("iframe", "object", "img", "base")
        assert "src" not in values and "style" not in values
        assert not [name for name in values if name.startswith("on")]
    assert "<!--" not in text


def test_controls_exist_and_have_names():
    text = page()
    elements = Reader(text).elements
    ids = [str(values["id"]) for _, values in elements if "id" in values]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'\$\("([\w-]+)"\)', text)) <= set(ids)
    for part in ('aria-label="Translations', 'role="status"', '"radiogroup", "aria-label"'):
        assert part in text
    for query in ("prefers-color-scheme: dark", ":focus-visible", 'name="viewport"'):
        assert query in text


def visit(tmp_path: Path, text: str, *visits: dict) -> list[dict]:
    """Runs the page's script in node, with the few parts of a browser that it uses."""
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    (tmp_path / "visits.json").write_text(json.dumps(visits), encoding="utf-8")
    steps = Path(__file__).with_name("sheet_steps.js")
    line = ["node", str(steps), str(tmp_path / "page.html"), str(tmp_path / "visits.json")]
    run = subprocess.run(line, capture_output=True, timeout=60, check=True)
    return json.loads(run.stdout)


@needs_node
@pytest.mark.parametrize("reference", [None, TEXTS.source])
def test_an_empty_page_saves_the_very_bytes_of_the_spreadsheet(tmp_path, reference):
    texts = SheetTexts(TEXTS.source, TEXTS.systems, reference)
    (found,) = visit(tmp_path, page(texts), {"kept": None, "steps": [["click", "save"]]})
    assert found["saved"] == [sheet_csv(sheet(texts)).decode()]
    assert found["files"] == [f"{sheet(texts).name}-rater.csv"]
    assert found["reference"] == (reference is not None)


@needs_node
def test_what_is_filled_in_by_keys_is_kept_shown_again_and_saved(tmp_path):
    hostile = '=HYPERLINK("x"), </script>'
    steps = [
        ["press", "4"],  # of the first translation without a grade
        ["write", 0, OVER, hostile],
        ["press", "5"],  # inside a text field it is a digit like any other
        ["press", "Enter", {"ctrlKey": True}],
        ["press", "1"],
        ["write", 1, COMMENT, "- both"],
        ["name", "Ann B./x"],
    ]
    (first,) = visit(tmp_path, page(), {"kept": None, "steps": steps})
    assert first["pressed"][:4] == [True, None, False, True]
    assert first["place"] == "Source 2 of 4" and not first["lost"]
    assert first["count"] == "2 of 8 translations have a grade"
    assert first["rated"] == [True, False]
    again = [["click", "back"], ["click", "save"]]
    (second,) = visit(tmp_path, page(), {"kept": first["store"], "steps": again})
    assert second["place"] == "Source 1 of 4" and second["rated"] == [True, False]
    assert second["files"] == [f"{sheet().name}-Ann_B_x.csv"]
    (text,) = second["saved"]
    header, *rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    assert header == [name for name in COLUMNS if name != "reference"]
    cells = {row[1]: row[4:] for row in rows}
    assert cells["r1-A"] == ["4", guard_cell(hostile), "", ""]
    assert cells["r2-A"] == ["1", "", "", ""]
    assert cells["r2-B"] == ["", "", "", guard_cell("- both")]
    assert [row[:4] for row in rows] == [
        row[:4] for row in csv.reader(io.StringIO(sheet_csv(sheet()).decode("utf-8-sig")))
    ][1:]


@needs_node
def test_sources_and_translations_are_shown_as_text(tmp_path):
    rows = sheet().rows
    visits = [{"kept": None, "steps": [["click", "forth"]] * place} for place in range(6)]
    for place, found in enumerate(visit(tmp_path, page(), *visits)):
        here = min(place, 3)  # the last source has no next one
        assert found["place"] == f"Source {here + 1} of 4"
        assert found["source"] == rows[2 * here].source
        expected = [row.translation or "(empty)" for row in rows[2 * here : 2 * here + 2]]
        assert found["translations"] == expected


@needs_node
def test_the_next_source_without_a_grade_is_found_and_all_can_be_cleared(tmp_path):
    grade = [["press", "3"], ["click", "forth"], ["press", "3"], ["click", "open"]]
    found, cleared = visit(
        tmp_path,
        page(SheetTexts(["a", "b", "c"], {"x": ["1", "2", "3"]})),
        {"kept": None, "steps": grade},
        {"kept": None, "steps": [*grade, ["click", "clear"]]},
    )
    assert (found["place"], found["count"]) == (
        "Source 3 of 3",
        "2 of 3 translations have a grade",
    )
    assert (cleared["place"], cleared["count"]) == (
        "Source 1 of 3",
        "0 of 3 translations have a grade",
    )
    assert cleared["warnings"] == ["Clear all that you have filled in on this sheet?"]


@needs_node
def test_a_browser_that_keeps_nothing_is_told_and_damaged_notes_are_ignored(tmp_path):
    damaged = ["{", "3", "null", '{"filled": {"r1-A": {"quality": 4}}}', '{"shown": 99}', "[]"]
    visits = [{"kept": text, "steps": [["press", "2"]]} for text in damaged]
    forbidden, *others = visit(
        tmp_path, page(), {"kept": False, "steps": [["press", "2"]]}, *visits
    )
    assert forbidden["lost"] and forbidden["count"].startswith("1 of 8")
    for found in others:
        assert not found["lost"] and found["count"].startswith("1 of 8")
        assert found["place"] == "Source 1 of 4"


@needs_node
@settings(max_examples=1, deadline=None)
@given(st.lists(st.text(st.sampled_from("=+-@ a\u200b＝\ufeff\"',")), min_size=60, max_size=60))
def test_the_page_guards_cells_as_the_spreadsheet_does(tmp_path_factory, texts):
    """Sixty texts at once, because starting node takes longer than all of them."""
    steps = [step for text in texts for step in (["write", 0, UNDER, text], ["click", "save"])]
    folder = tmp_path_factory.mktemp("guards")
    (found,) = visit(folder, page(PLAIN), {"kept": None, "steps": steps})
    for text, saved in zip(texts, found["saved"], strict=True):
        *_, row = csv.reader(io.StringIO(saved.removeprefix("\ufeff"), newline=""))
        assert row[-2] == guard_cell(text) and unguard_cell(row[-2]) == text


def contrast(one: str, other: str) -> float:
    """Of WCAG 2: relative luminance, lighter over darker."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_edges_have_contrast_in_light_and_dark():
    schemes = re.findall(r":root \{(.*?)\}", page(PLAIN), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", scheme))
        for ground in ("paper", "ground"):
            for text in ("ink", "soft", "warn"):
                assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
            for edge in ("edge", "done", "focus"):
                assert contrast(colour[edge], colour[ground]) >= 3, (edge, ground)
