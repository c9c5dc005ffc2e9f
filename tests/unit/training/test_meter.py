"""The figures of a log line."""

import math

import pytest
import torch

from untold.training.distributed import ProcessGroup
from untold.training.log import Meter, Update
from untold.training.progress import UnloggedSums


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


def test_a_process_shows_its_own_mean_however_small_its_share_is():
    figures = meter()
    figures.add(Update(1.0, 40, {"loss": 30.0, "nll": 15.0}, False, own_tokens=10), 1.0)
    assert figures.peek()["loss"] == 3.0
    figures.add(Update(1.0, 40, {"loss": 0.0, "nll": 0.0}, False, own_tokens=0), 1.0)
    assert figures.peek()["loss"] == 3.0, "an update without a batch of its own tells nothing"


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


@pytest.mark.parametrize("now", [1, 2, 3])
def test_sums_go_on_where_they_were_saved_whatever_the_number_of_processes(now):
    saved = UnloggedSums(10, 15, 2.0, {"loss": [1.0, 2.0, 4.0], "nll": [0.5, 0.25, 8.0]})
    sums = []
    for rank in range(now):
        group = Alone(rank, now)
        part = Meter(group, torch.device("cpu"), ("loss", "nll"), saved).unlogged()
        assert (part.tokens, part.all_tokens, part.seconds) == (10, 15, 2.0)
        sums.append({name: values[rank] for name, values in part.parts.items()})
    assert sum(each["loss"] for each in sums) == 7.0
    assert sum(each["nll"] for each in sums) == 8.75


def test_sums_of_other_columns_are_left_out():
    saved = UnloggedSums(10, 15, 2.0, {"loss": [1.0], "old": [0.5]})
    fresh = Meter(ProcessGroup(), torch.device("cpu"), ("loss", "nll"), saved).unlogged()
    assert fresh == UnloggedSums(0, 0, 0.0, {"loss": [0.0], "nll": [0.0]})


class Alone(ProcessGroup):
    """A process of several that hears nothing of the others."""

    def all_reduce_sum(self, values, device):
        return list(values)
