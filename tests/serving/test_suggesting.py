"""Requests choose among labels, and ask for parents and evidence; people get pages."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from hf_gile import LabelScoringPipeline, LabelSet
from hf_gile.serving import Suggester, describe, make_app

PROJECT = describe("mesh", 5, "en", datetime(2026, 11, 23, tzinfo=UTC))
TEXT = "Infants were fed with milk."
BROADER = {"Milk, Human": ("Infant",), "Iron": ("Blood",), "Blood": ("Milk, Human", "elsewhere"), "Infant": ("Blood",)}


@pytest.fixture
def client(make_model, label_set):
    """Serves labels with parents, in a circle."""
    model, processor = make_model()
    labels = [replace(label, broader=BROADER.get(label.id, ())) for label in label_set]
    model.set_labels(LabelSet(labels), processor)
    pipe = LabelScoringPipeline(model=model, processor=processor)
    return TestClient(make_app(Suggester(pipe), PROJECT, token="secret"), headers={"Authorization": "Bearer secret"})


def suggest(client, **form):
    answer = client.post("/v1/projects/mesh/suggest", data={"text": TEXT, **form})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def test_excluded_labels_make_room_for_others(client):
    everything = suggest(client)
    first, second = (label["uri"] for label in everything[:2])
    assert suggest(client, exclude=[first, second], limit=2) == everything[2:4]


def test_a_branch_has_a_label_and_its_descendants(client):
    everything = suggest(client)
    branch = [label for label in everything if label["uri"] != "Heart Failure"]
    assert suggest(client, include_branch="Infant") == branch  # its circle, and Iron below
    both = [label for label in everything if label["uri"] in ("Iron", "Heart Failure")]
    assert suggest(client, include_branch=["Iron", "Heart Failure"]) == both
    assert suggest(client, include_branch="Iron", exclude="Iron") == []


def test_a_batch_chooses_too(client):
    body = {"documents": [{"text": TEXT}]}
    wanted = {"exclude": "Iron", "include_branch": "Blood", "limit": 2, "evidence": "true"}
    answer = client.post("/v1/projects/mesh/suggest-batch", params=wanted, json=body)
    assert answer.json()[0]["results"] == suggest(client, **wanted)


@pytest.mark.parametrize("name", ["exclude", "include_branch"])
def test_an_unknown_uri_is_named(client, name):
    answer = client.post("/v1/projects/mesh/suggest", data={"text": TEXT, name: "Steel"})
    assert (answer.status_code, answer.json()["detail"]) == (400, "no label has the URI 'Steel'")


def test_suggestions_have_the_parents_that_are_labels(client):
    parents = {label["uri"]: label["parents"] for label in suggest(client)}
    assert parents["Blood"] == [{"uri": "Milk, Human", "label": "Milk, Human"}]
    assert parents["Heart Failure"] == []


def test_evidence_are_the_words_without_which_a_score_falls(client):
    results = suggest(client, evidence="true", limit=2)
    assert [label["uri"] for label in results] == [label["uri"] for label in suggest(client, limit=2)]
    for label in results:
        weights = [part["weight"] for part in label["evidence"]]
        assert weights == sorted(weights, reverse=True)
        assert min(weights, default=1) > 0
        assert {part["text"] for part in label["evidence"]} <= set(TEXT.split())
    assert any(label["evidence"] for label in results)
    assert suggest(client)[0]["evidence"] is None
    assert suggest(client, text=" ", evidence="true", limit=1)[0]["evidence"] == []


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere(client, path):
    page = client.get(path, headers={"Authorization": ""})
    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert re.findall(r"(?:src|import|fetch)\W+https?:[^\"']*", page.text) == []
    assert "innerHTML" not in page.text


def test_openapi_describes_each_route_and_no_answer_that_is_never_given(client):
    paths = client.get("/openapi.json").json()["paths"]
    routes = [route for methods in paths.values() for route in methods.values()]
    assert all(route["description"] for route in routes)
    assert not any("422" in route["responses"] for route in routes)
