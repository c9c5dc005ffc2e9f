"""What a person sees, and what metrics.jsonl keeps."""

import io
import json
import math
import sys

from rich.console import Console

from toys import records
from untold.training.log import NullReporter, Reporter


def plain():
    return Console(file=io.StringIO(), width=200)


def terminal():
    return Console(file=io.StringIO(), width=200, force_terminal=True)


def text(console):
    return console.file.getvalue()


def test_elsewhere_than_on_a_terminal_lines_are_plain(tmp_path):
    console = plain()
    with Reporter(tmp_path, 100, console) as reporter:
        reporter.begin(0)
        reporter.say("a [bold]line[/] as it is")
        for step in range(1, 11):
            reporter.step(step)
        reporter.metrics("train", 10, {"loss": 1.23456, "epoch": 2, "bleu": None})
        reporter.metrics("valid", 10, {"loss": 1.5})
    assert text(console) == (
        "a [bold]line[/] as it is\n"
        "train step 10/100  loss 1.235  epoch 2  bleu -\n"
        "valid step 10  loss 1.5\n"
    )


def test_a_terminal_shows_progress(tmp_path):
    console = terminal()
    with Reporter(tmp_path, 100, console) as reporter:
        reporter.begin(40)
        reporter.step(55)
        reporter.metrics("train", 60, {"loss": 1.25})
        reporter.metrics("valid", 60, {"bleu": 30.5})
    shown = text(console)
    assert "\x1b[" in shown, "it moves the cursor"
    assert "60/100" in shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "loss 1.25" in shown
    assert "train step" not in shown, "training moves the bar instead of adding lines"
    assert "valid step 60  bleu 30.5" in shown


def test_every_line_of_metrics_is_json(tmp_path):
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(0)
        reporter.metrics("train", 1, {"loss": 2.5, "norm": math.nan, "rate": math.inf})
        reporter.metrics("valid", 1, {"loss": -math.inf, "bleu": None, "best_step": 0})
    train, valid = records(tmp_path)
    assert train.pop("time") > 1.6e9
    assert train == {"kind": "train", "step": 1, "loss": 2.5, "norm": None, "rate": None}
    assert (valid["loss"], valid["bleu"], valid["best_step"]) == (None, None, 0)


def test_metrics_are_on_disk_at_once(tmp_path):
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(0)
        reporter.metrics("train", 1, {"loss": 2.5})
        assert len(records(tmp_path)) == 1


def test_a_resumed_run_drops_what_it_is_about_to_repeat(tmp_path):
    lines = [{"kind": "train", "step": step} for step in (10, 20, 30)]
    cut_short = '{"kind": "train", "st'
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut_short)
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(20)
        reporter.metrics("train", 30, {"loss": 1.0})
    assert [(r["step"], r.get("loss")) for r in records(tmp_path)] == [
        (10, None),
        (20, None),
        (30, 1.0),
    ]


def test_a_new_run_keeps_nothing_of_one_before(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 5}\n')
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(0)
    assert records(tmp_path) == []


def test_tensorboard_gets_the_figures_where_it_is_installed(tmp_path, monkeypatch):
    added = []

    class Board:
        def __init__(self, directory, purge_step):
            added.append((directory, purge_step))

        def add_scalar(self, name, value, step):
            added.append((name, value, step))

        def close(self):
            added.append("closed")

    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Board
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(20)
        reporter.metrics("train", 30, {"loss": 1.0, "bleu": None, "norm": math.nan})
    assert added == [(str(tmp_path / "tensorboard"), 21), ("train/loss", 1.0, 30), "closed"]


def test_without_tensorboard_all_else_works(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # importing it now fails
    with Reporter(tmp_path, 100, plain()) as reporter:
        reporter.begin(0)
        reporter.metrics("train", 1, {"loss": 1.0})
    assert [r["loss"] for r in records(tmp_path)] == [1.0]
    assert not (tmp_path / "tensorboard").exists()


def test_the_silent_one_neither_speaks_nor_writes(tmp_path):
    console = plain()
    with NullReporter(tmp_path, 100, console) as reporter:
        reporter.begin(0)
        reporter.say("hush")
        reporter.step(1)
        reporter.metrics("train", 1, {"loss": 1.0})
    assert text(console) == ""
    assert list(tmp_path.iterdir()) == []
