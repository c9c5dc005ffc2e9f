"""Requests wait for the worker only so long, and their work stops when their client leaves."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from untold.embedded import embedded_model
from untold.errors import UntoldError
from untold.serve.schemas import ApiError, ServiceLimits
from untold.serve.service import Decoding, Service, read_model_names


def test_models_are_named_by_hand_or_by_their_directory():
    named = read_model_names(["a=x/y", "runs/demo"])
    assert {name: str(path) for name, path in named.items()} == {"a": "x/y", "demo": "runs/demo"}
    for wrong in (["=x"], ["a="], ["x/a", "a=b"]):
        with pytest.raises(UntoldError):
            read_model_names(wrong)


@dataclass(frozen=True)
class Halving:
    """Halves numbers; never ends for 0."""

    kind = "halve"

    def size(self, item: int) -> int:
        return 1

    def run(self, items: Sequence[int], advance: Callable[[], None]) -> list[int]:
        advance()
        while 0 in items:
            advance()
        return [item // 2 for item in items]


def request_of(client: "asyncio.Event | None" = None) -> Request:
    """A request whose client leaves when the event is set."""

    async def receive() -> dict[str, Any]:
        await (client or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Generator[Service, None, None]:
    """A service that computes, without a model."""
    service = Service({}, ServiceLimits(seconds=0.5, batch_texts=2))
    monkeypatch.setattr(service.registry, "_models", {"none": None})
    service.worker.start()
    yield service
    service.queue.close()


def steps(service: Service) -> float:
    return service.metrics.registry.get_sample_value("untold_steps_total") or 0


async def rests(service: Service) -> bool:
    before = steps(service)
    await asyncio.sleep(0.05)
    return steps(service) == before


def test_each_request_gets_its_own_results(service):
    async def ask() -> list[list[Any]]:
        asked = [service.run(request_of(), Halving(), [2 * k, 2 * k]) for k in range(1, 30)]
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [[k, k] for k in range(1, 30)]


def test_time_is_up_for_a_request_and_its_work_stops(service):
    async def ask() -> None:
        with pytest.raises(ApiError) as refused:
            await service.run(request_of(), Halving(), [0])
        assert (refused.value.status, refused.value.code) == (504, "timeout")
        await asyncio.sleep(0.05)
        assert await rests(service)
        assert await service.run(request_of(), Halving(), [8]) == [4]

    asyncio.run(ask())


def test_the_work_stops_when_the_client_leaves(service):
    async def ask() -> None:
        leaves = asyncio.Event()
        asked = asyncio.create_task(service.run(request_of(leaves), Halving(), [0]))
        while not steps(service):
            await asyncio.sleep(0.01)
        leaves.set()
        with pytest.raises(ClientDisconnect):
            await asked
        await asyncio.sleep(0.05)
        assert await rests(service)

    asyncio.run(ask())


def test_progress_is_told_and_then_all_results(service):
    async def ask() -> list[Any]:
        async with aclosing(service.watch(request_of(), Halving(), [2, 4, 6, 8, 10])) as events:
            return [event async for event in events]

    assert asyncio.run(ask()) == [2, 4, [1, 2, 3, 4, 5]]


def test_a_list_may_take_longer_than_an_answer_while_it_goes_on(service, monkeypatch):
    halve = Halving.run

    def halve_slowly(task: Halving, items: Sequence[int], advance: Callable[[], None]) -> list[int]:
        time.sleep(0.3)
        return halve(task, items, advance)

    async def watch() -> list[Any]:
        async with aclosing(service.watch(request_of(), Halving(), [2, 4, 6])) as events:
            return [event async for event in events]

    monkeypatch.setattr(Halving, "run", halve_slowly)
    assert asyncio.run(watch()) == [2, [1, 2, 3]]
    with pytest.raises(ApiError):
        asyncio.run(service.run(request_of(), Halving(), [2, 4, 6]))


def test_a_stream_ends_when_nobody_follows_it(service):
    told: list[int] = []

    def count() -> Generator[int, None, None]:
        try:
            for number in range(10**9):
                told.append(number)
                yield number
        finally:
            told.append(-1)

    async def follow() -> None:
        async with aclosing(service.stream(request_of(), count())) as events:
            assert [await anext(events) for _ in range(3)] == [0, 1, 2]
        while told[-1] != -1:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(follow(), 10))


def test_a_stream_that_takes_too_long_is_given_up(service):
    def endless() -> Generator[int, None, None]:
        while True:
            yield 1

    async def follow() -> AsyncIterator[int]:
        async with aclosing(service.stream(request_of(), endless())) as events:
            async for event in events:
                yield event

    async def count() -> int:
        return len([event async for event in follow()])

    with pytest.raises(ApiError) as refused:
        asyncio.run(count())
    assert refused.value.status == 504


def test_a_model_that_is_broken_is_not_loaded_and_the_one_before_stays(tmp_path: Path):
    model = tmp_path / "model"
    shutil.copytree(embedded_model(), model)
    service = Service({"own": model})
    service.registry.load()
    before = service.registry.find("own")
    assert service.reload() == "models loaded again: own"
    assert service.registry.find(None) is not before
    before = service.registry.find(None)
    (model / "model.safetensors").write_bytes(b"broken")
    assert service.reload().startswith("the models from before stay, because loading failed: ")
    assert service.registry.find("own") is before
    count = service.metrics.registry.get_sample_value
    assert [count("untold_reloads_total", {"result": each}) for each in ("ok", "failed")] == [1, 1]
    with pytest.raises(ApiError):
        service.registry.find("../model")


def test_a_model_searches_as_a_request_wants():
    service = Service({})
    service.registry.load()
    model = service.registry.models[0]
    plain = model.translator.decode
    assert model.with_decoding(Decoding()).decode == plain
    wider = model.with_decoding(Decoding(nbest=plain.beam + 3, length_penalty=0.5)).decode
    assert (wider.beam, wider.nbest, wider.length_penalty) == (plain.beam + 3,) * 2 + (0.5,)
    narrow = model.with_decoding(Decoding(beam=1))
    assert narrow.decode.beam == 1 and model.with_decoding(Decoding(beam=1)) is narrow
    for penalty in (0.5, 2.0):  # a request must not get what the one before it asked for
        decoding = Decoding(length_penalty=penalty)
        assert model.with_decoding(decoding).decode.length_penalty == penalty
