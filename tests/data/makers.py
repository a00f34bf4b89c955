"""Tables in the shape of many makers: the documents, the content of the file, and the settings to read it."""

import csv
import gzip
import io
import json
import random

import datasets
import pandas as pd
from written_tables import zipped

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
    table = [{"text": text, **{name: yes if name in gold else no for name in names}} for text, gold in rows]
    return pd.DataFrame(table)


def lines(objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


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
    table = [(text, *[*labels, None, None][:2]) for text, labels in NONE_TO_TWO]
    return pd.DataFrame(table, columns=["text", "label1", "label2"]).to_csv()


def kaggle_arxiv(rows):
    rows = [(text, " ".join(labels)) for text, labels in rows]
    return lines({"id": f"07{row}", "abstract": text, "categories": ids} for row, (text, ids) in enumerate(rows))


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
OBJECTS = lines({"text": text, "labels": as_objects(labels)} for text, labels in NONE_TO_TWO)
PLAIN = lines({"text": text, "labels": labels} for text, labels in NONE_TO_TWO)
MAKERS = {}


def add(maker, content, name="a.csv", rows=NONE_TO_TWO, **settings):
    """Adds the table of a maker: its documents, the name and content of the file, and the settings to read it."""
    MAKERS[maker] = rows, name, content, settings


# A column of labels in each program's way.
add("pandas", frame(NONE_TO_TWO).to_csv())
add("NumPy", frame(NONE_TO_TWO, lambda labels: "[" + " ".join(map(repr, labels)) + "]").to_csv())
add("movie genres", frame(NONE_TO_TWO, as_objects).to_csv())
add("Label Studio", frame(NONE_TO_TWO, label_studio).to_csv(index=False))
add("a database", frame(NONE_TO_TWO, json.dumps).to_csv(sep="\t", index=False), "a.tsv")
add("Excel-safe codes", frame(ONE, lambda labels: f'="{labels[0]}"').to_csv(), rows=ONE)
add("Drupal", frame(ONE, lambda labels: f'<a href="/t/3">{labels[0]}</a>').to_csv(), rows=ONE)
tags = frame(ONE_OR_TWO, lambda labels: "".join(f"<{label}>" for label in labels))
add("Stack Overflow", tags.to_csv(), rows=ONE_OR_TWO)
choices = frame(ONE_OR_TWO, lambda labels: f";#{';#'.join(labels)};#")
add("SharePoint", choices.to_csv(), rows=ONE_OR_TWO, separator=";#")
add("Reuters", joined(ONE_OR_TWO, "|").to_csv(index=False), rows=ONE_OR_TWO, separator="|")
add("single quotes", joined(ONE_OR_TWO, "|").to_csv(**QUOTED), rows=ONE_OR_TWO, separator="|")

# Exports of spreadsheets.
add("Excel in Germany", SEMICOLONS.encode("cp1252"), rows=ONE)
marked = "\ufeffsep=;\r\n" + joined(ONE_OR_TWO, "|").to_csv(sep=";", index=False)
add("Excel with sep", marked, rows=ONE_OR_TWO, separator="|")
add("Excel as Unicode text", joined(ONE, "").to_csv(sep="\t", index=False).encode("utf-16"), "a.txt", ONE)
add("a report of Excel", "\ufeffComplaints of 2024;\r\n;\r\n" + SEMICOLONS, rows=ONE)
add("LibreOffice", "\ufeff" + one_hot(NONE_TO_TWO, "0,83", "0,0").to_csv(sep=";", index=False))
add("merged cells", merged_cells())
add("SPSS", one_hot(NONE_TO_TWO, "1,00", ",00").to_csv(sep=";", index=False))
add("percentages in Germany", one_hot(NONE_TO_TWO, "83,5 %", "2,5 %").to_csv(sep=";", index=False))
levels = pd.MultiIndex.from_tuples([("text", ""), *(("labels", name) for name in LABELS)])
add("two rows of names", one_hot(NONE_TO_TWO, 1, 0).set_axis(levels, axis=1).to_csv(index=False))

links = joined(ONE_OR_TWO, " (https://www.notion.so/a-0f3), ").assign(text=[text for text, _ in ONE_OR_TWO])
add("Notion", links.to_csv(), rows=ONE_OR_TWO, separator=",")
add("lone texts of NumPy", frame(ONE, lambda labels: f"np.str_('{labels[0]}')").to_csv(), rows=ONE)
hive = "".join(f"{text}\x01{chr(2).join(labels)}\n" for text, labels in ONE_OR_TWO)
add("Hive", hive, "a.txt", ONE_OR_TWO, columns=["text", "labels"], separator="\x02")

# A column for each label, or several columns of labels.
add("Kaggle", kaggle_toxic_comments(), "train.csv", text=["comment_text"], id="id")
packed = zipped("a.csv", one_hot(NONE_TO_TWO, 1, 0).to_csv(index=False))
add("a zip of Kaggle", packed, "a.csv.zip", labels=["labels"])
add("ETHOS", one_hot(NONE_TO_TWO, 0.83, 0.25).to_csv(sep=";", index=False))
add("crosses", one_hot(NONE_TO_TWO, "x", "").to_csv(index=False), labels=LABELS)
add("a survey", one_hot(NONE_TO_TWO, "ja", "nein").to_csv(sep=";", index=False))
add("REDCap", one_hot(NONE_TO_TWO, "Checked", "Unchecked").to_csv(index=False))
add("a column a label", three_columns(), labels=["label1", "label2"])

# Data sets.
add("the Hub", parquet(NONE_TO_TWO), "a.parquet")
add("classes of the Hub", parquet(numbered(NONE_TO_TWO), labels=CLASSES), "a.parquet")
by_number = {"text": ["1"], "labels": ["2"]}
add("GoEmotions", go_emotions(), "a.tsv", ONE_OR_TWO, **by_number, separator=",", label_file="\n".join(LABELS))
abstracts = {"text": ["abstract"], "labels": ["categories"]}
add("arXiv", kaggle_arxiv(ARXIV), "a.json", ARXIV, **abstracts, separator="space")
add("fastText", fasttext(WORDS), "a.txt", WORDS)

# JSON.
cats = ({"text": text, "cats": {name: float(name in gold) for name in LABELS}} for text, gold in NONE_TO_TWO)
add("spaCy", lines(cats), "a.jsonl", labels=["cats"])
add("Argilla", lines({"text": text, "labels": argilla(labels)} for text, labels in NONE_TO_TWO), "a.jsonl")
add("Argilla 2", lines({"text": text, "labels": [labels]} for text, labels in NONE_TO_TWO), "a.jsonl")
classes = [{"text": text, "labels": [{"category": name} for name in gold]} for text, gold in NONE_TO_TWO]
add("Azure", json.dumps({"documents": classes}), "a.json")
add("JSON lines with commas", PLAIN.replace("}\n", "},\n"), "a.jsonl")
add("a list with a comma at its end", "[" + PLAIN.replace("}\n", "},\n") + "]", "a.json")
add("JSON lines named .json", PLAIN, "a.json")
add("packed objects", gzip.compress(OBJECTS.encode()), "a.jsonl.gz")
add("jsonlite", json.dumps([{"text": text, "labels": labels or {}} for text, labels in NONE_TO_TWO]), "a.json")
items = [{"text": text, "labels": [{"tag": label} for label in labels]} for text, labels in NONE_TO_TWO]
add("Zotero", json.dumps({"items": items}), "a.json")

# Tables without a header, or with numbered rows.
bare = joined(ONE, "")[["labels", "text"]].to_csv(index=False, header=False)
add("no header", bare, rows=ONE, columns=["labels", "text"])
bare = joined(ONE_OR_TWO, " / ").to_csv(sep="\t", index=False, header=False)
add("no header, by number", bare, "a.tsv", ONE_OR_TWO, **by_number, separator="/")
spaced = "".join(f'"{row}" "{text}" "{label}"\n' for row, (text, [label]) in enumerate(ONE, 1))
add("write.table of R", '"text" "labels"\n' + spaced, "a.txt", ONE)
tabbed = "".join(f'"r_{row}"\t"{text}"\t"{label}"\n' for row, (text, [label]) in enumerate(ONE))
add("names of rows of R", '"text"\t"labels"\n' + tabbed, "a.txt", ONE)

# Tables with rows below the header, or another way of quoting or encoding.
questions = ["What\nhappened?", "Which topic?"]
add("Qualtrics", survey(questions, ['{"ImportId":"QID1_TEXT"}', '{"ImportId":"QID2"}']), rows=ONE)
add("HXL", survey(["#meta+text", "#topic"]), rows=ONE)
add("ClickHouse", survey(["String", "LowCardinality(String)"]), rows=ONE)
add("Orange", survey(["string", "discrete"], ["meta", "class"]), rows=ONE)
add("SurveyMonkey", survey(["Open-Ended Response", "Response"]), rows=ONE)
add("SQL Server", survey(["----", "------"]) + "\n(80 rows affected)\n", rows=ONE)
add("pandas with two rows of names", "doc,gold\n" + joined(ONE, "").to_csv(index=False), rows=ONE)
add("MySQL", mysql(SAID), rows=SAID)
barred = "".join(f"|{text}|{label}|\n" for text, [label] in ONE)
shown = f"+---+---+\n|text|labels|\n+---+---+\n{barred}+---+---+\nonly showing top 80 rows\n"
add("Spark on a screen", shown, "a.txt", ONE)
add("Markdown", "|text|labels|\n|:-|-:|\n" + barred, "a.md", ONE)
add("Korean mail", joined(KOREAN, "").to_csv(index=False).encode("iso2022_kr"), rows=KOREAN)
