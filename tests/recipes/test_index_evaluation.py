import pytest
import torch
from datasets import Dataset
from index_evaluation import evaluate_index
from papers.threshold_tuner import ThresholdTuner
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
from two_languages import TEXTS, make_bilingual

from hf_gile.label_index import LabelIndex
from hf_gile.metrics import LabelMetrics
from hf_gile.training import GileDataCollator, LabelSampler, encode_dataset

GOLD = ["Heart Failure", "Milk, Human", "Iron", "Infant", "Blood"]
TEXTS_IN_ENGLISH = ["Breast milk and iron.", "The heart. Blood!", "Infants were fed.", "Rats, iron"]
ROWS = {
    "text": [*TEXTS_IN_ENGLISH, "Cardiac output", "", "Milk"],
    "labels": [[GOLD[2], GOLD[1]], [GOLD[4]], [], [GOLD[0], GOLD[3]], [GOLD[0]], [GOLD[1]], GOLD[:4]],
    "excluded": [[GOLD[0]], [], [GOLD[1], GOLD[3]], [GOLD[4]], [], [], []],
}
SEEN = [True, True, False, True, False]


def batches_of(dataset, processor, size=3):
    return DataLoader(dataset, size, collate_fn=GileDataCollator(processor, LabelSampler(5, num_negatives=2)))


@pytest.mark.parametrize(("layer", "excluded", "most"), [("gile", "excluded", 13), ("linear", None, 1 << 22)])
def test_an_index_has_the_metrics_of_the_trainer(tmp_path, make_model, label_set, layer, excluded, most):
    model, processor = make_model("han", layer)
    dataset = encode_dataset(Dataset.from_dict(ROWS), processor, label_set, excluded=excluded)
    metrics, tuner = LabelMetrics(5, SEEN, threshold=0.4), ThresholdTuner(5)

    def compute_metrics(batch, compute_result=True):
        return {**metrics(batch, compute_result), **tuner(batch, compute_result)}

    options = {"batch_eval_metrics": True, "remove_unused_columns": False, "use_cpu": True}
    options |= {"report_to": "none", "disable_tqdm": True, "per_device_eval_batch_size": 3}
    trainer = Trainer(
        model,
        TrainingArguments(str(tmp_path), **options),
        data_collator=GileDataCollator(processor),
        eval_dataset=dataset,
        compute_metrics=compute_metrics,
    )
    expected = {name.removeprefix("eval_"): value for name, value in trainer.evaluate().items()}
    index = LabelIndex.build(model)
    model.train()
    results = evaluate_index(index, model, batches_of(dataset, processor), [metrics, tuner], max_scores=most)
    assert model.training
    assert "unseen_ranking_loss" in results
    assert "tuned_micro_f1" in results
    assert results == pytest.approx({name: expected[name] for name in results}, rel=1e-6, nan_ok=True)


def test_labels_that_the_model_does_not_store_can_be_evaluated(make_model, label_set):
    model, processor = make_model()
    stored = encode_dataset(Dataset.from_dict(ROWS), processor, label_set, excluded="excluded")
    expected = evaluate_index(LabelIndex.build(model), model, batches_of(stored, processor), LabelMetrics(5))
    index = LabelIndex.build(model.gile, processor, label_set[::-1])
    reordered = encode_dataset(Dataset.from_dict(ROWS), processor, index.label_set, excluded="excluded")
    results = evaluate_index(index, model, batches_of(reordered, processor), LabelMetrics(5))
    assert results == pytest.approx(expected, rel=1e-6)


REFUSED = [
    (lambda batch: [], "at least one document"),
    (lambda batch: [batch | {"labels": torch.ones(7, 3)}], "multi-hot labels must have 5 columns"),
    (lambda batch: [batch | {"excluded_columns": torch.tensor([[0]])}], r"must be label indices below 5, \(7, E\)"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_invalid_batches_are_refused(make_model, label_set, change, message):
    model, processor = make_model()
    dataset = encode_dataset(Dataset.from_dict(ROWS), processor, label_set, excluded="excluded")
    batches = change({**GileDataCollator(processor)(list(dataset))})
    index = LabelIndex.build(model)
    with pytest.raises(ValueError, match=message):
        evaluate_index(index, model, batches, LabelMetrics(5))
    with torch.no_grad():
        model.gile.get_input_embeddings().weight += 1
    with pytest.raises(ValueError, match="computed by another model"):
        evaluate_index(index, model, batches, LabelMetrics(5))


def test_documents_are_scored_by_an_index_of_their_language():
    model, processor = make_bilingual()
    index = LabelIndex.build(model, language="german")
    batches = {}
    for language, texts in TEXTS.items():
        rows = Dataset.from_dict({"text": texts[:1], "labels": [["german:gift"]]})
        encoded = encode_dataset(rows, processor, index.label_set, language=language)
        batches[language] = [GileDataCollator(processor)(list(encoded))]
    results = evaluate_index(index, model, batches["german"], LabelMetrics(2))
    assert results["documents"] == 1
    with pytest.raises(ValueError, match="scores documents in german, but a batch has other languages"):
        evaluate_index(index, model, batches["english"], LabelMetrics(2))
