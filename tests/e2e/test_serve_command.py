"""`untold serve` as a process of its own, asked over HTTP."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libretranslatepy import LibreTranslateAPI

from fuzz.in_process import run_in_process
from fuzz.workshop import seal
from untold import load
from untold.serve.schemas import STATUSES

PATIENCE = 60.0
KEY = "0123456789abcdef0123"
SENTENCE = "a dog sees a cat ."
PAIR = {"source": SENTENCE, "target": "A DOG ."}
# Work that no server may finish in time: the search of this model makes thousands of steps.
ENDLESS = {
    "/v1/translate": {"texts": [SENTENCE], "model": "endless"},
    "/v1/stream": {"text": SENTENCE, "model": "endless"},
}
TIGHT = {
    "texts": 6,
    "beam": 3,
    "queue": 2,
    "streams": 1,
    "connections": 12,
    "seconds": 3,
    "read_seconds": 1,
    "file_bytes": 4000,
    "segments": 20,
}


@dataclass
class Served:
    """A server process and a client of it."""

    process: subprocess.Popen[str]
    address: str
    errors: Path
    client: httpx.Client

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.client.post(path, json=body, **options)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.client.get("/metrics").text.split("\n")
        found = [line for line in lines if re.match(rf"{name}[ {{]", line)]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, self.errors.read_text()
            time.sleep(0.02)

    def rests(self) -> bool:
        """Tells if no search makes a step any more."""
        before = self.metric("untold_steps_total")
        time.sleep(0.15)
        return self.metric("untold_steps_total") == before


@contextlib.contextmanager
def serving(folder: Path, *arguments: object, **limits: object) -> Iterator[Served]:
    folder.mkdir(parents=True, exist_ok=True)
    options = [part for name, value in limits.items() for part in ("--limit", f"{name}={value}")]
    command = [sys.executable, "-m", "untold", "serve", *map(str, arguments), "--port", "0"]
    errors = folder / "errors"
    with (
        errors.open("w") as file,
        subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("untold serves at http://127.0.0.1:"), errors.read_text()
            address = line.split()[-1]
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:
                yield Served(process, address, errors, client)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_workshop: Path) -> Iterator[Served]:
    models = (f"toy={shared_workshop / 'run'}", f"plain={shared_workshop / 'plain'}")
    with serving(tmp_path_factory.mktemp("serve"), *models) as served:
        yield served


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory, shared_workshop: Path) -> Iterator[Served]:
    """A server with low limits; one of its two models never comes to an end."""
    folder = tmp_path_factory.mktemp("tight")
    models = (f"toy={shared_workshop / 'run'}", f"endless={endless_model(shared_workshop, folder)}")
    with serving(folder, *models, **TIGHT) as served:
        yield served


def endless_model(workshop: Path, folder: Path) -> Path:
    model = folder / "endless"
    shutil.copytree(workshop / "run" / "best" / "step-00000002", model)
    config = json.loads((model / "config.json").read_text())
    config["decode"] |= {"min_length": 20_000, "max_length": 20_001, "max_ratio": 1000.0}
    (model / "config.json").write_text(json.dumps(config))
    seal(model)
    return model


def events_of(answer: httpx.Response) -> list[tuple[str, Any]]:
    blocks = "".join(answer.iter_text()).strip().split("\n\n")
    named = (block.split("\n") for block in blocks)
    return [(name[7:], json.loads(data[6:])) for name, data in named]


def refused(answer: httpx.Response, status: int, code: str) -> str:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    for leak in ("/tmp", "/home", "Traceback", "site-packages", ".py"):
        assert leak not in answer.text
    return error["message"]


def test_models_and_limits_are_listed(server: Served) -> None:
    found = server.client.get("/v1/models").json()
    assert found["default"] == "toy"
    assert [each["name"] for each in found["models"]] == ["toy", "plain"]
    flags = ("separates", "calibrated", "copies")
    assert [[each[flag] for flag in flags] for each in found["models"]] == [
        [True, True, False],
        [False, False, False],
    ]
    assert {"characters", "texts", "beam", "file_bytes", "segments"} <= set(found["limits"])


def test_texts_are_translated_as_by_the_translator(server: Served, shared_workshop: Path) -> None:
    translator = load(shared_workshop / "run")
    texts = [SENTENCE, "", "the dog sleeps ."]
    body = {"texts": texts, "nbest": 2, "trace": True}
    answer = server.post("/v1/translate", body).json()
    expected = translator.with_decoding(nbest=2).translate(texts)
    assert answer["model"] == "toy"
    for own, other in zip(answer["translations"], expected, strict=True):
        assert own["text"] == other.text
        assert own["score"] == pytest.approx(other.score, abs=1e-5)
        assert own["tokens"] == list(other.tokens)
        assert [each["text"] for each in own["alternatives"]] == [
            each.text for each in other.alternatives
        ]
    first, blank, _ = answer["translations"]
    assert blank["trace"] is None and blank["text"] == ""
    record = first["trace"]
    assert len(record["shares"]) == len(record["target"]["words"]) + 1
    assert set(record["links"][0]) == {"source", "target", "probability"}


def test_a_prefix_begins_the_translation(server: Served) -> None:
    body = {"texts": [SENTENCE, SENTENCE], "prefixes": ["A DOG", ""]}
    first, second = server.post("/v1/translate", body).json()["translations"]
    assert first["text"].startswith("A DOG") and not second["text"].startswith("A DOG")


def test_requests_in_one_batch_get_what_they_get_alone(server: Served) -> None:
    words = ["a", "the", "dog", "cat", "sees", "sleeps", "."]
    texts = [" ".join(words[k % 7 :] + words[: k % 5] * (k % 4)) for k in range(40)]
    alone = [ask(server, text) for text in texts]
    before = server.metric("untold_batch_items_sum"), server.metric("untold_batch_items_count")
    with ThreadPoolExecutor(20) as pool:
        together = list(pool.map(lambda text: ask(server, text), texts))
    assert together == alone
    items, calls = (
        server.metric(f"untold_batch_items_{kind}") - known
        for kind, known in zip(("sum", "count"), before, strict=True)
    )
    assert items == len(texts) and calls < len(texts)


def ask(server: Served, text: str) -> str:
    answer = server.post("/v1/translate", {"texts": [text]})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]["text"]


def test_given_and_own_translations_are_explained(server: Served) -> None:
    pairs = [{"source": "a cat sleeps ."}, PAIR]
    answer = server.post("/v1/explain", {"pairs": pairs}).json()
    assert answer["layout"] == 1 and answer["categories"] == ["past", "future", "redundant"]
    own, given_one = answer["sentences"]
    assert own["source"]["text"] == "a cat sleeps ." and not own["target"]["given"]
    assert given_one["target"] == {
        "text": "A DOG .",
        "language": "",
        "words": ["A", "DOG", "."],
        "given": True,
    }
    assert len(given_one["shares"]) == 4 and len(given_one["untold"]) == 6
    assert isinstance(given_one["links"], list)


def test_pairs_are_checked(server: Served) -> None:
    pairs = [PAIR, {"source": "a dog .", "target": ""}, {"source": "x", "target": "x"}]
    answer = server.post("/v1/check", {"pairs": pairs, "threshold": 0.0}).json()
    assert answer["segments"] == 1 and answer["damages"] == []
    assert answer["unchecked"] == {"untranslated": 1, "identical": 1}
    (record,) = answer["results"]
    assert record["line"] == 1 and record["source"]["words"] == SENTENCE.split()
    assert answer["findings"] == len(record["findings"]) > 0
    none = server.post("/v1/check", {"pairs": pairs, "threshold": 1.0}).json()
    assert none["findings"] == 0 and none["results"][0]["source"] == record["source"]


PO = f'msgid "{SENTENCE}"\nmsgstr "A DOG ."\n'
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="u">'
    f"<source>{SENTENCE}</source><target>A DOG .</target></trans-unit></body></file></xliff>"
)
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu tuid="u"><tuv xml:lang="en"><seg>'
    f'{SENTENCE}</seg></tuv><tuv xml:lang="de"><seg>A DOG .</seg></tuv></tu></body></tmx>'
)
FILES = {"x.po": PO, "x.xlf": XLIFF, "x.tmx": TMX, "x.tsv": f"{SENTENCE}\tA DOG .\nbad line\n"}


@pytest.mark.parametrize("name", FILES)
def test_files_are_checked(server: Served, name: str) -> None:
    content = base64.b64encode(FILES[name].encode()).decode()
    answer = server.post("/v1/check", {"file": {"name": name, "content": content}}).json()
    assert answer["segments"] == 1
    assert answer["results"][0]["file"] == name
    assert answer["results"][0]["source"]["text"] == SENTENCE
    if name == "x.tsv":
        (damage,) = answer["damages"]
        assert (damage["file"], damage["line"]) == (name, 2)


def test_a_check_tells_how_far_it_is(server: Served) -> None:
    text = "".join(f"a dog {n} sees a cat .\tA DOG {n} .\n" for n in range(200))
    file = {"name": "x.tsv", "content": base64.b64encode(text.encode()).decode()}
    body = {"file": file, "stream": True}
    with server.client.stream("POST", "/v1/check", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        *progress, (last, whole) = events_of(answer)
    done = [data["done"] for name, data in progress if name == "progress"]
    assert len(done) == len(progress) >= 2 and sorted(set(done)) == done and done[-1] < 200
    assert {data["segments"] for _, data in progress} == {200}
    assert last == "end" and whole == server.post("/v1/check", {"file": file}).json()
    plain = {"model": "plain", "pairs": [PAIR], "stream": True}
    refused(server.post("/v1/check", plain), 422, "refused")


@pytest.mark.parametrize("path", ["/v1/explain", "/v1/check"])
def test_pairs_that_are_too_long_are_refused(server: Served, path: str) -> None:
    pair = {"source": "a", "target": "a " * 501}
    message = refused(server.post(path, {"pairs": [PAIR, pair]}), 413, "too_long")
    assert message == "pairs 2 has 1,002 characters, and at most 1,000 are taken: divide it"


def test_a_stream_has_an_event_for_each_token(server: Served) -> None:
    with server.client.stream("POST", "/v1/stream", json={"text": SENTENCE}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        (name, start), *tokens, (last, end) = events_of(answer)
    assert (name, last) == ("start", "end")
    assert start["source"]["words"] == SENTENCE.split() and start["model"] == "toy"
    assert {each for each, _ in tokens} == {"token"}
    assert [data["index"] for _, data in tokens] == list(range(len(tokens)))
    before: list[str] = []
    for _, data in tokens:
        assert data["words"][: data["kept"]][:-1] == before[: data["kept"]][:-1]
        assert data["revised"] == (data["kept"] < len(before))
        assert len(data["shares"]) == len(SENTENCE.split())
        assert all(sum(triple) == pytest.approx(1, abs=1e-3) for triple in data["shares"])
        before = data["words"]
    assert tokens[-1][1]["complete"] and tokens[-1][1]["text"] == end["translation"]["text"]
    alone = server.post("/v1/translate", {"texts": [SENTENCE], "trace": True}).json()
    assert end["translation"] == alone["translations"][0]


def test_a_model_that_does_not_separate_streams_without_shares(server: Served) -> None:
    body = {"text": SENTENCE, "model": "plain", "prefix": "A", "beam": 1}
    with server.client.stream("POST", "/v1/stream", json=body) as answer:
        events = events_of(answer)
    assert all(data["shares"] is None for name, data in events if name == "token")
    assert events[-1][1]["translation"]["trace"] is None
    assert events[-1][1]["translation"]["text"].startswith("A")


def test_what_a_model_cannot_do_is_refused(server: Served) -> None:
    for path in ("/v1/explain", "/v1/check"):
        message = refused(server.post(path, {"model": "plain", "pairs": [PAIR]}), 422, "refused")
        assert "does not separate past and future" in message


def test_a_client_of_libretranslate_works_unchanged(server: Served) -> None:
    client = LibreTranslateAPI(server.address)
    assert client.translate(SENTENCE, "src", "tgt") == ask(server, SENTENCE)
    assert client.languages() == [
        {"code": "src", "name": "src", "targets": ["tgt"]},
        {"code": "tgt", "name": "tgt", "targets": []},
    ]
    body = {"q": [SENTENCE, ""], "source": "auto", "target": "tgt", "alternatives": 1}
    answer = server.post("/translate", body).json()
    assert answer["translatedText"] == [client.translate(SENTENCE, "src", "tgt"), ""]
    assert len(answer["alternatives"]) == 2 and len(answer["alternatives"][0]) == 1
    assert [each["language"] for each in answer["detectedLanguage"]] == ["src", "src"]
    kind = {"content-type": "application/json"}  # some clients send it without a body
    assert server.client.get("/languages", headers=kind).json() == client.languages()


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"q": "a", "source": "fr", "target": "tgt"}, 400, "no model translates fr to tgt"),
        ({"q": "a", "source": "src"}, 422, "target"),
        ({"q": 1, "source": "src", "target": "tgt"}, 422, "q"),
        ({"q": "a", "source": "src", "target": "tgt", "format": "html"}, 422, "format"),
        ({"q": "a", "source": "src", "target": "tgt", "alternatives": 99}, 422, "nbest 100"),
        ({"q": "a" * 2001, "source": "src", "target": "tgt"}, 413, "2,001 characters"),
        ([], 422, "object"),
    ],
)
def test_refusals_of_libretranslate_are_sentences(
    server: Served, body: Any, status: int, word: str
) -> None:
    answer = server.post("/translate", body)
    assert answer.status_code == status and word in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/readyz", "/v1/models"])
def test_head_is_get_without_a_body(server: Served, path: str) -> None:
    whole, head = server.client.get(path), server.client.head(path)
    assert head.status_code == 200 and head.content == b""
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_the_page_and_the_document_of_the_api_are_there(server: Served) -> None:
    page = server.client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "<script>" not in page.text and "style=" not in page.text
    document = server.client.get("/openapi.json").json()
    body = document["paths"]["/v1/translate"]["post"]
    assert set(map(int, body["responses"])) == {200, *STATUSES}
    assert document["components"]["schemas"]["TranslateBody"]["examples"]
    assert server.client.get("/static/nothing.js").status_code == 404
    assert server.client.get("/static/..%2Fcli.py").status_code == 404


def test_every_answer_has_the_headers(server: Served) -> None:
    for path in ("/", "/openapi.json", "/v1/models", "/nowhere", "/metrics", "/readyz"):
        headers = server.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers and "server" not in headers


DEEP = b"[" * 50_000
HOSTILE = {
    "not JSON": (b"{", 400, "not_json"),
    "NaN": (b'{"texts": ["a"], "length_penalty": NaN}', 400, "not_json"),
    "infinity": (b'{"texts": ["a"], "length_penalty": 1e999}', 400, "not_json"),
    "surrogate": (b'{"texts": ["\\ud800"]}', 400, "not_json"),
    "half of UTF-8": (b'{"texts": ["\xc3"]}', 400, "not_json"),
    "deep": (DEEP, 400, "not_json"),
    "deep in a field": (b'{"texts": ' + DEEP, 400, "not_json"),
    "digits": (b'{"texts": ["a"], "beam": ' + b"9" * 5000 + b"}", 400, "not_json"),
    "large number": (b'{"texts": ["a"], "beam": 1000000000000000000000}', 422, None),
    "large float": (b'{"texts": ["a"], "length_penalty": ' + b"9" * 400 + b"}", 422, None),
    "beam of a billion": (b'{"texts": ["a"], "beam": 1000000000}', 422, "beam_too_large"),
    "beam 0": (b'{"texts": ["a"], "beam": 0}', 422, "invalid"),
    "beam of 1.5": (b'{"texts": ["a"], "beam": 1.5}', 422, "invalid"),
    "beam true": (b'{"texts": ["a"], "beam": true}', 422, "invalid"),
    "nbest": (b'{"texts": ["a"], "nbest": 17}', 422, "nbest_too_large"),
    "nbest beyond the beam": (b'{"texts": ["a"], "nbest": 4, "beam": 3}', 422, "nbest_too_large"),
    "nothing": (b"", 400, "not_json"),
    "null": (b"null", 422, "invalid"),
    "a list": (b"[]", 422, "invalid"),
    "no texts": (b'{"texts": []}', 422, "invalid"),
    "a number": (b'{"texts": [1]}', 422, "invalid"),
    "unknown field": (b'{"texts": ["a"], "bem": 1}', 422, "invalid"),
    "a field given twice": (b'{"texts": ["a"], "texts": ["b"]}', 400, "not_json"),
    "unknown model": (b'{"texts": ["a"], "model": "../../etc"}', 422, "unknown_model"),
    "prefixes": (b'{"texts": ["a"], "prefixes": []}', 422, "prefixes"),
    "too many": (json.dumps({"texts": ["a"] * 65}).encode(), 413, "too_many"),
    "too long": (json.dumps({"texts": ["a" * 2001]}).encode(), 413, "too_long"),
    "too large": (b" " * 6_000_000, 413, "body_too_large"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused(server: Served, name: str) -> None:
    body, status, code = HOSTILE[name]
    headers = {"content-type": "application/json"}
    answer = server.client.post("/v1/translate", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    message = refused(answer, status, code or answer.json()["error"]["code"])
    assert len(message) < 300
    assert server.client.get("/readyz").status_code == 200


FIELDS = st.text(max_size=8) | st.sampled_from(
    ["texts", "text", "pairs", "source", "target", "model", "beam", "file", "name", "content", "q"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=8,
)
ROUTES = ("/v1/translate", "/v1/explain", "/v1/check", "/v1/stream", "/translate")


@given(st.sampled_from(ROUTES), st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES)
def test_no_json_is_an_error_of_the_server(server: Served, path: str, body: Any) -> None:
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    answer = server.client.post(path, content=content, headers=headers)
    assert answer.status_code in {200, *STATUSES}
    if answer.status_code != 200:
        assert set(answer.json()) == {"error"}


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", ".po", ".tsv", ".tmx", ".xlf", ".jsonl"]))
def test_no_file_is_an_error_of_the_server(server: Served, data: bytes, suffix: str) -> None:
    file = {"name": f"x{suffix}", "content": base64.b64encode(data).decode()}
    assert server.post("/v1/check", {"file": file}).status_code in {200, 413, 422}


def test_only_json_under_our_name_from_our_pages(server: Served) -> None:
    ask_with = lambda **headers: server.client.post(  # noqa: E731
        "/v1/translate",
        content=b'{"texts": ["a"]}',
        headers={"content-type": "application/json"} | headers,
    )
    own = httpx.URL(server.address)
    refused(ask_with(**{"content-type": "text/plain"}), 415, "not_json")
    refused(ask_with(**{"content-encoding": "gzip"}), 415, "not_json")
    assert ask_with(host="evil.example").status_code == 400
    refused(ask_with(origin="https://evil.example"), 403, "other_origin")
    refused(ask_with(origin="null"), 403, "other_origin")
    refused(ask_with(**{"sec-fetch-site": "cross-site"}), 403, "other_origin")
    for odd in ("[", "[::1", "a:b:c", "", "http://[", "//["):
        assert ask_with(host=odd).status_code == 400
        assert ask_with(origin=odd).status_code == 403
    assert server.client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200
    assert ask_with(origin=server.address).status_code == 200
    assert ask_with(host=f"localhost:{own.port}").status_code == 200
    refused(server.client.get("/v1/translate"), 405, "wrong_method")
    refused(server.client.get("/v1/nowhere"), 404, "not_found")


def send_raw(server: Served, data: bytes, seconds: float = 10.0) -> bytes:
    """Sends bytes and returns all that comes back until the connection is closed."""
    url = httpx.URL(server.address)
    found = b""
    with socket.create_connection((url.host, url.port or 0), timeout=seconds) as connection:
        connection.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                found += part
    return found


POST = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def test_slow_clients_are_not_waited_for(tight: Served) -> None:
    sent = {
        "no head": b"GET / HT",
        "half a second head": b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HT",
        "half a body": POST + b'content-length: 100\r\n\r\n{"texts"',
        "half a chunk": POST + b'transfer-encoding: chunked\r\n\r\n5\r\n{"te',
        "nonsense": b"\x16\x03\x01 nonsense\r\n\r\n",
    }
    with ThreadPoolExecutor(len(sent)) as pool:
        found = pool.map(lambda data: send_raw(tight, data), sent.values())
        answers = dict(zip(sent, found, strict=True))
    assert answers["no head"] == b""
    assert answers["half a second head"].count(b"HTTP/1.1 ") == 1
    assert b" 408 " in answers["half a body"].split(b"\r\n")[0]
    assert b"slow_body" in answers["half a body"]
    assert b" 408 " in answers["half a chunk"].split(b"\r\n")[0]
    assert b" 400 " in answers["nonsense"].split(b"\r\n")[0]


def test_connections_are_bounded(tight: Served) -> None:
    url = httpx.URL(tight.address)
    place = (url.host, url.port or 0)
    with contextlib.ExitStack() as stack:
        for _ in range(TIGHT["connections"] + 1):
            stack.enter_context(socket.create_connection(place))
        found = send_raw(tight, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b" 503 " in found.split(b"\r\n")[0]
    tight.wait_until(lambda: tight.client.get("/livez").status_code == 200)


def test_limits_of_a_file_are_kept(tight: Served) -> None:
    for text, code in (("a\tb\n" * 21, "too_many_segments"), ("a" * 4001, "file_too_large")):
        file = {"name": "x.tsv", "content": base64.b64encode(text.encode()).decode()}
        refused(tight.post("/v1/check", {"file": file}), 413, code)
    refused(tight.post("/v1/translate", {"texts": ["a"], "beam": 4}), 422, "beam_too_large")
    refused(tight.post("/v1/translate", {"texts": ["a"] * 7}), 413, "too_many")


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_given_up(tight: Served) -> None:
    refused(tight.post("/v1/translate", ENDLESS["/v1/translate"]), 504, "timeout")
    tight.wait_until(tight.rests)
    with tight.client.stream("POST", "/v1/stream", json=ENDLESS["/v1/stream"]) as answer:
        name, data = events_of(answer)[-1]
    assert name == "error" and data["error"]["code"] == "timeout"
    tight.wait_until(tight.rests)


@pytest.mark.parametrize("path", ENDLESS)
def test_a_vanished_client_stops_costing(tight: Served, path: str) -> None:
    before = tight.metric("untold_abandoned_total")
    body = json.dumps(ENDLESS[path]).encode()
    url = httpx.URL(tight.address)
    steps = tight.metric("untold_steps_total")
    with socket.create_connection((url.host, url.port or 0)) as connection:
        head = POST.replace(b"/v1/translate", path.encode())
        connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        tight.wait_until(lambda: tight.metric("untold_steps_total") > steps)
    tight.wait_until(lambda: tight.metric("untold_abandoned_total") == before + 1)
    assert tight.rests()


@pytest.mark.slow
def test_too_many_requests_are_refused_at_once(tight: Served) -> None:
    """One runs, two wait, and the others learn when to come again."""
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(tight.post, "/v1/translate", ENDLESS["/v1/translate"])
        tight.wait_until(lambda: not tight.rests())
        others = [
            pool.submit(tight.post, "/v1/translate", {"texts": ["a"], "length_penalty": k / 10})
            for k in range(6)
        ]
        answers = [each.result() for each in others]
        assert first.result().status_code == 504
    codes = sorted(each.status_code for each in answers)
    assert codes.count(429) == 4 and set(codes) <= {200, 429, 504}
    busy = next(each for each in answers if each.status_code == 429)
    assert 1 <= int(busy.headers["retry-after"]) <= 30
    refused(busy, 429, "busy")
    tight.wait_until(lambda: ask(tight, "a") != "")


@pytest.mark.slow
def test_a_stream_goes_on_beside_a_batch(tight: Served) -> None:
    """It does not wait for the batch, whose work would take longer than any request may."""
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(tight.post, "/v1/translate", ENDLESS["/v1/translate"])
        tight.wait_until(lambda: not tight.rests())
        body = {"text": SENTENCE}
        with tight.client.stream("POST", "/v1/stream", json=body) as answer:
            assert events_of(answer)[-1][0] == "end"
        assert not batch.done()
        assert batch.result().status_code == 504


def test_reloading_drops_no_request(server: Served) -> None:
    before = server.metric("untold_reloads_total")
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, server, SENTENCE) for _ in range(40)]
        server.process.send_signal(signal.SIGHUP)
        texts = {each.result() for each in asked}
        end = time.monotonic() + PATIENCE
        while server.metric("untold_reloads_total") == before:
            assert time.monotonic() < end, server.errors.read_text()
            texts.add(pool.submit(ask, server, SENTENCE).result())
    assert len(texts) == 1
    assert "models loaded again: toy, plain" in server.errors.read_text()


@pytest.mark.slow
def test_a_model_that_is_broken_is_not_loaded_and_the_server_drains(
    tmp_path: Path, shared_workshop: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(shared_workshop / "run" / "best" / "step-00000002", model)
    (tmp_path / "key").write_text(f"{KEY}\n")
    options = ("--api-key-file", tmp_path / "key", "--allow-origin", "https://a.example")
    with serving(tmp_path, model, *options, characters=2_000_000, drain_seconds=9) as server:
        keys_are_compared(server)
        server.client.headers["authorization"] = f"Bearer {KEY}"
        other_origins_are_allowed(server)
        (model / "model.safetensors").write_bytes(b"broken")
        server.process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: server.metric("untold_reloads_total") == 1)
        assert "the models from before stay" in server.errors.read_text()
        text = SENTENCE * 400
        with server.client.stream("POST", "/v1/stream", json={"text": text}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: start"
            server.process.send_signal(signal.SIGTERM)
            server.wait_until(lambda: server.client.get("/readyz").status_code == 503)
            assert server.client.get("/livez").status_code == 200
            refused(server.post("/v1/translate", {"texts": ["a"]}), 503, "not_ready")
            names = [line for line in lines if line.startswith("event: ")]
        assert names[-1] == "event: end"
        assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
        last = server.errors.read_text().strip().split("\n")[-1]
        assert last == "untold: interrupted by SIGTERM: all requests were answered"
        assert "a dog" not in server.errors.read_text()


def keys_are_compared(server: Served) -> None:
    """Everything needs the key but the page, its documents and the probes."""
    body = {"q": "a", "source": "src", "target": "tgt"}
    for path in ("/", "/openapi.json", "/healthz", "/livez", "/readyz"):
        assert server.client.get(path).status_code == 200
    for path in ("/v1/models", "/metrics", "/nowhere"):
        refused_key(server.client.get(path), path)
        wrong = {"authorization": f"Bearer {KEY}x"}
        refused_key(server.client.get(path, headers=wrong), path)
    for wrong in ({}, {"authorization": ""}, {"authorization": "Basic x"}):
        assert server.client.post("/translate", json=body, headers=wrong).status_code == 403
        assert server.client.get("/languages", headers=wrong).status_code == 403
    client = LibreTranslateAPI(server.address, KEY)
    assert client.translate(SENTENCE, "src", "tgt") and client.languages()


def refused_key(answer: httpx.Response, path: str) -> None:
    assert answer.status_code == 401, path
    assert answer.headers["www-authenticate"] == "Bearer"


def other_origins_are_allowed(server: Served) -> None:
    origin = {"origin": "https://a.example"}
    preflight = origin | {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    answer = server.client.options("/v1/translate", headers=preflight)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    answer = server.client.get("/v1/models", headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    assert (
        server.client.get("/v1/models", headers={"origin": "https://b.example"}).status_code == 403
    )


def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = run_in_process(["serve", "x", "--port", str(port)], tmp_path)
        assert (ended.code, ended.output) == (2, "")
        assert f"127.0.0.1:{port}: Address already in use: choose another" in ended.errors
    (tmp_path / "short").write_text("x")
    for arguments, reason in {
        ("nowhere",): "nowhere: no such model",
        ("x", "--host", "0.0.0.0"): "--host 0.0.0.0 is open to other machines: give an API key",
        ("x", "--api-key-file", "short"): "a key has at least 16 signs",
        ("x", "--api-key-file", "absent"): "absent: cannot be read as a key",
        ("x", "--allow-origin", "*"): "name each origin",
        ("x", "--limit", "bem=3"): "unknown limit; known: characters, pair_characters, texts, beam",
        ("a=x", "a=y"): "two models are called a",
    }.items():
        ended = run_in_process(["serve", *arguments, "--port", "0"], tmp_path)
        assert (ended.code, ended.output) == (2, ""), ended.errors
        assert reason in ended.errors and ended.errors.count("\n") == 1
    monkeypatch.setitem(sys.modules, "fastapi", None)
    ended = run_in_process(["serve", "x"], tmp_path)
    assert (ended.code, ended.errors) == (
        2,
        "untold: serving needs fastapi: pip install 'untold[serve]'\n",
    )
