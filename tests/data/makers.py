"""Writes tables in the shape of many makers; `python tests/data/makers.py FOLDER` also trains and scores with each.

It prints what `hf-gile train` printed about the table, and five predictions for texts of which the answer is plain.
"""
# ruff: noqa: T201

import csv
import io
import json
import random
import subprocess
import sys
from pathlib import Path

import datasets
import pandas as pd

PHRASES = {
    "parcel delivery": [
        "the parcel came late",
        "where is my parcel",
        "the courier left it outside",
        "delivery took weeks",
    ],
    "refund": ["i want my money back", "please refund the order", "the refund never came", "pay me back"],
    "broken pump": ["the pump leaks", "the pump makes a noise", "no water comes out of the pump", "the motor stopped"],
    "invoice": [
        "the invoice shows the wrong amount",
        "send me a bill",
        "vat is missing on the bill",
        "a copy of the invoice",
    ],
    "praise": ["great service", "thank you so much", "works like a charm", "very happy with it"],
}
LABELS = list(PHRASES)
OTHERS = ["hello there", "see you on monday", "my name is Ann", "this is about last week", "ok"]
PLAIN = [
    "Where is the parcel? The courier is late.",
    "Please refund my money.",
    "The motor of the pump leaks.",
    "Hello, ok",
]
PLAIN += ["Great service, but a copy of the invoice is missing."]


def documents(number=240, low=0, high=2, seed=5):
    """Draws texts with their labels; texts without labels are about nothing."""
    draw = random.Random(seed)
    rows = []
    for count in range(number):
        labels = draw.sample(LABELS, draw.randint(low, high))
        phrases = [draw.choice(PHRASES[label]) for label in labels] or [draw.choice(OTHERS)]
        rows.append((f"{'. '.join(phrases).capitalize()}, case {count}, über.", labels))
    return rows


def frame(rows, **columns):
    table = {"text": [text for text, _ in rows], "labels": [labels for _, labels in rows]}
    return pd.DataFrame({**columns, **table})


def one_hot(rows, yes, no):
    return pd.DataFrame(
        [{"text": text, **{name: yes if name in gold else no for name in LABELS}} for text, gold in rows]
    )


def joined(rows, sign):
    return frame([(text, sign.join(labels)) for text, labels in rows])


def pandas_lists(folder):
    rows = documents()
    frame(rows).to_csv(folder / "a.csv")
    return rows, "a.csv", []


def excel_csv(folder):
    rows = documents(low=1, high=1)
    joined(rows, ";").to_csv(folder / "a.csv", sep=";", encoding="cp1252", index=False, lineterminator="\r\n")
    return rows, "a.csv", []


def excel_unicode_text(folder):
    rows = documents(low=1, high=1)
    joined(rows, ";").to_csv(folder / "a.txt", sep="\t", encoding="utf-16", index=False, lineterminator="\r\n")
    return rows, "a.txt", []


def excel_report(folder):
    rows = documents(low=1, high=1)
    text = "Complaints of 2024;\r\n;\r\n" + joined(rows, ";").to_csv(sep=";", index=False, lineterminator="\r\n")
    (folder / "a.csv").write_bytes(("\ufeff" + text).encode())
    return rows, "a.csv", []


