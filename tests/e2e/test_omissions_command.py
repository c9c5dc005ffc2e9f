"""`untold calibrate` and the benchmark of omissions, as a person runs them, on a grammar."""

import contextlib
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from fuzz.in_process import Ended, run_in_process
from toys import toy_trained
from untold.errors import InUseError, UntoldError
from untold.files import lock_directory, new_directory, verify_directory
from untold.lab.omission_benchmark import main
from untold.storage.model_directory import load_model, save_model

KINDS = ["word", "phrase", "clause", "end", "natural"]
WAYS = ["account", "future", "lexicon", "attention coverage", "attention maximum"]
WAYS += ["log-probability", "p(EOS)", "contrastive"]
PAIRS = 40
DEV = ("--source", "dev.en", "--target", "dev.de")
TEST = ("--source", "few.en", "--reference", "few.de", "--alignments", "few.align")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar's corpus, a model of it with past and future, and one without."""
    folder = tmp_path_factory.mktemp("omissions") / "corpus"
    ended = run_in_process(("sample", "en-de", "--pairs", 60, "--out", folder), folder.parent)
    assert ended.code == 0, ended.errors
    for name in ("train", "dev"):
        for side, other in (("en", "src"), ("de", "tgt")):
            shutil.copy(folder / f"{name}.{side}", folder / f"{name}.{other}")
    for name, other, count in (("test", "few", 8), ("dev", "dev", PAIRS)):
        for side in ("en", "de", "align"):
            lines = (folder / f"{name}.{side}").read_text().split("\n")[:count]
            (folder / f"{other}.{side}").write_text("\n".join(lines) + "\n")
    tokenizer = {"tokenizer": {"size": 200}}
    shape = {"separator": {"kind": "gdr", "d_capsule": 4, "lexicon": 4}}
    save_model(folder / "fresh", toy_trained(folder, model=shape, **tokenizer))
    save_model(folder / "plain", toy_trained(folder, **tokenizer))
    shutil.copytree(folder / "fresh", folder / "model")
    assert run(folder, "calibrate", "model", *DEV).code == 0
    return folder


def run(folder: Path, *arguments: object) -> Ended:
    ended = run_in_process(arguments, folder)
    assert ended.escaped is None and ended.errors.count("\n") <= 1, ended.errors
    return ended


