import json

import pytest
from answers import scores

from hf_gile import GileForSequenceClassification, GileProcessor, LabelIndex
from hf_gile.publishing import make_report

pytestmark = pytest.mark.usefixtures("datasets_cache")

COLUMNS = ["--text", "body", "--labels", "tags"]
ROWS = [
    ("Breast milk lowers the risk of infection.", ["Milk, Human", "Infant"]),
    ("The failing heart pumps less blood.", ["Heart Failure", "Blood"]),
    ("Rats were fed a diet low in iron.", ["Iron"]),
    ("Blood was drawn, and iron was measured.", ["Iron", "Blood"]),
]


@pytest.fixture
def table(write):
    return write("rows.jsonl", "".join(json.dumps({"body": text, "tags": gold}) + "\n" for text, gold in ROWS))


def load(folder):
    return GileForSequenceClassification.from_pretrained(folder).eval(), GileProcessor.from_pretrained(folder)


def test_evaluate_prints_the_report_of_the_library(run, saved_model, table):
    result = run("evaluate", saved_model, table, *COLUMNS, "--batch-size", 3, "--dataset", "made up")
    report = make_report(*load(saved_model), [text for text, _ in ROWS], [gold for _, gold in ROWS], batch_size=3)
    printed = json.loads(result.stdout)
    assert printed["metrics"] == pytest.approx(report.metrics)
    assert printed["labels"] == report.labels
    assert (printed["dataset"], printed["documents"]) == ("made up", 4)
    assert "4 records from 1 file; left out: none" in result.stderr

    def check_shown(row, *names):
        line = next(line for line in result.stderr.splitlines() if line.startswith(f"{row}  "))
        cells = ["-" if name is None else f"{100 * report.metrics[name]:.2f}" for name in names]
        assert line.removeprefix(row).split() == cells

    check_shown("micro-F1", "micro_f1", "seen_micro_f1", "unseen_micro_f1")
    check_shown("average precision", "average_precision", None, "unseen_average_precision")  # a single label is seen


def test_labels_missing_from_the_model_are_named_or_dropped(run, saved_model, table):
    table.write_text(table.read_text() + json.dumps({"body": "Rats.", "tags": ["Rat", "Iron"]}) + "\n")
    message = run("evaluate", saved_model, table, *COLUMNS, ends=1).stderr
    assert f"{saved_model} does not know 1 label id in the documents, such as 'Rat' (its ids" in message
    assert "are like 'Heart Failure'): add them" in message
    result = run("evaluate", saved_model, table, *COLUMNS, "--on-unknown-label", "drop")
    assert json.loads(result.stdout)["documents"] == 5
    assert "such as 'Rat' (its ids are like 'Heart Failure'): they are dropped" in result.stderr
    fitted = run("calibrate", saved_model, table, *COLUMNS, "--on-unknown-label", "drop")
    assert json.loads(fitted.stdout)["documents"] == 5
    table.write_text(json.dumps({"body": "Rats.", "tags": ["Rat"]}) + "\n")
    for command in ("evaluate", "calibrate"):
        message = run(command, saved_model, table, *COLUMNS, "--on-unknown-label", "drop", ends=1)
        assert f"no document has a label of {saved_model}" in message.stderr


SEPARATOR = " (did you mean --separator '|'?)"
FORM = " (the labels have 'Iron', which differs in case, spaces, zeros, entities or prefix: write it so)"

LIKE = " (its ids are like 'Heart Failure')"
HINTS = {
    "Ferrum|Sanguis": SEPARATOR,
    "Milk, Skimmed": LIKE,
    **dict.fromkeys(["iron", "a:Iron", "https://a.org/b#Iron", "http://a.org/Iron/"], FORM),
}


@pytest.mark.parametrize(("ids", "hint"), HINTS.items())
def test_unknown_ids_prompt_for_a_separator_or_another_form(run, saved_model, table, ids, hint):
    table.write_text(json.dumps({"body": "Iron in blood.", "tags": ids}) + "\n")
    message = run("evaluate", saved_model, table, *COLUMNS, ends=1).stderr
    assert f"such as {ids!r}{hint}: add them (hf-gile labels import)" in message


