"""The routes under /v1, and two of LibreTranslate, so that its clients work with this server."""

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import Response

from untold.checking.checker import CheckedSegment
from untold.checking.reports import damage_record, segment_record
from untold.checking.segments import Damage, FindingKind, Segment, finish_segment
from untold.errors import shorten
from untold.models.signals import CATEGORIES
from untold.serve.schemas import (
    STATUSES,
    ApiError,
    BoundedRequest,
    CheckBody,
    EventStream,
    ExplainBody,
    JsonAnswer,
    LibreBody,
    ServiceLimits,
    StreamBody,
    StreamEvent,
    TranslateBody,
    encode_json,
    first_mistake,
    unfit,
)
from untold.serve.service import Decoding, ServedModel, Service
from untold.serve.tasks import (
    CheckTask,
    ExplainTask,
    LiveText,
    TranslateTask,
    live_events,
    read_uploaded,
)

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_MOST_FIELDS = 1000  # of a form
_AUTO = "auto"
_NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip


class _BoundedRoute(APIRoute):
    """A route whose request is bounded."""

    reads_json = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Reads JSON before FastAPI does, which would turn our refusals into its own."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            bounded = BoundedRequest(request.scope, request.receive)
            bounded.limits = request.app.state.service.limits
            try:
                if self.reads_json and request.method == "POST":
                    _check_type(request.headers, _JSON)
                    await bounded.json()
                return await handle(bounded)
            finally:
                bounded.release()

        return handle_bounded


class _StrictRoute(_BoundedRoute):
    """A route whose body is strict JSON."""

    reads_json = True


def _check_type(headers: Headers, *allowed: str) -> None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in allowed or headers.get("content-encoding", "identity") != "identity":
        raise ApiError(415, "not_json", f"the body must be {' or '.join(allowed)}, not compressed")


async def _get_service(request: Request) -> Service:
    return request.app.state.service


_Service = Annotated[Service, Depends(_get_service)]
_BAD = {"application/json": {"example": {"error": {"code": "...", "message": "..."}}}}
api = APIRouter(
    prefix="/v1",
    route_class=_StrictRoute,
    responses={status: {"description": why, "content": _BAD} for status, why in STATUSES.items()},
)


@api.get("/models")
async def list_models(service: _Service) -> JsonAnswer:
    """Lists the models, the default first, and the limits of a request."""
    models, limits = service.registry.models, service.limits
    names = ("characters", "pair_characters", "texts", "beam", "file_bytes", "segments")
    return JsonAnswer(
        {
            "default": models[0].name if models else None,
            "models": [_model_record(model) for model in models],
            "limits": {name: getattr(limits, name) for name in names},
        }
    )


@api.post("/translate")
async def translate(request: Request, body: TranslateBody, service: _Service) -> JsonAnswer:
    """Translates texts, together with those of other requests."""
    model, limits = service.registry.find(body.model), service.limits
    prefixes = [""] * len(body.texts) if body.prefixes is None else body.prefixes
    limits.check_texts("texts", body.texts)
    if len(prefixes) != len(body.texts):
        counts = f"{len(prefixes)} prefixes for {len(body.texts)} texts"
        raise unfit("prefixes", f"{counts}: give one for each text")
    limits.check_texts("prefixes", prefixes)
    limits.check_search(body.beam, body.nbest)
    decoding = Decoding(body.beam, body.nbest, body.length_penalty)
    task = TranslateTask(model, service.metrics, decoding, body.trace)
    items = list(zip(body.texts, prefixes, strict=True))
    translations = await service.run(request, task, items)
    return JsonAnswer({"model": model.name, "translations": translations})


