"""Training as users run it: processes that are stopped, killed, changed, and run two at a time."""

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from jobs import (
    finish,
    newest,
    records_so_far,
    run,
    running,
    torchrun,
    wait_for,
    workers,
    write_toml,
)
from ranks import run_ranks, standard_error
from toys import (
    checkpoint_contents,
    lasting_records,
    records,
    toy_config,
    toy_values,
    write_corpus,
)
from untold.files import verify_directory
from untold.metrics.base import corpus_scores
from untold.training.run import RunOptions, train
from untold.translator import load

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to find the workers"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def config(corpus, tmp_path):
    """config(train={...}) -> the path of a TOML file."""

    def config(**sections):
        return write_toml(tmp_path / "toy.toml", toy_values(corpus, **sections))

    return config


def has_begun(out):
    return lambda: records_so_far(out) > 0


def test_sigterm_saves_and_the_resumed_run_ends_as_if_nothing_had_been(config, corpus, tmp_path):
    sections = {
        "tokenizer": {"dropout": 0.2},
        "train": {"steps": 80, "log_every": 7, "validate_every": 50, "save_every": 1000},
    }
    out, whole = tmp_path / "run", tmp_path / "whole"
    with running("untold", "train", config(**sections), "--out", out) as process:
        wait_for(has_begun(out), process)
        process.send_signal(signal.SIGTERM)
        code, output = finish(process)
    assert code == 143, output
    verify_directory(newest(out))
    stopped = json.loads((newest(out) / "progress.json").read_text())["progress"]
    assert 1 <= stopped["step"] < 80
    assert f"step {stopped['step']}, best" in output
    assert f"interrupted by SIGTERM: the checkpoint {newest(out).name} is saved in {out}" in output

    code, output = run("untold", "train", config(**sections), "--out", out, "--set", "train.seed=9")
    assert code == 2
    assert "train.seed: 1 -> 9" in output and "Traceback" not in output

    code, output = run("untold", "train", config(**sections), "--out", out)
    assert code == 0, output
    assert f"at step {stopped['step']}" in output
    train(toy_config(corpus, **sections), RunOptions(whole))
    assert newest(out).name == newest(whole).name == "step-00000080"
    assert checkpoint_contents(newest(out)) == checkpoint_contents(newest(whole))
    assert lasting_records(out) == lasting_records(whole)


def test_a_second_signal_is_immediate(config, tmp_path):
    """Updates of a thousand batches, so that the first signal's wait would be long."""
    out = tmp_path / "run"
    sections = {"train": {"accumulate": 1000, "batch_tokens": 8, "steps": 9}}
    path = config(data={"train": [{"source": "train.src", "target": "train.tgt"}] * 25}, **sections)
    with running("untold", "train", path, "--out", out) as process:
        wait_for(lambda: (out / "metrics.jsonl").exists(), process)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None, "it is to finish its update first"
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        code, output = finish(process)
    assert code == 128 + signal.SIGTERM
    assert time.monotonic() - began < 2
    assert "stopping after this update; a second Ctrl-C stops at once\n" in output
    last = f"untold: interrupted by SIGTERM: no checkpoint is saved in {out}; run the same"
    assert last in output and "Traceback" not in output
    assert not list((out / "checkpoints").glob("step-*"))


def test_two_processes_make_the_updates_of_one(corpus, tmp_path):
    """Dropout on: each batch draws the same numbers wherever it is computed."""
    sections = {"train": {"log_every": 1}, "model": {"dropout": 0.3}}
    both, alone = tmp_path / "both", tmp_path / "alone"
    settled = toy_config(corpus, **sections)
    assert run_ranks(lambda rank: train(settled, RunOptions(both)), tmp_path) == ["", ""]
    train(settled, RunOptions(alone))
    for kind in ("train", "valid"):
        found, expected = records(both, kind), records(alone, kind)
        assert [r["step"] for r in found] == [r["step"] for r in expected]
        losses = [r["loss"] for r in expected]
        assert [r["loss"] for r in found] == pytest.approx(losses, rel=1e-5)
    assert len(losses) == 3
    assert "training data:" in standard_error(tmp_path, 0)
    assert not standard_error(tmp_path, 1), "one process speaks"
    other = tmp_path / "other"  # the control: another seed's losses are not within that tolerance
    train(
        toy_config(corpus, **sections | {"train": {"log_every": 1, "seed": 2}}), RunOptions(other)
    )
    assert [r["loss"] for r in records(other, "valid")] != pytest.approx(losses, rel=1e-3)


