"""Commands of docs/cli.md, the README and the tutorials run in a folder with the named files."""

import csv
import gzip
import json
import re
import shlex
import shutil
from itertools import product
from pathlib import Path

import pytest

from hf_gile.training import encoders, general
from hf_gile_cli.app import app

ROOT = Path(__file__).parents[2]


def commands_of(page):
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if "hf-gile " in line]


COMMANDS = commands_of("docs/cli.md")
TRAINING = [line for line in COMMANDS if re.match("hf-gile (demo|distill|train (?!.*--where))", line)]
RECORDS = [
    {"id": "a", "title": "Milk.", "abstract": "Breast milk for infants.", "subjects": ["Milk, Human", "Infant"]},
    {"id": "b", "title": "Heart.", "abstract": "The failing heart pumps less blood.", "subjects": ["Heart Failure"]},
    {"id": "c", "title": "Iron.", "abstract": "Rats were fed a diet low in iron.", "subjects": ["Iron", "Blood"]},
]


@pytest.fixture
def folder(tmp_path, saved_model, monkeypatch):
    for name in ("records", "validation", "test"):
        rows = [row | {"id": f"{row['id']}{copy}"} for copy in range(6) for row in RECORDS]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "notes.txt").write_text("Rats were fed.\nBreast milk.\n")
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "tags"])
        for number, row in product(range(60), RECORDS):
            writer.writerow([number, f"{row['abstract']} {number}", "; ".join(row["subjects"])])
    (tmp_path / "subjects.csv").write_text("id,name_en\nx1,Rats\nx2,Feeding\n")
    (tmp_path / "card.yaml").write_text("summary: On milk and iron.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_line(run, line):
    """Runs a command line with `echo` or `cat` before a pipe, and `>` to a file."""
    words, target, piped = shlex.split(line), None, None
    if ">" in words:
        words, target = words[: words.index(">")], words[-1]
    if "|" in words:
        before, words = words[: words.index("|")], words[words.index("|") + 1 :]
        piped = f"{before[1]}\n" if before[0] == "echo" else Path(before[1]).read_text()
    assert words[0] == "hf-gile"
    result = run(*words[1:], input=piped)
    if target is not None:
        Path(target).write_text(result.stdout)
    return result


THESAURUS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://example.org/1> a skos:Concept ; skos:prefLabel "Copper"@en ; skos:altLabel "Cuprum"@en .
<http://example.org/2> a skos:Concept ; skos:prefLabel "Oats"@en .
"""


TUTORIALS = [f"docs/tutorials/{name}.md" for name in ("score", "train", "thesaurus", "newsroom")]


@pytest.mark.parametrize("page", ["README.md", *TUTORIALS])
def test_quick_commands_of_a_tutorial_run(page, run, folder, monkeypatch, save_text_encoder):
    pytest.importorskip("rdflib")
    encoder = encoders.FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(folder / "encoder"))
    monkeypatch.setattr(encoders, "locate_encoder", lambda name: encoder)
    monkeypatch.setattr(general, "HF_HOME", str(folder / "home"))
    for name in ("mail.txt", "new.txt"):
        shutil.copy("notes.txt", name)
    Path("topics.csv").write_text("id,name,description\ndelivery,delivery,parcels\n")
    Path("thesaurus.ttl").write_text(THESAURUS)
    Path("records.csv").write_text("title,abstract\nMilk.,Breast milk.\n")
    Path("today.jsonl").write_text('{"title": "Milk.", "body": "Breast milk."}\n')
    lines = [line for line in commands_of(page) if not line.startswith("hf-gile train")]
    assert lines
    for model in {word for line in lines for word in line.split() if word.endswith("/model")}:
        shutil.copytree("model", model)
    for line in lines:
        result = run_line(run, line)
        if "hf-gile score" in line:
            assert all("labels" in json.loads(scored) for scored in result.stdout.splitlines())


def test_every_command_of_the_page_runs(run, folder, monkeypatch, shared_data, save_text_encoder):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("h5py")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
    encoder = encoders.FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(folder / "encoder"))
    monkeypatch.setattr(encoders, "locate_encoder", lambda name: encoder)
    monkeypatch.setattr("uvicorn.run", lambda app, **settings: None)
    (checkpoint,) = (shared_data / "published_checkpoints" / "gile").glob("*en-de*")
    for name in ("weights.h5", "args.json"):
        shutil.copy(checkpoint / name, folder)
    result = {line: run_line(run, line) for line in COMMANDS if line not in TRAINING}
    assert len((folder / "scored.jsonl").read_text().splitlines()) == 2
    assert "+ D000086382" in result[next(line for line in result if "labels add" in line)].stdout
    card = (folder / "model" / "README.md").read_text()
    assert "model-index" in card or (folder / "model" / "results.json").is_file()
    assert "On milk and iron." in card


@pytest.mark.slow
@pytest.mark.usefixtures("datasets_cache", "short_search", "folder")
def test_the_training_command_of_the_page_runs(run):
    (line,) = [line for line in TRAINING if "hf-gile train" in line]  # others have their own tests
    run_line(run, line)
    assert Path("runs/notes/auto/model/config.json").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("datasets_cache")
def test_the_demo_trains_on_real_text_and_its_suggested_commands_run(run, medline_file, tmp_path, monkeypatch, capfd):
    end = b"</PubmedArticle>"
    citations = gzip.decompress(Path(medline_file).read_bytes()).split(end)[:3000]
    (tmp_path / "few.xml").write_bytes(end.join(citations) + end + b"</PubmedArticleSet>")
    monkeypatch.setattr("papers.record_source.demo_file", lambda: tmp_path / "few.xml")
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--epochs", "1")
    assert "documents for training" in done.stdout
    assert "loaded in a process without hf_gile" in done.stdout + capfd.readouterr().out
    advice = re.findall(r"^  (echo .*|hf-gile labels .*)$", done.stderr, re.MULTILINE)
    assert len(advice) == 3
    for line in advice:
        assert run_line(run, line).stdout


def test_the_page_shows_every_command():
    import typer

    labels = typer.main.get_command(app).commands["labels"].commands
    groups = {"labels": [name for name, command in labels.items() if not command.hidden]}
    names = [*typer.main.get_command(app).commands]
    for name in names:
        for subcommand in groups.get(name, [""]):
            words = f"hf-gile {name} {subcommand}".strip()
            assert any(re.search(rf"\b{re.escape(words)}\b", line) for line in COMMANDS), words
