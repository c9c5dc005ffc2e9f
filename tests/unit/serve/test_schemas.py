"""Requests are strict JSON within limits."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.serve.schemas import STATUSES, ApiError, ServiceLimits, read_json, read_limits

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
        b'{"a": 1, "a": 1}',
        b'[{"b": {"a": 1, "\\u0061": 2}}]',
    ],
)
def test_what_is_nearly_json_is_refused(body):
    with pytest.raises(ApiError) as refused:
        read_json(body)
    assert (refused.value.status, refused.value.code) == (400, "not_json")


def test_a_whole_pair_of_surrogates_is_one_character():
    assert read_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


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
