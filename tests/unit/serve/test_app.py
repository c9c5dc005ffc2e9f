"""Who may ask, and what every answer has: names of the server, origins, keys, headers."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.commands.serve import _HOME_NAMES as HOME
from untold.commands.serve import _rules
from untold.serve import routes
from untold.serve.app import AccessRules, HttpServer, bind_socket, build_application
from untold.serve.routes import is_right_key
from untold.serve.schemas import ServiceLimits, StreamEvent
from untold.serve.service import Service
from untold.serve.tasks import TranslateTask

from .conftest import KEY, ORIGIN, Client

BODY = {"texts": ["The child reads a book ."]}
RIGHT = {"authorization": f"Bearer {KEY}"}


@given(st.text(), st.text(min_size=1))
def test_only_the_right_key_is_right(given_key, key):
    safe = key.encode(errors="replace").decode()
    assert is_right_key(given_key, None)
    assert is_right_key(safe, safe)
    assert is_right_key(given_key, safe) == (given_key.encode(errors="replace") == safe.encode())


@pytest.mark.parametrize(
    ("host", "names", "hosts"),
    [
        ("127.0.0.1", [], HOME),
        ("127.0.0.1", ["A.example"], HOME | {"a.example"}),
        ("10.0.0.1", [], HOME | {"10.0.0.1"}),
        ("::1", [], HOME),
        ("fd00::1", [], HOME | {"[fd00::1]"}),
        ("0.0.0.0", [], set()),  # any
        ("0.0.0.0", ["a.example"], HOME | {"a.example"}),  # and probes of the machine itself
    ],
)
def test_names_under_which_clients_may_ask(host, names, hosts):
    assert _rules(host, "0123456789abcdef", [], names).hosts == hosts


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("www.localhost", 400),
        ("", 400),
        ("[::", 400),
    ],
)
def test_the_host_must_be_a_name_of_the_server(client: Client, host, status):
    answer = client.get("/livez", headers={"host": host})
    assert answer.status_code == status and "location" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://localhost:81"}, 403),
        ({"origin": ORIGIN}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_pages_of_others_may_not_ask(client: Client, headers, status):
    answer = client.post("/v1/translate", BODY, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_pages_of_an_allowed_origin_may_ask_and_read_refusals(locked: Client):
    asked = {"access-control-request-method": "POST", "origin": ORIGIN}
    asked["access-control-request-headers"] = "authorization, content-type"
    assert locked.ask("OPTIONS", "/v1/translate", headers=asked).status_code == 200
    other = asked | {"origin": "https://b.example"}
    assert locked.ask("OPTIONS", "/v1/translate", headers=other).status_code == 400
    for headers, status in ((RIGHT, 200), ({}, 401)):
        answer = locked.get("/v1/models", headers=headers | {"origin": ORIGIN})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == ORIGIN


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/nowhere", "/v1/translate"])
def test_whatever_is_not_open_needs_the_key(locked: Client, path: str):
    for wrong in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"}):
        answer = locked.get(path, headers=wrong)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert locked.get(path, headers=RIGHT).status_code != 401


@pytest.mark.parametrize(
    "path", ["/", "/openapi.json", "/livez", "/healthz", "/readyz", "/static/style.css"]
)
def test_the_page_and_probes_need_no_key(locked: Client, path: str):
    assert locked.get(path).status_code == 200


def test_clients_of_libretranslate_send_the_key_in_the_body(locked: Client):
    body = {"q": "a", "source": "en", "target": "de"}
    assert locked.post("/translate", body).status_code == 403
    assert locked.post("/translate", body | {"api_key": KEY}).status_code == 200
    assert locked.post("/translate", body, headers=RIGHT).status_code == 200
    assert locked.get("/languages").status_code == 403
    assert locked.get("/languages", params={"api_key": KEY}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/v1/models", "/nowhere", "/metrics"])
def test_every_answer_has_the_headers(client: Client, path: str):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"]


def test_a_mistake_of_ours_is_an_answer_without_details(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(_name: str) -> None:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr(client.service.registry, "find", fail)
    answer = client.post("/v1/translate", BODY)
    assert answer.status_code == 500 and answer.json()["error"]["code"] == "internal"
    assert "nosniff" in answer.headers["x-content-type-options"]
    told = capsys.readouterr().err
    assert "unexpected ZeroDivisionError" in told and "secret" not in answer.text + told


def test_a_server_that_stops_refuses_work_and_says_that_it_lives(tmp_path: Path):
    service = Service({"never loaded": tmp_path})
    client = Client(service, AccessRules(frozenset()))
    assert client.get("/readyz").json()["error"]["message"].startswith("the models are not loaded")
    service.queue.close()
    assert client.get("/readyz").json()["error"]["message"].startswith("the server is stopping")
    assert client.get("/livez").status_code == 200


def test_requests_are_counted_by_route(client: Client):
    def count(route: str, status: str) -> float:
        labels = {"route": route, "status": status}
        registry = client.service.metrics.registry
        return registry.get_sample_value("untold_requests_total", labels) or 0

    ways = [("/v1/models", "200"), ("/static/{name}", "404"), ("other", "404")]
    before = [count(*way) for way in ways]
    for path in ("/v1/models", "/static/secret", "/invented"):
        client.get(path)
    assert [count(*way) for way in ways] == [number + 1 for number in before]
    text = client.get("/metrics").text
    assert "untold_queue_depth 0.0" in text and "secret" not in text and "invented" not in text
    assert client.service.running == 0


@pytest.fixture
def run_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Runs a server without a model in this thread, and a visitor in another one."""
    interval, handler = sys.getswitchinterval(), signal.getsignal(signal.SIGTERM)

    def run(visit: Callable[[httpx.Client], Any], **limits: float) -> tuple[int, Any]:
        service = Service({}, ServiceLimits(**limits))
        monkeypatch.setattr(service.registry, "_models", {"none": SimpleNamespace(name="none")})
        service.worker.start()
        found: list[Any] = []
        with bind_socket("127.0.0.1", 0) as bound:
            address = f"http://127.0.0.1:{bound.getsockname()[1]}"
            app = build_application(service, AccessRules(frozenset()))
            server = HttpServer(app, service, bound)

            def ask() -> None:
                try:
                    with httpx.Client(base_url=address, timeout=20) as client:
                        found.append(visit(client))
                except BaseException:
                    server.should_exit = server.force_exit = True
                    raise

            visitor = threading.Thread(target=ask)
            code = server.serve_until_stopped(visitor.start)
            visitor.join()
        return code, found[0]

    yield run
    signal.signal(signal.SIGTERM, handler)
    sys.setswitchinterval(interval)


