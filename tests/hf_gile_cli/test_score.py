import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from answers import scores

from hf_gile import GileForSequenceClassification, GileProcessor, LabelScoringPipeline

TEXTS = ["Rats were fed.", "", "Breast milk for infants.", "The failing heart pumps less blood."]


@pytest.fixture
def pipe(saved_model):
    model = GileForSequenceClassification.from_pretrained(saved_model).eval()
    return LabelScoringPipeline(model=model, processor=GileProcessor.from_pretrained(saved_model))


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def check(rows, answers):
    assert [row["labels"] for row in rows] == [answer["labels"] for answer in answers]
    assert [row["scores"] for row in rows] == [pytest.approx(answer["scores"], rel=1e-5) for answer in answers]


def test_each_line_of_a_text_file_is_scored_as_by_the_pipeline(run, saved_model, pipe, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    result = run("score", saved_model, tmp_path / "texts.txt", "--batch-size", 3)
    rows = lines(result)
    assert [row["text"] for row in rows] == TEXTS
    check(rows, pipe(TEXTS, top_k=10))
    assert [row.get("note") for row in rows] == [None, "the model knows no word of this text", None, None]
    note = "the model knows no word of 1 text (lines with a note): their scores mean little\n"
    assert result.stderr == note


NAMED = ["--label", "Milk, Human", "--label", "Rats", "--label", "Iron", "--top-k", 2]
TABLE = ["--label-file", "terms.csv", "--label-id", "code", "--label-name", "term", "--label-description", "about"]
FLAGS = {
    "names": (NAMED, {"candidate_labels": ["Milk, Human", "Rats", "Iron"], "top_k": 2}),
    "table": (TABLE, {"candidate_labels": {"Rats": "rats were fed", "Milk": ""}}),
    "index": (["--index", "index"], {"candidate_labels": {"Rats": "rats were fed", "Milk": ""}}),
    "softmax": (["--one-label"], {"multi_label": False}),
    "long texts": (["--long-texts", "max"], {"long_texts": "max", "top_k": 10}),
}


@pytest.mark.parametrize(("flags", "options"), FLAGS.values(), ids=FLAGS)
def test_flags_are_options_of_the_pipeline(run, saved_model, pipe, tmp_path, monkeypatch, flags, options):
    monkeypatch.chdir(tmp_path)
    Path("terms.csv").write_text("code,term,about\nx1,Rats,rats were fed\nx2,Milk,\n")
    built = run("index", saved_model, "index", *TABLE, "--dtype", "float32")
    assert "2 labels, 13 float32 numbers each" in built.stderr
    text = "Iron. " * 400 + "Breast milk for infants."
    rows = lines(run("score", saved_model, *flags, input=text))
    check(rows, [pipe(text, **options)])
    assert rows != lines(run("score", saved_model, input=text))


def test_evidence_is_how_far_a_probability_falls_without_a_word(run, saved_model, pipe):
    text = "Rats were fed iron"
    flags = ["--label", "Iron", "--label", "Rats", "--threshold", "0.0001", "--top-k", 1, "--evidence"]
    (row,) = lines(run("score", saved_model, *flags, input=text))
    (name,) = row["labels"]
    texts = [text, " were fed iron", "Rats  fed iron", "Rats were  iron", "Rats were fed "]
    before, *without = [scores(answer)[name] for answer in pipe(texts, ["Iron", "Rats"])]
    falls = {word: before - score for word, score in zip(text.split(), without, strict=True) if score < before}
    assert falls
    assert dict(row["evidence"][0]) == pytest.approx(falls, rel=1e-3)
    assert "evidence" not in lines(run("score", saved_model, input=text))[0]


def test_parents_and_a_shortlist_are_optional(run, saved_model, tmp_path):
    labels = [{"id": "b", "name": "Iron", "description": "a metal", "broader": ["m"]}, {"id": "m", "name": "Metals"}]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    options = ["--label-file", tmp_path / "labels.jsonl", "--label-description", "description", "--parents"]
    (row,) = lines(run("score", saved_model, *options, "--shortlist", 2, input="Iron.\n"))
    assert {*row["shortlist"].splitlines()} == {"- Iron: a metal", "- Metals"}
    assert dict(zip(row["labels"], row["parents"], strict=True)) == {"Iron": ["Metals"], "Metals": []}


def test_stored_thresholds_choose_labels_and_the_best_can_be_forced(run, saved_model):
    model = GileForSequenceClassification.from_pretrained(saved_model)
    model.config.thresholds = {"seen": 0.0, "unseen": 1.0}
    model.save_pretrained(saved_model)
    (row,) = lines(run("score", saved_model, "--threshold", "stored", input=TEXTS[0]))
    assert row["labels"] == ["Iron"]  # the only seen label
    (row,) = lines(run("score", saved_model, "--threshold", 1, input=TEXTS[0]))
    assert row["labels"] == []
    (row,) = lines(run("score", saved_model, "--threshold", 1, "--force-label", input=TEXTS[0]))
    assert len(row["labels"]) == 1


def test_labels_without_known_words_are_reported(run, saved_model, tmp_path):
    result = run("score", saved_model, "--label", "Zebrafish Milk", "--label", "Iron", input=TEXTS[0])
    assert result.stderr == ""
    (tmp_path / "terms.csv").write_text("id,name\n1,Zebrafish\n2,Milk\n3,Quantum\n4,Quark\n5,Lepton\n")
    result = run("score", saved_model, "--label-file", tmp_path / "terms.csv", input=TEXTS[0] + "\n" + TEXTS[2])
    assert result.stderr == (
        "the model knows no word of 4 labels: 'Zebrafish', 'Quantum', 'Quark' and 1 more; all such labels "
        "get the same score, so rename or describe them in other words\n"
    )


def test_text_columns_of_a_table_are_joined(run, saved_model, pipe, tmp_path):
    rows = [{"id": f"d{number}", "title": "Iron", "body": text} for number, text in enumerate(TEXTS)]
    path = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    answers = lines(run("score", saved_model, path, "--text", "title", "--text", "body"))
    assert [row["id"] for row in answers] == ["d0", "d1", "d2", "d3"]
    assert not any("text" in row for row in answers)
    check(answers, pipe([f"Iron\n{text}" if text else "Iron" for text in TEXTS], top_k=10))


def test_standard_input_may_be_json_lines_or_csv(run, saved_model):
    rows = lines(run("score", saved_model, input='{"text": "Milk.", "id": 5}\n\n{"text": "Iron.", "id": null}\n'))
    assert [row.get("id") for row in rows] == ["5", None]
    assert rows[1]["text"] == "Iron."
    rows = lines(run("score", saved_model, "-", "--format", "csv", "--with-text", input='id,text\n7,"a\nb"\n'))
    assert (rows[0]["id"], rows[0]["text"]) == ("7", "a\nb")
    rows = lines(run("score", saved_model, "--format", "text", input='{"text": "Milk."}\n'))
    assert rows[0]["text"] == '{"text": "Milk."}'


def test_an_invalid_line_is_reported_after_earlier_rows_are_written(run, saved_model, write):
    path = write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in [*TEXTS, [5], "more"]))
    result = run("score", saved_model, path, "--batch-size", 3, ends=1)
    assert [row["text"] for row in lines(result)] == TEXTS
    message = "text must be text, got [5]; fix it, or skip it with --on-error skip"
    assert result.stderr == f"hf-gile score: {path}: line 5: {message}\n"


