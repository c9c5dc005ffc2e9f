"""The models that are served, and how requests have their work done by the worker."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request

from untold.embedded import EXAMPLES, MODEL_NAME, embedded_model
from untold.errors import UntoldError, explain_failure, shorten
from untold.serve.schemas import ApiError, ServiceLimits, not_ready, unfit
from untold.serve.worker import (
    BatchJob,
    BatchTask,
    BatchWorker,
    JobQueue,
    ServiceMetrics,
    StreamJob,
)
from untold.storage.model_directory import load_model
from untold.translator import Translator

_MOST_SETTINGS = 64  # translators with other settings that a model keeps; they share its weights
_SAMPLE = "a"  # what a new model translates first, so that its first request does not wait


@dataclass(frozen=True)
class Decoding:
    """Settings of the search that a request may change; None keeps the model's."""

    beam: int | None = None
    nbest: int | None = None
    length_penalty: float | None = None


@dataclass(frozen=True, eq=False)  # two loads of a model are different models
class ServedModel:
    """A model under its name."""

    name: str
    translator: Translator
    examples: tuple[str, ...] = ()
    _others: dict[Decoding, Translator] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        """Returns the codes of source and target, each empty if the model does not say."""
        data, fields = self.translator.data, type(self.translator.data).model_fields
        source, target = data.source_language, data.target_language
        return (
            "" if source == fields["source_language"].default else source,
            "" if target == fields["target_language"].default else target,
        )

    @property
    def is_calibrated(self) -> bool:
        """Tells if the model can check translations."""
        models = self.translator.models
        return any(m.calibration is not None and m.model.past_future is not None for m in models)

    def with_decoding(self, decoding: Decoding) -> Translator:
        """Returns its translator with these settings."""
        if decoding not in self._others:
            if len(self._others) >= _MOST_SETTINGS:
                self._others.clear()
            settings = {name: value for name, value in vars(decoding).items() if value is not None}
            if "nbest" in settings:
                settings.setdefault("beam", max(settings["nbest"], self.translator.decode.beam))
            self._others[decoding] = self.translator.with_decoding(**settings)
        return self._others[decoding]


class ModelRegistry:
    """Holds the models of a server; `advance` is called between the steps of their searches."""

    def __init__(self, paths: Mapping[str, Path], advance: Callable[[int], object]) -> None:
        self.paths, self._advance = dict(paths), advance
        self._models: dict[str, ServedModel] = {}
        self._loading = threading.Lock()

    def load(self) -> None:
        """Loads all models; if one fails, those from before stay."""
        with self._loading:
            paths = self.paths or {MODEL_NAME: embedded_model()}
            self._models = {name: self._load(name, path) for name, path in paths.items()}

    def _load(self, name: str, path: Path) -> ServedModel:
        translator = Translator([load_model(path)]).with_decoding(temperature=0.0, nbest=1)
        translator.with_decoding(max_length=1, min_length=0).translate(_SAMPLE)  # lays out weights
        examples = () if self.paths else EXAMPLES
        return ServedModel(name, translator.with_progress(self._advance), examples)

    @property
    def models(self) -> list[ServedModel]:
        """Lists the models; the first is the default."""
        return list(self._models.values())

    def find(self, name: str | None) -> ServedModel:
        """Returns a model by its name, or the default; a name is a key and never a path."""
        if name is None:
            return self.models[0]
        if name not in self._models:
            known = ", ".join(self._models)
            raise unfit("unknown_model", f"unknown model {shorten(name)}; known: {known}")
        return self._models[name]


def read_model_names(given: Sequence[str]) -> dict[str, Path]:
    """Reads NAME=PATH, or a path whose last part is the name."""
    paths: dict[str, Path] = {}
    for argument in given:
        name, equals, path = argument.partition("=")
        if not equals:
            name, path = Path(argument).absolute().name, argument
        if not name or not path:
            raise UntoldError(f"{shorten(argument)}: write NAME=PATH, or a path alone")
        if name in paths:
            raise UntoldError(f"two models are called {shorten(name)}: name them, as in a=PATH")
        paths[name] = Path(path)
    return paths