def test_requests_that_run_are_answered_before_the_server_ends(
    run_server: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    gate = threading.Event()

    def live_events(*_: Any) -> Generator[StreamEvent, None, None]:
        yield StreamEvent("start", {})
        gate.wait(20)
        yield StreamEvent("end", {})

    def visit(client: httpx.Client) -> list[int]:
        with client.stream("POST", "/v1/stream", json={"text": "a"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: start"
            os.kill(os.getpid(), signal.SIGTERM)
            while (ready := client.get("/readyz").status_code) == 200:
                time.sleep(0.01)
            statuses = [ready, client.get("/livez").status_code]
            statuses.append(client.post("/v1/translate", json=BODY).status_code)
            gate.set()
            assert "event: end" in list(lines)
        return statuses

    monkeypatch.setattr(routes, "live_events", live_events)
    assert run_server(visit) == (128 + signal.SIGTERM, [503, 200, 503])
    last = "untold: interrupted by SIGTERM: all requests were answered\n"
    assert capsys.readouterr().err.endswith(last)


@pytest.mark.parametrize(("seconds", "signals"), [(0.1, 1), (600, 2)])
def test_what_does_not_end_is_broken_off(
    run_server: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: float,
    signals: int,
):
    """After drain_seconds, or when a second signal comes."""
    gate = threading.Event()

    def run(_task: Any, items: list[Any], _advance: Any) -> list[Any]:
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        gate.wait(20)
        return items

    def visit(client: httpx.Client) -> httpx.Response:
        return client.post("/v1/translate", json=BODY)

    monkeypatch.setattr(TranslateTask, "run", run)
    code, answer = run_server(visit, drain_seconds=seconds)
    gate.set()
    assert code == 128 + signal.SIGTERM
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
    assert capsys.readouterr().err.endswith(": 1 request was broken off\n")
