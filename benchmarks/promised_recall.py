"""Measures whether the recall promised by `hf-gile calibrate --objective recall@R` holds on new documents.

    python benchmarks/promised_recall.py --data DATA --model pubmed_mesh=FOLDER --cache FOLDER

The model is the default of `hf-gile train` (see benchmarks/saved_models.py). The promised recall is the expected share
of a document's labels that its list contains, for seen and for unseen labels. Thresholds are fitted in two ways:

    validation    on validation documents. They have no unseen labels, so nothing is promised for these, and their
                  threshold is the one that `hf-gile calibrate` stores
    alike         on one half of the test documents, measured on the other half, and vice versa: both halves have unseen
                  labels, as future documents will

`recall` is the mean over documents with labels of the group; `labels` is the mean number of labels of the group in a
list.

Writes results/promised_recall.json, keyed by data set. Entries of other data sets are preserved.
"""

from typing import Any

import numpy as np
from obvious_systems import batches, padded
from saved_models import SavedModel, measure_each, parse
from torch import Tensor

from hf_gile.models.search_gile import calibrated
from hf_gile.training.calibration import Calibration, fit
from hf_gile.training.calibration.score_counts import ScoreCounts

RECALLS = (0.7, 0.8, 0.9)
SEED = 1
VALIDATION = 1000
GROUPS = {"seen": True, "unseen": False}


def main() -> None:
    options = parse(__doc__)
    measure_each(options, "promised_recall", SEED, lambda saved: measure(saved, options.documents))


def measure(saved: SavedModel, limit: int) -> dict[str, Any]:
    """Measures the recall of each group of labels for each promise."""
    task, seen = saved.task, saved.seen
    validation, test = saved.logits("validation", min(limit, VALIDATION)), saved.logits("test", limit)
    validation_gold, test_gold = task.gold["validation"][: len(validation)], task.gold["test"][: len(test)]
    order = np.random.default_rng(SEED).permutation(len(test))
    halves = [order[::2], order[1::2]]
    figures: dict[str, Any] = {"validation": {}, "alike": {}}
    for recall in RECALLS:
        # Like the command: candidates are the seen labels and the unseen labels that occur in documents.
        fitted = fit_promise(validation[:, seen], validation_gold, seen[seen], recall)
        config = saved.model.config
        merged = config.calibration | fitted.calibration, config.thresholds | fitted.thresholds
        figures["validation"][str(recall)] = measured(test, test_gold, seen, *merged)
        runs = []
        for half, other in (halves, halves[::-1]):
            fitted = fit_promise(test[half], [test_gold[row] for row in half], seen, recall)
            other_gold = [test_gold[row] for row in other]
            runs.append(measured(test[other], other_gold, seen, fitted.calibration, fitted.thresholds))
        figures["alike"][str(recall)] = {
            group: {name: float(np.mean([run[group][name] for run in runs])) for name in runs[0][group]}
            for group in runs[0]
        }
    return {"documents": {"validation": len(validation), "test": len(test)}, "fitted_on": figures}


def fit_promise(logits: Tensor, gold: list[list[int]], seen: Tensor, recall: float) -> Calibration:
    """Fits "spline" and thresholds that guarantee a recall, on `(N, C)` logits and the gold columns of N documents."""
    counts = ScoreCounts(seen, recall=recall)
    for rows in batches(len(logits)):
        counts.update(logits[rows], padded(gold[rows]))
    return fit(counts)


def measured(
    logits: Tensor, gold: list[list[int]], seen: Tensor, calibration: dict[str, Any], thresholds: dict[str, float]
) -> dict[str, dict[str, float]]:
    """Returns for each group the mean recall of documents and the mean number of labels in their lists."""
    probabilities = calibrated(logits, seen, calibration).sigmoid()
    default = next(iter(thresholds.values()))
    figures = {}
    for group, is_seen in GROUPS.items():
        columns = seen == is_seen
        listed = (probabilities >= thresholds.get(group, default)) & columns
        group_gold = [[column for column in row if bool(columns[column])] for row in gold]
        recalls = [float(listed[row, wanted].double().mean()) for row, wanted in enumerate(group_gold) if wanted]
        figures[group] = {
            "recall": float(np.mean(recalls)),
            "labels": float(listed.sum(1).double().mean()),
            "documents": float(len(recalls)),
        }
    return figures


if __name__ == "__main__":
    main()
