"""Steps of an experiment with a model: encode, fit, calibrate, test, save.

    experiment = Experiment(model, processor, parts, sampler, run_arguments(args, folder, metric))
    experiment.fit(patience=2)
    experiment.calibrate()
    report = experiment.test()
    save_model(experiment.trainer, folder / "model")

`parts` are encoded documents from `encode_parts`. The model has stored labels, seen labels first.
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from ..metrics.label_metrics import LabelMetrics
from ..metrics.trainer import OnColumns
from ..models import GileForSequenceClassification, GileProcessor, LabelSet
from ..publishing.folder import find_outdated
from ..publishing.report import Report, make_report
from ..scoring.scorer import has_bf16
from ..writing import new_files
from .calibration import calibrate
from .checkpoints import checkpoint_to_resume
from .collator import EpochCallback, GileDataCollator, LabelSampler
from .convex import ConvexFit, LearnWords, fit_convex
from .encoding import ReadBefore, encode_dataset
from .options import TOP_K
from .pretrained import add_pooled_embeds, parameter_groups
from .task import TextTask


def run_arguments(args: TrainingArguments, folder: Path, metric: str) -> TrainingArguments:
    """Copies training arguments for a run with its own folder, and the metric for choosing the best epoch."""
    run = copy(args)
    run.output_dir = str(folder)
    run.metric_for_best_model = metric
    run.greater_is_better = not metric.endswith(("loss", "one_error", "coverage"))
    return run


def encode_parts(
    task: TextTask,
    model: GileForSequenceClassification,
    processor: GileProcessor,
    bf16: bool = False,
    max_read: int | None = None,
    reads_all: bool = False,
) -> dict[str, Dataset]:
    """Encodes the documents of each part. Outputs of a frozen encoder are computed once.

    Args:
        task: Documents and labels; ids of other labels are dropped. Labels in a column `excluded` are not candidates.
        model: The model, on the device that a frozen encoder runs on.
        processor: Its processor.
        bf16: Whether a frozen encoder runs in bfloat16 (autocast).
        max_read: Maximum number of training documents that a frozen encoder reads; vectors of others are zeros. Further
            validation documents are dropped.
        reads_all: Whether the encoder reads all training documents whatever `max_read` is, in bfloat16 if the device
            supports it; validation documents stay limited.
    """
    encoded = {}
    for part, rows in task.parts.items():
        excluded = "excluded" if "excluded" in rows.column_names else None
        if part == "validation" and max_read is not None and len(rows) > max_read:
            rows = rows.select(_even_steps(len(rows), max_read))
        encoded[part] = encode_dataset(
            rows, processor, task.labels, task.text, task.gold, excluded=excluded, on_unknown_label="drop"
        )
        if model.config.text_config.has_fixed_pooling:
            if part == "train" and max_read is not None and len(rows) > max_read and not reads_all:
                encoded[part] = _pool_sample(encoded[part], model, processor, bf16, max_read)
            else:
                is_fast = bf16 or (part == "train" and reads_all and has_bf16(model.device))
                encoded[part] = add_pooled_embeds(encoded[part], model, processor, bf16=is_fast)
    return encoded


def _pool_sample(
    encoded: Dataset, model: GileForSequenceClassification, processor: GileProcessor, bf16: bool, number: int
) -> Dataset:
    """Adds vectors for a number of evenly spaced documents, and zeros for the others."""
    positions = _even_steps(len(encoded), number)
    read = add_pooled_embeds(encoded.select(positions), model, processor, bf16=bf16).with_format("numpy")
    vectors = np.zeros((len(encoded), model.config.text_config.pooled_size), np.float32)
    vectors[positions] = np.stack(list(read["pooled_embeds"]))
    return encoded.add_column("pooled_embeds", list(vectors))


def _even_steps(number: int, wanted: int) -> NDArray[np.int64]:
    """Returns `wanted` evenly spaced positions among `number` documents."""
    return np.arange(wanted) * number // wanted


def with_a_label(parts: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Removes documents without a known label.

    Raises:
        ValueError: If a part would be empty.
    """
    left = {part: rows.filter(len, input_columns="labels") for part, rows in parts.items()}
    for part, rows in left.items():
        if len(rows) == 0:
            raise ValueError(f"no document of {part} has a label of the model")
    return left


def pretrained_optimizer(model: nn.Module, args: TrainingArguments, encoder_learning_rate: float) -> Optimizer:
    """Creates the optimizer of the arguments with the learning rates of `parameter_groups`."""
    model.to(args.device)
    groups = parameter_groups(model, args.learning_rate, encoder_learning_rate, args.weight_decay)
    kind, options = Trainer.get_optimizer_cls_and_kwargs(args)
    optimizer: Optimizer = kind(groups, **options)
    return optimizer


