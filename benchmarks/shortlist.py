"""How many right headings are among the first 10, 20 and 50 that a language model is to choose from?

    python benchmarks/shortlist.py --data FOLDER --model pubmed_mesh=KEPT/pubmed_mesh-1/runs/auto/model --cache FOLDER

The model is the default of `hf-gile train` (see benchmarks/kept_scores.py); `pipe(text, shortlist=30)` gives its lists.
Beside it stand BM25 and the cosine of TF-IDF (of names and what else is known of labels), and the cosine of MiniLM (of
names). Recall is the mean over test documents of the share of their labels in the list; all labels compete.

Tokens are those of MiniLM: of a list of all headings of the vocabulary, a line each, and of a shortlist of 30, the mean
of the first 100 test documents.

Writes results/shortlist.json, keyed by set; sets that are not run stay.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kept_scores import Kept, measure_each, parse
from obvious_sets import read_lines
from obvious_systems import Options, batches, bm25, encoder_cosine, minilm, tfidf_cosine
from torch import Tensor

from hf_gile import LabelScoringPipeline

AT = (10, 20, 50)
LENGTH = 30


def main() -> None:
    options = parse(__doc__)

    def figures(kept: Kept) -> dict[str, Any]:
        names = [label.name for label in kept.task.labels]
        if kept.task.name == "pubmed_mesh":
            names = [row["name"] for row in read_lines(options.data / "mesh" / "mesh_labels.jsonl.gz")]
        encoder = minilm(Options(options.threads, options.cache, ""))
        return {**recalls(kept, options.documents, encoder), "tokens": tokens(kept, names, encoder.tokenizer)}

    measure_each(options, "shortlist", 1, figures)


def recalls(kept: Kept, most: int, encoder: Any) -> dict[str, Any]:
    """Recall of each system at each length."""
    task, described = kept.task, any(kept.task.other_texts)
    texts, gold = task.texts["test"][:most], task.gold["test"][:most]
    probabilities = kept.probabilities("test", most)
    systems: dict[str, Callable[[slice], Tensor]] = {"ours": lambda rows: probabilities[rows]}
    for name, score in {
        "bm25": bm25(task, described),
        "tfidf_cosine": tfidf_cosine(task, described),
        "minilm_cosine": encoder_cosine(task, encoder),
    }.items():
        systems[name] = lambda rows, own=score: own(texts[rows])
    return {
        "documents": len(texts),
        "labels": len(task.labels),
        "systems": {name: of_lists(score, gold, task.num_seen) for name, score in systems.items()},
    }


def of_lists(score: Callable[[slice], Tensor], gold: list[list[int]], num_seen: int) -> dict[str, float]:
    """Mean recall of all, seen and unseen labels."""
    groups = {"all": range(1 << 30), "seen": range(num_seen), "unseen": range(num_seen, 1 << 30)}
    shares: dict[str, list[float]] = {f"{group}_{k}": [] for group in groups for k in AT}
    for rows in batches(len(gold)):
        best = score(rows).topk(max(AT)).indices.tolist()
        for listed, own in zip(best, gold[rows], strict=True):
            for group, columns in groups.items():
                wanted = {column for column in own if column in columns}
                if wanted:
                    for k in AT:
                        shares[f"{group}_{k}"].append(len(wanted & set(listed[:k])) / len(wanted))
    return {name: sum(values) / len(values) for name, values in shares.items() if values}


def tokens(kept: Kept, names: list[str], tokenizer: Any) -> dict[str, float]:
    """Tokens of all headings in a prompt, and of shortlists with and without descriptions."""

    def count(lines: Iterable[str]) -> int:
        return sum(map(len, tokenizer(list(lines), add_special_tokens=False)["input_ids"]))

    pipe = LabelScoringPipeline(model=kept.model, processor=kept.processor)
    answers = pipe(kept.task.texts["test"][:100], shortlist=LENGTH, batch_size=32)
    return {
        "vocabulary": len(names),
        "all_names": count(f"- {name}" for name in names),
        "shortlist_names": count(f"- {name}" for answer in answers for name in answer["labels"]) / len(answers),
        "shortlist": count(answer["shortlist"] for answer in answers) / len(answers),
    }


if __name__ == "__main__":
    main()