@api.post("/explain")
async def explain(request: Request, body: ExplainBody, service: _Service) -> JsonAnswer:
    """Explains each pair; the model translates a source without a target."""
    model, pairs = service.registry.find(body.model), body.pairs
    service.limits.check_pairs([(pair.source, pair.target or "") for pair in pairs])
    sentences: dict[int, Any] = {}
    for given in (True, False):
        places = [k for k, pair in enumerate(pairs) if (pair.target is not None) == given]
        items = [(pairs[k].source, pairs[k].target or "") for k in places]
        if items:
            task = ExplainTask(model, service.metrics, given)
            records = await service.run(request, task, items)
            sentences.update(zip(places, records, strict=True))
    heading = {"model": model.name, "layout": 1, "categories": list(CATEGORIES)}
    document = heading | {"sentences": [sentences[place] for place in range(len(pairs))]}
    return JsonAnswer(await asyncio.to_thread(encode_json, document))


@api.post("/check")
async def check(request: Request, body: CheckBody, service: _Service) -> Response:
    """Finds what pairs, or the segments of a file, leave out and what they add."""
    model = service.registry.find(body.model)
    items = await asyncio.to_thread(_items_to_check, body, service.limits)
    segments = [item for item in items if isinstance(item, Segment)]
    task = CheckTask(model, body.expected)

    def word(judged: Sequence[CheckedSegment | Segment]) -> bytes:
        damages = [damage_record(item) for item in items if isinstance(item, Damage)]
        record = _check_record(judged, body.threshold)
        return encode_json({"model": model.name, **record, "damages": damages})

    async def follow() -> AsyncIterator[StreamEvent]:
        """Yields `progress` while segments are judged, and the whole answer as `end`."""
        async with aclosing(service.watch(request, task, segments)) as watched:  # type: ignore[type-var]
            async for done in watched:
                if isinstance(done, int):
                    yield StreamEvent("progress", {"done": done, "segments": len(segments)})
                else:
                    yield StreamEvent("end", await asyncio.to_thread(word, done))

    if body.stream:
        events = follow()
        return EventStream(events, await anext(events))
    judged = await service.run(request, task, segments)
    return JsonAnswer(await asyncio.to_thread(word, judged))


@api.post("/stream")
async def stream(request: Request, body: StreamBody, service: _Service) -> EventStream:
    """Translates one text; the events are start, token after token, and end or error."""
    model, limits = service.registry.find(body.model), service.limits
    limits.check_texts("text", [body.text])
    limits.check_texts("prefix", [body.prefix])
    limits.check_search(body.beam, None)
    decoding = Decoding(body.beam, None, body.length_penalty)
    asked = LiveText(model, body.text, body.prefix, decoding)
    events = service.stream(request, live_events(asked, service.metrics))
    return EventStream(events, await anext(events))


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
    limits.check_pairs([(pair.source, pair.target) for pair in pairs])
    return [
        finish_segment(Segment("", number, pair.source, pair.target), gui=False)
        for number, pair in enumerate(pairs, start=1)
    ]


def _check_record(judged: Sequence[CheckedSegment | Segment], threshold: float) -> dict[str, Any]:
    thresholds: dict[FindingKind, float] = {"omission": threshold, "addition": threshold}
    checked = [item for item in judged if isinstance(item, CheckedSegment)]
    unchecked = Counter(item.unchecked for item in judged if isinstance(item, Segment))
    results = [segment_record(item, item.findings(thresholds)) for item in checked]
    return {
        "segments": len(checked),
        "unchecked": dict(unchecked),
        "findings": sum(len(record["findings"]) for record in results),
        "results": results,
    }


def is_right_key(given: str | None, key: str | None) -> bool:
    """Compares keys in a time that does not depend on how much of them is right."""
    if key is None:
        return True
    return hmac.compare_digest((given or "").encode(errors="replace"), key.encode())


