"""Answers of the service: JSON, and events one after the other."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from untold.errors import shorten
from untold.serve.api_errors import ApiError, ClientGoneError
from untold.serve.work.batch_worker import report_unexpected
from untold.serve.work.live_stream import StreamEvent

_LIBRE = frozenset({"/translate", "/detect", "/languages", "/frontend/settings", "/health"})
_SEND_SECONDS = 30.0  # that a client may take to read one event


class JsonAnswer(Response):
    """An answer in JSON as the standard has it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encodes what is not encoded yet."""
        return content if isinstance(content, bytes) else encode_json(content)


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
                await _send(send, self._first)
                async for event in events:
                    await _send(send, event)
            except (ClientGoneError, TimeoutError):
                return
            except ApiError as error:
                await _send(send, StreamEvent("error", error.as_record()))
            except Exception as error:
                report_unexpected(error)
                await _send(send, StreamEvent("error", internal_error().as_record()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encode_json(content: Any) -> bytes:
    """Encodes JSON in UTF-8."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def refusal_answer(error: ApiError, path: str) -> JsonAnswer:
    """Makes the answer of a refusal; clients of LibreTranslate expect a sentence alone."""
    record = {"error": error.message} if path in _LIBRE else error.as_record()
    return JsonAnswer(record, error.status, error.headers)


def first_mistake(mistakes: Sequence[Any]) -> ApiError:
    """Names the first field that is wrong and what it should be, but not what it is."""
    first = mistakes[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    reason = str(first["msg"])
    message = f"{shorten(place)}: {reason[:1].lower()}{reason[1:]}: see /docs"
    return ApiError(422, "invalid", message)


def internal_error() -> ApiError:
    """Says that the mistake is ours, and nothing else."""
    return ApiError(500, "internal", "a mistake in untold: its log says where")


async def _send(send: Send, event: StreamEvent) -> None:
    data = event.data if isinstance(event.data, bytes) else encode_json(event.data)
    body = b"event: %b\ndata: %b\n\n" % (event.name.encode(), data)
    async with asyncio.timeout(_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})
