"""Says what a measurement depends on: the machine, the versions, the load and the date."""

import importlib.metadata
import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

__all__ = ["count_others", "describe_conditions"]

PACKAGES = ("torch", "numpy", "ctranslate2", "transformers", "torchao", "untold")
CPU = Path("sys/devices/system/cpu/cpu0")
REPOSITORY = Path(__file__).parents[1]


def describe_conditions(root: Path = Path("/")) -> dict[str, Any]:
    """Collects everything that another machine, another day or another version may change."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": _processor(root),
            "cores": os.cpu_count(),
            "usable_cores": sorted(os.sched_getaffinity(0)),
            "caches": _caches(root / CPU / "cache"),
            "governor": _read(root / CPU / "cpufreq/scaling_governor") or "not readable",
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "system": platform.system(),
        },
        "versions": {"python": platform.python_version(), **_versions(), "commit": _commit()},
        "threads": torch.get_num_threads(),
        "malloc": {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")},
        "large_pages": os.environ.get("THP_MEM_ALLOC_ENABLE", "0"),
        "load": {"average": list(os.getloadavg()), "other_processes": count_others()},
    }


def count_others(root: Path = Path("/")) -> int:
    """Counts what runs or waits for a processor beside this process: the median of five readings.

    The load average would be a minute late.
    """
    readings = []
    for number in range(5):
        if number:
            time.sleep(0.005)
        fields = _read(root / "proc/loadavg").split()  # such as 0.58 0.79 0.56 3/89 10054
        running = fields[3].partition("/")[0] if len(fields) > 3 else "1"
        tasks = (_read(stat) for stat in (root / "proc/self/task").glob("*/stat"))
        ours = sum(task.rpartition(")")[2].split()[:1] == ["R"] for task in tasks)
        readings.append(max(int(running) - max(ours, 1), 0))  # this very thread runs
    return int(statistics.median(readings))


def _processor(root: Path) -> str:
    for line in _read(root / "proc/cpuinfo").split("\n"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _caches(directory: Path) -> dict[str, str]:
    """Reads such as {"L1 data": "32K", "L2 unified": "1024K"}."""
    found = {}
    for index in sorted(directory.glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level and size:
            found[f"L{level} {kind.lower()}"] = size
    return found


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # such as CTranslate2, which only the benchmarks need
    return found


def _commit() -> str:
    """Names the commit; a plus means that the sources had changed since."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return "not a checkout"
    return f"{commit}+" if _git("status", "--porcelain", "src") else commit


def _git(*arguments: str) -> str:
    try:
        run = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    except OSError:  # git is not installed
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
