"""`untold import` and `untold export` from the command line, with good and with bad input."""

import pytest

from conversion_toys import TEXTS, toy_trained
from fuzz.in_process import untold
from huggingface_toys import save_folder
from toys import separator
from untold.storage.model_directory import save_model


def test_a_marian_model_is_imported_translates_and_is_exported(tmp_path):
    folder, own = save_folder("marian", tmp_path / "hf"), tmp_path / "own"
    run = untold("import", f"hf:{folder}", "--out", own)
    assert run.output.startswith(f"{own}: logits differ from those of hf:{folder} by ")
    lines = "".join(f"{text}\n" for text in TEXTS)
    translated = [untold("translate", model, text=lines) for model in (f"hf:{folder}", own)]
    assert translated[0].output == translated[1].output
    assert translated[0].output.count("\n") == len(TEXTS)
    for kind, file in (("huggingface", "config.json"), ("ctranslate2", "model.bin")):
        run = untold("export", own, "--to", kind, "--out", tmp_path / kind)
        assert run.errors == ""
        assert run.output == f"{tmp_path / kind}: {own} for {kind}\n"
        assert (tmp_path / kind / file).exists()


def test_leaving_past_and_future_out_needs_consent_and_is_said(tmp_path):
    save_model(tmp_path / "own", toy_trained(separator=separator("gdr-said")))
    command = ["export", tmp_path / "own", "--to", "ctranslate2", "--out", tmp_path / "out"]
    run = untold(*command, code=2)
    assert "--drop-past-future" in run.errors
    assert not (tmp_path / "out").exists()
    run = untold(*command, "--drop-past-future")
    assert run.errors.startswith("left out: past and future")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "own", "--out", "out"], "own: is no Hugging Face model: write it as hf:own"),
        (["import", "hf:none", "--out", "out"], "neither a folder here nor a model of the hub"),
        (["export", "none", "--to", "onnx", "--out", "out"], "none: no such model"),
        (["export", "none", "--to", "tensorrt", "--out", "out"], "tensorrt"),
        (
            ["export", "none", "--to", "onnx", "--out", "out", "--drop-past-future"],
            "--drop-past-future has no effect on onnx",
        ),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run = untold(*arguments, code=2)
    assert message in run.errors
    assert run.errors.count("\n") == 1
    assert not list(tmp_path.iterdir())
