"""`untold train RUN_DIRECTORY` goes on with a run, from whatever is left of it."""

import contextlib
import shutil
from pathlib import Path

import pytest

from fuzz.in_process import Ended, run_in_process
from jobs import newest, write_toml
from toys import checkpoint_contents, lasting_records, records, toy_values, write_corpus
from untold.config import load_config
from untold.storage.summary import write_record

STEPS = {"steps": 12, "log_every": 1, "save_every": 4, "validate_every": 6}


def untold(folder: Path, *arguments: object) -> Ended:
    ended = run_in_process(arguments, folder)
    assert ended.escaped is None
    assert "Traceback" not in ended.errors
    return ended


def refused(folder: Path, *arguments: object) -> str:
    """The one line with which a command refuses its arguments."""
    ended = untold(folder, *arguments)
    assert ended.code == 2, ended.errors
    assert ended.errors.count("untold: ") == 1
    return ended.errors.strip().split("\n")[-1]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A corpus, a configuration that names it by a relative path, and a whole run of it."""
    folder = tmp_path_factory.mktemp("workshop")
    write_corpus(folder / "corpus")
    values = toy_values(Path("corpus"), train=STEPS, tokenizer={"dropout": 0.2})
    write_toml(folder / "toy.toml", values)
    assert untold(folder, "train", "toy.toml", "--out", "whole").code == 0
    return folder


@pytest.fixture
def folder(workshop, tmp_path):
    """A copy of the workshop with a run that was killed after its eighth step."""
    folder = shutil.copytree(workshop, tmp_path / "folder")
    shutil.copytree(folder / "whole", folder / "run")
    shutil.rmtree(newest(folder / "run"))
    return folder


def same(one: Path, other: Path) -> bool:
    return (
        newest(one).name == newest(other).name
        and checkpoint_contents(newest(one)) == checkpoint_contents(newest(other))
        and lasting_records(one) == lasting_records(other)
    )


def test_a_run_goes_on_by_its_directory_alone(folder):
    assert not same(folder / "run", folder / "whole")
    (folder / "toy.toml").unlink()
    ended = untold(folder, "train", "run")
    assert ended.code == 0, ended.errors
    assert "going on with run at step 8 of 12\n" in ended.errors
    assert ended.output.startswith("run: step 12, best ")
    assert same(folder / "run", folder / "whole")
    assert not (folder / "runs").exists()


def test_it_may_be_started_inside_the_directory_and_name_it_twice(folder):
    ended = untold(folder / "run", "train", ".", "--out", folder / "run", "--set", ROOT_ABOVE)
    assert ended.code == 0, ended.errors
    assert same(folder / "run", folder / "whole")


ROOT_ABOVE = "data.root=../corpus"


def test_a_run_without_a_checkpoint_starts_anew(folder):
    for name in ("checkpoints", "best", "tokenizer", "corpus"):
        shutil.rmtree(folder / "run" / name)
    ended = untold(folder, "train", "run")
    assert ended.code == 0, ended.errors
    assert "going on" not in ended.errors
    assert same(folder / "run", folder / "whole")


@pytest.mark.parametrize("damage", ["absent", "flipped"])
def test_a_run_without_its_record_has_the_settings_of_its_checkpoint(folder, damage):
    """Runs of older versions have no record."""
    settings = folder / "run" / "settings"
    if damage == "absent":
        shutil.rmtree(settings)
    else:
        config = (settings / "config.json").read_text()
        (settings / "config.json").write_text(config.replace('"seed": 1', '"seed": 3'))
    ended = untold(folder, "train", "run")
    assert ended.code == 0, ended.errors
    assert same(folder / "run", folder / "whole")


def test_settings_can_change_on_the_way_and_stay_so(folder):
    ended = untold(folder, "train", "run", "--set", "train.steps=10")
    assert ended.code == 0 and "at step 8 of 10" in ended.errors
    ended = untold(folder, "train", "run")
    assert "run is finished at step 10 of 10: to train longer, run " in ended.errors
    longer = "untold train run --set train.steps=20"
    assert ended.errors.count(longer) == 1
    assert untold(folder, *longer.split()[1:]).code == 0
    assert newest(folder / "run").name == "step-00000020"
    assert [r["step"] for r in records(folder / "run", "train")] == list(range(1, 21))


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ("train.epochs=1", "--set train.epochs=2"),
        ("train.patience=1", "--set train.steps=24 --set train.patience="),
        ("train.schedule=linear", "--set train.steps=24 --allow-changed"),
    ],
)
def test_what_ends_a_run_is_what_to_raise(folder, change, limit):
    arguments = ("train", "run", "--set", change)
    if "schedule" in change:
        arguments += ("--allow-changed",)
    assert untold(folder, *arguments).code == 0
    ended = untold(folder, "train", "run")
    assert ended.code == 0, ended.errors
    finished = next(line for line in ended.errors.split("\n") if "is finished at step" in line)
    assert limit in finished
    longer = finished.partition("run untold ")[2].split()
    assert longer[:2] == ["train", "run"]
    before = newest(folder / "run").name
    assert untold(folder, *longer).code == 0
    assert newest(folder / "run").name > before


def test_a_setting_that_changes_updates_is_refused_and_forgotten(folder):
    error = refused(folder, "train", "run", "--set", "train.seed=2")
    assert "train.seed: 1 -> 2" in error and "--allow-changed" in error
    assert untold(folder, "train", "run").code == 0
    assert same(folder / "run", folder / "whole")


def test_options_that_would_do_nothing_are_told(folder):
    ended = untold(folder, "train", "run", "--allow-changed")
    assert "--allow-changed has no effect: nothing that matters has changed" in ended.errors
    ended = untold(folder, "train", "toy.toml", "--out", "new", "--allow-changed")
    assert "--allow-changed has no effect: new has no checkpoint" in ended.errors


def test_what_is_no_run_is_refused_with_a_cure(folder):
    assert "--out other: the run in run goes on there: leave out --out" in refused(
        folder, "train", "run", "--out", "other"
    )
    model = newest(folder / "run")
    error = refused(folder, "train", model)
    assert "is a model and no run: start a run from it with untold train CONFIG.toml" in error
    assert f"--init {model}" in error
    assert f"or go on with untold train {folder / 'run'}" in error
    best = next((folder / "run" / "best").iterdir())
    error = refused(folder, "train", best)
    assert f"--init {best}" in error and "or go on" not in error
    (folder / "empty").mkdir()
    error = refused(folder, "train", "empty")
    assert error.endswith(
        "empty: holds no training run: name a configuration, as in untold train CONFIG.toml "
        "--out empty"
    )
    assert list((folder / "empty").iterdir()) == []


def test_a_run_that_is_damaged_altogether_is_told(folder):
    shutil.rmtree(folder / "run" / "settings")
    for path in (folder / "run" / "checkpoints").glob("*/config.json"):
        path.write_text(path.read_text().replace("1", "2"))
    assert "its settings and checkpoints are damaged: name a config" in refused(
        folder, "train", "run"
    )


def test_from_elsewhere_the_error_says_where_the_data_are(folder, tmp_path):
    run, elsewhere = folder / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with contextlib.chdir(folder):  # the record names the place that the run was copied from
        write_record(Path("run"), load_config("toy.toml"), None)
    error = refused(elsewhere, "train", run)
    cure = f"--set data.root={folder / 'corpus'}"
    assert "corpus/train.src: no such file: the run was started with another directory" in error
    assert error.endswith(f"give {cure}")
    (folder / "corpus" / "valid.tgt").rename(folder / "valid.tgt")
    error = refused(elsewhere, "train", run)
    assert f"the name counts from {elsewhere}" in error and "data.root=DIRECTORY" in error
    (folder / "valid.tgt").rename(folder / "corpus" / "valid.tgt")
    assert untold(elsewhere, "train", run, *cure.split()).code == 0
    assert same(run, folder / "whole")


def test_missing_data_leave_no_run_behind(folder):
    error = refused(folder, "train", "toy.toml", "--set", "data.root=/nowhere", "--out", "new")
    assert "/nowhere/train.src: no such file: correct its name in [data]" in error
    assert not (folder / "new").exists()


def warm(folder: Path, *more: object) -> Ended:
    return untold(folder, "train", "toy.toml", "--out", "warm", *more)


def test_the_same_command_goes_on_with_a_warm_start_and_another_model_is_refused(folder):
    ended = warm(folder, "--init", "whole", "--set", "train.steps=4")
    assert "starting from whole: " in ended.errors
    again = warm(folder, "--init", "whole")
    assert again.code == 0
    assert "--init whole has no effect now: the run goes on from its own checkpoint" in again.errors
    assert "at step 4 of 12" in again.errors
    error = refused(folder, "train", "warm", "--init", newest(folder / "run"))
    assert f"the run began from {folder / 'whole'} and goes on from its own checkpoint" in error
    assert "leave out --init, or choose another --out" in error
    error = refused(folder, "train", "run", "--init", "whole")
    assert "the run began without --init" in error


def test_a_warm_start_that_was_killed_early_begins_with_the_same_model(folder):
    warm(folder, "--init", "whole")
    expected = checkpoint_contents(newest(folder / "warm"))
    shutil.rmtree(folder / "warm" / "checkpoints")
    (folder / "whole").rename(folder / "gone")
    error = refused(folder, "train", "warm")
    assert f"warm began from {folder / 'whole'}, which is gone: give --init MODEL" in error
    (folder / "gone").rename(folder / "whole")
    ended = untold(folder, "train", "warm")
    assert f"starting from {folder / 'whole'}: " in ended.errors
    assert checkpoint_contents(newest(folder / "warm")) == expected