@needs_proc
def test_a_job_of_two_is_stopped_by_signal_and_goes_on(config, tmp_path):
    """SIGTERM to the group reaches workers twice, by itself and by torchrun; once is meant."""
    out = tmp_path / "run"
    settings = {"steps": 100_000, "log_every": 1, "save_every": 10**6, "validate_every": 10**6}
    path = config(
        data={"train": [{"source": "train.src", "target": "train.tgt"}] * 25},
        train=settings | {"batch_tokens": 8, "accumulate": 100},
    )
    with running(*torchrun(2), "train", path, "--out", out) as process:
        wait_for(has_begun(out), process)
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.1)
        for worker in workers(process).values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)
        code, output = finish(process)
    assert code != 0
    verify_directory(newest(out))
    first = json.loads((newest(out) / "progress.json").read_text())["progress"]["step"]

    with running(*torchrun(2), "train", path, "--out", out) as process:
        before = records_so_far(out)
        wait_for(lambda: records_so_far(out) > before, process)
        os.killpg(process.pid, signal.SIGTERM)
        code, output = finish(process)
    assert code != 0
    assert f"at step {first}" in output, "it had gone on from the checkpoint"
    verify_directory(newest(out))


@needs_proc
def test_torchrun_restarts_a_killed_job_to_the_same_end(config, corpus, tmp_path):
    """One restart must do for each death. The main process holds the lock and writes the files."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    sections = {"train": {"steps": 250, "save_every": 10, "log_every": 7, "validate_every": 125}}
    job = (*torchrun(2, "--max-restarts", 2), "train", config(**sections), "--out", out)
    pids = []
    with running(*job) as process:
        for victim in (0, 1):
            before = len(list((out / "checkpoints").glob("step-*")))
            wait_for(lambda n=before: len(list((out / "checkpoints").glob("step-*"))) > n, process)
            pids.append(workers(process)[victim])
            os.kill(pids[-1], signal.SIGKILL)
        code, output = finish(process)
    assert code == 0, output
    assert output.count("(exitcode: -9)") == 2, "both kills have hit a worker"
    assert output.count("going on with") == 2
    assert len(set(pids)) == 2
    assert "untold: another process of this run has died" in output
    # One process makes the same updates: two gradients have but one sum, whoever adds them. Its
    # log adds the losses in another order.
    train(toy_config(corpus, **sections), RunOptions(whole))
    assert newest(out).name == newest(whole).name == "step-00000250"
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (newest(out) / name).read_bytes() == (newest(whole) / name).read_bytes()
    for found, expected in zip(lasting_records(out), lasting_records(whole), strict=True):
        assert found.pop("kind") == expected.pop("kind")
        assert found == pytest.approx(expected, rel=1e-12)


def write_reversals(directory, animals="ant bee cat dog eel fox gnu hen"):
    """Two to six words, and the same words backwards; no held-out source is trained on."""
    dice = random.Random(4)
    directory.mkdir()
    held_out: set[str] = set()
    for name, count in (("valid", 60), ("train", 2500)):
        lines: list[list[str]] = []
        while len(lines) < count:
            line = dice.choices(animals.split(), k=dice.randint(2, 6))
            if name == "valid" or " ".join(line) not in held_out:
                lines.append(line)
        held_out |= {" ".join(line) for line in lines}
        (directory / f"{name}.src").write_text("".join(f"{' '.join(w)}\n" for w in lines))
        (directory / f"{name}.tgt").write_text("".join(f"{' '.join(w[::-1])}\n" for w in lines))
    return directory


def test_it_learns_to_turn_sentences_round(config, tmp_path):
    root, out = write_reversals(tmp_path / "corpus"), tmp_path / "run"
    path = config(
        data={"root": str(root)},
        tokenizer={"kind": "word", "size": 16},
        model={"d_model": 32, "d_ffn": 64, "heads": 4, "dropout": 0.0},
        train={
            **{"steps": 600, "batch_tokens": 512, "accumulate": 1, "learning_rate": 5e-3},
            **{"warmup": 60, "log_every": 100, "validate_every": 600, "save_every": 600},
        },
        decode={"beam": 4, "max_length": 10},
    )
    code, output = run("untold", "train", path, "--out", out)
    assert code == 0, output
    sources, references = (
        (root / f"valid.{side}").read_text().split("\n")[:-1] for side in ("src", "tgt")
    )
    texts = [translation.text for translation in load(out).translate(sources)]
    (bleu,) = corpus_scores(texts, references, ["bleu"], tokenize="none")
    assert bleu.value > 95
    (copying,) = corpus_scores(sources, references, ["bleu"], tokenize="none")
    assert copying.value < 60, "the control: the task is not solved by copying"
    first, *_, last = [record["nll"] for record in records(out, "train")]
    assert last < first / 3
