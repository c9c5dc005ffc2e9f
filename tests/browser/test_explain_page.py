"""The page of `untold explain`, opened from a file as a person would."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from formula_explanations import explain_by_formula
from untold.alignment.model_links import WordLink
from untold.corpus.alignments import Alignment
from untold.errors import escape_controls
from untold.explain.explanation import Copy, Explanation
from untold.explain.page import html_page, share_document
from untold.explain.write import write_explanations

OpenPage = Callable[..., Page]
CHIP, WORD = ".source .chip", ".target button"
HOSTILE = "</script><b>x</b> <!--data--> <img/src=x/onerror=alert(1)> \u202eabc \x1b[31m $& ]]>"


@pytest.fixture
def show(open_page: OpenPage, tmp_path: Path) -> Callable[..., Page]:
    """Writes explanations to a file and opens it."""

    def show(*explanations: Explanation, place: str = "", **settings) -> Page:
        path = tmp_path / "page.html"
        write_explanations(path, explanations)
        return open_page(f"{path.as_uri()}{place}", **settings)

    return show


def step(page: Page) -> str:
    return page.inner_text(".player output")


def classes(page: Page, selector: str) -> list[str]:
    return [each.get_attribute("class") or "" for each in page.query_selector_all(selector)]


def test_keys_buttons_slider_and_words_step(show) -> None:
    page = show(explain_by_formula("a b c", "A B C D"))
    assert step(page) == "1 / 5" and page.url.endswith("#1.1")
    moves = {"ArrowRight": "2 / 5", "End": "5 / 5", "ArrowLeft": "4 / 5", "Home": "1 / 5"}
    for key, expected in moves.items():
        page.keyboard.press(key)
        assert step(page) == expected
    page.click("[aria-label='Next step']")
    assert step(page) == "2 / 5" and page.url.endswith("#1.2")
    page.click(f"{WORD} >> nth=3")
    assert step(page) == "4 / 5"
    page.locator("input[type=range]").fill("2")
    assert step(page) == "3 / 5"
    page.click(".map tbody tr:first-of-type td >> nth=1")
    assert step(page) == "2 / 5"
    signs = [text.strip()[0] for text in page.locator(".source .sign").all_inner_texts()]
    assert signs == ["✓", "○", "○"]
    assert [name.split()[1:] for name in classes(page, CHIP)] == [
        ["past", "told"],
        ["future"],
        ["future"],
    ]


def test_words_are_one_stop_for_the_keyboard_and_the_focus_follows(show) -> None:
    page = show(explain_by_formula("a b", "A B"))
    page.locator(f"{WORD}[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "B"
    assert page.locator(f"{WORD}[tabindex='0']").count() == 1


def test_an_address_names_sentence_and_step(show) -> None:
    page = show(explain_by_formula("a", "A"), explain_by_formula("c d", "C D"), place="#2.3")
    assert step(page) == "3 / 3"
    assert page.locator(".source .word").all_inner_texts() == ["c", "d"]
    page.evaluate("location.hash = '#1.2'")
    expect(page.locator(".player output")).to_have_text("2 / 2")
    page.evaluate("location.hash = '#nonsense.x'")
    expect(page.locator(".player output")).to_have_text("1 / 2")


def test_play_steps_by_itself_and_ends(show) -> None:
    page = show(explain_by_formula("a", "A"))
    page.click("[aria-label=Play]")
    assert page.locator("[aria-label=Pause]").count() == 1
    expect(page.locator(".player output")).to_have_text("2 / 2")
    assert page.locator("[aria-label=Play]").count() == 1


@pytest.mark.parametrize("kind", ["calibrated", "uncalibrated", "older"])
def test_words_are_underlined_on_the_last_step_alone(kind, open_page, tmp_path) -> None:
    made = explain_by_formula("a b", "A B")
    if kind == "calibrated":
        made = replace(made, untold=(0.75, 0.25), added=(0.125, 0.5))
    document = share_document([made])
    if kind == "older":
        for field in ("untold", "added", "links", "gold_links", "system", "against"):
            del document["sentences"][0][field]
    path = tmp_path / "page.html"
    path.write_text(html_page(document), encoding="utf-8")
    page = open_page(path.as_uri())
    titles = "[...document.querySelectorAll('.source .chip, .target li')].map((each) => each.title)"
    assert page.evaluate(titles) == [""] * 5
    page.keyboard.press("End")
    marked = kind == "calibrated"
    expected = ["untold, probability 0.75", "", "", "added, probability 0.50", ""]
    assert page.evaluate(titles) == (expected if marked else [""] * 5)
    assert ("lacking" in classes(page, CHIP)[0], "lacking" in classes(page, CHIP)[1]) == (
        marked,
        False,
    )
    assert ("untold 0.75" in page.inner_text(".source")) == marked
    line = page.evaluate(
        f"getComputedStyle(document.querySelector('{CHIP} .word')).textDecorationLine"
    )
    assert line == ("underline" if marked else "none")
    spoken = page.text_content("[aria-live]") or ""
    assert ("left untold: a, probability 0.75; added: B, probability 0.50" in spoken) == marked
    assert ("untold calibrate" in page.inner_text("#calibration")) == (not marked)


def test_copies_are_noted_for_eyes_and_ears(show) -> None:
    page = show(replace(explain_by_formula("a Bo", "A Bo"), copies=(Copy(1, 1, 0.75),)))
    note = page.locator(".target li >> nth=1").locator(".note")
    assert note.text_content() == "❐ copied from Bo"
    page.keyboard.press("ArrowRight")
    assert "before Bo, copied from Bo" in (page.text_content("[aria-live]") or "")


def test_a_word_that_falls_back_is_marked_and_one_that_is_neither_has_no_frame(show) -> None:
    made = explain_by_formula("a b c", "A B C D")
    shares = made.shares.copy()
    shares[3, 0] = [0.25, 0.625, 0.125]  # told before, untold again
    shares[3, 2] = [0.25, 0.125, 0.625]  # past overtakes future, but it is neither
    page = show(replace(made, shares=shares), place="#1.4")
    assert [name.split()[1:] for name in classes(page, CHIP)] == [
        ["future", "fallen"],
        ["past"],
        ["redundant"],
    ]
    assert page.locator(".why").all_text_contents() == ["↩ untold again, after C", "", ""]
    assert "untold again: a" in (page.text_content("[aria-live]") or "")
    cells = [each.split() for each in classes(page, ".map tbody tr:first-of-type td")]
    assert "fallen" in cells[3] and "told" in cells[1] and "told" in cells[4]
    page.uncheck("label:has-text('Redundant') input")
    assert "redundant" not in " ".join(classes(page, CHIP))
    assert page.locator(".key li:visible").count() == 2


def test_lines_lead_from_the_next_word_and_from_the_one_that_is_pointed_at(show) -> None:
    links = (WordLink(0, 1, 0.9), WordLink(1, 0, 0.5), WordLink(2, 2, 0.75))
    gold = Alignment(frozenset({(0, 1), (1, 1)}), frozenset({(0, 1), (1, 1)}))
    page = show(replace(explain_by_formula("a b c", "A B C"), links=links, gold=gold))
    assert classes(page, ".lines path") == ["extra strong"]
    assert "linked to: b" in (page.text_content("[aria-live]") or "")
    page.hover(f"{CHIP} >> nth=0")
    assert classes(page, ".lines path") == ["agreed strong"]
    page.mouse.move(0, 0)
    page.select_option(".choices select", "all")
    assert sorted(classes(page, ".lines path")) == ["agreed", "extra", "extra strong", "missed"]
    assert "1 link by model and people (full lines), 2 by the model alone" in page.inner_text(
        ".choices"
    )
    page.select_option(".choices select", "none")
    assert classes(page, ".lines path") == []


def test_two_systems_stand_side_by_side_and_step_on_their_own(show) -> None:
    other = replace(explain_by_formula("a b", "X"), system="other")
    made = replace(explain_by_formula("a b", "A B C"), system="one", against=other)
    page = show(made, place="#1.2.2")
    assert page.locator(".system").all_inner_texts() == ["one", "other"]
    assert page.locator(".player output").all_inner_texts() == ["2 / 4", "2 / 2"]
    left, right = (each.bounding_box() for each in page.query_selector_all(".stepper"))
    assert left["y"] == right["y"] and left["x"] < right["x"]
    page.locator(".stepper >> nth=1").locator("[aria-label='Previous step']").click()
    page.keyboard.press("Home")
    assert page.locator(".player output").all_inner_texts() == ["2 / 4", "1 / 2"]
    assert page.url.endswith("#1.2.1")


def test_sentences_are_listed_with_translations_and_searched(show) -> None:
    page = show(*[explain_by_formula(f"word{n} a", f"Wort{n} b") for n in range(300)])
    assert page.inner_text(".sentences [role=status]") == "300 sentences"
    assert page.locator(".sentences li").count() == 200
    assert page.locator(".sentences li >> nth=0").inner_text() == "word0 a\nWort0 b"
    page.fill("[aria-label='Search sentences']", "WORT29")
    expect(page.locator(".sentences li")).to_have_count(11)
    page.click(".sentences li >> nth=3")
    assert page.url.endswith("#293.1")
    assert page.locator(".source .word").first.inner_text() == "word292"


def test_a_single_sentence_has_no_list(show) -> None:
    assert not show(explain_by_formula("a", "b")).locator(".sentences").is_visible()


def test_hostile_text_is_shown_as_text(show) -> None:
    page = show(explain_by_formula(HOSTILE, HOSTILE), explain_by_formula("a", "b"))
    words = [escape_controls(word) for word in HOSTILE.split(" ")]
    assert page.locator(".source .word").all_text_contents() == words
    assert page.locator(".target bdi").all_text_contents() == [*words, "(end)"]
    assert page.title() == f"untold: {escape_controls(HOSTILE)}"
    assert page.locator("img, b:not(.key b)").count() == 0


def test_right_to_left_steps_to_the_left_and_chinese_stands_upright(show) -> None:
    page = show(
        explain_by_formula("this man", "هذا الرجل", ("en", "ar")),
        explain_by_formula("布什 为", "布什 for", ("zh", "zh")),
    )
    page.keyboard.press("ArrowLeft")
    assert step(page) == "2 / 3"
    target = page.locator(".target")
    assert (target.get_attribute("dir"), target.get_attribute("lang")) == ("rtl", "ar")
    first, second = (each.bounding_box() for each in page.query_selector_all(WORD)[:2])
    assert first["x"] > second["x"]
    page.click(".sentences li >> nth=1")
    assert classes(page, ".map thead th") == ["upright now", "", "end"]


def test_a_long_sentence_is_drawn_smaller_and_a_huge_map_only_when_asked(show) -> None:
    text = " ".join(f"w{n}" for n in range(90))
    page = show(explain_by_formula(text, text))
    assert "dense" in classes(page, ".stepper")[0]
    assert page.locator(".map td").count() == 0
    page.click("text=Draw all 8,190 cells")
    assert page.locator(".map tbody td").count() == 90 * 91


def test_a_narrow_screen_needs_no_sideways_scrolling(show) -> None:
    words = " ".join(["Donaudampfschifffahrtsgesellschaft", "in"] * 4)
    page = show(explain_by_formula(words, words), explain_by_formula("a", "b"), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(show, accessible, scheme: str) -> None:
    made = explain_by_formula("a b of 4", "A B 4 D")
    shares = made.shares.copy()
    shares[:, 2] = [0.125, 0.125, 0.75]
    shares[4, 0] = [0.25, 0.625, 0.125]
    judged = {
        "untold": (0.9, 0.1, 0.1, 0.1),
        "added": (0.1, 0.1, 0.1, 0.8),
        "copies": (Copy(2, 3, 0.9),),
    }
    links = tuple(WordLink(i, i, 0.9) for i in range(4))
    made = replace(made, shares=shares.astype(np.float64), links=links, **judged)
    made = replace(made, system="one", against=replace(made, system="other"))
    page = show(made, explain_by_formula("布什", "Bush", ("zh", "en")), scheme=scheme)
    for place in ("#1.2.3", "#1.5.5", "#2.1"):
        page.evaluate(f"location.hash = '{place}'")
        accessible(page)
    page.click("[aria-label^='Use ']")
    dark = page.evaluate("document.documentElement.dataset.theme")
    assert dark == ("light" if scheme == "dark" else "dark")
    page.click("summary")
    accessible(page)
