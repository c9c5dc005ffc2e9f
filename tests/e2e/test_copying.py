"""Names and numbers: on sentences full of them copying beats the same model without it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.cli import app
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel, save_model

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "copying.py"


@pytest.fixture
def task():
    spec = importlib.util.spec_from_file_location("copying_task", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield module.Task(symbols=2000)
    torch.set_num_threads(threads)


def test_copying_wins_by_a_wide_margin_where_there_are_names(task):
    accuracies = {}
    for copying in (False, True):
        model = task.train(copying=copying, updates=200, seed=1)
        accuracies[copying] = [task.accuracy(model, names) for names in (task.met, task.unmet)]
    plain, copying = accuracies[False], accuracies[True]
    assert plain[1] == 0.0, "names of which nothing was ever seen"
    assert plain[0] < 0.15 < copying[1] and copying[0] > 0.25, accuracies


def test_json_tells_what_was_copied_and_plain_text_is_the_same(tmp_path, capsys, monkeypatch):
    root = write_corpus(tmp_path / "corpus")
    config = toy_config(root, model={"preset": "tiny", "d_model": 8, "heads": 2, "copying": True})
    tokenizers = toy_tokenizers(root, config)
    model = fill(build_model_for(tokenizers, config.model)).eval()
    save_model(tmp_path / "model", TrainedModel(model, config, tokenizers))
    (tmp_path / "text").write_text("abc de f\n")
    printed = []
    for options in ([], ["--json"]):
        line = ["untold", "translate", str(tmp_path / "model"), str(tmp_path / "text"), *options]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit):
            app()
        printed.append(capsys.readouterr().out)
    record = json.loads(printed[1])
    assert f"{record['text']}\n" == printed[0]
    assert len(record["copying"]) == len(record["tokens"]) > 0
    for token, copied in zip(record["tokens"], record["copying"], strict=True):
        if token in record["source_tokens"]:
            assert record["source_tokens"][copied["source"]] == token
            assert 0 < copied["probability"] < 1
        else:
            assert copied == {"probability": 0, "source": None}
