"""Races on a clock that only the contenders move."""

import pytest

from untold.lab.speed import Speed, measure_speeds, take_turns


class Track:
    """A clock, and contenders that take so long for a job; remembers who ran when."""

    def __init__(self):
        self.now, self.turns = 0.0, []

    def clock(self):
        return self.now

    def runner(self, name, seconds, work=1.0):
        def run(job):
            self.turns.append((name, job))
            self.now += seconds * job
            return work * job

        return run


def test_contenders_alternate_job_by_job_in_a_rotating_order():
    track = Track()
    runners = {name: track.runner(name, 1.0) for name in "abc"}
    take_turns(runners, [1, 2], 2, track.clock)
    first, second = ["abc", "bca"], ["bca", "cab"]
    expected = [
        (name, job)
        for orders in (first, second)
        for job, order in zip((1, 2), orders, strict=True)
        for name in order
    ]
    assert track.turns == expected


def test_seconds_are_each_one_s_own():
    track = Track()
    runners = {"slow": track.runner("slow", 3.0), "fast": track.runner("fast", 0.5)}
    assert take_turns(runners, [1, 2, 4], 2, track.clock) == {
        "slow": [21.0, 21.0],
        "fast": [3.5, 3.5],
    }


def test_speeds_are_work_a_second_and_shares_of_the_first():
    track = Track()
    runners = {
        "baseline": track.runner("baseline", 2.0, work=10.0),
        "wordy": track.runner("wordy", 4.0, work=15.0),
    }
    found = measure_speeds(runners, [1, 3], 3, track.clock)
    assert found["baseline"] == Speed((5.0,) * 3, (1.0,) * 3)
    assert found["wordy"].rates == pytest.approx((3.75,) * 3)
    assert found["wordy"].ratios == pytest.approx((0.75,) * 3)


def test_the_middle_round_counts():
    speed = Speed((10.0, 1.0, 7.0), (0.5, 0.9, 0.6))
    assert speed.rate == 7.0 and speed.ratio == 0.6


def test_nothing_is_a_share_of_nothing():
    track = Track()
    runners = {"mute": track.runner("mute", 1.0, work=0.0), "other": track.runner("other", 1.0)}
    found = measure_speeds(runners, [1], 2, track.clock)
    assert found["mute"].ratio is None and found["other"].ratio is None
    assert found["other"].rate == 1.0
