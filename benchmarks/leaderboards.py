r"""Measures a model on two leaderboards, with their packages: BTZSC (macro-F1) and the skills of WorkRB (RP at 10).

    pip install btzsc && python benchmarks/leaderboards.py btzsc --output btzsc.json
    pip install workrb && python benchmarks/leaderboards.py workrb --output workrb

The general scorer is measured unless `--model` names a saved model. Texts are in English. The packages download their
data, BTZSC from the Hub, WorkRB from the Hub and the European Commission.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.training.encoding import batches_by_length
from hf_gile_cli.saved_model import load

SKILLS = ("HouseSkillExtractRanking", "TechSkillExtractRanking", "TechWolfSkillExtractRanking")
"""Tasks of WorkRB that rank the skills of ESCO for a sentence."""


class Scorer:
    """Scores texts against labels by the names of the labels.

    Args:
        model: The model, whose stored labels are replaced.
        processor: Its processor.
    """

    def __init__(self, model: GileForSequenceClassification, processor: GileProcessor) -> None:
        self.model = model
        self.processor = processor

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], labels: Sequence[str], batch_size: int = 32) -> Tensor:
        """Returns `(N, L)` logits of N texts and L labels, of which several may have the same name."""
        columns = {name: column for column, name in enumerate(dict.fromkeys(labels))}
        self.model.set_labels(LabelSet.from_names([*columns]), self.processor)
        logits = torch.empty(len(texts), len(columns))
        for rows in batches_by_length([len(text) for text in texts], batch_size):
            inputs = self.processor([texts[row] for row in rows], return_tensors="pt")
            logits[rows] = self.model(**inputs.to(self.model.device)).logits.float().cpu()
        return logits[:, [columns[name] for name in labels]]


def for_btzsc(scorer: Scorer, name: str) -> Any:
    """Returns a model for `BTZSCBenchmark.evaluate`."""
    from btzsc.models.base import BaseModel

    class Gile(BaseModel):
        model_type = "embedding"
        model_name = name
        model = scorer.model  # its type and device are reported

        def predict_scores(self, texts: list[str], labels: list[str], batch_size: int = 32) -> Any:
            return scorer(texts, labels, batch_size).numpy()

        def predict(self, texts: list[str], labels: list[str], batch_size: int = 32) -> Any:
            return self.predict_scores(texts, labels, batch_size).argmax(axis=1)

    return Gile()


def for_workrb(scorer: Scorer, model_name: str) -> Any:
    """Returns a model for `workrb.evaluate`."""
    from workrb.models.base import ModelInterface

    class Gile(ModelInterface):
        name = model_name
        description = "Scores a text against labels by the names of the labels, with hf_gile."
        classification_label_space = None  # any labels

        def _compute_rankings(self, queries: list[str], targets: list[str], *types: Any, **names: Any) -> Tensor:
            return scorer(queries, targets)

        def _compute_classification(self, texts: list[str], targets: list[str], *types: Any, **names: Any) -> Tensor:
            return scorer(texts, targets)

    return Gile()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leaderboard", choices=("btzsc", "workrb"))
    parser.add_argument("--model", default="general", help="folder of a saved model, or its name on the Hub")
    parser.add_argument("--output", required=True, help="file of results for BTZSC, folder for WorkRB")
    given = parser.parse_args()
    scorer = Scorer(*load(given.model))
    if given.leaderboard == "btzsc":
        from btzsc import BTZSCBenchmark

        results = BTZSCBenchmark().evaluate(for_btzsc(scorer, given.model))
        results.to_json(given.output)
        print(results.compare_baselines(metric="f1"))
    else:
        import workrb

        tasks = [getattr(workrb.tasks, task)(split="test", languages=["en"]) for task in SKILLS]
        print(workrb.evaluate(for_workrb(scorer, given.model), tasks, output_folder=given.output))


if __name__ == "__main__":
    main()
