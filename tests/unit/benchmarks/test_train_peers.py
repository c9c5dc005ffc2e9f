"""Toolkits work in processes of their own, on given batches, or say why they cannot."""

import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

import pytest

import train_peers
from race import WorkerFailed
from toys import toy_batch
from train_peers import run, start, worker_environment, write_batches

PEERS = Path(train_peers.__file__).parent / "peers"


@pytest.fixture(scope="module")
def batches():
    return [toy_batch([(5, 3), (2, 7)]), toy_batch([(3, 2)])]


@pytest.fixture(scope="module")
def file(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("peers") / "batches.npz"
    write_batches(path, Namespace(preset="tiny", dropout=0.1, vocabulary=500), batches)
    return path


def test_our_own_updates_are_made_in_turns(file, batches):
    with ExitStack() as stack:
        version, worker = start("untold", file, "default", stack)
        assert version.startswith("untold ")
        race = run("title", {"untold": worker}, batches, rounds=2)
    assert len(race.seconds["untold"]) == 2 and min(race.seconds["untold"]) > 0
    assert race.work == {"target tokens": sum(batch.target_tokens for batch in batches)}


def test_a_toolkit_that_cannot_be_imported_says_so(file, monkeypatch):
    monkeypatch.setattr(train_peers, "environment_python", lambda _: sys.executable)
    with ExitStack() as stack, pytest.raises(WorkerFailed, match="No module named 'joeynmt'"):
        start("joeynmt", file, "default", stack)


def test_a_toolkit_without_an_environment_says_how_to_build_it(file, monkeypatch, tmp_path):
    monkeypatch.setattr(train_peers, "FOLDER", tmp_path)
    with ExitStack() as stack, pytest.raises(WorkerFailed, match=r"train_peers\.py --build"):
        start("joeynmt", file, "default", stack)


def test_every_toolkit_has_an_update_and_an_environment(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    from toolkits import TOOLKITS

    assert set(TOOLKITS) == {train_peers.OURS, *train_peers.ENVIRONMENTS}
    assert set(train_peers.ENVIRONMENTS.values()) == set(train_peers.STEPS)


def test_only_raised_thresholds_reach_the_toolkits(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    default, raised = (worker_environment(malloc, ours=False) for malloc in ("default", "raised"))
    assert not [name for name in default if name.startswith("MALLOC_")]
    assert train_peers.RAISED.items() <= raised.items()
    assert "PYTHONPATH" not in default