def test_a_table_mostly_without_texts_is_refused_with_the_flag_that_skips(run, saved_model, table):
    table.write_text("".join(json.dumps({"body": text, "tags": "Iron"}) + "\n" for text in ["On iron.", *[""] * 30]))
    message = run("evaluate", saved_model, table, *COLUMNS, ends=1).stderr
    assert "30 of 31 rows would be left out" in message
    assert message.endswith("; fix them, or skip them with --on-error skip\n")


@pytest.mark.parametrize(("command", "sign"), [("evaluate", " "), ("calibrate", ", ")])
def test_known_labels_joined_in_a_cell_are_read(run, saved_model, table, command, sign):
    table.write_text(json.dumps({"body": "Iron in blood.", "tags": f"Iron{sign}Blood"}) + "\n")
    columns = [*COLUMNS, *(["--dry-run"] if command == "calibrate" else [])]
    result = run(command, saved_model, table, *columns)
    assert f"labels separated by {sign.strip() or ' '!r}, such as 'Iron | Blood' (--separator" in result.stderr
    flag = run(command, saved_model, table, *columns, "--separator", sign.strip() or "space")
    assert flag.stdout == result.stdout
    message = run(command, saved_model, table, *columns, "--separator", "none", ends=1).stderr
    assert f"Iron{sign}Blood" in message


