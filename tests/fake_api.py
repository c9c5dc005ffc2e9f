"""A server with canned answers for the web page, in a thread of the tests.

It says each word in capitals, one after the other, and leaves out words that begin with "x". The
text "fail" is an error, and a server with a key refuses whoever has none. A text that begins with
"revise" begins with another word at first.
"""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from untold.corpus.words import UNSPACED
from untold.web import asset

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LIMITS = {"characters": 5000, "texts": 8, "beam": 8, "file_bytes": 2000, "segments": 100}
_LONG = "The successful daughter will look for some magazines " * 4  # wider than its pane
EXAMPLES = ["The child reads a book .", "布什与沙龙会谈", "هذا الرجل يقرأ كتابا", _LONG.strip()]


@dataclass
class FakeApi:
    """What the page is answered, and what it has asked for."""

    key: str = ""
    gate: threading.Semaphore | None = None  # lets a stream send so many events
    asked: list[tuple[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # addresses that do not exist
    address: str = ""

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]


def words_of(text: str) -> list[str]:
    return [w for part in text.split() for w in ([*part] if UNSPACED.search(part) else [part])]


def translate(text: str, prefix: str = "") -> list[str]:
    """Begins with the prefix, and goes on with the words that come after as many."""
    given = words_of(prefix)
    return given + [word.upper() for word in words_of(text)[len(given) :] if word[0] != "x"]


def sentence(text: str, said: list[str], *, given: bool = False) -> dict[str, Any]:
    """Explains: a word turns to past when its capitals are said; "of" is redundant."""
    words = words_of(text)
    places = {word: place for place, word in reversed(list(enumerate(said)))}
    turn = [places.get(word.upper(), len(said)) for word in words]
    rows = [
        [
            [0.05, 0.15, 0.8]
            if word == "of"
            else [0.9, 0.06, 0.04]
            if step > t
            else [0.04, 0.9, 0.06]
            for word, t in zip(words, turn, strict=True)
        ]
        for step in range(len(said) + 1)
    ]
    told = [(i, t) for i, t in enumerate(turn) if t < len(said)]
    known = {word.upper() for word in words}
    return {
        "source": {"text": text, "language": "", "words": words},
        "target": {"text": " ".join(said), "language": "", "words": said, "given": given},
        "shares": rows,
        "source_end": [[0.1, 0.8, 0.1]] * len(rows),
        "flips": [{"source": i, "target": t} for i, t in told],
        "copies": [
            {"target": t, "source": i, "probability": 0.9} for i, t in told if words[i].isdigit()
        ],
        "copying": None,
        "score": -0.5,
        "log_probability": -2.0,
        "untold": [0.02 if t < len(said) else 0.93 for t in turn],
        "added": [0.03 if word in known else 0.71 for word in said],
        "links": [{"source": i, "target": t, "probability": 0.9} for i, t in told],
    }


def judge(source: str, target: str, line: int = 1, file: str = "") -> dict[str, Any]:
    """Finds source words whose capitals the target lacks, and target words of no source word."""
    sides = {"source": source.split(), "target": target.split()}
    lacking = {
        "source": [w.upper() not in sides["target"] for w in sides["source"]],
        "target": [w not in source.upper().split() for w in sides["target"]],
    }
    findings = []
    for kind, side, text in (("omission", "source", source), ("addition", "target", target)):
        for place, found in enumerate(re.finditer(r"\S+", text)):
            if lacking[side][place]:
                findings.append(
                    {
                        "kind": kind,
                        "probability": 0.93 if kind == "omission" else 0.71,
                        "text": found[0],
                        "start": place,
                        "stop": place + 1,
                        "characters": [found.start(), found.end()],
                    }
                )
    texts = {"source": source, "target": target}
    records = {
        side: {
            "text": texts[side],
            "any": 0.9,
            "words": words,
            "probabilities": [0.9 if each else 0.1 for each in lacking[side]],
        }
        for side, words in sides.items()
    }
    return {"file": file, "line": line, "name": "", **records, "findings": findings}


def answer(path: str, body: Any) -> Any:
    """Returns the JSON of an answer."""
    if path == "/v1/models":
        kinds = {"toy": True, "other": True, "plain": False}
        shared = {"source_language": "en", "target_language": "de", "copies": False}
        models = [
            {"name": name, "separates": able, "calibrated": able, "examples": EXAMPLES, **shared}
            for name, able in kinds.items()
        ]
        return {"default": "toy", "models": models, "limits": LIMITS}
    if path == "/v1/translate":
        prefixes = body.get("prefixes") or [""] * len(body["texts"])
        found = [
            translation(text, prefix, body)
            for text, prefix in zip(body["texts"], prefixes, strict=True)
        ]
        return {"model": body["model"], "translations": found}
    if path == "/v1/explain":
        pairs = [(pair["source"], pair.get("target")) for pair in body["pairs"]]
        found = [sentence(s, words_of(t) if t else translate(s), given=bool(t)) for s, t in pairs]
        return {"model": body["model"], "layout": 1, "sentences": found}
    pairs = [(pair["source"], pair["target"]) for pair in body.get("pairs", [])]
    name = ""
    if "file" in body:
        name = body["file"]["name"]
        text = base64.b64decode(body["file"]["content"]).decode()
        pairs = [tuple(line.split("\t")) for line in text.split("\n") if line]
    results = [judge(s, t, line, name) for line, (s, t) in enumerate(pairs, start=1)]
    return {
        "model": body["model"],
        "segments": len(results),
        "unchecked": {"empty": 1} if name else {},
        "findings": sum(len(each["findings"]) for each in results),
        "results": results,
        "damages": [{"file": name, "line": 9, "damage": "cut off"}] if name else [],
    }


def translation(text: str, prefix: str, body: Any) -> dict[str, Any]:
    said = translate(text, prefix)
    shown = " ".join(said)
    others = [f"{shown} {n}" for n in range(1, body.get("nbest") or 1)]
    return {
        "text": shown,
        "score": -0.5,
        "log_probability": -2.0,
        "tokens": said,
        "source_tokens": words_of(text),
        "alternatives": [{"text": each, "score": -1.0, "log_probability": -3.0} for each in others],
        "trace": sentence(text, said) if body.get("trace") and body["model"] != "plain" else None,
    }


def stream(body: Any) -> Iterator[tuple[str, Any]]:
    said = translate(body["text"], body.get("prefix", ""))
    whole = sentence(body["text"], said)
    able = body["model"] != "plain"
    yield "start", {"model": body["model"], "categories": [], "source": whole["source"]}
    best = [said[:index] for index in range(1, len(said) + 1)]
    revises = body["text"].startswith("revise")
    for index, words in enumerate([["OTHER"], *best] if revises else best):
        yield (
            "token",
            {
                "index": index,
                "text": " ".join(words),
                "words": words,
                "kept": len(words) - 1,
                "revised": revises and index == 1,
                "complete": words == said,
                "shares": whole["shares"][len(words) - 1] if able else None,
            },
        )
    done = translation(body["text"], body.get("prefix", ""), body | {"trace": True})
    yield "end", {"translation": done}


class _Handler(BaseHTTPRequestHandler):
    api: FakeApi

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps quiet."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/v1/models":
            self.send_json(200, answer(path, None))
            return
        try:
            content, kind = asset("index.html" if path == "/" else path.removeprefix("/static/"))
        except KeyError:
            self.api.refused.append(path)
            content, kind = b"", "text/plain"
        self.begin(200 if content else 404, kind, len(content))
        self.wfile.write(content)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.api.asked.append((self.path, body))
        if self.api.key and self.headers["Authorization"] != f"Bearer {self.api.key}":
            self.send_json(
                401, problem("The key is missing or wrong: ask whoever runs the server.")
            )
        elif "fail" in (body.get("text"), *(p["source"] for p in body.get("pairs", []))):
            self.send_json(
                503, problem("8 requests wait, and at most 8 may: try again in a moment.")
            )
        elif self.path == "/v1/stream":
            self.stream(stream(body))
        elif body.get("stream"):
            found = answer(self.path, body)
            progress = {"done": 1, "segments": found["segments"]}
            self.stream(iter([("progress", progress), ("end", found)]))
        else:
            self.send_json(200, answer(self.path, body))

    def stream(self, events: Iterator[tuple[str, Any]]) -> None:
        self.begin(200, "text/event-stream")
        try:
            self.wfile.write(b": ping\r\n\r\n")
            for event, data in events:
                if self.api.gate is not None and not self.api.gate.acquire(timeout=20):
                    return
                text = f"event: {event}\r\ndata: {json.dumps(data)}\r\n\r\n"
                self.wfile.write(text.encode())
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page has cancelled

    def send_json(self, status: int, values: Any) -> None:
        content = json.dumps(values).encode()
        self.begin(status, "application/json", len(content))
        self.wfile.write(content)

    def begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def problem(message: str) -> dict[str, Any]:
    return {"error": {"code": "x", "message": message}}


@contextmanager
def fake_api(key: str = "", events: int | None = None) -> Iterator[FakeApi]:
    """Serves the page and its answers until the end of the block.

    With `events`, streams send so many of them, and more when the gate is released.
    """
    api = FakeApi(key, None if events is None else threading.Semaphore(events))
    handler = type("Handler", (_Handler,), {"api": api})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        api.address = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