def contents(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def test_a_calibration_is_written_beside_the_weights(folder: Path, tmp_path: Path) -> None:
    model = shutil.copytree(folder / "fresh", tmp_path / "model")
    before = contents(model)
    ended = run(folder, "calibrate", model, *DEV)
    assert (ended.code, ended.errors) == (0, "")
    found = load_model(model).calibration
    assert found is not None
    assert ended.output == (
        f"{model}: calibrated on {PAIRS} of {PAIRS} pairs\n"
        f"expected calibration error on held-out words: {found.error:.4f}\n"
    )
    verify_directory(model)
    after = contents(model)
    del before["MANIFEST.json"], after["MANIFEST.json"]
    assert after.pop("calibration.json") == (folder / "model" / "calibration.json").read_bytes()
    assert after == before
    assert run(folder, "calibrate", model, *DEV, "--seed", 2).code == 0
    assert load_model(model).calibration != found, "another seed, other damage"
    assert run(folder, "calibrate", model, *DEV, "--seed", 1).code == 0
    assert load_model(model).calibration == found, "the same seed, the same numbers"


def test_a_calibration_of_another_version_is_made_anew(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    with new_directory(model) as directory:
        for name, data in contents(folder / "model").items():
            if name != "MANIFEST.json":
                (directory / name).write_bytes(data)
        (directory / "calibration.json").write_text('{"format": 2}')
    ended = run(folder, "info", model)
    assert ended.code == 2 and "make it again with untold calibrate" in ended.errors
    assert run(folder, "calibrate", model, *DEV).code == 0
    assert run(folder, "info", model).code == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("plain", *DEV), "does not separate past and future"),
        (("absent", *DEV), "absent: no such model"),
        ((".", *DEV), "holds neither a model"),
        (("fresh", "--source", "few.en", "--target", "few.de"), "at least 20 segments"),
        (("fresh", "--source", "dev.en", "--target", "few.de"), "must belong together"),
        (("fresh", "--source", "nothing", "--target", "dev.de"), "nothing"),
        (("fresh", *DEV, "--seed", "-1"), "must be a whole number from 0"),
        (("fresh", *DEV, "--seed", "nan"), "must be a whole number from 0"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    folder: Path, arguments: tuple[str, ...], expected: str
) -> None:
    before = contents(folder / "fresh")
    ended = run(folder, "calibrate", *arguments)
    assert ended.code == 2 and expected in ended.errors
    assert contents(folder / "fresh") == before
    assert not (folder / "absent").exists() and not list(folder.glob(".*"))


def make_run(folder: Path, run_folder: Path) -> None:
    """A run with a best model and a checkpoint, which also holds what resuming needs."""
    shutil.copytree(folder / "fresh", run_folder / "best" / "step-00000002")
    with new_directory(run_folder / "checkpoints" / "step-00000004") as directory:
        for name, data in contents(folder / "fresh").items():
            if name != "MANIFEST.json":
                (directory / name).write_bytes(data)
        (directory / "optimizer.safetensors").write_bytes(b"moments")


@pytest.mark.parametrize("name", ["", "best/step-00000002", "checkpoints/step-00000004"])
def test_a_run_that_is_being_trained_is_left_alone(folder: Path, tmp_path: Path, name: str) -> None:
    make_run(folder, tmp_path)
    with lock_directory(tmp_path):
        before = contents(tmp_path)
        ended = run(folder, "calibrate", tmp_path / name, *DEV)
        assert ended.code == 2 and contents(tmp_path) == before
    assert f"in use by process {os.getpid()} on host {socket.gethostname()}" in ended.errors
    assert run(folder, "calibrate", tmp_path / name, *DEV).code == 0
    assert load_model(tmp_path / name).calibration is not None
    checkpoint = tmp_path / "checkpoints" / "step-00000004"
    assert (checkpoint / "optimizer.safetensors").read_bytes() == b"moments"
    verify_directory(checkpoint)


def test_the_model_of_a_run_is_locked_while_it_is_calibrated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from untold.checking import synthetic_errors as self_made

    make_run(folder, tmp_path)
    fit, held = self_made.fit_calibration, []

    def look(*arguments: object) -> object:
        with pytest.raises(InUseError), lock_directory(tmp_path):
            pass
        held.append(True)
        return fit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(self_made, "fit_calibration", look)
    assert run(folder, "calibrate", tmp_path, *DEV).code == 0
    assert held == [True]


def benchmark(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns what `python -m untold.lab.omission_benchmark` prints in the folder."""
    with contextlib.chdir(folder):
        main([*arguments, *TEST])
    return capsys.readouterr().out


def read(text: str) -> dict[str, Any]:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_omissions_of_all_kinds_in_all_ways(folder: Path, capsys) -> None:
    report = read(benchmark(folder, capsys, "model", "--json"))
    assert report.keys() == {"figures", "calibration_error", "reliability"}
    kinds = list(dict.fromkeys(figure["kind"] for figure in report["figures"]))
    assert kinds == KINDS
    for kind in kinds:
        own = [figure for figure in report["figures"] if figure["kind"] == kind]
        assert [figure["scorer"] for figure in own] == WAYS
        assert len({(figure["pairs"], figure["omitted"]) for figure in own}) == 1
        for figure in own:
            shares = ("omitted", "word_auc", "average_precision", "f1", "recall", "segment_auc")
            assert all(figure[name] is None or 0 <= figure[name] <= 1 for name in shares)
            by_pair = figure["scorer"] in ("log-probability", "p(EOS)")
            if kind != "natural":  # where this untrained model omits every word
                assert (figure["word_auc"] is None) == by_pair
    assert 0 <= report["calibration_error"] <= 1
    assert all(part.keys() == {"count", "said", "true"} for part in report["reliability"])

    table = benchmark(folder, capsys, "model", "--diagram", "said.svg")
    assert (folder / "said.svg").read_bytes().startswith(b"<?xml")
    for figure in report["figures"]:
        head = f"{figure['kind']}: {figure['pairs']} pairs, {figure['omitted']:.1%} of words"
        assert f"{head} omitted" in table.split("\n")
    assert f"expected calibration error of words: {report['calibration_error']:.4f}" in table
    for name in ("word auc", "recall@1%", "segment auc", "unlinked", "passes"):
        assert f"  {name} (" in table or f"  {name}: " in table, name


def test_without_a_calibration_the_account_is_left_out(folder: Path, capsys) -> None:
    report = read(benchmark(folder, capsys, "fresh", "--json"))
    assert list(dict.fromkeys(figure["scorer"] for figure in report["figures"])) == WAYS[1:]
    assert report["calibration_error"] is None and report["reliability"] == []


def test_mistakes_of_omissions(folder: Path, capsys) -> None:
    with pytest.raises(UntoldError, match="cannot tell what is untold"):
        benchmark(folder, capsys, "plain")
    with pytest.raises(UntoldError, match="absent"):
        benchmark(folder, capsys, "model", "--aligner", "absent")
    with pytest.raises(SystemExit):
        benchmark(folder, capsys, "model", "--diagram", "said.pdf")
