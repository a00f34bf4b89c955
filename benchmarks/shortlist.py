"""Measures the recall of shortlists of 10, 20 and 50 labels from which a language model chooses.

    python benchmarks/shortlist.py --data FOLDER --model pubmed_mesh=MODELS/pubmed_mesh-1/runs/auto/model --cache FOLDER

The model is the default of `hf-gile train` (see benchmarks/saved_models.py); `pipe(text, shortlist=30)` returns its
lists. It is compared with BM25 and the TF-IDF cosine (over label names and descriptions), and with the MiniLM cosine
(over names). Recall is the mean over test documents of the share of their labels in the list; all labels compete.

Tokens are counted with the tokenizer of MiniLM: for a list of the whole vocabulary, one heading per line, and for a
shortlist of 30, averaged over the first 100 test documents.

Writes results/shortlist.json, keyed by data set. Entries of other data sets are preserved.
"""

from collections.abc import Callable, Iterable
from typing import Any

from obvious_sets import read_lines
from obvious_systems import Options, batches, bm25, encoder_cosine, minilm, tfidf_cosine
from saved_models import SavedModel, measure_each, parse
from torch import Tensor

from hf_gile import LabelScoringPipeline

AT = (10, 20, 50)
LENGTH = 30


def main() -> None:
    options = parse(__doc__)

    def figures(saved: SavedModel) -> dict[str, Any]:
        names = [label.name for label in saved.task.labels]
        if saved.task.name == "pubmed_mesh":
            names = [row["name"] for row in read_lines(options.data / "mesh" / "mesh_labels.jsonl.gz")]
        encoder = minilm(Options(options.threads, options.cache, ""))
        return {**recalls(saved, options.documents, encoder), "tokens": tokens(saved, names, encoder.tokenizer)}

    measure_each(options, "shortlist", 1, figures)


def recalls(saved: SavedModel, limit: int, encoder: Any) -> dict[str, Any]:
    """Measures the recall of each system at each length."""
    task, described = saved.task, any(saved.task.other_texts)
    texts, gold = task.texts["test"][:limit], task.gold["test"][:limit]
    probabilities = saved.probabilities("test", limit)
    systems: dict[str, Callable[[slice], Tensor]] = {"ours": lambda rows: probabilities[rows]}
    for name, score in {
        "bm25": bm25(task, described),
        "tfidf_cosine": tfidf_cosine(task, described),
        "minilm_cosine": encoder_cosine(task, encoder),
    }.items():
        systems[name] = lambda rows, score=score: score(texts[rows])
    return {
        "documents": len(texts),
        "labels": len(task.labels),
        "systems": {name: of_lists(score, gold, task.num_seen) for name, score in systems.items()},
    }


def of_lists(score: Callable[[slice], Tensor], gold: list[list[int]], num_seen: int) -> dict[str, float]:
    """Returns the mean recall of all, seen and unseen labels."""
    groups = {"all": range(1 << 30), "seen": range(num_seen), "unseen": range(num_seen, 1 << 30)}
    shares: dict[str, list[float]] = {f"{group}_{k}": [] for group in groups for k in AT}
    for rows in batches(len(gold)):
        best = score(rows).topk(max(AT)).indices.tolist()
        for listed, labels in zip(best, gold[rows], strict=True):
            for group, columns in groups.items():
                wanted = {column for column in labels if column in columns}
                if wanted:
                    for k in AT:
                        shares[f"{group}_{k}"].append(len(wanted & set(listed[:k])) / len(wanted))
    return {name: sum(values) / len(values) for name, values in shares.items() if values}


def tokens(saved: SavedModel, names: list[str], tokenizer: Any) -> dict[str, float]:
    """Counts the tokens of all headings in a prompt, and of shortlists with and without descriptions."""

    def count(lines: Iterable[str]) -> int:
        return sum(map(len, tokenizer(list(lines), add_special_tokens=False)["input_ids"]))

    pipe = LabelScoringPipeline(model=saved.model, processor=saved.processor)
    answers = pipe(saved.task.texts["test"][:100], shortlist=LENGTH, batch_size=32)
    return {
        "vocabulary": len(names),
        "all_names": count(f"- {name}" for name in names),
        "shortlist_names": count(f"- {name}" for answer in answers for name in answer["labels"]) / len(answers),
        "shortlist": count(answer["shortlist"] for answer in answers) / len(answers),
    }


if __name__ == "__main__":
    main()
