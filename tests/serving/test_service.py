"""The HTTP service with the REST API of Annif."""

import asyncio
import base64
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, Histogram

from hf_gile.serving import Limits, Suggester, Suggestion, describe, make_app
from hf_gile.serving.guard import Guard

PROJECT = describe("mesh", 5, "en", datetime(2026, 11, 23, tzinfo=UTC))
SUGGEST = "/v1/projects/mesh/suggest"
TEXT = "Infants were fed with milk."
TOKEN = "mellon-und-tritt-ein"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PLAIN = {"Content-Type": "text/plain"}


@pytest.fixture
def pipe(make_pipe):
    return make_pipe(problem_type=None)


class Fake:
    """Stands for a `Suggester`: answers texts by a function."""

    def __init__(self, suggest):
        self.read = list
        self._suggest = suggest

    def __call__(self, texts):
        return self._suggest(texts)


@pytest.fixture
def make_client(pipe):
    """Makes a client of a service; by default of a tiny model."""

    def make(suggest=None, token=None, **limits):
        suggester = Fake(suggest) if suggest else Suggester(pipe)
        return TestClient(make_app(suggester, PROJECT, Limits(**limits), token))

    return make


@pytest.fixture
def client(make_client):
    return make_client()


def wait_until(condition):
    """Waits at most twenty seconds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end


def detail(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == status
    return answer.json()["detail"]


def test_suggestions_equal_the_answers_of_the_pipeline(client, pipe, label_set):
    results = client.post(SUGGEST, data={"text": TEXT, "limit": 3, "metadata_title": "Milk"}).json()["results"]
    expected = pipe(TEXT, top_k=3)
    assert [one["label"] for one in results] == expected["labels"]
    assert [one["score"] for one in results] == pytest.approx(expected["scores"])
    ids = {label.name: label.id for label in label_set}
    assert [one["uri"] for one in results] == [ids[name] for name in expected["labels"]]
    assert all(one["notation"] is None for one in results)


def test_the_limit_and_the_threshold_choose_among_the_labels(client, label_set):
    def suggest(**form):
        results = client.post(SUGGEST, data={"text": TEXT, **form}).json()["results"]
        return [one["score"] for one in results]

    scores = suggest()
    assert len(scores) == min(10, len(label_set))
    assert suggest(limit=0) == []
    assert suggest(limit=10**9) == scores
    assert suggest(threshold=scores[1]) == scores[:2]


def test_a_batch_is_answered_in_order_with_the_ids_of_its_documents(client):
    texts = [TEXT, "Iron in blood.", ""]
    documents = [{"text": text, "document_id": str(place), "metadata": {}} for place, text in enumerate(texts)]
    answers = client.post(f"{SUGGEST}-batch?limit=2", json={"documents": documents}).json()
    assert [answer["document_id"] for answer in answers] == ["0", "1", "2"]
    for text, answer in zip(texts, answers, strict=True):
        alone = client.post(SUGGEST, data={"text": text or " ", "limit": 2}).json()["results"]
        assert [one["uri"] for one in answer["results"]] == [one["uri"] for one in alone]


def test_forms_are_decoded_as_utf_8(make_client):
    read = []
    client = make_client(lambda texts: read.extend(question.text for question in texts) or [[]])
    client.post(SUGGEST, content="text=S%C3%A4ugling+%26+Säugling".encode(), headers=FORM)
    assert read == ["Säugling & Säugling"]


def test_json_is_read_like_a_form(client, label_set):
    wanted = {"text": TEXT, "limit": 2, "exclude": [label_set.ids[0]], "evidence": True, "metadata_title": "Milk"}
    expected = client.post(SUGGEST, data=wanted).json()
    assert client.post(SUGGEST, json=wanted).json() == expected
    assert len(expected["results"]) == 2


def test_project_descriptions_follow_the_annif_api(client):
    project = client.get("/v1/projects/mesh").json()
    assert client.get("/v1/projects").json() == {"projects": [project]}
    assert client.get("/v1/vocabs").json() == {"vocabs": [project["vocab"]]}
    assert (project["is_trained"], project["modification_time"]) == (True, "2026-11-23T00:00:00Z")
    assert client.get("/v1/").json().keys() == {"title", "version"}


@pytest.mark.parametrize(
    ("path", "request_body", "status", "message"),
    [
        ("mesh/suggest", {"data": {}}, 400, "body.text: Field required"),
        ("mesh/suggest", {"data": {"text": "a", "limit": -1}}, 400, "limit: Input should be greater than or equal to"),
        ("mesh/suggest", {"data": {"text": "a", "language": "fi"}}, 400, "labels are in 'en', not in 'fi'"),
        ("mesh/suggest", {"json": {"text": 3}}, 400, "body.text: Input should be a valid string"),
        ("mesh/suggest", {"content": b"a&" * 1001, "headers": FORM}, 400, "at most 1,000"),
        ("mesh/suggest", {"content": b"[" * 5000}, 400, "body: Invalid JSON"),
        ("mesh/suggest", {"content": b"a", "headers": PLAIN}, 400, "the Content-Type must be application/x-www-form-"),
        ("mesh/suggest-batch", {"content": b"{}", "headers": PLAIN}, 400, "Content-Type must be application/json"),
        ("mesh/suggest", {"content": b'{"text": "\\ud800"}'}, 400, "body: Invalid JSON"),
        ("other/suggest", {"data": {"text": "a"}}, 404, "no project 'other', only 'mesh'"),
        ("mesh/suggest-batch", {"json": {"documents": [{"text": "a"}] * 33}}, 400, "at most 32 items"),
        ("mesh/suggest-batch", {"content": b'{"documents": [{"text": "\\ud800"}]}'}, 400, "has a lone surrogate"),
        ("mesh/suggest-batch", {"json": {"documents": [{"text": "a"}] * 3}}, 400, "send fewer in a request"),
        ("mesh/learn", {"json": []}, 400, "body: List should have at least 1 item"),
        ("mesh/learn", {"json": [{"text": "a", "subjects": []}]}, 403, "does not learn: start it with --learn FOLDER"),
        ("mesh/suggest", {"data": {"text": "a" * 20_000}}, 413, "the request has more than 10,000 bytes"),
    ],
)
def test_invalid_requests_are_refused_with_an_explanation(make_client, path, request_body, status, message):
    request_body.setdefault("headers", {"Content-Type": "application/json"} if "content" in request_body else {})
    answer = make_client(body_bytes=10_000, waiting=2).post(f"/v1/projects/{path}", **request_body)
    assert message in detail(answer, status)


def test_without_the_token_only_the_health_check_answers(make_client):
    client = make_client(token="secret")
    assert client.get("/health").json() == {"status": "ok"}
    basic = base64.b64encode(b"annif:secret").decode()
    for header in ("", "Bearer wrong", "Basic secret", "Basic !", "secret"):
        for path in ("/metrics", "/v1/projects"):
            assert "pass the token" in detail(client.get(path, headers={"Authorization": header}), 401)
    for header in ("Bearer secret", f"Basic {basic}"):
        assert client.get("/v1/projects", headers={"Authorization": header}).status_code == 200


def test_excess_requests_are_refused_and_waiting_requests_answered(make_client):
    started, may_go_on = Event(), Event()

    def suggest(texts):
        started.set()
        may_go_on.wait(20)
        return [[Suggestion(uri="a", label="A", score=0.5)] for _ in texts]

    client = make_client(suggest, waiting=1, requests=3)
    with client, ThreadPoolExecutor(3) as pool:
        ask = lambda: client.post(SUGGEST, data={"text": "a"})  # noqa: E731
        first = pool.submit(ask)
        assert started.wait(20)
        waits = pool.submit(ask)
        wait_until(lambda: "hf_gile_waiting_texts 1.0" in client.get("/metrics").text)
        third = ask()
        assert "too many texts are waiting" in detail(third, 503)
        assert third.headers["Retry-After"] == "1"
        may_go_on.set()
        assert first.result().json() == waits.result().json() != {}


def test_too_many_requests_of_a_client_are_refused():
    statuses, release = [], asyncio.Event()

    async def app(scope, receive, send):
        await release.wait()
        await send({"type": "http.response.start", "status": 200})

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if "status" in message:
            statuses.append(message["status"])

    async def ask():
        seconds = Histogram("a", "b", ["c", "d", "e"], registry=CollectorRegistry())
        guard = Guard(app, Limits(requests=2), seconds)
        post = {"type": "http", "method": "POST", "path": SUGGEST}
        scopes = [post | {"client": (client, 5)} for client in ("10.0.0.1",) * 3 + ("10.0.0.2",)]
        tasks = [asyncio.create_task(guard(scope, receive, send)) for scope in scopes]
        while not statuses:
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*tasks)
        await guard(scopes[0], receive, send)

    asyncio.run(asyncio.wait_for(ask(), 20))
    assert statuses == [429, 200, 200, 200, 200]


def test_a_failing_text_gets_its_error_and_the_service_goes_on(make_client, capsys):
    def suggest(texts):
        if any("bad" in question.text for question in texts):
            raise BaseException(f"failed for the token {TOKEN}")
        if any("odd" in question.text for question in texts):
            raise ValueError(f"an odd text: --token {TOKEN}")
        return [[] for _ in texts]

    client = make_client(suggest)
    failed = detail(client.post(SUGGEST, data={"text": "bad"}), 500)
    assert failed == "the text cannot be scored (BaseException): see the log of the service"
    assert "failed for the token" in capsys.readouterr().err
    assert detail(client.post(SUGGEST, data={"text": "odd"}), 400) == "an odd text: --token <secret>"
    assert client.post(SUGGEST, data={"text": "good"}).json() == {"results": []}
    assert client.get("/health").json() == {"status": "ok"}


def test_the_health_check_fails_while_a_batch_takes_too_long(make_client):
    may_go_on = Event()

    def suggest(texts):
        may_go_on.wait(10)
        return [[] for _ in texts]

    with make_client(suggest, seconds=0.05) as client:
        assert "no answer within 0.05 seconds" in detail(client.post(SUGGEST, data={"text": TEXT}), 503)
        answers = (client.get("/health") for _ in range(1000))
        ill = next(answer for answer in answers if answer.status_code != 200)
        assert "restart the service" in detail(ill, 503)
        may_go_on.set()
        wait_until(lambda: client.post(SUGGEST, data={"text": TEXT}).status_code == 200)
        assert client.get("/health").status_code == 200


def test_metrics_count_requests_by_path_and_status(client):
    client.post(SUGGEST, data={"text": TEXT})
    client.get("/nowhere")
    for method in ("MADE", "UP"):
        client.request(method, "/health")
    metrics = client.get("/metrics").text
    path = "/v1/projects/{project_id}/suggest"
    assert f'hf_gile_request_seconds_count{{method="POST",path="{path}",status="200"}} 1.0' in metrics
    assert 'hf_gile_request_seconds_count{method="GET",path="none",status="404"} 1.0' in metrics
    assert 'hf_gile_request_seconds_count{method="other",path="/health",status="405"} 2.0' in metrics
    assert "MADE" not in metrics
