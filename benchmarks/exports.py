"""Measures the average precision and speed of exports: Sentence Transformers, ONNX and ONNX in 8 bits.

    python benchmarks/exports.py --data FOLDER

Trains the default model of `hf-gile train`, and a model without word terms, on 8 utterances of each of 150 intents
(clinc150; 2 more for validation). Exports both models and scores the test utterances, 32 at a time.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime
import torch
from machine import write_results
from obvious_sets import SETS
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from hf_gile.exports import export_onnx, export_sentence_transformers
from hf_gile.exports.onnx_files import INT8_FILE, MODEL_FILE
from hf_gile.metrics import LabelMetrics
from hf_gile.sklearn import GileClassifier

BATCH = 32
Score = Callable[[Sequence[str]], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    task = SETS["clinc150_few"](parser.parse_args().data, 1)
    texts = [text for part in ("train", "validation") for text in task.texts[part]]
    intents = [task.labels[row[0]].id for part in ("train", "validation") for row in task.gold[part]]
    ways: dict[str, Score] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in {"words": {}, "no words": {"lexical": False}}.items():
            model = GileClassifier(task.labels, settings=settings, validation=0.2).fit(texts, intents)
            columns = torch.tensor([model.labels_.column(label.id) for label in task.labels])
            ways |= export_all(model, Path(folder) / name, name, columns)
        figures = measure(ways, task.texts["test"], torch.tensor(task.gold["test"]))
    print(write_results("exports", {"set": task.name, "documents": len(task.texts["test"]), "runs": figures}))


def export_all(classifier: GileClassifier, folder: Path, name: str, columns: Tensor) -> dict[str, Score]:
    """Exports a model and returns the scoring functions of the model and its exports.

    Args:
        classifier: The fitted classifier.
        folder: Folder for the exports.
        name: Name of the model in the results.
        columns: Columns of the labels, in the order of the task.
    """
    model, processor = classifier.model_, classifier.processor_

    def by_model(texts: Sequence[str]) -> Tensor:
        return model(**processor(list(texts), return_tensors="pt")).logits[:, columns]

    export_sentence_transformers(model, processor, folder / "st", without_words=True)
    encoder, labels = SentenceTransformer(str(folder / "st"), device="cpu"), load_file(folder / "st/labels.safetensors")

    def by_vectors(texts: Sequence[str]) -> Tensor:
        vectors = encoder.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)
        return (vectors @ labels["codes"].T)[:, columns]

    ways: dict[str, Score] = {f"model, {name}": by_model, f"sentence-transformers, {name}": by_vectors}
    if name == "no words":
        export_onnx(model, processor, folder / "onnx", int8=True)
        for kind, file in (("ONNX", MODEL_FILE), ("ONNX, 8 bits", INT8_FILE)):
            ways[f"{kind}, {name}"] = by_onnx(folder / "onnx" / file, processor, columns)
    return ways


def by_onnx(path: Path, processor: Any, columns: Tensor) -> Score:
    """Loads an ONNX file and returns its scoring function, which uses as many threads as torch."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options)

    def score(texts: Sequence[str]) -> Tensor:
        ids = processor(list(texts), return_tensors="pt")["input_ids"]
        mask = (ids != processor.tokenizer.pad_token_id).long()
        scores = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
        return torch.from_numpy(scores)[:, columns]

    return score


@torch.no_grad()
def measure(ways: dict[str, Score], texts: Sequence[str], gold: Tensor) -> dict[str, dict[str, float]]:
    """Measures all ways, which take turns batch by batch."""
    metrics = {name: LabelMetrics(150, one_label=True) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        for name, score in ways.items():
            begin = time.perf_counter()
            scores = score(batch)
            seconds[name].append((time.perf_counter() - begin) / len(batch))
            metrics[name].update(scores, gold[start : start + BATCH])
    figures = {}
    for name in ways:
        computed = metrics[name].compute()
        figures[name] = {metric: 100 * computed[metric] for metric in ("average_precision", "accuracy")}
        figures[name]["documents_per_second"] = 1 / median(seconds[name])
        print(name, figures[name])
    return figures


if __name__ == "__main__":
    main()
