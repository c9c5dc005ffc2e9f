"""`untold evaluate` with alignments, as a person runs it, on a model of seconds."""

import io
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.cli import main
from untold.corpus.alignments import read_alignments
from untold.metrics.separation import AlignedPair, separation_report
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, save_model
from untold.translator import load

FIGURES = {
    "auc",
    "accuracy",
    "accuracy_off_rule",
    "category_accuracy",
    "category_accuracy_off_rule",
    "flips",
    "redundant_auc",
    "past_course",
    "future_start",
    "future_end",
    "aer",
}
SOURCES = ["abc de f", "gh a", "bc d ef h"]
TARGETS = ["f de abc", "a gh", "h ef bc"]
LINKS = ["0-2 1-1 2-0", "0-1 1p0", "0-2 2-1 3-0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with past and future, one without, and three aligned pairs."""
    folder = tmp_path_factory.mktemp("separation")
    root = write_corpus(folder / "corpus")
    shape = toy_config(root).model.model_dump()
    for name, kind in (("model", "gdr"), ("plain", "none")):
        config = toy_config(root, model=shape | {"separator": {"kind": kind}})
        tokenizers = toy_tokenizers(root, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
        save_model(folder / name, TrainedModel(model, config, tokenizers))
    for name, lines in (("source", SOURCES), ("target", TARGETS), ("links", LINKS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def evaluate(folder: Path, *options: object, model: str = "model", code: int = 0) -> str:
    """Run it as the shell would, but in this process; returns what it printed, or its error."""
    out, error = io.StringIO(), io.StringIO()
    texts = ("--source", folder / "source", "--reference", folder / "target")
    line = ["untold", "evaluate", *map(str, (folder / model, *texts, *options))]
    with (
        patch.object(sys, "argv", line),
        redirect_stdout(out),
        redirect_stderr(error),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert (stop.value.code or 0) == code, error.getvalue()
    return error.getvalue() if code else out.getvalue()


def in_python(folder: Path) -> Mapping[str, Any]:
    links = read_alignments(folder / "links")
    pairs = [AlignedPair(*each) for each in zip(SOURCES, TARGETS, links, strict=True)]
    return asdict(separation_report(load(folder / "model"), pairs))


def test_alignments_give_a_table_of_model_and_rule(folder: Path) -> None:
    table, legend = evaluate(folder, "--alignments", folder / "links").rstrip("\n").split("\n\n")
    header, *lines = table.split("\n")
    assert header.split() == ["model", "rule"]
    for line in lines:
        assert f"  {line[:30].strip()} (" in legend, "every line is explained"
    assert "  aer (lower is better): " in legend and "  auc (higher is better, " in legend
    shown = {line[:30].strip(): line[30:].split() for line in lines}
    named = {name.replace("_", " ") for name in FIGURES} - {"past course"}
    assert shown.keys() == named | {"past at t/T = 0 .. 1", "omission word auc"}
    expected = in_python(folder)
    for name in FIGURES - {"past_course"}:
        cells = [expected[side][name] for side in ("model", "rule")]
        assert shown[name.replace("_", " ")] == [
            "-" if cell is None else f"{cell:.3f}" for cell in cells
        ]


def test_alignments_as_json(folder: Path) -> None:
    report = json.loads(evaluate(folder, "--alignments", folder / "links", "--json"))
    assert report.keys() == {"model", "rule", "omission_auc"}
    assert report["model"].keys() == report["rule"].keys() == FIGURES
    assert len(report["model"]["past_course"]) == 5
    assert report == json.loads(json.dumps(in_python(folder)))
    assert report["model"] != report["rule"]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (LINKS[:2], "has 2 lines for 3 sentence pairs: give one line of links for each pair"),
        ([*LINKS, ""], "has 4 lines for 3 sentence pairs"),
        (["0-0", "1:0", "0-0"], "bad:2: '1:0' is no link: write i-j, or ipj if it is possible"),
        (["0-0", "0-0", "0-0 4-0"], "the link 4-0 leads out of a pair of 4 and 3 words"),
    ],
)
def test_links_that_cannot_be_used(folder: Path, links: list[str], expected: str) -> None:
    (folder / "bad").write_text("".join(f"{line}\n" for line in links))
    error = evaluate(folder, "--alignments", folder / "bad", code=2)
    assert expected in error and error.strip().count("\n") == 0


def test_a_model_without_past_and_future(folder: Path) -> None:
    error = evaluate(folder, "--alignments", folder / "links", model="plain", code=2)
    assert 'train one with model.separator.kind = "gdr"' in error
    assert error.strip().count("\n") == 0


def test_a_file_of_links_that_is_not_there(folder: Path) -> None:
    assert "absent" in evaluate(folder, "--alignments", folder / "absent", code=2)
