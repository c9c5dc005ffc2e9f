"""Pictures, pages and records of explanations hold, whatever their texts are."""

import json
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from untold.explain.explanation import Explanation, Side
from untold.explain.write import write_explanations

# Whatever XML forbids, ends a line or a script, or turns the direction of writing.
HOSTILE = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028)))
HOSTILE += "\ud800\udfff\ufffe\uffff --> ]]> </script><!-- & $x^2$"
TEXTS = st.text(st.characters(), min_size=1, max_size=12) | st.text(HOSTILE, min_size=1, max_size=9)
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def by_shares(source: str, target: str) -> Explanation:
    sides = [Side(text, tuple(text.split(" "))) for text in (source, target)]
    shares = np.full((len(sides[1].words) + 1, len(sides[0].words), 3), 0.25)
    return Explanation(sides[0], sides[1], shares, shares[:, 0], -0.5, -2.0)


def written(explanation: Any, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"picture{suffix}")
        write_explanations(path, [explanation])
        return path.read_bytes()


@settings(max_examples=8, deadline=None)
@given(TEXTS, TEXTS)
@example(HOSTILE, HOSTILE[::-1])
def test_an_svg_is_well_formed(source: str, target: str):
    drawn = written(by_shares(source, target), ".svg")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert not FORBIDDEN.search(drawn.decode())


@settings(max_examples=2, deadline=None)
@given(TEXTS, TEXTS)
@example(HOSTILE, HOSTILE[::-1])
def test_a_png_is_drawn(source: str, target: str):
    assert written(by_shares(source, target), ".png").startswith(b"\x89PNG")


class Tags(HTMLParser):
    """Collects the elements and the data of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self._inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = ("type", "application/json") in attrs

    def handle_data(self, data: str) -> None:
        self.data += data if self._inside else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


@given(TEXTS, TEXTS)
@example(HOSTILE, HOSTILE[::-1])
def test_a_page_is_harmless(source: str, target: str):
    plain = Tags(written(by_shares("a", "b"), ".html").decode())
    page = written(by_shares(source, target), ".html").decode()
    assert not FORBIDDEN.search(page)
    assert Tags(page).tags == plain.tags
    (sentence,) = json.loads(Tags(page).data)["sentences"]
    assert not FORBIDDEN.search(sentence["source"]["text"])  # what the page shows is visible


@given(TEXTS, TEXTS)
@example(HOSTILE, HOSTILE[::-1])
def test_json_has_the_texts_as_they_are(source: str, target: str):
    (sentence,) = json.loads(written(by_shares(source, target), ".json"))["sentences"]
    # JSON's reader takes two surrogates that happen to match for one character.
    given = [json.loads(json.dumps(text)) for text in (source, target)]
    assert [sentence["source"]["text"], sentence["target"]["text"]] == given
