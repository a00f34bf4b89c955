import csv
import json
import re

import pytest
import torch
from answers import scores

from hf_gile import LabelScoringPipeline
from hf_gile.audit import Auditor, audit, drift, write_audit

GOLD = [["Milk, Human", "Infant"], ["Heart Failure", "Blood"], ["Iron"]]
TEXTS = ["Breast milk lowers the risk of infection.", "The failing heart pumps less blood."]
TEXTS += ["Rats <b>were</b> fed iron."]


def of(findings):
    return [(finding.document, finding.column) for finding in findings]


def test_findings_are_unlikely_assigned_labels_and_likely_missing_labels():
    auditor = Auditor(num_labels=4, most=2)
    auditor.update(torch.tensor([[0.9, 0.2, 0.6, 0.0]]), torch.tensor([[0, 1]]))
    auditor.update(torch.tensor([[0.1, 0.7, 0.3, 0.9], [0.5, 0.4, 0.1, 0.05]]), torch.tensor([[1, -100], [-100, -100]]))
    found = auditor.compute()
    assert of(found.wrong) == [(0, 1), (1, 1)]
    assert of(found.missing) == [(1, 3), (0, 2)]
    assert [finding.assigned for finding in (*found.wrong, *found.missing)] == [True, True, False, False]
    assert [finding.instead for finding in (*found.wrong, *found.missing)] == [2, 3, None, None]
    assert found.corrections.tolist() == pytest.approx([0.1 + 0.8 + 0.6, 0.1 + 0.3 + 0.3 + 0.9, 1.05])
    assert found.documents() == [1, 0]
    assert found.used.tolist() == [1, 2, 0, 0]
    assert found.expected.tolist() == pytest.approx([1.5, 1.3, 1.0, 0.95])


@pytest.mark.parametrize(("documents", "expected"), [(1, 1), (50, 25), (2500, 1000)])
def test_by_default_findings_are_a_twentieth_of_the_headings_up_to_1000(documents, expected):
    auditor, gold = Auditor(num_labels=20), torch.arange(20) < 10
    auditor.update(torch.rand(documents, 20), gold.expand(documents, -1))
    found = auditor.compute()
    assert (len(found.wrong), len(found.missing)) == (expected, expected)


def test_the_audit_uses_the_same_probabilities_as_the_pipeline(make_model):
    model, processor = make_model(problem_type="single_label_classification")
    found = audit(model.train(), processor, TEXTS, GOLD, most=20, batch_size=2)
    assert model.training
    pipe = LabelScoringPipeline(model=model, processor=processor)
    found_by_pipe = [scores(answer) for answer in pipe(TEXTS, top_k=5)]
    names = model.label_set.names
    assert len(found.wrong) == 5
    assert len(found.missing) == 10
    for finding in (*found.wrong, *found.missing):
        name = names[finding.column]
        assert finding.probability == pytest.approx(found_by_pipe[finding.document][name], abs=1e-5)
        assert finding.assigned == (name in GOLD[finding.document])


def collection(used, expected):
    """An audit of ten documents, of which so many have each label, and so many are expected to."""
    auditor, number = Auditor(len(used)), 10
    gold = torch.stack([torch.arange(number) < count for count in used], dim=1)
    auditor.update(torch.tensor(expected).expand(number, -1) / number, gold)
    return auditor.compute()


def test_a_label_drifts_if_its_use_changes_while_the_texts_stay_alike():
    first, second = collection([5, 2, 8, 0], [5.0, 2.0, 4.0, 0.1]), collection([5, 8, 2, 0], [5.0, 8.0, 4.0, 0.1])
    drifted = drift(first, second)
    assert [one.column for one in drifted] == [2, 0, 1]  # label 1 has more documents on its topic, label 3 none at all
    assert drifted[0].used == (8, 2)
    assert drifted[0].expected == pytest.approx((4, 4))
    assert drifted[0].score == pytest.approx((2 - 5) / 2.5**0.5)
    assert [one.score for one in drifted[1:]] == pytest.approx([0, 0], abs=1e-6)


@pytest.fixture
def written(make_model, tmp_path):
    model, processor = make_model(problem_type="multi_label_classification")
    found = audit(model, processor, TEXTS, GOLD, most=3)
    label_set = model.label_set.rename("Blood", "=Blood & more")
    paths = write_audit(tmp_path / "audit", found, label_set, ["a", "b", "c"], TEXTS, GOLD, drift(found, found))
    return found, label_set, {path.name: path for path in paths}


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_tables_rank_the_findings_and_leave_a_column_for_the_verdict(written):
    found, label_set, files = written
    for name, findings in (("wrong.csv", found.wrong), ("missing.csv", found.missing)):
        rows = rows_of(files[name])
        assert [row["rank"] for row in rows] == ["1", "2", "3"]
        assert [row["label"] for row in rows] == [label_set[finding.column].id for finding in findings]
        assert [row["document"] for row in rows] == ["abc"[finding.document] for finding in findings]
        assert {row["verdict"] for row in rows} == {""}
        assert not [cell for row in rows for cell in row.values() if cell.startswith("=")]  # a formula
    names = ["" if finding.instead is None else label_set[finding.instead].name for finding in found.wrong]
    assert [row["instead"].lstrip("'") for row in rows_of(files["wrong.csv"])] == names
    documents = rows_of(files["documents.csv"])
    assert [row["document"] for row in documents] == ["abc"[place] for place in found.documents()]
    assert sum(int(row["wrong"]) + int(row["missing"]) for row in documents) == 6
    assert {row["standard_deviations"] for row in rows_of(files["drift.csv"])} <= {"0.0", "-0.0"}


def test_a_task_drops_doubtful_headings_and_adds_missing_headings(written):
    found, label_set, files = written
    names = label_set.id2label()
    for task, place in zip(json.loads(files["label_studio.json"].read_text()), found.documents(), strict=True):
        assert task["data"]["id"] == "abc"[place]
        wrong = {names[one.column] for one in found.wrong if one.document == place}
        missing = {names[one.column] for one in found.missing if one.document == place}
        assigned = {label_set[label_set.column(one)].name for one in GOLD[place]}
        (result,) = task["predictions"][0]["result"]
        assert {*result["value"]["choices"]} == assigned - wrong | missing
        assert {option["value"] for option in task["data"]["options"]} == assigned | missing
        assert set(task["data"]["label_ids"]) == assigned | missing
        assert (result["from_name"], result["to_name"], result["type"]) == ("headings", "text", "choices")
    interface = files["label_studio.xml"].read_text()
    assert {*re.findall(r'name="(\w+)"', interface)} == {"headings", "text"}
    assert {*re.findall(r"\$(\w+)", interface)} <= set(task["data"])
