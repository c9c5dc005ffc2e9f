"""The small parts of requests: strict JSON, HTML, limits, keys, files and words that stand."""

import base64
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.checking.segments import Damage, Segment
from untold.commands.serve import _HOME as HOME
from untold.commands.serve import _rules
from untold.errors import UntoldError
from untold.serve.api_errors import STATUSES, ApiError
from untold.serve.html_texts import HtmlTexts
from untold.serve.request_bodies import read_json
from untold.serve.request_guard import is_right_key
from untold.serve.service_limits import ServiceLimits, read_limits
from untold.serve.work.live_stream import kept_words
from untold.serve.work.model_shelf import read_model_names
from untold.serve.work.uploaded_file import read_uploaded

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
)  # fmt: skip


@given(values, st.booleans())
def test_whatever_is_json_is_read(value, ascii_only):
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary())
def test_anything_else_is_a_refusal(body):
    try:
        read_json(body)
    except ApiError as error:
        assert error.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"a": NaN}',
        b"-Infinity",
        b"1e999",
        b"[" * 100_000,
        b'{"a":' * 5000,
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b'"\xed\xa0\x80"',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"9" * 5000,
        b"{'a': 1}",
        b'{"a": 1',
        b"nul",
    ],
)
def test_what_is_nearly_json_is_refused(body):
    with pytest.raises(ApiError) as refused:
        read_json(body)
    assert (refused.value.status, refused.value.code) == (400, "not_json")


def test_a_whole_pair_of_surrogates_is_one_character():
    assert read_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ([], ["a"], 0),
        (["a"], ["a", "b"], 1),
        (["a", "b"], ["a", "bc"], 2),  # the last word has grown
        (["a", "b"], ["a", "c"], 1),
        (["ab", "c"], ["a", "c"], 0),
        (["a", "b"], ["a"], 1),
        (["a", "b", "c"], ["ab", "b", "c"], 0),  # only the last word may grow
        (["a", "b"], [], 0),
    ],
)
def test_words_stand_or_have_changed(before, now, kept):
    assert kept_words(before, now) == kept


@given(st.text(st.sampled_from("ab <>/&;!-\n")))
def test_html_without_changes_keeps_its_markup_and_its_text(fragment):
    cut = HtmlTexts.of(fragment)
    again = HtmlTexts.of(cut.filled(cut.texts))
    assert again.parts[1::2] == cut.parts[1::2]


def test_html_is_translated_between_its_tags():
    cut = HtmlTexts.of('<p class="x">A &amp; b <b>c</b><!-- d --> <script>e</script></p>')
    assert cut.texts == ["A & b", "c"]
    filled = cut.filled(["<1>", "2"])
    assert filled == '<p class="x">&lt;1&gt; <b>2</b><!-- d --> <script>e</script></p>'


def test_limits_are_read_and_wrong_ones_refused():
    assert read_limits(["beam=3", "seconds=0.5"]) == ServiceLimits(beam=3, seconds=0.5)
    for wrong in ("bem=3", "beam", "beam=0", "beam=x", "beam=1.5", "seconds=nan", "seconds=inf"):
        with pytest.raises(UntoldError, match="--limit"):
            read_limits([wrong])


def test_the_page_of_the_server_lists_every_limit_and_status():
    page = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
    for each in fields(ServiceLimits):
        assert f"| `{each.name}` | {int(each.default)} |" in page
    for status in STATUSES:
        assert re.search(rf"^\| (\d+, )?{status}\b", page, re.MULTILINE), status


@given(st.text(), st.text(min_size=1))
def test_only_the_right_key_is_right(given_key, key):
    safe = key.encode(errors="replace").decode()
    assert is_right_key(given_key, None)
    assert is_right_key(safe, safe)
    assert is_right_key(given_key, safe) == (given_key.encode(errors="replace") == safe.encode())


def test_models_are_named_by_hand_or_by_their_directory():
    named = read_model_names(["a=x/y", "runs/demo"])
    assert {name: str(path) for name, path in named.items()} == {"a": "x/y", "demo": "runs/demo"}
    for wrong in (["=x"], ["a="], ["x/a", "a=b"]):
        with pytest.raises(UntoldError):
            read_model_names(wrong)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_file_is_read_and_called_by_its_name():
    good, bad = read_uploaded("x.tsv", encoded("one two\teins\nbad\n"), ServiceLimits())
    assert isinstance(good, Segment) and (good.file, good.source) == ("x.tsv", "one two")
    assert isinstance(bad, Damage) and (bad.file, bad.line) == ("x.tsv", 2)


def test_texts_of_a_file_that_are_too_long_are_not_checked():
    (long,) = read_uploaded(
        "x.tsv", encoded("aaaa bbbb\tc d e\n"), ServiceLimits(pair_characters=8)
    )
    assert isinstance(long, Segment) and long.unchecked == "too long"


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("x.tsv.gz", "", 422, "unknown_format"),
        ("../../etc/passwd", "", 422, "unknown_format"),
        ("x" * 200 + ".po", "", 422, "unknown_format"),
        ("x.po", "%%%", 422, "not_base64"),
        ("x.po", "\N{GRINNING FACE}", 422, "not_base64"),
        ("x.po", encoded("a" * 101), 413, "file_too_large"),
        ("x.tsv", encoded("a\tb\n" * 4), 413, "too_many_segments"),
        ("x.tsv", base64.b64encode("a\tb".encode("utf-16")).decode(), 422, "unreadable_file"),
    ],
)
def test_files_that_cannot_be_read_are_refused_without_a_path(name, content, status, code):
    with pytest.raises(ApiError) as refused:
        read_uploaded(name, content, ServiceLimits(file_bytes=100, segments=3))
    assert (refused.value.status, refused.value.code) == (status, code)
    assert "/tmp" not in refused.value.message and "untold-" not in refused.value.message


@pytest.mark.parametrize(
    ("host", "names", "hosts"),
    [
        ("127.0.0.1", [], HOME),
        ("127.0.0.1", ["A.example"], HOME | {"a.example"}),
        ("10.0.0.1", [], HOME | {"10.0.0.1"}),
        ("0.0.0.0", [], set()),  # any
        ("0.0.0.0", ["a.example"], HOME | {"a.example"}),  # and probes of the machine itself
    ],
)
def test_names_under_which_clients_may_ask(host, names, hosts):
    assert _rules(host, "0123456789abcdef", [], names).hosts == hosts
