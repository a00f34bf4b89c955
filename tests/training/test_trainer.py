"""The stock Trainer trains, evaluates, saves and resumes these models."""

import pytest
import torch
from datasets import Dataset
from papers.label_sampling import UnitSampler
from transformers import Trainer, TrainingArguments

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
def make_trainer(tmp_path, make_model, label_set):
    def make(folder="run", text_encoder_type="wan", sampler=None, **options):
        model, processor = make_model(
            text_encoder_type,
            embedding_size=37,
            hidden_size=41,
            joint_size=43,
            problem_type="multi_label_classification",
        )
        model.loss_function = GileLoss()
        dataset = encode_dataset(rows(), processor, label_set)
        arguments = TrainingArguments(
            output_dir=str(tmp_path / folder),
            per_device_train_batch_size=8,
            learning_rate=1e-2,
            batch_eval_metrics=True,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
            **({"save_strategy": "no"} | options),
        )
        return Trainer(
            model,
            arguments,
            data_collator=GileDataCollator(processor, sampler),
            train_dataset=dataset,
            eval_dataset=dataset,
            compute_metrics=LabelMetrics(len(label_set)),
            callbacks=[EpochCallback(sampler)] if sampler else None,
        )

    return make


@pytest.mark.parametrize("text_encoder_type", ["wan", pytest.param("han", marks=pytest.mark.slow)])
def test_training_learns_and_evaluation_scores_all_labels(make_trainer, text_encoder_type):
    trainer = make_trainer(
        text_encoder_type=text_encoder_type, num_train_epochs=20, sampler=LabelSampler(5, num_negatives=2)
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < before["eval_loss"] / 2
    assert after["eval_average_precision"] > 0.95


def final_weights(trainer, **arguments):
    trainer.train(**arguments)
    return trainer.model.state_dict()


@pytest.mark.parametrize(
    "per_document", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["shared", "per document"]
)
def test_resumed_training_reaches_bitwise_identical_weights(make_trainer, tmp_path, per_document):
    def make(**options):
        sampler = UnitSampler(5, num_negatives=1, per_document=per_document)
        return make_trainer(sampler=sampler, max_steps=9, **options)

    expected = final_weights(make(folder="whole"))
    make(folder="part", save_strategy="steps", save_steps=4).train()
    resumed = final_weights(make(folder="part"), resume_from_checkpoint=str(tmp_path / "part" / "checkpoint-4"))
    for name, tensor in expected.items():
        assert torch.equal(resumed[name], tensor), name


def test_a_checkpoint_with_other_labels_is_not_resumed(make_trainer, tmp_path, label_set):
    make_trainer(folder="part", max_steps=2, save_strategy="steps", save_steps=1).train()
    other = make_trainer(folder="part", max_steps=2)
    other.model.set_labels(LabelSet(reversed(label_set)), other.data_collator.processor)
    with pytest.raises(ValueError, match="labels of this checkpoint differ from set_labels of this model"):
        other.train(resume_from_checkpoint=str(tmp_path / "part" / "checkpoint-1"))


def test_a_stream_can_be_trained_with_sampled_labels(make_trainer):
    trainer = make_trainer(max_steps=3, sampler=LabelSampler(5, num_negatives=1))
    trainer.train_dataset = trainer.train_dataset.to_iterable_dataset()
    trainer.train()
    assert trainer.state.global_step == 3


class Recorder(LabelSampler):
    """Records the epochs passed to it."""

    def __init__(self):
        super().__init__(5, num_negatives=1)
        self.epochs = []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)
        super().set_epoch(epoch)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_epoch_numbers_continue_after_resuming(make_trainer, tmp_path, stream):
    epochs = []
    for folder, resume in (("run", None), ("run", "checkpoint-8")):
        sampler = Recorder()
        trainer = make_trainer(folder=folder, max_steps=16, sampler=sampler, save_strategy="steps", save_steps=8)
        if stream:  # 6 steps of 8 documents
            trainer.train_dataset = trainer.train_dataset.to_iterable_dataset()
        trainer.train(resume_from_checkpoint=resume and str(tmp_path / folder / resume))
        epochs.append(sampler.epochs)
    assert epochs[0] == [0, 1, 2]
    assert epochs[1][0] == 1
    assert epochs[1] == sorted(set(epochs[1]))


