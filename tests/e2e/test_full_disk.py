"""A disk that takes no more bytes: one line that names the place and the cure, and nothing half."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz.in_process import run_in_process
from fuzz.workshop import build_workshop, use_workshop

PAIR = ("--source", "corpus.src", "--reference", "corpus.tgt")
CHECK = ("--quiet", "--threshold", "0", "--fail-on", "damage")  # all words are written
# What each command writes beside the files that were there before.
COMMANDS = {
    "train": ("train", "config.toml", "--out", "new"),
    "resume": ("train", "config.toml", "--set", "train.steps=6", "--out", "run"),
    "average": ("average", "run", "--last", "2", "--out", "new"),
    "sample": ("sample", "en-de", "--pairs", "300", "--out", "new"),
    "align": ("align", *PAIR[:2], "--target", "corpus.tgt", "--kind", "ibm1", "--save", "new"),
    "links": ("align", *PAIR[:2], "--target", "corpus.tgt", "--kind", "ibm1", "--out", "new"),
    "evaluate": ("evaluate", "run", *PAIR, "--metrics", "bleu", "--out", "new"),
    "check": ("check", "run", *PAIR[:2], "--target", "corpus.tgt", *CHECK, "--html", "new.html"),
    "sarif": ("check", "run", *PAIR[:2], "--target", "corpus.tgt", *CHECK, "--sarif", "new"),
    "baseline": ("check", "run", "corpus.tsv", *CHECK, "--write-baseline", "new"),
    "clean": (
        "clean",
        "run",
        "--table",
        "corpus.tsv",
        "--out",
        "new.tsv",
        "--scores",
        "new.scores",
    ),
    "calibrate": ("calibrate", "run", *PAIR[:2], "--target", "corpus.tgt", "--seed", "5"),
    "reproduce": ("reproduce", "overlap", "--out", "new", "--plan"),
    "adopt": (
        *("adopt", "hf:marian", *PAIR[:2], "--target", "corpus.tgt"),
        *("--steps", "2", "--out", "new"),
    ),
    "sheet": (
        *("sheet", "--source", "corpus.src", "--system", "a=corpus.tgt"),
        *("--number", "24", "--out", "new"),
    ),
    "explain": ("explain", "run", "--source", "the dog sleeps .", "--out", "new.svg"),
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full") / "workshop"
    build_workshop(folder)
    return folder


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Lets no file of this process grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("size", [0, 100, 3000, 12000])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_leaves_nothing_half(
    workshop: Path, tmp_path: Path, name: str, size: int
) -> None:
    folder = tmp_path / "folder"
    use_workshop(workshop, folder)
    before = files(folder)
    with no_file_beyond(size):
        ended = run_in_process(COMMANDS[name], folder)
    assert ended.escaped is None
    assert ended.code in (0, 2), ended.errors
    if size == 0:
        assert ended.code == 2
    if ended.code == 2:
        last = ended.errors.strip().split("\n")[-1]
        assert "File too large: write to a disk without such a limit" in last
        place = "run" if name in ("resume", "calibrate") else "new"
        assert place in last.partition(": ")[2].partition(": ")[0], last
    assert not [path for path in folder.rglob(".*") if path.name != ".lock"]
    after = files(folder)
    changed = {path for path in before if after.get(path) != before[path]}
    kept = {path for path in changed if not path.startswith("run/settings/")}  # of the last start
    if name == "calibrate" and ended.code == 0:
        assert {Path(path).name for path in kept} == {"calibration.json", "MANIFEST.json"}
    else:
        assert not kept - {"run/metrics.jsonl", "run/.lock"}
    # The same command works once there is room again: whatever is left is whole.
    again = run_in_process(COMMANDS[name], folder)
    exists = ended.code == 0 and name in ("average", "align", "sheet")
    assert again.code == (2 if exists else 0), again.errors
