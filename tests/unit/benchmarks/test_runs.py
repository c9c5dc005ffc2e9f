"""`make bench` calls scripts with options that they know, and scripts measure what they say."""

import contextlib
import importlib
import io
import sys
from argparse import Namespace
from operator import mul
from pathlib import Path

import pytest

import memory
import race
import scaling
import train
from race import RESULTS, Race, Worker, WorkerFailed, measure_peak

SCRIPTS = RESULTS.parent
RUNS_FILE = (SCRIPTS / "runs.txt").read_text(encoding="utf-8")
RUNS = [line.split() for line in RUNS_FILE.rstrip("\n").split("\n")]
SHARED = {"contenders", "race"}


def help_of(script: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `--help` prints."""
    module, printed = importlib.import_module(script), io.StringIO()
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit, match="0"):
        module.main()
    return printed.getvalue()


@pytest.mark.parametrize("script", sorted({p.stem for p in SCRIPTS.glob("*.py")} - SHARED))
def test_a_script_starts_and_knows_the_options_of_its_runs(script, monkeypatch):
    known = set(help_of(script, monkeypatch).replace(",", " ").replace("]", " ").split())
    for _, path, *options in RUNS:
        if path == f"{script}.py":
            used = {option for option in options if option.startswith("--")} | {"--json"}
            assert used <= known


def test_every_run_has_a_script_and_a_file_of_results_of_its_own():
    assert all((SCRIPTS / path).exists() for _, path, *_ in RUNS)
    names = [name for name, *_ in RUNS]
    assert len(names) == len(set(names))


def test_a_peak_is_that_of_the_call_alone():
    small, large = (measure_peak(mul, b"x", size) for size in (1, 50_000_000))
    assert 45 < large.mb - small.mb < 150  # the answer is copied once
    assert len(large.result) == 50_000_000


def answering(code: str) -> Worker:
    return Worker([sys.executable, "-c", code], {})


def test_a_worker_answers_line_by_line_and_says_why_it_died():
    code = "import sys\nfor line in sys.stdin: print(len(line), flush=True)"
    with answering(code) as worker:
        assert [worker.ask("ab"), worker.ask("")] == [3, 1]
    dying = answering("raise SystemExit('no weights')")
    with dying as worker, pytest.raises(WorkerFailed, match="no weights"):
        worker.ask()


def test_two_are_as_efficient_as_their_speed_over_twice_the_speed_of_one():
    seconds = {scaling.ONE: [1.0, 1.0, 1.0], scaling.TWO: [0.5, 0.8, 1.0]}
    threads, processes = (Race("t", seconds, {"gain": gain}) for gain in (1, 2))
    assert scaling.efficiency(threads)[1:] == ["1.25", "0.62", "0.50 to 1.00"]
    assert scaling.efficiency(processes)[1:] == ["2.50", "1.25", "1.00 to 2.00"]


def test_a_large_corpus_must_not_take_more_memory_than_promised(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "measure_peak", lambda _, corpus, *__: peak_of(corpus))
    monkeypatch.setattr(memory, "write_corpus", lambda corpus, pairs: None)
    options = Namespace(large=50_000, presets=["tiny"], vocabulary=300)
    table, extra = memory.measure_corpora(options)
    assert extra == 30.0
    assert [row[:2] for row in table.rows] == [["20,000 pairs", 20.0], ["50,000 pairs", 50.0]]


def peak_of(corpus: Path) -> race.Peak:
    return race.Peak(1.0, int(corpus.name) / 1000, 0.0, None)


@pytest.mark.parametrize("variant", ["past_future", "rnmt"])
def test_variants_race_against_the_first(variant):
    from contenders import small_workload

    flags = {"past_future": False, "rnmt": False, "bf16": False} | {variant: True}
    options = Namespace(preset="tiny", dropout=0.1, vocabulary=300, **flags)
    trainers = train.make_trainers(options, small_workload(300, pairs=200))
    first, *others = trainers.values()
    assert first.model.past_future is None
    assert any(other.model.past_future is not None for other in others)
