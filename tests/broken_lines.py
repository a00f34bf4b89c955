"""Breaks lines of the package deliberately, one by one, and fails if the tests listed for a line still pass.

    python tests/broken_lines.py

The lines are broken in a copy. A process imports slow modules and forks for each line; the tests must first pass for
the unbroken lines.
"""

import os
import shutil
import sys
import tempfile
import time
import traceback
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """A mutation: text that occurs once in a file, its replacement, and tests that must fail."""

    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "hf_gile/models/scoring_gile.py",
        "else projected * weight[0]}",
        "else projected + weight[0]}",
        "models/test_score_terms.py",
    ),
    Mutation(
        "hf_gile/models/text_encoders_gile.py",
        "weights = (input_ids != pad_token_id).to(vectors.dtype)",
        "weights = torch.ones_like(input_ids).to(vectors.dtype)",
        "models/test_label_index.py",
    ),
    Mutation(
        "hf_gile/models/text_encoders_gile.py",
        "scores.masked_fill(~mask, torch.finfo(scores.dtype).min)",
        "scores.masked_fill(mask & ~mask, torch.finfo(scores.dtype).min)",
        "models/test_family.py",
    ),
    Mutation(
        "hf_gile/models/text_encoders_gile.py",
        "weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)",
        "weights = weights / weights.shape[-1]",
        "models/test_family.py",
    ),
    Mutation(
        "hf_gile/models/losses_gile.py",
        "return loss / len(logits)\n",
        "return loss / logits.numel()\n",
        "models/test_losses.py",
    ),
    Mutation(
        "hf_gile/models/losses_gile.py",
        "(logits * targets).sum(-1)).mean()",
        "(logits * targets).sum(-1)).sum()",
        "models/test_losses.py",
    ),
    Mutation(
        "hf_gile/training/losses.py",
        "(targets > 0) & total.isneginf(), logits, total",
        "(targets > 1) & total.isneginf(), logits, total",
        "training/test_weighted_losses.py",
    ),
    Mutation(
        "hf_gile/training/losses.py",
        "columns, weights = step.select_candidates(language, labels, weights)",
        "columns, _ = step.select_candidates(language, labels, weights)",
        "training/test_chunked_training.py",
    ),
    Mutation(
        "hf_gile/models/search_gile.py",
        "block.masked_fill(mask[labels], -torch.inf)",
        "block.masked_fill(~mask[labels], -torch.inf)",
        "models/test_label_index.py models/test_pipeline_choice.py",
    ),
    Mutation(
        "hf_gile/models/search_gile.py",
        'logits * method["scale"] + method["offset"]',
        'logits * method["scale"] - method["offset"]',
        "models/test_calibrated.py",
    ),
    Mutation(
        "hf_gile/models/search_gile.py",
        'torch.where(seen, _apply(logits, calibration["seen"])',
        'torch.where(~seen, _apply(logits, calibration["seen"])',
        "models/test_calibrated.py",
    ),
    Mutation(
        "hf_gile/models/search_gile.py",
        "passing[0] |= choice.force_label",
        "passing[0] |= True",
        "models/test_pipeline_choice.py",
    ),
    Mutation(
        "hf_gile/models/search_gile.py",
        "elif choice.is_multi_label:",
        "elif True:",
        "models/test_pipeline.py",
    ),
    Mutation(
        "hf_gile/models/labels_gile.py",
        "count=number, seen=number > 0)",
        "count=number, seen=number >= 0)",
        "models/test_labels.py",
    ),
    Mutation(
        "hf_gile/models/labels_gile.py",
        "retired = set(self.columns(label_ids))",
        "retired = set(self.columns(label_ids)[:1])",
        "models/test_labels.py",
    ),
    Mutation(
        "hf_gile/models/labels_gile.py",
        'return f"{self.name}: {self.description}" if self.description else self.name',
        "return self.name",
        "models/test_labels.py",
    ),
    Mutation(
        "hf_gile/models/pretrained_gile.py",
        "return [*super()._find_stale(folder, names), LABELS_FILE, EMBEDS_FILE]",
        "return [*super()._find_stale(folder, names), EMBEDS_FILE]",
        "models/test_travel.py",
    ),
    Mutation(
        "hf_gile/training/collator.py",
        "np.full(size, num_others / max(size, 1))",
        "np.full(size, 1.0)",
        "training/test_label_sampling.py",
    ),
    Mutation(
        "hf_gile/training/collator.py",
        "remaining[gold] = False",
        "remaining[gold] = True",
        "training/test_label_sampling.py",
    ),
    Mutation(
        "recipes/papers/label_sampling.py",
        "1 / -np.expm1(-self._rates[positions[others]])",
        "1 / self._rates[positions[others]]",
        "recipes/test_unit_sampler.py",
    ),
    Mutation(
        "hf_gile/training/collator.py",
        'batch["shift_labels"] = torch.zeros(',
        'batch["shift_labels"] = torch.full_like(labels[:, 0], -100) if len(labels) > 1 else torch.zeros(',
        "training/test_collator.py training/test_trainer.py",
    ),
    Mutation(
        "hf_gile/metrics/ranking.py",
        "gain = 1 / torch.log2(1 + position.double())",
        "gain = 1 / torch.log2(2 + position.double())",
        "metrics/test_ranking.py",
    ),
    Mutation(
        "hf_gile/metrics/ranking.py",
        "(fewest_wrong > 0).double()",
        "(fewest_wrong > 1).double()",
        "metrics/test_ranking.py",
    ),
    Mutation(
        "hf_gile/metrics/classification.py",
        "predicted = probabilities >= self.threshold",
        "predicted = probabilities > self.threshold",
        "metrics/test_classification.py",
    ),
    Mutation(
        "hf_gile/data/label_columns.py",
        "for sign in others:",
        "for sign in others[1:]:",
        "data/test_label_columns.py",
    ),
    Mutation(
        "hf_gile/data/zero_shot.py",
        "if min_count <= count <= max_count and hash_fraction",
        "if min_count < count <= max_count and hash_fraction",
        "recipes/test_zero_shot.py",
    ),
    Mutation(
        "hf_gile_cli/labels.py",
        "elif new != old and not dry_run:",
        "elif new != old:",
        "hf_gile_cli/test_labels_command.py",
    ),
    Mutation(
        "hf_gile/publishing/contents.py",
        "(is_managed(name) or _ADDED.fullmatch(name) or name in code)",
        "True",
        "publishing/test_contents.py",
    ),
    Mutation(
        "hf_gile/publishing/contents.py",
        "    if leads_out(path, folder):",
        "    if False:",
        "publishing/test_links.py",
    ),
]
"""Score formula, masks, losses, search, calibration, pipeline, label set, save, sampling, metrics, readers, command,
publishing.
"""


