"""The queue of requests, the one thread that computes, and what both count.

The thread never waits for a batch to fill: it takes what is there, and what belongs together is
taken together. A request of many items is taken in slices and goes to the end of the queue after
each, so that a long file does not keep a short sentence waiting. Streams take turns, one token
each. In between, a batch goes on by one step of its search, since translators call `advance` after
each. So neither keeps the other waiting for longer than a step.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from untold.errors import UntoldError
from untold.serve.schemas import (
    ApiError,
    ServiceLimits,
    not_ready,
    report_unexpected,
    unfit,
)

_LONGEST_WAIT = 30  # seconds that a client is told to wait at most
_MEMORY = 0.9  # how much the time of earlier jobs counts beside that of the last one
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class ServiceMetrics:
    """Counts of one server; labels have few values, none of which comes from a user."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "untold_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.latency = Histogram(
            "untold_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.waiting = Gauge("untold_queue_depth", "Requests that wait.", registry=registry)
        self.streams = Gauge("untold_streams", "Streams that run.", registry=registry)
        self.batches = Histogram(
            "untold_batch_items",
            "Texts, pairs or segments that were computed together.",
            ["kind"],
            buckets=_SIZES,
            registry=registry,
        )
        self.steps = Counter("untold_steps", "Steps that searches made.", registry=registry)
        self._tokens = Counter(
            "untold_tokens", "Tokens of sources and of translations.", ["side"], registry=registry
        )
        self.abandoned = Counter(
            "untold_abandoned", "Requests that stopped with their client.", registry=registry
        )
        self.reloads = Counter(
            "untold_reloads", "Times that models were loaded again.", ["result"], registry=registry
        )
        self.count_tokens(0, 0)

    def count_tokens(self, source: int, target: int) -> None:
        """Counts the tokens of a translation."""
        self._tokens.labels("source").inc(source)
        self._tokens.labels("target").inc(target)


@runtime_checkable
class BatchTask(Protocol):
    """Says how items are done; items of equal tasks are done in one call."""

    @property
    def kind(self) -> str:
        """Names the task for the metrics."""
        ...

    def size(self, item: Any) -> int:
        """Counts the characters of an item."""
        ...

    def run(self, items: Sequence[Any], advance: Callable[[], None]) -> list[Any]:
        """Returns one result for each item; calls `advance` now and then."""
        ...


@dataclass(eq=False)
class BatchJob:
    """A request of some items; `deliver` gets all results, or the exception that prevents them."""

    task: BatchTask
    items: Sequence[Any]
    deliver: Callable[[list[Any] | Exception], None]
    gone: bool = False  # nobody waits for it any more
    results: list[Any] = field(default_factory=list)
    progressed: Callable[[int], None] = lambda _: None  # hears how many items are done by now

    def next_slice(self, items: int, characters: int) -> "Slice":
        """Takes the next items, as many as there is room for, but at least one."""
        first = end = len(self.results)
        while end < min(len(self.items), first + items) and (end == first or characters > 0):
            characters -= self.task.size(self.items[end])
            end += 1
        return Slice(self, self.items[first:end])


@dataclass(eq=False)
class StreamJob:
    """A request that is answered step by step; `deliver` gets each event, None or an exception."""

    events: Generator[Any, None, None]
    deliver: Callable[[Any], None]
    gone: bool = False  # nobody waits for it any more


@dataclass(frozen=True)
class Slice:
    """Some items of a job that are done in one call."""

    job: BatchJob
    items: Sequence[Any]


class JobQueue:
    """Holds at most `depth` jobs that wait; many threads put jobs in, and one takes them."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._changed = threading.Condition()
        self._jobs: list[BatchJob] = []
        self._streams: list[StreamJob] = []
        self.is_closed = False
        self.seconds_each = 0.05  # that a job took of late; the worker keeps it up to date

    def __len__(self) -> int:
        return len(self._jobs) + len(self._streams)

    def put(self, job: BatchJob | StreamJob) -> None:
        """Adds a job, unless too many wait or the queue is closed."""
        with self._changed:
            if self.is_closed:
                raise not_ready("the server is stopping")
            if len(self) >= self.depth:
                raise self._busy()
            if isinstance(job, BatchJob):
                self._jobs.append(job)
            else:
                self._streams.append(job)
            self._changed.notify()

    def put_back(self, jobs: Sequence[BatchJob]) -> None:
        """Adds jobs whose first items are done; they are not refused."""
        with self._changed:
            self._jobs += jobs

    def leave(self, job: BatchJob | StreamJob) -> None:
        """Forgets a job for which nobody waits; one that runs stops at its next step."""
        job.gone = True
        with self._changed:
            self._jobs = [waiting for waiting in self._jobs if not waiting.gone]
            self._streams = [waiting for waiting in self._streams if not waiting.gone]

    def close(self) -> None:
        """Refuses further jobs; those that wait are still done."""
        with self._changed:
            self.is_closed = True
            self._changed.notify()

    def wait(self) -> bool:
        """Waits for a job; returns False if the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self.is_closed)
            return len(self) > 0

    def take_batch(self, items: int, characters: int) -> list[Slice]:
        """Takes the first job, and those behind it with the same task, up to these sizes.

        One item is taken in any case.
        """
        with self._changed:
            chosen: list[Slice] = []
            for job in self._jobs:
                if job.task == self._jobs[0].task and items > 0 and characters > 0:
                    chosen.append(job.next_slice(items, characters))
                    items -= len(chosen[-1].items)
                    characters -= sum(map(job.task.size, chosen[-1].items))
            taken = {id(part.job) for part in chosen}
            self._jobs = [job for job in self._jobs if id(job) not in taken]
            return chosen

    def take_streams(self, most: int) -> list[StreamJob]:
        """Takes up to `most` streams, the longest waiting first."""
        with self._changed:
            taken, self._streams = self._streams[:most], self._streams[most:]
            return taken

    def _busy(self) -> ApiError:
        waiting = len(self)
        seconds = min(_LONGEST_WAIT, max(1, round(waiting * self.seconds_each)))
        message = f"{waiting} requests wait already, which is the limit: try again in {seconds} s"
        return ApiError(429, "busy", message, {"retry-after": str(seconds)})


