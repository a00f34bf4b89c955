"""Optional parts of an answer: parents of labels, a shortlist for a prompt."""

import pytest
from transformers import pipeline

from hf_gile import GileForSequenceClassification, Label, LabelIndex, LabelSet

TEXT = "Breast milk and iron. The heart."
LABELS = LabelSet(
    [
        Label("a", "Blood", broader=("z",)),
        Label("b", "Iron", "a metal", broader=("a", "c", "elsewhere")),
        Label("c", "Milk"),
        Label("d", "Milk", "of cows", broader=("c",)),
    ]
)


@pytest.mark.parametrize("indexed", [False, True])
def test_parents_are_the_names_of_the_direct_parents(pipe, indexed):
    labels = LabelIndex.build(pipe.model, pipe.processor, LABELS) if indexed else LABELS
    answer = pipe(TEXT, labels, return_parents=True)
    assert dict(zip(answer["labels"], answer["parents"], strict=True)) == {
        "Blood": [],
        "Iron": ["Blood", "Milk (c)"],
        "Milk (c)": [],
        "Milk (d)": ["Milk (c)"],
    }


def test_stored_labels_keep_their_parents_in_any_batch(pipe, tmp_path):
    labels = pipe.model.label_set.update("Infant", broader=("Blood",))
    pipe.model.set_labels(labels, pipe.processor)
    pipe.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path)
    pipe = pipeline("label-scoring", model=loaded, processor=pipe.processor)
    texts = [TEXT, "Infants.", "Blood."]
    answers = pipe(texts, batch_size=2, return_parents=True)
    assert [dict(zip(a["labels"], a["parents"], strict=True))["Infant"] for a in answers] == [["Blood"]] * 3
    assert [answer["labels"] for answer in answers] == [pipe(text)["labels"] for text in texts]


def test_a_shortlist_lists_the_best_labels_as_text(pipe):
    answer = pipe(TEXT, LABELS, shortlist=3)
    assert answer["labels"] == pipe(TEXT, LABELS, top_k=3)["labels"]
    lines = {"Blood": "- Blood", "Iron": "- Iron: a metal", "Milk (c)": "- Milk (c)", "Milk (d)": "- Milk (d): of cows"}
    assert answer["shortlist"].splitlines() == [lines[name] for name in answer["labels"]]


def test_a_model_without_a_label_set_lists_names(make_model):
    model, processor = make_model(output_layer="linear", problem_type="multi_label_classification")
    model.stored_labels.label_set = None
    answer = pipeline("label-scoring", model=model, processor=processor)(TEXT, shortlist=2, return_parents=True)
    assert answer["shortlist"].splitlines() == [f"- {name}" for name in answer["labels"]]
    assert answer["parents"] == [[], []]