def test_tables_of_excel_and_columns_of_zeros_and_ones_are_read(run, saved_model, tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{text};{'1;0' if 'Iron' in gold else '0;1'}" for text, gold in ROWS[1:]]
    path.write_bytes("\r\n".join(["sep=;", "body;Iron;Blood", *rows, "Nothing.;0;0"]).encode("utf-16"))
    result = run("evaluate", saved_model, path, "--text", "body", "--labels", "Iron", "--labels", "Blood")
    assert "4 records from 1 file, 1 of them without labels; left out: none" in result.stderr
    assert "label columns 'Iron', 'Blood': a column of zeros and ones a label" in result.stderr
    refused = run("evaluate", saved_model, path, "--delimiter", "|", "--text", "body", ends=1)
    assert "no column 'body', only" in refused.stderr


def test_calibration_is_stored_in_the_model_and_changes_its_probabilities(run, saved_model, table):
    table.write_text(table.read_text() * 20)
    run("index", saved_model, saved_model / "index")
    before = json.loads(run("score", saved_model, input="iron\n").stdout)
    result = run("calibrate", saved_model, table, *COLUMNS)
    figures = json.loads(result.stdout)
    assert figures["documents"] == 80
    assert "seen labels: calibration error" in result.stderr
    assert "index rebuilt" in result.stderr
    model, _ = load(saved_model)
    assert set(model.config.calibration) == {"seen", "unseen"}
    assert "unusual_documents" not in figures
    assert 0 < model.config.usual_score < 1
    again = run("calibrate", saved_model, table, *COLUMNS, "--dry-run")
    assert again.stderr.endswith("\nnot written\n")
    assert load(saved_model)[0].config.usual_score == model.config.usual_score
    share = json.loads(again.stdout)["unusual_documents"]
    assert share <= 0.25
    assert f"{100 * share:.0f} % of these documents have no label as probable as 90 %" in again.stderr
    assert model.config.thresholds["seen"] == figures["seen_threshold"]
    assert LabelIndex.from_pretrained(saved_model / "index", model).label_set == model.label_set
    after = json.loads(run("score", saved_model, input="iron\n").stdout)
    assert scores(after) != pytest.approx(scores(before))
    stored = json.loads(run("score", saved_model, "--threshold", "stored", input="iron\n").stdout)
    thresholds = dict(zip(model.label_set.names, model.stored_labels.thresholds().tolist(), strict=True))
    passing = [name for name, score in scores(after).items() if score >= thresholds[name]]
    assert stored["labels"] == passing


def test_absent_label_groups_are_not_mentioned(run, saved_model, table):
    result = run("calibrate", saved_model, table, *COLUMNS, "--common-thresholds")
    assert "seen_threshold" in json.loads(result.stdout)
    assert "with another" not in result.stderr
    assert "may be unlike others: a calibration needs 100 or more" in result.stderr
    few = "3 documents have unseen labels, 5 in total: too few to fit (at least 30 documents and 50 labels)"
    note = "so unseen labels use the calibration and the threshold of seen labels"
    assert f"\n{few}, {note}\n" in result.stderr
    assert result.stderr.endswith(f"\nwritten to {saved_model}\n")


def test_calibrate_reports_that_the_card_is_outdated(run, saved_model, table):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    run("card", saved_model)
    warning = f"README.md and labels.csv are outdated by this change: hf-gile card {saved_model} writes a new card"
    assert "this change" not in run("calibrate", saved_model, table, *COLUMNS, "--dry-run").stderr
    assert run("calibrate", saved_model, table, *COLUMNS).stderr.endswith(f"\n{warning}\n")
    run("evaluate", saved_model, table, *COLUMNS, "--output", saved_model / "results.json")
    figures = "; run hf-gile evaluate first for new results"
    assert run("calibrate", saved_model, table, *COLUMNS).stderr.endswith(f"\n{warning}{figures}\n")


def test_a_single_label_model_is_measured_by_accuracy(run, saved_model, table):
    model, _ = load(saved_model)
    model.config.problem_type = "single_label_classification"
    model.save_pretrained(saved_model)
    table.write_text("".join(json.dumps({"body": text, "tags": gold[:1]}) + "\n" for text, gold in ROWS))
    result = run("evaluate", saved_model, table, *COLUMNS)
    accuracy = json.loads(result.stdout)["metrics"]["accuracy"]
    rows = [line.split("  ")[0] for line in result.stderr.splitlines()]
    assert rows[2:5] == ["percent", "accuracy", "macro-F1"]
    assert f"{100 * accuracy:.2f}" in result.stderr.splitlines()[3]
    assert "micro-F1" not in rows
    fitted = run("calibrate", saved_model, table, *COLUMNS)
    assert json.loads(fitted.stdout)["accuracy_before"] >= accuracy  # with fewer candidates: those of these documents
    assert "\naccuracy  " in fitted.stderr
    assert "threshold" not in fitted.stdout + fitted.stderr
    assert load(saved_model)[0].config.calibration["seen"]["method"] == "platt"


def test_results_replace_no_file_of_the_user(run, saved_model, table):
    before = table.read_bytes()
    message = run("evaluate", saved_model, table, *COLUMNS, "--output", table, ends=1).stderr
    assert f"{table} exists and is not a report: name another file with --output" in message
    report = table.with_name("report.json")
    for _ in range(2):  # replaces an earlier report
        run("evaluate", saved_model, table, *COLUMNS, "--output", report)
    assert json.loads(report.read_text())["documents"] == 4
    message = run("audit", saved_model, table, *COLUMNS, "--output", table.parent, ends=1).stderr
    assert "already exists and is not empty: choose another folder" in message
    assert table.read_bytes() == before


def test_a_collection_is_audited_into_a_folder(run, saved_model, table, tmp_path):
    flags = ["--id", "body", "--most", 2, "--compare", table, "--json"]
    result = run("audit", saved_model, table, *COLUMNS, *flags, "--output", tmp_path / "audit")
    assert json.loads(result.stdout) == {"wrong": 2, "missing": 2, "documents": 2}
    assert "2 least probable assigned labels, 2 most probable missing labels, in" in result.stderr
    names = {"wrong.csv", "missing.csv", "documents.csv", "drift.csv", "label_studio.json", "label_studio.xml"}
    assert {path.name for path in (tmp_path / "audit").iterdir()} == names
    assert any(text in (tmp_path / "audit" / "documents.csv").read_text() for text, _ in ROWS)
