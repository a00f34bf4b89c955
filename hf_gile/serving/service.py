"""Implements the REST API of Annif, so that Annif can use a model as an `http` backend, and metrics of the service.

The API is specified in https://api.annif.org/v1/openapi.json. Texts are scored against the labels stored with the
model. Label ids are URIs, or become URIs with a prefix.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException

from ..masking import masked
from .batching import Batcher, Failed, Item, Overloaded, Result
from .guard import Guard, Limits, refusal
from .learning import JournalFull
from .messages import (
    BATCH,
    Corrected,
    Documents,
    NumberedSuggestions,
    Problem,
    Project,
    Projects,
    Question,
    Suggestion,
    Suggestions,
    Text,
    Vocabularies,
)
from .suggesting import Suggester

logger = logging.getLogger(__name__)

CONTENT_TYPES = {
    "suggest": ("application/x-www-form-urlencoded", "multipart/form-data", "application/json"),
    "suggest-batch": ("application/json",),
    "learn": ("application/json",),
}
"""Content types of the bodies of requests, by the last part of the path."""

Learn = Callable[[Sequence[Corrected]], None]
"""Learns from corrected documents, see `Suggester.learn`."""

PAGES = Path(__file__).parent / "pages"
"""Folder of the pages for people, which load nothing from other servers."""

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'"
}
"""Headers of the pages: a browser then enforces that they load nothing."""


async def _respond(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        problems = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()[:3]]
        wanted = CONTENT_TYPES.get(request.url.path.rpartition("/")[2], "")
        if wanted and not request.headers.get("Content-Type", "").startswith(wanted):
            problems.append(f"the Content-Type must be {' or '.join(wanted)}")
        return refusal(400, "; ".join(problems))
    assert isinstance(error, HTTPException)
    answer = refusal(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def _error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the error responses of a route for OpenAPI, including those of all routes."""
    content = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (401, 408, 413, 429, *statuses)
    } | {"default": {"description": "Any other error", "content": content}}


def make_app(
    suggester: Suggester,
    project: Project,
    limits: Limits | None = None,
    token: str | None = None,
    learn: Learn | None = None,
) -> FastAPI:
    """Creates the service.

    Args:
        suggester: Reads and scores texts.
        project: Description of the model.
        limits: Limits of the service.
        token: Token required by all requests except those of `OPEN`, as `Authorization: Bearer TOKEN`, or as the
            password in a URL, `http://user:TOKEN@host/`, which Annif supports.
        learn: Function that learns from corrected documents; by default they are refused.
    """
    limits = limits or Limits()
    batcher = Batcher(suggester, limits.batch_size, limits.waiting, suggester.read)
    lessons: Batcher[Sequence[Corrected], None] | None = None
    if learn is not None:
        lessons = Batcher(partial(map, learn), 1, limits.waiting)
    registry = CollectorRegistry()
    seconds = Histogram("hf_gile_request_seconds", "Request durations", ["method", "path", "status"], registry=registry)
    Gauge("hf_gile_waiting_texts", "Waiting texts", registry=registry).set_function(lambda: len(batcher))

    async def answer(questions: Sequence[Question]) -> list[list[Suggestion]]:
        if len(questions) > limits.waiting:
            raise HTTPException(400, f"at most {limits.waiting} texts can wait here: send fewer in a request")
        items = [item.model_copy(update={"limit": min(item.limit, limits.labels)}) for item in questions]
        return await _compute(batcher, items, limits.seconds)

    async def teach(documents: Sequence[Corrected]) -> None:
        if lessons is None:
            raise HTTPException(403, "this service does not learn: start it with --learn FOLDER, or use hf-gile train")
        await _compute(lessons, [documents], limits.seconds)

    app = FastAPI(title="hf-gile", version=version("hf-gile"), docs_url=None, redoc_url=None)
    app.add_middleware(Guard, limits=limits, seconds=seconds, token=token)
    app.add_exception_handler(HTTPException, _respond)
    app.add_exception_handler(RequestValidationError, _respond)

    for routes in (_project(project, answer, teach), _descriptions(project), _pages()):
        app.include_router(routes)  # the first that matches answers: most requests are for suggestions

    @app.get("/health", responses=_error_responses(503))
    async def health() -> dict[str, str]:
        """Says whether the service answers."""
        busy = batcher.busy_seconds()
        if busy > limits.seconds:
            raise HTTPException(503, f"texts have been tokenized or scored for {busy:.0f} seconds: restart the service")
        return {"status": "ok"}

    @app.get("/metrics", responses=_error_responses(), response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Returns figures for Prometheus."""
        return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def _compute(batcher: Batcher[Item, Result], items: Sequence[Item], seconds: float) -> list[Result]:
    """Waits for the answers to items; errors become those of the service."""
    try:
        async with asyncio.timeout(seconds):
            return await batcher(items)
    except TimeoutError:
        raise HTTPException(503, f"no answer within {seconds:g} seconds: try again later") from None
    except Overloaded:
        raise HTTPException(503, "too many texts are waiting: try again later") from None
    except JournalFull as full:
        raise HTTPException(403, str(full)) from None
    except ValueError as error:
        raise HTTPException(400, masked(str(error))) from None
    except Failed as failed:
        logger.error("a text cannot be scored or learned", exc_info=failed.args[0])
        detail = f"the text cannot be scored ({type(failed.args[0]).__name__}): see the log of the service"
        raise HTTPException(500, detail) from None


def _pages() -> APIRouter:
    """Creates the routes of the pages for people: one tries the model, the other describes this API."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/")
    async def page() -> FileResponse:
        return FileResponse(PAGES / "try.html", headers=PAGE_HEADERS)

    @pages.get("/docs")
    async def docs() -> FileResponse:
        return FileResponse(PAGES / "docs.html", headers=PAGE_HEADERS)

    return pages


