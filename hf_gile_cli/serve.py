"""`hf-gile serve`: serves a model over HTTP, with the REST API of Annif."""

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .options import BatchSize, Device, Model, Revision
from .running import note
from .saved_model import load

TOKEN = "HF_GILE_TOKEN"
FORWARDED = "FORWARDED_ALLOW_IPS"  # of uvicorn: addresses of proxies whose X-Forwarded-For is true
LOOPBACK = ("127.0.0.1", "::1", "localhost")


LearnFolder = Annotated[
    Path | None,
    typer.Option(file_okay=False, metavar="FOLDER", help="Learn from /learn, and keep the corrections in this folder."),
]


def serve(
    model: Model,
    project: Annotated[str, typer.Option(metavar="NAME", help="Name of the model in URLs.")] = "gile",
    language: Annotated[str, typer.Option(metavar="CODE", help="Language of texts and labels, for Annif.")] = "en",
    uri_prefix: Annotated[str, typer.Option(metavar="TEXT", help="Prefix that turns label ids into URIs.")] = "",
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help=f"Address to listen on; except for localhost, needs a token in {TOKEN}."),
    ] = LOOPBACK[0],
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="NUMBER", help="Port; 0 for any free port.")] = 8000,
    batch_size: BatchSize = 32,
    max_waiting: Annotated[
        int,
        typer.Option(min=1, metavar="NUMBER", help="Maximum number of waiting texts; others get status 503."),
    ] = 256,
    max_bytes: Annotated[
        int,
        typer.Option(min=1, metavar="NUMBER", help="Maximum bytes of a request; larger requests get status 413."),
    ] = 1_000_000,
    timeout: Annotated[
        float,
        typer.Option(min=0.001, metavar="SECONDS", help="Time limit for receiving a request, and for answering it."),
    ] = 30.0,
    learn: LearnFolder = None,
    device: Device = None,
    revision: Revision = None,
) -> None:
    """Serve a model over HTTP, with the REST API of Annif.

    Texts are scored against the labels stored with the model. The URI of a label is --uri-prefix followed by its id.
    Concurrent requests are scored together. Open / in a browser to try the model, and /docs for the API. /health
    reports the status, and /metrics serves Prometheus.

        hf-gile serve runs/mesh/auto/model --project mesh
        curl -d text="Rats were fed." -d limit=5 http://127.0.0.1:8000/v1/projects/mesh/suggest
        HF_GILE_TOKEN=... hf-gile serve user/model --host 0.0.0.0
    """
    token = os.environ.get(TOKEN) or None
    if host not in LOOPBACK and token is None:
        raise typer.BadParameter(f"other machines need a token: set {TOKEN}", param_hint="--host")
    from hf_gile.extras import needs_extra

    with needs_extra("serve", "hf-gile serve"):
        import uvicorn

        from hf_gile.serving import Connection, Learner, Limits, Suggester, describe, make_app
    from hf_gile import LabelScoringPipeline

    loaded, processor = load(model, revision, device)
    pipe = LabelScoringPipeline(model=loaded, processor=processor, device=loaded.device, label_cache_bytes=1 << 62)
    limits = Limits(
        batch_size=batch_size,
        waiting=max_waiting,
        body_bytes=max_bytes,
        seconds=timeout,
        connections=_most_connections(Limits.connections),
    )
    description = describe(project, len(loaded.label_set or ()), language, _time_saved(model, revision))
    learner = None if learn is None else Learner(pipe, learn)
    suggest = Suggester(pipe, uri_prefix, learner)
    suggest.prepare()
    note(f"serving {len(loaded.label_set):,} labels; the address for Annif is /v1/projects/{project}/suggest")
    uvicorn.run(
        make_app(suggest, description, limits, token, None if learner is None else suggest.learn),
        host=host,
        port=port,
        http=partial(Connection, limits=limits, opened={}),  # type: ignore[arg-type]
        ws="none",
        backlog=max(1, limits.connections // 4),  # accepted at a time, before any is closed
        # Otherwise any process of this machine could pretend to be another client, and so escape the limits.
        proxy_headers=FORWARDED in os.environ,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(timeout) + 1,
    )


def _time_saved(model: str, revision: str | None) -> datetime:
    """Returns when a model was saved."""
    from transformers.utils import cached_file

    return datetime.fromtimestamp(Path(str(cached_file(model, "config.json", revision=revision))).stat().st_mtime, UTC)


def _most_connections(most: int) -> int:
    """Returns a number of connections that leaves half of the files that the process may open to the model."""
    try:
        import resource
    except ImportError:  # on Windows
        return most
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(1, min(most, files // 2))
