"""What requests may hold and how they are answered: limits, refusals, JSON, events and bodies."""

import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from untold.errors import UntoldError, one_line, shorten

_MOST = 10**9
_BODIES = 16  # of the largest size may be in memory at a time
_SEND_SECONDS = 30.0  # that a client may take to read one event
_UNPARSED = object()

STATUSES = {  # that a request may be refused with, for the documentation
    400: "The body is not JSON or not UTF-8, or the `Host` is not a name of this server.",
    401: "The API key is missing or wrong.",
    403: "The page of another origin asks, or `api_key` is wrong.",
    408: "The body arrives too slowly.",
    413: "The body, a text or a file is too long, or there are too many of them.",
    415: "The body is not called JSON.",
    422: "A field is missing, unknown or beyond its limit, or the model cannot do it.",
    429: "Too many requests wait; `Retry-After` says when to try again.",
    503: "The server starts, stops, or has too many connections.",
    504: "There was no answer in time.",
}


@dataclass(frozen=True)
class ServiceLimits:
    """Says how much one request may ask for, and how much all of them together may hold."""

    characters: int = 2000  # of a text to translate
    pair_characters: int = 1000  # of each side of a pair: its cost grows with their product
    texts: int = 64  # of one request; also pairs
    beam: int = 16
    nbest: int = 16
    file_bytes: int = 4 << 20  # of a file to check
    segments: int = 5000  # of a file to check
    queue: int = 128  # requests that wait
    streams: int = 32  # that run at a time; more of them wait
    connections: int = 512
    seconds: float = 60.0  # for the answer to one request, from its last byte on
    read_seconds: float = 10.0  # for the head of a request, and again for its body
    drain_seconds: float = 20.0  # for the requests that run when the server is told to stop
    batch_texts: int = 64  # texts of several requests that are translated together
    batch_characters: int = 8000  # and how long they are together

    @property
    def body_bytes(self) -> int:
        """Leaves room for the largest request that the other limits allow, as JSON may write it."""
        longest = max(self.characters, self.pair_characters)
        pairs = self.texts * 2 * 6 * longest  # \u00e9 is six bytes
        return max(pairs, self.file_bytes * 4 // 3) + (64 << 10)

    def check_texts(self, field: str, texts: Sequence[str]) -> None:
        """Refuses too many texts, and texts that are too long to be translated."""
        self._check_lengths(field, list(map(len, texts)), self.characters)

    def check_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Refuses too many pairs, and pairs that are too long to be read."""
        self._check_lengths("pairs", [max(map(len, pair)) for pair in pairs], self.pair_characters)

    def _check_lengths(self, field: str, lengths: Sequence[int], most: int) -> None:
        if len(lengths) > self.texts:
            counts = f"{field}: {len(lengths):,}, and at most {self.texts:,} are taken at once"
            raise ApiError(413, "too_many", f"{counts}: divide them into several requests")
        for number, length in enumerate(lengths, start=1):
            if length > most:
                sizes = f"{length:,} characters, and at most {most:,} are taken"
                place = f"{field} {number}" if len(lengths) > 1 else field
                raise ApiError(413, "too_long", f"{place} has {sizes}: divide it")

    def check_search(self, beam: int | None, nbest: int | None) -> None:
        """Refuses settings of the search that would cost too much."""
        for name, value, most in (("beam", beam, self.beam), ("nbest", nbest, self.nbest)):
            if value is not None and value > most:
                raise unfit(f"{name}_too_large", f"{name} {value}: at most {most} here; lower it")
        if beam is not None and nbest is not None and nbest > beam:
            raise unfit("nbest_too_large", f"nbest {nbest} needs a beam as wide: raise beam")


def read_limits(given: Sequence[str]) -> ServiceLimits:
    """Reads limits such as characters=5000; the others keep their defaults."""
    limits = ServiceLimits()
    types = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}
    for setting in given:
        name, _, text = setting.partition("=")
        if name not in types:
            names = ", ".join(types)
            raise UntoldError(f"--limit {shorten(setting)}: unknown limit; known: {names}")
        is_whole = types[name] is int
        try:
            number = types[name](text)
        except ValueError:
            number = 0
        least = 1 if is_whole else 0.01
        if not least <= number <= _MOST:
            wanted = "a whole number" if is_whole else "a number of seconds"
            bounds = f"from {least:g} to {_MOST:,}"
            raise UntoldError(f"--limit {shorten(setting)}: must be {wanted} {bounds}")
        limits = replace(limits, **{name: number})
    return limits


class ApiError(Exception):
    """Refuses a request; its message names the value, the limit and the cure."""

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.message = one_line(message)
        self.headers = headers or {}

    def as_record(self) -> dict[str, Any]:
        """Converts the refusal for JSON."""
        return {"error": {"code": self.code, "message": self.message}}


def unfit(code: str, message: str) -> ApiError:
    """Refuses a value that is well-formed but not allowed."""
    return ApiError(422, code, message)


def not_ready(reason: str) -> ApiError:
    """Refuses a request because the server cannot work now."""
    return ApiError(503, "not_ready", f"{reason}: try again later", {"retry-after": "5"})


def internal_error() -> ApiError:
    """Says that the mistake is ours, and nothing else."""
    return ApiError(500, "internal", "a mistake in untold: its log says where")


def report_unexpected(error: BaseException) -> None:
    """Says on standard error where a mistake of ours is; its message may hold text of users."""
    place, trail = "unknown", error.__traceback__
    while trail is not None:
        place = f"{trail.tb_frame.f_globals.get('__name__')}:{trail.tb_lineno}"
        trail = trail.tb_next
    print(f"untold: unexpected {type(error).__name__} at {place}", file=sys.stderr, flush=True)


def first_mistake(mistakes: Sequence[Any]) -> ApiError:
    """Names the first field that is wrong and what it should be, but not what it is."""
    first = mistakes[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    reason = str(first["msg"])
    message = f"{shorten(place)}: {reason[:1].lower()}{reason[1:]}: see /openapi.json"
    return ApiError(422, "invalid", message)


def encode_json(content: Any) -> bytes:
    """Encodes JSON in UTF-8; half a character, which files in JSON may hold, becomes an escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def read_json(body: bytes) -> Any:
    """Reads JSON in UTF-8 without NaN, infinities, halves of characters or a name given twice."""
    try:
        value = json.loads(
            body.decode(),
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_distinct_names,
        )
        if b"\\ud" in body.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        reason = "it is nested too deeply: write it with fewer levels"
    except UnicodeEncodeError:
        reason = r"it holds half of a character (\ud800 to \udfff alone)"
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8: encode it as UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at')} at character {error.pos + 1}: mend it"
    except ValueError as error:
        reason = str(error)
    else:
        return value
    raise ApiError(400, "not_json", f"the body is not JSON: {reason}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: leave it out")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large: write a smaller one")
    return number


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{shorten(name)} is there twice: leave one of them out")
        values[name] = value
    return values


class BoundedRequest(Request):
    """A request whose body must be small and arrive in time, and whose JSON must be strict."""

    total_held: ClassVar[int] = 0  # bytes of the bodies of all requests that are being answered
    limits = ServiceLimits()
    held = 0  # bytes of this one
    content: bytes | None = None
    parsed: Any = _UNPARSED

    async def body(self) -> bytes:
        """Reads the body once."""
        if self.content is None:
            try:
                async with asyncio.timeout(self.limits.read_seconds):
                    self.content = await self._read()
            except TimeoutError:
                seconds = f"{self.limits.read_seconds:g} s"
                reason = f"the body did not arrive within {seconds}: send it faster"
                raise ApiError(408, "slow_body", reason, {"connection": "close"}) from None
        return self.content

    async def _read(self) -> bytes:
        """Reads to the end, for a client that still sends would not see a refusal."""
        most, parts, size = self.limits.body_bytes, [], 0
        async for part in self.stream():
            size += len(part)
            if size <= most:
                parts.append(part)
                self.held += len(part)
                BoundedRequest.total_held += len(part)
            if BoundedRequest.total_held > _BODIES * most:
                raise not_ready("too many large bodies are being read")
        if size > most:
            reason = f"the body has more than {most:,} bytes: divide it into several requests"
            raise ApiError(413, "body_too_large", reason, {"connection": "close"})
        return b"".join(parts)

    async def json(self) -> Any:
        """Parses the body once."""
        if self.parsed is _UNPARSED:
            self.parsed = read_json(await self.body())
        return self.parsed

    def release(self) -> None:
        """Forgets how large the body was."""
        BoundedRequest.total_held -= self.held
        self.held = 0


class JsonAnswer(Response):
    """An answer in JSON as the standard has it; bytes are encoded already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encodes what is not encoded yet."""
        return content if isinstance(content, bytes) else encode_json(content)


@dataclass(frozen=True)
class StreamEvent:
    """An event by its name, with what JSON can hold."""

    name: str
    data: dict[str, Any] | bytes  # bytes are JSON already


class EventStream(Response):
    """Server-sent events, each sent as soon as it is there."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[StreamEvent], first: StreamEvent) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events, self._first = events, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends all events; whoever leaves stops the work, for the iterator is closed."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._events) as events:  # type: ignore[type-var]
            try:
                await _send_event(send, self._first)
                async for event in events:
                    await _send_event(send, event)
            except (ClientDisconnect, TimeoutError):
                return
            except ApiError as error:
                await _send_event(send, StreamEvent("error", error.as_record()))
            except Exception as error:
                report_unexpected(error)
                await _send_event(send, StreamEvent("error", internal_error().as_record()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_event(send: Send, event: StreamEvent) -> None:
    data = event.data if isinstance(event.data, bytes) else encode_json(event.data)
    body = b"event: %b\ndata: %b\n\n" % (event.name.encode(), data)
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


ModelName = Annotated[
    str | None, Field(description="The name of a model; the first one if it is left out.")
]
Beam = Annotated[int | None, Field(ge=1, description="Hypotheses kept at each step.")]
LengthPenalty = Annotated[
    float | None, Field(ge=0, le=10, description="Larger values prefer longer translations.")
]


class _Body(BaseModel):
    """Refuses fields that it does not know, and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


def _example(**values: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [values]})


