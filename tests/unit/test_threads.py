"""The choice of threads and spinning: the rule, what it reads, and what it sets when."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from toys import toy_config, write_corpus
from untold.errors import UntoldError
from untold.hardware import (
    SMALL_MODEL,
    Surroundings,
    ThreadKeeper,
    ThreadPlan,
    ask_for_large_pages,
    check_threads,
    choose_at_startup,
    count_cores,
    count_others,
    is_ours_to_choose,
    plan,
    read_quota,
    read_surroundings,
)
from untold.training.checkpoint import Checkpoint, Checkpoints
from untold.training.run import RunOptions, train

BUSY_SPIN = 1000
LARGE = 10 * SMALL_MODEL


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(root: Path, running: int, own: int = 1) -> Path:
    """A /proc in which so many threads run, and so many of them are ours."""
    write(root / "proc/loadavg", f"0.58 0.79 0.56 {running}/89 10054\n")
    for number in range(own + 2):
        state = "R" if number < own else "S"
        write(root / f"proc/self/task/{number}/stat", f"{number} (py) R 3 (x) {state} 1 2 3\n")
    return root


@pytest.mark.parametrize(
    ("around", "parameters", "expected"),
    [
        (Surroundings(2), None, ThreadPlan(2)),
        (Surroundings(2), LARGE, ThreadPlan(2)),
        (Surroundings(2), SMALL_MODEL, ThreadPlan(2)),
        (Surroundings(2), SMALL_MODEL - 1, ThreadPlan(1)),
        (Surroundings(2, others=1), None, ThreadPlan(1, BUSY_SPIN)),
        (Surroundings(2, others=2), LARGE, ThreadPlan(1, BUSY_SPIN)),
        (Surroundings(2, others=10), LARGE, ThreadPlan(1, BUSY_SPIN)),
        (Surroundings(64, others=3), LARGE, ThreadPlan(61, BUSY_SPIN)),
        (Surroundings(64, quota=2.0), None, ThreadPlan(2)),
        (Surroundings(64, quota=2.9, others=40), None, ThreadPlan(2, BUSY_SPIN)),
        (Surroundings(64, quota=8.0, others=60), None, ThreadPlan(4, BUSY_SPIN)),
        (Surroundings(2, quota=0.5), None, ThreadPlan(1)),
        (Surroundings(2, quota=16.0), None, ThreadPlan(2)),
        (Surroundings(1), None, ThreadPlan(1)),
    ],
)
def test_the_plan_takes_the_cores_that_others_leave(around, parameters, expected):
    assert plan(around, parameters) == expected


@pytest.mark.parametrize(
    ("running", "own", "others"), [(1, 1, 0), (3, 1, 2), (3, 2, 1), (11, 1, 10), (0, 1, 0)]
)
def test_own_threads_are_no_others(tmp_path, running, own, others):
    assert count_others(machine(tmp_path, running, own), samples=1) == others


@pytest.mark.parametrize("text", [None, "", "0.5 0.5 0.5", "0.5 0.5 0.5 many/89 1"])
def test_a_machine_that_tells_no_load_counts_as_quiet(tmp_path, text):
    if text is not None:
        write(tmp_path / "proc/loadavg", text)
    assert count_others(tmp_path, samples=2) == 0


def test_one_burst_among_the_readings_does_not_count(tmp_path, monkeypatch):
    readings = iter([1, 9, 1, 1, 9])
    monkeypatch.setattr("untold.hardware.time.sleep", lambda _: None)
    monkeypatch.setattr("untold.hardware._running", lambda _: next(readings))
    assert count_others(tmp_path, samples=5) == 0


def test_hyper_threads_of_one_core_count_once(tmp_path):
    for cpu in range(8):
        siblings = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        write(siblings, f"{cpu % 4},{cpu % 4 + 4}\n")
    assert count_cores(set(range(8)), tmp_path) == 4
    assert count_cores({0, 4}, tmp_path) == 1
    assert count_cores({0, 1, 4}, tmp_path) == 2


def test_cores_without_a_topology_are_processors(tmp_path):
    assert count_cores({0, 1, 5}, tmp_path) == 3


@pytest.mark.parametrize(
    ("cgroup", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 100000", "a/cpu.max": "200000 100000"}, 0.5),
        ("0::/../elsewhere\n", {"cpu.max": "300000 100000"}, 3.0),
        (
            "4:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4.0,
        ),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "1"}, None),
        ("1:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "5", "cpu/x/cpu.cfs_period_us": "2"}, 2.5),
        ("3:cpuset:/\n", {"cpuset/cpu.max": "1 1"}, None),
        ("0::/\n", {"cpu.max": "nonsense"}, None),
        ("0::/\n", {}, None),
        ("", {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_is_the_least_of_the_cgroups_around(tmp_path, cgroup, files, quota):
    write(tmp_path / "proc/self/cgroup", cgroup)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    assert read_quota(tmp_path) == quota


@pytest.mark.parametrize(
    ("cgroup", "files", "most"),
    [
        ("0::/a\n", {"a/pids.max": "100", "a/pids.current": "20"}, 40),
        ("0::/a\n", {"a/pids.max": "max", "pids.max": "50", "pids.current": "10"}, 20),
        ("8:pids:/\n", {"pids/pids.max": "30", "pids/pids.current": "40"}, 1),
        ("0::/\n", {}, 500),
    ],
)
def test_no_more_threads_than_the_system_can_start(tmp_path, cgroup, files, most, monkeypatch):
    monkeypatch.setattr("untold.hardware.resource.getrlimit", lambda _: (1000, -1))
    write(tmp_path / "proc/self/cgroup", cgroup)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    check_threads(most, tmp_path)
    with pytest.raises(UntoldError, match=f"threads = {most + 1}: the system .* start {most}: low"):
        check_threads(most + 1, tmp_path)
    monkeypatch.setattr("untold.hardware.resource.getrlimit", lambda _: (-1, -1))
    check_threads(min(most, 20), tmp_path)


def test_a_run_refuses_threads_that_cannot_be_started(tmp_path, monkeypatch):
    monkeypatch.setattr("untold.hardware._startable_threads", lambda _: 3)
    config = toy_config(write_corpus(tmp_path), train={"threads": 4})
    with pytest.raises(UntoldError, match=r"train\.threads = 4"):
        train(config, RunOptions(tmp_path / "run"))


def test_on_a_part_of_the_machine_only_our_share_of_the_others_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("untold.hardware.os.cpu_count", lambda: 64)
    monkeypatch.setattr("untold.hardware._affinity", lambda: {0, 1})
    assert read_surroundings(machine(tmp_path, 41)) == Surroundings(2, None, 1)


@pytest.fixture
def two_cores(tmp_path, monkeypatch):
    """two_cores(running) -> the root of a machine of two cores."""
    monkeypatch.setattr("untold.hardware.os.cpu_count", lambda: 2)
    monkeypatch.setattr("untold.hardware._affinity", lambda: {0, 1})
    return lambda running: machine(tmp_path, running)


def test_a_quiet_machine_keeps_the_defaults_of_the_library(two_cores):
    environ = {"HOME": "/"}
    assert choose_at_startup(environ, two_cores(1)) == ThreadPlan(2)
    assert not {"OMP_NUM_THREADS", "GOMP_SPINCOUNT"} & environ.keys()
    assert is_ours_to_choose(environ)


def test_large_pages_are_asked_for_unless_the_user_chose():
    for given, expected in (({}, "1"), ({"THP_MEM_ALLOC_ENABLE": "0"}, "0")):
        environ = dict(given)
        ask_for_large_pages(environ)
        assert environ == {"THP_MEM_ALLOC_ENABLE": expected}


def test_a_busy_machine_gets_one_thread_that_hardly_spins(two_cores):
    environ = {}
    choose_at_startup(environ, two_cores(3))
    assert (environ["OMP_NUM_THREADS"], environ["GOMP_SPINCOUNT"]) == ("1", str(BUSY_SPIN))
    assert is_ours_to_choose(environ)


@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "MKL_NUM_THREADS"],
)
def test_what_the_user_set_stays(two_cores, name):
    environ = {name: "2"}
    assert choose_at_startup(environ, two_cores(11)) is None
    assert environ == {name: "2"}
    assert not is_ours_to_choose(environ)


def test_a_child_chooses_anew_and_does_not_take_our_choice_for_the_users(two_cores):
    environ = {}
    choose_at_startup(environ, two_cores(11))
    assert choose_at_startup(environ, two_cores(1)) == ThreadPlan(2)
    assert not {"OMP_NUM_THREADS", "GOMP_SPINCOUNT"} & environ.keys()


def test_once_torch_is_imported_nothing_is_set(monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    assert choose_at_startup() is None
    assert dict(os.environ) == before
    assert not is_ours_to_choose()


def test_the_choice_reaches_torch_through_the_command_line():
    code = (
        "import os, sys; from contextlib import suppress; from unittest.mock import patch\n"
        "import untold.cli as cli, untold.hardware as t\n"
        "assert 'torch' not in sys.modules\n"
        "t.read_surroundings = lambda root: t.Surroundings(2, None, 10)\n"
        "with suppress(SystemExit), patch.object(cli, 'app'): cli.main()\n"
        "import torch; print(torch.get_num_threads(), os.environ.get('GOMP_SPINCOUNT'))"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MKL_", "GOMP_"))}
    default = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.get_num_threads(), None)"],
        env=environ,
        capture_output=True,
        text=True,
    )
    users = {"OMP_WAIT_POLICY": "passive"}
    for extra, expected in ({}, f"1 {BUSY_SPIN}"), (users, default.stdout.strip()):
        run = subprocess.run(
            [sys.executable, "-c", code], env=environ | extra, capture_output=True, text=True
        )
        assert run.stdout.strip() == expected, run.stderr


class Watched:
    """A keeper with a clock and a machine that the test sets."""

    def __init__(self, parameters: int = LARGE) -> None:
        self.now, self.others, self.looks = 0.0, 0, 0
        self.said: list[str] = []
        self.facts: dict[str, object] = {"threads": 2}
        self.keeper = ThreadKeeper(
            parameters, self.said.append, self.facts, self.look, lambda: self.now
        )

    def look(self) -> Surroundings:
        self.looks += 1
        return Surroundings(2, None, self.others)

    def after(self, seconds: float, step: int) -> int:
        self.now += seconds
        self.keeper.recheck(step)
        return torch.get_num_threads()


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_keeper_lowers_and_restores_the_threads_and_says_so():
    run = Watched()
    run.others = 2
    assert run.after(11, 100) == 2  # one look may be a burst
    assert run.after(11, 200) == 1
    run.others = 0
    assert run.after(11, 300) == 1
    assert run.after(11, 400) == 2
    assert run.said == [
        "threads 2 -> 1: others use the processors",
        "threads 1 -> 2: processors are free again",
    ]
    assert run.facts == {"threads": "2, 1 after step 200, 2 after step 400"}


def test_the_keeper_looks_seldom_and_ignores_a_load_that_comes_and_goes():
    run = Watched()
    for step in range(1000):
        run.after(0.001, step)
    assert run.looks == 0
    for step in range(6):
        run.others = 2 * (step % 2)
        assert run.after(11, step) == 2
    assert (run.looks, run.said, run.facts) == (6, [], {"threads": 2})


def test_the_keeper_starts_with_what_the_machine_and_the_model_allow():
    small, busy, quiet = Watched(SMALL_MODEL - 1), Watched(), Watched()
    small.keeper.start()
    assert torch.get_num_threads() == 1
    assert (small.said, small.facts) == (["threads 2 -> 1: the model is small"], {"threads": 1})
    torch.set_num_threads(2)
    busy.others = 1
    busy.keeper.start()
    assert (torch.get_num_threads(), busy.facts) == (1, {"threads": 1})
    torch.set_num_threads(2)
    quiet.keeper.start()
    assert (torch.get_num_threads(), quiet.said, quiet.facts) == (2, [], {"threads": 2})


@pytest.fixture
def started_by_us(monkeypatch):
    """The process looks as if `choose_at_startup` had chosen for it."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UNTOLD_CHOSE", "")


