"""The translation recipe, on sentences translated word by word, and its comparisons of systems."""

import itertools

import pytest
import sacrebleu
import torch
import train_nmt
from datasets import Dataset
from papers.translation import build_piece_tokenizer, compare_translations, word_f1_by_frequency
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainingArguments

WORDS = {"ein": "a", "hund": "dog", "vogel": "bird", "läuft": "runs", "schläft": "sleeps", "heute": "today"}
WORDS["hier"] = "here"
CHOICES = itertools.product(("hund", "vogel"), ("läuft", "schläft"), ("heute", "ein"))
WRITTEN = [f"ein {animal} {does} {when} hier" for animal, does, when in CHOICES]


@pytest.fixture
def folder(write, tmp_path):
    for part in ("train", "val", "test"):
        lines = WRITTEN * 8 if part == "train" else WRITTEN
        write(f"{part}.de", "\n".join(lines) + "\n")
        write(f"{part}.en", "\n".join(" ".join(WORDS[word] for word in line.split()) for line in lines) + "\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize("subfolder", ["", "source"])
def test_models_are_trained_compared_and_saved(folder, run_recipe, subfolder):
    layers = ["nmt", "joint8", "continuous"]
    sizes = "--vocab_size 200 --embedding_size 16 --hidden_size 16 --num_hidden_layers 1 --dropout 0 --use_cpu"
    steps = "--num_train_epochs 3 --learning_rate 0.02 --per_device_train_batch_size 8 --patience 9"
    vocabularies = "--separate_vocabularies" if subfolder else ""
    flags = f"--data . --output_dir out --layers {' '.join(layers)} {sizes} {steps} {vocabularies}"
    results = run_recipe("train_nmt", flags).results
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
        saved = folder / "out" / name / "model"
        model = AutoModelForSeq2SeqLM.from_pretrained(saved, trust_remote_code=True)
        tokenizer = AutoTokenizer.from_pretrained(saved)
        source = AutoTokenizer.from_pretrained(saved, subfolder=subfolder)
        assert ("▁hund" in tokenizer.vocab) == (not subfolder)
        with torch.no_grad():
            written = model.generate(**source(WRITTEN, padding=True, return_tensors="pt"), num_beams=5)
        lines = (folder / "out" / name / "test.txt").read_text().splitlines()
        assert tokenizer.batch_decode(written, skip_special_tokens=True) == lines


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
    names = ("nmt", "tied", "joint7", "joint4x3", "continuous")
    heads = {name: train_nmt.make_model(recipe, name, 20).get_output_embeddings() for name in names}
    assert isinstance(heads["nmt"], torch.nn.Linear)
    assert isinstance(heads["continuous"], torch.nn.Linear)
    assert heads["tied"].codes() is heads["tied"].weight
    assert heads["joint7"].codes().shape == (20, 7)
    assert len(heads["joint4x3"].g_out.layers) == 3
    assert heads["joint4x3"].g_out.residual


RIGHT = [f"the {size} {animal} sleeps in the {place}" for size in "ab" for animal in "cd" for place in ("sun", "snow")]


def test_bleu_equals_sacrebleu_and_p_values_separate_chance_from_difference():
    wrong = [line.replace("sleeps in", "runs off") for line in RIGHT]
    near = [*RIGHT[:-1], "the b d sleeps in some snow"]
    other = ["the a c rests in the sun", *RIGHT[1:]]
    systems = {"near": near, "other": other, "wrong": wrong, "right": RIGHT}
    figures = compare_translations(systems, RIGHT, samples=200)
    for name, lines in systems.items():
        assert figures[name]["bleu"] == pytest.approx(sacrebleu.corpus_bleu(lines, [RIGHT]).score)
        assert figures[name]["interval"] >= 0
    assert "p_value" not in figures["near"]
    assert figures["wrong"]["p_value"] < 0.01 < 0.1 < figures["other"]["p_value"]
    assert figures["right"]["interval"] < 1e-6 < figures["near"]["interval"]


def test_each_system_needs_a_translation_of_each_reference():
    with pytest.raises(ValueError, match="short has 2 translations, but there are 8"):
        compare_translations({"all": RIGHT, "short": RIGHT[:2]}, RIGHT)


def test_word_f1_is_computed_for_each_third_of_frequency():
    training = ["a a a a b b b c c", "c d d e f"]  # e, f; b, d; a, c: ranked by their counts
    results = word_f1_by_frequency(["A b e x", "a a d"], ["a b e", "f c"], training)
    # (correct, predicted, gold) are (1, 1, 2) for low, (1, 2, 1) for medium, and (1, 3, 2) for high frequencies.
    assert results == pytest.approx({"low": 2 / 3, "medium": 2 / 3, "high": 2 / 5})