_SENTENCE = "The child reads a book ."
_PAIR_EXAMPLE = _example(pairs=[{"source": _SENTENCE, "target": "Das Kind liest ."}])


class TranslateBody(_Body):
    """Texts to translate."""

    model_config = _example(texts=[_SENTENCE], beam=4)
    model: ModelName = None
    texts: Annotated[list[str], Field(min_length=1, description="Texts in the source language.")]
    beam: Beam = None
    nbest: Annotated[int | None, Field(ge=1, description="Translations of each text.")] = None
    length_penalty: LengthPenalty = None
    prefixes: Annotated[
        list[str] | None, Field(description="How each translation must begin, one for each text.")
    ] = None
    trace: Annotated[bool, Field(description="Say how each translation came about.")] = False


class ExplainedPair(_Body):
    """A source and, unless the model is to translate it, its translation."""

    source: str
    target: str | None = None


class ExplainBody(_Body):
    """Pairs to explain."""

    model_config = _PAIR_EXAMPLE
    model: ModelName = None
    pairs: Annotated[
        list[ExplainedPair],
        Field(min_length=1, description="Objects with source and, unless to be found, target."),
    ]


class CheckedPair(_Body):
    """A source and its translation."""

    source: str
    target: str


class FileBody(_Body):
    """A file with translations; its name says what format it has."""

    name: str
    content: Annotated[str, Field(description="The bytes of the file in base64.")]


