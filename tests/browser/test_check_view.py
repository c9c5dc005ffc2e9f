"""Checking on the live page, and the page of findings that it and `untold check` write."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from fake_api import FakeApi, fake_api
from untold.checking.reports import check_page, marked_side

OpenPage = Callable[..., Page]
STATUS = "#check-status"
TABLE = "the house\tTHE HOUSE\nthe old cat\tTHE CAT NOW\nxyz 😀 b\tXYZ B\n"
# Drags files over the page and, unless only that is wanted, drops them; returns whether the browser
# is kept from opening them.
DRAG = """([files, kinds]) => {
  const data = new DataTransfer();
  for (const [name, text] of Object.entries(files)) data.items.add(new File([text], name));
  return kinds.map((kind) => !document.querySelector("main").dispatchEvent(
    new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true })));
}"""


def drop_table(page: Page, text: str = TABLE, **others: str) -> None:
    """Drops a table, and other files, on whatever the page shows."""
    files = {"pairs.tsv": text} | {name.replace("_", "."): each for name, each in others.items()}
    kept = page.evaluate(DRAG, [files, ["dragenter", "dragover", "drop"]])
    assert kept == [True] * 3


def marks(page: Page) -> list[tuple[str, str]]:
    found = page.query_selector_all("mark")
    return [(each.get_attribute("class") or "", each.inner_text()) for each in found]


def test_a_pair_is_underlined_with_probabilities(live: Page, api: FakeApi) -> None:
    live.click("#check-tab")
    live.fill("#check-source", "the old cat")
    live.fill("#check-target", "THE CAT NOW")
    live.click("#check-now")
    expect(live.locator(STATUS)).to_have_text("1 segment checked; 2 findings.")
    assert marks(live) == [("omission", "old 0.93"), ("addition", "NOW 0.71")]
    styles = (
        "[...document.querySelectorAll('mark')].map((m) => getComputedStyle(m).textDecorationStyle)"
    )
    assert live.evaluate(styles) == ["solid", "wavy"], "not by colour alone"
    assert api.bodies("/v1/check")[0]["threshold"] == 0.5
    live.reload()
    expect(live.locator(STATUS)).to_have_text("1 segment checked; 2 findings.")
    live.click("text=Step through")
    expect(live.locator("#check-stepper output")).to_have_text("4 / 4")
    assert api.bodies("/v1/explain")[0]["pairs"] == [
        {"source": "the old cat", "target": "THE CAT NOW"}
    ]
    assert "untold 0.93" in live.inner_text("#check-stepper")


def test_keys_step_through_what_is_shown(live: Page) -> None:
    live.fill("#text", "a b")
    expect(live.locator("#status")).to_contain_text("Translated")
    live.click("#check-tab")
    live.fill("#check-source", "a c")
    live.fill("#check-target", "A")
    live.click("#check-now")
    live.click("text=Step through")
    expect(live.locator("#check-stepper output")).to_have_text("2 / 2")
    live.click("#check-stepper [aria-label='Previous step']")
    assert live.inner_text("#check-stepper output") == "1 / 2"
    live.click("#translate-tab")
    live.click("h1:visible")
    live.keyboard.press("Home")
    assert live.locator("#stage output").first.inner_text() == "1 / 3"


def test_a_pair_without_findings_says_so_and_half_a_pair_is_refused(live: Page) -> None:
    live.click("#check-tab")
    live.fill("#check-source", "a")
    live.click("#check-now")
    expect(live.locator("#check-trouble")).to_contain_text("both the source and its translation")
    live.fill("#check-target", "A")
    live.click("#check-now")
    expect(live.locator("#check-results")).to_contain_text("✓ nothing found")
    assert live.inner_text("#check-trouble") == ""


def test_a_dropped_file_is_checked_and_filtered(live: Page, api: FakeApi) -> None:
    drop_table(live)
    expect(live.locator(STATUS)).to_contain_text(
        "3 segments checked; not checked: empty 1; 3 findings; 1 damaged place"
    )
    assert api.bodies("/v1/check")[0]["file"]["name"] == "pairs.tsv"
    assert not live.locator("#check-tools button:has-text('Copy link')").is_visible()
    items = live.locator(".findings > li")
    expect(items).to_have_count(3)
    assert "damaged" in items.nth(0).inner_text() and "pairs.tsv:9" in items.nth(0).inner_text()
    assert marks(live)[-1] == ("omission", "😀 0.93"), "characters are counted as Python does"
    live.uncheck("label:has-text('Only suspicious') input")
    expect(items).to_have_count(4)
    live.select_option("label:has-text('Kind') select", "addition")
    expect(items).to_have_count(1)
    live.select_option("label:has-text('Kind') select", "")
    live.fill("label:has-text('Text') input", "HOUSE")
    expect(items).to_have_count(1)


def test_a_long_check_says_how_far_it_is(open_page: OpenPage) -> None:
    with fake_api(events=1) as api:
        page = open_page(api.address)
        page.wait_for_selector(".example")
        drop_table(page)
        expect(page.locator(STATUS)).to_have_text("Checking… 1 of 3 segments")
        api.gate.release()
        expect(page.locator(STATUS)).to_contain_text("3 segments checked")


def test_several_files_are_checked_together(live: Page, api: FakeApi) -> None:
    drop_table(live, "the old\tTHE\n", second_tsv="a\tB\nc\tC\n")
    expect(live.locator(STATUS)).to_contain_text(
        "3 segments checked; not checked: empty 2; 3 findings; 2 damaged places"
    )
    assert [each["file"]["name"] for each in api.bodies("/v1/check")] == ["pairs.tsv", "second.tsv"]
    live.select_option("label:has-text('File') select", "second.tsv")
    expect(live.locator(".findings > li")).to_have_count(2)
    assert "pairs.tsv" not in live.inner_text(".findings")


def test_the_page_says_what_a_drop_would_do_and_lets_texts_alone(live: Page) -> None:
    shown = "getComputedStyle(document.body, '::after').content"
    live.evaluate(DRAG, [{"a.po": ""}, ["dragenter", "dragover"]])
    assert "Drop to check" in live.evaluate(shown)
    live.evaluate(DRAG, [{"a.po": ""}, ["dragleave"]])
    assert live.evaluate(shown) == "none"
    assert live.evaluate(DRAG, [{}, ["dragover", "drop"]]) == [False, False]
    assert live.locator("#translate").is_visible()


def test_a_chosen_file_is_checked_and_one_too_large_is_not_sent(
    live: Page, api: FakeApi, tmp_path: Path
) -> None:
    live.click("#check-tab")
    path = tmp_path / "some.tsv"
    path.write_text("a\tB\n")
    live.set_input_files("#file", path)
    expect(live.locator(STATUS)).to_contain_text("1 segment checked")
    path.write_text("a\tB\n" * 1000)
    live.set_input_files("#file", path)
    expect(live.locator("#check-trouble")).to_contain_text(
        "some.tsv has 4,000 bytes, and at most 2,000"
    )
    assert len(api.bodies("/v1/check")) == 1


def test_reports_are_saved_and_work_alone(live: Page, open_page: OpenPage, tmp_path: Path) -> None:
    drop_table(live, TABLE + "a </script><b> \u202e\tA </SCRIPT><B>\n")
    expect(live.locator(".findings > li")).to_have_count(4)
    with live.expect_download() as download:
        live.click("#save-json")
    answer = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert answer["segments"] == 4 and len(answer["results"]) == 4
    with live.expect_download() as download:
        live.click("#save-html")
    saved = tmp_path / "report.html"
    download.value.save_as(saved)
    page = open_page(saved.as_uri())
    assert "4 segments checked" in page.inner_text("#summary")
    assert page.locator(".findings > li").count() == 4
    assert ("omission", "\\u202e 0.93") in marks(page)
    assert page.locator("#content b").count() == 0


def test_texts_are_cut_as_in_python(live: Page, api: FakeApi) -> None:
    """The server's records become the same parts in the browser as in check_records.py."""
    side = {"any": 0.9, "probabilities": [0.9] * 3}
    record = {
        "file": "f",
        "line": 1,
        "name": "",
        "source": {"text": "😀a  b c", "words": ["😀a", "b", "c"], **side},
        "target": {"text": "x y", "words": ["x", "yy"], **side},
        "findings": [
            {
                "kind": "omission",
                "probability": 0.9,
                "text": "b c",
                "start": 1,
                "stop": 3,
                "characters": [4, 7],
            },
            {
                "kind": "omission",
                "probability": 0.8,
                "text": "😀a",
                "start": 0,
                "stop": 1,
                "characters": [0, 2],
            },
            {
                "kind": "addition",
                "probability": 0.7,
                "text": "yy",
                "start": 1,
                "stop": 2,
                "characters": None,
            },
        ],
    }
    cut = (
        "async ([record, side]) => (await import('./static/check_places.js')).partsOf(record, side)"
    )
    for name in ("source", "target"):
        assert [tuple(part) for part in live.evaluate(cut, [record, name])] == marked_side(
            record, name
        )