@dataclass
class Service:
    """Holds the models, the worker and the counts of one server."""

    paths: Mapping[str, Path]
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics)
    running: int = 0  # requests that are being answered

    def __post_init__(self) -> None:
        self.queue = JobQueue(self.limits.queue)
        self.worker = BatchWorker(self.queue, self.limits, self.metrics)
        self.registry = ModelRegistry(self.paths, self.worker.advance)

    def start(self) -> None:
        """Loads the models and starts the worker."""
        self.registry.load()
        self.worker.start()

    def reload(self) -> str:
        """Loads the models again; requests that run keep theirs. Says how it went."""
        try:
            self.registry.load()
        except Exception as error:  # a file may be broken in any way, and work goes on
            self.metrics.reloads.labels("failed").inc()
            failure = explain_failure(error)
            return f"the models from before stay, because loading failed: {failure.line}"
        self.metrics.reloads.labels("ok").inc()
        return f"models loaded again: {', '.join(model.name for model in self.registry.models)}"

    def check_ready(self) -> None:
        """Refuses work that cannot be done."""
        if self.queue.is_closed:
            raise not_ready("the server is stopping")
        if not self.registry.models:
            raise not_ready("the models are not loaded")
        if not self.worker.is_alive:
            raise not_ready("the worker has ended: restart the server")

    async def run(self, request: Request, task: BatchTask, items: Sequence[Any]) -> list[Any]:
        """Has items done, and gives up when the client leaves or time is up."""
        events = _Events(self.limits.seconds)
        with self._followed(request, BatchJob(task, items, events.put), events):
            return await events.next()

    async def watch(
        self, request: Request, task: BatchTask, items: Sequence[Any]
    ) -> AsyncIterator[int | list[Any]]:
        """Yields how many items are done whenever some are, and all results at last.

        Time is up when nothing has been done for as long as a whole answer may take.
        """
        events = _Events(self.limits.seconds)
        job = BatchJob(task, items, events.put, progressed=events.put)
        with self._followed(request, job, events):
            while isinstance(event := await events.next(), int):
                yield event
                events.restart_clock()
            yield event

    async def stream(
        self, request: Request, work: Generator[Any, None, None]
    ) -> AsyncIterator[Any]:
        """Yields the events that the worker takes from `work`; closing the iterator stops it.

        The first event comes when the work begins, so that a refusal can still be a status.
        """
        events = _Events(self.limits.seconds)
        with self._followed(request, StreamJob(work, events.put), events):
            while (event := await events.next()) is not None:
                yield event

    @contextlib.contextmanager
    def _followed(
        self, request: Request, job: BatchJob | StreamJob, events: "_Events"
    ) -> Iterator[None]:
        """Has a job done until the end of the block; its events tell, too, if the client leaves."""
        self.check_ready()
        self.queue.put(job)
        leaving = asyncio.create_task(_until_gone(request))
        leaving.add_done_callback(lambda _: events.put(ClientDisconnect()))
        try:
            yield
        finally:
            leaving.cancel()
            self.queue.leave(job)


class _Events:
    """What the worker's thread tells to a request, which waits for it only so long."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._loop = seconds, asyncio.get_running_loop()
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self.restart_clock()

    def restart_clock(self) -> None:
        self._deadline = self._loop.time() + self._seconds

    def put(self, event: Any) -> None:
        """May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next(self) -> Any:
        """Waits for an event; raises one that is an exception."""
        try:
            async with asyncio.timeout_at(self._deadline):
                event = await self._events.get()
        except TimeoutError:
            late = f"no answer within {self._seconds:g} s: ask for less at a time, or try again"
            raise ApiError(504, "timeout", late) from None
        if isinstance(event, Exception):
            raise event
        return event


async def _until_gone(request: Request) -> None:
    """Returns when the client has left; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