class AbandonedError(Exception):
    """Breaks off a batch that nobody waits for."""


class BatchWorker:
    """Does the jobs of a queue until it is closed and empty."""

    def __init__(self, queue: JobQueue, limits: ServiceLimits, metrics: ServiceMetrics) -> None:
        self.queue, self._limits, self._metrics = queue, limits, metrics
        self._batch: Sequence[Slice] = ()
        self._streams: list[StreamJob] = []
        self._in_turn = False  # a stream is computing: its translator calls `advance`, too
        self._thread = threading.Thread(target=self.run, name="worker", daemon=True)
        metrics.waiting.set_function(lambda: len(queue))
        metrics.streams.set_function(lambda: len(self._streams))

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Tells if the thread is there to do what comes in."""
        return self._thread.is_alive()

    def run(self) -> None:
        """Does what waits; each turn is a batch, or a step of each stream."""
        while self._streams or self.queue.wait():
            limits = self._limits
            self._batch = self.queue.take_batch(limits.batch_texts, limits.batch_characters)
            if self._batch:
                self._do_batch()
            self._give_turns()

    def advance(self, _done: int = 0) -> None:
        """Lets the streams have their turn; breaks off the batch if nobody waits for it."""
        if self._in_turn:
            return
        self._metrics.steps.inc()
        if self._batch and all(part.job.gone for part in self._batch):
            raise AbandonedError
        self._give_turns()

    def _do_batch(self) -> None:
        batch, began = self._batch, time.monotonic()
        task, items = batch[0].job.task, [item for part in batch for item in part.items]
        self._metrics.batches.labels(task.kind).observe(len(items))
        try:
            results = iter(task.run(items, self.advance))
        except AbandonedError:
            self._metrics.abandoned.inc(len(batch))
        except Exception as error:
            self._do_alone(batch, error)
        else:
            for part in batch:
                part.job.results += [next(results) for _ in part.items]
            self._hand_over([part.job for part in batch])
        seconds = (time.monotonic() - began) / len(batch)
        self.queue.seconds_each = _MEMORY * self.queue.seconds_each + (1 - _MEMORY) * seconds
        self._batch = ()

    def _hand_over(self, jobs: Sequence[BatchJob]) -> None:
        """Delivers the jobs that are done; the others wait for their next turn."""
        unfinished = []
        for job in jobs:
            if job.gone:
                continue
            if len(job.results) == len(job.items):
                job.deliver(job.results)
            else:
                job.progressed(len(job.results))
                unfinished.append(job)
        self.queue.put_back(unfinished)

    def _do_alone(self, batch: Sequence[Slice], error: Exception) -> None:
        """Repeats jobs one by one, so that an error meets only the one that causes it."""
        if len(batch) == 1:
            batch[0].job.deliver(_refusal(error))
            return
        for part in batch:
            if not part.job.gone:
                self._batch = [part]
                self._do_batch()

    def _give_turns(self) -> None:
        """Begins streams that wait, and lets each one add a token."""
        self._streams += self.queue.take_streams(self._limits.streams - len(self._streams))
        if self._streams:
            self._in_turn = True
            self._streams = [stream for stream in self._streams if self._go_on(stream)]
            self._in_turn = False

    def _go_on(self, stream: StreamJob) -> bool:
        """Delivers the next event of a stream; returns False if it was the last."""
        if stream.gone:
            stream.events.close()
            self._metrics.abandoned.inc()
            return False
        self._metrics.steps.inc()
        try:
            event = next(stream.events, None)
        except Exception as error:
            event = _refusal(error)
        stream.deliver(event)
        return event is not None and not isinstance(event, Exception)


def _refusal(error: Exception) -> Exception:
    """Turns an error that a user can mend into a refusal; reports any other by its place alone."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UntoldError):
        return unfit("refused", str(error))
    report_unexpected(error)
    return error
