"""The service behind all routes: it hands requests to the worker, and waits for their answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request

from untold.errors import explain_failure
from untold.serve.api_errors import ClientGoneError, not_ready, too_late
from untold.serve.service_limits import ServiceLimits
from untold.serve.service_metrics import ServiceMetrics
from untold.serve.work.batch_worker import BatchWorker
from untold.serve.work.job_queue import BatchJob, BatchTask, JobQueue, StreamJob
from untold.serve.work.live_stream import LiveText, StreamEvent, live_events
from untold.serve.work.model_shelf import ModelShelf


@dataclass
class Service:
    """Holds the models, the worker and the counts of one server."""

    paths: Mapping[str, Path]
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics)
    is_draining: bool = False
    running: int = 0  # requests that are being answered

    def __post_init__(self) -> None:
        self.queue = JobQueue(self.limits.queue)
        self.worker = BatchWorker(self.queue, self.limits, self.metrics)
        self.shelf = ModelShelf(self.paths, self.worker.advance)

    def start(self) -> None:
        """Loads the models and starts the worker."""
        self.shelf.load()
        self.worker.start()

    def reload(self) -> str:
        """Loads the models again; requests that run keep theirs. Says how it went."""
        try:
            self.shelf.load()
        except Exception as error:  # a file may be broken in any way, and work goes on
            self.metrics.reload("failed")
            failure = explain_failure(error)
            return f"the models from before stay, because loading failed: {failure.line}"
        self.metrics.reload("ok")
        return f"models loaded again: {', '.join(each.name for each in self.shelf.models)}"

    def drain(self) -> None:
        """Refuses new work; what runs or waits is still done."""
        self.is_draining = True
        self.queue.close()

    def why_not_ready(self) -> str:
        """Says why no work can be done; "" means that it can."""
        if self.is_draining:
            return "the server is stopping"
        if not self.shelf.models:
            return "the models are not loaded"
        return "" if self.worker.is_alive else "the worker has ended: restart the server"

    async def run(self, request: Request, task: BatchTask, items: Sequence[Any]) -> list[Any]:
        """Has items done, and gives up when the client leaves or time is up."""
        self.check_ready()
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        job = BatchJob(task, items, _deliver_to(lambda found: _settle(answer, found)))
        self.queue.put(job)
        leaving = asyncio.create_task(_until_gone(request))
        try:
            waiting = {answer, leaving}
            await asyncio.wait(
                waiting, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answer.done():
                return answer.result()
            raise ClientGoneError if leaving.done() else too_late(self.limits.seconds)
        finally:
            leaving.cancel()
            self.queue.leave(job)

    async def stream(self, request: Request, asked: LiveText) -> AsyncIterator[StreamEvent]:
        """Yields the events of a translation; closing the iterator stops the work.

        The first event comes when the work begins, so that a refusal can still be a status.
        """
        self.check_ready()
        events: asyncio.Queue[Any] = asyncio.Queue()
        job = StreamJob(lambda: live_events(asked, self.metrics), _deliver_to(events.put_nowait))
        deadline = self._deadline()
        with self._followed(request, job, events):
            while (event := await _next(events, deadline)) is not None:
                yield event

    async def watch(
        self, request: Request, task: BatchTask, items: Sequence[Any]
    ) -> AsyncIterator[int | list[Any]]:
        """Yields how many items are done whenever some are, and all results at last.

        Time is up when nothing has been done for as long as a whole answer may take.
        """
        self.check_ready()
        events: asyncio.Queue[Any] = asyncio.Queue()
        deliver = _deliver_to(events.put_nowait)
        job = BatchJob(task, items, deliver, progressed=deliver)
        with self._followed(request, job, events):
            while isinstance(found := await _next(events, self._deadline()), int):
                yield found
            yield found

    @contextlib.contextmanager
    def _followed(
        self, request: Request, job: BatchJob | StreamJob, events: asyncio.Queue[Any]
    ) -> Iterator[None]:
        """Has a job done until the end of the block; its events tell, too, if the client leaves."""
        self.queue.put(job)
        leaving = asyncio.create_task(_until_gone(request))
        leaving.add_done_callback(lambda _: events.put_nowait(ClientGoneError()))
        try:
            yield
        except TimeoutError:
            raise too_late(self.limits.seconds) from None
        finally:
            leaving.cancel()
            self.queue.leave(job)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.limits.seconds

    def check_ready(self) -> None:
        """Refuses work that cannot be done."""
        if reason := self.why_not_ready():
            raise not_ready(reason)


def _deliver_to(take: Callable[[Any], None]) -> Callable[[Any], None]:
    """Passes what the worker finds to this event loop, unless it has ended."""
    loop = asyncio.get_running_loop()

    def deliver(found: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(take, found)

    return deliver


def _settle(answer: asyncio.Future[list[Any]], found: list[Any] | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


async def _next(events: asyncio.Queue[Any], deadline: float) -> Any:
    """Waits for an event until the deadline; raises one that is an exception."""
    async with asyncio.timeout_at(deadline):
        event = await events.get()
    if isinstance(event, Exception):
        raise event
    return event


async def _until_gone(request: Request) -> None:
    """Returns when the client has left; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
