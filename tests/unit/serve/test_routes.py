"""Routes refuse what is beyond their limits and hand the rest to the model."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from untold.serve.schemas import BoundedRequest

from .conftest import Client

SENTENCE = "The child reads a book ."
JSON = {"content-type": "application/json"}


def test_the_document_shows_every_route_and_its_body(client: Client):
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        *(f"/v1/{name}" for name in ("models", "translate", "explain", "check", "stream")),
        *("/translate", "/languages", "/livez", "/healthz", "/readyz", "/metrics"),
    }
    for name in ("Translate", "Explain", "Check", "Stream"):
        assert document["components"]["schemas"][f"{name}Body"]["examples"]


@pytest.mark.parametrize("path", ["/", "/livez", "/v1/models"])
def test_head_is_get_without_a_body(client: Client, path: str):
    """uvicorn drops the body."""
    assert client.ask("HEAD", path).status_code == 200


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"", JSON, 400, "not_json"),
        (b'{"texts": ["a"], "texts": []}', JSON, 400, "not_json"),
        (b'{"texts": ["a"], "length_penalty": NaN}', JSON, 400, "not_json"),
        (b"{}", {"content-type": "text/plain"}, 415, "not_json"),
        (b"{}", JSON | {"content-encoding": "gzip"}, 415, "not_json"),
        (b"null", JSON, 422, "invalid"),
        (b'{"texts": ["a"], "bem": 1}', JSON, 422, "invalid"),
        (b'{"texts": ["a"], "beam": "1"}', JSON, 422, "invalid"),
        (b'{"texts": ["a"], "beam": 17}', JSON, 422, "beam_too_large"),
        (b'{"texts": ["a"], "nbest": 2, "beam": 1}', JSON, 422, "nbest_too_large"),
        (b'{"texts": ["a"], "prefixes": []}', JSON, 422, "prefixes"),
        (b'{"texts": ["a"], "model": "/etc"}', JSON, 422, "unknown_model"),
        (json.dumps({"texts": ["a"] * 5}).encode(), JSON, 413, "too_many"),
        (json.dumps({"texts": ["a" * 2001]}).encode(), JSON, 413, "too_long"),
        (b" " * 6_000_000, JSON, 413, "body_too_large"),
    ],
)
def test_bodies_that_are_refused(client: Client, content, headers, status, code):
    answer = client.ask("POST", "/v1/translate", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert BoundedRequest.total_held == 0


def test_a_body_that_is_slow_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch):
    limits = client.service.limits
    monkeypatch.setattr(client.service, "limits", type(limits)(read_seconds=0.05))

    async def drip() -> AsyncIterator[bytes]:
        yield b'{"texts"'
        await asyncio.sleep(5)

    answer = client.ask("POST", "/v1/translate", content=drip(), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (408, "slow_body")


def test_a_body_that_is_too_large_is_not_kept(client: Client):
    most = client.service.limits.body_bytes

    async def pour() -> AsyncIterator[bytes]:
        for _ in range(4):
            assert BoundedRequest.total_held <= most
            yield b" " * (most // 2)

    answer = client.ask("POST", "/v1/translate", content=pour(), headers=JSON)
    assert (answer.status_code, BoundedRequest.total_held) == (413, 0)


def test_bodies_of_all_requests_together_are_bounded(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(BoundedRequest, "total_held", 10**9)
    answer = client.post("/v1/translate", {"texts": [SENTENCE]})
    assert answer.status_code == 503 and "too many large bodies" in answer.text
    assert BoundedRequest.total_held == 10**9


def said(answer: httpx.Response) -> str:
    (translation,) = answer.json()["translations"]
    return translation["text"]


def test_many_requests_at_once_get_their_own_answers(client: Client):
    texts = [f"The {word} reads a book ." for word in ("child", "woman", "judge", "man")] * 6
    alone = [said(client.post("/v1/translate", {"texts": [text]})) for text in texts[:4]]

    async def ask_all() -> list[str]:
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as own:
            asked = [own.post("/v1/translate", json={"texts": [text]}) for text in texts]
            return list(map(said, await asyncio.gather(*asked)))

    assert asyncio.run(ask_all()) == alone * 6
    assert len(set(alone)) == 4


def test_a_trace_is_the_explanation_of_the_translation(client: Client):
    answer = client.post("/v1/translate", {"texts": [SENTENCE, " "], "trace": True}).json()
    first, blank = answer["translations"]
    assert blank["trace"] is None
    explained = client.post("/v1/explain", {"pairs": [{"source": SENTENCE}]}).json()
    assert first["trace"] == explained["sentences"][0] and first["trace"]["links"]


def test_given_and_own_translations_are_explained_in_order(client: Client):
    sources = [SENTENCE, SENTENCE, "The woman reads a book .", "The man reads a book ."]
    pairs = [{"source": source} for source in sources]
    pairs[1]["target"] = "Das Kind liest ."
    sentences = client.post("/v1/explain", {"pairs": pairs}).json()["sentences"]
    assert [sentence["source"]["text"] for sentence in sentences] == sources
    given = [sentence["target"]["given"] for sentence in sentences]
    assert given == [False, True, False, False]
    assert sentences[1]["target"]["text"] == "Das Kind liest ."


def test_an_omission_is_found_in_a_pair_and_in_a_file(client: Client):
    pair = {"source": SENTENCE, "target": "Das Kind liest ."}
    by_pair = client.post("/v1/check", {"pairs": [pair]}).json()
    assert [finding["text"] for finding in by_pair["results"][0]["findings"]] == ["a book"]
    content = base64.b64encode(f"{pair['source']}\t{pair['target']}\n".encode()).decode()
    by_file = client.post("/v1/check", {"file": {"name": "x.tsv", "content": content}}).json()
    assert by_file["results"][0] == by_pair["results"][0] | {"file": "x.tsv"}
    rare = client.post("/v1/check", {"pairs": [pair], "expected": 0.001, "threshold": 0.99}).json()
    assert rare["findings"] == 0
    assert rare["results"][0]["source"]["any"] < by_pair["results"][0]["source"]["any"]
    both = {"pairs": [pair], "file": {"name": "x.tsv", "content": content}}
    for body in ({}, both):
        assert client.post("/v1/check", body).json()["error"]["code"] == "pairs_or_file"


def test_a_stream_ends_with_the_translation(client: Client):
    answer = client.post("/v1/stream", {"text": SENTENCE})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    assert names == ["start", *["token"] * (len(names) - 2), "end"]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    shares, end = data[-1]["translation"]["trace"]["shares"], data[-1]
    for event, row in ((data[1], shares[0]), (data[-2], shares[-1])):
        assert event["shares"] == [pytest.approx(word, abs=1e-4) for word in row]
    whole = client.post("/v1/translate", {"texts": [SENTENCE], "trace": True}).json()
    assert end["translation"] == whole["translations"][0]


def test_libretranslate_takes_forms_and_lists(client: Client):
    languages = client.get("/languages").json()
    assert languages == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    fields = {"q": SENTENCE, "source": "auto", "target": "de", "alternatives": "1"}
    one = client.ask("POST", "/translate", data=fields).json()
    assert one["detectedLanguage"] == {"confidence": 100.0, "language": "en"}
    assert len(one["alternatives"]) == 1
    two = client.post("/translate", {**fields, "q": [SENTENCE], "alternatives": 1}).json()
    assert two == {name: [value] for name, value in one.items()}
    wrong = client.post("/translate", {**fields, "target": "fr"})
    assert wrong.status_code == 400 and "no model translates auto to fr" in wrong.json()["error"]
