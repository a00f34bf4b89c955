"""The REST API of Annif, so that an Annif takes a model as one of its `http` backends; and metrics of the service.

What the API asks for: https://api.annif.org/v1/openapi.json. A text is scored with the labels stored with the model;
the id of a label is its URI.
"""

import asyncio
import base64
import hmac
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..models import LabelScoringPipeline
from .batching import Batcher, Overloaded

BATCH = 32
"""Documents that `suggest-batch` takes at most, as Annif does."""

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


class Suggestion(BaseModel):
    """A label of a text: its id, its name and its probability."""

    uri: str
    label: str
    notation: str | None = None
    score: float


class Suggestions(BaseModel):
    """The labels of a text, best first."""

    results: list[Suggestion]


class NumberedSuggestions(Suggestions):
    """The labels of a document of a batch."""

    document_id: str | None = None


class Backend(BaseModel):
    """The kind of a project."""

    backend_id: str = "hf-gile"


class Vocabulary(BaseModel):
    """The labels of the model."""

    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool = True


class Project(BaseModel):
    """A model as Annif describes it.

    Args:
        project_id: Its name in addresses.
        name: Its name for people.
        language: Of texts and labels, a code of two letters.
        vocab: Its labels.
        modification_time: When it was saved.
    """

    project_id: str
    name: str
    language: str
    backend: Backend = Backend()
    vocab: Vocabulary
    vocab_language: str
    is_trained: bool = True
    modification_time: datetime


class Projects(BaseModel):
    """All projects."""

    projects: list[Project]


class Vocabularies(BaseModel):
    """All vocabularies."""

    vocabs: list[Vocabulary]


class Info(BaseModel):
    """What the service is."""

    title: str
    version: str


class Health(BaseModel):
    """That the service runs."""

    status: str


class Problem(BaseModel):
    """An error."""

    title: str
    status: int
    detail: str


def _readable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no character") from None
    return text


Text = Annotated[str, AfterValidator(_readable)]


class Document(BaseModel):
    """A text to score; its metadata are not read."""

    text: Text
    document_id: Text | None = None


class Documents(BaseModel):
    """A batch of texts."""

    documents: Annotated[list[Document], Field(max_length=BATCH)]


Suggest = Callable[[list[tuple[str, int]]], list[list[Suggestion]]]
"""From texts, each with the number of labels wanted, to the best labels of each."""


def suggest_with(pipe: LabelScoringPipeline) -> Suggest:
    """Suggests the labels stored with a model.

    Args:
        pipe: Scores texts with them.

    Raises:
        ValueError: The model stores no labels.
    """
    labels = pipe.model.label_set
    if not labels:
        raise ValueError("the model stores no labels to suggest: add some with hf-gile labels import")
    by_name = {label.name: label for label in labels}

    def suggest(texts: list[tuple[str, int]]) -> list[list[Suggestion]]:
        most = max(1, *(limit for _, limit in texts), 1)
        pipe.call_count = 0  # else Transformers advises, on a GPU, against calls with a few texts
        answers = pipe([text for text, _ in texts], top_k=most, batch_size=len(texts))
        return [
            [
                Suggestion(uri=by_name[name].id, label=name, score=score)
                for name, score in zip(answer["labels"][:limit], answer["scores"][:limit], strict=True)
            ]
            for answer, (_, limit) in zip(answers, texts, strict=True)
        ]

    return suggest


def describe(project_id: str, num_labels: int, language: str, saved: datetime) -> Project:
    """Describes a model as Annif does.

    Args:
        project_id: Its name, in addresses, too.
        num_labels: Number of labels stored with it.
        language: Of texts and labels, a code of two letters.
        saved: When it was saved.
    """
    return Project(
        project_id=project_id,
        name=project_id,
        language=language,
        vocab=Vocabulary(vocab_id=project_id, languages=[language], size=num_labels),
        vocab_language=language,
        modification_time=saved,
    )


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
            await self._app(scope, _again(body, receive), note_and_send)
        finally:
            self._running[client] -= 1
            self._running += Counter()  # forgets clients without requests
            route = getattr(scope.get("route"), "path", "none")
            self._seconds.labels(scope["method"], route, status).observe(time.perf_counter() - start)

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


async def _say(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        return refusal(400, "; ".join(wrong))
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, str(error.detail))


