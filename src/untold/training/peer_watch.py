"""Notices at once that another process of a run has died, and says which.

Every process holds a connection to the main one. The kernel closes it when the process ends,
however it ends and whatever it was doing, and probes it when a machine falls silent. The main
process tells all others what it learns. NCCL would wait for a dead process until its timeout, and
so would a main process that validates for an hour.

A process that is alive but stopped keeps its connection: train.timeout_minutes is for that one.
"""

import contextlib
import json
import os
import re
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import torch.distributed as dist

from untold.errors import MISTAKE, one_line

_KEY = "untold/watch"
_CURE = "start the job again: it goes on from the last whole checkpoint"
_GREETING = 5.0  # seconds that a process has to say who it is
_GRACE = 3.0  # seconds that the main thread has to end by itself when another process is lost
_HOPE = 2.0  # seconds until the death of a process is known by name
# A machine that does not answer for about ten seconds is lost.
_PROBES = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}


@dataclass(frozen=True)
class Peer:
    """Names one process of a run."""

    rank: int
    host: str
    pid: int

    @classmethod
    def this(cls, rank: int) -> "Peer":
        """Describes this process."""
        return cls(rank, re.sub(r"[^\w.-]", "", socket.gethostname()), os.getpid())

    def __str__(self) -> str:
        return f"process {self.rank} of the run (pid {self.pid} on {self.host})"


class PeerWatch:
    """Watches all other processes in a thread; `lost` says in words who has gone."""

    def __init__(self, rank: int, world_size: int, store: dist.Store, timeout: float) -> None:
        self.lost: str | None = None
        self._known, self._closed = threading.Event(), threading.Event()
        self._me = Peer.this(rank)
        self._peers: dict[socket.socket, Peer] = {}
        if rank == 0:
            self._receive(world_size - 1, store, timeout)
        else:
            self._visit_main(store, timeout)
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def wait_for_name(self, seconds: float = _HOPE) -> str | None:
        """Says who was lost, after a call of torch.distributed failed; None if nobody was."""
        self._known.wait(seconds)
        return None if self.lost is None else f"{self.lost}; {_CURE}"

    def close(self, *, failed: bool) -> None:
        """Says goodbye: the others know that this process has not died."""
        self._closed.set()
        for connection in self._peers:
            _send(connection, {"end": "failed" if failed else "well", "peer": asdict(self._me)})
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    def _receive(self, others: int, store: dist.Store, timeout: float) -> None:
        """Waits, as the main process, for the others, who prove by a word that they are ours."""
        word, deadline = secrets.token_hex(16), time.monotonic() + timeout
        with _listen() as server:
            store.set(_KEY, json.dumps([server.getsockname()[1], word]))
            while len(self._peers) < others:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                connection, _ = server.accept()
                connection.settimeout(_GREETING)
                message = next(_messages(connection), {})
                if message.get("word") != word:  # a stranger
                    connection.close()
                    continue
                self._add(connection, Peer(**message["peer"]))

    def _visit_main(self, store: dist.Store, timeout: float) -> None:
        port, word = json.loads(store.get(_KEY))
        host = os.environ["MASTER_ADDR"]
        connection = socket.create_connection((host, port), timeout)
        _send(connection, {"word": word, "peer": asdict(self._me)})
        self._add(connection, Peer(0, re.sub(r"[^\w.:-]", "", host), 0))
        # The main process introduces itself, so that its death has a name, too.
        message = next(_messages(connection), None)
        if message is not None:
            self._peers[connection] = Peer(**message["peer"])

    def _add(self, connection: socket.socket, peer: Peer) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if hasattr(socket, name):  # Linux has them all
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._peers[connection] = peer
        if self._me.rank == 0:
            _send(connection, {"peer": asdict(self._me)})

    def _watch(self) -> None:
        """Listens to all connections until everyone has said goodbye or somebody is lost."""
        listening = selectors.DefaultSelector()
        for connection in self._peers:
            connection.setblocking(True)
            listening.register(connection, selectors.EVENT_READ)
        while listening.get_map() and self.lost is None:
            for key, _ in listening.select():
                connection: Any = key.fileobj
                message = next(_messages(connection), None)
                if message is not None and message.get("end") == "well":
                    listening.unregister(connection)
                    continue
                if not self._closed.is_set():
                    self._lose(self._describe(connection, message))
                return

    def _describe(self, connection: socket.socket, message: dict[str, Any] | None) -> str:
        if message is None:
            return f"{self._peers[connection]} has died"
        if "lost" in message:
            return one_line(str(message["lost"]))
        return f"{self._peers[connection]} has ended with an error, which its own message tells"

    def _lose(self, words: str) -> None:
        """Tells all; ends this process if its main thread does not end by itself."""
        self.lost = words
        self._known.set()
        if self._me.rank == 0:
            for connection in self._peers:
                _send(connection, {"lost": words})
        if not self._closed.wait(_GRACE):
            _end(words)


def _listen() -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", 0), family=family, backlog=1024, dualstack_ipv6=both)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody is there any more
        connection.sendall(json.dumps(message).encode() + b"\n")


def _messages(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Yields messages, one on each line, until the other side has ended or talks nonsense."""
    line = bytearray()
    with contextlib.suppress(OSError, ValueError):
        while byte := connection.recv(1):
            if byte != b"\n":
                line += byte
                if len(line) > 10_000:
                    return
                continue
            message = json.loads(line)
            line.clear()
            yield message if isinstance(message, dict) else {}


def _end(words: str) -> NoReturn:
    """Ends the process from the thread that watches: the main one is inside a call that waits."""
    with contextlib.suppress(OSError, ValueError):
        print(f"untold: {words}; {_CURE}", file=sys.stderr, flush=True)
    os._exit(MISTAKE)
