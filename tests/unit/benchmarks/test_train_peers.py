"""Toolkits work in processes of their own, on given batches, or say why they cannot."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

import peer_environments
import train_peers
from toys import toy_batch
from train_peers import ToolkitMissing, Worker, run, write_batches

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
    with Worker("untold", file, "default") as worker:
        assert worker.version.startswith("untold ") and worker.parameters > 500_000
        race = run("title", {"untold": worker}, batches, rounds=2)
    assert len(race.seconds["untold"]) == 2 and min(race.seconds["untold"]) > 0
    assert race.work == {"target tokens": sum(batch.target_tokens for batch in batches)}


def test_a_toolkit_that_cannot_be_imported_says_so(file, monkeypatch):
    monkeypatch.setattr(train_peers, "environment_python", lambda _: sys.executable)
    with pytest.raises(ToolkitMissing, match=r"No module named 'update_nothing'"):
        Worker("nothing", file, "default").__enter__()


def test_a_toolkit_without_an_environment_says_how_to_build_it(file, monkeypatch, tmp_path):
    monkeypatch.setattr(peer_environments, "FOLDER", tmp_path)
    with pytest.raises(ToolkitMissing, match=r"peer_environments\.py"):
        Worker("joeynmt", file, "default").__enter__()


def test_every_toolkit_has_an_update_and_an_environment():
    toolkits = {path.stem.removeprefix("update_") for path in PEERS.glob("update_*.py")}
    assert toolkits == {train_peers.OURS, *peer_environments.ENVIRONMENTS}
    assert set(peer_environments.ENVIRONMENTS.values()) == set(peer_environments.STEPS)


def test_only_raised_thresholds_reach_the_toolkits(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    default, raised = (train_peers._environment(each, ours=False) for each in ("default", "raised"))
    assert not [name for name in default if name.startswith("MALLOC_")]
    assert train_peers.RAISED.items() <= raised.items()
    assert "PYTHONPATH" not in default
