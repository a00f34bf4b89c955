"""Measures the processor time from the start of a command to its end, against the bare encoder, in turns.

    python benchmarks/cold_start.py MODEL --many MODEL_WITH_MANY_LABELS

The baseline is a Python process that imports `AutoModel` and `AutoTokenizer`, loads the encoder of the general scorer
and reads one text.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from machine import write_results

TEXT = "The parcel has not come yet."
BARE = """
import sys
import torch
from transformers import AutoModel, AutoTokenizer
model = AutoModel.from_pretrained(sys.argv[1]).eval()
with torch.inference_mode():
    model(**AutoTokenizer.from_pretrained(sys.argv[1])(sys.argv[2], return_tensors="pt"))
"""
GILE = [sys.executable, "-m", "hf_gile_cli"]


def processor_seconds(command: list[str]) -> float:
    """Runs a command that scores a text from standard input; returns its user and system time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, input=TEXT, text=True, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of a trained model with three labels")
    parser.add_argument("--many", help="folder of a model with many labels")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    from hf_gile.training.encoders import best_text_encoder

    encoder = best_text_encoder([TEXT])
    assert encoder is not None
    labels = ["--label", "invoice", "--label", "delivery", "--label", "password"]
    commands = {
        "bare encoder": [sys.executable, "-c", BARE, str(encoder.folder), TEXT],
        "score MODEL": [*GILE, "score", options.model],
        "score --label, three": [*GILE, "score", *labels],
        "labels show MODEL": [*GILE, "labels", "show", options.model],
        "--help": [*GILE, "--help"],
    }
    if options.many:
        commands["score MODEL, many labels"] = [*GILE, "score", options.many]
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(options.repeats + 1):
        for name, command in commands.items():
            duration = processor_seconds(command)
            if turn:  # the first reads files into memory
                times[name].append(duration)
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    bare = medians["bare encoder"]
    rows = {name: {"cpu_s": round(time, 2), "times_bare": round(time / bare, 2)} for name, time in medians.items()}
    for name, row in rows.items():
        print(f"{name:28} {row['cpu_s']:6.2f} CPU s {row['times_bare']:5.2f} times the bare encoder")
    figures = {"encoder": encoder.name, "repeats": options.repeats, "commands": rows}
    if options.many:
        figures["labels"] = len((Path(options.many) / "labels.jsonl").read_text(encoding="utf-8").splitlines())
    write_results("cold_start", figures)


if __name__ == "__main__":
    main()
