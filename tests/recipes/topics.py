"""Documents of invented topics: the words of one or two labels, in random order."""

import json
import random

NAMES = {"heart": "heart failure", "milk": "human milk", "iron": "iron", "kidney": "kidneys"}
NAMES |= {"cardiac": "cardiac output"}
WORDS = {
    "heart": "heart failing cardiac output ventricle",
    "milk": "milk breast human feeding",
    "iron": "iron anemia ferritin deficiency",
    "kidney": "kidney renal nephron urine",
    "cardiac": "cardiac output ventricle pumped",
}
SEEN = [label for label in WORDS if label != "cardiac"]


def draw_documents(number, labels=SEEN, seed=1):
    """Yields the words of each document, and its gold labels."""
    draw = random.Random(seed)
    for _ in range(number):
        gold = sorted(draw.sample(labels, k=draw.choice([1, 2])))
        words = [word for label in gold for word in WORDS[label].split()]
        draw.shuffle(words)
        yield words, gold


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_documents(path, number, labels=SEEN, seed=1):
    documents = draw_documents(number, labels, seed)
    write_lines(path, ({"text": " ".join(words), "labels": gold} for words, gold in documents))


def write_records(path, number, labels=SEEN, seed=1, **fields):
    write_lines(
        path,
        [
            {
                "pmid": str(1000 * seed + row),
                "title": " ".join(words[:3]),
                "abstractText": " ".join(words * 3),
                "year": 1980,
                "meshUI": gold,
                "meshMajor": [NAMES[label] for label in gold],
            }
            | fields
            for row, (words, gold) in enumerate(draw_documents(number, labels, seed))
        ],
    )


def write_record_parts(folder):
    """Writes records for training, validation and test, and returns the flags that name the files."""
    write_records(folder / "train.jsonl", 60)
    write_records(folder / "dev.jsonl", 20, seed=2)
    write_records(folder / "test.jsonl", 30, list(WORDS), seed=3)
    return "--train_files train.jsonl --validation_files dev.jsonl --test_files test.jsonl"
