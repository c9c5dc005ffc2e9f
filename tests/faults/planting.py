"""Faults, the places where they belong, and copies of the package that have one of them."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_config_var

__all__ = ["ROOT", "Fault", "find", "plant", "read_faults"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "untold"


@dataclass(frozen=True)
class Fault:
    """A mistake as text: what stands in the source, and what takes its place."""

    id: str
    area: str
    harm: str  # what goes wrong for a user
    before: str
    after: str


def read_faults() -> tuple[list[Fault], dict[str, list[str]]]:
    """Reads the faults, and for each area the tests that are likely to notice one."""
    text = Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    faults = [
        Fault(name, area, **texts)
        for area, group in document["fault"].items()
        for name, texts in group.items()
    ]
    return faults, document["first"]


def find(fault: Fault) -> list[tuple[Path, slice]]:
    """Finds the text that a fault replaces: files of the package, and a part of each."""
    pattern = re.compile(r"\s+".join(map(re.escape, fault.before.split())))
    return [
        (path.relative_to(PACKAGE), slice(*match.span()))
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".c", ".h")
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]


def plant(fault: Fault | None, folder: Path) -> None:
    """Copies the package into a folder, with a fault unless it is None.

    Compiled modules come along and keep their times, so that Python compiles one module alone.
    """
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy)
    if fault is None:
        return
    ((file, place),) = find(fault)
    text = (PACKAGE / file).read_text(encoding="utf-8")
    changed = text[: place.start] + fault.after + text[place.stop :]
    (copy / file).write_text(changed, encoding="utf-8")
    if file.suffix != ".py":
        _compile(copy)


def _compile(copy: Path) -> None:
    """Compiles the kernels of a copy as setuptools does, over those that came along."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (module,) = settings["tool"]["setuptools"]["ext-modules"]
    library = copy.parent.joinpath(*module["name"].split("."))
    sources = [str(copy / Path(name).relative_to("src/untold")) for name in module["sources"]]
    command = ["cc", "-shared", "-fPIC", *module["extra-compile-args"], *sources, "-lm"]
    subprocess.run([*command, "-o", f"{library}{get_config_var('EXT_SUFFIX')}"], check=True)
