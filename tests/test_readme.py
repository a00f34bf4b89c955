"""Code of the README and other pages runs, and files and names in them exist."""

import importlib
import pkgutil
import re
import shutil
from pathlib import Path

import pytest
from papers.keras_checkpoints import from_keras

from hf_gile.training import general
from hf_gile.training.encoders import FoundEncoder

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": ("no model", "your model"),
    "docs/scoring.md": ("pipeline", "pipeline options", "without the pipeline", "index"),
    "docs/models.md": ("models to try",),
    "docs/paper.md": ("family", "published checkpoints"),
    "docs/scale_out.md": ("distill", "columns"),
    "docs/shortlist.md": ("shortlist",),
    "docs/training.md": ("own data",),
    "docs/pretrained.md": ("pretrained encoder",),
    "docs/tutorials/score.md": ("tutorial: score",),
    "docs/tutorials/train.md": ("tutorial: train",),
    "docs/tutorials/newsroom.md": ("tutorial: newsroom",),
    "docs/tutorials/papers.md": ("tutorial: papers",),
}
"""The pages whose blocks of code are run here, the first ones of each by their names."""

BLOCKS = {
    name: (page, block)
    for page, names in PAGES.items()
    for name, block in zip(
        names, re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL), strict=False
    )
}


def run(name, names):
    page, block = BLOCKS[name]
    block = block.replace('TrainingArguments("runs/mine",', 'TrainingArguments("runs/mine", use_cpu=True,')
    exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize(
    "name",
    ["your model", "models to try", "pipeline", "own data", "family", "without the pipeline", "index", "shortlist"]
    + [name for name in BLOCKS if name.startswith("tutorial: ") and name != "tutorial: score"],
)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, make_model):
    monkeypatch.chdir(tmp_path)
    model, processor = make_model(problem_type="multi_label_classification")
    model.save_pretrained("saved")
    processor.save_pretrained("saved")
    for folder in ("runs/bioasq/gile", "runs/mine/auto", "runs/notes/auto", "runs/table/gile", "gnd-en"):
        shutil.copytree("saved", f"{folder}/model")
    names = {}
    run(name, names)
    if name == "pipeline":
        run("pipeline options", names)


def test_the_page_on_scaling_out_maps_a_dataset(tmp_path, monkeypatch, make_model):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    for part in make_model(problem_type="multi_label_classification"):
        part.save_pretrained("model")
    Path("records.jsonl").write_text('{"title": "Milk.", "abstract": "Breast milk."}\n' * 3)
    run("columns", {})
    scored = datasets.Dataset.from_parquet("scored.parquet")
    assert [len(scored), *scored.column_names] == [3, "title", "abstract", "labels", "scores", "note"]


@pytest.mark.filterwarnings("ignore")
def test_the_readme_scores_labels_without_a_model(tmp_path, monkeypatch, save_text_encoder):
    folder = save_text_encoder(tmp_path / "encoder", texts=["the parcel has not come delivery invoice password"])
    name = "sentence-transformers/all-MiniLM-L6-v2"
    monkeypatch.setattr(general, "HF_HOME", str(tmp_path))
    monkeypatch.setattr(general, "best_text_encoder", lambda *texts: FoundEncoder(name, str(folder)))
    names = {}
    run("no model", names)
    assert len(names["pipe"]("The parcel.", candidate_labels=["delivery", "invoice"])["labels"]) == 2
    run("tutorial: score", names)
    assert {name for one in names["result"] for name in one["labels"]} == {"delivery", "account"}


def test_the_pretrained_encoder_example_runs(tmp_path, monkeypatch, save_text_encoder):
    monkeypatch.chdir(tmp_path)
    save_text_encoder(tmp_path / "sentence-transformers" / "all-MiniLM-L6-v2")
    names = {}
    run("pretrained encoder", names)
    words = names["processor"](["Infants."], return_tensors="pt")
    assert names["model"](**words).logits.shape == (1, 2)


def test_the_checkpoint_conversion_example_runs(tmp_path, monkeypatch, shared_data):
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    (folder,) = (shared_data / "published_checkpoints" / "gile").glob("*en-de*")
    from_keras(folder / "weights.h5", folder / "args.json").save_pretrained("gile-mhan")  # the command of the page
    names = {}
    run("published checkpoints", names)
    assert names["output"].logits.shape == (2, 7)
    assert len(names["output"].attentions) == 2
    assert (tmp_path / "gile-mhan" / "published_gile.py").is_file()


def test_the_readme_is_short_and_names_existing_files():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 130
    for path in re.findall(r"(?:recipes|docs|benchmarks)/\w+\.\w+", readme):
        assert (ROOT / path).is_file(), path


def test_the_page_on_data_names_every_reader():
    import hf_gile.data

    page = re.sub(r"recipes/\S+|pyarrow\S+", "", (ROOT / "docs" / "data.md").read_text())
    named = set(re.findall(r"\b(?:load|read|write|mesh|table|zero_shot)_\w+\b", page))
    named -= {"load_dataset", "zero_shot_unseen"}
    named -= {"load_records", "load_dw", "read_medline", "mesh_ids"}  # in recipes/papers
    assert named <= set(hf_gile.data.__all__), named - set(hf_gile.data.__all__)
    assert {name for name in hf_gile.data.__all__ if name.startswith("load_")} <= named


def test_every_public_name_is_in_the_reference():
    described = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for target in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE):
            described |= names_under(target)
    for path in (ROOT / "hf_gile").rglob("__init__.py"):
        module = importlib.import_module(".".join(path.parent.relative_to(ROOT).parts))
        for name in getattr(module, "__all__", []):
            assert id(getattr(module, name)) in described, f"{module.__name__}.{name}"


def names_under(target):
    """Returns the ids of what the reference shows for a target: an object, or the public names of a package."""
    shown = pkgutil.resolve_name(target)
    names = getattr(shown, "__all__", None)
    return {id(shown)} if names is None else {id(getattr(shown, name)) for name in names}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_of_a_page_have_existing_targets(page):
    for target, _, heading in re.findall(r"\]\((?!https?:)([^)#]*)(#([^)]*))?\)", page.read_text()):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        slugs = [
            re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
            for line in (file.read_text().splitlines() if heading else ())
            if line.startswith("#")
        ]
        assert not heading or heading in slugs, f"{target}#{heading}"
