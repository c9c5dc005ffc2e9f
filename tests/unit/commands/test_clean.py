"""`untold clean` with a checker that knows the answer: which pairs stay, and in what order."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_checks import install
from fuzz.in_process import Ended, run_in_process
from untold.checking.clean import KeepRule, choose_pairs
from untold.checking.segments import Damage, Segment

SOURCES = ["a hat_93 b", "c", "d cap_95", "", "e x_30", "f"]
TARGETS = ["x", "y new_60", "z", "w", "v", "u"]
TEXTS = ("--source", "s", "--target", "t", "--out-source", "S", "--out-target", "T")
TABLE = ("--table", "c.tsv", "--out", "C.tsv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch)
    (tmp_path / "s").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "t").write_text("".join(f"{line}\n" for line in TARGETS))
    rows = "".join(f"n\t{s}\t{t}\r\n" for s, t in zip(SOURCES, TARGETS, strict=True))
    (tmp_path / "c.tsv").write_text(f"# a header\n{rows}broken\n", newline="")
    return tmp_path


def clean(folder: Path, *arguments: object, code: int = 0) -> Ended:
    ended = run_in_process(("clean", "model", *arguments), folder)
    assert (ended.code, ended.escaped) == (code, None), ended.errors
    return ended


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ((), [1, 3, 4, 5]),
        (("--threshold", 0.94), [0, 1, 3, 4, 5]),
        (("--threshold", 0.3), [3, 5]),
        (("--threshold", 0), [3]),
        (("--threshold", 1), [0, 1, 2, 3, 4, 5]),
        (("--keep", 0.8), [0, 1, 3, 4, 5]),
        (("--keep", 0.4), [3, 4, 5]),
        (("--keep", 0), [3]),
        (("--keep", 1), [0, 1, 2, 3, 4, 5]),
        (("--keep", 0.4, "--drop-unchecked"), [4, 5]),
        (("--drop-unchecked",), [1, 4, 5]),
    ],
)
def test_pairs_stay_in_their_order(folder: Path, options: tuple, kept: list[int]) -> None:
    ended = clean(folder, *TEXTS, *options)
    assert (folder / "S").read_text().split("\n")[:-1] == [SOURCES[each] for each in kept]
    assert (folder / "T").read_text().split("\n")[:-1] == [TARGETS[each] for each in kept]
    fate = "dropped" if "--drop-unchecked" in options else "kept"
    assert ended.output == (
        f"S: pairs kept: {len(kept)}; dropped: {6 - len(kept)}; "
        f"of the {fate}, unchecked: 1 (empty 1)\n"
    )
    assert not list(folder.glob(".*"))


def test_a_table_keeps_its_lines_byte_for_byte_and_loses_damaged_ones(folder: Path) -> None:
    ended = clean(folder, *TABLE)
    lines = (folder / "c.tsv").read_bytes().split(b"\n")
    expected = [lines[each] for each in (0, 2, 4, 5, 6)]
    assert (folder / "C.tsv").read_bytes() == b"".join(line + b"\n" for line in expected)
    assert ended.errors == "c.tsv:8: damaged: not two texts: add a tab\n"
    assert ended.output.endswith("; damaged places: 1\n")


def test_many_damages_are_counted_and_the_first_are_listed(folder: Path) -> None:
    (folder / "c.tsv").write_text("broken\n" * 30)
    ended = clean(folder, *TABLE)
    assert ended.errors.count(": damaged: ") == 10
    assert ended.errors.endswith("damaged places that are not listed: 20\n")


def test_a_pair_with_two_damaged_sides_is_one_pair(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(source: Path, target: Path) -> Iterator[Segment | Damage]:
        yield Segment("t", 1, "a", "x")
        yield from (Damage(str(path), 2, "not UTF-8") for path in (source, target))
        yield Segment("t", 3, "c", "z")

    monkeypatch.setattr("untold.checking.clean.read_two_files", read)
    for name in ("s", "t"):
        (folder / name).write_bytes(b"a\n\xff\nc\n")
    ended = clean(folder, *TEXTS)
    assert ended.errors == "s:2: damaged: not UTF-8\nt:2: damaged: not UTF-8\n"
    assert ended.output == "S: pairs kept: 2; dropped: 1; damaged places: 2\n"
    assert (folder / "S").read_bytes() == b"a\nc\n"


def test_scores_have_a_line_for_each_pair(folder: Path) -> None:
    clean(folder, *TABLE, "--scores", "scores")
    assert (folder / "scores").read_text() == (
        "2\t0.930000\t0.010000\n"
        "3\t0.010000\t0.600000\n"
        "4\t0.950000\t0.010000\n"
        "5\t-\t-\n"
        "6\t0.300000\t0.010000\n"
        "7\t0.010000\t0.010000\n"
        "8\t-\t-\n"
    )


def test_a_name_in_gz_is_packed_and_always_the_same(folder: Path) -> None:
    packed = (*TEXTS[:5], "S.gz", *TEXTS[6:])
    clean(folder, *packed)
    first = (folder / "S.gz").read_bytes()
    assert gzip.decompress(first).decode().split("\n")[0] == "c"
    clean(folder, *packed)
    assert (folder / "S.gz").read_bytes() == first


PROBABILITIES = st.floats(0, 1) | st.just(float("nan"))
SCORES = st.lists(st.tuples(PROBABILITIES, st.floats(0, 1)), max_size=12)


def worst_of(rows):
    return np.array(rows, float).reshape(-1, 2).max(1)


@given(SCORES, st.floats(0, 1), st.booleans())
def test_a_share_keeps_the_best(rows, share, keeps_unchecked):
    worst = worst_of(rows)
    stays = choose_pairs(worst, KeepRule(share, None, keeps_unchecked))
    unchecked = np.isnan(worst)
    assert (stays[unchecked] == keeps_unchecked).all()
    kept, dropped = worst[stays & ~unchecked], worst[~stays & ~unchecked]
    assert len(kept) == round(share * (~unchecked).sum())
    if len(kept) and len(dropped):
        assert kept.max() <= dropped.min()


@given(SCORES, st.floats(0, 1))
def test_a_threshold_drops_what_reaches_it(rows, below):
    stays = choose_pairs(worst_of(rows), KeepRule(None, below))
    for (omission, addition), stay in zip(rows, stays, strict=True):
        assert stay == (np.isnan(omission) or max(omission, addition) < below)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no whole corpus: give --source and --target, or --table"),
        (TEXTS[:2], "no whole corpus"),
        (TEXTS[:4], "nowhere to write to: give --out-source and --out-target"),
        (TEXTS[:6], "nowhere to write to"),
        (TABLE[:2], "nowhere to write to: give --out"),
        ((*TABLE, "--keep", 0.5, "--threshold", 0.5), "--keep and --threshold both choose"),
        ((*TABLE, "--keep", 1.5), "must be a number from 0.0 to 1.0"),
        (("--table", "s", "--out", "x"), "s: a table here is .tsv or .jsonl"),
        (("--table", "c.tsv", "--out", "c.jsonl"), "choose a name that ends in .tsv"),
        (("--table", "c.tsv", "--out", "c.tsv"), "c.tsv: is another file of this command"),
        ((*TEXTS[:6], "--out-target", "S"), "S: is another file of this command"),
        ((*TABLE, "--scores", "c.tsv"), "c.tsv: is another file of this command"),
        ((*TABLE, "--columns", "a"), "--columns a: name two columns"),
        (("--table", "no.tsv", "--out", "x.tsv"), "no.tsv: No such file"),
        ((*TEXTS[:2], "--target", "short", *TEXTS[4:]), "s has 6 lines and short has 1"),
        ((*TABLE[:2], "--out", "no/x.tsv"), "no/x.tsv: there is no directory"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    folder: Path, arguments: tuple, words: str
) -> None:
    (folder / "short").write_text("x\n")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    ended = clean(folder, *arguments, code=2)
    assert words in ended.errors and ended.errors.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
