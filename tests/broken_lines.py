"""Breaks lines of the package deliberately, one by one, and fails if the tests listed for a line still pass.

    python tests/broken_lines.py

The lines are broken in a copy. A process imports slow modules and forks for each line; the tests must first pass for
the unbroken lines.
"""

import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutation(NamedTuple):
    """A mutation: a line that occurs once in a file, its replacement, and tests that must fail."""

    file: str
    old: str
    new: str
    tests: str

    def apply(self, root: Path) -> str:
        """Returns the text of the file below a folder with the line replaced."""
        text = (root / self.file).read_text(encoding="utf-8")
        line = re.compile(rf"^( *){re.escape(self.old)}$", re.MULTILINE)
        broken, times = line.subn(lambda found: found[1] + self.new, text)
        if times != 1:
            raise SystemExit(f"{self.file} must contain this line once, not {times} times: {self.old}")
        return broken


CHANGES = r"""
hf_gile/models/scoring_gile.py: models/test_score_terms.py
- return {"joint": projected if weight is None else projected * weight[0]}
+ return {"joint": projected if weight is None else projected + weight[0]}

hf_gile/models/text_encoders_gile.py: models/test_label_index.py
- weights = (input_ids != pad_token_id).to(vectors.dtype)
+ weights = torch.ones_like(input_ids).to(vectors.dtype)

hf_gile/models/text_encoders_gile.py: models/test_family.py
- scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
+ scores = scores.masked_fill(mask & ~mask, torch.finfo(scores.dtype).min)
- weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)
+ weights = weights / weights.shape[-1]

hf_gile/models/losses_gile.py: models/test_losses.py
- return loss / len(logits)
+ return loss / logits.numel()
- return (logits.logsumexp(-1) - (logits * targets).sum(-1)).mean()
+ return (logits.logsumexp(-1) - (logits * targets).sum(-1)).sum()

hf_gile/training/losses.py: training/test_weighted_losses.py
- total = torch.where((targets > 0) & total.isneginf(), logits, total)  # an empty sum has a gradient of NaN
+ total = torch.where((targets > 1) & total.isneginf(), logits, total)  # an empty sum has a gradient of NaN

recipes/papers/chunked_training.py: recipes/test_chunked_training.py
- columns, weights = _select_candidates(step, language, labels, weights)
+ columns, _ = _select_candidates(step, language, labels, weights)

hf_gile/models/search_gile.py: models/test_label_index.py models/test_pipeline_choice.py
- scores = block if mask is None else block.masked_fill(mask[labels], -torch.inf)
+ scores = block if mask is None else block.masked_fill(~mask[labels], -torch.inf)

hf_gile/models/search_gile.py: models/test_calibrated.py
- return logits * method["scale"] + method["offset"]
+ return logits * method["scale"] - method["offset"]
- return torch.where(seen, _apply(logits, calibration["seen"]), _apply(logits, unseen) - lost)
+ return torch.where(~seen, _apply(logits, calibration["seen"]), _apply(logits, unseen) - lost)

hf_gile/models/search_gile.py: models/test_pipeline_choice.py
- passing[0] |= choice.force_label  # the best label
+ passing[0] |= True  # the best label

hf_gile/models/search_gile.py: models/test_pipeline.py
- elif choice.is_multi_label:
+ elif True:

hf_gile/models/labels_gile.py: models/test_labels.py
- return LabelSet(replace(label, count=number, seen=number > 0) for label, number in rows)
+ return LabelSet(replace(label, count=number, seen=number >= 0) for label, number in rows)
- retired = set(self.columns(label_ids))
+ retired = set(self.columns(label_ids)[:1])
- return f"{self.name}: {self.description}" if self.description else self.name
+ return self.name

hf_gile/models/pretrained_gile.py: models/test_travel.py
- return [*super()._find_stale(folder, names), LABELS_FILE, EMBEDS_FILE]
+ return [*super()._find_stale(folder, names), EMBEDS_FILE]

hf_gile/training/collator.py: training/test_label_sampling.py
- draw_weights = np.full(size, num_others / max(size, 1))
+ draw_weights = np.full(size, 1.0)
- remaining[gold] = False
+ remaining[gold] = True

recipes/papers/label_sampling.py: recipes/test_unit_sampler.py
- return drawn[others], 1 / -np.expm1(-self._rates[positions[others]])
+ return drawn[others], 1 / self._rates[positions[others]]

hf_gile/training/collator.py: training/test_collator.py training/test_trainer.py
- batch["shift_labels"] = torch.zeros(len(labels), dtype=torch.long)
+ batch["shift_labels"] = torch.full((len(labels),), -100 if len(labels) > 1 else 0)

hf_gile/metrics/ranking.py: metrics/test_ranking.py
- gain = 1 / torch.log2(1 + position.double())
+ gain = 1 / torch.log2(2 + position.double())
- "one_error": (fewest_wrong > 0).double(),
+ "one_error": (fewest_wrong > 1).double(),

hf_gile/metrics/classification.py: metrics/test_classification.py
- predicted = probabilities >= self.threshold.to(probabilities.dtype).to(probabilities.device)
+ predicted = probabilities > self.threshold.to(probabilities.dtype).to(probabilities.device)

hf_gile/data/label_columns.py: data/test_label_columns.py
- for sign in others:
+ for sign in others[1:]:

hf_gile/data/zero_shot.py: recipes/test_splits.py
- if min_count <= count <= max_count and hash_fraction("label", label, salt) < share
+ if min_count < count <= max_count and hash_fraction("label", label, salt) < share

hf_gile_cli/labels.py: hf_gile_cli/test_labels_command.py
- elif new != old and not dry_run:
+ elif new != old:

hf_gile/publishing/contents.py: publishing/test_contents.py
- elif path.is_file() and (is_managed(name) or _ADDED.fullmatch(name) or name in code):
+ elif path.is_file() and True:

hf_gile/publishing/contents.py: publishing/test_links.py
- if leads_out(path, folder):
+ if False:
"""
"""Files and tests, lines and their replacements."""


def read_changes(text: str) -> Iterator[Mutation]:
    file = tests = old = ""
    for line in text.splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "-":
            old = rest
        elif sign == "+":
            yield Mutation(file, old, rest, tests)
        elif line:
            file, tests = line.split(": ")


MUTATIONS = list(read_changes(CHANGES))


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
            path.write_text(mutation.apply(copy), encoding="utf-8")
            detected = detects(copy, mutation.tests.split())
            path.write_text(original, encoding="utf-8")
            sys.stdout.write(f"{'detected' if detected else 'SURVIVED'}  {mutation.file}: {mutation.new}\n")
            sys.stdout.flush()
            survived += [] if detected else [mutation]
    spent = time.perf_counter() - start
    sys.stdout.write(f"{len(MUTATIONS) - len(survived)} of {len(MUTATIONS)} mutations detected in {spent:.0f} s\n")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
