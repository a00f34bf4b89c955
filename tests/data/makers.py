"""Tables in the shape of many makers: the documents, the content of the file, and the settings to read it."""

import csv
import gzip
import io
import json
import random
import zipfile

import datasets
import pandas as pd

LABELS = ["parcel delivery", "refund", "broken pump", "invoice", "praise"]


def documents(number=80, low=0, high=2, seed=5):
    """Draws texts with their labels, from `low` to `high` each."""
    draw = random.Random(seed)
    gold = [draw.sample(LABELS, draw.randint(low, high)) for _ in range(number)]
    return [(f"Note {row}, über {' und '.join(labels) or 'nichts'}.", labels) for row, labels in enumerate(gold)]


NONE_TO_TWO = documents()
ONE = documents(low=1, high=1)
ONE_OR_TWO = documents(low=1)


def frame(rows, write=list):
    """Makes a table of documents; `write` makes a cell of labels."""
    return pd.DataFrame({"text": [text for text, _ in rows], "labels": [write(labels) for _, labels in rows]})


def joined(rows, sign):
    return frame(rows, sign.join)


def one_hot(rows, yes, no, names=LABELS):
    return pd.DataFrame(
        [{"text": text, **{name: yes if name in gold else no for name in names}} for text, gold in rows]
    )


def lines(objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


def zipped(name, data):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, data)
    return packed.getvalue()


def parquet(rows, **features):
    written = io.BytesIO()
    table = {"text": [text for text, _ in rows], "labels": [labels for _, labels in rows]}
    types = datasets.Features({"text": datasets.Value("string"), **features}) if features else None
    datasets.Dataset.from_dict(table, features=types).to_parquet(written)
    return written.getvalue()


def numbered(rows, names=LABELS):
    return [(text, [names.index(label) for label in labels]) for text, labels in rows]


def as_objects(labels):
    return [{"id": LABELS.index(label), "name": label} for label in labels]


def label_studio(labels):
    return "".join(labels) if len(labels) < 2 else json.dumps({"choices": labels})


def argilla(labels):
    return [{"user_id": "u1", "value": labels, "status": "submitted"}] * bool(labels)


def kaggle_toxic_comments():
    table = one_hot(NONE_TO_TWO, 1, 0).rename(columns={"text": "comment_text"})
    table.insert(0, "id", [f"{number:016x}" for number in range(len(table))])
    return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)


def go_emotions():
    rows = numbered(ONE_OR_TWO)
    return "\n".join(f"{text}\t{','.join(map(str, labels))}\ted{len(text):05x}" for text, labels in rows)


def fasttext(rows):
    return "".join(" ".join([*(f"__label__{label}" for label in labels), text]) + "\n" for text, labels in rows)


def three_columns():
    cells = [[*labels, None, None][:2] for _, labels in NONE_TO_TWO]
    table = [
        {"text": text, "label1": first, "label2": second}
        for (text, _), (first, second) in zip(NONE_TO_TWO, cells, strict=True)
    ]
    return pd.DataFrame(table).to_csv()


def kaggle_arxiv(rows):
    return lines(
        {"id": f"07{row}", "abstract": text, "categories": " ".join(ids)} for row, (text, ids) in enumerate(rows)
    )


def merged_cells():
    table = one_hot(NONE_TO_TWO, 1, 0).to_csv(index=False, header=False)
    return f"text,topic{',' * (len(LABELS) - 1)}\n,{','.join(LABELS)}\n{table}"


def survey(*below):
    """Writes answers of a survey, and the rows below the names of columns."""
    rows = [[text, label] for text, (label,) in ONE]
    return pd.DataFrame([*below, *rows], columns=["text", "labels"]).to_csv(index=False)


def mysql(rows):
    written = ['"text","labels"\n']
    for text, labels in rows:
        quoted = text.replace('"', '\\"')
        label = f'"{labels[0]}"' if labels else "\\N"
        written.append(f'"{quoted}",{label}\n')
    return "".join(written)


