"""The live page, against a server with canned answers: typing, streaming, stepping, errors."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from fake_api import EXAMPLES, FakeApi, fake_api
from untold.errors import escape_controls

OpenPage = Callable[..., Page]
TEXT = "The child xhere reads 7 books of hers ."
SAID = "THE CHILD READS 7 BOOKS OF HERS ."
STATUS, STEPS = "#status", "#stage .stepper:not([hidden]) output"


def translated(page: Page, text: str = TEXT) -> None:
    page.fill("#text", text)
    expect(page.locator(STATUS)).to_contain_text("Translated")


def signs(page: Page) -> list[str]:
    shown = page.locator("#stage .stepper >> nth=0").locator(".sign").all_inner_texts()
    return [text.strip()[0] for text in shown]


def address(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def test_words_turn_while_the_translation_appears(open_page: OpenPage) -> None:
    with fake_api(events=3) as api:  # the start and two words
        page = open_page(api.address)
        page.type("#text", "The child reads .")
        expect(page.locator("#translation")).to_have_value("THE CHILD")
        assert page.inner_text(STATUS) == "Translating…"
        assert signs(page) == ["✓", "○", "○", "○"]  # the state before the newest word
        api.gate.release(9)
        expect(page.locator("#translation")).to_have_value("THE CHILD READS .")
        expect(page.locator(STATUS)).to_contain_text("Translated, score -0.500")
        assert signs(page) == ["✓", "✓", "✓", "✓"]
        assert len(api.bodies("/v1/stream")) == 1, "typing waits for a pause"


def test_what_is_typed_meanwhile_cancels_the_stream(open_page: OpenPage) -> None:
    with fake_api(events=2) as api:
        page = open_page(api.address)
        page.fill("#text", "one two three four five six")
        expect(page.locator("#translation")).to_have_value("ONE")
        page.fill("#text", "other")
        api.gate.release(20)
        expect(page.locator("#translation")).to_have_value("OTHER")
        expect(page.locator(STATUS)).to_contain_text("Translated")
        assert [body["text"] for body in api.bodies("/v1/stream")][-1] == "other"


def test_stepping_links_and_judgement(live: Page) -> None:
    translated(live)
    assert live.input_value("#translation") == SAID
    assert live.inner_text(STEPS) == "9 / 9"
    assert "untold 0.93" in live.inner_text("#stage")
    live.click("#stage .target button >> nth=3")
    assert live.inner_text(STEPS) == "4 / 9" and address(live)["step"] == "4"
    assert signs(live) == ["✓", "✓", "○", "✓", "○", "○", "–", "○", "○"]
    assert live.locator("#stage .lines path").count() == 1
    assert live.locator("#stage .note").first.text_content() == "❐ copied from 7"
    live.keyboard.press("ArrowRight")
    assert live.inner_text(STEPS) == "5 / 9"
    live.keyboard.press("End")
    assert "step" not in address(live)


def test_an_edited_translation_goes_on_from_the_cursor(live: Page, api: FakeApi) -> None:
    translated(live, "The child reads books .")
    live.focus("#translation")
    live.keyboard.press("Home")
    live.keyboard.type("Some kid")
    expect(live.locator("#translation")).to_have_value("Some kid READS BOOKS .")
    expect(live.locator(STATUS)).to_contain_text("Translated")
    assert api.bodies("/v1/stream")[-1]["prefix"] == "Some kid"
    caret = live.evaluate("document.getElementById('translation').selectionStart")
    assert caret == len("Some kid")
    assert live.locator("#stage .note").all_text_contents() == ["✎given by you"] * 2
    remains = "After your words, 5 of 5 source words were still untold."
    expect(live.locator(STATUS)).to_contain_text(remains)
    assert live.inner_text(STEPS) == "3 / 6", "where the model went on"
    assert signs(live) == ["○"] * 5
    assert address(live)["prefix"] == "Some kid"
    live.reload()
    expect(live.locator(STATUS)).to_contain_text(remains)
    live.click("h1:visible")
    live.keyboard.press("End")
    assert signs(live) == ["○", "○", "✓", "✓", "✓"]
    live.click("#release")
    expect(live.locator("#translation")).to_have_value("THE CHILD READS BOOKS .")
    assert not live.locator("#release").is_visible()


def test_alternatives_and_another_model(live: Page, api: FakeApi) -> None:
    live.select_option("#nbest", "3")
    live.select_option("#other", "other")
    translated(live, "a b")
    expect(live.locator("#extras .card li")).to_have_count(3)
    assert live.locator(".system").all_inner_texts()[:2] == ["toy", "other"]
    assert live.locator(STEPS).all_inner_texts() == ["3 / 3", "3 / 3"]
    live.click("#extras .card li >> nth=1")
    expect(live.locator("#translation")).to_have_value("A B 1")
    assert api.bodies("/v1/explain") == [
        {"model": "toy", "pairs": [{"source": "a b", "target": "A B 1"}]}
    ]
    assert "added 0.71" in live.inner_text("#stage")


def test_pointing_at_a_word_shows_what_it_tells_and_stays_at_its_step(live: Page) -> None:
    translated(live, "a b c")
    assert live.locator("#stage .lines path").count() == 0, "nothing is linked to the end"
    live.hover("#stage .target button >> nth=1")
    assert live.locator("#stage .lines path").count() == 1
    assert live.locator("#stage .source .linked .word").all_inner_texts() == ["b"]
    assert live.inner_text(STEPS) == "4 / 4"
    live.hover("h1:visible")
    assert live.locator("#stage .lines path").count() == 0


def test_a_revision_is_marked_while_it_streams_and_counted(open_page: OpenPage) -> None:
    with fake_api(events=3) as api:  # the start, another word, and the one that replaces it
        page = open_page(api.address)
        page.fill("#text", "revise it")
        expect(page.locator("#translation")).to_have_value("REVISE")
        assert page.locator("#stage .changed bdi").first.inner_text() == "REVISE"
        api.gate.release(9)
        expect(page.locator(STATUS)).to_contain_text("the search changed its mind 1 time.")
        assert page.locator("#stage .changed").count() == 0


def test_a_model_without_past_and_future_shows_its_translation_alone(live: Page) -> None:
    live.select_option("#model", "plain")
    live.fill("#text", "a b")
    expect(live.locator(STATUS)).to_contain_text("does not separate past and future")
    assert live.input_value("#translation") == "A B"
    assert not live.locator("#stage .stepper").first.is_visible()
    live.click("#check-tab")
    assert "not calibrated" in live.inner_text("#check-note")


def test_links_lead_back_and_history_can_be_cleared(live: Page, open_page: OpenPage) -> None:
    translated(live, "a b c")
    live.click("#stage .target button >> nth=1")
    live.reload()
    expect(live.locator(STATUS)).to_contain_text("Translated")
    assert live.input_value("#text") == "a b c" and live.inner_text(STEPS) == "2 / 4"
    live.click("#clear")
    assert (
        live.input_value("#translation") == ""
        and not live.locator("#stage .stepper").first.is_visible()
    )
    live.select_option("#model", "plain")
    live.click("summary:has-text('History (1)')")
    live.click(".history li button")
    expect(live.locator("#translation")).to_have_value("A B C")
    assert live.input_value("#model") == "toy", "with the model that it was translated with"
    live.click("text=Clear history")
    assert not live.locator(".history").is_visible()
    assert live.evaluate("localStorage.length") == 0


def test_a_link_holds_the_settings_and_is_followed_without_reloading(live: Page) -> None:
    live.fill("#beam", "3")
    live.select_option("#nbest", "5")
    live.select_option("#other", "other")
    translated(live, "a b")
    known = {"beam": "3", "nbest": "5", "other": "other", "model": "toy", "text": "a b"}
    assert address(live) == known
    live.evaluate("location.hash = 'text=c&model=plain'")
    expect(live.locator("#translation")).to_have_value("C")
    values = [live.input_value(each) for each in ("#model", "#beam", "#nbest", "#other")]
    assert values == ["plain", "", "", ""]
    live.go_back()
    expect(live.locator("#translation")).to_have_value("A B")
    expect(live.locator("#extras .card li")).to_have_count(5)
    assert live.input_value("#beam") == "3" and live.input_value("#other") == "other"


def test_an_answer_that_writes_its_address_late_does_not_undo_a_link(live: Page) -> None:
    translated(live, "a b")
    # The event of the new address comes after the address that the answer writes.
    live.evaluate("location.hash = 'text=c'; history.replaceState(null, '', '#text=a+b')")
    expect(live.locator("#translation")).to_have_value("C")
    expect(live.locator(STATUS)).to_contain_text("Translated")
    assert address(live)["text"] == "c"


def test_examples_come_from_the_server_in_every_script(live: Page) -> None:
    assert live.locator(".example").all_inner_texts() == EXAMPLES
    live.click(".example >> nth=1")
    expect(live.locator(STATUS)).to_contain_text("Translated")
    assert live.locator("#stage .source .word").first.inner_text() == "布"
    live.click(".example >> nth=2")
    expect(live.locator("#stage .source").first).to_have_attribute("dir", "rtl")
    expect(live.locator("#stage .source .word")).to_have_count(4)


@pytest.mark.parametrize("width", [390, 1280])
def test_examples_stand_in_one_row(open_page: OpenPage, api: FakeApi, width: int) -> None:
    page = open_page(api.address, width=width)
    expect(page.locator(".example")).to_have_count(len(EXAMPLES))
    boxes = [each.bounding_box() for each in page.locator(".example").all()]
    assert len({box["y"] for box in boxes if box}) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_error_is_one_sentence_with_a_retry(live: Page, api: FakeApi) -> None:
    live.fill("#text", "fail")
    expect(live.locator("#trouble")).to_contain_text("8 requests wait, and at most 8 may")
    live.click("button:has-text('Try again')")
    expect(live.locator("#trouble")).to_contain_text("8 requests wait")
    assert len(api.bodies("/v1/stream")) == 2
    translated(live, "a")
    assert live.inner_text("#trouble") == ""


def test_a_server_that_is_gone_is_said(live: Page, api: FakeApi) -> None:
    live.context.set_offline(True)
    live.fill("#text", "a")
    expect(live.locator("#trouble")).to_contain_text("The server does not answer")
    live.context.set_offline(False)
    live.click("button:has-text('Try again')")
    expect(live.locator(STATUS)).to_contain_text("Translated")


def test_the_key_is_asked_for_and_kept_for_the_session(open_page: OpenPage) -> None:
    with fake_api(key="secret") as api:
        page = open_page(api.address)
        page.fill("#text", "a b")
        expect(page.locator("#key-dialog")).to_be_visible()
        assert "The key is missing or wrong" in page.inner_text("#key-reason")
        page.keyboard.type("secret")
        page.keyboard.press("Enter")
        expect(page.locator("#translation")).to_have_value("A B")
        assert page.evaluate("Object.keys(localStorage)") == ["untold.history"]
        page.reload()
        expect(page.locator("#translation")).to_have_value("A B")


def test_hostile_text_is_shown_as_text(live: Page) -> None:
    text = "</script><b>x</b> <img/src=x/onerror=alert(1)> \u202eabc \x1b[31m \u2066x"
    translated(live, text)
    shown = live.locator("#stage .source .word").all_text_contents()
    assert shown == [escape_controls(word) for word in text.split()]
    assert live.locator("img, #stage b:not(.key b)").count() == 0
    live.click("summary:has-text('History')")
    assert escape_controls(text) in live.inner_text(".history")


def test_a_text_that_is_too_long_is_refused_at_once(live: Page, api: FakeApi) -> None:
    live.fill("#text", "x" * 100_000)
    expect(live.locator("#trouble")).to_contain_text("100,000 characters, and at most 5,000")
    assert api.bodies("/v1/stream") == []
    assert live.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_translation_is_saved_as_a_page_that_works_alone(
    live: Page, open_page: OpenPage, tmp_path: Path
) -> None:
    translated(live, "a </script> $& c")
    with live.expect_download() as download:
        live.click("#save-page")
    saved = tmp_path / "saved.html"
    download.value.save_as(saved)
    page = open_page(saved.as_uri())
    assert page.locator(".source .word").all_inner_texts() == ["a", "</script>", "$&", "c"]
    with live.expect_download() as download:
        live.click("#save-record")
    (sentence,) = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))["sentences"]
    assert sentence["target"]["text"] == "A </SCRIPT> $& C"


def test_the_keyboard_alone_is_enough(live: Page) -> None:
    focused = "document.activeElement.id || document.activeElement.textContent"
    live.focus("#translate-tab")
    live.keyboard.press("ArrowRight")
    assert live.evaluate(focused) == "check-tab" and live.locator("#check").is_visible()
    live.keyboard.press("ArrowLeft")
    for _ in range(3):  # the model, light or dark, the text
        live.keyboard.press("Tab")
    assert live.evaluate(focused) == "text"
    live.keyboard.type("a b c")
    expect(live.locator(STATUS)).to_contain_text("Translated")
    for _ in range(20):
        live.keyboard.press("Tab")
        if live.evaluate(focused) == "(end)":
            break
    live.keyboard.press("ArrowLeft")
    assert live.evaluate(focused) == "C" and live.inner_text(STEPS) == "3 / 4"
    live.keyboard.press("Home")
    assert live.evaluate(focused) == "A"


def test_a_phone_needs_no_sideways_scrolling(open_page: OpenPage, api: FakeApi) -> None:
    page = open_page(api.address, width=390)
    translated(page, " ".join(["Donaudampfschifffahrtsgesellschaft", "in"] * 5))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#check-tab")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_light_and_dark_follow_the_system_until_one_is_chosen(
    open_page: OpenPage, api: FakeApi
) -> None:
    page = open_page(api.address, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("[aria-label='Use light colours']")
    light = page.evaluate(ground)
    assert (dark, light) == ("rgb(18, 21, 27)", "rgb(246, 245, 241)")
    page.reload()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(open_page: OpenPage, api: FakeApi, accessible, scheme: str) -> None:
    page = open_page(api.address, scheme=scheme)
    expect(page.locator(".example")).to_have_count(len(EXAMPLES))
    accessible(page)
    page.select_option("#nbest", "3")
    page.select_option("#other", "other")
    translated(page)
    expect(page.locator("#extras .card li")).to_have_count(3)
    page.click("summary:has-text('History')")
    accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    accessible(page)
    page.fill("#text", "fail")
    expect(page.locator("#trouble")).to_contain_text("8 requests wait")
    accessible(page)
    page.click("summary:has-text('How to read')")
    page.evaluate("document.getElementById('key-dialog').showModal()")
    accessible(page)
