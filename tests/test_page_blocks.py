"""Code of pages runs; tests of single pages run the rest."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from answers import logits_of
from datasets import Dataset, config
from pages import blocks, run
from papers.keras_checkpoints import from_keras
from transformers import Trainer, TrainingArguments

from hf_gile import GileForSequenceClassification
from hf_gile.exports import export_onnx, export_sentence_transformers
from hf_gile.publishing import save
from hf_gile.training import GileLoss, encode_dataset, general
from hf_gile.training.encoders import FoundEncoder

TEXTS = ["The failing heart pumps less blood.", "Breast milk for infants.", "Rats were fed iron."]
GOLD = [["Heart Failure"], ["Milk, Human", "Infant"], ["Iron"]]
MULTI_LABEL = {"problem_type": "multi_label_classification"}


def rows(copies=1, labels=GOLD):
    return Dataset.from_dict({"text": TEXTS * copies, "labels": labels * copies})


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def made(make_model):
    """A model for words and its processor, as examples name them."""
    return dict(zip(("model", "processor"), make_model(**MULTI_LABEL), strict=True))


@pytest.fixture
def pretrained(make_pretrained, label_set, tmp_path):
    """Makes a model over a random encoder, and returns it with its parts, as examples name them."""

    def make(**options):
        model, processor = make_pretrained(**options)
        return {"model": model, "processor": processor, "labels": label_set, "encoder": str(tmp_path / "encoder")}

    return make


def score(names, texts=("Rats were fed iron.",)):
    return logits_of(names["model"].eval(), names["processor"](list(texts), return_tensors="pt"))


FIRST = ["models", "paper", "shortlist", "training", "tutorials/newsroom", "tutorials/papers", "tutorials/train"]
BLOCKS = [("README.md", [1]), *((f"docs/{page}.md", [0]) for page in FIRST)]
BLOCKS += [("docs/scoring.md", numbers) for numbers in ([0, 1], [2], [3])]


@pytest.mark.parametrize(("page", "numbers"), BLOCKS)
def test_the_code_of_a_page_runs(page, numbers, made):
    for part in made.values():
        part.save_pretrained("saved")
    for folder in ("runs/bioasq/gile", "runs/mine/auto", "runs/notes/auto", "runs/table/gile", "gnd-en"):
        shutil.copytree("saved", f"{folder}/model")
    names = {}
    for number in numbers:
        block = blocks(page)[number]
        exec(compile(block.replace('("runs/mine",', '("runs/mine", use_cpu=True,'), page, "exec"), names)


def test_the_page_on_scaling_out_maps_a_dataset(made):
    for part in made.values():
        part.save_pretrained("model")
    Path("records.jsonl").write_text('{"title": "Milk.", "abstract": "Breast milk."}\n' * 3)
    run("docs/scale_out.md", "from datasets import load_dataset")
    scored = Dataset.from_parquet("scored.parquet")
    assert [len(scored), *scored.column_names] == [3, "title", "abstract", "labels", "scores", "note"]


@pytest.mark.filterwarnings("ignore")
def test_the_readme_scores_labels_without_a_model(tmp_path, monkeypatch, save_text_encoder):
    folder = save_text_encoder(texts=["the parcel has not come delivery invoice password"])
    name = "sentence-transformers/all-MiniLM-L6-v2"
    monkeypatch.setattr(general, "HF_HOME", str(tmp_path))
    monkeypatch.setattr(general, "best_text_encoder", lambda *texts: FoundEncoder(name, folder))
    names = run("README.md", "import hf_gile")
    assert len(names["pipe"]("The parcel.", candidate_labels=["delivery", "invoice"])["labels"]) == 2
    run("docs/tutorials/score.md", "import hf_gile", names)
    assert {name for one in names["result"] for name in one["labels"]} == {"delivery", "account"}


def test_the_pretrained_encoder_example_runs(tmp_path, save_text_encoder):
    save_text_encoder(tmp_path / "sentence-transformers" / "all-MiniLM-L6-v2")
    names = run("docs/pretrained.md", "from hf_gile import LabelSet")
    assert score(names).shape == (1, 2)


def test_the_checkpoint_conversion_example_runs(shared_data):
    pytest.importorskip("h5py")
    (folder,) = (shared_data / "published_checkpoints" / "gile").glob("*en-de*")
    from_keras(folder / "weights.h5", folder / "args.json").save_pretrained("gile-mhan")  # the command of the page
    output = run("docs/paper.md", "import torch\nfrom transformers import AutoModel")["output"]
    assert output.logits.shape == (2, 7)
    assert len(output.attentions) == 2
    assert Path("gile-mhan/published_gile.py").is_file()


def test_the_example_with_lexical_terms_runs(made):
    model, processor = made["model"], made["processor"]
    for part in (model, processor):
        part.save_pretrained("model")
    processor.lexical = True
    names = {"dataset": encode_dataset(rows(), processor, model.label_set), "folder": "model", "processor": processor}
    names["GileForSequenceClassification"] = GileForSequenceClassification
    assert run("docs/how_it_works.md", "from hf_gile.training import set_lexical", names)["model"].config.lexical


def test_the_convex_fitting_example_runs(pretrained):
    names = pretrained(problem_type="single_label_classification")
    gold = [["Heart Failure"], ["Milk, Human"], ["Iron"]]
    encoded = encode_dataset(rows(6, gold), names["processor"], names["labels"])
    names["parts"] = {"train": encoded, "validation": encoded}
    opening = "from hf_gile.training import add_pooled_embeds, fit_convex"
    assert run("docs/how_it_works.md", opening, names)["fitted"].chosen


def test_the_frozen_encoder_and_learning_rate_examples_run(pretrained):
    names = pretrained(freeze_text_encoder=True, **MULTI_LABEL) | {"rows": rows(), "torch": torch}
    names |= {"encode_dataset": encode_dataset, "Trainer": Trainer}
    names["args"] = TrainingArguments("runs", use_cpu=True, report_to="none")
    frozen = run("docs/pretrained.md", "from hf_gile.training import add_pooled", dict(names))
    assert "pooled_embeds" in frozen["dataset"].column_names
    trained = pretrained(**MULTI_LABEL)
    names |= {"model": trained["model"], "dataset": encode_dataset(rows(), names["processor"], names["labels"])}
    groups = run("docs/pretrained.md", "from hf_gile.training import parameter_groups", names)["groups"]
    assert {group["lr"] for group in groups} == {1e-4, 2e-3}


def test_the_example_of_a_static_encoder_runs(pretrained):
    names = pretrained(freeze_text_encoder=True) | {"texts": TEXTS}
    fast = run("docs/scale_out.md", "from hf_gile.training import attach_teacher", names)["fast"]
    assert fast.model.config.text_config.text_encoder_type == "static"


def test_the_torch_export_example_runs(made):
    inputs = made["processor"](TEXTS, return_tensors="pt")
    names = run("docs/pretrained.md", "model.eval()", made | {"torch": torch, "inputs": inputs})
    exported = names["program"].module()(inputs["input_ids"], inputs["attention_mask"])
    torch.testing.assert_close(exported["logits"], score(made, TEXTS))


def test_the_example_with_vectors_of_texts_runs_for_the_default_kind_of_model(pretrained):
    kind = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "lexical": True}
    names = pretrained(freeze_text_encoder=True, **kind)
    save("model", names["model"], names["processor"], index=False, card=False)
    vectors = run("docs/exports.md", "import torch\nfrom transformers")["vectors"]
    assert vectors.shape == (1, names["model"].project_stored_labels().shape[1])


def test_the_sentence_transformers_example_runs(pretrained):
    pytest.importorskip("sentence_transformers")
    names = pretrained()
    export_sentence_transformers(names["model"], names["processor"], "out")
    logits = run("docs/exports.md", "from safetensors.torch import load_file")["logits"]
    torch.testing.assert_close(logits.cpu(), score(names), rtol=1e-5, atol=1e-5)


@pytest.mark.slow  # as all exports to ONNX
def test_the_onnx_example_runs(made):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    export_onnx(made["model"], made["processor"], "out")
    logits = run("docs/exports.md", "import onnxruntime")["logits"]
    torch.testing.assert_close(torch.from_numpy(logits), score(made))


def test_the_rare_label_and_loss_examples_run(made):
    label_set = made["model"].label_set.with_counts({"Iron": 7, "Blood": 2, "Infant": 1, "Milk, Human": 1})
    names = made | {"label_set": label_set, "seen": label_set.seen, "num_documents": 20}
    run("docs/training.md", "from hf_gile.metrics import LabelMetrics, propensities", names)
    assert run("docs/training.md", "def focal", names)["model"].loss_function is names["focal"]


@pytest.fixture
def counted(made):
    """A model whose labels all have a training document, and what a program needs to train it."""
    model, processor = made["model"], made["processor"]
    label_set = model.label_set.with_counts(dict.fromkeys(model.label_set.ids, 1))
    model.set_labels(label_set, processor)
    args = TrainingArguments("runs", use_cpu=True, report_to="none", batch_eval_metrics=True)
    parts = dict.fromkeys(("train", "validation", "test"), rows(4))
    return made | {"label_set": label_set, "args": args, "parts": parts, "GileLoss": GileLoss}


@pytest.mark.slow
def test_the_training_program_example_runs(counted):
    args = counted["args"]
    args.num_train_epochs = 1
    args.eval_strategy = args.save_strategy = "epoch"
    args.load_best_model_at_end = True
    run("docs/training.md", "from pathlib import Path", counted)
    assert Path("runs/mine/model/config.json").is_file()


def test_the_fit_example_runs(counted, monkeypatch):
    monkeypatch.setattr("hf_gile.training.fit.text_encoders", lambda texts: [])
    run("docs/training.md", "from hf_gile.training.fit import fit", counted)
    assert Path("runs/auto/model/config.json").is_file()


def test_the_table_and_word_vector_examples_run():
    Path("subjects.csv").write_text("id,name_en,name_de,synonyms\na,Iron,Eisen,Fe\n")
    Path("records.jsonl.gz").write_text('{"id": "1", "title": "Iron.", "abstract": "Of rats.", "subjects": ["a"]}\n')
    Path("glove.840B.300d.txt").write_text("iron 0.5 1.0\nmilk 1.0 0.25\n")
    assert len(run("docs/data.md", "from hf_gile.data import load_labels")["rows"]) == 1
    model = run("docs/data.md", "from hf_gile import GileConfig, GileModel")["model"]
    assert np.isfinite(model.get_input_embeddings().weight.detach().numpy()).all()
