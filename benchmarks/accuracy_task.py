"""The texts, gold labels and label sets of benchmarks/accuracy.py, as the recipes read and split them."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hf_gile import LabelSet
from hf_gile.data import ReadReport, held_out_labels, read_mesh

RECIPES_FOLDER = Path(__file__).parents[1] / "recipes"
sys.path.append(str(RECIPES_FOLDER))

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Task:
    """Documents of three parts, and L labels of which the first `num_seen` have training documents.

    Args:
        name: A key of `SETS`.
        texts: Of each part its N texts.
        gold: Of each part, for each of its N documents, the columns of its labels.
        labels: The L labels, the seen ones first, with their numbers of training documents.
        num_seen: Number of seen labels.
        other_texts: For each of the L labels what else is known of it, synonyms and a definition; all empty where
            nothing is.
        recipe: The recipe that trains on these files, and its flags; no flags if it cannot.
    """

    name: str
    texts: dict[str, list[str]]
    gold: dict[str, list[list[int]]]
    labels: LabelSet
    num_seen: int
    other_texts: list[list[str]]
    recipe: tuple[str, dict[str, Any]]

    @property
    def names(self) -> list[str]:
        """The names of the L labels."""
        return [label.name for label in self.labels]


def pubmed_mesh(folder: Path) -> Task:
    """MEDLINE abstracts with MeSH headings, 512 of them unseen: recipes/train_bioasq.py with `--unseen_file`."""
    import train_bioasq

    data = folder / "pubmed_mesh"
    flags: dict[str, Any] = {f"{part}_files": [str(data / f"{part}.jsonl.gz")] for part in PARTS}
    # With what MeSH has, all of the unseen labels are candidates, and not only those of the test documents.
    mesh = folder / "mesh" / "mesh_labels.jsonl.gz"
    flags |= {"unseen_file": str(data / "unseen_labels.json"), "label_file": str(mesh)}
    recipe = train_bioasq.Recipe(**flags)
    split = train_bioasq.read_split(recipe, _say)
    labels = train_bioasq.make_label_set(recipe, split, _say)
    others = {
        descriptor.ui: [*descriptor.entry_terms, descriptor.scope_note]
        for descriptor in read_mesh(mesh, ReadReport("skip"))
    }
    return Task(
        name="pubmed_mesh",
        texts={part: [train_bioasq.document_text(row) for row in split[part]] for part in PARTS},
        gold={part: _columns(split[part]["meshUI"], labels) for part in PARTS},
        labels=labels,
        num_seen=len(split["seen"]),
        other_texts=[[text for text in others.get(label.id, ()) if text] for label in labels],
        recipe=("train_bioasq.py", flags),
    )


def tibkat(folder: Path, language: str) -> Task:
    """Library records with subjects of the GND, as in docs/data.md: recipes/train_table.py."""
    import train_table

    data = folder / "tibkat"
    flags: dict[str, Any] = {
        "train_files": [str(data / f"train.{language}.jsonl.gz")],
        "test_files": [str(data / f"dev.{language}.jsonl.gz")],
        "text": ["title", "abstract"],
        "labels": "subjects",
        "id": "id",
        "label_file": str(data / "gnd_labels.jsonl.gz"),
        "label_name": ["name_en", "name_de"] if language == "en" else ["name_de"],
        "on_unknown_label": "drop",
    }
    if language == "de":
        flags["on_error"] = "skip"  # subjects without a German name
    recipe = train_table.Recipe(**flags)
    parts, named = train_table.read_parts(recipe, _say)
    counts = Counter(label_id for row in parts["train"]["labels"] for label_id in row)
    known = train_table.read_labels(recipe, named, parts, _say)
    labels = train_table.order_labels(known, counts, parts, recipe, _say)
    return Task(
        name=f"tibkat_{language}",
        texts={part: list(parts[part]["text"]) for part in PARTS},
        gold={part: _columns(parts[part]["labels"], labels) for part in PARTS},
        labels=labels,
        num_seen=sum(labels.seen),
        other_texts=[[] for _ in labels],
        recipe=("train_table.py", flags),
    )


SETS: dict[str, Callable[[Path], Task]] = {
    "pubmed_mesh": pubmed_mesh,
    "tibkat_en": lambda folder: tibkat(folder, "en"),
    "tibkat_de": lambda folder: tibkat(folder, "de"),
}


def hold_out(task: Task, share: float) -> Task:
    """A task to choose settings on: some seen labels are unseen, and the validation documents are the test.

    The labels are those of `held_out_labels`. The unseen labels and the test documents of the task are left out.
    Validation and test are the same documents, without and with the gold labels held out.

    Raises:
        ValueError: The share holds no label out.
    """
    seen = task.labels[: task.num_seen]
    held_out = set(held_out_labels({label.id: label.count for label in seen}, share=share))
    if not held_out:
        raise ValueError(f"a share of {share} holds out none of {len(seen)} labels: give a larger one")
    order = sorted(range(len(seen)), key=lambda column: seen[column].id in held_out)  # stable: seen ones stay in order
    num_seen = len(seen) - len(held_out)
    new = {old: column for column, old in enumerate(order)}
    gold = {
        "train": [[new[c] for c in row if new.get(c, num_seen) < num_seen] for row in task.gold["train"]],
        "validation": [[new[c] for c in row if new.get(c, num_seen) < num_seen] for row in task.gold["validation"]],
        "test": [[new[c] for c in row if c in new] for row in task.gold["validation"]],
    }
    labels = [
        replace(seen[old], seen=column < num_seen, count=seen[old].count if column < num_seen else 0)
        for column, old in enumerate(order)
    ]
    return replace(
        task,
        texts={**task.texts, "test": task.texts["validation"]},
        gold=gold,
        labels=LabelSet(labels),
        num_seen=num_seen,
        other_texts=[task.other_texts[old] for old in order],
        recipe=(task.recipe[0], {}),
    )


def _columns(rows: Any, labels: LabelSet) -> list[list[int]]:
    """The gold columns of each document; ids without a label are dropped, as the recipes do."""
    column_of = {label.id: column for column, label in enumerate(labels)}
    return [[column_of[one] for one in dict.fromkeys(row) if one in column_of] for row in rows]


def _say(*words: object) -> None:
    print(*words, file=sys.stderr)
