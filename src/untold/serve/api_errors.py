"""Refusals of the service: a status, a short code for programs and a sentence for people."""

from typing import Any

from untold.errors import one_line

STATUSES = {  # that a request may be refused with, for the documentation
    400: "The body is not JSON, or not UTF-8.",
    401: "The API key is missing or wrong.",
    403: "The page of another origin asks, or `api_key` is wrong.",
    408: "The body arrives too slowly.",
    413: "The body, a text or a file is too long, or there are too many of them.",
    415: "The body is not called JSON.",
    421: "The server has another name than the Host header says.",
    422: "A field is missing, unknown or beyond its limit, or the model cannot do it.",
    429: "Too many requests wait; `Retry-After` says when to try again.",
    503: "The server starts, stops, or has too many connections.",
    504: "There was no answer in time.",
}


class ApiError(Exception):
    """Refuses a request; its message names the value, the limit and the cure."""

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.message = one_line(message)
        self.headers = headers or {}

    def as_record(self) -> dict[str, Any]:
        """Converts the refusal for JSON."""
        return {"error": {"code": self.code, "message": self.message}}


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


def unfit(code: str, message: str) -> ApiError:
    """Refuses a value that is well-formed but not allowed."""
    return ApiError(422, code, message)


def busy(waiting: int, retry_after: int) -> ApiError:
    """Refuses a request because too many wait already."""
    message = f"{waiting} requests wait already, which is the limit: try again in {retry_after} s"
    return ApiError(429, "busy", message, {"retry-after": str(retry_after)})


def not_ready(reason: str) -> ApiError:
    """Refuses a request because the server cannot work now."""
    return ApiError(503, "not_ready", f"{reason}: try again later", {"retry-after": "5"})


def too_late(seconds: float) -> ApiError:
    """Gives up a request that took too long."""
    return ApiError(
        504, "timeout", f"no answer within {seconds:g} s: ask for less at a time, or try again"
    )
