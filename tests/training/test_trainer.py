"""The stock Trainer trains, evaluates, saves and resumes these models."""

import pytest
import torch
from datasets import Dataset
from papers.chunked_training import ChunkedLoss
from papers.label_sampling import UnitSampler
from transformers import Trainer

from hf_gile import LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.models.losses_gile import label_loss
from hf_gile.training import EpochCallback, GileDataCollator, GileLoss, LabelSampler, encode_dataset

TOPICS = {"Iron": "iron diet", "Milk, Human": "breast milk", "Blood": "blood drawn", "Heart Failure": "failing heart"}


def rows():
    names = list(TOPICS)
    gold = [[names[i % 4]] if i % 3 else [names[i % 4], names[(i + 1) % 4]] for i in range(44)]
    return Dataset.from_dict({"text": [" and ".join(TOPICS[name] for name in names) for names in gold], "labels": gold})


@pytest.fixture
def make_trainer(arguments, make_model, label_set):
    def make(sampler=None, **options):
        sizes = {"embedding_size": 37, "hidden_size": 41, "joint_size": 43}
        model, processor = make_model(problem_type="multi_label_classification", **sizes)
        model.loss_function = GileLoss()
        dataset = encode_dataset(rows(), processor, label_set)
        sizes = {"per_device_train_batch_size": 8, "learning_rate": 1e-2, "seed": 3}
        return Trainer(
            model,
            arguments(batch_eval_metrics=True, **sizes, **options),
            data_collator=GileDataCollator(processor, sampler),
            train_dataset=dataset,
            eval_dataset=dataset,
            compute_metrics=LabelMetrics(len(label_set)),
            callbacks=[EpochCallback(sampler)] if sampler else None,
        )

    return make


@pytest.mark.parametrize("per_document", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_resumed_training_reaches_bitwise_identical_weights(make_trainer, tmp_path, per_document):
    def make():
        sampler = UnitSampler(5, num_negatives=1, per_document=per_document)
        return make_trainer(sampler=sampler, max_steps=9, save_strategy="steps", save_steps=4)

    whole, resumed = make(), make()
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_a_checkpoint_with_other_labels_is_not_resumed(make_trainer, tmp_path, label_set):
    make_trainer(max_steps=1, save_strategy="steps", save_steps=1).train()
    other = make_trainer(max_steps=2)
    other.model.set_labels(LabelSet(reversed(label_set)), other.data_collator.processor)
    with pytest.raises(ValueError, match="labels of this checkpoint differ from set_labels of this model"):
        other.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1"))


LOSSES = {
    "sigmoid": label_loss,
    "softmax": label_loss,
    "sigmoid in chunks": ChunkedLoss(chunk_size=2),
    "softmax in chunks, sampled": ChunkedLoss(chunk_size=2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_accumulated_unequal_batches_train_like_a_single_batch(arguments, make_model, label_set, name):
    single, sampled = name.startswith("softmax"), "sampled" in name
    data = rows().select(range(5))  # batches of 3 and 2 documents with one or two gold labels
    if single:
        data = data.map(lambda row: {"labels": row["labels"][:1]})
    weights = []
    for size in (5, 3):
        model, processor = make_model(problem_type=f"{'single' if single else 'multi'}_label_classification")
        model.loss_function = LOSSES[name]
        dataset = encode_dataset(data, processor, label_set)
        if not single and size == 5:
            assert [len(gold) for gold in dataset["labels"]] == [2, 1, 1, 2, 1]
        # The sample contains all gold columns, so that it is the same in all batches.
        columns = sorted({column for gold in dataset["labels"] for column in gold})
        sampler = UnitSampler(5, columns=columns, label_weights=[1, 2, 3, 4, 5]) if sampled else None
        sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": -(-5 // size)}
        step = arguments(**sizes, max_steps=1, optim="sgd", learning_rate=0.1)
        collator = GileDataCollator(processor, sampler)
        trainer = Trainer(model.double(), step, data_collator=collator, train_dataset=dataset)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        trainer.train()
        weights.append(model.state_dict())
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=1e-10, atol=1e-10)
    table = "gile.text_encoder.word_embeddings.weight"
    assert not torch.equal(weights[0][table], before[table])


def test_excluded_labels_are_ignored_in_training_and_evaluation(make_trainer, label_set):
    trainer = make_trainer(num_train_epochs=1, sampler=LabelSampler(5, num_negatives=2))
    dataset = rows().map(lambda row: {"never": [name for name in TOPICS if name not in row["labels"]] + ["unknown"]})
    trainer.train_dataset = encode_dataset(dataset, trainer.data_collator.processor, label_set, excluded="never")
    assert set(trainer.train_dataset.column_names) == {"input_ids", "labels", "excluded_columns"}
    trainer.train()
    assert trainer.state.log_history[-1]["train_loss"] < torch.inf
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())
    # "Infant", the only candidate that is not gold, may be the best label; the other topics may not.
    trainer.compute_metrics = LabelMetrics(len(label_set), top_k=[3])
    figures = trainer.evaluate(trainer.train_dataset)
    assert figures["eval_recall_at_3"] == 1.0