def toy_run(folder: Path, **train_settings) -> Checkpoint:
    root = write_corpus(folder / "corpus")
    settings = {"steps": 4, "save_every": 4, "validate_every": 4} | train_settings
    train(toy_config(root, train=settings), RunOptions(folder / "run"))
    checkpoint = Checkpoints(folder / "run", 2).latest(print)
    assert checkpoint is not None
    return checkpoint


def test_training_watches_the_machine_after_every_update(tmp_path, monkeypatch, started_by_us):
    steps: list[int] = []
    monkeypatch.setattr(ThreadKeeper, "recheck", lambda _, step: steps.append(step))
    checkpoint = toy_run(tmp_path, threads=None)
    assert steps == [1, 2, 3, 4]
    assert checkpoint.facts["environment"]["threads"] == 1  # the toy is a small model


def test_a_run_with_threads_of_its_own_is_left_alone(tmp_path, monkeypatch, started_by_us):
    monkeypatch.setattr(ThreadKeeper, "recheck", lambda *_: pytest.fail("nothing to check"))
    checkpoint = toy_run(tmp_path, threads=2)
    assert checkpoint.facts["environment"]["threads"] == torch.get_num_threads() == 2


def test_a_run_from_python_is_left_alone(tmp_path):
    assert toy_run(tmp_path, threads=None).facts["environment"]["threads"] == 2
