"""Training one scorer on several labelled sets, to be used on labels and sets that it never saw.

Nothing in such a model belongs to single labels. Each step trains on a batch of one set, with the gold labels of the
batch and a sample of the others of that set. What chooses the epoch are held-out labels.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, Trainer, TrainingArguments

from ..metrics.label_metrics import LabelMetrics
from ..metrics.on_columns import OnColumns
from ..models import GileForSequenceClassification, GileProcessor, LabelSet
from ..models.losses_gile import multi_hot
from ..models.search_gile import project_label_set
from .collator import GileDataCollator
from .experiment import fit
from .label_sampling import EpochCallback, LabelSampler
from .labelled_sets import Task
from .starting import model_from_text_encoder, processor_from_text_encoder

FIGURES = ("average_precision", "precision_at_1")
"""Figures of a task; of one gold label a document, precision at 1 is the accuracy."""

Figures = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By set, group and name."""


@torch.no_grad()
def start_as_cosine(model: GileForSequenceClassification, scale: float) -> None:
    """Makes the joint embedding the cosine of text and label, times a number: U = V = I, w constant, no biases.

    Document and label vectors have a root mean square of 1, so their inner product over their size is the cosine; with
    a bag, the score is the sum of its cosine and that of the encoder. From random projections instead, 80 to 100 labels
    to train on left unseen ones worse than the cosine, whatever the activation, the learning rate and the size.

    Args:
        model: A `GileForSequenceClassification` with a linear joint embedding of the size of its vectors.
        scale: The number.
    """
    layer, config = model.gile.output_layer, model.config
    for projection in (layer.label_projection, layer.input_projection):
        projection.weight.copy_(torch.eye(config.joint_size))
        projection.bias.zero_()
    size = config.text_config.encoder_size
    layer.classifier.weight[:, :size] = scale / size
    if config.bag_size:
        layer.classifier.weight[:, size:] = scale / config.bag_size


