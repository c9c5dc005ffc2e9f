"""The application and its server: who may ask, headers of every answer, sockets and signals.

SIGTERM and SIGINT let the requests that run finish; a second one ends them. SIGHUP loads the models
again.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from untold.errors import UntoldError, shorten
from untold.interruption import last_line, tolerate_signals
from untold.serve.routes import LIBRE_PATHS, api, is_right_key, libre, sent_key
from untold.serve.schemas import (
    ApiError,
    JsonAnswer,
    first_mistake,
    internal_error,
    not_ready,
    report_unexpected,
)
from untold.serve.service import Service
from untold.version import __version__
from untold.web import asset

_PROBES = frozenset({"/livez", "/healthz", "/readyz", "/metrics"})
# Whatever is not listed here needs the key: the page asks for it, and probes need none.
_OPEN = LIBRE_PATHS | {"/", "/openapi.json", "/livez", "/healthz", "/readyz"}
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
_REFUSALS = (ApiError, HTTPException, RequestValidationError)
_GONE = 499  # nobody reads this status
_UNREAD = 60_000  # milliseconds that a client may leave what was sent to it
_MANY = 1_000_000  # signals that this server handles by itself
_SWITCH = 0.001  # seconds that the worker may compute before the loop gets its turn


@dataclass(frozen=True)
class AccessRules:
    """Says who may ask; without a key everybody may who can reach the server."""

    hosts: frozenset[str]  # names that the Host header may have; none means any
    origins: frozenset[str] = frozenset()  # other origins whose pages may ask
    key: str | None = None


def build_application(service: Service, rules: AccessRules) -> FastAPI:
    """Makes the application of one service."""
    app = FastAPI(
        title="untold",
        version=__version__,
        description="Translation that knows what it has said and what is still untold.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(
            (ApiError, HTTPException, RequestValidationError), _refuse
        ),
    )
    app.state.service, app.state.key = service, rules.key
    app.include_router(api)
    app.include_router(libre)
    _add_page(app)
    _add_probes(app, service)
    # The last one is the first to see a request.
    app.add_middleware(_AccessControl, rules=rules)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=rules.origins,
        allow_methods=("GET", "POST"),
        allow_headers=("authorization", "content-type"),
    )
    hosts = list(rules.hosts) or ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(_Answers, service=service)
    return app


def _add_page(app: FastAPI) -> None:
    def answer(name: str) -> Response:
        try:
            content, media_type = asset(name)
        except KeyError:
            raise ApiError(404, "not_found", "there is no such file: see / for the page") from None
        return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return answer(name)


def _add_probes(app: FastAPI, service: Service) -> None:
    @app.get("/livez", tags=["probes"], summary="The process runs")
    @app.get("/healthz", tags=["probes"], summary="The process runs, as /livez says")
    async def livez() -> JsonAnswer:
        return JsonAnswer({"status": "ok"})

    @app.get("/readyz", tags=["probes"], summary="Work can be done now")
    async def readyz() -> JsonAnswer:
        service.check_ready()
        return JsonAnswer({"status": "ok"})

    @app.get("/metrics", tags=["probes"], summary="Counts and times for Prometheus")
    async def metrics() -> Response:
        text = generate_latest(service.metrics.registry)
        return Response(text, media_type="text/plain; version=0.0.4")


async def _refuse(request: Request, error: Any) -> Response:
    if isinstance(error, RequestValidationError):
        error = first_mistake(error.errors())
    elif isinstance(error, HTTPException):
        code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
        message = f"{error.detail}: see /openapi.json for what there is"
        error = ApiError(error.status_code, code, message, dict(error.headers or {}))
    return _refusal_answer(error, request.url.path)


def _refusal_answer(error: ApiError, path: str) -> JsonAnswer:
    """Makes the answer of a refusal; clients of LibreTranslate expect a sentence alone."""
    record = {"error": error.message} if path in LIBRE_PATHS else error.as_record()
    return JsonAnswer(record, error.status, error.headers)


class _Answers:
    """Counts the answers, gives headers to all, and turns mistakes of ours into answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever happens."""
        began, service, status = time.perf_counter(), self._service, _GONE
        # uvicorn drops the body of the answer.
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        async def refuse(error: ApiError) -> None:
            if status == _GONE:  # no answer has begun
                await _refusal_answer(error, scope["path"])(scope, receive, answer)

        is_work = scope["path"] not in _PROBES
        service.running += is_work
        try:
            await self._app(asked, receive, answer)
        except (ClientDisconnect, ConnectionError):
            pass
        except asyncio.CancelledError:  # the server ends before the work does
            await refuse(not_ready("the server stopped before its answer"))
            raise
        except Exception as error:
            report_unexpected(error)
            await refuse(internal_error())
        finally:
            service.running -= is_work
            route = getattr(asked.get("route"), "path", "other")  # not what a user made up
            service.metrics.requests.labels(route, str(status)).inc()
            service.metrics.latency.labels(route).observe(time.perf_counter() - began)


class _AccessControl:
    """Refuses pages of other origins, and whoever does not know the key."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request or passes it on."""
        headers, path = Headers(scope=scope), scope["path"]
        try:
            self._check_origin(scope["method"], headers)
            if path not in _OPEN and not path.startswith("/static/"):
                self._check_key(headers)
        except ApiError as error:
            await _refusal_answer(error, path)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """A browser would send requests of other pages even to localhost."""
        origin = headers.get("origin")
        if origin is None:
            is_other = method == "POST" and headers.get("sec-fetch-site") == "cross-site"
        else:
            is_own = _host_and_port(origin) == headers.get("host")
            is_other = not is_own and origin not in self._rules.origins
        if is_other:
            name = shorten(origin or "of another site")
            cure = "open the page of this server, or start it with --allow-origin ORIGIN"
            raise ApiError(403, "other_origin", f"the origin {name} may not ask here: {cure}")

    def _check_key(self, headers: Headers) -> None:
        if not is_right_key(sent_key(headers), self._rules.key):
            cure = "send the header Authorization: Bearer KEY"
            reason = f"this server needs its API key: {cure}"
            raise ApiError(401, "wrong_key", reason, {"www-authenticate": "Bearer"})


