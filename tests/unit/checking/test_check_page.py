"""The page of findings: self-contained, harmless whatever its texts say, and small enough."""

import json
import re
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from fake_checks import TEXTS, judged
from untold.checking.reports import check_page, damage_record, segment_record
from untold.checking.segments import Damage, Segment

FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, and its data."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self._texts = {}
        self.feed(page)
        self.close()
        self.data = json.loads(self._texts["data"])

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        name = self.elements[-1][1].get("id") if self.elements else None
        self._texts[name] = self._texts.get(name, "") + data

    def ids(self):
        return {values["id"]: (tag, values) for tag, values in self.elements if "id" in values}


def record(source, target="x", file="de.po", name=""):
    checked = judged(Segment(file, 7, source, target, name))
    return segment_record(checked, checked.findings({"omission": 0.5, "addition": 0.5}))


def texts(values):
    """All texts inside nested JSON."""
    if isinstance(values, str):
        return [values]
    inner = values.values() if isinstance(values, dict) else values
    nested = isinstance(values, (dict, list))
    return [text for each in inner for text in texts(each)] if nested else []


def page(*records, summary="all"):
    return check_page(records, summary)


def test_the_data_has_what_is_shown():
    damage = damage_record(Damage("fr.po", 3, "cut"))
    made = Reader(page(record("a hat_93", "x new_60", name="menu"), damage, summary="1 of 2"))
    assert made.data == {
        "summary": "1 of 2",
        "places": [
            {
                "file": "de.po",
                "line": 7,
                "name": "menu",
                "source": [["a ", None], ["hat_93", 0]],
                "target": [["x ", None], ["new_60", 1]],
                "findings": [
                    {"kind": "omission", "probability": 0.93, "text": "hat_93"},
                    {"kind": "addition", "probability": 0.6, "text": "new_60"},
                ],
            },
            {"file": "fr.po", "line": 3, "damage": "cut"},
        ],
    }
    assert Reader(page()).data == {"summary": "all", "places": []}


@given(st.text(), st.text(TEXTS), st.text())
@example(TEXTS + "<!--data-->", TEXTS[::-1], TEXTS)
def test_a_page_is_harmless(source, target, name):
    plain = Reader(page(record("a hat_93"), damage_record(Damage("f", 1, "r"))))
    made = page(
        record(f"{source} hat_93", target, name, name),
        damage_record(Damage(name, 1, source)),
        summary=source,
    )
    assert not FORBIDDEN.search(made)
    made.encode()
    assert Reader(made).elements == plain.elements
    assert not [text for text in texts(Reader(made).data) if FORBIDDEN.search(text)]
    shown = "".join(text for text, _ in Reader(made).data["places"][0]["source"])
    assert shown.endswith("hat_93")


def test_the_page_needs_nothing_else():
    made = page(record("hat_93"))
    elements = Reader(made).elements
    (policy,) = [
        values["content"]
        for tag, values in elements
        if values.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none';") and "http" not in policy
    assert not re.search("https?://", made.replace('"http://www.w3.org/2000/svg"', ""))
    assert not {tag for tag, _ in elements} & {"iframe", "object", "img", "base"}
    assert not [values for _, values in elements if "src" in values]
    assert [v["href"] for _, v in elements if "href" in v] == ["data:,"]
    assert not [name for _, values in elements for name in values if name.startswith("on")]


def test_a_page_of_many_findings_is_small():
    made = page(*[record("a word or two hat_93 and more of it")] * 10_000)
    assert len(Reader(made).data["places"]) == 10_000
    assert len(made) < 4_000_000
