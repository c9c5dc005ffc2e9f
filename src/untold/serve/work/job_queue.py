"""The bounded queue of requests: what belongs together is taken together, in the order of arrival.

A request of many items is taken in slices and goes to the end of the queue after each, so that a
long file does not keep a short sentence waiting.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from untold.serve.api_errors import ApiError, busy, not_ready

_LONGEST_WAIT = 30  # seconds that a client is told to wait at most


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


@dataclass(eq=False)
class StreamJob:
    """A request that is answered step by step; `deliver` gets each event, None or an exception."""

    begin: Callable[[], Iterator[Any]]
    deliver: Callable[[Any], None]
    gone: bool = False


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
        self._closed = False
        self.seconds_each = 0.05  # that a job took of late; the worker keeps it up to date

    def __len__(self) -> int:
        """Counts the jobs that wait."""
        return len(self._jobs) + len(self._streams)

    def put(self, job: BatchJob | StreamJob) -> None:
        """Adds a job, unless too many wait or the queue is closed."""
        with self._changed:
            if self._closed:
                raise not_ready("the server is stopping")
            if len(self) >= self.depth:
                raise self._refusal()
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
            self._jobs = [each for each in self._jobs if not each.gone]
            self._streams = [each for each in self._streams if not each.gone]

    def close(self) -> None:
        """Refuses further jobs; those that wait are still done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def wait(self) -> bool:
        """Waits for a job; returns False if the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self._closed)
            return len(self) > 0

    def take_batch(self, items: int, characters: int) -> list[Slice]:
        """Takes the first job, and those behind it with the same task, up to these sizes.

        One item is taken in any case.
        """
        with self._changed:
            chosen: list[Slice] = []
            for job in self._jobs:
                if job.task == self._jobs[0].task and items > 0 and characters > 0:
                    chosen.append(_cut(job, items, characters))
                    items -= len(chosen[-1].items)
                    characters -= sum(map(job.task.size, chosen[-1].items))
            taken = {id(each.job) for each in chosen}
            self._jobs = [each for each in self._jobs if id(each) not in taken]
            return chosen

    def take_streams(self, most: int) -> list[StreamJob]:
        """Takes up to `most` streams, the longest waiting first."""
        with self._changed:
            taken, self._streams = self._streams[: max(most, 0)], self._streams[max(most, 0) :]
            return taken

    def _refusal(self) -> ApiError:
        seconds = min(_LONGEST_WAIT, max(1, round(len(self) * self.seconds_each)))
        return busy(len(self), seconds)


def _cut(job: BatchJob, items: int, characters: int) -> Slice:
    """Takes the next items of a job, as many as there is room for, but at least one."""
    first = end = len(job.results)
    while end < min(len(job.items), first + items) and (end == first or characters > 0):
        characters -= job.task.size(job.items[end])
        end += 1
    return Slice(job, job.items[first:end])