def sent_key(headers: Headers) -> str | None:
    """Returns the key of the header Authorization: Bearer KEY, if it is there."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


libre = APIRouter(tags=["LibreTranslate"], route_class=_BoundedRoute)
LIBRE_PATHS = frozenset({"/translate", "/languages"})  # clients may send the key in the body


async def _libre_fields(request: Request) -> dict[str, Any]:
    """Reads JSON, a form or the address, and refuses a wrong key."""
    is_json = request.headers.get("content-type", "").lower().startswith(_JSON)
    fields: Any = dict(request.query_params)
    if request.method == "POST":
        _check_type(request.headers, _JSON, _FORM)
        fields = await request.json() if is_json else _read_form(await request.body())
    elif not is_json:  # as libretranslatepy asks for languages
        fields |= _read_form(await request.body())
    if not isinstance(fields, dict):
        raise ApiError(422, "invalid", "the body must be an object: see /openapi.json")
    given = sent_key(request.headers) or fields.get("api_key")
    if not is_right_key(given if isinstance(given, str) else None, request.app.state.key):
        raise ApiError(403, "wrong_key", "a wrong api_key: send that of this server")
    return fields


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except (UnicodeDecodeError, ValueError):
        raise ApiError(400, "not_a_form", "the body is no form in UTF-8: mend it") from None
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


_Fields = Annotated[dict[str, Any], Depends(_libre_fields)]
_LIBRE_BODY = {"content": {_JSON: {"schema": LibreBody.model_json_schema()}}, "required": True}


@libre.post("/translate", openapi_extra={"requestBody": _LIBRE_BODY})
async def libre_translate(request: Request, fields: _Fields, service: _Service) -> JsonAnswer:
    """Translates a text or a list of texts."""
    try:
        body = LibreBody.model_validate(fields)
    except ValidationError as error:
        raise first_mistake(error.errors(include_input=False)) from None
    texts = body.q if isinstance(body.q, list) else [body.q]
    model = _libre_model(service.registry.models, body.source, body.target)
    nbest = body.alternatives + 1 if body.alternatives else None
    service.limits.check_texts("q", texts)
    service.limits.check_search(None, nbest)
    task = TranslateTask(model, service.metrics, Decoding(nbest=nbest))
    answers = await service.run(request, task, [(text, "") for text in texts])
    return JsonAnswer(_libre_answer(body, answers, _codes(model)[0]))


@libre.get("/languages", dependencies=[Depends(_libre_fields)])
async def list_languages(service: _Service) -> JsonAnswer:
    """Lists the languages, with those that each can be translated to."""
    pairs = list(dict.fromkeys(_codes(model) for model in service.registry.models))
    codes = dict.fromkeys(code for pair in pairs for code in pair)
    targets = {code: [target for source, target in pairs if source == code] for code in codes}
    return JsonAnswer([{"code": c, "name": _NAMES.get(c, c), "targets": targets[c]} for c in codes])


def _libre_model(models: Sequence[ServedModel], source: str, target: str) -> ServedModel:
    """Finds the first model of a pair; "auto" is the only source of the target."""
    fitting = [m for m in models if _codes(m)[1] == target and source in (_AUTO, _codes(m)[0])]
    sources = sorted({_codes(model)[0] for model in fitting})
    if not fitting:
        known = ", ".join("-".join(_codes(model)) for model in models)
        pair = f"{shorten(source, 20)} to {shorten(target, 20)}"
        raise ApiError(400, "unknown_language", f"no model translates {pair}; known: {known}")
    if len(sources) > 1:
        reason = f"this server cannot tell {', '.join(sources)} apart: name the source"
        raise ApiError(400, "cannot_detect", reason)
    return fitting[0]


def _codes(model: ServedModel) -> tuple[str, str]:
    data = model.translator.data
    return data.source_language, data.target_language


def _libre_answer(body: LibreBody, answers: Sequence[Any], source: str) -> dict[str, Any]:
    """Words the answer; a list was asked for if `q` is one."""
    # With "auto" the language is the only one that it can be; whether it is, no model has looked.
    detected = {"confidence": 100.0, "language": source}
    columns: dict[str, list[Any]] = {"translatedText": [answer["text"] for answer in answers]}
    if body.source == _AUTO:
        columns["detectedLanguage"] = [detected for _ in answers]
    if body.alternatives:
        columns["alternatives"] = [
            [other["text"] for other in answer["alternatives"]] for answer in answers
        ]
    return {
        name: column if isinstance(body.q, list) else column[0] for name, column in columns.items()
    }
