"""What a terminal gets: sequences of rich's own, and none that a text or a file name contains."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from toys import fill, toy_config, toy_tokenizers
from untold.cli import main
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, save_model

# The sequences that rich sends: styles, the cursor hidden and shown, lines cleared, lines up.
OWN = re.compile(r"\x1b\[(?:[\d;]*m|\?25[lh]|2K|1A)|\r")
HOSTILE = "\x1b[5m \x1b]0;title\x07 \x9b5m \u202eab\u202c \x7f \x08c\x0c"
LETTERS = "ab\x1b\x9b\x07\u202e[5m"
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose words are made of control characters, in a directory with such a name."""
    root = tmp_path_factory.mktemp("terminal")
    words = [f"{one}{other}{third}" for one in LETTERS for other in LETTERS for third in LETTERS]
    for side in ("src", "tgt"):
        (root / f"train.{side}").write_text("".join(f"{word}\n" for word in words))
    config = toy_config(root, model={"separator": {"kind": "gdr"}})
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    made = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    path = root / "mo\x1b[5mdel"
    save_model(path, TrainedModel(made, config, tokenizers))
    return path


def untold(*arguments: object, text: str = "", **variables: str) -> subprocess.CompletedProcess:
    """Runs a command with pipes for all streams."""
    return subprocess.run(
        _command(*arguments),
        input=text.encode(),
        capture_output=True,
        env=os.environ | variables,
        timeout=300,
    )


def on_terminal(*arguments: object, text: str = "") -> tuple[int, str]:
    """Runs a command in this process with a terminal for output and error."""
    ours, theirs = pty.openpty()
    blocks: list[bytes] = []
    reader = threading.Thread(target=lambda: blocks.extend(_blocks(ours)))
    reader.start()
    line = [
        "untold",
        *(os.fsdecode(str(each) if isinstance(each, Path) else each) for each in arguments),
    ]
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    code: object = 0
    with (
        open(theirs, "w", encoding="ascii") as output,
        open(os.dup(theirs), "w", encoding="ascii") as errors,
        patch.dict(os.environ, {"TERM": "xterm"}),  # a dumb one gets no bars
    ):
        sys.argv, sys.stdin = line, io.TextIOWrapper(io.BytesIO(text.encode()))
        sys.stdout, sys.stderr = output, errors
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    reader.join()
    os.close(ours)
    return int(str(code or 0)), b"".join(blocks).decode()


def _command(*arguments: object) -> list[str | bytes]:
    given = [each if isinstance(each, bytes) else str(each) for each in arguments]
    return [sys.executable, "-m", "untold", *given]


def _blocks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            block = os.read(descriptor, 65536)
        except OSError:  # so Linux says that nobody has the other end any more
            return
        if not block:
            return
        yield block


def controls(printed: str) -> set[str]:
    """The control characters that are left without rich's own sequences and line ends."""
    rest = OWN.sub("", printed)
    return set(re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest))


def test_translations_show_what_a_pipe_gets(model: Path) -> None:
    text = "a \x1b[5m b\n"
    piped = untold("translate", model, "--nbest", "2", text=text)
    assert piped.returncode == 0, piped.stderr
    assert controls(piped.stdout.decode()), "the control: a pipe gets the bytes of the text"
    code, printed = on_terminal("translate", model, "--nbest", "2", text=text)
    assert code == 0
    assert "\x1b[" in printed  # the bars that load the model
    assert controls(printed) == set()
    for sign in controls(piped.stdout.decode()):
        assert repr(sign)[1:-1] in printed


def test_json_on_a_terminal_is_harmless(model: Path) -> None:
    code, printed = on_terminal("translate", model, "--json", text="\x9b5m \u202ea\n")
    assert (code, controls(printed)) == (0, set())
    assert "\\x9b" in printed


def test_explanations_are_whole_and_harmless(model: Path) -> None:
    pair = ("--source", f"a {HOSTILE}", "--target", f"b {HOSTILE}")
    code, printed = on_terminal("explain", model, *pair)
    assert (code, controls(printed)) == (0, set())
    rows = OWN.sub("", printed).split("\n")
    assert r"a \x1b[5m \x1b]0;title\x07 \x9b5m \u202eab\u202c \x7f \x08c\x0c" in rows


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", HOSTILE],
        [HOSTILE],
        ["info", "x", f"--{HOSTILE}"],
        ["train", f"{HOSTILE}.toml"],
        ["translate", "x", "--beam", HOSTILE],
        ["explain", "x", "--source", "a", "--out", f"x.{HOSTILE}"],
        ["translate", "x", "--set", f"decode.{HOSTILE}=1"],
        ["info", "two\nlines\r\nmore\u2028"],
        ["info", "x" * 100_000],
        ["info", b"caf\xe9"],
        ["explain", "x", "--source", b"caf\xe9"],
    ],
)
def test_an_error_is_one_harmless_line(arguments: list[str]) -> None:
    code, printed = on_terminal("--progress", "none", *arguments)
    assert (code, controls(printed)) == (2, set())
    assert printed.startswith("untold: ") and printed.endswith("\r\n")
    assert printed.count("\n") == 1 and len(printed) < 1100


def test_an_error_is_one_harmless_line_in_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["untold", "info", f"{HOSTILE}\n{'x' * 5000}"])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert (end.value.code, error.count("\n"), controls(error)) == (2, 1, set())
    assert error.startswith("untold: \\x1b[5m") and error.endswith("choose a shorter name\n")
    assert len(error) < 1100


def test_bars_and_last_words_show_the_names_of_files(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "pi\x1b[5m.json"
    code, printed = on_terminal("explain", model, "--source", "a b", "--out", out)
    assert (code, controls(printed)) == (0, set())
    assert r"loading" in printed and r"pi\x1b[5m.json: sentences: 1" in printed
    assert out.exists()


def test_help_is_printed_on_a_terminal() -> None:
    code, printed = on_terminal("info", "--help")
    assert code == 0 and "--json" in printed


def test_an_ascii_locale_prints_utf8(model: Path) -> None:
    run = untold("explain", model, "--source", "a Straße 长", "--target", "b ↔", **ASCII)
    assert (run.returncode, run.stderr) == (0, b"")
    assert "a Straße 长\n→ b ↔".encode() in run.stdout


def test_files_may_have_names_that_are_not_utf8(model: Path, tmp_path: Path) -> None:
    out = os.fsencode(tmp_path) + b"/caf\xe9-\xc3\xa9.json"
    run = untold("explain", model, "--source", "ä", "--out", out, **ASCII)
    assert run.returncode == 0, run.stderr
    assert run.stdout == out + b": sentences: 1\n"
    with open(out, "rb") as file:
        assert json.loads(file.read())["sentences"][0]["source"]["text"] == "ä"


def test_closed_streams_change_no_result(model: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "model", tmp_path / "out.json"
    path.symlink_to(model)
    script = f"exec {sys.executable} -m untold explain {path} --source a --out {out}"
    run = subprocess.run(["sh", "-c", f"{script} <&- >&- 2>&-"], capture_output=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, b"")
    assert len(json.loads(out.read_text(encoding="utf-8"))["sentences"]) == 1
