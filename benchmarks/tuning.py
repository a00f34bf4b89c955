"""Measures whether tuning a pretrained encoder by LoRA with mined negatives pays, on library records of TIBKAT.

    python benchmarks/tuning.py --data FOLDER --encoder FOLDER     # 2,000 records, 128 tokens, one epoch

The encoder is tuned as in recipes/train_units.py with `--units gile_rows --lora_rank 8 --hard_negatives 8`. Rows are
the encoder as it is ("frozen") and the tuned one, by the cosine of texts and label names; with --fits also with the
head that `hf-gile train` fits over a frozen encoder, which takes longer than the rest. Seen labels are ranked among the
seen ones, and unseen labels among the unseen ones, so that the two can come from different encoders; "among all" ranks
unseen labels among all.

Writes results/tuning.json. benchmarks/gpu.py runs the same with all records and --fits, and chooses the learning rate
on validation records.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from machine import stay_offline, write_results
from obvious_sets import Documents, Task, gnd_labels, make_task, read_lines, tibkat_record, tibkat_training
from obvious_systems import batches, padded
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, TrainingArguments

from hf_gile.data.zero_shot import SALT, hash_fraction
from hf_gile.metrics import LabelMetrics
from hf_gile.training.encoders import prompt_of
from hf_gile.training.fit import fit
from hf_gile.training.options import STEPS, Options
from hf_gile.training.pretrained import pretrained_encoder
from hf_gile.training.study import Study
from hf_gile.training.task import TextTask

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.unit_runs import UnitTrainer
from papers.unit_settings import UnitSettings

FIGURES = {
    "seen_recall_at_10": "seen, recall at 10",
    "unseen_recall_at_10": "unseen, recall at 10",
    "seen_average_precision": "seen, AvgPr",
    "unseen_average_precision": "unseen, AvgPr",
    "unseen_among_all_average_precision": "unseen among all, AvgPr",
}
"""Columns of the table, by metric."""

UNIT = "gile_rows"


@dataclass(frozen=True)
class Sizes:
    """Sizes of an experiment.

    Args:
        records: Number of training records.
        validation: Number of validation records.
        tests: Number of test records.
        tokens: Number of tokens read of a record.
        batch: Number of records of a training step.
        rank: Rank of the adapters.
        negatives: Number of negatives mined for a record.
        rates: Learning rates of the adapters; if there are several, the validation chooses one.
        fits: Whether to fit heads.
    """

    records: int = 2000
    validation: int = 400
    tests: int = 1000
    tokens: int = 128
    batch: int = 16
    rank: int = 8
    negatives: int = 8
    rates: Sequence[float] = (5e-4,)
    fits: bool = False


@dataclass(frozen=True)
class Machine:
    """Where models run.

    Args:
        device: "cuda" or "cpu".
        seed: Random seed.
        folder: Folder for checkpoints and for the tuned encoders.
    """

    device: str
    seed: int
    folder: Path

    def arguments(self, name: str, sizes: Sizes, **steps: Any) -> TrainingArguments:
        """Returns the training arguments of a run."""
        is_cpu = self.device == "cpu"
        fixed = {"seed": self.seed, "use_cpu": is_cpu, "bf16": not is_cpu, "disable_tqdm": True}
        steps = {**STEPS, **fixed, "per_device_train_batch_size": sizes.batch, **steps}
        return TrainingArguments(str(self.folder / name), **steps)


def read_task(data: Path, sizes: Sizes) -> Task:
    """Reads English records, the first by a hash of their texts; labels are all subjects."""
    documents: Documents = tibkat_training(data, "en")
    documents["test"] = [tibkat_record(row) for row in read_lines(data / "tibkat" / "dev.en.jsonl.gz")]
    numbers = {"train": sizes.records, "validation": sizes.validation, "test": sizes.tests}
    for part, rows in documents.items():
        documents[part] = sorted(rows, key=lambda row: hash_fraction("document", row[0], SALT))[: numbers[part]]
    labels = gnd_labels(read_lines(data / "tibkat" / "gnd_labels.jsonl.gz"), "en")
    return make_task("tibkat_en", documents, labels, titled=True)


def measure(task: Task, encoder: Path, sizes: Sizes, machine: Machine) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields rows of figures: the encoder as it is, the runs that tune it, and the tuned encoder."""
    prompt = prompt_of(str(encoder))
    yield "cosine, frozen", measure_cosine(task, encoder, prompt, sizes, machine)
    scores: dict[float, float] = {}
    for rate in sizes.rates:
        start = time.perf_counter(), time.process_time()
        scores[rate] = tune(task, encoder, rate, sizes, machine)
        yield f"tuning, rate {rate:g}", {"validation_average_precision": scores[rate], **since(*start)}
    tuned = machine.folder / f"{max(scores, key=lambda rate: scores[rate]):g}" / "encoder"
    yield "cosine, tuned", measure_cosine(task, tuned, prompt, sizes, machine)
    if sizes.fits:
        yield "fit, frozen", measure_fit(task, encoder, prompt, sizes, machine)
        yield "fit, tuned", measure_fit(task, tuned, prompt, sizes, machine)