def test_invalid_lines_can_be_skipped_and_are_counted(run, saved_model, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\nno json\n[1]\n{"txt": "b"}\n{"text": "c"}\n')
    result = run("score", saved_model, tmp_path / "bad.jsonl", "--on-error", "skip")
    assert [row["text"] for row in lines(result)] == ["a", "c"]
    assert "3 malformed lines left out: " in result.stderr
    assert "line 4: no column 'text', only txt; did you mean 'txt'?" in result.stderr


@pytest.mark.parametrize("model", ["runs/first", "runs/first/auto/modell"])
def test_the_models_of_a_run_are_named_for_its_folder(run, model, tmp_path, write, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for unit in ("auto", "gile"):
        write(f"runs/first/{unit}/model/config.json", "{}")
    assert "; did you mean runs/first/auto/model" in run("score", model, input="a\n", ends=1).stderr


@pytest.mark.parametrize(("name", "says"), [("body", True), ("b.csv", False)])
def test_a_flag_that_must_be_repeated_is_said_to_be(run, saved_model, write, monkeypatch, name, says):
    path = write("a.csv", "title,body,labels\nmilk,iron,m\n")
    words = ["score", str(saved_model), str(path), "--text", "title", name]
    monkeypatch.setattr("sys.argv", ["hf-gile", *words])
    message = run(*words, ends=1).stderr
    assert ("; to pass several values, repeat the flag: --text title --text body\n" in message) is says


def test_a_panic_of_the_tokenizer_is_a_sentence(run, saved_model):
    path = saved_model / "tokenizer.json"
    content = json.loads(path.read_text())
    content["pre_tokenizer"]["pattern"] = {"Regex": r"(a+)+$|\s"}
    path.write_text(json.dumps(content))
    (saved_model / "processor_manifest.json").unlink()
    result = run("score", saved_model, input=f"milk\n{'a' * 40}b\n", ends=1)
    assert re.fullmatch(r"hf-gile score: the tokenizer cannot read a text: .*\n", result.stderr)


@pytest.mark.parametrize(("name", "text"), [("a.csv", "text,tags\n"), ("a.txt", ""), ("-", "")])
def test_input_without_texts_gives_no_answers_and_a_note(run, saved_model, tmp_path, monkeypatch, name, text):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    result = run("score", saved_model, name, input="")
    source = "standard input" if name == "-" else name
    assert (result.stdout, result.stderr) == ("", f"no texts in {source}\n")
