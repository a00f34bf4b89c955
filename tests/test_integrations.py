"""The examples of docs/integrations.md run in the tools that they are for, where these are installed."""

import asyncio
import json
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hf_gile import LabelScoringPipeline

PAGE = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text(encoding="utf-8")
TEXT = "Infants were fed with milk."


def block(heading, kind="python"):
    section = PAGE.split(f"\n## {heading}", 1)[1].split("\n## ")[0]
    (code,) = re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)
    return code


def run(heading, replacement, folder):
    """Runs an example with another model or address; as a module, since tools read annotations and sources."""
    code = block(heading)
    assert replacement[0] in code
    names = {"__name__": "example"}
    exec(compile(code.replace(*replacement), str(folder / "example.py"), "exec"), names)
    return names


@pytest.fixture
def saved(make_model, tmp_path):
    """Saves a model, and returns what replaces its name in an example."""
    model, processor = make_model()
    LabelScoringPipeline(model=model, processor=processor).save_pretrained(tmp_path / "model")
    return "runs/mine/auto/model", str(tmp_path / "model")


@pytest.fixture
def service(make_model):
    """Serves a model, and returns what replaces the address in an example."""
    uvicorn = pytest.importorskip("uvicorn")
    from hf_gile.serving import Suggester, describe, make_app

    model, processor = make_model()
    project = describe("gile", 5, "en", datetime(2026, 11, 23, tzinfo=UTC))
    app = make_app(Suggester(LabelScoringPipeline(model=model, processor=processor)), project)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield "http://127.0.0.1:8000", f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_spacy_gets_categories(saved, label_set, tmp_path):
    pytest.importorskip("spacy", reason="pip install spacy")
    nlp = run("spaCy", saved, tmp_path)["nlp"]
    docs = list(nlp.pipe([TEXT, "Iron in blood."]))
    assert set(docs[0].cats) == set(label_set.names)
    assert docs[0].cats != docs[1].cats


def test_a_haystack_pipeline_tags_documents(saved, label_set, tmp_path, monkeypatch):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    pytest.importorskip("haystack", reason="pip install haystack-ai")
    names = run("Haystack", saved, tmp_path)
    document = names["Document"](content=TEXT, meta={"page": 3})
    (tagged,) = names["indexing"].run({"tagger": {"documents": [document]}})["tagger"]["documents"]
    assert set(tagged.meta.pop("subjects")) == set(label_set.names)
    assert (tagged.content, tagged.meta) == (TEXT, {"page": 3})


def test_a_langchain_tool_suggests(saved, label_set, tmp_path):
    pytest.importorskip("langchain_core", reason="pip install langchain-core")
    names = run("LangChain", saved, tmp_path)
    assert set(names["suggest_subjects"].args) == {"text", "limit"}
    answer = names["suggest_subjects"].invoke({"text": TEXT, "limit": 2})
    assert len(answer) == 2
    assert set(answer) <= set(label_set.names)
    assert names["shortlist"].invoke(TEXT).startswith(f"- {answer[0]}")


def test_an_assistant_calls_the_mcp_tool(service, tmp_path):
    mcp = pytest.importorskip("mcp", reason="pip install mcp")
    server = run("A tool for assistants (MCP)", service, tmp_path)["server"]

    async def call():
        async with mcp.Client(server) as client:
            (tool,) = (await client.list_tools()).tools
            return tool.name, await client.call_tool(tool.name, {"text": TEXT, "limit": 2})

    name, result = asyncio.run(call())
    assert name == "suggest_subjects"
    assert not result.is_error
    assert [set(json.loads(part.text)) >= {"uri", "label", "score"} for part in result.content] == [True, True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in old packages that it requires
def test_label_studio_gets_predictions(service, label_set, tmp_path):
    pytest.importorskip("label_studio_ml.model", reason="pip install label-studio-ml redis rq", exc_type=ImportError)
    from label_studio_ml.api import init_app

    subjects = run("Label Studio", service, tmp_path)["Subjects"]
    client = init_app(subjects, model_dir=str(tmp_path)).test_client()
    assert client.post("/setup", json={"project": "1", "schema": "<View/>"}).status_code == 200
    answer = client.post("/predict", json={"project": "1", "tasks": [{"id": 7, "data": {"text": TEXT}}]})
    ((result,),) = (row["result"] for row in answer.json["results"])
    assert (result["from_name"], result["type"]) == ("subjects", "choices")
    assert set(result["value"]["choices"]) == set(label_set.names)


def test_the_command_of_the_image_serves(saved, monkeypatch):
    typer_testing = pytest.importorskip("typer.testing")
    from hf_gile_cli.app import app

    served = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **settings: served.update(settings))
    monkeypatch.setenv("HF_GILE_TOKEN", "secret")
    code = block("Docker", "dockerfile")
    command = json.loads(re.search(r"^CMD (.*)$", code, re.MULTILINE)[1])
    copied = re.search(r"^COPY --chown=nobody (\S+) (\S+)$", code, re.MULTILINE)
    assert copied.groups() == ("runs/mine/auto/model", command[2])
    arguments = [saved[1] if part == copied[2] else part for part in command[1:]]
    result = typer_testing.CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert served["host"] == "0.0.0.0"
