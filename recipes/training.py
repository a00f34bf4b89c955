"""What the recipes have in common: what they print, how they read, results and their curves."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from hf_gile.training.experiment import short_name
from hf_gile.writing import whole_file


def printer(args: TrainingArguments) -> Callable[..., None]:
    """What prints, in one of the processes alone.

    Args:
        args: The training arguments.
    """
    return print if args.process_index == 0 else (lambda *_: None)


@contextmanager
def reading(args: TrainingArguments, what: str) -> Iterator[None]:
    """Reads files in one process first, which fills the caches of the others; ends with a sentence if it cannot.

    Args:
        args: The training arguments.
        what: What is read.

    Raises:
        SystemExit: A file cannot be read, or what it says makes no sense.
    """
    with args.main_process_first(desc=f"reading {what}"):
        try:
            yield
        except (ValueError, OSError) as error:
            raise SystemExit(str(error)) from None


def write_results(folder: Path, results: Mapping[str, Any], metrics: Mapping[str, str]) -> None:
    """Writes `results.json`, and `curves.png` with loss and metric against the step.

    Args:
        folder: Where to write.
        results: What `fit` returned, by the name of the model.
        metrics: The figure to draw of each model, a key of its history.
    """
    with whole_file(folder / "results.json") as written:
        written.write_text(json.dumps(results, indent=1), encoding="utf-8")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for name, metric in metrics.items():
        curves = results[name]
        (line,) = above.plot(*zip(*curves["losses"], strict=True), label=name) if curves["losses"] else above.plot([])
        points = [(entry["step"], 100 * entry[metric]) for entry in curves["history"] if metric in entry]
        below.plot(*zip(*points, strict=True), marker="o", color=line.get_color(), label=name)
        below.set_ylabel(f"validation {short_name(metric)}, percent")
    above.set_ylabel("training loss")
    below.set_xlabel("step")
    below.legend()
    for axes in (above, below):
        axes.grid(alpha=0.3)
    with whole_file(folder / "curves.png") as written:
        figure.savefig(written, dpi=120)
    pyplot.close(figure)


CLEAN_PROCESS = """
import json, sys
sys.modules["hf_gile"] = None  # whatever is installed, only the folder counts
from transformers import pipeline
request = json.load(sys.stdin)
pipe = pipeline(model=request["folder"], trust_remote_code=True)
for labels in (None, request["labels"]):
    answer = pipe(request["text"], candidate_labels=labels, top_k=10)
    for name, score in zip(answer["labels"], answer["scores"]):
        print(f"  {score:8.4f}  {''.join(sign if sign.isprintable() else ' ' for sign in name)}")
    print()
"""


def score_elsewhere(folder: Path, text: str, labels: list[str]) -> None:
    """Loads a saved folder in a process without hf_gile, and prints scores of its stored labels and of others.

    Args:
        folder: The folder.
        text: What to score.
        labels: The other labels.
    """
    request = json.dumps({"folder": str(folder), "text": text, "labels": labels})
    subprocess.run([sys.executable, "-c", CLEAN_PROCESS], input=request, text=True, check=True)
