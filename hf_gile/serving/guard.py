"""Limits of the service, and middleware that enforces them."""

import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass

from fastapi.responses import JSONResponse
from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .messages import Problem

TITLES = {400: "Bad Request", 401: "Unauthorized", 403: "Learning not allowed", 404: "Not found", 405: "Not allowed"}
TITLES |= {408: "Request Timeout", 413: "Payload Too Large", 429: "Too Many Requests"}
TITLES |= {500: "Internal Server Error", 503: "Service unavailable"}


@dataclass(frozen=True)
class Limits:
    """Limits of the service.

    Args:
        batch_size: Maximum number of texts scored at a time.
        waiting: Maximum number of waiting texts; further requests get status 503.
        requests: Maximum number of concurrent requests per client; further requests get status 429.
        body_bytes: Maximum size of a request; larger requests get status 413.
        labels: Maximum number of labels in an answer.
        seconds: Time limit for receiving a request (status 408), and for answering it (status 503).
    """

    batch_size: int = 32
    waiting: int = 256
    requests: int = 64
    body_bytes: int = 1_000_000
    labels: int = 1000
    seconds: float = 30.0


class Guard:
    """Middleware that rejects requests beyond the limits, and measures the duration of all requests.

    Args:
        app: Application that answers the accepted requests.
        limits: Limits of the service.
        seconds: Histogram of durations, by method, path and status.
    """

    def __init__(self, app: ASGIApp, limits: Limits, seconds: Histogram) -> None:
        self._app, self._limits, self._seconds = app, limits, seconds
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = (scope["client"] or ("",))[0]
        start, status = time.perf_counter(), 500

        async def timed_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._running[client] += 1
        try:
            if self._running[client] > self._limits.requests:
                await refusal(429, "too many concurrent requests: wait for the answers")(scope, receive, timed_send)
                return
            try:
                body = await self._read(receive)
            except HTTPException as error:
                await refusal(error.status_code, error.detail)(scope, receive, timed_send)
                return
            await self._app(scope, _replay(_escape_form(scope, body), receive), timed_send)
        finally:
            self._running[client] -= 1
            self._running += Counter()  # forgets clients without requests
            # Client input must not become a metric label: each new value would use memory forever.
            method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
            route = getattr(scope.get("route"), "path", "none")
            self._seconds.labels(method, route, status).observe(time.perf_counter() - start)

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPException(408, "the client disconnected")
                    body += message.get("body", b"")
                    if len(body) > self._limits.body_bytes:
                        raise HTTPException(413, f"the request has more than {self._limits.body_bytes:,} bytes")
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive in {self._limits.seconds:g} seconds") from None


def _escape_form(scope: Scope, body: bytes) -> bytes:
    """Escapes non-ASCII bytes in a form: curl -d does not escape them, and they would be decoded as Latin-1."""
    content_type = dict(scope.get("headers", ())).get(b"content-type", b"")
    if not content_type.lower().startswith(b"application/x-www-form-urlencoded"):
        return body
    return re.sub(rb"[\x80-\xff]", lambda byte: b"%%%02X" % byte[0][0], body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that first returns a body that was already read, and then further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def refusal(status: int, detail: str) -> JSONResponse:
    """Creates an error response.

    Args:
        status: The status code.
        detail: Error message with advice.
    """
    headers = {401: {"WWW-Authenticate": 'Bearer, Basic realm="hf-gile"'}}
    headers |= {status: {"Retry-After": "1"} for status in (429, 503)}
    problem = Problem(title=TITLES.get(status, "Error"), status=status, detail=detail)
    return JSONResponse(problem.model_dump(), status, headers.get(status), media_type="application/problem+json")
