"""The choice of threads, what it reads of the system, and the warning of short memory."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import untold.hardware as hardware
from toys import toy_config, toy_tokenizers, write_corpus
from untold.hardware import ask_for_large_pages, choose_threads, physical_memory, usable_cores
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel, load_model, save_model

SPIN = {"GOMP_SPINCOUNT": "1000"}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def cores(monkeypatch):
    """cores(...) -> from now on the process may use these."""
    return lambda *cpus: monkeypatch.setattr(hardware, "_affinity", lambda: set(cpus))


def test_hyper_threads_of_one_core_count_once(tmp_path, cores):
    for cpu in range(8):
        siblings = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        write(siblings, f"{cpu % 4},{cpu % 4 + 4}\n")
    for cpus, expected in ((range(8), 4), ((0, 4), 1), ((0, 1, 4), 2)):
        cores(*cpus)
        assert usable_cores(tmp_path) == expected
    assert usable_cores(tmp_path / "nowhere") == 3, "cores without a topology are processors"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 100000", "a/cpu.max": "200000 100000"}, 1),
        ("0::/../elsewhere\n", {"cpu.max": "300000 100000"}, 3),
        (
            "4:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "1"}, 8),
        ("1:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "5", "cpu/x/cpu.cfs_period_us": "2"}, 2),
        ("3:cpuset:/\n", {"cpuset/cpu.max": "1 1"}, 8),
        ("0::/\n", {"cpu.max": "nonsense"}, 8),
        ("0::/\n", {"cpu.max": "1600000 100000"}, 8),
        ("", {"cpu.max": "100000 100000"}, 8),
    ],
)
def test_cores_are_those_of_the_affinity_within_the_least_quota(
    tmp_path, cores, cgroup, files, expected
):
    cores(*range(8))
    write(tmp_path / "proc/self/cgroup", cgroup)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    assert usable_cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "5000\n"}, 5000),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "7000"}, 7000),
        ("3:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9000"}, 9000),
        ("3:cpu:/x\n", {"memory/x/memory.limit_in_bytes": "9000"}, None),
        ("0::/\n", {"memory.max": "nonsense"}, None),
        ("", {}, None),
    ],
)
def test_the_memory_is_that_of_the_machine_or_of_the_cgroup(tmp_path, cgroup, files, expected):
    write(tmp_path / "proc/self/cgroup", cgroup)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    whole = physical_memory(tmp_path / "nowhere")
    assert whole > 10**8
    assert physical_memory(tmp_path) == (expected or whole)


def test_threads_are_chosen_unless_the_user_did(tmp_path, cores):
    cores(0, 1, 2)
    environ = {"HOME": "/"}
    choose_threads(environ, tmp_path)
    assert environ == {"HOME": "/", "OMP_NUM_THREADS": "3"} | SPIN
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "MKL_NUM_THREADS"):
        environ = {name: "2"}
        choose_threads(environ, tmp_path)
        assert environ == {name: "2"}


def test_large_pages_are_asked_for_unless_the_user_chose():
    for given, expected in (({}, "1"), ({"THP_MEM_ALLOC_ENABLE": "0"}, "0")):
        environ = dict(given)
        ask_for_large_pages(environ)
        assert environ == {"THP_MEM_ALLOC_ENABLE": expected}


def test_once_torch_is_imported_nothing_is_set(monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    choose_threads()
    assert dict(os.environ) == before


def test_the_choice_reaches_torch_through_the_command_line():
    code = (
        "import os, sys; from contextlib import suppress; from unittest.mock import patch\n"
        "import untold.cli as cli, untold.hardware as hardware\n"
        "assert 'torch' not in sys.modules\n"
        "hardware.usable_cores = lambda root: 1\n"
        "with suppress(SystemExit), patch.object(cli, 'app'): cli.main()\n"
        "import torch; print(torch.get_num_threads(), os.environ.get('GOMP_SPINCOUNT'))"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MKL_", "GOMP_"))}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert run.stdout.strip() == "1 1000", run.stderr


def test_a_model_that_cannot_fit_is_announced_and_loaded_all_the_same(
    tmp_path, monkeypatch, caplog
):
    config = toy_config(write_corpus(tmp_path))
    tokenizers = toy_tokenizers(tmp_path, config)
    save_model(
        tmp_path / "model",
        TrainedModel(build_model_for(tokenizers, config.model), config, tokenizers),
    )
    load_model(tmp_path / "model")
    assert not caplog.records
    monkeypatch.setattr(hardware, "physical_memory", lambda: 1000)
    with caplog.at_level(logging.WARNING):
        load_model(tmp_path / "model")
    assert len(caplog.records) == 1
    assert f"loading {tmp_path / 'model'} needs about 0.0 GB" in caplog.text
