"""The translation recipe, on sentences translated word by word."""

import itertools
import json

import pytest
import torch
import train_nmt
from datasets import Dataset
from papers.translation import build_piece_tokenizer
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainingArguments

WORDS = {
    "ein": "a",
    "hund": "dog",
    "vogel": "bird",
    "läuft": "runs",
    "schläft": "sleeps",
    "heute": "today",
    "hier": "here",
}
WRITTEN = [
    f"ein {animal} {does} {when} hier"
    for animal, does, when in itertools.product(("hund", "vogel"), ("läuft", "schläft"), ("heute", "ein"))
]


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "val", "test"):
        lines = WRITTEN * 8 if part == "train" else WRITTEN
        (tmp_path / f"{part}.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
        english = [" ".join(WORDS[word] for word in line.split()) for line in lines]
        (tmp_path / f"{part}.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    return tmp_path


SMALL = ["--vocab_size", 200, "--embedding_size", 16, "--hidden_size", 16, "--num_hidden_layers", 1, "--use_cpu"]
SMALL += ["--learning_rate", 0.02, "--per_device_train_batch_size", 8, "--dropout", 0, "--patience", 9]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize("subfolder", ["", "source"])
def test_models_are_trained_compared_and_saved(folder, run_recipe, subfolder):
    layers = ["nmt", "joint8", "continuous"]
    flags = ["--data", folder, "--output_dir", "out", "--num_train_epochs", 3, *SMALL]
    if subfolder:
        flags.append("--separate_vocabularies")
    done = run_recipe("train_nmt", [*flags, "--layers", *layers])
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "out" / "results.json").read_text())
    assert [*results] == layers
    assert not (folder / "out" / "continuous" / "model").exists()
    for name, figures in results.items():
        first, *_, last = figures["history"]
        assert last["eval_loss"] < first["eval_loss"] < 3
        assert {"bleu", "interval", "f1_low", "f1_medium", "f1_high"} <= figures["test"].keys()
        assert figures["test"]["f1_high"] > 0
        assert ("p_value" in figures["test"]) == (name != "nmt")
        if name == "continuous":
            continue
        model = AutoModelForSeq2SeqLM.from_pretrained(folder / "out" / name / "model", trust_remote_code=True)
        tokenizer = AutoTokenizer.from_pretrained(folder / "out" / name / "model")
        source = AutoTokenizer.from_pretrained(folder / "out" / name / "model", subfolder=subfolder)
        assert ("▁hund" in tokenizer.vocab) == (not subfolder)
        with torch.no_grad():
            written = model.generate(**source(WRITTEN, padding=True, return_tensors="pt"), num_beams=5)
        lines = (folder / "out" / name / "test.txt").read_text().splitlines()
        assert tokenizer.batch_decode(written, skip_special_tokens=True) == lines


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--data", ".", "--layers", "jiont512"], "did you mean joint"),
        (["--data", ".", "--layers", "tiedx2"], "only joint and output support it"),
        (["--data", ".", "--loss", "chunked"], "remove it from --layers"),
        (["--data", "."], "no file train.de"),
    ],
)
def test_invalid_settings_are_reported_without_a_traceback(flags, says, run_recipe):
    done = run_recipe("train_nmt", [*flags, "--use_cpu"])
    assert done.returncode
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_translations_follow_the_order_of_the_sentences(tmp_path):
    lines = [" ".join(["hund"] * number) for number in (3, 9, 1, 5, 2, 8, 4, 7, 6)]
    tokenizer = build_piece_tokenizer(lines * 9, 60)
    rows = Dataset.from_list([{**tokenizer(line, text_target=line), "length": len(line)} for line in lines])
    recipe = train_nmt.Recipe(data="", embedding_size=4, hidden_size=4, num_hidden_layers=1, max_length=12)
    model = train_nmt.make_model(recipe, "nmt", len(tokenizer))
    options = {"train_sampling_strategy": "group_by_length", "predict_with_generate": True, "use_cpu": True}
    args = Seq2SeqTrainingArguments(str(tmp_path), per_device_eval_batch_size=2, report_to=[], **options)
    trainer = train_nmt.make_trainer(model, args, tokenizer, dict.fromkeys(("train", "validation"), rows))
    predicted = train_nmt.predict_in_order(trainer, rows, num_beams=1)
    assert train_nmt.decode(tokenizer, predicted.label_ids) == lines


def test_layer_names_select_form_size_and_depth():
    recipe = train_nmt.Recipe(data="", embedding_size=4, hidden_size=4, num_hidden_layers=1)
    heads = {
        name: train_nmt.make_model(recipe, name, 20).get_output_embeddings()
        for name in ("nmt", "tied", "joint7", "joint4x3", "continuous")
    }
    assert isinstance(heads["nmt"], torch.nn.Linear)
    assert isinstance(heads["continuous"], torch.nn.Linear)
    assert heads["tied"].codes() is heads["tied"].weight
    assert heads["joint7"].codes().shape == (20, 7)
    assert len(heads["joint4x3"].g_out.layers) == 3
    assert heads["joint4x3"].g_out.residual
