"""`untold evaluate` with a baseline, as a person runs it."""

import json
import subprocess
import sys

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, save_model


def test_two_models_are_compared_on_a_test_set(tmp_path):
    root = write_corpus(tmp_path)
    config = toy_config(root)
    tokenizers = toy_tokenizers(root, config)
    size = len(tokenizers.source)
    for name, scale in (("first", 0.8), ("second", 0.9)):
        model = fill(build_model(config.model, (size, size), shared=True), scale)
        save_model(root / name, TrainedModel(model, config, tokenizers))
    arguments = [
        "--progress",
        "plain",
        "evaluate",
        "second",
        "--against",
        "first",
        "--test",
        "dev=valid.src,valid.tgt",
        "--json",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "untold", *arguments, "--samples", "20"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    assert [row["name"] for row in record["rows"]] == ["first", "second"]
    assert record["baseline"] == "first"
    for what in ("translating dev with second", "testing significance"):
        assert what in run.stderr


def test_the_name_of_before_is_an_error_that_names_the_new_one(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "untold", "compare", "a", "b", "--test", "t=x,y", "--no-speed"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 2 and "untold evaluate B --against A" in run.stderr
