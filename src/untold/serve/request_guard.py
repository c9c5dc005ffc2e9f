"""The guard before all routes: hosts, origins, keys, sizes and times, and headers of every answer.

It reads the whole body before anything looks at it, so that limits hold while bytes arrive.
"""

import asyncio
import hmac
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from untold.errors import shorten
from untold.serve.answers import internal_error, refusal_answer
from untold.serve.api_errors import ApiError, ClientGoneError, not_ready
from untold.serve.service import Service
from untold.serve.work.batch_worker import report_unexpected

# Whatever is not listed here needs the key: the page asks for it, and probes need none.
_OPEN = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/livez", "/readyz", "/health"})
_KEY_IN_BODY = frozenset({"/translate", "/detect", "/languages"})  # their routes ask for the key
_FORMS = frozenset({"/translate", "/detect"})
_ROUTES = _OPEN | _KEY_IN_BODY | {"/metrics", "/frontend/settings"}
_ROUTES |= {f"/v1/{name}" for name in ("models", "translate", "explain", "check", "stream")}
_PROBES = frozenset({"/healthz", "/livez", "/readyz", "/health", "/metrics"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_BODIES = 16  # of the largest size may be in memory at a time
_LINGER = 2.0  # seconds in which the rest of a body that is too large may still arrive


@dataclass(frozen=True)
class GuardRules:
    """Says who may ask; without a key everybody may who can reach the server."""

    hosts: frozenset[str]  # names that the Host header may have; none means any
    origins: frozenset[str] = frozenset()  # other origins whose pages may ask
    key: str | None = None


def is_right_key(given: str | None, key: str | None) -> bool:
    """Compares keys in a time that does not depend on how much of them is right."""
    if key is None:
        return True
    return hmac.compare_digest((given or "").encode(errors="replace"), key.encode())


def sent_key(headers: Headers) -> str | None:
    """Returns the key of the header Authorization: Bearer KEY, if it is there."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


class RequestGuard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, service: Service, rules: GuardRules) -> None:
        self._app, self._service, self._rules = app, service, rules
        self._held = 0  # bytes of the bodies of all requests that are being answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever happens."""
        if scope["type"] != "http":
            return
        began, service, path = time.perf_counter(), self._service, scope["path"]
        answer = _Answer(send, self._answer_headers(Headers(scope=scope)))
        is_work = path not in _PROBES
        service.running += is_work
        try:
            await self._pass_on(scope, receive, answer)
        except ApiError as error:
            await answer.refuse(scope, receive, error)
        except (ClientGoneError, ConnectionError):
            pass
        except asyncio.CancelledError:  # the server ends before the work does
            await answer.refuse(scope, receive, not_ready("the server stopped before its answer"))
            raise
        except Exception as error:
            report_unexpected(error)
            await answer.refuse(scope, receive, internal_error())
        finally:
            service.running -= is_work
            self._held -= answer.held
            seconds = time.perf_counter() - began
            service.metrics.request(_route(path), answer.status, seconds)

    async def _pass_on(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        headers = Headers(scope=scope)
        self._check_host(headers)
        self._check_origin(scope["method"], headers)
        if scope["method"] == "OPTIONS" and "origin" in headers:
            await answer.allow_origin()
            return
        self._check_key(scope["path"], headers)
        if scope["method"] == "POST":
            _check_type(scope["path"], headers)
        body = await self._read_body(headers, receive, answer)
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        await self._app(asked, _Replay(body, receive), answer.send)  # the server drops the body

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        host = _address(f"//{given[0]}").hostname if len(given) == 1 else None
        if host is None or (self._rules.hosts and host not in self._rules.hosts):
            cure = "ask under a name of this server, or start it with --allow-host NAME"
            raise ApiError(421, "unknown_host", f"the Host {shorten(host)} is not ours: {cure}")

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Refuses pages of other origins: a browser would send their requests even to localhost."""
        origin = headers.get("origin")
        if origin is None:
            is_other = method == "POST" and headers.get("sec-fetch-site") == "cross-site"
        else:
            is_own = _address(origin).netloc == headers.get("host")
            is_other = not is_own and origin not in self._rules.origins
        if is_other:
            name = shorten(origin or "of another site")
            cure = "open the page of this server, or start it with --allow-origin ORIGIN"
            raise ApiError(403, "other_origin", f"the origin {name} may not ask here: {cure}")

    def _check_key(self, path: str, headers: Headers) -> None:
        if path in _OPEN or path in _KEY_IN_BODY or path.startswith("/static/"):
            return
        if is_right_key(sent_key(headers), self._rules.key):
            return
        raise ApiError(
            401,
            "wrong_key",
            "this server needs its API key: send the header Authorization: Bearer KEY",
            {"www-authenticate": "Bearer"},
        )

    async def _read_body(self, headers: Headers, receive: Receive, answer: "_Answer") -> bytes:
        limits, parts = self._service.limits, []
        declared = headers.get("content-length", "")
        if "expect" in headers and len(declared) > len(str(limits.body_bytes)):
            raise _too_large(limits.body_bytes)  # before the client sends it
        try:
            async with asyncio.timeout(limits.read_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    self._hold(answer, len(parts[-1]))
                    more = message.get("more_body", False)
                    if answer.held > limits.body_bytes:
                        parts.clear()
                        await _let_rest_arrive(receive, more)
                        raise _too_large(limits.body_bytes)
        except TimeoutError:
            reason = f"the body did not arrive within {limits.read_seconds:g} s: send it faster"
            raise ApiError(408, "slow_body", reason, {"connection": "close"}) from None
        return b"".join(parts)

    def _hold(self, answer: "_Answer", size: int) -> None:
        """Counts bytes that are in memory until the request is answered."""
        answer.held += size
        self._held += size
        if self._held > _BODIES * self._service.limits.body_bytes:
            raise not_ready("too many large bodies are being read")

    def _answer_headers(self, headers: Headers) -> dict[str, str]:
        origin = headers.get("origin")
        if origin is None or origin not in self._rules.origins:
            return _HEADERS
        allowed = {"access-control-allow-origin": origin, "vary": "Origin"}
        return _HEADERS | allowed | {"cross-origin-resource-policy": "cross-origin"}


class _Answer:
    """Sends an answer with the headers that all have, and remembers its status."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send, self._headers = send, headers
        self.status = 499  # the client left before there was one
        self.held = 0  # bytes of the body

    async def send(self, message: Message) -> None:
        """Passes a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, error: ApiError) -> None:
        """Answers with an error, unless an answer has begun already."""
        if self.status == 499:
            await refusal_answer(error, scope["path"])(scope, receive, self.send)

    async def allow_origin(self) -> None:
        """Answers the question of a browser whether its page may ask."""
        headers = [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})


class _Replay:
    """Gives a body that was read before, and then what comes after it."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        """Returns the next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _address(text: str) -> SplitResult:
    """Reads an address; one that is none has no parts."""
    try:
        found = urlsplit(text)
        _ = found.hostname  # looks at brackets
    except ValueError:
        return urlsplit("")
    return found


def _check_type(path: str, headers: Headers) -> None:
    """Refuses bodies that are not JSON; forms are for clients of LibreTranslate alone."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    allowed = ["application/json"]
    if path in _FORMS:
        allowed.append("application/x-www-form-urlencoded")
    if kind not in allowed or headers.get("content-encoding", "identity") != "identity":
        raise ApiError(415, "not_json", f"the body must be {' or '.join(allowed)}, not compressed")


async def _let_rest_arrive(receive: Receive, more: bool) -> None:
    """Drops what is still on its way: a client that is sending would not see the answer."""
    end = asyncio.get_running_loop().time() + _LINGER
    while more and asyncio.get_running_loop().time() < end:
        message = await receive()
        more = message["type"] != "http.disconnect" and message.get("more_body", False)


def _too_large(most: int) -> ApiError:
    return ApiError(
        413,
        "body_too_large",
        f"the body has more than {most:,} bytes: divide it into several requests",
        {"connection": "close"},
    )


def _route(path: str) -> str:
    """Names the route for the metrics; what users made up has no name of its own."""
    if path.startswith("/static/"):
        return "/static"
    return path if path in _ROUTES else "other"