def detects(copy: Path, tests: list[str]) -> bool:
    """Runs tests of a copy in a fork of this process; returns whether a test failed.

    Args:
        copy: The folder.
        tests: Files below `tests`.

    Raises:
        SystemExit: The tests could not be run.
    """
    log = copy / "log"
    child = os.fork()
    if child == 0:
        try:
            code = _run(copy, log, tests)
        except BaseException:
            traceback.print_exc()
            code = 9
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 1):
        raise SystemExit(f"pytest ended with {code}:\n{log.read_text()[-3000:]}")
    return code == 1


def _run(copy: Path, log: Path, tests: list[str]) -> int:
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    import pytest

    import hf_gile

    assert Path(hf_gile.__file__).is_relative_to(copy), hf_gile.__file__
    return int(
        pytest.main(["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)])
    )


def main() -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    sys.dont_write_bytecode = True  # since lines change within a second
    import datasets  # noqa: F401
    import sklearn.metrics  # noqa: F401
    from transformers import BertModel, BertTokenizer, Trainer, pipeline  # noqa: F401

    start, survived = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "copy"
        ignored = shutil.ignore_patterns(".*", "__pycache__", "runs")
        shutil.copytree(ROOT, copy, ignore=ignored)
        named = sorted({test for mutation in MUTATIONS for test in mutation.tests.split()})
        for _, together in groupby(named, lambda test: test.partition("/")[0]):  # each folder has a conftest.py
            if detects(copy, [*together]):
                raise SystemExit(f"tests fail without a mutation:\n{(copy / 'log').read_text()[-3000:]}")
        for mutation in MUTATIONS:
            path = copy / mutation.file
            original = path.read_text(encoding="utf-8")
            if original.count(mutation.old) != 1:
                raise SystemExit(
                    f"{mutation.file} must contain this once, not {original.count(mutation.old)} times: {mutation.old}"
                )
            path.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
            detected = detects(copy, mutation.tests.split())
            path.write_text(original, encoding="utf-8")
            sys.stdout.write(f"{'detected' if detected else 'SURVIVED'}  {mutation.file}: {mutation.new.strip()}\n")
            sys.stdout.flush()
            survived += [] if detected else [mutation]
    spent = time.perf_counter() - start
    sys.stdout.write(f"{len(MUTATIONS) - len(survived)} of {len(MUTATIONS)} mutations detected in {spent:.0f} s\n")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