WORDS = [(text, [label.replace(" ", "_") for label in labels]) for text, labels in ONE_OR_TWO]
CODES = dict(zip(LABELS, ["cs.LG", "stat.ML", "math.OC", "cs.CL", "q-bio.NC"], strict=True))
ARXIV = [(text, [CODES[label] for label in labels]) for text, labels in ONE_OR_TWO]
SAID = [(f'{text} "so"', labels) for text, labels in documents(high=1)]
CLASSES = datasets.Sequence(datasets.ClassLabel(names=LABELS))
KOREAN = [(f"소포 {number}", labels) for number, (_, labels) in enumerate(ONE)]
SEMICOLONS = joined(ONE, "").to_csv(sep=";", index=False, lineterminator="\r\n")
QUOTED = {"index": False, "quotechar": "'", "quoting": csv.QUOTE_ALL}
NUMPY = frame(NONE_TO_TWO, lambda labels: "[" + " ".join(map(repr, labels)) + "]")
OBJECTS = [{"text": text, "labels": as_objects(labels)} for text, labels in NONE_TO_TWO]
PLAIN = [{"text": text, "labels": labels} for text, labels in NONE_TO_TWO]

# The documents, the name and content of the file, and the settings.
MAKERS = {
    "pandas": (NONE_TO_TWO, "a.csv", frame(NONE_TO_TWO).to_csv(), {}),
    "NumPy": (NONE_TO_TWO, "a.csv", NUMPY.to_csv(), {}),
    "Excel in Germany": (ONE, "a.csv", SEMICOLONS.encode("cp1252"), {}),
    "Excel with sep": (
        ONE_OR_TWO,
        "a.csv",
        "\ufeffsep=;\r\n" + joined(ONE_OR_TWO, "|").to_csv(sep=";", index=False),
        {"separator": "|"},
    ),
    "Excel as Unicode text": (ONE, "a.txt", joined(ONE, "").to_csv(sep="\t", index=False).encode("utf-16"), {}),
    "a report of Excel": (ONE, "a.csv", "\ufeffComplaints of 2024;\r\n;\r\n" + SEMICOLONS, {}),
    "Kaggle": (NONE_TO_TWO, "train.csv", kaggle_toxic_comments(), {"text": ["comment_text"], "id": "id"}),
    "a zip of Kaggle": (
        NONE_TO_TWO,
        "a.csv.zip",
        zipped("a.csv", one_hot(NONE_TO_TWO, 1, 0).to_csv(index=False)),
        {"labels": ["labels"]},
    ),
    "ETHOS": (NONE_TO_TWO, "a.csv", one_hot(NONE_TO_TWO, 0.83, 0.25).to_csv(sep=";", index=False), {}),
    "crosses": (NONE_TO_TWO, "a.csv", one_hot(NONE_TO_TWO, "x", "").to_csv(index=False), {"labels": LABELS}),
    "the Hub": (NONE_TO_TWO, "a.parquet", parquet(NONE_TO_TWO), {}),
    "classes of the Hub": (NONE_TO_TWO, "a.parquet", parquet(numbered(NONE_TO_TWO), labels=CLASSES), {}),
    "GoEmotions": (
        ONE_OR_TWO,
        "a.tsv",
        go_emotions(),
        {"text": ["1"], "labels": ["2"], "separator": ",", "label_file": "\n".join(LABELS)},
    ),
    "Reuters": (ONE_OR_TWO, "a.csv", joined(ONE_OR_TWO, "|").to_csv(index=False), {"separator": "|"}),
    "Stack Overflow": (
        ONE_OR_TWO,
        "a.csv",
        frame(ONE_OR_TWO, lambda labels: "".join(f"<{label}>" for label in labels)).to_csv(),
        {},
    ),
    "movie genres": (NONE_TO_TWO, "a.csv", frame(NONE_TO_TWO, as_objects).to_csv(), {}),
    "a database": (NONE_TO_TWO, "a.tsv", frame(NONE_TO_TWO, json.dumps).to_csv(sep="\t", index=False), {}),
    "spaCy": (
        NONE_TO_TWO,
        "a.jsonl",
        lines({"text": text, "cats": {name: float(name in gold) for name in LABELS}} for text, gold in NONE_TO_TWO),
        {"labels": ["cats"]},
    ),
    "fastText": (WORDS, "a.txt", fasttext(WORDS), {}),
    "no header": (
        ONE,
        "a.csv",
        joined(ONE, "")[["labels", "text"]].to_csv(index=False, header=False),
        {"columns": ["labels", "text"]},
    ),
    "no header, by number": (
        ONE_OR_TWO,
        "a.tsv",
        joined(ONE_OR_TWO, " / ").to_csv(sep="\t", index=False, header=False),
        {"text": ["1"], "labels": ["2"], "separator": "/"},
    ),
    "single quotes": (ONE_OR_TWO, "a.csv", joined(ONE_OR_TWO, "|").to_csv(**QUOTED), {"separator": "|"}),
    "a column a label": (NONE_TO_TWO, "a.csv", three_columns(), {"labels": ["label1", "label2"]}),
    "Label Studio": (NONE_TO_TWO, "a.csv", frame(NONE_TO_TWO, label_studio).to_csv(index=False), {}),
    "Argilla": (
        NONE_TO_TWO,
        "a.jsonl",
        lines({"text": text, "labels": argilla(labels)} for text, labels in NONE_TO_TWO),
        {},
    ),
    "JSON lines with commas": (NONE_TO_TWO, "a.jsonl", lines(PLAIN).replace("}\n", "},\n"), {}),
    "a list with a comma at its end": (NONE_TO_TWO, "a.json", "[" + lines(PLAIN).replace("}\n", "},\n") + "]", {}),
    "JSON lines named .json": (NONE_TO_TWO, "a.json", lines(PLAIN), {}),
    "packed objects": (NONE_TO_TWO, "a.jsonl.gz", gzip.compress(lines(OBJECTS).encode()), {}),
    "arXiv": (
        ARXIV,
        "a.json",
        kaggle_arxiv(ARXIV),
        {"text": ["abstract"], "labels": ["categories"], "separator": "space"},
    ),
    "LibreOffice": (
        NONE_TO_TWO,
        "a.csv",
        "\ufeff" + one_hot(NONE_TO_TWO, "0,83", "0,0").to_csv(sep=";", index=False),
        {},
    ),
    "write.table of R": (
        ONE,
        "a.txt",
        '"text" "labels"\n' + "".join(f'"{row}" "{text}" "{ids[0]}"\n' for row, (text, ids) in enumerate(ONE, 1)),
        {},
    ),
    "names of rows of R": (
        ONE,
        "a.txt",
        '"text"\t"labels"\n' + "".join(f'"r_{row}"\t"{text}"\t"{ids[0]}"\n' for row, (text, ids) in enumerate(ONE)),
        {},
    ),
    "a survey": (NONE_TO_TWO, "a.csv", one_hot(NONE_TO_TWO, "ja", "nein").to_csv(sep=";", index=False), {}),
    "merged cells": (NONE_TO_TWO, "a.csv", merged_cells(), {}),
    "MySQL": (SAID, "a.csv", mysql(SAID), {}),
    "Qualtrics": (
        ONE,
        "a.csv",
        survey(["What\nhappened?", "Which topic?"], ['{"ImportId":"QID1_TEXT"}', '{"ImportId":"QID2"}']),
        {},
    ),
    "HXL": (ONE, "a.csv", survey(["#meta+text", "#topic"]), {}),
    "ClickHouse": (ONE, "a.csv", survey(["String", "LowCardinality(String)"]), {}),
    "Orange": (ONE, "a.csv", survey(["string", "discrete"], ["meta", "class"]), {}),
    "pandas with two rows of names": (ONE, "a.csv", "doc,gold\n" + joined(ONE, "").to_csv(index=False), {}),
    "SurveyMonkey": (ONE, "a.csv", survey(["Open-Ended Response", "Response"]), {}),
    "Markdown": (ONE, "a.md", "|text|labels|\n|:-|-:|\n" + "".join(f"|{text}|{ids[0]}|\n" for text, ids in ONE), {}),
    "Korean mail": (KOREAN, "a.csv", joined(KOREAN, "").to_csv(index=False).encode("iso2022_kr"), {}),
    "SQL Server": (ONE, "a.csv", survey(["----", "------"]) + "\n(80 rows affected)\n", {}),
    "SharePoint": (
        ONE_OR_TWO,
        "a.csv",
        frame(ONE_OR_TWO, lambda labels: f";#{';#'.join(labels)};#").to_csv(),
        {"separator": ";#"},
    ),
    "REDCap": (NONE_TO_TWO, "a.csv", one_hot(NONE_TO_TWO, "Checked", "Unchecked").to_csv(index=False), {}),
    "Excel-safe codes": (ONE, "a.csv", frame(ONE, lambda labels: f'="{labels[0]}"').to_csv(), {}),
    "Drupal": (ONE, "a.csv", frame(ONE, lambda labels: f'<a href="/t/3">{labels[0]}</a>').to_csv(), {}),
    "jsonlite": (
        NONE_TO_TWO,
        "a.json",
        json.dumps([{"text": text, "labels": labels or {}} for text, labels in NONE_TO_TWO]),
        {},
    ),
    "Zotero": (
        NONE_TO_TWO,
        "a.json",
        json.dumps({"items": [{"text": t, "labels": [{"tag": label} for label in ids]} for t, ids in NONE_TO_TWO]}),
        {},
    ),
}
