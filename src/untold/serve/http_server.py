"""Runs the application: a socket, patience with slow clients, and signals.

SIGTERM and SIGINT let the requests that run finish; a second one ends them. SIGHUP loads the models
again.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from untold.errors import UntoldError
from untold.interruption import last_line, tolerate_signals
from untold.serve.bounded_protocol import KEEP_ALIVE, bounded_protocol
from untold.serve.service import Service

_MANY = 1_000_000  # signals that this server handles by itself
_SWITCH = 0.001  # seconds that the worker may compute before the loop gets its turn


def bind_socket(host: str, port: int) -> socket.socket:
    """Takes the port; nothing is accepted before the server runs."""
    found: socket.socket | None = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends small packets at once (TCP_NODELAY) only where TCP is named.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        if found is not None:
            found.close()
        cure = "choose another --host or --port, or end the program that uses it"
        raise UntoldError(f"{host}:{port}: {error.strerror or error}: {cure}") from None
    return found


class _QuietServer(uvicorn.Server):
    """A server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles none."""
        yield


class HttpServer:
    """Serves one application on one socket until a signal ends it."""

    def __init__(self, app: ASGIApp, service: Service, bound: socket.socket) -> None:
        self._service, self._socket, self._received = service, bound, 0
        config = uvicorn.Config(
            app,
            http=bounded_protocol(service.limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=1,
        )
        self._server = _QuietServer(config)
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    def run(self, announce: Callable[[], None]) -> int:
        """Serves, after saying so; returns the exit code of the signal that ended it."""
        sys.setswitchinterval(_SWITCH)
        tolerate_signals(_MANY)
        asyncio.run(self._serve(announce))
        return 128 + self._received

    async def _serve(self, announce: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Under nohup SIGHUP is ignored at first; it ends nothing here, so it is heeded anyway.
            if number == signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._heed, number)
        serving = asyncio.create_task(self._server.serve([self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        announce()
        await serving

    def _heed(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._reloading = asyncio.create_task(self._reload())
        elif self._server.should_exit:
            return
        elif self._received:
            self._draining.cancel()
            self._end()
        else:
            self._received = number
            self._service.drain()
            self._draining = asyncio.create_task(self._drain())

    async def _reload(self) -> None:
        _say(await asyncio.to_thread(self._service.reload))

    async def _drain(self) -> None:
        """Waits for the requests that run, while probes already learn that it is stopping."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._service.limits.drain_seconds
        while self._service.running and loop.time() < end:
            await asyncio.sleep(0.02)
        self._end()

    def _end(self) -> None:
        """Ends the server; requests that still run are broken off."""
        left = self._service.running
        broken = f"{left} request{' was' if left == 1 else 's were'} broken off"
        account = broken if left else "all requests were answered"
        print(last_line(self._received, account), file=sys.stderr, flush=True)
        self._server.should_exit = True
        self._server.force_exit = bool(left)


def _say(line: str) -> None:
    print(f"untold: {line}", file=sys.stderr, flush=True)
