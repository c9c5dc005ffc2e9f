"""The routes under /v1: models, translate, explain, check and stream."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from untold.checking.checker import CheckedSegment
from untold.checking.reports import damage_record, segment_record
from untold.checking.segments import Damage, FindingKind, Segment, finish_segment
from untold.models.signals import CATEGORIES
from untold.serve.answer_examples import ANSWERS
from untold.serve.answers import EventStream, JsonAnswer, encode_json
from untold.serve.api_errors import STATUSES, ApiError, unfit
from untold.serve.request_bodies import CheckBody, ExplainBody, StreamBody, TranslateBody, read_json
from untold.serve.service import Service
from untold.serve.service_limits import ServiceLimits
from untold.serve.work.live_stream import LiveText, StreamEvent
from untold.serve.work.model_shelf import ServedModel
from untold.serve.work.model_tasks import CheckTask, Decoding, ExplainTask, TranslateTask
from untold.serve.work.uploaded_file import read_uploaded


class _StrictRequest(Request):
    """Carries JSON that was read as the standard has it."""

    parsed: Any = None

    async def json(self) -> Any:
        """Returns what was read."""
        return self.parsed


class StrictRoute(APIRoute):
    """A route whose body is strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Reads the body first: FastAPI would turn our refusals into its own."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if request.method == "POST":
                strict.parsed = read_json(await strict.body())
            return await handle(strict)

        return handle_strictly


def api_routes(service: Service) -> APIRouter:
    """Makes the routes of one service."""
    router = APIRouter(prefix="/v1", route_class=StrictRoute, default_response_class=JsonAnswer)
    routes = _Routes(service)
    for path, handle, method, summary in (
        ("/models", routes.models, "GET", "List models and limits"),
        ("/translate", routes.translate, "POST", "Translate texts"),
        ("/explain", routes.explain, "POST", "Explain translations, given or the model's own"),
        ("/check", routes.check, "POST", "Find what translations leave out and what they add"),
        ("/stream", routes.stream, "POST", "Translate a text, one event a token"),
    ):
        answer = _described(path.strip("/"))
        router.add_api_route(path, handle, methods=[method], summary=summary, responses=answer)
    return router


def _described(name: str) -> dict[int | str, dict[str, Any]]:
    """Describes the answers of a route for the OpenAPI document."""
    kind = "text/event-stream" if name == "stream" else "application/json"
    good = {"description": "An answer.", "content": {kind: {"example": ANSWERS[name]}}}
    bad = {"application/json": {"example": {"error": {"code": "...", "message": "..."}}}}
    refusals = {status: {"description": why, "content": bad} for status, why in STATUSES.items()}
    return {200: good, **refusals}


class _Routes:
    """Answers requests: checks limits, has the work done and words the answer."""

    def __init__(self, service: Service) -> None:
        self._service, self._limits = service, service.limits

    async def models(self) -> JsonAnswer:
        """Lists the models, the default first, and the limits of a request."""
        known, limits = self._service.shelf.models, self._limits
        names = ("characters", "pair_characters", "texts", "beam", "file_bytes", "segments")
        return JsonAnswer(
            {
                "default": known[0].name if known else None,
                "models": [_model_record(each) for each in known],
                "limits": {name: getattr(limits, name) for name in names},
            }
        )

    async def translate(self, request: Request, body: TranslateBody) -> JsonAnswer:
        """Translates texts, together with those of other requests."""
        model, prefixes = self._service.shelf.find(body.model), body.prefixes
        check_texts(self._limits, "texts", body.texts)
        if prefixes is None:
            prefixes = [""] * len(body.texts)
        if len(prefixes) != len(body.texts):
            counts = f"{len(prefixes)} prefixes for {len(body.texts)} texts"
            raise unfit("prefixes", f"{counts}: give one for each text")
        check_texts(self._limits, "prefixes", prefixes)
        decoding = check_beam(self._limits, Decoding(body.beam, body.nbest, body.length_penalty))
        task = TranslateTask(model, self._service.metrics, decoding, body.trace)
        items = list(zip(body.texts, prefixes, strict=True))
        found = await self._service.run(request, task, items)
        return JsonAnswer({"model": model.name, "translations": found})

    async def explain(self, request: Request, body: ExplainBody) -> JsonAnswer:
        """Explains each pair; the model translates a source without a target."""
        model, pairs = self._service.shelf.find(body.model), body.pairs
        _check_pairs(self._limits, [(each.source, each.target or "") for each in pairs])
        found: dict[int, Any] = {}
        for given in (True, False):
            places = [k for k, pair in enumerate(pairs) if (pair.target is not None) == given]
            items = [(pairs[k].source, pairs[k].target or "") for k in places]
            if items:
                task = ExplainTask(model, self._service.metrics, given)
                records = await self._service.run(request, task, items)
                found.update(zip(places, records, strict=True))
        heading = {"model": model.name, "layout": 1, "categories": list(CATEGORIES)}
        document = heading | {"sentences": [found[place] for place in range(len(pairs))]}
        return JsonAnswer(await asyncio.to_thread(encode_json, document))

    async def check(self, request: Request, body: CheckBody) -> Response:
        """Judges pairs, or the segments of a file."""
        model = self._service.shelf.find(body.model)
        items = await asyncio.to_thread(_items_to_check, body, self._limits)
        segments = [each for each in items if isinstance(each, Segment)]
        task = CheckTask(model, body.expected)

        def word(judged: Sequence[CheckedSegment | Segment]) -> bytes:
            damages = [damage_record(each) for each in items if isinstance(each, Damage)]
            record = _check_record(judged, body.threshold)
            return encode_json({"model": model.name, **record, "damages": damages})

        if body.stream:
            events = self._check_events(request, task, segments, word)
            return EventStream(events, await anext(events))
        judged = await self._service.run(request, task, segments)
        return JsonAnswer(await asyncio.to_thread(word, judged))

    async def _check_events(
        self,
        request: Request,
        task: CheckTask,
        segments: Sequence[Segment],
        word: Callable[[Sequence[Any]], bytes],
    ) -> AsyncIterator[StreamEvent]:
        """Yields `progress` while segments are judged, and the whole answer as `end`."""
        async with aclosing(self._service.watch(request, task, segments)) as found:  # type: ignore[type-var]
            async for each in found:
                if isinstance(each, int):
                    yield StreamEvent("progress", {"done": each, "segments": len(segments)})
                else:
                    yield StreamEvent("end", await asyncio.to_thread(word, each))

    async def stream(self, request: Request, body: StreamBody) -> EventStream:
        """Translates one text; the events are start, token after token, and end or error."""
        model = self._service.shelf.find(body.model)
        check_texts(self._limits, "text", [body.text])
        check_texts(self._limits, "prefix", [body.prefix])
        decoding = check_beam(self._limits, Decoding(body.beam, None, body.length_penalty))
        asked = LiveText(model, body.text, body.prefix, decoding)
        events = self._service.stream(request, asked)
        return EventStream(events, await anext(events))


