"""`untold explain`, as a person runs it, on a model of a few seconds."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from toys import RUN_SHAPES, fill, toy_config, toy_tokenizers, write_corpus
from untold.cli import main
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, save_model
from untold.translator import load

PAIR = ("--source", "a", "--target", "b")


def explain(*arguments: object, code: int = 0) -> str:
    return untold("explain", *arguments, code=code)


def untold(*arguments: object, code: int = 0) -> str:
    """Run it as the shell would, but in this process; returns what it printed, or its error."""
    out, error = io.StringIO(), io.StringIO()
    line = ["untold", *map(str, arguments)]
    with (
        patch.object(sys, "argv", line),
        redirect_stdout(out),
        redirect_stderr(error),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert (stop.value.code or 0) == code, error.getvalue()
    return error.getvalue() if code else out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with past and future, one without, and two with layers, one of them with both."""
    folder = tmp_path_factory.mktemp("explain")
    root = write_corpus(folder / "corpus")
    kinds = {"model": ("transformer", "gdr"), "plain": ("transformer", "none")}
    kinds |= {"layers": ("pfrnn", "none"), "both": ("pfrnn", "gdr")}
    for name, (backbone, kind) in kinds.items():
        shape = {"preset": "tiny", **RUN_SHAPES[backbone], "backbone": backbone}
        config = toy_config(root, model=shape | {"separator": {"kind": kind}})
        tokenizers = toy_tokenizers(root, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
        save_model(folder / name, TrainedModel(model, config, tokenizers))
    return folder


def test_the_terminal_has_a_line_for_each_target_word(folder: Path) -> None:
    printed = explain(folder / "model", "--source", "abc de f", "--target", "f de abc")
    lines = [line.split() for line in printed.strip().split("\n")]
    assert ["abc", "de", "f"] in lines and "\x1b" not in printed
    assert [line[0] for line in lines[-4:]] == ["f", "de", "abc", "(end)"]
    for line in lines[-4:]:
        assert [word[1:] for word in line[1:]] == ["abc", "de", "f"]
        assert all(word[0] in "✓○–»↩" for word in line[1:])


def test_a_process_of_its_own_draws_without_a_display(folder: Path) -> None:
    out = folder / "process.png"
    line = [
        "-W",
        "error",
        "-m",
        "untold",
        "explain",
        folder / "model",
        "--source",
        "a",
        "--out",
        out,
    ]
    run = subprocess.run([sys.executable, *map(str, line)], capture_output=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, b"")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_every_kind_of_file(folder: Path) -> None:
    pairs = ("--source", "abc </script>", "--source", "gh", "--target", "de", "--target", "gh a")
    for suffix in ("html", "json", "png", "svg"):
        out = folder / f"out.{suffix}"
        assert str(out) in explain(folder / "model", *pairs, "--out", out)
        assert out.stat().st_size > 500
    document = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert [each["target"]["words"] for each in document["sentences"]] == [["de"], ["gh", "a"]]
    assert document["sentences"][0]["source"]["words"] == ["abc", "</script>"]
    assert (folder / "out.html").read_text(encoding="utf-8").count("</script>") == 2


def test_the_models_own_translation(folder: Path) -> None:
    out = folder / "own.json"
    explain(folder / "model", "--source", "abc de", "--set", "decode.beam=1", "--out", out)
    (sentence,) = json.loads(out.read_text(encoding="utf-8"))["sentences"]
    assert sentence["target"]["given"] is False
    assert len(sentence["shares"]) == len(sentence["target"]["words"]) + 1
    assert all(abs(sum(word) - 1) < 1e-4 for step in sentence["shares"] for word in step)


def test_words_are_linked_and_another_system_and_links_by_people_stand_beside(folder: Path) -> None:
    (folder / "gold").write_text("0-2 1-1 2p0\n")
    out = folder / "beside.json"
    pair = ("--source", "abc de f", "--target", "f de abc")
    more = ("--against", folder / "both", "--alignments", folder / "gold")
    explain(folder / "model", *pair, *more, "--out", out)
    (sentence,) = json.loads(out.read_text(encoding="utf-8"))["sentences"]
    assert sentence["gold_links"] == [
        {"source": 0, "target": 2, "sure": True},
        {"source": 1, "target": 1, "sure": True},
        {"source": 2, "target": 0, "sure": False},
    ]
    other = sentence["against"]
    assert sentence["system"] == "model" and other["system"] == "both"
    assert other["target"] == sentence["target"] and other["against"] is None
    for each in (sentence, other):
        for link in each["links"]:
            assert 0 <= link["source"] < 3 and 0 <= link["target"] < 3
            assert 0.3 < link["probability"] <= 1


def test_translate_prints_assignments_if_the_model_has_them(folder: Path) -> None:
    (folder / "text").write_text("abc de f\n\n")
    plain = untold("translate", folder / "model", folder / "text")
    lines = untold("translate", folder / "model", folder / "text", "--json").strip().split("\n")
    record, blank = map(json.loads, lines)
    assert f"{record['text']}\n\n" == plain
    (found,) = load(folder / "model").translate(["abc de f"], assignments=True)
    assert found.assignments is not None
    expected = np.float64(found.assignments[:-1, :-1]).round(6)
    assert expected.shape == (len(record["tokens"]), len(record["source_tokens"]), 3)
    np.testing.assert_allclose(record["assignments"], expected, atol=2e-6)
    assert "assignments" not in blank
    lines = untold("translate", folder / "plain", folder / "text", "--json").split("\n")
    without = json.loads(lines[0])
    assert without["tokens"] and "assignments" not in without


@pytest.mark.parametrize(
    ("model", "arguments", "expected"),
    [
        ("model", ["--source", "a", "--out", "x.pdf"], "'.pdf' names no format; known: .html"),
        ("absent", ["--source", "a", "--out", "x.pdf"], "'.pdf'"),  # before the model is loaded
        ("model", ["--source", " "], "blank"),
        ("model", ["--source", "a", "--source", "b", "--target", "c"], "2 sources but 1 targets"),
        ("plain", ["--source", "a"], "does not separate past and future"),
        ("plain", ["--source", "a", "--target", "b"], "does not separate past and future"),
        ("layers", ["--source", "a"], "does not separate past and future"),
        ("model", ["--source", "a", "--out", "absent/x.json"], "there is no directory"),
        ("model", ["--source", "a", "--against", "x"], "the terminal shows one system alone"),
        ("model", ["--source", "a", "--against", "x", "--out", "x.png"], "x.png shows one system"),
        ("model", ["--source", "a", "--alignments", "x", "--out", "x.json"], "give it by --target"),
        ("model", ["--source", "a", "--figure", "panels"], "the terminal is no figure"),
        (
            "model",
            ["--source", "a", "--figure", "panels", "--out", "x.html"],
            "x.html is no figure",
        ),
        ("layers", [*PAIR, "--alignments", "x", "--out", "x.json"], "does not separate"),
        ("layers", [*PAIR, "--against", "{}/model", "--out", "x.json"], "does not separate"),
        ("model", [*PAIR, "--alignments", "{}/links", "--out", "x.json"], "3 lines for 1 sentence"),
    ],
)
def test_a_mistake_is_one_clear_line(
    folder: Path, model: str, arguments: list[str], expected: str
) -> None:
    (folder / "links").write_text("0-0\n\n0-0\n")
    filled = [each.format(folder) for each in arguments]
    error = explain(folder / model, *filled, code=2)
    assert expected in error and error.strip().count("\n") == 0


def test_without_a_model_the_embedded_one_is_explained() -> None:
    shown = explain("--source", "The child reads a book .", "--target", "Das Kind liest .")
    assert "✓child" in shown and "book (untold" in shown
