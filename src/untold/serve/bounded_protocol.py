"""Connections that may neither be too many nor keep the server waiting for a request."""

import asyncio
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from untold.serve.answers import encode_json
from untold.serve.api_errors import ApiError, not_ready
from untold.serve.service_limits import ServiceLimits

KEEP_ALIVE = 15  # seconds that a connection may be idle between two requests
_UNREAD = 60_000  # milliseconds that a client may leave what was sent to it


class BoundedProtocol(H11Protocol):
    """Closes a connection whose next request does not arrive in time."""

    limits: ClassVar[ServiceLimits] = ServiceLimits()
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        own = transport.get_extra_info("socket")
        if own is not None and own.family != socket.AF_UNIX:  # for those who read no answers
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        if len(self.connections) > self.limits.connections:
            most = f"{self.limits.connections} connections are open, which is the limit"
            self._end_with(not_ready(most))
        self._wait_for_head(self.limits.read_seconds)

    def data_received(self, data: bytes) -> None:
        """Goes on waiting while a head is not complete."""
        super().data_received(data)
        self._wait_for_head(self.limits.read_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP."""
        self._end_with(ApiError(400, "not_http", f"{msg.rstrip('.')}: send HTTP/1.1"))

    def _wait_for_head(self, seconds: float) -> None:
        """Starts the clock unless it runs, or a request is being answered."""
        if self._patience is None and not self._is_answering():
            self._patience = self.loop.call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        if self._is_answering():
            return
        if self.timeout_keep_alive_task is not None:  # idle between requests, which has its clock
            return
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end_with(self, error: ApiError) -> None:
        body = encode_json(error.as_record())
        head = f"HTTP/1.1 {error.status} Refused\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


def bounded_protocol(limits: ServiceLimits) -> type[BoundedProtocol]:
    """Makes the protocol of a server with these limits."""
    return type("LimitedProtocol", (BoundedProtocol,), {"limits": limits})
