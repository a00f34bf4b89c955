"""Model cards: metadata, page, and correct statements."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from answers import logits_of
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from PIL import Image

from hf_gile import GileForSequenceClassification, Label, LabelSet
from hf_gile.publishing import CardInfo, make_card, make_report, plots, save

WORDS = ["breast", "milk", "infants", "heart", "blood", "rats", "iron", "infection", "risk", "diet", "weeks"]
INFO = CardInfo(
    repo_id="somebody/hearts-and-milk",
    summary="Made for **tests**.",
    language="en",
    license="apache-2.0",
    datasets="somebody/abstracts",
    dataset_name="Abstracts",
    dataset_license="CC0",
    base_model="somebody/encoder",
    tags=["medicine"],
    training_command="python train.py",
    training_data="Three abstracts.",
    limits=["Not for patients."],
    citation="@misc{own, title = {Own}}",
)
HOSTILE = [
    "a | b || c",
    "<script>alert(1)</script>",
    "line\nbreak",
    "`code` ``` **bold** ~~gone~~",
    "[link](javascript:alert(1)) ![x](y.png)",
    '"quoted" \\ backslash\\',
    "\u202egnp.exe \u2066x",
    "{{ 7 * 7 }}{% for %}",
]


@pytest.fixture
def draws_figures():
    """Draws figures completely, which takes most of the time of a card."""


@pytest.fixture(autouse=True)
def _leave_figures_empty_by_default(request, monkeypatch):
    save = Figure.savefig
    if "draws_figures" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", lambda figure, target, **_: save(Figure(figsize=(1, 1)), target))


@pytest.fixture
def make_reported(make_model, label_set):
    """Creates a random model with seen and unseen labels, its processor, and a report on 31 documents."""

    def make(labels=None, calibration=None, **fields):
        counted = label_set.with_counts({"Heart Failure": 7, "Milk, Human": 3, "Iron": 1})
        labels = counted if labels is None else LabelSet(labels)
        model, processor = make_model(**{"problem_type": "multi_label_classification", "embedding_std": 4.0} | fields)
        model.set_labels(labels, processor)
        model.config.calibration = calibration or {}
        with torch.no_grad():  # so that some gold labels are assigned and some are missed
            model.gile.output_layer.classifier.bias.fill_(0.0)
        chosen = np.random.default_rng(3)
        texts = [" ".join(chosen.choice(WORDS, 7)) for _ in range(31)]
        is_single = fields.get("problem_type") == "single_label_classification"
        sizes = [1 if is_single else min(row % 4, len(labels)) for row in range(31)]
        gold = [chosen.choice(labels.ids, size, replace=False).tolist() for size in sizes]
        return model, processor, make_report(model, processor, texts, gold, dataset="Abstracts", command="eval")

    return make


def render(card):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(card.text)


def tables(page):
    """Returns the rows of every table, with cells as visible to a reader."""
    contents = []
    for table in re.findall(r"<table>.*?</table>", page, flags=re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", table, flags=re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
        contents.append([[html.unescape(re.sub(r"</?strong>", "", cell)) for cell in row] for row in cells])
    return contents


def headings(card):
    return re.findall(r"^#+ (.*)", re.sub(r"```.*?```", "", card.text, flags=re.DOTALL), flags=re.MULTILINE)


def programs(card, folder):
    return [
        program.replace("somebody/hearts-and-milk", str(folder))
        for program in re.findall(r"^```python$(.*?)^```$", card.text, flags=re.DOTALL | re.MULTILINE)
    ]


def test_the_metadata_are_valid_for_the_hub(make_reported, tmp_path):
    model, _, report = make_reported()
    card = make_card(model, INFO, report)
    card.save(tmp_path / "README.md")
    reloaded = ModelCard.load(tmp_path / "README.md")
    assert reloaded.data.to_dict() == card.data.to_dict()
    assert str(reloaded) == str(card)
    data = yaml.safe_load(str(card).split("---\n")[1])
    results = data.pop("model-index")
    assert data == {
        "base_model": "somebody/encoder",
        "datasets": ["somebody/abstracts"],
        "language": ["en"],
        "library_name": "transformers",
        "license": "apache-2.0",
        "metrics": ["f1"],
        "pipeline_tag": "zero-shot-classification",
        "tags": ["gile", "label-scoring", "multi-label", "medicine"],
    }
    [index] = results
    assert index["name"] == "hearts-and-milk"
    tasks = {result["task"]["type"]: result for result in index["results"]}
    assert list(tasks) == ["text-classification", "zero-shot-classification"]
    assert tasks["zero-shot-classification"]["dataset"] == {
        "name": "Abstracts", "type": "somebody/abstracts", "split": "test",
    }  # fmt: skip
    unseen = {metric["name"]: metric["value"] for metric in tasks["zero-shot-classification"]["metrics"]}
    assert unseen["Micro-F1 (unseen labels)"] == pytest.approx(report.metrics["unseen_micro_f1"], abs=1e-5)
    values = [metric["value"] for task in tasks.values() for metric in task["metrics"]]
    assert {type(value) for value in values} == {float}
    assert all(0 <= value <= 1 for value in values)
    assert reloaded.data.eval_results == card.data.eval_results


@pytest.mark.usefixtures("draws_figures")
def test_a_fully_documented_model_gets_every_section(make_reported, tmp_path):
    calibration = {"seen": {"method": "platt", "scale": 0.7, "offset": 0.3}}
    names = [f"{WORDS[n % 11]} {WORDS[n // 11]}" for n in range(37)]
    labels = [Label(f"D{n}", name, "diet", seen=n < 30, count=max(0, 30 - n)) for n, name in enumerate(names)]
    model, _, report = make_reported(labels, calibration)
    model.config.thresholds = {"seen": 0.31, "unseen": 0.2}
    card = make_card(model, INFO, report, tmp_path)
    assert headings(card) == [
        "hearts-and-milk", "Use", "Labels", "Results", "Probabilities and thresholds", "Add a label", "Training",
        "Limits", "Citation",
    ]  # fmt: skip
    text = " ".join(card.text.split())
    for sentence in (
        "Made for **tests**.",
        "37 labels independently",
        "30 labels were seen in training, 7 were not.",
        "On 31 documents of Abstracts (test), in percent:",
        "all together in the last column. F1 uses the stored thresholds.",
        "those of seen labels by Platt scaling.",
        "from a probability of 0.31 (seen labels), or 0.2 (unseen labels).",
        "Training started from [somebody/encoder](https://huggingface.co/somebody/encoder).",
        "Data: Abstracts (licence: CC0).",
        "- Not for patients.",
        "@misc{own, title = {Own}}",
        "It reads the first 300 words of a text",
    ):
        assert sentence in text
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"labels.csv", "figures/calibration.png"}
    assert set(re.findall(r"\]\(((?:figures|labels)[^)]*)\)", card.text)) == files
    for image, target in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", card.text):
        assert len(image) > 30, "an image needs a descriptive alternative text"
        assert (tmp_path / target).stat().st_size < 100_000
        with Image.open(tmp_path / target) as figure:
            assert figure.size[0] >= 900  # sharp on wide pages
            assert figure.convert("RGBA").getpixel((0, 0))[3] == 0  # transparent


def test_bins_with_few_scores_are_not_drawn(tmp_path):
    few = {"probability": 0.5, "frequency": 0.25, "count": plots.MIN_SCORES - 1}
    assert not plots.calibration_plot({"seen": {"before": [few]}}, tmp_path / "calibration.png")
    assert not plots.calibration_plot({}, tmp_path / "calibration.png")
    assert list(tmp_path.iterdir()) == []


def test_unknown_facts_are_not_mentioned(make_reported, tmp_path):
    model, _, _ = make_reported()
    card = make_card(model, CardInfo(), None, tmp_path)
    assert headings(card) == ["GILE model", "Use", "Labels", "Add a label", "Limits", "Citation"]
    assert set(card.data.to_dict()) == {"library_name", "pipeline_tag", "tags"}
    for placeholder in ("None", "nan", "TBD", "[More", "Undefined", "{{", "{%"):
        assert placeholder not in card.text
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["labels.csv"]
    assert "labels.csv" not in make_card(model, CardInfo()).text


def test_labels_are_escaped_on_cards(make_reported, tmp_path):
    counts = {"seen": True, "count": 3}
    labels = [Label(f"id{n} {text}", f"{n} {text}", f"means {text}", **counts) for n, text in enumerate(HOSTILE)]
    labels[5:] = [replace(label, seen=False, count=0) for label in labels[5:]]
    model, _, report = make_reported(labels)
    report.dataset = HOSTILE[0] + HOSTILE[1]
    card = make_card(model, CardInfo(model_name="# <b>|"), report, tmp_path)
    page = render(card)
    for table in tables(page):
        assert len({len(row) for row in table}) == 1
    heading, *rows = next(table for table in tables(page) if "label" in table[0])
    names = [row[heading.index("label")].strip("\u2068\u2069") for row in rows]
    clean = {" ".join(re.sub("[\u202e\u2066]", "", label.name).split()) for label in labels}
    assert set(names) == clean
    outside = re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL)
    allowed = "p|h1|h2|h3|table|thead|tbody|tr|th|td|ul|li|strong|em|pre"
    for tag in re.findall(r"<[^>]*>", outside):
        plain = re.fullmatch(rf'</?({allowed})( style="text-align:(left|right)")?>', tag)
        linked = re.fullmatch(r'<img src="figures/\w+\.png" alt="[^"<>]*" />|<a href="labels.csv">|</a>', tag)
        assert plain or linked, tag
    for program in programs(card, tmp_path):
        compile(program, "card", "exec")


SINGLE = {"problem_type": "single_label_classification"}
ROWS = {"label_rows": "full", "text_encoder_type": "han"}


@pytest.mark.parametrize("fields", [ROWS, SINGLE, {"output_layer": "linear"}])
def test_the_example_code_on_the_card_runs(make_reported, tmp_path, monkeypatch, fields):
    calibration = {"unseen": {"method": "platt", "scale": 0.5, "offset": 0.0}}
    model, processor, report = make_reported(calibration=calibration, **fields)
    model.config.thresholds = {"seen": 0.31}
    save(tmp_path / "saved", model, processor, report=report, card=INFO)
    card = ModelCard.load(tmp_path / "saved" / "README.md")
    monkeypatch.chdir(tmp_path)
    space = {}
    answers = []
    for program in programs(card, tmp_path / "saved"):
        *before, last = program.strip().splitlines()
        before, last = ("\n".join(before), last) if last.startswith("pipe(") else (program, "None")
        exec(before, space)
        answers.append(eval(last, space))
    assert len(answers[0]["labels"]) == 5
    linear = "output_layer" in fields
    assert len(answers) == 4 - (fields == SINGLE) - 2 * linear
    if linear:
        return
    assert set(answers[1]["labels"]) == {"Weather", "Cooking"}
    new = GileForSequenceClassification.from_pretrained(tmp_path / "my-model").eval()
    assert new.label_set.ids == [*model.label_set.ids, "my-id"]
    words = processor(["breast milk"], return_tensors="pt")
    torch.testing.assert_close(logits_of(new, words)[:, :5], logits_of(model, words))


def test_the_card_of_a_single_label_model_shows_accuracy(make_reported):
    model, _, report = make_reported(problem_type="single_label_classification")
    card = make_card(model, INFO, report)
    result = next(table for table in tables(render(card)) if table[1][0] == "accuracy")
    assert result[0] == ["", "3 seen labels", "2 unseen labels", "all labels"]
    assert result[1][3] == f"{100 * report.metrics['accuracy']:.1f}"
    assert card.data.to_dict()["metrics"] == ["accuracy", "f1"]
    names = [result.metric_name for result in card.data.eval_results]
    assert "Accuracy" in names
    assert not {"Micro-F1", "Precision at 1"} & set(names)  # equal to the accuracy
    assert "threshold=" not in card.text
    assert card.data.pipeline_tag == "zero-shot-classification"
    assert "single-label" in card.data.tags


def test_the_card_states_the_limits_of_the_model(make_reported):
    model, _, report = make_reported(text_encoder_type="han", max_sentences=7, max_sentence_words=5)
    report.labels[1]["support"] = 0
    limits = make_card(model, INFO, report).text.partition("## Limits")[2]
    for sentence in (
        "It reads the first 7 sentences, 5 words of each, of a text",
        f"It knows {model.config.text_config.vocab_size} words",
        f"Average precision is {100 * report.metrics['unseen_average_precision']:.1f} among these",
        "1 of the 5 labels has no document in the test",
    ):
        assert sentence in limits
    linear, _, report = make_reported(output_layer="linear")
    card = make_card(linear, CardInfo(), report)
    assert card.data.pipeline_tag == "text-classification"
    assert "multi-label" in card.data.tags
    limits = card.text.partition("## Limits")[2]
    assert "It scores only the labels that it was trained on." in limits
    assert "not trained on" not in limits


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"language": "english"}, "ISO 639 codes, such as 'en'.*got 'english'"),
        ({"license": "Apache 2.0"}, "license must be the id of a licence on the Hub"),
        ({"language": False}, "language must be a list of texts, got False; in YAML, quote"),
    ],
)
def test_card_fields_invalid_for_the_hub_are_refused_at_once(fields, message):
    with pytest.raises(ValueError, match=message):
        CardInfo(**fields)