def report(open_page: OpenPage, folder: Path, count: int = 1, **settings: str) -> Page:
    findings = [
        {
            "kind": "omission",
            "probability": 0.9,
            "text": "b",
            "start": 1,
            "stop": 2,
            "characters": [2, 3],
        }
    ]
    side = {"any": 0.9, "probabilities": [0.1, 0.9], "words": ["a", "b"], "text": "a b"}
    records = [
        {
            "file": f"{n % 2}.po",
            "line": n,
            "name": "",
            "source": side,
            "target": side,
            "findings": findings,
        }
        for n in range(count)
    ]
    path = folder / "check.html"
    path.write_text(check_page(records, "all of it"), encoding="utf-8")
    return open_page(path.as_uri(), **settings)


def test_the_page_of_a_command_shows_many_findings_bit_by_bit(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = report(open_page, tmp_path, 250)
    assert page.inner_text("#summary") == "all of it"
    items = page.locator(".findings > li")
    expect(items).to_have_count(100)
    page.click("text=Show more")
    expect(items).to_have_count(200)
    assert page.evaluate("document.activeElement.tagName") == "LI"
    page.select_option("label:has-text('File') select", "1.po")
    expect(page.locator("[role=status]")).to_have_text("100 shown of 125 chosen, 250 in all")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(
    live: Page, open_page: OpenPage, tmp_path: Path, accessible, scheme: str
) -> None:
    live.emulate_media(color_scheme=scheme)
    live.click("#check-tab")
    accessible(live)
    drop_table(live)
    expect(live.locator(".findings > li")).to_have_count(3)
    live.locator("text=Step through").first.click()
    expect(live.locator("#check-stepper output")).to_be_visible()
    accessible(live)
    accessible(report(open_page, tmp_path, 3, scheme=scheme))
