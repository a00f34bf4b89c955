"""The service learns from corrected documents."""

from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from hf_gile.serving import Learner, Suggester, describe, make_app
from hf_gile.serving.learning import JOURNAL

PROJECT = describe("mesh", 5, "en", datetime(2026, 11, 23, tzinfo=UTC))
MILK = "Infants were fed with milk."
TEXTS = (MILK, "Iron in blood of rats.", "The heart failed.")


@pytest.fixture
def serve(make_pipe, tmp_path):
    """Starts a service that learns, after the one before."""
    started = []

    def start(*kinds, uri_prefix="", **options):
        if started:
            started.pop().close()
        kind, layer = kinds or ("wan", "gile")
        pipe = make_pipe(kind, options.pop("problem_type", None), output_layer=layer)
        started.append(Learner(pipe, tmp_path / "learned", **options))
        suggester = Suggester(pipe, uri_prefix, started[0])
        return TestClient(make_app(suggester, PROJECT, learn=suggester.learn))

    yield start
    for learner in started:
        learner.close()


def scores(client, text):
    results = client.post("/v1/projects/mesh/suggest", data={"text": text, "limit": 100}).json()["results"]
    return {label["uri"]: label["score"] for label in results}


def correct(client, text, *uris):
    subjects = [{"uri": uri, "label": "ignored"} for uri in uris]
    body = [{"text": text, "subjects": subjects, "metadata": {}}]
    return client.post("/v1/projects/mesh/learn", json=body)


def last(client, text=MILK):
    return list(scores(client, text))[-1]


@pytest.mark.parametrize("kinds", [("wan", "gile"), ("nn", "linear")])
def test_a_correction_raises_its_labels_and_no_others(serve, kinds):
    client = serve(*kinds)
    before = {text: scores(client, text) for text in TEXTS}
    wanted = last(client)
    assert correct(client, MILK, wanted).status_code == 204
    after = {text: scores(client, text) for text in TEXTS}
    assert after[MILK][wanted] > before[MILK][wanted] + 0.05
    for text in TEXTS:
        assert after[text].pop(wanted) != before[text].pop(wanted)
        assert after[text] == pytest.approx(before[text], abs=1e-6)


def test_a_restarted_service_remembers(serve):
    client = serve()
    correct(client, MILK, last(client))
    correct(client, TEXTS[1], last(client, TEXTS[1]), last(client))
    learned = {text: scores(client, text) for text in TEXTS}
    again = serve()
    for text in TEXTS:
        assert scores(again, text) == pytest.approx(learned[text], abs=1e-6)


def test_a_later_correction_replaces_an_earlier_correction_of_the_text(serve):
    client = serve()
    before = scores(client, MILK)
    first, *_, second = before
    correct(client, MILK, second)
    correct(client, MILK, first)
    after = scores(client, MILK)
    assert after[second] == pytest.approx(before[second], abs=1e-6)
    correct(client, MILK)  # no label is right
    assert scores(client, MILK) == pytest.approx(before, abs=1e-6)


def test_a_journal_may_have_labels_that_are_gone_but_no_damage(serve, write):
    client = serve()
    before = scores(client, MILK)
    journal = write(f"learned/{JOURNAL}", '{"text": "a", "labels": ["gone"]}\n')
    assert scores(serve(), MILK) == pytest.approx(before, abs=1e-6)
    journal.write_text('{"text": "a"}\n')
    with pytest.raises(ValueError, match=rf"{JOURNAL}, line 1 is not a correction"):
        serve()


def test_a_line_that_was_not_finished_is_removed(serve, tmp_path):
    client = serve()
    correct(client, MILK, last(client))
    learned = scores(client, MILK)
    journal = tmp_path / "learned" / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:-5])
    again = serve()
    assert scores(again, MILK) == pytest.approx(learned, abs=1e-6)
    assert journal.read_bytes() == whole


@pytest.mark.parametrize("limit", [{"most_documents": 1}, {"most_bytes": 100}])
def test_a_full_journal_refuses_and_learns_nothing(serve, limit, tmp_path):
    client = serve(**limit)
    correct(client, MILK, last(client))
    learned = scores(client, TEXTS[1])
    content = (tmp_path / "learned" / JOURNAL).read_bytes()
    answer = correct(client, TEXTS[1], last(client, TEXTS[1]))
    assert answer.status_code == 403
    assert "train with them (hf-gile train --train_files" in answer.json()["detail"]
    assert scores(client, TEXTS[1]) == learned
    assert (tmp_path / "learned" / JOURNAL).read_bytes() == content


def test_of_a_refused_request_nothing_is_learned(serve, tmp_path):
    client = serve()
    good = {"text": MILK, "subjects": [{"uri": last(client)}]}
    bad = {"text": MILK, "subjects": [{"uri": "unknown"}]}
    answer = client.post("/v1/projects/mesh/learn", json=[good, bad])
    assert (answer.status_code, answer.json()["detail"]) == (400, "no label has the URI 'unknown'")
    assert client.post("/v1/projects/mesh/learn", json=[good] * 33).status_code == 400
    assert client.post("/v1/projects/mesh/learn", json=[{"text": "", "subjects": []}]).status_code == 400
    assert not (tmp_path / "learned" / JOURNAL).exists()


def test_a_failed_write_leaves_the_journal_as_it_was(serve, tmp_path, monkeypatch):
    client = serve()
    correct(client, MILK, last(client))
    content = (tmp_path / "learned" / JOURNAL).read_bytes()
    learned = scores(client, TEXTS[1])

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        assert correct(client, TEXTS[1], last(client)).status_code == 500
    assert (tmp_path / "learned" / JOURNAL).read_bytes() == content
    assert scores(client, TEXTS[1]) == learned


def test_a_folder_has_one_service(serve, make_pipe, tmp_path):
    serve()
    with pytest.raises(ValueError, match="is in use by another service"):
        Learner(make_pipe(), tmp_path / "learned")


def test_uris_have_the_prefix_of_the_service(serve):
    client = serve(uri_prefix="http://id/")
    wanted = last(client)
    assert wanted.startswith("http://id/")
    assert correct(client, MILK, wanted).status_code == 204
    assert correct(client, MILK, wanted.removeprefix("http://id/")).status_code == 400