def _host_and_port(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def bind_socket(host: str, port: int) -> socket.socket:
    """Takes the port; nothing is accepted before the server runs."""
    bound: socket.socket | None = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small packets at once (TCP_NODELAY) only where TCP is named.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit this; without it those who read no answer would stay.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        bound.bind((host, port))
    except OSError as error:
        if bound is not None:
            bound.close()
        cure = "choose another --host or --port, or end the program that uses it"
        raise UntoldError(f"{host}:{port}: {error.strerror or error}: {cure}") from None
    return bound


class _PatientProtocol(H11Protocol):
    """Closes a connection whose next request does not arrive as fast as it may be idle.

    uvicorn's own clock stops with the first byte.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class HttpServer(uvicorn.Server):
    """Serves one application on one socket until a signal ends it."""

    def __init__(self, app: ASGIApp, service: Service, bound: socket.socket) -> None:
        limits = service.limits
        config = uvicorn.Config(
            app,
            http=_PatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections + 1,
            timeout_keep_alive=max(1, round(limits.read_seconds)),
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._service, self._socket, self._received = service, bound, 0
        for name in ("uvicorn", "uvicorn.error"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `_heed`."""
        yield

    def serve_until_stopped(self, announce: Callable[[], None]) -> int:
        """Serves, after saying so; returns the exit code of the signal that ended it."""
        sys.setswitchinterval(_SWITCH)
        tolerate_signals(_MANY)
        self._announce = announce
        asyncio.run(self.serve([self._socket]))
        return 128 + self._received

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Heeds signals, listens and says so."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Under nohup SIGHUP is ignored at first; it ends nothing here, so it is heeded anyway.
            if number == signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._heed, number)
        await super().startup(sockets)
        self._announce()

    def _heed(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._reloading = asyncio.create_task(self._reload())
        elif self.should_exit:
            return
        elif self._received:
            self._draining.cancel()
            self._end()
        else:
            self._received = number
            self._service.queue.close()  # what runs or waits is still done
            self._draining = asyncio.create_task(self._drain())

    async def _reload(self) -> None:
        line = await asyncio.to_thread(self._service.reload)
        print(f"untold: {line}", file=sys.stderr, flush=True)

    async def _drain(self) -> None:
        """Waits for the requests that run, while probes already learn that it is stopping."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._service.limits.drain_seconds
        while self._service.running and loop.time() < end:
            await asyncio.sleep(0.02)
        self._end()

    def _end(self) -> None:
        """Ends the server; requests that still run are broken off."""
        running = self._service.running
        broken = f"{running} request{' was' if running == 1 else 's were'} broken off"
        account = broken if running else "all requests were answered"
        print(last_line(self._received, account), file=sys.stderr, flush=True)
        self.should_exit, self.force_exit = True, bool(running)