def tune(task: Task, encoder: Path, rate: float, sizes: Sizes, machine: Machine) -> float:
    """Tunes and saves an encoder; returns the average precision of validation records after the epoch, in 0..1."""
    settings = UnitSettings(
        units=[UNIT],
        text_encoder=str(encoder),
        text_encoder_learning_rate=rate,
        lora_rank=sizes.rank,
        max_words=sizes.tokens,
        negatives="in_batch",
        hard_negatives=sizes.negatives,
        label_row_dropout=0.5,
        lexical=False,
        **fixed_options(prompt_of(str(encoder))),
    )
    seen = range(task.num_seen)
    args = machine.arguments(f"{rate:g}", sizes, num_train_epochs=1, learning_rate=2e-3)
    study = Study(settings, args, text_task(task, seen))
    experiment = UnitTrainer(study).train(UNIT)
    folder = machine.folder / f"{rate:g}" / "encoder"
    pretrained_encoder(experiment.model).save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder, trust_remote_code=False).save_pretrained(folder)
    return float(experiment.fitted["history"][-1]["eval_validation_average_precision"])


def measure_cosine(task: Task, encoder: Path, prompt: str, sizes: Sizes, machine: Machine) -> dict[str, float]:
    """Measures the ranking of labels by the cosine of the vectors of test records and of label names."""
    start = time.perf_counter(), time.process_time()
    texts, names = (
        vectors([prompt + text for text in texts], encoder, sizes, machine)
        for texts in (task.texts["test"], task.names)
    )
    metrics = LabelMetrics(len(names), task.labels.seen, top_k=(10,))
    for rows in batches(len(texts)):
        metrics.update(texts[rows] @ names.T, padded(task.gold["test"][rows]))
    return chosen(metrics.compute()) | since(*start)


@torch.inference_mode()
def vectors(texts: Sequence[str], encoder: Path, sizes: Sizes, machine: Machine) -> Tensor:
    """Returns the `(N, P)` vectors of texts, of length 1: means over tokens."""
    tokenizer = AutoTokenizer.from_pretrained(encoder, trust_remote_code=False)
    model = AutoModel.from_pretrained(encoder, trust_remote_code=False).to(machine.device).eval()
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    found = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        options = {"padding": True, "truncation": True, "max_length": sizes.tokens, "return_tensors": "pt"}
        inputs = tokenizer([texts[row] for row in rows], **options).to(machine.device)
        mask = inputs["attention_mask"][:, :, None]
        sums = (model(**inputs).last_hidden_state * mask).sum(1)
        found[rows] = normalize(sums, dim=-1).float().cpu()
    return found


def measure_fit(task: Task, encoder: Path, prompt: str, sizes: Sizes, machine: Machine) -> dict[str, float]:
    """Measures a head that is fitted over the frozen encoder, as by `hf-gile train`."""
    start = time.perf_counter(), time.process_time()
    options = Options(text_encoder=str(encoder), max_words=sizes.tokens, **fixed_options(prompt))
    args = machine.arguments(f"fit-{encoder.parent.name}", sizes)
    experiment = fit(Study(options, args, text_task(task, range(len(task.labels)))))
    return chosen(experiment.test().metrics) | since(*start)


def text_task(task: Task, columns: range) -> TextTask:
    """Returns the records with some labels, those of the first columns, as `fit` reads them."""
    labels = task.labels[columns.start : columns.stop]
    parts = {}
    for part, texts in task.texts.items():
        ids = [[labels[column].id for column in row if column in columns] for row in task.gold[part]]
        parts[part] = Dataset.from_dict({"text": texts, "labels": ids}).filter(lambda row: bool(row["labels"]))
    return TextTask(parts, labels)


def fixed_options(prompt: str) -> dict[str, Any]:
    """Returns the options that all runs share."""
    prompts = {"text_prompt": prompt, "label_prompt": prompt}
    return {**prompts, "label_texts": "name", "calibration": "none", "baselines": False, "make_cards": False}


def chosen(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics of the table, in percent."""
    return {name: 100 * metrics[name] for name in FIGURES}


def since(start: float, cpu_start: float) -> dict[str, float]:
    """Returns the seconds since a start."""
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Formats rows as those of the page."""
    lines = [f"| | {' | '.join(FIGURES.values())} |", f"| --- |{' --- |' * len(FIGURES)}"]
    for name, figures in rows.items():
        if FIGURES.keys() <= figures.keys():
            lines.append(f"| {name} | {' | '.join(f'{figures[metric]:.1f}' for metric in FIGURES)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of tibkat")
    parser.add_argument("--encoder", type=Path, required=True, help="folder of the encoder, such as all-MiniLM-L6-v2")
    parser.add_argument("--fits", action="store_true", help="also fit heads")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    stay_offline()
    sizes = Sizes(fits=options.fits)
    task = read_task(options.data, sizes)
    numbers = {"labels": len(task.labels), "seen": task.num_seen, "encoder": options.encoder.parent.name}
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, figures in measure(task, options.encoder, sizes, Machine("cpu", options.seed, Path(folder))):
            rows[name] = figures
            print(name, figures, flush=True)
            write_results("tuning", {"sizes": {**asdict(sizes), **numbers}, "rows": rows}, options.seed)
    print(table(rows))


if __name__ == "__main__":
    main()
