"""`untold export` from the command line, with good and with bad input, and what `import` says."""

import pytest

from conversion_toys import toy_trained
from fuzz.in_process import untold
from toys import separator
from untold.storage.model_directory import save_model

EXPORT = ("export", "own", "--to")


@pytest.mark.parametrize(
    ("kind", "file"), [("huggingface", "config.json"), ("ctranslate2", "model.bin")]
)
def test_a_model_is_exported(tmp_path, kind, file):
    save_model(tmp_path / "own", toy_trained(updates=0))
    run = untold(*EXPORT, kind, "--out", "out", folder=tmp_path)
    assert run.errors == ""
    assert run.output == f"out: own for {kind}\n"
    assert (tmp_path / "out" / file).exists()


def test_leaving_past_and_future_out_needs_consent_and_is_said(tmp_path):
    save_model(tmp_path / "own", toy_trained(updates=1, separator=separator("gdr-said")))
    command = [*EXPORT, "ctranslate2", "--out", "out"]
    run = untold(*command, folder=tmp_path, code=2)
    assert "--drop-past-future" in run.errors
    assert not (tmp_path / "out").exists()
    run = untold(*command, "--drop-past-future", folder=tmp_path)
    assert run.errors.startswith("left out: past and future")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "hf:PATH", "--out", "out"], "hf:PATH, and untold adopt"),
        (["adopt", "own", "--source", "s", "--target", "t", "--out", "out"], "write it as hf:own"),
        (["export", "none", "--to", "onnx", "--out", "out"], "none: no such model"),
        (["export", "none", "--to", "tensorrt", "--out", "out"], "tensorrt"),
        (
            ["export", "none", "--to", "onnx", "--out", "out", "--drop-past-future"],
            "--drop-past-future has no effect on onnx",
        ),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(tmp_path, arguments, message):
    run = untold(*arguments, folder=tmp_path, code=2)
    assert message in run.errors
    assert run.errors.count("\n") == 1
    assert not list(tmp_path.iterdir())
