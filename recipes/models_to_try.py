r"""Make a model that others can load, from public records of libraries, and store it in 8 and 16 bits.

    python recipes/models_to_try.py gnd_en --data DATA --output_dir gnd-en
    hf-gile push gnd-en/model OWNER/gile-gnd-en

Trains as `hf-gile train` does with nothing set, in OUTPUT_DIR/run. OUTPUT_DIR/model has its weights in 16 bits, large
tables in 8, and they are read in 32. This folder is loaded again, measured on the test records, and described by a
card; SHA256SUMS lists its files. `SETTINGS` names the files of DATA. `--limit 300` makes a model of the first records,
to see what happens.
"""

import argparse
import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import yaml
from table_source import TableSource
from torch import Tensor

from hf_gile import GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.models.label_embeds_gile import EMBEDS_FILE, LabelEmbeds, embed_stored_labels, keeps_label_embeds
from hf_gile.models.lexical_gile import NEIGHBOURS
from hf_gile.models.saving_gile import MANIFESTS, compute_digest, read_manifest
from hf_gile.publishing import CardInfo, make_report, read_card_fields, write_card
from hf_gile.publishing.card import CARD_FILE
from hf_gile.publishing.report import REPORT_FILE
from hf_gile.training.general import general_scorer
from hf_gile_cli.saved_model import load
from hf_gile_cli.train import run_recipe

CARDS = Path(__file__).parent.parent / "model_cards"
SUMS = "SHA256SUMS"
TOKENIZER_FILE = "tokenizer.json"

SUBJECTS = {"labels": ["subjects"], "text": ["title", "abstract"], "id": "id", "label_description": ["none"]}
HEADINGS = {"labels": ["meshUI"], "text": ["title", "abstractText"], "id": "pmid", "label_id": "ui"}

SETTINGS: dict[str, dict[str, Any]] = {
    "gnd_en": {
        **SUBJECTS,
        "train_files": ["tibkat/train.en.jsonl.gz"],
        "test_files": ["tibkat/dev.en.jsonl.gz"],
        "label_file": "tibkat/gnd_labels.jsonl.gz",
        "label_name": ["name_en", "name_de"],
    },
    "gnd_de": {
        **SUBJECTS,
        "train_files": ["tibkat/train.de.jsonl.gz"],
        "test_files": ["tibkat/dev.de.jsonl.gz"],
        "label_file": "tibkat/gnd_labels.jsonl.gz",
        "label_name": ["name_de", "name_en"],
    },
    "mesh": {
        **HEADINGS,
        "train_files": ["pubmed_mesh/train.jsonl.gz", "pubmed_mesh/validation.jsonl.gz"],
        "test_files": ["pubmed_mesh/test.jsonl.gz"],
        "label_file": "mesh/mesh_labels.jsonl.gz",
        "label_description": ["definition"],
        "label_synonyms": ["synonyms"],
    },
}
"""Of each model the files and columns, settings of `table_source.TableSource`."""

OPTIONS = {"gnd_de": ["--text_encoder", "static"]}  # multilingual-e5-small alone has 240 MB in 16 bits

MOST_WORDS = {"gnd_de": 2_000_000}
"""Maximum number of weights of words that are stored, the largest ones, so that a folder has at most 100 MB."""

LARGE = 1 << 21
"""Number of weights from which a table has 8 bits a number."""

TOPICS = ["politics", "business", "science and technology", "health", "culture", "sports", "travel"]
"""Labels stored with the general scorer, which scores any others as well."""

EARLIER = "All figures are of the model fitted on"
"""Start of what a card says of figures that were measured before the last fit."""

STORED = (
    "Its weights have 16 bits in the file, large tables 8, and 32 when they are read; the folder has {:,} MB. Figures "
    "are of this folder. Probabilities and thresholds were fitted before the last fit, on documents left out of the "
    "fit before."
)


def read_lines(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, islice(file, limit))


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return str(path)


def write_tables(name: str, data: Path, folder: Path, limit: int | None) -> TableSource:
    """Writes the records and labels. With a limit and for MeSH, labels are those that records have."""
    settings = dict(SETTINGS[name])
    folder.mkdir(parents=True)
    used: set[str] = set()
    for part in ("train_files", "test_files"):
        rows = list(chain.from_iterable(read_lines(data / file, limit) for file in settings[part]))
        used.update(label for row in rows for label in row[settings["labels"][0]])
        settings[part] = [write_lines(folder / f"{part}.jsonl", rows)]
    label_id = settings.get("label_id", "id")
    takes_all = limit is None and name != "mesh"
    labels = (row for row in read_lines(data / settings["label_file"]) if takes_all or row[label_id] in used)
    settings["label_file"] = write_lines(folder / "labels.jsonl", labels)
    return TableSource(**settings, on_unknown_label="drop")


def train(name: str, source: TableSource, info: CardInfo, folder: Path) -> Path:
    """Trains a model as `hf-gile train` does, and returns its folder."""
    card = folder / CARD_FILE
    card.write_text(yaml.safe_dump({key: value for key, value in vars(info).items() if value}), encoding="utf-8")
    flags = ["--card", str(card), "--output_dir", str(folder / "run"), *OPTIONS.get(name, [])]
    for setting in (*SETTINGS[name], "on_unknown_label"):
        value = getattr(source, setting)
        flags += [f"--{setting}", *(value if isinstance(value, list) else [value])]
    run_recipe("table", flags)
    return folder / "run" / "auto" / "model"


