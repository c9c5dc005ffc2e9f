"""The guard fails for a kernel that lost speed, and for no other."""

import pytest
import torch

import guard
from guard import KERNELS, REFERENCE, TOLERANCE, find_losses, measure
from race import RESULTS, read_json


class Clock:
    """A clock that stands still but for the work of the kernels."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float):
        def call() -> None:
            self.now += seconds

        return call


def losses_of(seconds: dict[str, float], recorded: dict[str, float]):
    """What the guard finds if kernels take so many seconds and every reference takes one."""
    clock = Clock()
    kernels = {
        name: lambda spent=spent: (clock.work(spent), clock.work(1.0))
        for name, spent in seconds.items()
    }
    return find_losses(kernels, recorded, lambda name, make, n: measure(name, make, n, clock))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.3, 0.85, 0.89, 0.91, 1.0, 1.5])
def test_it_fails_below_nine_tenths_of_what_is_recorded(ratio, share):
    found = losses_of({"dropout": 1 / (ratio * share)}, {"dropout": ratio})
    assert [loss.kernel for loss in found] == (["dropout"] if share < 1 - TOLERANCE else [])


def test_the_message_names_kernel_ratios_and_cure():
    (loss,) = losses_of({"fast": 0.25, "slow": 0.5}, {"fast": 4.0, "slow": 4.0})
    for part in ("slow", "2.00 x", "4.00 x", "50%", "10%", "make bench-record"):
        assert part in str(loss)


def test_a_kernel_that_was_slow_by_chance_is_measured_again():
    clock, rounds = Clock(), []

    def measured(name, make, count):
        rounds.append(count)
        spent = 2.0 if len(rounds) == 1 else 1.0
        return measure(name, lambda: (clock.work(spent), clock.work(1.0)), count, clock)

    assert find_losses({"dropout": lambda: pytest.fail("unused")}, {"dropout": 1.0}, measured) == []
    assert rounds == [guard.ROUNDS, 2 * guard.ROUNDS]


def test_a_kernel_that_was_never_recorded_is_named_and_passes(capsys):
    assert losses_of({"new": 9.0}, {}) == []
    assert "new: not recorded yet: run `make bench-record`" in capsys.readouterr().out


def test_a_real_kernel_that_does_its_work_three_times_is_caught():
    """By the processor's own clock: a kernel that is as fast as its reference, then slowed."""
    a = torch.randn(64, 256)

    def work() -> None:
        a @ a.T

    def slowed() -> None:
        for _ in range(3):
            work()

    recorded = {"product": measure("product", lambda: (work, work), 20).median_ratio(REFERENCE)}
    assert (
        find_losses({"product": lambda: (work, work)}, {"product": recorded["product"] / 2}) == []
    )
    (loss,) = find_losses({"product": lambda: (slowed, work)}, recorded)
    assert loss.measured < loss.recorded / 2


def test_every_kernel_is_recorded():
    kept = read_json(RESULTS / "guard.json")
    assert [race.title for race in kept.races] == list(KERNELS), "run `make bench-record`"
    assert all(set(race.seconds) == {guard.OURS, REFERENCE} for race in kept.races)
    assert kept.conditions["machine"]["processor"]


@pytest.mark.parametrize("name", [name for name in KERNELS if "Marian" not in name])
def test_kernels_run(name):
    own, reference = KERNELS[name]()
    own()
    reference()
