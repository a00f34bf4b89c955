"""`label_smoothing_factor`, which makes the Trainer withhold labels from the model."""

import pytest
from papers.chunked_training import ChunkedLoss
from torch.nn.functional import cross_entropy
from transformers import Trainer

from hf_gile.models.losses_gile import label_loss
from hf_gile.training import GileDataCollator, GileLoss, LabelSampler


@pytest.fixture
def make_trainer(arguments):
    def make(model, processor, labels, **options):
        texts = ["breast milk", "iron in blood", "the heart"]
        words = processor(texts)["input_ids"]
        rows = [{"input_ids": ids, "labels": gold} for ids, gold in zip(words, labels, strict=True)]
        step = {"per_device_train_batch_size": 3, "max_steps": 1, "remove_unused_columns": False}
        smoothed = arguments(label_smoothing_factor=0.1, **step)
        return Trainer(model, smoothed, train_dataset=rows, data_collator=GileDataCollator(processor, **options))

    return make


def test_single_label_smoothing_equals_torch(make_trainer, make_model):
    model, processor = make_model(problem_type="single_label_classification")
    trainer = make_trainer(model, processor, [1, 2, 0])
    batch = next(iter(trainer.get_train_dataloader()))
    expected = cross_entropy(model.train()(batch["input_ids"]).logits, batch["labels"], label_smoothing=0.1)
    assert trainer.compute_loss(model, dict(batch)).item() == pytest.approx(expected.item(), rel=1e-5)
    trainer.train()


SINGLE, SAMPLER = "single_label_classification", LabelSampler(5, 1)
LOSSES = {
    "several labels": (None, label_loss, [[1, 2], [2], []], None),
    "single labels": (None, label_loss, [1, 2, 0], None),
    "sampled": (SINGLE, GileLoss(), [1, 2, 0], SAMPLER),
    "chunks": (SINGLE, ChunkedLoss(chunk_size=2), [1, 2, 0], None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_label_smoothing_refuses_losses_that_it_would_replace(make_trainer, make_model, name):
    problem_type, loss, labels, sampler = LOSSES[name]
    model, processor = make_model(problem_type=problem_type)
    model.loss_function = loss
    trainer = make_trainer(model, processor, labels, label_sampler=sampler)
    with pytest.raises(ValueError, match=r"or model\.loss_function: set label_smoothing_factor=0"):
        trainer.train()


def test_multi_label_models_ignore_smoothing_with_a_warning(make_trainer, make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    with pytest.warns(UserWarning, match="Label smoothing is not compatible with multi-label classification"):
        trainer = make_trainer(model, processor, [[1, 2], [2], []])
    batch = next(iter(trainer.get_train_dataloader()))
    expected = model.train()(batch["input_ids"], labels=batch["labels"]).loss
    assert trainer.compute_loss(model, dict(batch)).item() == pytest.approx(expected.item(), rel=1e-5)
