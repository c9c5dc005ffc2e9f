"""The figures of a log line."""

import math

import torch

from untold.training.distributed import ProcessGroup
from untold.training.meter import Meter, Update


def meter():
    return Meter(ProcessGroup(), torch.device("cpu"), ("loss", "nll"))


def update(norm=1.0, tokens=10, loss=20.0):
    return Update(norm, tokens, {"loss": loss, "nll": loss / 2}, False)


def test_losses_are_means_per_token_since_the_last_line():
    figures = meter()
    figures.add(update(tokens=10, loss=30.0), 1.0)
    figures.add(update(norm=2.5, tokens=30, loss=10.0), 1.0)
    assert figures.figures() == {"loss": 1.0, "nll": 0.5, "norm": 2.5, "tokens_per_second": 20}
    figures.add(update(tokens=5, loss=10.0), 0.5)
    assert figures.figures() == {"loss": 2.0, "nll": 1.0, "norm": 1.0, "tokens_per_second": 10}


def test_an_update_that_was_skipped_spoils_no_mean():
    figures = meter()
    figures.add(update(tokens=10, loss=30.0), 1.0)
    figures.add(update(norm=math.nan, tokens=10, loss=math.nan), 1.0)
    found = figures.figures()
    assert found["loss"] == 3.0
    assert math.isnan(found["norm"])
    assert found["tokens_per_second"] == 10


def test_where_all_were_skipped_there_is_no_mean():
    figures = meter()
    figures.add(update(norm=math.inf, loss=math.inf), 1.0)
    assert figures.figures()["loss"] is None
