"""The sets of benchmarks/obvious.py: texts, gold labels and label sets, read from the files of the data folder."""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from hf_gile import Label, LabelSet
from hf_gile.data import held_out_labels
from hf_gile.data.zero_shot import SALT, hash_fraction

sys.path.append(str(Path(__file__).resolve().parent.parent / "recipes"))

from papers.deutsche_welle import load_dw
from papers.pickled_vectors import read_language
from papers.zero_shot import split_of

PARTS = ("train", "validation", "test")
LANGUAGES = ("arabic", "english", "german", "persian", "portuguese", "russian", "spanish", "ukrainian")

Documents = dict[str, list[tuple[str, list[str]]]]
"""Of each part the documents, each a text and its label ids."""


@dataclass(frozen=True, eq=False)
class Task:
    """Documents of three parts, and L labels of which the first `num_seen` have training documents.

    Args:
        name: A key of `SETS`.
        texts: Of each part its N texts.
        gold: Of each part, for each of its N documents, the columns of its labels.
        labels: The L labels, the seen ones first, with their numbers of training documents.
        titled: Whether the first line of each text is a title.
    """

    name: str
    texts: dict[str, list[str]]
    gold: dict[str, list[list[int]]]
    labels: LabelSet
    titled: bool = False

    @property
    def num_seen(self) -> int:
        """Number of labels with training documents."""
        return sum(self.labels.seen)

    @property
    def names(self) -> list[str]:
        """The names of the L labels."""
        return [label.name for label in self.labels]

    @property
    def other_texts(self) -> list[list[str]]:
        """What else is known of each of the L labels: synonyms and a definition."""
        return [[*label.synonyms, *([label.description] if label.description else [])] for label in self.labels]

    @property
    def one_label(self) -> bool:
        """Whether each document has exactly one label."""
        return all(len(row) == 1 for rows in self.gold.values() for row in rows)

    def trains_like(self, other: "Task") -> bool:
        """Whether both have the same labels, training and validation documents, as the two tests of Annif have."""

        def training(task: Task) -> tuple[Any, ...]:
            return list(task.labels), *((task.texts[part], task.gold[part]) for part in PARTS if part != "test")

        return training(self) == training(other)


def make_task(name: str, documents: Documents, known: Iterable[Label], titled: bool = False) -> Task:
    """Orders the labels, seen ones first, and turns label ids into columns; ids that are not known are dropped."""
    counts = Counter(label for _, labels in documents["train"] for label in set(labels))
    labels = sorted((replace(label, count=counts[label.id], seen=label.id in counts) for label in known), key=_unseen)
    column_of = {label.id: column for column, label in enumerate(labels)}
    gold = {
        part: [[column_of[label] for label in dict.fromkeys(row) if label in column_of] for _, row in rows]
        for part, rows in documents.items()
    }
    texts = {part: [text for text, _ in rows] for part, rows in documents.items()}
    return Task(name, texts, gold, LabelSet(labels), titled)


def _unseen(label: Label) -> bool:
    return not label.seen


def pubmed_mesh(folder: Path, seed: int) -> Task:
    """MEDLINE abstracts; candidates are the headings of the training documents and 512 that were taken out of these."""
    documents: Documents = {}
    names: dict[str, str] = {}
    for part in PARTS:
        rows = list(read_lines(folder / "pubmed_mesh" / f"{part}.jsonl.gz"))
        documents[part] = [(f"{row['title']}\n{row['abstractText']}", row["meshUI"]) for row in rows]
        names |= {ui: name for row in rows for ui, name in zip(row["meshUI"], row["meshMajor"], strict=True)}
    described = {row["ui"]: row for row in read_lines(folder / "mesh" / "mesh_labels.jsonl.gz")}
    unseen = json.loads((folder / "pubmed_mesh" / "unseen_labels.json").read_text(encoding="utf-8"))
    known = []
    for ui in sorted({ui for _, row in documents["train"] for ui in row}.union(unseen)):
        row = described.get(ui, {"name": names.get(ui, ui), "synonyms": [], "definition": None})
        synonyms = tuple(dict.fromkeys(synonym.strip() for synonym in row["synonyms"]))
        known.append(Label(ui, row["name"], row["definition"] or "", synonyms=synonyms))
    return make_task("pubmed_mesh", documents, known, titled=True)


