"""The routes of LibreTranslate, so that its clients work with this server unchanged."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, ValidationError

from untold.config import DataConfig
from untold.errors import shorten
from untold.serve.answer_examples import LIBRE_EXAMPLES
from untold.serve.answers import JsonAnswer, first_mistake
from untold.serve.api_errors import ApiError
from untold.serve.api_routes import check_beam, check_texts
from untold.serve.html_texts import HtmlTexts
from untold.serve.request_bodies import read_json
from untold.serve.request_guard import is_right_key, sent_key
from untold.serve.service import Service
from untold.serve.work.model_shelf import ServedModel
from untold.serve.work.model_tasks import Decoding, TranslateTask

_AUTO = "auto"
_MOST_FIELDS = 1000  # of a form
_RUNS = 8  # texts of HTML, between its tags, for each text of a request
_UNKNOWN = tuple(
    DataConfig.model_fields[name].default for name in ("source_language", "target_language")
)
_NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip


class _LibreBody(BaseModel):
    """The fields that LibreTranslate has; unknown ones are left alone, as it does."""

    q: str | list[str]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0


class _DetectBody(BaseModel):
    """A text whose language is asked for."""

    q: str | list[str]


def libre_routes(service: Service, key: str | None) -> APIRouter:
    """Makes the routes of one service; whoever sends no header may send `api_key`."""
    router = APIRouter(tags=["LibreTranslate"], default_response_class=JsonAnswer)
    routes = _LibreRoutes(service, key)
    for path, handle, method, summary in (
        ("/translate", routes.translate, "POST", "Translate a text, a list of texts or HTML"),
        ("/detect", routes.detect, "POST", "Name the source language, if there is one"),
        ("/languages", routes.languages, "GET", "List languages and what each is translated to"),
        ("/frontend/settings", routes.settings, "GET", "Tell a page of LibreTranslate the limits"),
        ("/health", routes.health, "GET", "Work can be done now"),
    ):
        body, answer = LIBRE_EXAMPLES[path.strip("/")]
        content = {"application/json": {"schema": {"type": "object"}, "example": body}}
        extra = {} if body is None else {"requestBody": {"content": content, "required": True}}
        good = {"description": "An answer.", "content": {"application/json": {"example": answer}}}
        router.add_api_route(
            path,
            handle,
            methods=[method],
            summary=summary,
            responses={200: good},
            openapi_extra=extra,
        )
    return router


class _LibreRoutes:
    """Answers as LibreTranslate does."""

    def __init__(self, service: Service, key: str | None) -> None:
        self._service, self._key = service, key

    async def translate(self, request: Request) -> JsonAnswer:
        """Translates a text or a list of texts."""
        body = _validate(_LibreBody, await self._fields(request))
        texts = body.q if isinstance(body.q, list) else [body.q]
        model = self._model(body.source, body.target)
        check_texts(self._service.limits, "q", texts)
        decoding = Decoding(nbest=body.alternatives + 1) if body.alternatives else Decoding()
        check_beam(self._service.limits, decoding)
        task = TranslateTask(model, self._service.metrics, decoding)
        if body.format == "html":
            found = await self._translate_html(request, task, texts)
        else:
            answers = await self._service.run(request, task, [(text, "") for text in texts])
            found = [_all_texts(each) for each in answers]
        return JsonAnswer(_libre_answer(body, found, _codes(model)[0]))

    async def _translate_html(
        self, request: Request, task: TranslateTask, fragments: Sequence[str]
    ) -> list[list[str]]:
        """Translates the text between tags, run by run."""
        cut = [HtmlTexts.of(each) for each in fragments]
        texts = [text for each in cut for text in each.texts]
        if len(texts) > (most := _RUNS * self._service.limits.texts):
            counts = f"{len(texts):,} texts between tags, and at most {most:,} are taken"
            raise ApiError(413, "too_many", f"{counts}: divide them into several requests")
        answers = iter(await self._service.run(request, task, [(text, "") for text in texts]))
        found = []
        for each in cut:
            own = [_all_texts(next(answers)) for _ in each.texts]
            number = min(map(len, own), default=1)
            found.append([each.filled([run[k] for run in own]) for k in range(number)])
        return found

    async def detect(self, request: Request) -> JsonAnswer:
        """Names the source language, if the server has one: it knows no others."""
        body = _validate(_DetectBody, await self._fields(request))
        check_texts(self._service.limits, "q", body.q if isinstance(body.q, list) else [body.q])
        known = {_codes(each)[0] for each in self._service.shelf.models}
        if len(known) > 1:
            raise ApiError(400, "cannot_detect", _many(known))
        return JsonAnswer([_detected(code) for code in known])

    async def languages(self, request: Request) -> JsonAnswer:
        """Lists the languages, with those that each can be translated to."""
        await self._fields(request)
        pairs = [_codes(each) for each in self._service.shelf.models]
        codes = dict.fromkeys(code for pair in pairs for code in pair)
        return JsonAnswer(
            [
                {**_language(code), "targets": [t for s, t in dict.fromkeys(pairs) if s == code]}
                for code in codes
            ]
        )

    async def settings(self) -> JsonAnswer:
        """Says what a page of LibreTranslate asks first."""
        source, target = _codes(self._service.shelf.models[0])
        return JsonAnswer(
            {
                "apiKeys": self._key is not None,
                "keyRequired": self._key is not None,
                "charLimit": self._service.limits.characters,
                "frontendTimeout": 500,
                "language": {"source": _language(source), "target": _language(target)},
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def health(self) -> JsonAnswer:
        """Says if work can be done."""
        self._service.check_ready()
        return JsonAnswer({"status": "ok"})

    async def _fields(self, request: Request) -> dict[str, Any]:
        """Reads JSON or a form, and refuses a wrong key."""
        body, kind = await request.body(), request.headers.get("content-type", "").lower()
        fields: Any = dict(request.query_params) if request.method == "GET" else {}
        if kind.startswith("application/json") and (body or request.method == "POST"):
            fields = read_json(body)
        elif body:
            fields |= _read_form(body)
        if not isinstance(fields, dict):
            raise ApiError(422, "invalid", "the body must be an object: see /docs")
        given = sent_key(request.headers) or fields.get("api_key")
        if not is_right_key(given if isinstance(given, str) else None, self._key):
            raise ApiError(403, "wrong_key", "a wrong api_key: send that of this server")
        return fields

    def _model(self, source: str, target: str) -> ServedModel:
        """Finds the first model of a pair; "auto" is the only source of the target."""
        models = self._service.shelf.models
        fitting = [m for m in models if _codes(m)[1] == target and source in (_AUTO, _codes(m)[0])]
        sources = {_codes(each)[0] for each in fitting}
        if not fitting:
            known = ", ".join("-".join(_codes(each)) for each in models)
            pair = f"{shorten(source, 20)} to {shorten(target, 20)}"
            raise ApiError(400, "unknown_language", f"no model translates {pair}; known: {known}")
        if len(sources) > 1:
            raise ApiError(400, "cannot_detect", _many(sources))
        return fitting[0]


def _validate(kind: Any, fields: dict[str, Any]) -> Any:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise first_mistake(error.errors(include_input=False)) from None


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except (UnicodeDecodeError, ValueError):
        raise ApiError(400, "not_a_form", "the body is no form in UTF-8: mend it") from None
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _libre_answer(body: _LibreBody, found: Sequence[list[str]], source: str) -> dict[str, Any]:
    """Words the answer; a list was asked for if `q` is one."""
    one = not isinstance(body.q, list)
    texts, others = [each[0] for each in found], [each[1:] for each in found]
    answer: dict[str, Any] = {"translatedText": texts[0] if one else texts}
    if body.source == _AUTO:
        detected = [_detected(source) for _ in found]
        answer["detectedLanguage"] = detected[0] if one else detected
    if body.alternatives:
        answer["alternatives"] = others[0] if one else others
    return answer


def _all_texts(answer: dict[str, Any]) -> list[str]:
    return [answer["text"], *(each["text"] for each in answer["alternatives"])]


def _codes(model: ServedModel) -> tuple[str, str]:
    source, target = model.languages
    return source or _UNKNOWN[0], target or _UNKNOWN[1]


def _language(code: str) -> dict[str, str]:
    return {"code": code, "name": _NAMES.get(code, code)}


def _detected(code: str) -> dict[str, Any]:
    """Says the only language that it can be; whether it is, no model has looked."""
    return {"confidence": 100.0, "language": code}


def _many(codes: set[str]) -> str:
    return f"this server cannot tell {', '.join(sorted(codes))} apart: name the source"
