import csv
import json
import random
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline
from hf_gile.publishing import Report
from hf_gile.resources import resource

pytest.importorskip("accelerate")
pytest.importorskip("datasets")

WORDS = {"heart": "heart failing cardiac ventricle", "milk": "milk breast feeding", "iron": "iron anemia ferritin"}


def test_the_path_of_each_recipe_is_shown(run):
    for name in ("table", "units", "bioasq", "dw", "xmc"):
        assert run("train", "--recipe", name, "--where").stdout == f"{resource(f'recipes/train_{name}.py')}\n"


@pytest.mark.parametrize(("name", "flag"), [("table", "--label_file"), ("dw", "--languages")])
def test_recipe_help_follows_the_list_of_recipes(run, name, flag):
    printed = run("train", "--recipe", name, "--help").stdout
    assert printed.startswith("Usage: hf-gile train [--recipe NAME] [RECIPE OPTIONS]...")
    about, options = printed.split(f"Options of the recipe {name}:")
    assert "dw " in about
    assert flag in options
    assert len(printed.splitlines()) < 145
    assert "--adam_beta1" not in options
    assert "--adam_beta1" in run("train", "--recipe", name, "--help-all").stdout


def test_the_help_of_train_starts_with_what_most_runs_need(run):
    _, _, options = run("train", "--help").stdout.partition("\nMost runs need\n")
    first, *panels = [panel.split("\n") for panel in options.strip().split("\n\n")]
    names = ["--train_files", "--text", "--labels", "--separator", "--label_file", "--output_dir"]
    assert [line.split()[0] for line in first] == names
    flags = [line.split()[0] for panel in panels for line in panel[1:] if line.startswith("  --")]
    assert len(flags) == len({*flags, *names}) - len(names) > 30


def write_notes(most):
    """Writes notes.csv and held-back.csv, with up to so many labels a document; returns the flags to train."""
    draw = random.Random(0)
    for name, number in {"notes": 230, "held-back": 61}.items():
        with Path(f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "tags"])
            for _ in range(number):
                gold = draw.sample(list(WORDS), draw.randint(1, most))
                words = " ".join(WORDS[draw.choice([*gold, *gold, "milk"])] for _ in range(3)).split()
                writer.writerow([" ".join(draw.choices(words, k=5)), ";".join(gold)])
    steps = ["--lexical", "false", "--num_train_epochs", "4", "--per_device_train_batch_size", "16", "--use_cpu"]
    tables = ["--train_files", "notes.csv", "--test_files", "held-back.csv", "--labels", "tags"]
    tables += ["--separator", ";"] if most > 1 else []
    return [*tables, *steps, "--text_encoder", "words", "--no_baselines", "--output_dir", "out"]


@pytest.mark.usefixtures("datasets_cache")
@pytest.mark.parametrize(("most", "flags"), [(2, ["--calibration", "platt"]), (1, ["--hub-token", "and-enter"])])
def test_table_results_card_and_answers_are_the_same_numbers(run, tmp_path, monkeypatch, capfd, most, flags):
    monkeypatch.chdir(tmp_path)
    trained = run("train", *write_notes(most), *flags)
    written = [path.read_bytes() for path in Path("out").rglob("*") if path.is_file()]
    for content in [*written, trained.output.encode(), *map(str.encode, capfd.readouterr())]:
        assert b"and-enter" not in content
    shown = trained.stdout
    headings, row = re.search(r"^ +((?:AvgPr|Acc).*)\n(auto.*)$", shown, re.MULTILINE).groups()
    printed = dict(zip(headings.split(), row.split()[1:], strict=True))
    result = json.loads(Path("out/results.json").read_text())["auto"]["test"]
    model = Path("out/auto/model")
    metrics = Report.load(model / "results.json").metrics
    assert result == {f"test_{name}": value for name, value in metrics.items()}
    main = {"Acc": "accuracy", "MacroF1": "macro_f1"} if most == 1 else {"micro-F1": "micro_f1"}
    for heading, name in {"AvgPr": "average_precision", **main}.items():
        assert 0.5 < metrics[name] < 1
        assert printed[heading] == f"{100 * metrics[name]:.2f}"
    card = {figure.metric_name: figure.metric_value for figure in ModelCard.load(model / "README.md").data.eval_results}
    assert card["Average precision"] == round(metrics["average_precision"], 5)
    assert card["Macro-F1"] == round(metrics["macro_f1"], 5)
    test = ["held-back.csv", "--labels", "tags", *(["--separator", ";"] if most > 1 else [])]
    evaluated = json.loads(run("evaluate", model, *test).stdout)["metrics"]
    assert evaluated.keys() | {"psp_at_1", "psp_at_3"} == metrics.keys()
    assert [f"{100 * metrics[name]:.3f}" for name in evaluated] == [f"{100 * x:.3f}" for x in evaluated.values()]
    with Path("held-back.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    loaded = {"model": GileForSequenceClassification.from_pretrained(model)}
    pipe = LabelScoringPipeline(**loaded, processor=GileProcessor.from_pretrained(model))
    scored = run("score", model, input="cardiac ventricle\nferritin\n").stdout.splitlines()
    assert [json.loads(line)["labels"][0] for line in scored] == ["heart", "iron"]
    answers = [set(answer["labels"]) for answer in pipe([row["text"] for row in rows], threshold="stored")]
    gold = [set(row["tags"].split(";")) for row in rows]
    hits = sum(len(found & wanted) for found, wanted in zip(answers, gold, strict=True))
    assert 2 * hits / sum(map(len, [*answers, *gold])) == metrics["micro_f1"]