def tibkat(folder: Path, seed: int, language: str) -> Task:
    """Library records with subjects of the GND; a tenth of the training records, by a hash, validates."""
    documents = tibkat_training(folder, language)
    documents["test"] = [tibkat_record(row) for row in read_lines(folder / "tibkat" / f"dev.{language}.jsonl.gz")]
    rows = read_lines(folder / "tibkat" / "gnd_labels.jsonl.gz")
    return make_task(f"tibkat_{language}", documents, gnd_labels(rows, language), titled=True)


def annif(folder: Path, seed: int, language: str) -> Task:
    """The test of Annif's authors: records in one language, trained on those of both, with names in both."""
    documents: Documents = {part: [] for part in PARTS}
    for own in ("en", "de"):
        for part, rows in tibkat_training(folder, own).items():
            documents[part] += rows
    with gzip.open(folder / "tibkat_annif" / f"dev.{language}.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            text, _, uris = line.rstrip("\n").partition("\t")
            ids = ["gnd:" + uri.strip("<>").rpartition("/")[2] for uri in uris.split()]
            documents["test"].append((text.replace(" ¤ ", "\n", 1), ids))
    rows = read_lines(folder / "tibkat_annif" / "vocabulary.jsonl.gz")
    return make_task(f"annif_{language}", documents, gnd_labels(rows, "en", synonyms=True), titled=True)


def tibkat_training(folder: Path, language: str) -> Documents:
    """The training records of a language, cut into training and validation by a hash of their ids."""
    documents: Documents = {"train": [], "validation": []}
    for row in read_lines(folder / "tibkat" / f"train.{language}.jsonl.gz"):
        documents[split_of(row["id"], validation=0.1, test=0.0)].append(tibkat_record(row))
    return documents


def tibkat_record(row: dict[str, Any]) -> tuple[str, list[str]]:
    """A text, of which the first line is the title, and label ids."""
    return f"{row['title']}\n{row['abstract']}", row["subjects"]


def gnd_labels(rows: Iterable[dict[str, Any]], language: str, synonyms: bool = False) -> Iterator[Label]:
    """The subjects that have a name in German; in English where texts are English and there is such a name.

    Args:
        rows: Of each subject `id`, `name_en` and `name_de`.
        language: Of the texts.
        synonyms: Whether the name in the other language is a synonym.
    """
    taken = set()
    for row in rows:
        name = (row["name_en"] if language == "en" else None) or row["name_de"]
        if name:  # some subjects share one
            others = {row["name_de"], row["name_en"]} - {name, None, ""} if synonyms else ()
            unique = f"{name} ({row['id']})" if name in taken else name
            yield Label(row["id"], unique, synonyms=tuple(sorted(others)))
            taken.add(name)


def clinc150(folder: Path, seed: int, form: str = "") -> Task:
    """Utterances of 150 intents: all of them; a third of the intents unseen; or eight training utterances an intent.

    The seed chooses the third, and the eight utterances beside two for validation.
    """
    content = json.loads((folder / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    keys = {"train": "train", "validation": "val", "test": "test"}
    documents: Documents = {part: [(text, [intent]) for text, intent in content[key]] for part, key in keys.items()}
    intents = sorted({intent for _, intent in content["test"]})
    if form == "unseen":
        by_hash = sorted(intents, key=lambda intent: hash_fraction("label", intent, SALT))
        unseen = set(by_hash[seed % 3 :: 3])
        for part in ("train", "validation"):
            documents[part] = [(text, labels) for text, labels in documents[part] if labels[0] not in unseen]
    if form == "few":
        for part, number in {"train": 8, "validation": 2}.items():
            documents[part] = some_of_each(documents[part], number, seed)
    known = [Label(intent, intent.replace("_", " ")) for intent in intents]
    return make_task("clinc150" + (f"_{form}" if form else ""), documents, known)


def some_of_each(rows: list[tuple[str, list[str]]], number: int, seed: int) -> list[tuple[str, list[str]]]:
    """The first documents of each label in the order of a hash."""
    by_hash = sorted(rows, key=lambda row: hash_fraction("document", row[0], f"{SALT} {seed}"))
    labels = sorted({labels[0] for _, labels in rows})
    return [row for label in labels for row in islice((row for row in by_hash if row[1] == [label]), number)]


def sib200(folder: Path, seed: int, language: str) -> Task:
    """Sentences with one of seven topics, whose names are English."""
    documents: Documents = {}
    for part, file in {"train": "train", "validation": "dev", "test": "test"}.items():
        lines = (folder / "sib200" / language / f"{file}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        documents[part] = [(text, [topic]) for _, topic, text in (line.split("\t", 2) for line in lines)]
    topics = sorted({labels[0] for _, labels in documents["train"]})
    return make_task(f"sib200_{language}", documents, [Label(topic, topic) for topic in topics])


def deutsche_welle(folder: Path, seed: int, kind: str, language: str) -> Task:
    """A set in the published format of Deutsche Welle: words of the vocabulary in the place of texts."""
    vectors = {language: read_language(folder / "dw_format" / "word_vectors", language)}
    corpus = load_dw(folder / "dw_format" / kind, [language], word_vectors=vectors)
    words, labels = corpus.word_vectors[language].words, corpus.label_sets[language]
    documents: Documents = {}
    for part, split in {"train": "train", "validation": "dev", "test": "test"}.items():
        documents[part] = [
            (
                "\n".join(" ".join(words[word] for word in sentence) for sentence in row["input_ids"]),
                [labels.ids[column] for column in row["labels"]],
            )
            for row in corpus.documents[language][split]
        ]
    plain = [replace(label, language=None) for label in labels]
    return make_task(f"dw_{kind}_{language}", documents, plain)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


NUMBERS = (1, 2, 4, 8, 16)
"""Training texts of a label in the sets of few texts."""


def few_texts(folder: Path, seed: int, base: str, number: int) -> Task:
    """A set with `number` training texts of each label and no validation documents; the seed draws the texts."""
    task = SETS[base](folder, seed)

    def rows(part: str) -> list[tuple[str, list[str]]]:
        ids = ([task.labels[column].id for column in columns] for columns in task.gold[part])
        return list(zip(task.texts[part], ids, strict=True))

    documents: Documents = {"train": some_of_each(rows("train"), number, seed), "validation": [], "test": rows("test")}
    return make_task(f"few_{base}_{number}", documents, task.labels)


SETS: Mapping[str, Callable[[Path, int], Task]] = {
    "pubmed_mesh": pubmed_mesh,
    "tibkat_en": partial(tibkat, language="en"),
    "tibkat_de": partial(tibkat, language="de"),
    "clinc150": clinc150,
    "clinc150_unseen": partial(clinc150, form="unseen"),
    "clinc150_few": partial(clinc150, form="few"),
    **{f"sib200_{language}": partial(sib200, language=language) for language in LANGUAGES},
    **{f"dw_general_{language}": partial(deutsche_welle, kind="general", language=language) for language in LANGUAGES},
    **{
        f"dw_specific_{language}": partial(deutsche_welle, kind="specific", language=language)
        for language in ("english", "german")
    },
    "annif_en": partial(annif, language="en"),
    "annif_de": partial(annif, language="de"),
    **{
        f"few_{base}_{number}": partial(few_texts, base=base, number=number)
        for base in ("clinc150", "sib200_english", "dw_general_english")
        for number in NUMBERS
    },
}
"""From the name of a set to what reads it, from the data folder and a seed."""

DRAWN = ("clinc150_unseen", "clinc150_few", *(name for name in SETS if name.startswith("few_")))
"""Sets that depend on the seed."""


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

    def of_part(part: str, without: set[str]) -> list[tuple[str, list[str]]]:
        ids = ([task.labels[column].id for column in row if column < len(seen)] for row in task.gold[part])
        rows = zip(task.texts[part], ids, strict=True)
        return [(text, [label for label in row if label not in without]) for text, row in rows]

    documents = {part: of_part(part, held_out) for part in ("train", "validation")}
    documents["test"] = of_part("validation", set())
    if task.one_label:  # a document without its label has none
        documents = {part: [row for row in rows if row[1]] for part, rows in documents.items()}
    return make_task(task.name, documents, seen, task.titled)