class CheckBody(_Body):
    """Pairs or a file to check."""

    model_config = _PAIR_EXAMPLE
    model: ModelName = None
    pairs: Annotated[
        list[CheckedPair] | None,
        Field(min_length=1, description="Objects with source and target."),
    ] = None
    file: Annotated[
        FileBody | None, Field(description="Or a file: its name, and its content in base64.")
    ] = None
    threshold: Annotated[
        float, Field(ge=0, le=1, description="Report words from this probability on.")
    ] = 0.5
    expected: Annotated[
        float, Field(ge=0.001, le=0.999, description="The share of pairs with a mistake.")
    ] = 0.1
    stream: Annotated[
        bool, Field(description="Send events: progress now and then, and the answer as end.")
    ] = False


class StreamBody(_Body):
    """A text to translate step by step."""

    model_config = _example(text=_SENTENCE)
    model: ModelName = None
    text: Annotated[str, Field(description="A text in the source language.")]
    prefix: Annotated[str, Field(description="How the translation must begin.")] = ""
    beam: Beam = None
    length_penalty: LengthPenalty = None


class LibreBody(BaseModel):
    """The fields that LibreTranslate has; unknown ones are left alone, as it does."""

    model_config = _example(q=_SENTENCE, source="en", target="de")
    q: Annotated[str | list[str], Field(description="A text or a list of texts.")]
    source: Annotated[str, Field(description="The code of a language, or auto.")]
    target: Annotated[str, Field(description="The code of a language.")]
    format: Annotated[Literal["text"], Field(description="HTML is not translated.")] = "text"
    alternatives: Annotated[int, Field(ge=0, description="Further translations.")] = 0
    api_key: Annotated[str | None, Field(description="Instead of the header.")] = None
