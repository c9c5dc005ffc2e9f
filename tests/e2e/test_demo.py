"""The demo from end to end, only much shorter than `make demo`."""

import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import untold
from untold.lab.demo import run_demo

PNG = b"\x89PNG"


def test_the_demo_trains_both_models_and_shows_what_is_told(tmp_path: Path) -> None:
    printed = Console(file=StringIO(), width=200)
    settings = ["train.steps=3", "train.validate_every=3", "decode.max_length=20"]
    result = run_demo(tmp_path, settings, pairs=200, console=printed)
    text = printed.file.getvalue()  # type: ignore[attr-defined]
    for scores in (result.plain, result.past_future):
        assert [score.name for score in scores] == ["BLEU", "chrF2", "TER"]
    assert result.separation.rule.accuracy > 0.8
    for expected in ("source", "reference", "accuracy off rule", "FUTURE", "Try next"):
        assert expected in text
    assert "The second model had 3 more updates than the first" in text
    assert (tmp_path / "untold.png").read_bytes().startswith(PNG)
    assert "<html" in (tmp_path / "untold.html").read_text()
    translator = untold.load(tmp_path / "model")
    assert translator.translate("He sleeps .", assignments=True).assignments is not None
    assert not untold.load(tmp_path / "plain").separates


ENDLESS = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from untold.lab.demo import run_demo
never = ["train.steps=100000", "train.validate_every=100000", "train.log_every=1"]
run_demo(Path(sys.argv[1]), never, pairs=100)
"""


def stop_demo(out: Path, number: signal.Signals) -> tuple[int, str]:
    """Starts a demo that trains forever and sends it a signal after its first updates."""
    metrics = out / "plain" / "metrics.jsonl"
    before = metrics.read_text().count("\n") if metrics.exists() else 0
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(out)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 240
        while not metrics.exists() or metrics.read_text().count("\n") <= before:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        output, _ = process.communicate(timeout=240)
        return process.returncode, output
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_signal_stops_the_whole_demo_and_the_same_command_goes_on(tmp_path: Path) -> None:
    code, output = stop_demo(tmp_path, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, output
    assert f"run `untold demo --out {tmp_path}` to go on from there." in output
    assert "3. Past and future" not in output and not (tmp_path / "model").exists()
    (checkpoint,) = (tmp_path / "plain" / "checkpoints").glob("step-*")
    code, output = stop_demo(tmp_path, signal.SIGINT)
    assert code == 128 + signal.SIGINT, output
    assert f"at step {int(checkpoint.name.removeprefix('step-'))}" in output, "it had gone on"
