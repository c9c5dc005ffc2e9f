"""The one thread that computes: it translates what waits together, and streams step by step.

It never waits for a batch to fill: it takes what is there. Streams take turns, one token each. In
between, a batch goes on by one step of its search, since translators call `advance` after each. So
neither keeps the other waiting for longer than a step.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untold.errors import UntoldError
from untold.serve.api_errors import ApiError, unfit
from untold.serve.service_limits import ServiceLimits
from untold.serve.service_metrics import ServiceMetrics
from untold.serve.work.job_queue import BatchJob, JobQueue, Slice, StreamJob

_MEMORY = 0.9  # how much the time of earlier jobs counts beside that of the last one


class AbandonedError(Exception):
    """Breaks off a batch that nobody waits for."""


@dataclass(eq=False)
class _Running:
    """A stream that has begun."""

    job: StreamJob
    events: Iterator[Any]


class BatchWorker:
    """Does the jobs of a queue until it is closed and empty."""

    def __init__(self, queue: JobQueue, limits: ServiceLimits, metrics: ServiceMetrics) -> None:
        self.queue, self._limits, self._metrics = queue, limits, metrics
        self._batch: Sequence[Slice] = ()
        self._streams: list[_Running] = []
        self._in_turn = False  # a stream is computing: its translator calls `advance`, too
        self._thread = threading.Thread(target=self.run, name="worker", daemon=True)

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
            self._metrics.waiting(len(self.queue))
            if self._batch:
                self._do_batch()
            self._give_turns()

    def advance(self, _done: int = 0) -> None:
        """Lets the streams have their turn; breaks off the batch if nobody waits for it."""
        if self._in_turn:
            return
        self._metrics.step()
        if self._batch and all(each.job.gone for each in self._batch):
            raise AbandonedError
        self._give_turns()

    def _do_batch(self) -> None:
        batch, began = self._batch, time.monotonic()
        task, items = batch[0].job.task, [item for each in batch for item in each.items]
        self._metrics.batch(task.kind, len(items))
        try:
            results = iter(task.run(items, self.advance))
        except AbandonedError:
            self._metrics.abandoned(len(batch))
        except Exception as error:
            self._do_alone(batch, error)
        else:
            for each in batch:
                each.job.results += [next(results) for _ in each.items]
            self._hand_over([each.job for each in batch])
        seconds = (time.monotonic() - began) / len(batch)
        self.queue.seconds_each = _MEMORY * self.queue.seconds_each + (1 - _MEMORY) * seconds
        self._batch = ()

    def _hand_over(self, jobs: Sequence[BatchJob]) -> None:
        """Delivers the jobs that are done; the others wait for their next turn."""
        for job in jobs:
            if not job.gone and len(job.results) == len(job.items):
                job.deliver(job.results)
        unfinished = [j for j in jobs if not j.gone and len(j.results) < len(j.items)]
        for job in unfinished:
            job.progressed(len(job.results))
        self.queue.put_back(unfinished)

    def _do_alone(self, batch: Sequence[Slice], error: Exception) -> None:
        """Repeats jobs one by one, so that an error meets only the one that causes it."""
        if len(batch) == 1:
            batch[0].job.deliver(_refusal(error))
            return
        for each in batch:
            if not each.job.gone:
                self._batch = [each]
                self._do_batch()

    def _give_turns(self) -> None:
        """Begins streams that wait, and lets each one add a token."""
        room = self._limits.streams - len(self._streams)
        for job in self.queue.take_streams(room):
            self._streams.append(_Running(job, job.begin()))
        if self._streams:
            self._in_turn = True
            self._streams = [each for each in self._streams if self._go_on(each)]
            self._in_turn = False
        self._metrics.streams(len(self._streams))

    def _go_on(self, stream: _Running) -> bool:
        """Delivers the next event of a stream; returns False if it was the last."""
        if stream.job.gone:
            getattr(stream.events, "close", lambda: None)()
            self._metrics.abandoned(1)
            return False
        self._metrics.step()
        try:
            event = next(stream.events, None)
        except Exception as error:
            stream.job.deliver(_refusal(error))
            return False
        stream.job.deliver(event)
        return event is not None


def _refusal(error: Exception) -> Exception:
    """Turns an error that a user can mend into a refusal; reports any other by its place alone."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UntoldError):
        return unfit("refused", str(error))
    report_unexpected(error)
    return error


def report_unexpected(error: BaseException) -> None:
    """Says on standard error where a mistake of ours is; its message may hold text of users."""
    place, trail = "unknown", error.__traceback__
    while trail is not None:
        place = f"{trail.tb_frame.f_globals.get('__name__')}:{trail.tb_lineno}"
        trail = trail.tb_next
    print(f"untold: unexpected {type(error).__name__} at {place}", file=sys.stderr, flush=True)
