"""One thread does all work: together what belongs together, streams in between, errors apart."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from untold.errors import UntoldError
from untold.serve.schemas import ApiError, ServiceLimits
from untold.serve.worker import BatchJob, BatchWorker, JobQueue, ServiceMetrics, StreamJob


@dataclass(frozen=True)
class Doubling:
    """Doubles each item, with a step before each; some items are bad."""

    name: str = "a"
    calls: list[list[Any]] = field(default_factory=list, compare=False)
    before_step: Callable[[], None] = field(default=lambda: None, compare=False)
    kind = "double"

    def size(self, item: Any) -> int:
        return 1

    def run(self, items: Sequence[Any], advance: Callable[[], None]) -> list[Any]:
        self.calls.append(list(items))
        found = []
        for item in items:
            self.before_step()
            advance()
            if item == "bad":
                raise UntoldError("a bad item: mend it")
            if item == "broken":
                raise ZeroDivisionError("secret text")
            found.append(item * 2)
        return found


class Bench:
    """A worker without a thread: `work` does all that waits."""

    def __init__(self, **limits: Any) -> None:
        self.limits = ServiceLimits(**limits)
        self.metrics = ServiceMetrics()
        self.queue = JobQueue(self.limits.queue)
        self.worker = BatchWorker(self.queue, self.limits, self.metrics)
        self.log: list[Any] = []

    def put(self, task: Doubling, *items: Any, name: str = "") -> BatchJob:
        job = BatchJob(task, items, lambda found: self.log.append((name, found)))
        self.queue.put(job)
        return job

    def stream(self, *events: Any, name: str = "s", closed: list[str] | None = None) -> StreamJob:
        def begin() -> Generator[Any, None, None]:
            try:
                for event in events:
                    if isinstance(event, Exception):
                        raise event
                    yield event
            finally:
                if closed is not None:
                    closed.append(name)

        job = StreamJob(begin(), lambda event: self.log.append((name, event)))
        self.queue.put(job)
        return job

    def work(self) -> list[Any]:
        self.queue.close()
        self.worker.run()
        return self.log

    def value(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(name) or 0.0


def test_equal_tasks_are_done_in_one_call_and_each_gets_its_own():
    bench, task = Bench(), Doubling()
    bench.put(task, 1, 2, name="one")
    bench.put(Doubling("other"), 5, name="other")
    bench.put(task, 3, name="two")
    assert bench.work() == [("one", [2, 4]), ("two", [6]), ("other", [10])]
    assert task.calls == [[1, 2, 3]]


def test_a_long_job_goes_to_the_end_of_the_queue_after_each_slice():
    bench, task, other = Bench(batch_texts=2), Doubling(), Doubling("other")
    bench.put(task, 1, 2, 3, 4, 5, name="long")
    bench.put(other, 7, name="short")
    assert bench.work() == [("short", [14]), ("long", [2, 4, 6, 8, 10])]
    assert task.calls == [[1, 2], [3, 4], [5]]


def test_a_long_job_tells_how_much_is_done():
    bench, done = Bench(batch_texts=2), []
    job = bench.put(Doubling(), 1, 2, 3, 4, 5)
    job.progressed = done.append
    bench.put(Doubling("other"), 6).progressed = done.append
    bench.work()
    assert done == [2, 4], "neither at the end nor for what is done at once"


def test_long_items_make_small_batches_but_one_is_always_taken():
    bench, task = Bench(batch_characters=2), Doubling()
    object.__setattr__(task, "size", lambda item: item)
    bench.put(task, 9, 1, 1, 1)
    bench.work()
    assert task.calls == [[9], [1, 1], [1]]


def test_an_error_meets_only_the_request_that_causes_it():
    bench, task = Bench(), Doubling()
    bench.put(task, 1, name="good")
    bench.put(task, "bad", name="bad")
    bench.put(task, 2, name="fine")
    (good, two), (bad, error), (fine, four) = bench.work()
    assert (good, two, fine, four) == ("good", [2], "fine", [4])
    assert bad == "bad" and isinstance(error, ApiError)
    assert (error.status, error.message) == (422, "a bad item: mend it")


def test_a_mistake_of_ours_is_reported_without_text_of_users(capsys):
    bench = Bench()
    bench.put(Doubling(), "broken")
    ((_, error),) = bench.work()
    assert isinstance(error, ZeroDivisionError)
    told = capsys.readouterr().err
    assert told.startswith("untold: unexpected ZeroDivisionError at ")
    assert "test_worker:" in told and "secret" not in told


def test_streams_take_turns_with_each_other_and_with_the_steps_of_a_batch():
    bench, order = Bench(), []
    task = Doubling(before_step=lambda: order.append("batch"))
    bench.put(task, 1, 2, 3)
    for name in ("x", "y"):
        job = bench.stream(1, 2, name=name)
        job.deliver = lambda event, name=name: order.append(f"{name}{event}")
    bench.work()
    assert order == [
        *("batch", "x1", "y1", "batch", "x2", "y2", "batch", "xNone", "yNone"),
    ]


def test_more_streams_than_there_is_room_for_wait():
    bench = Bench(streams=1)
    bench.stream(1, name="first")
    bench.stream(2, name="second")
    assert bench.work() == [("first", 1), ("first", None), ("second", 2), ("second", None)]


def test_a_stream_that_fails_ends_alone():
    bench = Bench()
    bench.stream(1, UntoldError("no: mend it"), name="x")
    bench.stream(1, 2, name="y")
    found = bench.work()
    assert [each for each in found if each[0] == "y"] == [("y", 1), ("y", 2), ("y", None)]
    assert isinstance(found[2][1], ApiError) and found[2][0] == "x"


def test_a_vanished_client_stops_its_batch_at_the_next_step():
    bench, steps = Bench(), []
    task = Doubling(before_step=lambda: steps.append(1) or len(steps) < 2 or bench.queue.leave(job))
    job = bench.put(task, *range(50))
    assert bench.work() == []
    assert len(steps) == 2
    assert bench.value("untold_abandoned_total") == 1


def test_a_batch_goes_on_for_those_who_stay():
    bench = Bench()
    task = Doubling(before_step=lambda: bench.queue.leave(gone))
    gone = bench.put(task, 1, name="gone")
    bench.put(task, 2, name="stays")
    assert bench.work() == [("stays", [4])]


def test_a_vanished_client_stops_its_stream_and_closes_it():
    bench, closed = Bench(), []
    job = bench.stream(1, 2, 3, closed=closed)
    job.deliver = lambda event: bench.queue.leave(job)
    bench.work()
    assert closed == ["s"]


def test_a_vanished_client_that_waits_costs_nothing():
    bench, task = Bench(), Doubling()
    bench.queue.leave(bench.put(task, 1))
    assert len(bench.queue) == 0
    assert bench.work() == [] and task.calls == []


def test_a_full_queue_refuses_and_says_when_to_come_again():
    bench = Bench(queue=2)
    bench.queue.seconds_each = 2.0
    bench.put(Doubling(), 1)
    bench.stream(1)
    for put in (lambda: bench.put(Doubling(), 1), lambda: bench.stream(1)):
        with pytest.raises(ApiError) as refused:
            put()
        assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "4"})
    bench.work()
    assert len(bench.queue) == 0


def test_a_closed_queue_refuses_but_finishes():
    bench = Bench()
    bench.put(Doubling(), 1)
    bench.queue.close()
    with pytest.raises(ApiError) as refused:
        bench.put(Doubling(), 2)
    assert refused.value.status == 503
    assert bench.work() == [("", [2])]


def test_counts_tell_what_was_done():
    bench = Bench()
    bench.put(Doubling(), 1, 2)
    bench.stream(1)
    bench.work()
    items = bench.metrics.registry.get_sample_value("untold_batch_items_sum", {"kind": "double"})
    assert items == 2.0
    assert bench.value("untold_steps_total") == 4.0
