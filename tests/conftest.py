"""What all tests share: checks of shapes, what is slow, and a budget of time.

With UNTOLD_TYPECHECK=1 every test runs with the shapes and types of untold's signatures checked.
jaxtyping binds the arguments of each call to know the shapes of its arrays. That costs more than a
small function itself, and those of untold.corpus are called by the hundred thousand: its modules
that know no shapes are checked by beartype alone.

With UNTOLD_BUDGET=1 a test fails that is not marked slow and takes more than 8 seconds of CPU time.
UNTOLD_TIMES=FILE writes the CPU time of every test, the dearest first.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_package
from jaxtyping import install_import_hook

from slow_tests import is_slow

BUDGET = 8.0
_times: list[tuple[float, str]] = []

hypothesis.settings.register_profile("quick", max_examples=10, derandomize=True, deadline=None)
hypothesis.settings.register_profile("full", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _modules_with_shapes() -> list[str]:
    """Names the parts of untold, and of its corpus those that use jaxtyping; imports none."""
    package = Path(find_spec("untold").origin).parent
    parts = [path for path in package.iterdir() if path.stem not in ("__init__", "corpus")]
    corpus = [
        path
        for path in package.joinpath("corpus").rglob("*.py")
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    ]
    return [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in [*parts, *corpus]
    ]


if os.environ.get("UNTOLD_TYPECHECK") == "1":
    beartype_package("untold.corpus", conf=BeartypeConf(claw_is_pep526=False))
    install_import_hook(_modules_with_shapes(), "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)


def _cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGUN] = _cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Iterator[pytest.TestReport]:
    report = yield
    seconds = _cpu_seconds() - item.stash[_BEGUN]
    item.stash[_BEGUN] = _cpu_seconds()
    report.user_properties.append(("cpu", seconds))
    strict = os.environ.get("UNTOLD_BUDGET") == "1"
    if strict and call.when == "call" and seconds > BUDGET and not item.get_closest_marker("slow"):
        report.outcome = "failed"
        report.longrepr = f"{seconds:.1f} s of CPU time, {BUDGET} at most: cut it, or mark it slow"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _times.append((dict(report.user_properties)["cpu"], f"{report.nodeid} ({report.when})"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "UNTOLD_TIMES" in os.environ and not hasattr(session.config, "workerinput"):
        lines = [f"{seconds:8.2f} {test}\n" for seconds, test in sorted(_times, reverse=True)]
        Path(os.environ["UNTOLD_TIMES"]).write_text("".join(lines), encoding="utf-8")


_BEGUN = pytest.StashKey[float]()
