"""Distillation: a training loss that draws the scores of some labels to those of a slower, better teacher.

Shapes: B documents, N documents of a dataset, L labels, J joint size, K labels that the teacher has scored of each
document.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ..models import GileProcessor
from ..models.losses_gile import IGNORE, widened
from .collator import GileDataCollator

if TYPE_CHECKING:
    from datasets import Dataset

Teacher = Callable[[Sequence[str], Sequence[str]], Any]
"""From R texts and R label texts to the R scores of the pairs, as logits."""


class Distillation:
    """Adds the distance to a teacher to the loss; set it as `model.distillation`.

    The teacher has scored K labels of each document (`add_teacher_scores`), which a `GileDataCollator` hands to the
    model. Among these, the softmax of its scores is what that of the model is to be:

        weight * temperature^2 * KL(softmax(teacher / temperature) || softmax(model / temperature))

    the mean over documents (Hinton et al., 2015). What a softmax does not see, the general height of scores, is left
    to the loss of the gold labels, so that a teacher may score on a scale of its own. The stock `Trainer` does all
    this as it is; the hook is not saved with the model.

    Args:
        weight: What the term counts beside the loss.
        temperature: Above 1, less likely labels count more.

    Raises:
        ValueError: A number that is not positive.
    """

    def __init__(self, weight: float = 1.0, temperature: float = 1.0) -> None:
        for name, value in {"weight": weight, "temperature": temperature}.items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        self.weight = weight
        self.temperature = temperature

    def __call__(self, model: Any, text_codes: Tensor, teacher_columns: Tensor, teacher_scores: Tensor) -> Tensor:
        """The term of one step.

        Args:
            model: A `GileForSequenceClassification`.
            text_codes: `(B, J)` text codes.
            teacher_columns: `(B, K)` columns, padded with -100.
            teacher_scores: `(B, K)` scores of the teacher.

        Raises:
            ValueError: The model has several languages, or the two differ in shape.
        """
        if teacher_columns.shape != teacher_scores.shape or len(teacher_columns) != len(text_codes):
            raise ValueError(
                f"teacher_columns and teacher_scores must be ({len(text_codes)}, K) both, got "
                f"{tuple(teacher_columns.shape)} and {tuple(teacher_scores.shape)}"
            )
        if len(model.config.languages) > 1:
            raise ValueError("distillation is of models of one language; take it off: model.distillation = None")
        padding = teacher_columns == IGNORE
        columns = torch.unique(teacher_columns[~padding])
        if len(columns) == 0:
            return text_codes.sum() * 0
        language = model.config.languages[0] if model.config.languages else None
        codes = model.project_stored_labels(columns, language)
        scores = widened(model.gile.output_layer.score(text_codes, codes, language))
        places = torch.searchsorted(columns, teacher_columns).clamp(max=len(columns) - 1)
        lowest = torch.finfo(scores.dtype).min  # not minus infinity, of which a document without any would make NaN
        student = (scores.gather(1, places) / self.temperature).masked_fill(padding, lowest)
        teacher = (teacher_scores.to(scores.dtype) / self.temperature).masked_fill(padding, lowest)
        distance = functional.kl_div(
            student.log_softmax(-1), teacher.log_softmax(-1), reduction="none", log_target=True
        ).masked_fill(padding, 0)
        return self.weight * self.temperature**2 * distance.sum(-1).mean()


class CrossEncoder:
    """A teacher that reads text and label together: a sequence classification model of transformers.

    Its score is the logit of a model with one output (a reranker), or the log odds of entailment of a model of natural
    language inference.

    Args:
        name_or_path: What `AutoModelForSequenceClassification.from_pretrained` takes; code of its own is not run.
        template: The second text, with `{}` for the text of the label; for inference a sentence, such as
            "This text is about {}.".
        max_length: Tokens read of a pair; the text is cut.
        batch_size: Pairs read at once.
        bf16: Whether to run in bfloat16 (autocast).

    Raises:
        ValueError: A model with several outputs, none of which is called entailment, or a template without `{}`.
    """

    def __init__(
        self, name_or_path: Any, template: str = "{}", max_length: int = 256, batch_size: int = 64, bf16: bool = False
    ) -> None:
        if "{}" not in template:
            raise ValueError(f"template must hold {{}} where the label is to stand, got {template!r}")
        self.model = AutoModelForSequenceClassification.from_pretrained(
            name_or_path, dtype=torch.float32, trust_remote_code=False
        ).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=False)
        names = {name.lower(): column for name, column in self.model.config.label2id.items()}
        self.entailment = names.get("entailment")
        if self.model.config.num_labels > 1 and self.entailment is None:
            raise ValueError(
                f"{name_or_path} has the outputs {', '.join(names)}: a teacher has one output, or one called entailment"
            )
        self.template = template
        self.max_length = max_length
        self.batch_size = batch_size
        self.bf16 = bf16

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], label_texts: Sequence[str]) -> Tensor:
        """Scores R pairs.

        Args:
            texts: R texts.
            label_texts: R texts of labels.

        Returns:
            `(R,)` scores, on the CPU.
        """
        scores = torch.empty(len(texts))
        device = self.model.device
        order = np.argsort([len(text) + len(label) for text, label in zip(texts, label_texts, strict=True)])
        for places in torch.from_numpy(order).split(self.batch_size):
            batch = self.tokenizer(
                [texts[place] for place in places],
                [self.template.format(label_texts[place]) for place in places],
                truncation="only_first",
                max_length=self.max_length,
                padding=True,
                return_tensors="pt",
            ).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
                logits = self.model(**batch).logits.float()
            if self.model.config.num_labels > 1:
                own = logits[:, self.entailment]
                others = logits.index_fill(1, torch.tensor([self.entailment], device=device), -torch.inf)
                logits = (own - others.logsumexp(-1))[:, None]
            scores[places] = logits[:, 0].cpu()
        return scores


def add_teacher_scores(
    dataset: "Dataset",
    texts: Sequence[str],
    model: Any,
    processor: GileProcessor,
    teacher: Teacher,
    num_labels: int = 20,
    columns: Sequence[int] | None = None,
    batch_size: int = 64,
) -> "Dataset":
    """Lets a teacher score the labels of each document that matter: its gold labels and the best of a first model.

    Args:
        dataset: N documents from `encode_dataset`, with `input_ids` and `labels`.
        texts: Their N texts.
        model: A trained `GileForSequenceClassification` with the stored labels of the dataset, which chooses.
        processor: Its processor.
        teacher: Scores texts and label texts, such as a `CrossEncoder`.
        num_labels: Labels K of each document that the teacher scores.
        columns: Columns to choose from beside the gold ones, such as those of the seen labels; all by default.
        batch_size: Documents scored at once.

    Returns:
        The dataset with the columns `teacher_columns` and `teacher_scores`.

    Raises:
        ValueError: Not as many texts as documents, more labels than there are, or a model without stored labels.
    """
    if len(texts) != len(dataset):
        raise ValueError(f"each document needs its text, got {len(texts)} texts for {len(dataset)} documents")
    if model.label_set is None:
        raise ValueError("the first model stores no labels: train it on those of the dataset (model.set_labels)")
    candidates = torch.arange(model.config.num_labels) if columns is None else torch.as_tensor(columns)
    if not 0 < num_labels <= len(candidates):
        raise ValueError(f"num_labels must be from 1 to the {len(candidates)} labels to choose from, got {num_labels}")
    others = torch.ones(model.config.num_labels, dtype=torch.bool)
    others[candidates] = False
    names = model.label_set.texts
    collate = GileDataCollator(processor)

    def rows() -> Iterator[tuple[list[int], list[float]]]:
        was_training = model.training
        model.eval()
        documents = iter(dataset)
        for start in range(0, len(dataset), batch_size):
            batch = collate(list(islice(documents, batch_size)))
            gold = batch.pop("labels").reshape(len(batch["input_ids"]), -1)
            with torch.no_grad():
                batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
                logits = model(**batch).logits.float().cpu().masked_fill(others, -torch.inf)
            document, place = (gold != IGNORE).nonzero(as_tuple=True)
            logits[document, gold[document, place]] = torch.inf
            chosen = logits.topk(num_labels, dim=-1).indices
            pairs = [texts[start + row] for row in range(len(chosen)) for _ in range(num_labels)]
            scores = torch.as_tensor(teacher(pairs, [names[column] for column in chosen.flatten().tolist()]))
            yield from zip(chosen.tolist(), scores.float().view(chosen.shape).tolist(), strict=True)
        model.train(was_training)

    chosen, scores = zip(*rows(), strict=True)
    return dataset.add_column("teacher_columns", list(chosen)).add_column("teacher_scores", list(scores))
