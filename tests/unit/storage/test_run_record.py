"""The record of a run holds all settings, and is whole or not used."""

from pathlib import Path

import pytest

from untold.config import load_config, parse_config
from untold.errors import UntoldError
from untold.storage.summary import find_record, read_record, write_record

CONFIGS = sorted((Path(__file__).parents[3] / "configs").rglob("*.toml"))
TABLE = "data.train={path='a.tsv',columns=['en','de']}"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_comes_back_as_it_was(path, tmp_path):
    for number, settings in enumerate([[], [TABLE, "data.max_ratio=2.5", "train.clip=0.25"]]):
        run, config = tmp_path / str(number), load_config(path, settings)
        write_record(run, config, None)
        assert parse_config(find_record(run).values) == config
    assert len(CONFIGS) > 9


def test_a_start_replaces_the_one_before_and_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_record(Path("run"), parse_config({"data": {"root": "one"}}), Path("model"))
    write_record(Path("run"), parse_config({"data": {"root": "two"}}), Path("model"))
    record = read_record(Path("run"))
    assert record is not None
    assert (record.init, record.root) == (tmp_path / "model", tmp_path / "two")
    write_record(Path("run"), parse_config({}), None)
    record = read_record(Path("run"))
    assert record is not None and (record.init, record.root) == (None, tmp_path)


@pytest.mark.parametrize("name", ["config.json", "start.json", "MANIFEST.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", None])
def test_a_damaged_record_is_none(tmp_path, name, damage):
    write_record(tmp_path, parse_config({}), None)
    file = tmp_path / "settings" / name
    file.unlink() if damage is None else file.write_bytes(damage)
    assert read_record(tmp_path) is None
    with pytest.raises(UntoldError, match="holds no training run"):
        find_record(tmp_path)
