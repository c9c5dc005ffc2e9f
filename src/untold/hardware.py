"""Threads by the processors that this process may use, a warning of short memory, bf16 in hardware.

OpenMP reads its settings once, when torch is imported. So `choose_threads` runs before that, and
this module imports nothing heavy. OpenMP's threads wait for each other many times in every layer,
and they spin while they wait. Where other programs want the same processors, a spinning thread
holds the one that the thread it waits for needs. So idle threads sleep soon: a quiet machine is as
fast with it, and a busy one trains several times faster (docs/performance.md has the figures).

Where bf16 is not computed in hardware, it is imitated, a hundred times slower.
"""

import logging
import math
import os
import sys
import time
from collections.abc import Iterator, MutableMapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from untold.errors import UntoldError

if TYPE_CHECKING:
    import torch

ROOT = Path("/")
_SPIN = "1000"  # rounds that an idle thread spins before it sleeps

# A user who sets one of these has chosen, and nothing is changed.
_SETTINGS = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
)

_BF16 = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
_IMITATED = 4.0  # times as long as in 32 bits: far above noise, and far below imitation

_log = logging.getLogger(__name__)


def choose_threads(environ: MutableMapping[str, str] | None = None, root: Path = ROOT) -> None:
    """Sets OpenMP's variables, unless the user did or torch has already read them."""
    if environ is None:
        if "torch" in sys.modules:
            return
        environ = os.environ
    if any(name in environ for name in _SETTINGS):
        return
    environ["OMP_NUM_THREADS"] = str(usable_cores(root))
    environ["GOMP_SPINCOUNT"] = _SPIN


def ask_for_large_pages(environ: MutableMapping[str, str] | None = None) -> None:
    """Lets torch ask Linux for pages of 2 MB, unless the user chose; before torch is imported.

    Weights of a large model lie on tens of thousands of small pages, and a step of one sentence,
    which reads each weight once, spends a good part of its time on looking those up.
    """
    environ = os.environ if environ is None else environ
    environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def usable_cores(root: Path = ROOT) -> int:
    """Counts the cores of this process's affinity, at most the quota of its control groups.

    Two hyper-threads of one core count once.
    """
    topology = root / "sys/devices/system/cpu"
    cores = {
        _read_text(topology / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in _affinity()
    }
    quotas = (_quota(group) for group in _control_groups("cpu", root))
    return max(1, min([len(cores), *(int(quota) for quota in quotas if quota is not None)]))


def physical_memory(root: Path = ROOT) -> int:
    """Returns the bytes that this process may use: those of the machine, or of a control group."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in _control_groups("memory", root):
        texts = (_read_text(group / name) for name in ("memory.max", "memory.limit_in_bytes"))
        sizes += [int(text) for text in texts if text.isdigit()]
    return min(sizes)


def warn_of_memory(what: str, needed: int, cure: str) -> None:
    """Warns before something that cannot fit: a process that takes too much is killed silently."""
    memory = physical_memory()
    if needed > memory:
        sizes = f"{needed / 1e9:,.1f} GB, and there are {memory / 1e9:,.1f} GB"
        _log.warning("warning: %s needs about %s: %s", what, sizes, cure)


def check_precision(precision: str, device: "torch.device") -> None:
    """Refuses bf16 on a device that would imitate it."""
    if precision != "bf16" or _relative_time(device) < _IMITATED:
        return
    where = "GPU" if device.type == "cuda" else "CPU"
    raise UntoldError(
        'train.precision = "bf16" needs a GPU, or a CPU with AVX512_BF16 or AMX, that computes in '
        f'bf16, and this {where} does not: use "fp32", or "auto", which takes the faster one'
    )


def choose_precision(device: "torch.device") -> str:
    """Returns bf16 if the device computes it in hardware and is faster so, else fp32."""
    return "bf16" if _relative_time(device) < 1.0 else "fp32"


def _relative_time(device: "torch.device") -> float:
    """Measures how long a product takes in bf16, as a multiple of the same one in 32 bits."""
    import torch

    if device.type == "cuda":
        return 0.0 if torch.cuda.is_bf16_supported(including_emulation=False) else math.inf
    if not any(getattr(torch.cpu, name, bool)() for name in _BF16):
        return math.inf
    return _product_seconds(torch.bfloat16) / _product_seconds(torch.float32)


def _product_seconds(dtype: "torch.dtype") -> float:
    """Times the product of a small layer: the best of a few, after one that sets it up."""
    import torch

    states, weight = torch.ones(512, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
    times = []
    for _ in range(4):
        states @ weight
        times.append(time.perf_counter())
    return min(later - earlier for earlier, later in pairwise(times))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _quota(group: Path) -> float | None:
    """Reads cpu.max (version 2) or cpu.cfs_quota_us (version 1), in cores; None: no limit."""
    fields = _read_text(group / "cpu.max").split()
    if not fields:
        fields = [_read_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota, period = (int(field) for field in fields)
    except ValueError:  # "max", -1 below, or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yields the directories of the groups that limit `controller`, such as cpu, inside out.

    Versions 1 and 2 may be mounted side by side. In a container the path of a group may not exist,
    but its root does.
    """
    for line in _read_text(root / "proc/self/cgroup").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":  # version 2
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield root.joinpath(mount, *parts[:depth])


def _read_text(path: Path) -> str:
    """Reads a small file of the system; the text is empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