def _check(project: Project, project_id: str, language: str = "") -> None:
    """Checks the project of a request, and its language, if any."""
    if project_id != project.project_id:
        raise HTTPException(404, f"no project {project_id!r:.100}, only {project.project_id!r}")
    if language not in ("", project.vocab_language):
        raise HTTPException(400, f"labels are in {project.vocab_language!r}, not in {language!r:.100}")


def _descriptions(project: Project) -> APIRouter:
    """Creates the routes that describe the service."""
    api = APIRouter(prefix="/v1")

    @api.get("/", responses=_error_responses())
    async def info() -> dict[str, str]:
        """Names this API."""
        return {"title": "Annif REST API, by hf-gile", "version": version("hf-gile")}

    @api.get("/vocabs", responses=_error_responses())
    async def vocabs() -> Vocabularies:
        """Lists the vocabulary of the model."""
        return Vocabularies(vocabs=[project.vocab])

    @api.get("/projects", responses=_error_responses())
    async def projects() -> Projects:
        """Lists the project."""
        return Projects(projects=[project])

    @api.get("/projects/{project_id}", responses=_error_responses(404))
    async def show(project_id: str) -> Project:
        """Describes the project."""
        _check(project, project_id)
        return project

    return api


Answer = Callable[[Sequence[Question]], Awaitable[list[list[Suggestion]]]]
"""Maps texts to the labels of each."""

Uris = list[Text]


async def _read_question(request: Request) -> Question:
    """Reads a text and what is wanted of it from a form or from JSON."""
    content_type = request.headers.get("Content-Type", "").lower()
    body = await request.body()
    try:
        if content_type.startswith("application/json"):
            return Question.model_validate_json(body)
        if content_type.startswith(CONTENT_TYPES["suggest"][0]):  # as UTF-8, escaped or not: curl -d does not escape
            form: list[tuple[str, Any]] = parse_qsl(body.decode(errors="replace"), True, max_num_fields=1000)
        else:
            form = (await request.form()).multi_items()
        lists = {name: [value for key, value in form if key == name] for name in ("exclude", "include_branch")}
        return Question.model_validate({**dict(form), **lists})
    except ValidationError as error:
        problems = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        raise RequestValidationError(problems) from None
    except ValueError as error:
        raise HTTPException(400, f"{error}: a form has at most 1,000") from None


def _project(project: Project, answer: Answer, teach: Callable[[Sequence[Corrected]], Awaitable[None]]) -> APIRouter:
    """Creates the routes that suggest labels, and learn from corrected documents."""
    api = APIRouter(prefix="/v1/projects/{project_id}")
    languages: dict[str, Any] = {"enum": [project.vocab_language]}
    content = {name: {"schema": Question.model_json_schema()} for name in CONTENT_TYPES["suggest"]}

    @api.post(
        "/suggest",
        responses=_error_responses(400, 404, 500, 503),
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )
    async def suggest(project_id: str, request: Request) -> Suggestions:
        """Suggests labels for a text.

        `exclude` leaves out labels by their URIs, `include_branch` all but a label and its descendants. `evidence` adds
        the words without which the score of a label falls.
        """
        asked = await _read_question(request)
        _check(project, project_id, asked.language)
        return Suggestions(results=(await answer([asked]))[0])

    @api.post("/suggest-batch", responses=_error_responses(400, 404, 500, 503))
    async def suggest_batch(
        project_id: str,
        body: Documents,
        limit: Annotated[int, Query(ge=0)] = 10,
        threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
        language: Annotated[str, Query(json_schema_extra=languages)] = project.vocab_language,
        exclude: Annotated[Uris, Query()] = [],  # noqa: B006
        include_branch: Annotated[Uris, Query()] = [],  # noqa: B006
        evidence: bool = False,
    ) -> list[NumberedSuggestions]:
        """Suggests labels for up to 32 texts; see suggest."""
        _check(project, project_id, language)
        wanted = Question.model_construct(
            limit=limit, threshold=threshold, exclude=exclude, include_branch=include_branch, evidence=evidence
        )
        answers = await answer([wanted.model_copy(update={"text": item.text}) for item in body.documents])
        return [
            NumberedSuggestions(results=results, document_id=document.document_id)
            for results, document in zip(answers, body.documents, strict=True)
        ]

    @api.post("/learn", status_code=204, responses=_error_responses(400, 403, 404, 500, 503))
    async def learn(project_id: str, body: Annotated[list[Corrected], Field(min_length=1, max_length=BATCH)]) -> None:
        """Learns from texts with all their labels."""
        _check(project, project_id)
        await teach(body)

    return api
