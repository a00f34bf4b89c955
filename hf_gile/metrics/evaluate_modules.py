"""Label metrics as modules of `evaluate`, equal to those of this package. The import takes seconds.

ranking = LabelRanking(top_k=(1, 5), seen=[label.seen for label in labels])
ranking.add_batch(predictions=logits, references=gold)  # (N, L) logits, and gold label indices of each document
ranking.compute()
evaluate.combine([LabelRanking(), LabelF1(threshold=0.3), LabelCalibration()])
write_metric(LabelF1, "label_f1")  # then evaluate.load("label_f1", threshold=0.3)
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import torch

from ..extras import needs_extra
from ..models.losses_gile import IGNORE
from ..models.processing_gile import pad_rows
from .calibration import CalibrationMetrics
from .classification import F1Metrics
from .ranking import RankingMetrics

with needs_extra("export", "a metric of evaluate"):
    import datasets
    import evaluate

_DOCUMENTS_AT_ONCE = 64


class _LabelMetric(evaluate.Metric):
    """A metric of logits and gold labels.

    Args:
        seen: `(L,)` booleans, true for labels seen in training; adds metrics `seen_...` and `unseen_...`.
        options: Further arguments of the metric in `hf_gile.metrics`, and of `evaluate` modules.
    """

    metric: ClassVar[type[Any]]
    names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, seen: Sequence[bool] | None = None, **options: Any) -> None:
        self.seen = seen
        self.options = {name: options.pop(name) for name in self.names if name in options}
        super().__init__(*args, **options)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=str(type(self).__doc__),
            citation="",
            inputs_description="predictions: a logit for each label; references: the indices of the gold labels.",
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("float32")),
                    "references": datasets.Sequence(datasets.Value("int64")),
                }
            ),
        )

    def _compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        metric = self.metric(len(predictions[0]), seen=self.seen, **self.options)
        for start in range(0, len(predictions), _DOCUMENTS_AT_ONCE):
            rows = slice(start, start + _DOCUMENTS_AT_ONCE)
            metric.update(torch.tensor(predictions[rows]), pad_rows(references[rows], IGNORE))
        return dict(metric.compute())


class LabelRanking(_LabelMetric):
    """Average precision, ranking loss, one-error, coverage, and precision, recall and nDCG at `top_k` labels."""

    metric = RankingMetrics
    names = ("top_k", "propensities")


class LabelF1(_LabelMetric):
    """Micro-, macro- and example-F1 of labels whose probability reaches `threshold`, a number or `(L,)`."""

    metric = F1Metrics
    names = ("threshold", "one_label")


class LabelCalibration(_LabelMetric):
    """Expected calibration error, of all labels and of the `top_k` best, and Brier score."""

    metric = CalibrationMetrics
    names = ("bins", "top_k")


def write_metric(metric: type[_LabelMetric], folder: str | PathLike[str]) -> Path:
    """Writes a folder for `evaluate.load` or the Hub. Loading it requires hf-gile.

    Args:
        metric: A metric class of this module.
        folder: Output folder, named like the metric.

    Returns:
        Path of the metric script.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{folder.name}.py"
    text = " ".join(str(metric.__doc__).split())
    name = metric.__name__
    script.write_text(f'"""{text}"""\n\nfrom {__name__} import {name}\n\n__all__ = ["{name}"]\n', encoding="utf-8")
    (folder / "requirements.txt").write_text("hf-gile[export]\n", encoding="utf-8")
    (folder / "README.md").write_text(
        f"---\ntitle: {name}\nsdk: gradio\ntags:\n- evaluate\n- metric\n---\n\n# {name}\n\n{text}\n\nOptions: "
        f"{', '.join(f'`{name}`' for name in ('seen', *metric.names))}.\n",
        encoding="utf-8",
    )
    return script
