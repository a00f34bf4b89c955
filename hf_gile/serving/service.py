"""Implements the REST API of Annif, so that Annif can use a model as an `http` backend, and metrics of the service.

The API is specified in https://api.annif.org/v1/openapi.json. Texts are scored against the labels stored with the
model. Label ids are URIs, or become URIs with a prefix.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException

from ..masking import masked
from ..models import LabelScoringPipeline
from ..models.stored_labels_gile import reads_weights
from .batching import Batcher, Failed, Overloaded
from .guard import TITLES, Guard, Limits, refusal
from .messages import (
    Documents,
    Health,
    Info,
    NumberedSuggestions,
    Problem,
    Project,
    Projects,
    Suggestion,
    Suggestions,
    Text,
    Vocabularies,
)

logger = logging.getLogger(__name__)

CONTENT_TYPES = {
    "suggest": ("application/x-www-form-urlencoded", "multipart/form-data"),
    "suggest-batch": ("application/json",),
}
"""Content types of the bodies of requests, by the last part of the path."""

Suggest = Callable[[list[tuple[str, int]]], list[list[Suggestion]]]
"""Maps texts, each with a maximum number of labels, to the best labels of each text."""


def suggest_with(pipe: LabelScoringPipeline, uri_prefix: str = "") -> Suggest:
    """Returns a function that suggests the labels stored with a model.

    Label codes are recomputed when the version counter of a weight has changed. Fused optimizers and writes to `.data`
    do not change it: restart the service after using these.

    Args:
        pipe: Pipeline that scores texts.
        uri_prefix: Prefix that turns label ids into URIs.

    Raises:
        ValueError: If the model stores no labels.
    """
    labels = pipe.model.label_set
    if not labels:
        raise ValueError("the model stores no labels to suggest: add some with hf-gile labels import")
    by_name = {label.name: label for label in labels}

    def suggest(texts: list[tuple[str, int]]) -> list[list[Suggestion]]:
        top_k = max(1, *(limit for _, limit in texts))
        pipe.call_count = 0  # prevents a warning of Transformers about sequential calls on a GPU
        reading = reads_weights.set(False)  # reading all weights takes a quarter of the time of a lone request
        try:
            answers = pipe([text for text, _ in texts], top_k=top_k, batch_size=len(texts))
        finally:
            reads_weights.reset(reading)
        return [
            [
                Suggestion(uri=uri_prefix + by_name[name].id, label=name, score=score)
                for name, score in zip(answer["labels"][:limit], answer["scores"][:limit], strict=True)
            ]
            for answer, (_, limit) in zip(answers, texts, strict=True)
        ]

    return suggest


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
    return {status: {"description": TITLES[status], "content": content} for status in (401, 408, 413, 429, *statuses)}


def make_app(suggest: Suggest, project: Project, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """Creates the service.

    Args:
        suggest: Function that scores texts, see `suggest_with`.
        project: Description of the model.
        limits: Limits of the service.
        token: Token required by all requests except `/health` and `/openapi.json`, as `Authorization: Bearer TOKEN`, or
            as the password in a URL, `http://user:TOKEN@host/`, which Annif supports.
    """
    limits = limits or Limits()
    batcher = Batcher(suggest, limits.batch_size, limits.waiting)
    registry = CollectorRegistry()
    seconds = Histogram("hf_gile_request_seconds", "Request durations", ["method", "path", "status"], registry=registry)
    Gauge("hf_gile_waiting_texts", "Waiting texts", registry=registry).set_function(lambda: len(batcher))

    async def answer(texts: Sequence[str], limit: int, threshold: float) -> list[list[Suggestion]]:
        if len(texts) > limits.waiting:
            raise HTTPException(400, f"at most {limits.waiting} texts can wait here: send fewer in a request")
        try:
            async with asyncio.timeout(limits.seconds):
                answers = await batcher([(text, min(limit, limits.labels)) for text in texts])
        except TimeoutError:
            raise HTTPException(503, f"no answer within {limits.seconds:g} seconds: try again later") from None
        except Overloaded:
            raise HTTPException(503, "too many texts are waiting: try again later") from None
        except ValueError as error:
            raise HTTPException(400, masked(str(error))) from None
        except Failed as failed:
            logger.error("a text cannot be scored", exc_info=failed.args[0])
            detail = f"the text cannot be scored ({type(failed.args[0]).__name__}): see the log of the service"
            raise HTTPException(500, detail) from None
        return [[label for label in suggestions if label.score >= threshold] for suggestions in answers]

    app = FastAPI(title="hf-gile", version=version("hf-gile"), docs_url=None, redoc_url=None)
    app.add_middleware(Guard, limits=limits, seconds=seconds, token=token)
    app.add_exception_handler(HTTPException, _respond)
    app.add_exception_handler(RequestValidationError, _respond)

    @app.get("/health", responses=_error_responses(503))
    async def health() -> Health:
        busy = batcher.busy_seconds()
        if busy > limits.seconds:
            raise HTTPException(503, f"a batch of texts has been computed for {busy:.0f} seconds: restart the service")
        return Health(status="ok")

    @app.get("/metrics", responses=_error_responses(), response_class=PlainTextResponse)
    async def metrics() -> Response:
        return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app.include_router(_descriptions(project))
    app.include_router(_suggestions(project, answer))
    return app


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
    async def info() -> Info:
        return Info(title="Annif REST API, by hf-gile", version=version("hf-gile"))

    @api.get("/vocabs", responses=_error_responses())
    async def vocabs() -> Vocabularies:
        return Vocabularies(vocabs=[project.vocab])

    @api.get("/projects", responses=_error_responses())
    async def projects() -> Projects:
        return Projects(projects=[project])

    @api.get("/projects/{project_id}", responses=_error_responses(404))
    async def show(project_id: str) -> Project:
        _check(project, project_id)
        return project

    return api


Answer = Callable[[Sequence[str], int, float], Awaitable[list[list[Suggestion]]]]
"""Maps texts, a maximum number of labels and a minimum probability to the labels of each text."""


def _suggestions(project: Project, answer: Answer) -> APIRouter:
    """Creates the routes that suggest labels."""
    api = APIRouter(prefix="/v1/projects/{project_id}")
    languages: dict[str, Any] = {"enum": [project.vocab_language]}

    @api.post("/suggest", responses=_error_responses(400, 404, 500, 503))
    async def suggest(
        project_id: str,
        text: Annotated[Text, Form(min_length=1)],
        limit: Annotated[int, Form(ge=0)] = 10,
        threshold: Annotated[float, Form(ge=0, le=1)] = 0.0,
        language: Annotated[str, Form(json_schema_extra=languages)] = project.vocab_language,
    ) -> Suggestions:
        _check(project, project_id, language)
        return Suggestions(results=(await answer([text], limit, threshold))[0])

    @api.post("/suggest-batch", responses=_error_responses(400, 404, 500, 503))
    async def suggest_batch(
        project_id: str,
        body: Documents,
        limit: Annotated[int, Query(ge=0)] = 10,
        threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
        language: Annotated[str, Query(json_schema_extra=languages)] = project.vocab_language,
    ) -> list[NumberedSuggestions]:
        _check(project, project_id, language)
        answers = await answer([document.text for document in body.documents], limit, threshold)
        return [
            NumberedSuggestions(results=results, document_id=document.document_id)
            for results, document in zip(answers, body.documents, strict=True)
        ]

    @api.post("/learn", status_code=403, responses=_error_responses(403, 404))
    async def learn(project_id: str) -> Problem:
        _check(project, project_id)
        raise HTTPException(403, "the service cannot train models: use hf-gile train")

    return api
