"""Names and numbers: on sentences full of them copying beats the same model without it."""

import importlib.util
from pathlib import Path

import pytest
import torch

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
