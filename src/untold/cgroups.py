"""Finds the control groups of this process, by which Linux limits processors, memory and tasks."""

from collections.abc import Iterator
from pathlib import Path

__all__ = ["ROOT", "cgroups", "read_text"]

ROOT = Path("/")


def cgroups(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Yields the directories of the groups that limit `controller`, such as cpu, inside out.

    Versions 1 and 2 of control groups may be mounted side by side.
    """
    for line in read_text(root / "proc/self/cgroup").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":  # version 2
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        for mount in mounts:
            yield from _upwards(root / mount, path)


def read_text(path: Path) -> str:
    """Reads a small file of the system; the text is empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yields a group and those around it; in a container the path may not exist, its root does."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])
