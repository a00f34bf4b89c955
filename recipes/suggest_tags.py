"""Suggest tags for a folder of Markdown notes, from the tags that the folder already has and from no others.

    python recipes/suggest_tags.py notes/                    # a line of JSON for each note without tags
    python recipes/suggest_tags.py notes/ --tags tags.txt    # and tags that no note has yet, one per line

Tags are read from front matter (`tags:`) and the text (`#tag`). Scores are no probabilities. No note is changed.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import yaml
from torch.nn.functional import normalize

from hf_gile.data import load_labels
from hf_gile.training.encoders import LABEL_FRAME
from hf_gile.training.general import SHRINKAGE, general_scorer, text_vectors

MOST_BYTES = 1_000_000  # of a note
COMMON = 0.5  # of what all notes have in common counts for no tag; benchmarks/tags.py says how it was chosen
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)|`[^`\n]+`", re.DOTALL | re.MULTILINE)
TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")


class Note(NamedTuple):
    """A note with its text, which does not contain its tags."""

    path: str
    text: str
    tags: list[str]


def read_note(path: Path) -> Note:
    """Reads a note; raises a ValueError if it is too large, is not UTF-8, or its tags cannot be read."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    text = path.read_text(encoding="utf-8-sig")
    tags: list[str] = []
    if match := FRONT_MATTER.match(text):
        try:
            fields = yaml.load(match[1] or "", Loader=yaml.BaseLoader)  # all values are strings, also "yes"
        except (yaml.YAMLError, RecursionError) as error:
            raise ValueError(f"the front matter is no YAML: {' '.join(str(error).split())}") from error
        if isinstance(fields, dict):  # or it is text between two lines
            text = text[match.end() :]
            tags = split_tags(fields.get("tags", []))
    tags += TAG.findall(CODE.sub(" ", text))
    return Note(str(path), f"{path.stem}\n{TAG.sub(' ', text)}", list(dict.fromkeys(tags)))


def split_tags(value: object) -> list[str]:
    """Returns the tags of front matter: a list, or a string with commas or spaces between tags."""
    if isinstance(value, str):
        value = value.split("," if "," in value else None)
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise ValueError("the tags of its front matter are no list of names")
    return [tag for tag in (tag.strip().removeprefix("#") for tag in value) if tag]


def read_notes(folder: Path) -> list[Note]:
    """Reads the notes of a folder, except hidden ones; says which notes cannot be read."""
    notes = []
    for path in sorted(folder.rglob("*.md")):
        try:
            if not any(part.startswith(".") for part in path.relative_to(folder).parts):
                notes.append(read_note(path))
        except (OSError, ValueError) as error:
            print(f"left out {path}: {error}", file=sys.stderr)
    return notes


def suggest(tagged: list[Note], texts: list[str], tags: list[str], top: int) -> list[dict[str, float]]:
    """Returns the best tags of each text with their scores, best first.

    A score is the cosine of text and tag, less half that of all notes, plus its square for the nearest tagged note.
    """
    names = [" ".join(re.split(r"[\W_]+", tag)).strip() or tag for tag in tags]
    model, processor = general_scorer(texts, labels=names)
    notes = normalize(text_vectors(model, processor, [*(note.text for note in tagged), *texts]))
    common = notes.sum(0) / (len(notes) + SHRINKAGE)
    framed = text_vectors(model, processor, [LABEL_FRAME.format(name) for name in names])
    means = normalize(normalize(text_vectors(model, processor, names)) + normalize(framed))  # of both forms of a tag
    scores = (notes - COMMON * common)[len(tagged) :] @ means.T
    notes = normalize(notes - common)
    similarities = (notes[len(tagged) :] @ notes[: len(tagged)].T).clamp(min=0) ** 2
    for column, tag in enumerate(tags):
        if rows := [row for row, note in enumerate(tagged) if tag in note.tags]:
            scores[:, column] += similarities[:, rows].amax(1)
    best = zip(*(part.tolist() for part in scores.topk(min(top, len(tags)))), strict=True)
    return [{tags[column]: round(score, 3) for score, column in zip(*row, strict=True)} for row in best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tags", type=Path, help="file with further tags, one per line")
    parser.add_argument("--top", type=int, default=3, help="number of tags per note")
    options = parser.parse_args()
    notes = read_notes(options.folder)
    tagged = [note for note in notes if note.tags]
    tags = [tag for note in tagged for tag in note.tags]
    try:
        tags += split_tags(load_labels(str(options.tags)).names) if options.tags else []
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    tags = list(dict.fromkeys(tags))
    untagged = [note for note in notes if not note.tags]
    if len(tags) < 2 or not untagged or options.top < 1:
        raise SystemExit(f"{options.folder} has {len(notes)} notes, {len(tags)} tags: tag some, not all, or use --tags")
    for note, best in zip(untagged, suggest(tagged, [note.text for note in untagged], tags, options.top), strict=True):
        print(json.dumps({"note": note.path, "tags": best}, ensure_ascii=False))


if __name__ == "__main__":
    main()
