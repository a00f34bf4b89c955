"""Limits of the service, and the middleware and connections that enforce them."""

import asyncio
import base64
import hmac
import time
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .messages import Problem

OPEN = ("/health", "/openapi.json", "/", "/docs")
"""Paths that need no token."""


@dataclass(frozen=True)
class Limits:
    """Limits of the service.

    Args:
        batch_size: Maximum number of texts scored at a time.
        waiting: Maximum number of waiting texts; further requests get status 503.
        requests: Maximum number of concurrent requests per client; further requests get status 429.
        body_bytes: Maximum size of a request; larger requests get status 413.
        labels: Maximum number of labels in an answer.
        seconds: Time limit for receiving a header, for receiving the rest of a request (status 408), and for answering
            it (status 503).
        connections: Maximum number of open connections; a further one closes the oldest without a request.
    """

    batch_size: int = 32
    waiting: int = 256
    requests: int = 64
    body_bytes: int = 1_000_000
    labels: int = 1000
    seconds: float = 30.0
    connections: int = 512


class Guard:
    """Middleware that rejects requests without the token or beyond the limits, and measures the duration of all.

    Requests without the token are answered by their header alone: they take nothing from the limits of a client.

    Args:
        app: Application that answers the accepted requests.
        limits: Limits of the service.
        seconds: Histogram of durations, by method, path and status.
        token: Token required by all requests except those of `OPEN`.
    """

    def __init__(self, app: ASGIApp, limits: Limits, seconds: Histogram, token: str | None = None) -> None:
        self._app = app
        self._limits = limits
        self._seconds = seconds
        self._token = token
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles an ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500

        async def timed_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            if scope["path"] in OPEN:
                await self._app(scope, receive, timed_send)
            elif self._token is not None and not hmac.compare_digest(_read_token(scope), self._token.encode()):
                detail = "pass the token of the service: Authorization: Bearer TOKEN"
                await refusal(401, detail)(scope, receive, timed_send)
            else:
                await self._answer(scope, receive, timed_send)
        finally:
            # Client input must not become a metric label: each new value would use memory forever.
            method = scope["method"] if scope["method"] in ("GET", "POST") else "other"
            route = getattr(scope.get("route"), "path", "none")
            self._seconds.labels(method, route, status).observe(time.perf_counter() - start)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with the token, if its client has not too many."""
        client = (scope["client"] or ("",))[0]
        self._running[client] += 1
        try:
            if self._running[client] > self._limits.requests:
                raise HTTPException(429, "too many concurrent requests: wait for the answers")
            body = await self._read(receive)
        except HTTPException as error:
            await refusal(error.status_code, error.detail)(scope, receive, send)
        else:
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._running[client] -= 1
            self._running += Counter()  # forgets clients without requests

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


class Connection(H11Protocol):
    """Connection that is closed if no request arrives in time, or to make room for another.

    uvicorn itself waits for the rest of a header for ever.

    Args:
        limits: Limits of the service.
        opened: The open connections, oldest first; shared by all.
        options: Arguments of uvicorn.
    """

    def __init__(self, *, limits: Limits, opened: dict["Connection", None], **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._opened = opened
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to wait for a request."""
        super().connection_made(transport)
        if len(self._opened) >= self._limits.connections:
            waiting = (connection for connection in self._opened if connection.waits_for_request())
            next(waiting, self).abort()
        if not transport.is_closing():
            self._opened[self] = None
            self._wait()

    def on_response_complete(self) -> None:
        """Starts to wait for the next request."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._opened.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def waits_for_request(self) -> bool:
        """Returns whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        """Closes the connection."""
        self._opened.pop(self, None)
        self.transport.abort()

    def _wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self._limits.seconds, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waits_for_request():
            self.abort()


def _read_token(scope: Scope) -> bytes:
    """Returns the token from the Authorization header of a request: a bearer token or a password."""
    header = dict(scope.get("headers", ())).get(b"authorization", b"")
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return value if scheme.lower() == b"bearer" else b""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that first returns a body that was already read, and then further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def refusal(status: int, detail: str) -> JSONResponse:
    """Creates an error response with a message."""
    headers = {
        401: {"WWW-Authenticate": 'Bearer, Basic realm="hf-gile"'},
        429: {"Retry-After": "1"},
        503: {"Retry-After": "1"},
    }
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(problem.model_dump(), status, headers.get(status), media_type="application/problem+json")
