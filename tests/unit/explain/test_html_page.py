"""The page: self-contained and harmless; tests/browser opens it."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

from untold.errors import escape_controls
from untold.explain.explanation import LIKELY, Explanation
from untold.explain.page import html_page, share_document

Make = Callable[..., Explanation]
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


def page(*explanations: Explanation) -> str:
    return html_page(share_document(explanations))


def test_texts_cannot_become_markup(by_formula: Make) -> None:
    plain, nasty = Reader(page(by_formula("a", "b"))), Reader(page(by_formula(NASTY, NASTY)))
    assert [tag for tag, _ in nasty.elements] == [tag for tag, _ in plain.elements]
    assert nasty.data()["sentences"][0]["source"]["text"] == NASTY
    assert nasty.texts["title"][0].strip() == f"untold: {escape_controls(NASTY)}"


def test_the_page_needs_nothing_else(by_formula: Make) -> None:
    text = page(by_formula("a b", "A B"))
    text = text.replace('"http://www.w3.org/2000/svg"', "")  # the name of a language
    assert not re.search(r"https?://|[^:]//[a-z]+\.|@import|url\(|<iframe|fetch\(|XMLHttp", text)
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


def test_a_word_is_marked_from_the_same_probability_on_as_in_the_terminal(by_formula: Make) -> None:
    assert f"const LIKELY = {LIKELY};" in page(by_formula("a", "b"))


def test_a_language_is_named_and_written_as_itself(by_formula: Make) -> None:
    text = page(by_formula("هذا الرجل", "dieser Mann", ("ar", "de")))
    assert ("html", {"lang": "en"}) in Reader(text).elements
    assert Reader(text).data()["sentences"][0]["source"]["language"] == "ar"
    assert "الرجل" in text  # not as escapes