def test_gradients_are_averaged_over_accumulated_steps(make_trainer):
    # Two accumulated halves of a batch train like the whole batch, if losses are averaged over documents.
    norms = []
    for size, steps in ((8, 1), (4, 2)):
        trainer = make_trainer(max_steps=1, gradient_accumulation_steps=steps, logging_steps=1, max_grad_norm=1e9)
        trainer.args.per_device_train_batch_size = size
        trainer._train_batch_size = size
        trainer.train()
        norms.append(next(entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry))
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


LOSSES = {
    "sigmoid": label_loss,
    "softmax": label_loss,
    "decoupled softmax": GileLoss("decoupled_softmax"),
    "sigmoid in chunks": GileLoss(chunk_size=2),
    "softmax in chunks": GileLoss(chunk_size=2),
    "decoupled softmax in chunks": GileLoss("decoupled_softmax", chunk_size=2),
    "sigmoid, sampled": GileLoss(),
    "softmax in chunks, sampled": GileLoss(chunk_size=2),
}


QUICK = ("sigmoid", "softmax in chunks, sampled")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LOSSES]
)
def test_accumulated_unequal_batches_train_like_a_single_batch(tmp_path, make_model, label_set, name):
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
        arguments = TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=-(-5 // size),
            max_steps=1,
            optim="sgd",
            learning_rate=0.1,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            save_strategy="no",
        )
        trainer = Trainer(
            model.double(), arguments, data_collator=GileDataCollator(processor, sampler), train_dataset=dataset
        )
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        trainer.train()
        weights.append(model.state_dict())
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=1e-10, atol=1e-10)
    assert not torch.equal(
        weights[0]["gile.text_encoder.word_embeddings.weight"], before["gile.text_encoder.word_embeddings.weight"]
    )


def test_accumulation_accepts_multi_hot_labels_but_refuses_gold_columns(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    model.train()
    inputs = processor(["breast milk", "iron"], return_tensors="pt")
    gold = torch.tensor([[0, 1], [2, -100]])
    mean = model(**inputs, labels=gold).loss
    zeros_and_ones = torch.tensor([[1.0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    ours, all_batches = {"labels": zeros_and_ones}, 3 * 5
    torch.testing.assert_close(model(**inputs, **ours, num_items_in_batch=all_batches).loss, mean * 2 / 3)
    torch.testing.assert_close(model(**inputs, labels=gold, num_items_in_batch=3).loss, mean)  # a single batch
    with pytest.raises(ValueError, match="use a GileDataCollator, or add shift_labels"):
        model(**inputs, labels=gold, num_items_in_batch=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'label'"):
        model(**inputs, label=gold)


def test_the_loss_of_an_evaluation_is_the_mean_over_documents(make_trainer):
    trainer = make_trainer(per_device_eval_batch_size=16)
    whole = trainer.data_collator([trainer.eval_dataset[row] for row in range(44)])
    model = trainer.model.eval()
    with torch.no_grad():
        expected = model(**whole).loss.item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_saved_checkpoint_contains_code_and_labels(make_trainer, tmp_path, label_set):
    trainer = make_trainer(max_steps=1)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    saved = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"labels.jsonl", "model.safetensors", "config.json", "modeling_gile.py", "pipeline_gile.py"} <= saved


def test_excluded_labels_are_ignored_in_training_and_evaluation(make_trainer, make_model, label_set):
    _, processor = make_model()
    names = list(TOPICS)
    dataset = rows().map(lambda row: {"never": [name for name in names if name not in row["labels"]] + ["unknown"]})
    dataset = encode_dataset(dataset, processor, label_set, excluded="never")
    assert set(dataset.column_names) == {"input_ids", "labels", "excluded_columns"}
    for sampler in (None, LabelSampler(5, num_negatives=2)):
        trainer = make_trainer(num_train_epochs=1, sampler=sampler)
        trainer.train_dataset = dataset
        trainer.train()
        assert trainer.state.log_history[-1]["train_loss"] < torch.inf
        assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())
    # "Infant", the only candidate that is not gold, may be the best label; the other topics may not.
    trainer.compute_metrics = LabelMetrics(len(label_set), top_k=[3])
    figures = trainer.evaluate(dataset)
    assert figures["eval_recall_at_3"] == 1.0
    assert figures["eval_ranking_loss"] <= 1.0
