"""Are promised recalls kept? `hf-gile calibrate --objective recall@R`, measured on other documents.

    python benchmarks/promised_recall.py --data DATA --model pubmed_mesh=KEPT/pubmed_mesh-1/runs/auto/model --cache KEPT

The model is the default of `hf-gile train` (see benchmarks/kept_scores.py). What is promised is the expected share of
the right labels of a document that are in its list, of seen labels and of unseen ones apart. Two ways to fit:

    validation    on validation documents, which have no unseen label: nothing is promised of these, and they have the
                  threshold that `hf-gile calibrate` leaves them
    alike         on one half of the test documents, measured on the other half, and the other way round: documents that
                  have unseen labels as those to come will

`recall` is the mean over documents with such labels, `labels` the labels of the group in the list of a document.

Writes results/promised_recall.json, keyed by set; sets that are not run stay.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from kept_scores import Kept, measure_each, parse
from obvious_systems import batches, padded
from torch import Tensor

from hf_gile.models.search_gile import calibrated
from hf_gile.training.calibration import fit_promise

RECALLS = (0.7, 0.8, 0.9)
SEED = 1
VALIDATION = 1000
GROUPS = {"seen": True, "unseen": False}


def main() -> None:
    options = parse(__doc__)
    measure_each(options, "promised_recall", SEED, lambda kept: measure(kept, options.documents))


def measure(kept: Kept, most: int) -> dict[str, Any]:
    """The figures of a set."""
    task, seen = kept.task, kept.seen
    validation, test = kept.logits("validation", min(most, VALIDATION)), kept.logits("test", most)
    of_validation, of_test = task.gold["validation"][: len(validation)], task.gold["test"][: len(test)]
    order = np.random.default_rng(SEED).permutation(len(test))
    halves = [order[::2], order[1::2]]
    found: dict[str, Any] = {"validation": {}, "alike": {}}
    for recall in RECALLS:
        # As the command does it: seen labels and the unseen ones that documents have are candidates.
        fitted = fit_promise(passing(validation[:, seen], of_validation), seen[seen], "spline", recall)
        config = kept.model.config
        left = config.calibration | fitted.calibration, config.thresholds | fitted.thresholds
        found["validation"][str(recall)] = measured(test, of_test, seen, *left)
        runs = []
        for half, other in (halves, halves[::-1]):
            own = fit_promise(passing(test[half], [of_test[row] for row in half]), seen, "spline", recall)
            of_other = [of_test[row] for row in other]
            runs.append(measured(test[other], of_other, seen, own.calibration, own.thresholds))
        found["alike"][str(recall)] = {
            group: {name: float(np.mean([run[group][name] for run in runs])) for name in runs[0][group]}
            for group in runs[0]
        }
    return {"documents": {"validation": len(validation), "test": len(test)}, "fitted_on": found}


def passing(logits: Tensor, gold: list[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of logits and gold columns."""
    for rows in batches(len(logits)):
        yield logits[rows], padded(gold[rows])


def measured(
    logits: Tensor, gold: list[list[int]], seen: Tensor, calibration: dict[str, Any], thresholds: dict[str, float]
) -> dict[str, dict[str, float]]:
    """Of each group the mean recall of documents, and the labels in their lists."""
    probabilities = calibrated(logits, seen, calibration).sigmoid()
    default = next(iter(thresholds.values()))
    figures = {}
    for group, is_seen in GROUPS.items():
        columns = seen == is_seen
        listed = (probabilities >= thresholds.get(group, default)) & columns
        own = [[column for column in row if bool(columns[column])] for row in gold]
        recalls = [float(listed[place, row].double().mean()) for place, row in enumerate(own) if row]
        figures[group] = {
            "recall": float(np.mean(recalls)),
            "labels": float(listed.sum(1).double().mean()),
            "documents": float(len(recalls)),
        }
    return figures


if __name__ == "__main__":
    main()
