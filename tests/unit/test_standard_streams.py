"""Streams and consoles: a terminal shows control characters, a file gets them."""

import io
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from untold.errors import UntoldError, escape_controls, one_line
from untold.standard_streams import TerminalStream, decode_argument, safe_streams
from untold.terminal import SafeConsole

ALL = "".join(map(chr, range(0x3000))) + "\ud800\udfff\ufffe\uffff\U0001f600"
TURNING = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def unsafe(text: str) -> set[str]:
    """Control characters, surrogates and what turns the direction of writing."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cs") or c in TURNING}


def memory(errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="")


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def test_a_terminal_gets_line_ends_and_tabs_alone():
    raw = memory()
    stream = TerminalStream(raw)
    assert stream.write(ALL) == len(ALL)
    print("a", "\x1b", file=stream, flush=True)
    assert unsafe(written(raw)) == {"\n", "\t"}
    assert written(raw).endswith("a \\x1b\n")
    for harmless in ("ä", "\u200d", "\u00ad", "\u200f", "\U0001f600"):
        assert harmless in written(raw)


@given(st.text(st.characters()))
def test_what_is_escaped_is_harmless_and_keeps_the_rest(text: str):
    escaped = escape_controls(text)
    assert unsafe(escaped) == set()
    assert escape_controls(escaped) == escaped
    if not unsafe(text) and not set("\u2028\u2029\ufffe\uffff") & set(text):
        assert escaped == text


@given(st.text(st.characters()), st.integers(10, 60))
def test_a_line_is_one_line_and_ends_as_it_did(text: str, most: int):
    line = one_line(f"{text}: mend", most)
    assert unsafe(line) == set() and len(line) <= most
    assert line.endswith("mend"[-(most - most * 2 // 3 - 3) :])


def console(*, terminal: bool) -> tuple[SafeConsole, io.TextIOWrapper]:
    stream = memory("surrogatepass")
    return SafeConsole(file=stream, force_terminal=terminal, width=60, highlight=False), stream


def test_a_console_shows_controls_and_keeps_its_own_sequences():
    table = Table("a\x1b[5mb")
    table.add_row(Text("c\x9bd", style="bold"))
    shown, stream = console(terminal=True)
    for part in ("x\x1b]0;t\x07y", Text("\x1b[2J\x7f", style="red"), table):
        shown.print(part, markup=False)
    text = written(stream)
    assert "x\\x1b]0;t\\x07y\n" in text
    assert "\x1b[31m\\x1b[2J\\x7f\x1b[0m\n" in text
    assert "a\\x1b[5mb" in text and "\x1b[2J" not in text and "\x9b" not in text


def test_a_console_changes_nothing_on_the_way_to_a_file():
    shown, stream = console(terminal=False)
    shown.print("x\x1b]0;t\x9by", markup=False)
    assert written(stream) == "x\x1b]0;t\x9by\n"


def test_streams_become_utf8_and_are_put_back(monkeypatch: pytest.MonkeyPatch):
    streams = [io.TextIOWrapper(io.BytesIO(), "ascii") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    with safe_streams():
        print("ä\udcff")
        print("ä\udcff", file=sys.stderr)
    assert [sys.stdout, sys.stderr] == streams
    for stream, expected in zip(streams, (b"\xc3\xa4\xff\n", b"\xc3\xa4\\udcff\n"), strict=True):
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        assert stream.buffer.getvalue() == expected


def test_closed_streams_stay_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with safe_streams():
        assert sys.stdout is None and sys.stderr is None
        print("nothing happens")


def test_no_file_takes_the_number_of_a_closed_stream():
    """Else whatever a library prints would be written into that file."""
    code = "import os; {}os.write(9, str(os.open('/dev/null', os.O_RDONLY)).encode())"
    fill = "from untold.standard_streams import open_closed_descriptors as o; o(); "
    script = 'exec "$0" -c "$1" 9>&1 <&- >&- 2>&-'
    for between, expected in (("", b"0"), (fill, b"3")):  # without it, as the control
        line = ["sh", "-c", script, sys.executable, code.format(between)]
        run = subprocess.run(line, capture_output=True)
        assert (run.stdout, run.stderr) == (expected, b"")


def test_arguments_are_utf8_or_refused(monkeypatch: pytest.MonkeyPatch):
    assert decode_argument("Straße 长") == "Straße 长"
    for bad in (os.fsdecode(b"a\xff"), "\ud800"):
        with pytest.raises(UntoldError, match="is not UTF-8: convert it first"):
            decode_argument(bad)
    # As in an ASCII locale, where Python keeps each byte as a surrogate of its own.
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("ascii", "surrogateescape"))
    assert decode_argument("ä".encode().decode("ascii", "surrogateescape")) == "ä"
