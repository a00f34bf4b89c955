"""The page in Chromium, and the folder written for a Space."""

import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest
from markdown_it import MarkdownIt

from hf_gile import Label, LabelSet

THESAURUS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix e: <http://example.org/> .
e:diseases a skos:Concept; skos:prefLabel "Diseases"@en .
e:heart a skos:Concept; skos:prefLabel "Heart Failure"@en; skos:broader e:diseases; skos:altLabel "dropsy"@en .
e:iron a skos:Concept; skos:prefLabel "Iron"@en .
"""
ATTACK = "<img src=x onerror=window.attacked=1>${window.attacked=2}{{window.attacked=3}}"


@pytest.fixture
def thesaurus(write):
    pytest.importorskip("rdflib")
    return write("thesaurus.ttl", THESAURUS)


@pytest.fixture
def tab(tmp_path):
    """Opens a page in Chromium; returns the tab and its script errors."""
    pytest.importorskip("gradio")
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip(f"no browser is installed, none of {', '.join(names)}")
    with sync_api.sync_playwright() as playwright:
        # Without a sandbox, which containers forbid; the pages are trusted.
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        page.errors, page.requests = [], []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        yield page
        chromium.close()


def address_of(process):
    lines = []
    while not (match := re.search(r"http://127\.0\.0\.1:\d+", lines[-1] if lines else "")):
        lines.append(process.stderr.readline())
        assert lines[-1], "".join(lines)
    return match[0]


@pytest.mark.slow
def test_a_visitor_types_text_and_labels(start, saved_model, thesaurus, tab):
    address = address_of(start("space", saved_model, "--label-file", thesaurus))
    tab.goto(address)
    tab.fill("#text textarea", f"{ATTACK} Breast milk for infants.")
    tab.click("button:has-text('Score')")
    tab.wait_for_selector("#scores :text('Heart Failure')")
    tab.fill("#labels textarea", f"Milk, Human: breast milk\n{ATTACK}: {ATTACK}")
    tab.click("button:has-text('Score')")
    tab.wait_for_selector("#scores :text('Milk, Human')")
    # Wrong input is refused with a message.
    tab.fill("#labels textarea", f"{ATTACK}: a\n{ATTACK}: b")
    tab.click("button:has-text('Score')")
    tab.wait_for_selector(":text('two descriptions')")
    assert tab.errors == []
    assert tab.evaluate("window.attacked") is None
    assert [url for url in tab.requests if not url.startswith((address, "data:"))] == []


def written(run, folder, *arguments):
    pytest.importorskip("gradio")
    run("space", *arguments, "--output", folder)
    code = (folder / "app.py").read_text()
    compile(code, "app.py", "exec")
    settings = MarkdownIt().parse((folder / "README.md").read_text())
    assert settings[0].type == "hr"
    assert (folder / "requirements.txt").read_text().startswith("hf-gile[space]==")
    return code


def test_a_space_contains_its_model_and_labels(run, saved_model, thesaurus, tmp_path):
    code = written(run, tmp_path / "page", saved_model, "--label-file", thesaurus)
    assert 'model=str(HERE / "model")' in code
    assert (tmp_path / "page" / "model" / "model.safetensors").is_file()
    (_, heart, _) = LabelSet.load(tmp_path / "page" / "labels.jsonl")
    above = ("http://example.org/diseases",)
    assert heart == Label("http://example.org/heart", "Heart Failure", synonyms=("dropsy",), broader=above)
    assert "not empty" in run("space", saved_model, "--output", tmp_path / "page", ends=1).stderr


def test_a_space_may_name_a_hub_model_or_use_the_general_scorer(run, tmp_path):
    code = written(run, tmp_path / "page", "ada/milk", "--revision", "v1")
    assert "pipeline(task=\"label-scoring\", model='ada/milk', revision='v1')" in code
    assert 'pipeline(task="label-scoring")' in written(run, tmp_path / "general")


@pytest.mark.slow
def test_the_written_space_folder_runs(run, saved_model, thesaurus, tmp_path):
    written(run, tmp_path / "page", saved_model, "--label-file", thesaurus)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([sys.executable, tmp_path / "page" / "app.py"], env=environment, **pipes) as process:
        process.stderr = process.stdout
        try:
            with urllib.request.urlopen(f"{address_of(process)}/config", timeout=60) as answer:
                assert "Score text with model" in answer.read().decode()
        finally:
            process.kill()
