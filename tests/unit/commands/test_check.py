"""`untold check` with a checker that knows the answer: what it prints, writes and ends with."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from fake_checks import install, install_checker, install_readers
from fuzz.in_process import Ended, run_in_process
from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.cli import app
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, save_model

TABLE = (
    "one\ta hat_93 b\tx\n"
    "two\tc\ty new_60\n"
    "broken\n"
    "three\t\tz\n"
    "four\td old_40\tw\n"
    "five\te gone_70 lost_95\tv\n"
)
WHOLE = TABLE.replace("broken\n", "")
SUMMARY = "segments checked: 4; not checked: 1 (empty 1); findings: 3 (addition 1, omission 2)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch)
    (tmp_path / "damaged.tsv").write_text(TABLE)
    (tmp_path / "whole.tsv").write_text(WHOLE)
    (tmp_path / "clean.tsv").write_text("one\ta\tx\n")
    return tmp_path


def check(folder: Path, *arguments: object, code: int) -> Ended:
    ended = run_in_process(("check", "model", *arguments), folder)
    assert (ended.code, ended.escaped) == (code, None), ended.errors
    return ended


def test_findings_damages_and_the_summary(folder: Path) -> None:
    ended = check(folder, "damaged.tsv", code=1)
    places = [line for line in ended.output.split("\n") if line.startswith("damaged.tsv:")]
    assert places == [
        'damaged.tsv:1: omission 0.93  "hat_93"  (one)',
        'damaged.tsv:2: addition 0.60  "new_60"  (two)',
        "damaged.tsv:3: damaged: not two texts: add a tab",
        'damaged.tsv:6: omission 0.95  "gone_70 lost_95"  (five)',
    ]
    assert "    source: a >>hat_93<< b\n    target: x\n" in ended.output
    assert ended.errors == f"{SUMMARY}; damaged places: 1\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["clean.tsv"], 0),
        (["whole.tsv"], 1),
        (["clean.tsv", "whole.tsv"], 1),
        (["whole.tsv", "--threshold", "0.96"], 0),
        (["whole.tsv", "--threshold", "0.95"], 1),
        (["whole.tsv", "--fail-on", "omission:0.96"], 0),
        (["whole.tsv", "--fail-on", "omission:0.94"], 1),
        (["whole.tsv", "--fail-on", "addition:0.61"], 0),
        (["whole.tsv", "--fail-on", "addition"], 1),
        (["whole.tsv", "--fail-on", "damage"], 0),
        (["damaged.tsv", "--fail-on", "omission:1"], 1),
        (["damaged.tsv", "--threshold", "1"], 1),
        (["damaged.tsv", "--budget", "100"], 1),
        (["whole.tsv", "--budget", "2"], 1),
        (["whole.tsv", "--budget", "3"], 0),
        (["whole.tsv", "--budget", "1", "--fail-on", "omission:0.94"], 0),
        (["whole.tsv", "--quiet"], 1),
        (["whole.tsv", "--json"], 1),
        (["whole.tsv", "--columns", "target,source", "--fail-on", "addition:0.9"], 1),
    ],
)
def test_exit_codes(folder: Path, arguments: list[str], code: int) -> None:
    check(folder, *arguments, code=code)


def test_the_budget_is_of_each_file(folder: Path) -> None:
    for name in ("a.tsv", "b.tsv"):
        (folder / name).write_text("one\thut_90\tx\ntwo\thut_91\tx\n")
    check(folder, "a.tsv", "b.tsv", "--budget", 2, code=0)
    check(folder, "a.tsv", "b.tsv", "--budget", 1, code=1)


def test_what_fails_is_printed_whatever_the_threshold(folder: Path) -> None:
    ended = check(folder, "whole.tsv", "--threshold", 0.99, "--fail-on", "omission:0.4", code=1)
    assert 'whole.tsv:4: omission 0.40  "old_40"' in ended.output
    assert "addition" not in ended.output


def test_two_plain_texts(folder: Path) -> None:
    (folder / "a").write_text("a hat_93\nb\n")
    (folder / "b").write_text("x\ny\n")
    ended = check(folder, "--source", "a", "--target", "b", code=1)
    assert ended.output.startswith('b:1: omission 0.93  "hat_93"\n')


def test_json_has_a_line_for_each_place(folder: Path) -> None:
    ended = check(folder, "damaged.tsv", "--json", code=1)
    records = [json.loads(line) for line in ended.output.split("\n")[:-1]]
    assert [each["line"] for each in records] == [1, 2, 3, 6]
    assert records[2] == {
        "file": "damaged.tsv",
        "line": 3,
        "damage": "not two texts: add a tab",
    }
    assert records[3]["findings"][0]["text"] == "gone_70 lost_95"
    every = check(folder, "damaged.tsv", "--json", "--threshold", 0, code=1)
    assert every.output.count("\n") == 5  # all that were judged, and the damage


def test_quiet_prints_the_summary_only(folder: Path) -> None:
    ended = check(folder, "damaged.tsv", "--quiet", "--sarif", "out.sarif", code=1)
    assert (ended.output, ended.errors) == ("", f"{SUMMARY}; damaged places: 1\n")
    assert (folder / "out.sarif").exists()


def test_the_files_hold_what_is_printed(folder: Path) -> None:
    check(folder, "damaged.tsv", "--sarif", "out.sarif", "--html", "out.html", code=1)
    (run,) = json.loads((folder / "out.sarif").read_text())["runs"]
    places = [each["locations"][0]["physicalLocation"] for each in run["results"]]
    assert [each["region"]["startLine"] for each in places] == [1, 2, 3, 6]
    assert {each["artifactLocation"]["uri"] for each in places} == {"damaged.tsv"}
    page = (folder / "out.html").read_text()
    for text in ("hat_93", "new_60", "not two texts", f"{SUMMARY}; damaged places: 1"):
        assert text in page
    assert "old_40" not in page
    assert sorted(path.name for path in folder.iterdir()) == [
        *("clean.tsv", "damaged.tsv", "out.html", "out.sarif", "whole.tsv")
    ]


def test_a_baseline_hides_what_is_known_until_it_changes(folder: Path) -> None:
    ended = check(folder, "whole.tsv", "--write-baseline", "known.json", code=0)
    assert ended.output.count("whole.tsv:") == 3
    ended = check(folder, "whole.tsv", "--baseline", "known.json", code=0)
    assert (ended.output, "findings: 0; known by the baseline: 3" in ended.errors) == ("", True)
    (folder / "whole.tsv").write_text("zero\ta\tb\n" + WHOLE)  # an edit above
    assert check(folder, "whole.tsv", "--baseline", "known.json", code=0).output == ""
    (folder / "whole.tsv").write_text(WHOLE.replace("hat_93 b\tx", "hat_93 b\tX"))
    ended = check(folder, "whole.tsv", "--baseline", "known.json", code=1)
    assert ended.output.count("whole.tsv:") == 1
    assert "known by the baseline: 2; stale entries of the baseline: 1" in ended.errors


def test_a_baseline_that_is_written_anew_drops_stale_entries_of_the_checked_files(
    folder: Path,
) -> None:
    (folder / "other.tsv").write_text("one\tcap_90\tx\n")
    check(folder, "whole.tsv", "other.tsv", "--write-baseline", "known.json", code=0)
    assert len(json.loads((folder / "known.json").read_text())["known"]) == 4
    (folder / "whole.tsv").write_text("one\ta hat_93 b\tx\n")
    both = ("--baseline", "known.json", "--write-baseline", "known.json")
    check(folder, "whole.tsv", *both, code=0)
    known = json.loads((folder / "known.json").read_text())["known"]
    assert [(each["file"], each["source"]) for each in known] == [
        ("other.tsv", "cap_90"),
        ("whole.tsv", "a hat_93 b"),
    ]


def test_a_damage_fails_also_where_a_baseline_is_written(folder: Path) -> None:
    check(folder, "damaged.tsv", "--write-baseline", "known.json", code=1)
    ended = check(folder, "damaged.tsv", "--baseline", "known.json", code=1)
    assert ended.output == "damaged.tsv:3: damaged: not two texts: add a tab\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to check: name files, or give --source and --target"),
        (["--source", "whole.tsv"], "--source and --target come in twos"),
        (["nowhere.tsv"], "nowhere.tsv: no such file"),
        (["whole.tsv", "nowhere.tsv"], "nowhere.tsv: no such file"),
        (["."], ".: is a directory: name the files in it"),
        (["whole.tsv", "--columns", "a"], "--columns a: name two columns"),
        (["whole.tsv", "--columns", "a,b,c"], "name two columns, as in source,target"),
        (["whole.tsv", "--columns", "a,"], "name two columns"),
        (["whole.tsv", "--fail-on", "x"], "--fail-on x: unknown kind"),
        (["whole.tsv", "--threshold", "2"], "must be a number from 0.0 to 1.0"),
        (["whole.tsv", "--budget", "-1"], "must be a whole number from 0"),
        (["whole.tsv", "--baseline", "nowhere.json"], "nowhere.json: No such file"),
        (["whole.tsv", "--baseline", "whole.tsv"], "whole.tsv: no baseline of untold check"),
        (["whole.tsv", "--sarif", "no/where"], "no/where: there is no directory"),
        (["whole.tsv", "--html", "."], ".: is a directory: name a file"),
        (["whole.tsv", "--write-baseline", "."], ".: is a directory: name a file"),
    ],
)
def test_bad_input_is_one_line_and_code_2(folder: Path, arguments: list[str], words: str) -> None:
    ended = check(folder, *arguments, code=2)
    assert words in ended.errors and ended.errors.count("\n") == 1
    assert ended.output == ""


@pytest.mark.parametrize(
    ("kind", "cures"),
    [("none", ['model.separator.kind = "gdr"', "--init"]), ("gdr", ["untold calibrate"])],
)
@pytest.mark.parametrize("command", ["check", "clean"])
def test_a_model_that_cannot_judge_says_how_to_get_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, kind: str, cures: list[str]
) -> None:
    monkeypatch.undo()
    install_readers(monkeypatch)
    root = write_corpus(folder / "corpus")
    config = toy_config(root, model={"separator": {"kind": kind}})
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    save_model(folder / "model", TrainedModel(model, config, tokenizers))
    (folder / "empty.tsv").write_text("one\t\t\n")
    files = {"check": ["empty.tsv"], "clean": ["--table", "empty.tsv", "--out", "new.tsv"]}
    ended = run_in_process((command, "model", *files[command]), folder)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors.count("\n") == 1 and all(cure in ended.errors for cure in cures)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("bad.po", 'msgid "a b"\nmsgstr "c d"\n\nmsgid "broken\nmsgstr "x"\n', 4),
        ("bad.tmx", "<tmx>\n<body>\n<tu></body></tmx>\n", 3),
        ("bad.xlf", "<xliff>\n<file>\nfish & chips</file></xliff>\n", 3),
        ("bad.tsv", "a b\tc d\n\nno tab\n", 2),
        ("bad.jsonl", "{\n", 1),
    ],
)
def test_a_damaged_file_fails_and_the_next_one_is_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, line: int
) -> None:
    monkeypatch.undo()
    install_checker(monkeypatch)
    (folder / name).write_text(text)
    (folder / "next.po").write_text('msgid "a hat_93"\nmsgstr "ein Hut"\n')
    ended = check(folder, name, "next.po", code=1)
    assert ended.output.startswith(f"{name}:{line}: damaged: ")
    assert 'next.po:2: omission 0.93  "hat_93"' in ended.output
    check(folder, name, "next.po", "--fail-on", "damage", code=1)


ROOT = Path(__file__).parents[3]


def command_lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^(?:\s*- run: |\s*run: |)untold ((?:check|clean) \S+/\S+ .*)$", text, re.M)


@pytest.mark.parametrize("name", ["docs/check.md", "examples/github-action.yml"])
def test_the_examples_have_options_that_exist(name: str) -> None:
    lines = command_lines(ROOT / name)
    assert lines
    for line in lines:
        command, *words = shlex.split(line, comments=True)
        typer.main.get_command(app).commands[command].make_context(command, words)
