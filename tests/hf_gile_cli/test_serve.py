import json
import re
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from hf_gile_cli import serve


@pytest.fixture
def served(monkeypatch):
    """Records the served application and its options."""
    calls = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **settings: calls.update(settings, app=app))
    return calls


def test_without_a_token_a_model_is_served_on_localhost_only(run, saved_model, served, monkeypatch):
    run("serve", saved_model, "--project", "mesh", "--port", 0)
    assert (served["host"], served["port"]) == ("127.0.0.1", 0)
    assert f"{serve.TOKEN}" in run("serve", saved_model, "--host", "0.0.0.0", ends=2).stderr
    monkeypatch.setenv(serve.TOKEN, "secret")
    run("serve", saved_model, "--host", "0.0.0.0")
    assert served["host"] == "0.0.0.0"


def test_only_named_proxies_may_name_other_clients(run, saved_model, served, monkeypatch):
    monkeypatch.delenv(serve.FORWARDED, raising=False)
    run("serve", saved_model)
    assert served["proxy_headers"] is False
    monkeypatch.setenv(serve.FORWARDED, "10.0.0.1")
    run("serve", saved_model)
    assert served["proxy_headers"] is True


def test_connections_leave_half_of_the_files_to_the_model(run, saved_model, served, monkeypatch):
    resource = pytest.importorskip("resource")
    for files, connections in ((256, 128), (1 << 20, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, files=files: (files, files))
        run("serve", saved_model)
        assert served["http"].keywords["limits"].connections == connections


def test_a_model_without_labels_is_not_served(run, make_model, tmp_path, served):
    model, processor = make_model()
    model.label_set = None
    for part in (model, processor):
        part.save_pretrained(tmp_path / "model")
    assert "the model stores no labels" in run("serve", tmp_path / "model", ends=1).stderr
    assert served == {}


def ask(address, **form):
    with urllib.request.urlopen(address, urlencode(form).encode() if form else None, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_service_answers_accepted_requests_before_it_stops(start, saved_model):
    process = start("serve", saved_model, "--project", "mesh", "--port", 0)
    lines = []
    while not (match := re.search(r"http://127.0.0.1:\d+", lines[-1] if lines else "")):
        lines.append(process.stderr.readline())
        assert lines[-1], "".join(lines)
    address = f"{match[0]}/v1/projects/mesh"
    assert ask(address)["is_trained"] is True
    with ThreadPoolExecutor(16) as pool:
        answers = [pool.submit(ask, f"{address}/suggest", text="Rats were fed. " * 200, limit=2) for _ in range(64)]
        answers[0].result()
        process.send_signal(signal.SIGTERM)
        results = [answer.exception() or len(answer.result()["results"]) for answer in answers]
    accepted = [result for result in results if isinstance(result, int)]
    assert set(accepted) == {2}
    assert all("Connection" in str(x) or "refused" in str(x) for x in results if not isinstance(x, int)), results
    process.wait(timeout=60)


def test_a_service_learns_only_with_a_folder(run, saved_model, served, tmp_path):
    from fastapi.testclient import TestClient

    run("serve", saved_model)
    lesson = [{"text": "Rats were fed.", "subjects": []}]
    refused = TestClient(served["app"]).post("/v1/projects/gile/learn", json=lesson)
    assert (refused.status_code, "start it with --learn FOLDER" in refused.json()["detail"]) == (403, True)
    run("serve", saved_model, "--learn", tmp_path / "learned")
    assert TestClient(served["app"]).post("/v1/projects/gile/learn", json=lesson).status_code == 204
    assert (tmp_path / "learned" / "corrections.jsonl").read_text() == '{"text": "Rats were fed.", "labels": []}\n'