def cosine_scorer(
    text_encoder: str, label_set: LabelSet, scale: float, **fields: Any
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Makes a model over a pretrained encoder that scores labels as the cosine does, and its processor.

    Args:
        text_encoder: What `AutoModel.from_pretrained` takes.
        label_set: The labels to store.
        scale: See `start_as_cosine`.
        fields: Fields of `GileConfig`.
    """
    encoder = AutoConfig.from_pretrained(text_encoder, trust_remote_code=False)
    model: GileForSequenceClassification = model_from_text_encoder(
        text_encoder,
        joint_size=encoder.hidden_size + fields.get("bag_size", 0),
        joint_act="linear",
        num_labels=len(label_set),
        problem_type="multi_label_classification",
        **fields,
    )
    start_as_cosine(model, scale)
    processor = processor_from_text_encoder(text_encoder, model.config)
    model.set_labels(label_set, processor)
    return model, processor


class SetBatches(torch.utils.data.Dataset[list[dict[str, Any]]]):
    """Batches as items: each of one set, drawn by the shares of the sets; the draw is a function of seed and epoch.

    Args:
        parts: The encoded documents of each set.
        shares: What share of the batches a set has, beside the others; by default the square root of its documents.
        batch_size: Documents of a batch, fewer of a set that has not as many.
        seed: Seed of the draw.
    """

    def __init__(self, parts: Sequence[Any], shares: Sequence[float | None], batch_size: int, seed: int) -> None:
        self.parts = parts
        weights = np.array(
            [len(part) ** 0.5 if share is None else share for part, share in zip(parts, shares, strict=True)]
        )
        self.shares = weights / weights.sum()
        self.batch_size = batch_size
        self.seed = seed
        # Shared memory: workers of a DataLoader that outlive an epoch see the next one.
        self.epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Makes the batches of another epoch draw anew."""
        self.epoch[0] = epoch

    def __len__(self) -> int:
        return -(-sum(map(len, self.parts)) // self.batch_size)

    def __getitem__(self, step: int) -> list[dict[str, Any]]:
        rng = np.random.default_rng([self.seed, int(self.epoch), step])
        place = int(rng.choice(len(self.parts), p=self.shares))
        part = self.parts[place]
        rows = rng.choice(len(part), min(self.batch_size, len(part)), replace=False)
        return [{**example, "set": place} for example in part.__getitems__(rows.tolist())]


class SetCollator:
    """Collates a batch of one set, with labels sampled from those of the set.

    Args:
        processor: The processor of the model.
        samplers: The sampler of each set.
    """

    def __init__(self, processor: GileProcessor, samplers: Sequence[LabelSampler]) -> None:
        self.collators = [GileDataCollator(processor, sampler) for sampler in samplers]

    def __call__(self, items: Sequence[list[dict[str, Any]]]) -> dict[str, Tensor]:
        """Collates the one item of a step."""
        (batch,) = items
        return self.collators[batch[0]["set"]](batch)


class ManySetTrainer(Trainer):
    """Trains on batches of one set each, and evaluates by tasks: some documents against some labels each.

    The epoch is chosen by the mean average precision of the sets on held-out labels, or where there are none on seen
    ones.

    Args:
        model: A model with the labels of all sets stored.
        args: The arguments; `per_device_train_batch_size` are the documents of a batch, `metric_for_best_model` is not
            read.
        parts: The encoded documents of each set to train on.
        samplers: The sampler of each set.
        tasks: What to measure.
        shares: Of each set, see `SetBatches`.
        processing_class: The processor.
        kwargs: Others of the `Trainer`.

    Raises:
        ValueError: No task can choose the epoch.
    """

    def __init__(
        self,
        model: GileForSequenceClassification,
        args: TrainingArguments,
        *,
        parts: Sequence[Any],
        samplers: Sequence[LabelSampler],
        tasks: Sequence[Task],
        shares: Sequence[float | None],
        processing_class: GileProcessor,
        **kwargs: Any,
    ) -> None:
        groups = {task.group for task in tasks}
        self.tasks, self.chosen_by = tasks, "held_out" if "held_out" in groups else "seen"
        if self.chosen_by not in groups:
            raise ValueError(
                "no document is left to choose the epoch by: give more documents, or hold labels out (held_out)"
            )
        batches = SetBatches(parts, shares, args.per_device_train_batch_size, seed=args.seed)
        args = copy(args)
        args.per_device_train_batch_size = 1  # an item is a batch
        args.metric_for_best_model, args.greater_is_better = f"eval_{self.chosen_by}_average_precision", True
        super().__init__(
            model,
            args,
            data_collator=SetCollator(processing_class, samplers),
            train_dataset=batches,
            eval_dataset=batches,  # what is measured are the tasks
            processing_class=processing_class,
            callbacks=[EpochCallback(batches, *samplers)],
            **kwargs,
        )

    def compute_loss(self, model: object, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """The mean over gold labels, so that sets with many of them for each document do not count for more."""
        factor = len(inputs["labels"]) / (inputs["labels"] >= 0).sum()
        outcome = super().compute_loss(model, inputs, *args, **kwargs)
        return (outcome[0] * factor, outcome[1]) if isinstance(outcome, tuple) else outcome * factor

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """The mean over the sets of the figures that choose the epoch."""
        figures = self.measure([task for task in self.tasks if task.group == self.chosen_by])
        metrics = {f"{metric_key_prefix}_{self.chosen_by}_average_precision": mean_of(figures, self.chosen_by)}
        self.log(metrics)
        control: Any = self.control  # type: ignore[has-type]
        self.control = self.callback_handler.on_evaluate(self.args, self.state, control, metrics)
        return metrics

    @torch.no_grad()
    def measure(self, tasks: Sequence[Task]) -> dict[str, dict[str, dict[str, float]]]:
        """Measures tasks.

        Args:
            tasks: The tasks.

        Returns:
            By set and group `FIGURES`, the numbers of `documents` and `candidates`, and `boundary`: what lies half-way
            between the scores of gold labels and others, on average.
        """
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        figures: dict[str, dict[str, dict[str, float]]] = {}
        for task in tasks:
            figures.setdefault(task.set_name, {})[task.group] = self._measure(model, task)
        model.train(was_training)
        return figures

    def _measure(self, model: GileForSequenceClassification, task: Task) -> dict[str, float]:
        processor: Any = self.processing_class
        with self._autocast():
            if task.label_set is None:
                codes = model.project_stored_labels()
            else:
                codes = project_label_set(model, processor, task.label_set)
        collate, size = GileDataCollator(processor), self.args.per_device_eval_batch_size
        columns, boundary = torch.as_tensor(task.columns), torch.zeros(())
        metrics = OnColumns(LabelMetrics(len(columns), top_k=(1,)), task.columns)
        for start in range(0, len(task.documents), size):
            rows = range(start, min(start + size, len(task.documents)))
            batch = collate(task.documents.__getitems__(list(rows)))
            gold = batch.pop("labels")
            batch.pop("shift_labels")
            with self._autocast():
                inputs: dict[str, Any] = {name: tensor.to(model.device) for name, tensor in batch.items()}
                inputs.pop("lexical_ids", None)  # words are not what is trained
                texts = model.gile.project_texts(**inputs)
            # Not in 16 bits, in which labels that differ a little tie.
            scores = (texts.float() @ codes.float().T).cpu()
            metrics.update(scores, gold)
            boundary += _boundaries(scores[:, columns], multi_hot(gold, scores.shape[1])[:, columns]).sum()
        computed = metrics.compute()
        figures = {name: computed[name] for name in FIGURES} | {"boundary": float(boundary) / len(task.documents)}
        return figures | {"documents": len(task.documents), "candidates": len(task.columns)}

    def _autocast(self) -> Any:
        """16 bits, if training has them."""
        return torch.autocast(self.args.device.type, torch.bfloat16, enabled=self.args.bf16)


def fit_or_keep(trainer: ManySetTrainer, tasks: Sequence[Task], patience: int) -> dict[str, Any]:
    """Trains a scorer, unless the cosine that it starts as is as good on what chooses the epoch: then it stays that.

    Afterwards a half lies between the probabilities of gold labels and others, and a pipeline gives the candidates one
    probability of 1 to share, unless it is called with `multi_label=True`.

    Args:
        trainer: What to train.
        tasks: What to measure before and after.
        patience: Epochs without a better figure before training stops.

    Returns:
        Of `gile` what `fit` returns and whether it `kept_cosine`; of `gile` and `cosine`, `figures`, see
        `ManySetTrainer.measure`.
    """
    model: Any = trainer.model
    cosine = trainer.measure(tasks)
    start = {name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad}
    outcome = fit(trainer, patience)
    figures = trainer.measure(tasks)
    kept_cosine = mean_of(figures, trainer.chosen_by) <= mean_of(cosine, trainer.chosen_by)
    if kept_cosine:
        model.load_state_dict(start, strict=False)
        figures = cosine
    with torch.no_grad():  # a softmax does not tell the bias
        model.gile.output_layer.classifier.bias.fill_(-mean_of(figures, trainer.chosen_by, "boundary"))
    model.config.problem_type = "single_label_classification"
    return {"gile": {**outcome, "kept_cosine": kept_cosine, "figures": figures}, "cosine": {"figures": cosine}}


def _boundaries(scores: Tensor, gold: Tensor) -> Tensor:
    """Half-way between the lowest score of a gold label and the highest of another one, of each document.

    Args:
        scores: `(B, L)` scores.
        gold: `(B, L)` zeros and ones, with both in each row, or else the row counts as 0.
    """
    lowest = scores.masked_fill(gold == 0, torch.inf).amin(1)
    highest = scores.masked_fill(gold > 0, -torch.inf).amax(1)
    return ((lowest + highest) / 2).nan_to_num(0.0, 0.0, 0.0)


def mean_of(figures: Figures, group: str, name: str = "average_precision") -> float:
    """Returns the mean over the sets of a figure of a group.

    Args:
        figures: What `ManySetTrainer.measure` returned.
        group: A key of `GROUPS`.
        name: The figure.

    Example:
        >>> mean_of({"a": {"seen": {"average_precision": 0.5}}, "b": {"seen": {"average_precision": 0.7}}}, "seen")
        0.6
    """
    return float(np.mean([groups[group][name] for groups in figures.values() if group in groups]))