def train(trainer: Trainer, patience: int) -> dict[str, Any]:
    """Trains until `args.metric_for_best_model` stops improving, with a progress bar and a line per epoch.

    Args:
        trainer: The trainer; `resume_from_checkpoint="true"` resumes from its newest complete checkpoint, if any.
        patience: Number of epochs without improvement before training stops.

    Returns:
        `seconds`, the number of trainable `parameters`, `history` with the logs of each epoch, and `losses`, pairs of a
        step and the mean loss of the steps before it.
    """
    stop = EarlyStoppingCallback(patience)
    clock = Clock(str(trainer.args.metric_for_best_model))
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(clock)
    trainer.add_callback(stop)
    if trainer.args.world_size > 1 and trainer.is_world_process_zero():
        tqdm.write(f"training in {trainer.args.world_size} processes")
    wants_shards = trainer.args.fsdp or os.environ.get("ACCELERATE_USE_FSDP") == "true"
    if wants_shards and trainer.args.device.type == "cpu" and trainer.is_world_process_zero():
        tqdm.write("FSDP is ignored on a CPU: each process has the full model, as without --use_fsdp")
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(trainer))
    trainer.remove_callback(stop)  # it would fail in later evaluations without its metric
    history = trainer.state.log_history
    return {
        "seconds": time.perf_counter() - clock.start,
        "parameters": trainer.model.num_parameters(only_trainable=True),
        "history": [entry for entry in history if "seconds" in entry],
        "losses": [[entry["step"], entry["loss"]] for entry in history if "loss" in entry],
    }


class Clock(ProgressCallback):
    """A progress bar and a line per epoch, with a metric in 0..1; adds elapsed time to the history.

    `seconds` is the total time, and `training_cpu_seconds` the CPU time of training steps in this process, which hardly
    depends on other processes.
    """

    def __init__(self, metric: str) -> None:
        super().__init__()
        self.metric = metric
        self.start = time.perf_counter()
        self.cpu_seconds = 0.0

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Starts the clock of the training steps."""
        self.cpu_seconds -= time.process_time()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Stops the clock before evaluation."""
        self.cpu_seconds += time.process_time()

    def on_log(self, *_: Any, **__: Any) -> None:
        """Prints nothing, as `on_evaluate` prints the line."""

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        """Prints the line of an epoch, and adds the time to the history."""
        super().on_evaluate(args, state, control, **kwargs)
        if state.epoch and state.log_history and "seconds" not in state.log_history[-1]:
            state.log_history[-1]["seconds"] = seconds = time.perf_counter() - self.start
            state.log_history[-1]["training_cpu_seconds"] = self.cpu_seconds
            if self.metric in metrics and state.is_world_process_zero:
                left = seconds * (args.num_train_epochs / state.epoch - 1)
                losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
                loss = f"{losses[-1]:7.2f}" if losses else "      -"
                tqdm.write(
                    f"  epoch {state.epoch:4.0f} of {args.num_train_epochs:.0f}  loss {loss}  "
                    f"validation {short_name(self.metric)} {100 * metrics[self.metric]:6.2f}  {seconds:5.0f} s, "
                    f"at most {left:.0f} s left"
                )


def short_name(metric: str) -> str:
    """Returns the short name of a metric of `LabelMetrics`.

    Example:
        >>> short_name("eval_validation_seen_average_precision"), short_name("eval_validation_micro_f1")
        ('AvgPr', 'micro-F1')
    """
    for name, short in {"average_precision": "AvgPr", "ranking_loss": "RL", "one_error": "OneErr"}.items():
        if metric.endswith(name):
            return short
    return metric.removeprefix("eval_").removeprefix("validation_").replace("_f1", "-F1").replace("_", " ")


def save_model(trainer: Trainer, folder: Path) -> None:
    """Saves the model of a trainer as on the Hub: weights, code, vocabulary and labels."""
    if not trainer.args.should_save:
        trainer.save_model(str(folder))
        return
    with new_files(folder, find_outdated) as new:
        trainer.save_model(str(new))
        (new / "training_args.bin").unlink(missing_ok=True)  # a pickle, which should not be shared


def columns_in_test(labels: LabelSet, held_out: Collection[str]) -> list[int]:
    """Returns the candidate labels of test documents: all but those that only validation documents have."""
    return [column for column, label in enumerate(labels) if label.id not in held_out]


def columns_in_validation(labels: LabelSet, held_out: Collection[str]) -> list[int]:
    """Returns the candidate labels of validation documents: all, or else seen and held-out labels."""
    return [column for column, label in enumerate(labels) if label.seen or label.id in held_out or not held_out]


