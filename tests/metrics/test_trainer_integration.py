import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, label_ranking_average_precision_score, label_ranking_loss
from torch import nn
from transformers import Trainer, TrainingArguments

from hf_gile.metrics import LabelMetrics

N, H, L = 23, 7, 13
SEEN = np.arange(L) % 3 != 1


class TinyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(H, L)

    def forward(self, features, labels=None):
        logits = self.linear(features)
        return {"loss": logits.square().mean(), "logits": logits}


def collate(rows):
    """Pads each batch to its longest row."""
    width = max(len(row["gold"]) for row in rows)
    padded = [row["gold"] + [-100] * (width - len(row["gold"])) for row in rows]
    features = torch.stack([row["features"] for row in rows])
    return {"features": features, "labels": torch.tensor(padded).reshape(len(rows), width)}


def sklearn_metrics(scores, gold):
    some = gold.any(axis=1)
    return {
        "average_precision": label_ranking_average_precision_score(gold[some], scores[some]),
        "ranking_loss": label_ranking_loss(gold[some], scores[some]),
        "skipped": (~some).sum(),
        "micro_f1": f1_score(gold, scores >= 0, average="micro", zero_division=0),
        "macro_f1": f1_score(gold, scores >= 0, average="macro", zero_division=0),
        "example_f1": f1_score(gold, scores >= 0, average="samples", zero_division=0),
    }


@pytest.mark.parametrize("batch_eval_metrics", [True, False])
def test_evaluation_by_a_trainer_equals_scikit_learn(tmp_path, batch_eval_metrics):
    torch.manual_seed(0)
    model = TinyModel()
    random = np.random.default_rng(0)
    gold = random.random((N, L)) < 0.2
    features = torch.randn(N, H)
    rows = [
        {"features": each, "gold": chosen.nonzero()[0].tolist()} for each, chosen in zip(features, gold, strict=True)
    ]
    trainer = Trainer(
        model,
        TrainingArguments(
            output_dir=str(tmp_path),
            per_device_eval_batch_size=5,
            batch_eval_metrics=batch_eval_metrics,
            remove_unused_columns=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        ),
        data_collator=collate,
        eval_dataset=rows,
        compute_metrics=LabelMetrics(L, SEEN, chunk_size=3),
    )
    with torch.no_grad():
        scores = model(features)["logits"].numpy()
    expected = sklearn_metrics(scores, gold)
    for prefix, group in (("seen_", SEEN), ("unseen_", ~SEEN)):
        values = sklearn_metrics(scores[:, group], gold[:, group])
        expected |= {prefix + name: value for name, value in values.items()}

    for _ in range(2):
        result = trainer.evaluate()
        results = {name: result[f"eval_{name}"] for name in expected}
        assert results == pytest.approx(expected, abs=1e-12)
        assert result["eval_documents"] + result["eval_skipped"] == N
