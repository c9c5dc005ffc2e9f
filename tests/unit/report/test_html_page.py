"""The page: self-contained, harmless whatever its texts say, and with all that a person needs."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from untold.errors import escape_controls
from untold.introspection.copies import Copy
from untold.introspection.share_explanation import LIKELY, ShareExplanation
from untold.report.html_page import html_page
from untold.report.json_records import share_document

Make = Callable[..., ShareExplanation]
NASTY = "</script><b>x</b> <!--data--> <!--title--> &amp; \u2028 <img/src=x/onerror=alert(1)> ]]>"


class Reader(HTMLParser):
    """Collects what a browser would: elements with attributes, text of scripts and title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.texts[self.elements[-1][0]][-1] += data

    def data(self) -> dict:
        (place,) = [
            place
            for place, (_, attributes) in enumerate(e for e in self.elements if e[0] == "script")
            if attributes.get("type") == "application/json"
        ]
        return json.loads(self.texts["script"][place])


def page(*explanations: ShareExplanation) -> str:
    return html_page(share_document(explanations))


def test_texts_cannot_become_markup(by_formula: Make) -> None:
    plain, nasty = Reader(page(by_formula("a", "b"))), Reader(page(by_formula(NASTY, NASTY)))
    assert [tag for tag, _ in nasty.elements] == [tag for tag, _ in plain.elements]
    assert nasty.data()["sentences"][0]["source"]["text"] == NASTY
    assert nasty.texts["title"][0].strip() == f"untold: {escape_controls(NASTY)}"
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in page(by_formula("a", "b"))


def test_the_page_needs_nothing_else(by_formula: Make) -> None:
    text = page(by_formula("a b", "A B"))
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|<iframe|fetch\(|XMLHttp", text)
    for tag, attributes in Reader(text).elements:
        assert "src" not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
    assert "default-src 'none'" in text  # the browser holds it to that


def test_the_data_are_those_of_the_json_file(by_formula: Make) -> None:
    made = [
        by_formula("布什 为", "Bush for", ("zh", "en")),
        by_formula("a", "b"),
        by_formula("c", "d"),
    ]
    assert Reader(page(*made)).data() == json.loads(json.dumps(share_document(made)))


def test_every_language_is_written_as_it_should(by_formula: Make) -> None:
    made = by_formula("هذا الرجل", "dieser Mann", ("ar", "de"))
    text = page(made)
    assert ("html", {"lang": "en"}) in Reader(text).elements
    assert Reader(text).data()["sentences"][0]["source"]["language"] == "ar"
    assert "الرجل" in text  # as itself, not as escapes
    for needed in ('dir: "auto"', "lang: side.language", "dir: direction(side.text)"):
        assert needed in text


def test_a_copied_word_is_noted_for_eyes_and_ears(by_formula: Make) -> None:
    """The data are there, and the script writes a sign, a text that is read out, and the news."""
    text = page(replace(by_formula("a Bo", "A Bo"), copies=(Copy(1, 1, 0.75),)))
    (sentence,) = Reader(text).data()["sentences"]
    assert sentence["copies"] == [{"target": 1, "source": 1, "probability": 0.75}]
    assert 'text: "❐ ", "aria-hidden": "true"' in text
    assert 'className: "hidden", text: "copied from "' in text
    assert "`, copied from ${from}`" in text


def test_a_word_that_is_probably_untold_is_noted_for_eyes_and_ears(by_formula: Make) -> None:
    """The data are there; the script underlines, writes the number, a title and the news."""
    made = replace(by_formula("a b", "A B"), untold=(0.75, 0.25), added=(0.125, 0.5))
    text = page(made)
    (sentence,) = Reader(text).data()["sentences"]
    assert (sentence["untold"], sentence["added"]) == ([0.75, 0.25], [0.125, 0.5])
    assert f"const LIKELY = {LIKELY};" in text
    for needed in (
        "text: `untold ${untold[i].toFixed(2)}`",
        "text: `added ${sentence.added[step].toFixed(2)}`",
        "chip.title = `untold, probability ",
        "item.title = `added, probability ",
        'judged("left untold", source.words, untold)',
        "text-decoration: underline",
    ):
        assert needed in text


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("kind", ["calibrated", "uncalibrated", "older"])
def test_the_script_marks_words_on_the_last_step_alone(
    by_formula: Make, kind: str, tmp_path: Path
) -> None:
    """Runs the page's script in node, with the few parts of a browser that it uses."""
    made = by_formula("a b", "A B")
    if kind == "calibrated":
        made = replace(made, untold=(0.75, 0.25), added=(0.125, 0.5))
    document = share_document([made])
    if kind == "older":
        for field in ("untold", "added"):
            del document["sentences"][0][field]
    path = tmp_path / "page.html"
    path.write_text(html_page(document), encoding="utf-8")
    line = ["node", str(Path(__file__).with_name("page_steps.js")), str(path)]
    run = subprocess.run(line, capture_output=True, timeout=60, check=True)
    first, _, last = json.loads(run.stdout)
    marked = kind == "calibrated"
    assert first["titles"] == ["", "", "", "", ""] and not first["atEnd"]
    expected = ["untold, probability 0.75", "", "", "added, probability 0.50", ""]
    assert last["titles"] == (expected if marked else [""] * 5) and last["atEnd"]
    assert last["lacking"] == [marked, False] and first["lacking"] == [False, False]
    assert last["notes"][0].startswith("untold 0.75") == marked
    assert (
        "left untold: a, probability 0.75; added: B, probability 0.50" in last["live"]
    ) == marked
    assert ("untold calibrate" in last["calibration"]) == (not marked)


@pytest.mark.parametrize("key", ["ArrowLeft", "ArrowRight", "Home", "End"])
def test_keys_step(by_formula: Make, key: str) -> None:
    assert f"{key}: () =>" in page(by_formula("a", "b"))


def test_controls_have_names_and_news_are_announced(by_formula: Make) -> None:
    elements = Reader(page(by_formula("a", "b"))).elements
    for tag, attributes in elements:
        if tag in ("button", "input"):
            assert attributes.get("aria-label")
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true"
    assert any(attributes.get("aria-live") == "polite" for _, attributes in elements)
    assert any(attributes.get("name") == "viewport" for _, attributes in elements)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_dark_light_and_narrow_screens_are_thought_of(by_formula: Make) -> None:
    text = page(by_formula("a", "b"))
    for query in ("prefers-color-scheme: dark", "prefers-reduced-motion", "max-width: 36rem"):
        assert query in text


def contrast(one: str, other: str) -> float:
    """Of WCAG 2: relative luminance, lighter over darker."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_all_text_has_contrast_in_light_and_dark(by_formula: Make) -> None:
    schemes = re.findall(r":root \{(.*?)\}", page(by_formula("a", "b")), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", scheme))
        pairs = [("ink", "paper"), ("ink", "ground"), ("soft", "paper"), ("soft", "ground")]
        pairs += [(f"{name}-ink", f"{name}-ground") for name in ("past", "future", "redundant")]
        pairs += [("flip", "paper")]
        for text, ground in pairs:
            assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