def _token_of(request: Request) -> str:
    """The token that a request has in its header, as it is or as a password."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return value if kind.lower() == "bearer" else ""


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Of an OpenAPI document: the errors of a route, beside those that any route has."""
    content = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return {status: {"description": TITLES[status], "content": content} for status in (401, 408, 413, 429, *statuses)}


def make_app(suggest: Suggest, project: Project, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """Makes the service.

    Args:
        suggest: Scores texts, see `suggest_with`.
        project: What it says of the model.
        limits: What it takes.
        token: Without it no request but `/health` is answered: `Authorization: Bearer TOKEN`, or the password of an
            address `http://user:TOKEN@host/`, the way that is open to Annif.
    """
    limits = limits or Limits()
    batcher = Batcher(suggest, limits.batch_size, limits.waiting)
    registry = CollectorRegistry()
    seconds = Histogram("hf_gile_request_seconds", "Time of requests", ["method", "path", "status"], registry=registry)
    Gauge("hf_gile_waiting_texts", "Texts that wait", registry=registry).set_function(lambda: len(batcher))

    def check_token(request: Request) -> None:
        if token is not None and not hmac.compare_digest(_token_of(request).encode(), token.encode()):
            raise HTTPException(401, "pass the token of the service: Authorization: Bearer TOKEN")

    def check_project(project_id: str, language: str | None = None) -> None:
        if project_id != project.project_id:
            raise HTTPException(404, f"there is no project {project_id!r:.100}, only {project.project_id!r}")
        if language and language != project.vocab_language:
            raise HTTPException(400, f"labels are in {project.vocab_language!r}, not in {language!r:.100}")

    async def answer(texts: Sequence[str], limit: int, threshold: float) -> list[list[Suggestion]]:
        try:
            async with asyncio.timeout(limits.seconds):
                answers = await batcher([(text, min(limit, limits.labels)) for text in texts])
        except TimeoutError:
            raise HTTPException(503, f"no answer within {limits.seconds:g} seconds: try again later") from None
        except Overloaded:
            raise HTTPException(503, "too many texts are waiting: try again later") from None
        return [[one for one in suggestions if one.score >= threshold] for suggestions in answers]

    app = FastAPI(title="hf-gile", version=version("hf-gile"), docs_url=None, redoc_url=None)
    app.add_middleware(Guard, limits=limits, seconds=seconds)
    app.add_exception_handler(HTTPException, _say)
    app.add_exception_handler(RequestValidationError, _say)
    api = APIRouter(dependencies=[Depends(check_token)])

    @app.get("/health", responses=_documented())
    async def health() -> Health:
        return Health(status="ok")

    @api.get("/metrics", responses=_documented())
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @api.get("/v1/", responses=_documented())
    async def info() -> Info:
        return Info(title="Annif REST API, by hf-gile", version=version("hf-gile"))

    @api.get("/v1/vocabs", responses=_documented())
    async def vocabs() -> Vocabularies:
        return Vocabularies(vocabs=[project.vocab])

    @api.get("/v1/projects", responses=_documented())
    async def projects() -> Projects:
        return Projects(projects=[project])

    @api.get("/v1/projects/{project_id}", responses=_documented(404))
    async def show(project_id: str) -> Project:
        check_project(project_id)
        return project

    @api.post("/v1/projects/{project_id}/suggest", responses=_documented(400, 404, 503))
    async def suggest_one(
        project_id: str,
        text: Annotated[Text, Form()],
        limit: Annotated[int, Form(ge=0)] = 10,
        threshold: Annotated[float, Form(ge=0, le=1)] = 0.0,
        language: Annotated[str | None, Form()] = None,
    ) -> Suggestions:
        check_project(project_id, language)
        return Suggestions(results=(await answer([text], limit, threshold))[0])

    @api.post("/v1/projects/{project_id}/suggest-batch", responses=_documented(400, 404, 503))
    async def suggest_batch(
        project_id: str,
        body: Documents,
        limit: Annotated[int, Query(ge=0)] = 10,
        threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
        language: str | None = None,
    ) -> list[NumberedSuggestions]:
        check_project(project_id, language)
        answers = await answer([document.text for document in body.documents], limit, threshold)
        return [
            NumberedSuggestions(results=results, document_id=document.document_id)
            for results, document in zip(answers, body.documents, strict=True)
        ]

    @api.post("/v1/projects/{project_id}/learn", status_code=403, responses=_documented(403, 404))
    async def learn(project_id: str) -> Problem:
        check_project(project_id)
        raise HTTPException(403, "a model does not learn from the service: train it with hf-gile train")

    app.include_router(api)
    return app