def kaggle_toxic_comments(folder):
    rows = documents()
    table = one_hot(rows, 1, 0).rename(columns={"text": "comment_text"})
    table.insert(0, "id", [f"{number:016x}" for number in range(len(rows))])
    table.to_csv(folder / "train.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    return rows, "train.csv", ["--text", "comment_text", "--id", "id"]


def ethos(folder):
    rows = documents()
    table = one_hot(rows, 0.83, 0.25).rename(columns={"text": "comment"})
    table.to_csv(folder / "a.csv", sep=";", index=False)
    return rows, "a.csv", ["--text", "comment"]


def crosses(folder):
    rows = documents()
    one_hot(rows, "x", "").to_csv(folder / "a.csv", index=False)
    return rows, "a.csv", ["--labels", *LABELS]


def hub_classes(folder):
    rows = documents()
    numbers = [[LABELS.index(label) for label in labels] for _, labels in rows]
    classes = datasets.Sequence(datasets.ClassLabel(names=LABELS))
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    table = {"text": [text for text, _ in rows], "labels": numbers}
    datasets.Dataset.from_dict(table, features=features).to_parquet(str(folder / "a.parquet"))
    return rows, "a.parquet", []


def go_emotions(folder):
    rows = documents(low=1)
    lines = [
        f"{text}\t{','.join(str(LABELS.index(label)) for label in labels)}\ted{len(text):05x}" for text, labels in rows
    ]
    (folder / "a.tsv").write_text("\n".join(lines))
    (folder / "names.txt").write_text("\n".join(LABELS))
    flags = ["--text", "1", "--labels", "2", "--separator", ",", "--label_file", str(folder / "names.txt")]
    return rows, "a.tsv", flags


def reuters(folder):
    rows = documents(low=1)
    joined(rows, "|").to_csv(folder / "a.csv", index=False)
    return rows, "a.csv", ["--separator", "|"]


def stack_overflow(folder):
    rows = documents(low=1)
    frame([(text, "".join(f"<{label}>" for label in labels)) for text, labels in rows]).to_csv(folder / "a.csv")
    return rows, "a.csv", []


def movie_genres(folder):
    rows = documents()
    objects = [(text, [{"id": LABELS.index(label), "name": label} for label in labels]) for text, labels in rows]
    frame(objects).to_csv(folder / "a.csv")
    return rows, "a.csv", []


def spacy_categories(folder):
    rows = documents()
    lines = [{"text": text, "cats": {label: float(label in labels) for label in LABELS}} for text, labels in rows]
    (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rows, "a.jsonl", ["--labels", "cats"]


def fasttext(folder):
    rows = [(text, [label.replace(" ", "_") for label in labels]) for text, labels in documents(low=1)]
    text = "".join(" ".join([*(f"__label__{label}" for label in labels), text]) + "\n" for text, labels in rows)
    (folder / "a.txt").write_text(text)
    return rows, "a.txt", []


def without_header(folder):
    rows = documents(low=1, high=1)
    table = io.StringIO()
    csv.writer(table).writerows([labels[0], text] for text, labels in rows)
    (folder / "a.csv").write_text(table.getvalue())
    return rows, "a.csv", ["--columns", "labels", "text"]


def three_columns(folder):
    rows = documents()
    table = [{"text": text, "label1": [*labels, None][0], "label2": [*labels, None, None][1]} for text, labels in rows]
    pd.DataFrame(table).to_csv(folder / "a.csv")
    return rows, "a.csv", ["--labels", "label1", "label2"]


def label_studio(folder):
    rows = documents()
    cells = ["".join(labels) if len(labels) < 2 else json.dumps({"choices": labels}) for _, labels in rows]
    frame([(text, cell) for (text, _), cell in zip(rows, cells, strict=True)]).rename(
        columns={"labels": "topic"}
    ).to_csv(folder / "a.csv", index=False)
    return rows, "a.csv", ["--labels", "topic"]


def argilla(folder):
    rows = documents()
    answers = [[{"user_id": "u1", "value": labels, "status": "submitted"}] * bool(labels) for _, labels in rows]
    lines = [{"text": text, "labels": answer} for (text, _), answer in zip(rows, answers, strict=True)]
    (folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rows, "a.jsonl", []


def kaggle_arxiv(folder):
    names = dict(zip(LABELS, ["cs.LG", "stat.ML", "math.OC", "cs.CL", "q-bio.NC"], strict=True))
    rows = [(text, [names[label] for label in labels]) for text, labels in documents(low=1)]
    lines = [{"id": f"07{row}", "abstract": text, "categories": " ".join(ids)} for row, (text, ids) in enumerate(rows)]
    (folder / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rows, "a.json", ["--text", "abstract", "--labels", "categories", "--separator", "space"]


def libreoffice_decimals(folder):
    rows = documents()
    one_hot(rows, "0,83", "0,0").to_csv(folder / "a.csv", sep=";", index=False, encoding="utf-8-sig")
    return rows, "a.csv", []


def r_write_table(folder):
    rows = documents(low=1, high=1)
    lines = [f'"{row}" "{text}" "{labels[0]}"\n' for row, (text, labels) in enumerate(rows, 1)]
    (folder / "a.txt").write_text("".join(['"text" "labels"\n', *lines]))
    return rows, "a.txt", []


def r_row_names(folder):
    rows = documents(low=1, high=1)
    lines = [f'"doc_{row}"\t"{text}"\t"{labels[0]}"\n' for row, (text, labels) in enumerate(rows, 1)]
    (folder / "a.txt").write_text("".join(['"text"\t"labels"\n', *lines]))
    return rows, "a.txt", []


def german_survey(folder):
    rows = documents()
    one_hot(rows, "ja", "nein").to_csv(folder / "a.csv", sep=";", index=False)
    return rows, "a.csv", []


def merged_cells(folder):
    rows = documents()
    table = one_hot(rows, 1, 0).to_csv(index=False, header=False)
    (folder / "a.csv").write_text(f"text,topic{',' * (len(LABELS) - 1)}\n,{','.join(LABELS)}\n{table}")
    return rows, "a.csv", []


def mysql(folder):
    rows = [(f'{text} "so"', labels) for text, labels in documents(high=1)]
    lines = ['"text","labels"\n']
    for text, labels in rows:
        quoted = text.replace('"', '\\"')
        label = f'"{labels[0]}"' if labels else "\\N"
        lines.append(f'"{quoted}",{label}\n')
    (folder / "a.csv").write_text("".join(lines))
    return rows, "a.csv", []


MAKERS = {
    function.__name__: function
    for function in (
        pandas_lists,
        excel_csv,
        excel_unicode_text,
        excel_report,
        kaggle_toxic_comments,
        ethos,
        crosses,
        hub_classes,
        go_emotions,
        reuters,
        stack_overflow,
        movie_genres,
        spacy_categories,
        fasttext,
        without_header,
        three_columns,
        label_studio,
        argilla,
        kaggle_arxiv,
        libreoffice_decimals,
        r_write_table,
        r_row_names,
        german_survey,
        merged_cells,
        mysql,
    )
}


def main():
    """Trains and scores with the table of each maker."""
    texts = Path(sys.argv[1]) / "texts.txt"
    for name, make in MAKERS.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        _, file, flags = make(folder)
        train = ["hf-gile", "train", "--train_files", folder / file, *flags, "--text_encoder", "words"]
        train += ["--output_dir", folder / "model", "--make_cards", "false"]
        done = subprocess.run(train, capture_output=True, text=True, check=False)
        printed = [line for line in done.stdout.splitlines() if line.startswith(("train:", "  "))]
        print(f"## {name}: {file} {' '.join(flags)}", *printed[:4], sep="\n")
        if done.returncode:
            print(done.stdout[-500:], done.stderr[-900:])
            continue
        texts.write_text("".join(f"{text}\n" for text in PLAIN))
        model = next((folder / "model").rglob("config.json")).parent
        score = ["hf-gile", "score", model, texts, "--threshold", "stored"]
        done = subprocess.run(score, capture_output=True, text=True, check=False)
        for line in map(json.loads, done.stdout.splitlines()):
            shown = ", ".join(
                f"{label} {share:.2f}" for label, share in zip(line["labels"], line["scores"], strict=True)
            )
            print(f"    {line['text']:55} {shown or '-'}")
        if done.returncode:
            print(done.stderr[-900:])


if __name__ == "__main__":
    main()