@dataclass(eq=False)
class Experiment:
    """A model with its training, validation and test documents.

    Args:
        model: The model, with stored labels and its loss.
        processor: Its processor.
        parts: Encoded documents: `train`, `validation` and `test`.
        sampler: Samples labels in training.
        args: Arguments of this run, from `run_arguments`.
        held_out: Ids of labels that only validation documents have. They are not candidates in the test, and other
            unseen labels are not candidates in validation.
        num_documents: Number of training documents; adds propensity-scored precision.
        optimizer: The optimizer; by default that of the arguments.
        encoder: Name or folder of the pretrained encoder or model that the weights come from, for the card.

    Attributes:
        trainer: The trainer of the model.
        fitted: Times, curves and choices of `fit` or `fit_convex`, as in results.json; empty before.
        convex_fit: How the head was fitted, after `fit_convex`.
    """

    model: GileForSequenceClassification
    processor: GileProcessor
    parts: Mapping[str, Dataset]
    sampler: LabelSampler
    args: TrainingArguments
    held_out: Collection[str] = ()
    num_documents: int | None = None
    optimizer: Optimizer | None = None
    encoder: str | None = None
    trainer: Trainer = field(init=False)
    fitted: dict[str, Any] = field(init=False, default_factory=dict)
    convex_fit: ConvexFit | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        seen = [self.labels[column].seen for column in self.in_validation]
        groups = None if all(seen) else seen
        one_label = self.model.config.problem_type == "single_label_classification"
        metrics = LabelMetrics(len(seen), groups, top_k=TOP_K, one_label=one_label)
        self.trainer = Trainer(
            self.model,
            self.args,
            data_collator=GileDataCollator(self.processor, self.sampler),
            train_dataset=self.parts["train"],
            eval_dataset={"validation": self.parts["validation"]},
            processing_class=self.processor,
            compute_metrics=OnColumns(metrics, self.in_validation),
            callbacks=[EpochCallback(self.sampler)],
            optimizers=(self.optimizer, None),
        )

    @property
    def labels(self) -> LabelSet:
        """The labels of the model."""
        if self.model.label_set is None:
            raise ValueError("the model stores no labels: call set_labels before the experiment")
        return self.model.label_set

    @property
    def in_test(self) -> list[int]:
        """The candidates of test documents."""
        return columns_in_test(self.labels, self.held_out)

    @property
    def in_validation(self) -> list[int]:
        """The candidates of validation documents."""
        return columns_in_validation(self.labels, self.held_out)

    @property
    def num_parameters(self) -> int:
        """The number of trainable parameters."""
        return self.model.num_parameters(only_trainable=True)

    def fit(self, patience: int) -> None:
        """Trains the model in steps, see `train`."""
        self.fitted = train(self.trainer, patience)

    def fit_convex(self, neighbours: bool = False, learn_words: LearnWords | None = None) -> ConvexFit:
        """Fits the head over a frozen encoder without epochs, see `hf_gile.training.convex.fit_convex`.

        The history has validation metrics as its only entry, and is empty if validation documents were fitted on.
        """
        start = time.perf_counter()
        fit = fit_convex(self.model, self.parts, neighbours, learn_words)
        seconds = time.perf_counter() - start
        self.convex_fit = fit
        self.num_documents = fit.num_documents
        self.trainer.remove_callback(ProgressCallback)
        history: list[dict[str, float]] = []
        score = "on all documents: too few to choose and calibrate on"
        if not fit.fits_validation:
            metric = str(self.args.metric_for_best_model)
            measured = self.trainer.evaluate()
            score = f"validation {short_name(metric)} {100 * measured[metric]:6.2f}"
            history = [{**measured, "epoch": 0, "step": 0, "seconds": seconds}]
        if self.trainer.is_world_process_zero():
            tqdm.write(f"  fitted  {score}  {seconds:5.0f} s")
        self.fitted = {
            "seconds": seconds,
            "num_documents": fit.num_documents,
            "parameters": self.num_parameters,
            "history": history,
            "losses": [],  # of steps
            "chosen": fit.chosen,
            "fits_validation": fit.fits_validation,
            "term_weights": self.model.config.term_weights,
        }
        return fit

    def calibrate(self, method: str | None = None) -> dict[str, Any]:
        """Calibrates the model on validation documents, or on those that folds left out, identically in each process.

        The method "none" only sets a threshold of seen and of unseen labels; nothing for single-label documents.
        """
        if method == "none" and self.model.config.problem_type == "single_label_classification":
            return {}
        batches: Any = self.convex_fit and self.convex_fit.left_out
        if not batches:
            collator: Any = GileDataCollator(self.processor)
            batches = DataLoader(self.parts["validation"], self.args.per_device_eval_batch_size, collate_fn=collator)
        return calibrate(
            self.model,
            batches,
            method=method,
            label_thresholds=method != "none",
            columns=self.in_validation,
            raise_unseen=True,
            bf16=self.args.bf16,
        )

    def test(self, **metadata: Any) -> Report:
        """Evaluates the model on test documents, with its calibration and its thresholds, by `make_report`."""
        rows = self.parts["test"]
        excluded = None
        if "excluded_columns" in rows.column_names:
            excluded = self._ids(rows["excluded_columns"])
        return make_report(
            self.model,
            ReadBefore(self.processor, rows),
            range(len(rows)),
            self._ids(rows["labels"]),
            columns=self.in_test,
            excluded=excluded,
            batch_size=self.args.per_device_eval_batch_size,
            bf16=self.args.bf16,
            num_training_documents=self.num_documents,
            **metadata,
        )

    def _ids(self, rows: Iterable[Sequence[int]]) -> list[list[str]]:
        """Returns the ids of labels at some indices, for each document."""
        ids = self.labels.ids
        return [[ids[column] for column in columns] for columns in rows]