def narrowed(weight: Tensor) -> Tensor:
    """Returns a weight in 16 bits, in 8 if it is a large table; whole numbers in 16, 32 or 64, as they need."""
    if weight.is_floating_point():
        return weight.to(torch.float8_e4m3fn if weight.numel() > LARGE else torch.float16)
    shorter = (weight.to(dtype) for dtype in (torch.int16, torch.int32))
    return next((short for short in shorter if bool((short == weight).all())), weight)


def keep_words(model: GileForSequenceClassification, most: int) -> None:
    """Removes the smallest weights of words from the rows of labels, so that at most `most` are left."""
    rows = model.gile.word_rows
    is_word = rows.ids < NEIGHBOURS
    smaller = int(is_word.sum()) - most
    if smaller > 0:
        is_kept = ~is_word | (rows.weight.abs() > rows.weight[is_word].abs().kthvalue(smaller).values)
        owners = torch.arange(len(rows.sizes)).repeat_interleave(rows.sizes.long())
        model.gile.set_word_rows(len(rows.sizes), rows.ids[is_kept], owners[is_kept], rows.weight[is_kept])


def store(
    model: GileForSequenceClassification, processor: GileProcessor, folder: Path, most_words: int | None = None
) -> None:
    """Stores a model in 8 and 16 bits; it is read in 32 bits, and scores as a model with rounded weights."""
    if most_words is not None:
        keep_words(model, most_words)
    weights = model.state_dict()
    stored = {name: narrowed(weight) for name, weight in weights.items()}
    for name, weight in weights.items():
        weight.copy_(stored[name])
    if keeps_label_embeds(model.gile):
        embed_stored_labels(model)
    model.save_pretrained(folder, state_dict=stored)
    processor.save_pretrained(folder)
    embeds = LabelEmbeds.load(folder, {})
    if embeds is not None:
        embeds._replace(vectors=narrowed(embeds.vectors)).save(folder / EMBEDS_FILE)
        update_manifest(folder, EMBEDS_FILE, "model")
    if (tokenizer := folder / TOKENIZER_FILE).is_file():  # half of it is white space
        content = json.loads(tokenizer.read_text(encoding="utf-8"))
        tokenizer.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        update_manifest(folder, TOKENIZER_FILE, "processor")


def update_manifest(folder: Path, file: str, owner: str) -> None:
    """Updates the hash of a changed file in the manifest of its owner, the model or the processor."""
    manifest = read_manifest(folder, owner)
    manifest["files"][file] = compute_digest(folder / file)
    (folder / MANIFESTS[owner]).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def describe(folder: Path, trained: Path, source: TableSource) -> None:
    """Measures a stored model on the test records, and writes its report and its card."""
    model, processor = load(str(folder), device="cpu")
    rows, _ = source.read(source.test_files, known=model.label_set.ids)
    gold = [[label for label in labels if label in model.label_set] for labels in rows["labels"]]
    fields = read_card_fields(trained / CARD_FILE)
    report = make_report(model, processor, rows["text"], gold, dataset=fields["dataset_name"], progress=True)
    report.save(folder / REPORT_FILE)
    info = CardInfo(**fields | {"limits": [text for text in fields["limits"] if not text.startswith(EARLIER)]})
    write_card(folder, model, info, report)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    info.limits.append(STORED.format(round(size / 1e6)))
    write_card(folder, model, info, report)


def write_sums(folder: Path) -> None:
    """Writes the SHA-256 of all files of a folder, which `sha256sum -c` reads."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SUMS)
    sums = (f"{compute_digest(file)}  {file.relative_to(folder).as_posix()}\n" for file in files)
    (folder / SUMS).write_text("".join(sums), encoding="utf-8")


def make(name: str, source: TableSource, output_dir: Path) -> None:
    """Trains, stores and describes a model."""
    command = f"python recipes/models_to_try.py {name} --data DATA --output_dir OUTPUT_DIR"
    fields = read_card_fields(CARDS / repository(name) / CARD_FILE)
    trained = train(name, source, CardInfo(**fields, training_command=command), output_dir)
    store(*load(str(trained), device="cpu"), output_dir / "model", MOST_WORDS.get(name))
    describe(output_dir / "model", trained, source)


def make_general(folder: Path) -> None:
    """Stores the general scorer for English, with a few labels, and its card."""
    model, processor = general_scorer()
    model.set_labels(LabelSet.from_names(TOPICS), processor)
    store(model, processor, folder)
    shutil.copy(CARDS / repository("general") / "README.md", folder)


def repository(name: str) -> str:
    """Returns the name of the repository and of the card of a model."""
    return f"gile-{name.replace('_', '-')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*SETTINGS, "general"])
    parser.add_argument("--data", type=Path, help="folder with the files that SETTINGS names; general needs none")
    parser.add_argument("--output_dir", type=Path, required=True, help="new folder")
    parser.add_argument("--limit", type=int, help="number of records of each file")
    given = parser.parse_args()
    if given.output_dir.exists() or (given.limit is not None and given.limit < 1):
        parser.error("--output_dir must be a new folder, and --limit at least 1")
    folder = given.output_dir / "model"
    if given.name == "general":
        make_general(folder)
    elif given.data is None:
        parser.error("--data is required")
    else:
        try:
            source = write_tables(given.name, given.data, given.output_dir / "data", given.limit)
        except OSError as error:
            parser.error(f"--data: {error}")
        make(given.name, source, given.output_dir)
    write_sums(folder)
    print(f"to upload it: hf-gile push {folder} OWNER/{repository(given.name)}")


if __name__ == "__main__":
    main()
