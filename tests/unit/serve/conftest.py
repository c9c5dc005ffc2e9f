"""A service with the model of the package, and clients that ask its application directly."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from untold.serve.app import AccessRules, build_application
from untold.serve.schemas import ServiceLimits
from untold.serve.service import Service

KEY = "0123456789abcdef"
ORIGIN = "https://a.example"


class Client:
    """Asks an application, without a socket."""

    def __init__(self, service: Service, rules: AccessRules) -> None:
        self.service, self.app = service, build_application(service, rules)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as own:
                return await own.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.ask("POST", path, json=body, **options)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    service = Service({}, ServiceLimits(texts=4))
    service.start()
    yield service
    service.queue.close()


@pytest.fixture
def client(service: Service) -> Client:
    return Client(service, AccessRules(frozenset({"localhost", "[::1]"})))


@pytest.fixture
def locked(service: Service) -> Client:
    """Needs a key, and lets pages of another origin ask."""
    return Client(service, AccessRules(frozenset(), frozenset({ORIGIN}), KEY))
