"""What the service takes, and how it refuses the rest."""

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
TITLES |= {408: "Request Timeout", 413: "Payload Too Large", 429: "Too Many Requests", 503: "Service unavailable"}


@dataclass(frozen=True)
class Limits:
    """What the service takes.

    Args:
        batch_size: Texts scored at a time.
        waiting: Texts that may wait, before requests are answered with 503.
        requests: Requests of one client at the same time, before further ones are answered with 429.
        body_bytes: Size of a request, before it is answered with 413.
        labels: Labels that an answer holds at most.
        seconds: How long a request may take to arrive (408), and then to be answered (503).
    """

    batch_size: int = 32
    waiting: int = 256
    requests: int = 64
    body_bytes: int = 1_000_000
    labels: int = 1000
    seconds: float = 30.0


class Guard:
    """Refuses requests that are too large, arrive too slowly, or are too many of one client; counts and times all.

    Args:
        app: What answers the others.
        limits: What is too much.
        seconds: Where to note how long requests took, by path and status.
    """

    def __init__(self, app: ASGIApp, limits: Limits, seconds: Histogram) -> None:
        self._app, self._limits, self._seconds = app, limits, seconds
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = (scope["client"] or ("",))[0]
        start, status = time.perf_counter(), 500

        async def note_and_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._running[client] += 1
        try:
            if self._running[client] > self._limits.requests:
                await refusal(429, "too many requests at a time: wait for the answers")(scope, receive, note_and_send)
                return
            try:
                body = await self._read(receive)
            except HTTPException as error:
                await refusal(error.status_code, error.detail)(scope, receive, note_and_send)
                return
            await self._app(scope, _again(_escaped(scope, body), receive), note_and_send)
        finally:
            self._running[client] -= 1
            self._running += Counter()  # forgets clients without requests
            # Of the words of a client, none becomes a label: each would take memory for ever.
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
                        raise HTTPException(408, "the client has gone")
                    body += message.get("body", b"")
                    if len(body) > self._limits.body_bytes:
                        raise HTTPException(413, f"the request has more than {self._limits.body_bytes:,} bytes")
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive in {self._limits.seconds:g} seconds") from None


def _escaped(scope: Scope, body: bytes) -> bytes:
    """Escapes the bytes of a form that should have been: curl -d sends them as they are, and they would be Latin-1."""
    kind = dict(scope.get("headers", ())).get(b"content-type", b"")
    if not kind.lower().startswith(b"application/x-www-form-urlencoded"):
        return body
    return re.sub(rb"[\x80-\xff]", lambda byte: b"%%%02X" % byte[0][0], body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, and then what else is received: that the client has gone."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return messages.pop() if messages else await receive()

    return give


def refusal(status: int, detail: str) -> JSONResponse:
    """An answer that says what is wrong.

    Args:
        status: The status code.
        detail: What is wrong and what to do.
    """
    headers = {401: {"WWW-Authenticate": 'Bearer, Basic realm="hf-gile"'}}
    headers |= {status: {"Retry-After": "1"} for status in (429, 503)}
    problem = Problem(title=TITLES.get(status, "Error"), status=status, detail=detail)
    return JSONResponse(problem.model_dump(), status, headers.get(status), media_type="application/problem+json")
