"""The application: all routes together, behind the guard."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from untold.serve.answers import JsonAnswer, first_mistake, refusal_answer
from untold.serve.api_errors import ApiError, ClientGoneError
from untold.serve.api_routes import api_routes
from untold.serve.docs_page import docs_page
from untold.serve.libre_routes import libre_routes
from untold.serve.request_guard import GuardRules, RequestGuard
from untold.serve.service import Service
from untold.version import __version__
from untold.web import asset

_GONE = 499  # nobody reads this status


def build_application(service: Service, rules: GuardRules) -> ASGIApp:
    """Makes the application of one service."""
    app = FastAPI(
        title="untold",
        version=__version__,
        description="Translation that knows what it has said and what is still untold.",
        docs_url=None,
        redoc_url=None,
        default_response_class=JsonAnswer,
        redirect_slashes=False,
    )
    app.include_router(api_routes(service))
    app.include_router(libre_routes(service, rules.key))
    _add_page(app)
    _add_probes(app, service)
    app.add_exception_handler(ApiError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_fields)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(ClientGoneError, _say_nothing)
    return RequestGuard(app, service, rules)


def _add_page(app: FastAPI) -> None:
    def answer(name: str) -> Response:
        try:
            content, kind = asset(name)
        except KeyError:
            raise ApiError(404, "not_found", "there is no such file: see / for the page") from None
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return answer(name)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html")


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
        service.metrics.waiting(len(service.queue))
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


async def _refuse(request: Request, error: Any) -> Response:
    return refusal_answer(error, request.url.path)


async def _refuse_fields(request: Request, error: Any) -> Response:
    return await _refuse(request, first_mistake(error.errors()))


async def _refuse_route(request: Request, error: Any) -> Response:
    codes = {404: "not_found", 405: "wrong_method"}
    reason = str(error.detail)
    message = f"{reason}: see /docs for what there is"
    code = codes.get(error.status_code, "refused")
    headers = dict(error.headers or {})
    return await _refuse(request, ApiError(error.status_code, code, message, headers))


async def _say_nothing(_request: Request, _error: Any) -> Response:
    return Response(status_code=_GONE)