def check_texts(limits: ServiceLimits, field: str, texts: Sequence[str]) -> None:
    """Refuses too many texts, and texts that are too long to be translated."""
    _check_lengths(limits.texts, limits.characters, field, list(map(len, texts)))


def _check_pairs(limits: ServiceLimits, pairs: Sequence[tuple[str, str]]) -> None:
    """Refuses too many pairs, and pairs that are too long to be read."""
    lengths = [max(map(len, pair)) for pair in pairs]
    _check_lengths(limits.texts, limits.pair_characters, "pairs", lengths)


def _check_lengths(texts: int, characters: int, field: str, lengths: Sequence[int]) -> None:
    if len(lengths) > texts:
        counts = f"{field}: {len(lengths):,}, and at most {texts:,} are taken at once"
        raise ApiError(413, "too_many", f"{counts}: divide them into several requests")
    for number, length in enumerate(lengths, start=1):
        if length > characters:
            sizes = f"{length:,} characters, and at most {characters:,} are taken"
            place = f"{field} {number}" if len(lengths) > 1 else field
            raise ApiError(413, "too_long", f"{place} has {sizes}: divide it")


def check_beam(limits: ServiceLimits, asked: Decoding) -> Decoding:
    """Refuses settings of the search that would cost too much."""
    for name, most in (("beam", limits.beam), ("nbest", limits.nbest)):
        value = getattr(asked, name)
        if value is not None and value > most:
            raise unfit(f"{name}_too_large", f"{name} {value}: at most {most} here; lower it")
    if asked.beam is not None and asked.nbest is not None and asked.nbest > asked.beam:
        raise unfit("nbest_too_large", f"nbest {asked.nbest} needs a beam as wide: raise beam")
    return asked


def _model_record(model: ServedModel) -> dict[str, Any]:
    source, target = model.languages
    return {
        "name": model.name,
        "source_language": source,
        "target_language": target,
        "separates": model.translator.separates,
        "calibrated": model.is_calibrated,
        "copies": model.translator.copies,
        "examples": list(model.examples),
    }


def _items_to_check(body: CheckBody, limits: ServiceLimits) -> list[Segment | Damage]:
    if (body.pairs is None) == (body.file is None):
        raise unfit("pairs_or_file", "give either pairs or a file")
    if body.file is not None:
        return read_uploaded(body.file.name, body.file.content, limits)
    pairs = body.pairs or []
    _check_pairs(limits, [(each.source, each.target) for each in pairs])
    return [
        finish_segment(Segment("", number, each.source, each.target), gui=False)
        for number, each in enumerate(pairs, start=1)
    ]


def _check_record(judged: Sequence[CheckedSegment | Segment], threshold: float) -> dict[str, Any]:
    thresholds: dict[FindingKind, float] = {"omission": threshold, "addition": threshold}
    checked = [each for each in judged if isinstance(each, CheckedSegment)]
    unchecked = Counter(each.unchecked for each in judged if isinstance(each, Segment))
    results = [segment_record(each, each.findings(thresholds)) for each in checked]
    return {
        "segments": len(checked),
        "unchecked": dict(unchecked),
        "findings": sum(len(each["findings"]) for each in results),
        "results": results,
    }
