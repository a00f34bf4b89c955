"""Scores of a teacher, as a term of the loss and as columns of a dataset."""

import pytest
import torch
from datasets import Dataset
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from hf_gile.training import CrossEncoder, Distillation, GileDataCollator, add_teacher_scores, encode_dataset

TEXTS = ["Breast milk.", "The failing heart pumps less blood.", "Iron", "", "milk and iron"]
GOLD = [["Milk, Human"], ["Heart Failure", "Blood"], ["Iron"], [], ["Milk, Human", "Iron"]]


def by_letters(texts, label_texts):
    """A teacher that likes labels as long as the text; it finds all labels of an empty text alike."""
    return [-abs(len(text) - len(label)) / 10 if text else 0 for text, label in zip(texts, label_texts, strict=True)]


@pytest.fixture
def made(make_model, label_set):
    model, processor = make_model(problem_type="multi_label_classification")
    rows = Dataset.from_dict({"text": TEXTS, "labels": GOLD})
    return model, processor, encode_dataset(rows, processor, label_set)


def test_the_term_is_the_divergence_from_the_teacher_among_what_it_scored(made):
    model, processor, _ = made
    columns = torch.tensor([[4, 0, 2], [1, 3, -100]])
    scores = torch.tensor([[2.0, -1.0, 0.5], [0.0, 1.5, 0.0]])
    batch = processor(TEXTS[:2], return_tensors="pt")
    model.eval()
    with torch.no_grad():
        logits = model(**batch).logits
        codes = model.gile.project_texts(**batch)
        found = Distillation(weight=3.0, temperature=2.0)(model, codes, columns, scores)
    expected = 0.0
    for row, size in ((0, 3), (1, 2)):
        student = (logits[row, columns[row, :size]] / 2).log_softmax(-1)
        teacher = (scores[row, :size] / 2).softmax(-1)
        expected += 3 * 4 * functional.kl_div(student, teacher, reduction="sum") / 2
    assert torch.allclose(found, expected, atol=1e-5)
    assert Distillation()(model, codes, torch.full((2, 1), -100), torch.zeros(2, 1)) == 0


def test_the_best_and_the_gold_labels_are_scored_by_the_teacher(made):
    model, processor, dataset = made
    scored = add_teacher_scores(dataset, TEXTS, model, processor, by_letters, num_labels=3, batch_size=2)
    names = model.label_set.texts
    logits = model(**processor(TEXTS, return_tensors="pt")).logits
    for row, example in enumerate(scored):
        columns = example["teacher_columns"]
        assert len(set(columns)) == 3
        assert set(example["labels"]) <= set(columns)
        others = [column for column in logits[row].argsort(descending=True).tolist() if column not in example["labels"]]
        assert set(columns) - set(example["labels"]) == set(others[: 3 - len(example["labels"])])
        expected = by_letters([TEXTS[row]] * 3, [names[column] for column in columns])
        assert example["teacher_scores"] == pytest.approx(expected)


def test_only_chosen_columns_are_scored_beside_gold_ones(made):
    model, processor, dataset = made
    scored = add_teacher_scores(dataset, TEXTS, model, processor, by_letters, num_labels=2, columns=[0, 3])
    for example in scored:
        assert set(example["teacher_columns"]) - set(example["labels"]) <= {0, 3}


def test_what_does_not_fit_the_documents_is_named(made):
    model, processor, dataset = made
    with pytest.raises(ValueError, match="got 2 texts for 5 documents"):
        add_teacher_scores(dataset, TEXTS[:2], model, processor, by_letters)
    with pytest.raises(ValueError, match="num_labels must be from 1 to the 5 labels"):
        add_teacher_scores(dataset, TEXTS, model, processor, by_letters, num_labels=6)
    with pytest.raises(ValueError, match="temperature must be positive"):
        Distillation(temperature=0)
    with pytest.raises(ValueError, match=r"must be \(2, K\) both"):
        Distillation()(model, torch.zeros(2, 13), torch.zeros(2, 3).long(), torch.zeros(2, 2))


def test_the_stock_trainer_with_a_teacher_comes_closer_to_it(made, tmp_path):
    model, processor, dataset = made
    scored = add_teacher_scores(dataset, TEXTS, model, processor, by_letters, num_labels=4)
    batch = GileDataCollator(processor)(list(scored))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    def distance(weight):
        model.load_state_dict(before)
        model.distillation = Distillation(weight) if weight else None
        arguments = TrainingArguments(
            str(tmp_path), max_steps=60, learning_rate=1e-2, use_cpu=True, report_to="none", disable_tqdm=True, seed=1,
            save_strategy="no",
        )  # fmt: skip
        Trainer(model, arguments, data_collator=GileDataCollator(processor), train_dataset=scored).train()
        with torch.no_grad():
            model.eval()
            codes = model.gile.project_texts(batch["input_ids"])
            return float(Distillation()(model, codes, batch["teacher_columns"], batch["teacher_scores"]))

    assert distance(weight=10.0) < distance(weight=0) / 2


@pytest.fixture
def save_cross_encoder(save_text_encoder, tmp_path):
    def save(**fields):
        folder = save_text_encoder(folder=tmp_path / "cross")
        config = BertConfig.from_pretrained(folder, **fields)
        BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    return save


def test_a_reranker_scores_pairs_by_its_logit(save_cross_encoder):
    teacher = CrossEncoder(save_cross_encoder(num_labels=1), batch_size=2)
    labels = ["iron", "breast milk", "blood", "infant", "heart failure"]
    pairs = teacher.tokenizer(TEXTS, labels, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = teacher.model(**pairs).logits[:, 0]
    assert torch.allclose(teacher(TEXTS, labels), expected, atol=1e-5)


def test_a_model_of_inference_scores_pairs_by_the_odds_of_entailment(save_cross_encoder):
    names = {0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}
    folder = save_cross_encoder(num_labels=3, id2label=names, label2id={name: i for i, name in names.items()})
    teacher = CrossEncoder(folder, template="blood is {}")
    pairs = teacher.tokenizer(TEXTS, ["blood is iron"] * 5, padding=True, return_tensors="pt")
    with torch.no_grad():
        probability = teacher.model(**pairs).logits.softmax(-1)[:, 1]
    assert torch.allclose(teacher(TEXTS, ["iron"] * 5), probability.logit(), atol=1e-4)


def test_what_is_no_teacher_is_named(save_cross_encoder):
    with pytest.raises(ValueError, match=r"has the outputs label_0, label_1: a teacher has one output"):
        CrossEncoder(save_cross_encoder(num_labels=2))
    with pytest.raises(ValueError, match="template must hold"):
        CrossEncoder("absent", template="about")
