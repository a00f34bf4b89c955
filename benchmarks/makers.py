"""Writes one table as ten makers write it, trains on each file, and writes docs/makers.md.

    python benchmarks/makers.py

    python benchmarks/makers.py --page      # only writes the page

Every file has the same documents and labels, so every model must predict the same.
"""

import argparse
import csv
import io
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from machine import RESULTS, provenance, stay_offline, write_json

PAGE = Path(__file__).resolve().parents[1] / "docs" / "makers.md"
RESULT = RESULTS / "makers.json"
LINES = 4

INTRODUCTION = """# Ten makers of tables

`python benchmarks/makers.py` writes the same 44 sentences, with one or two of four labels each, as ten programs write
them, trains on each file, and writes this page. Below are the start of each file, the command, and what it prints about
the file. [Read data](data.md) has the rules.
"""

SAME = """The ten models give these probabilities to five new sentences, with the same digits for each file."""

DOCUMENTS = """
The striker scored twice in the last ten minutes. | sport
Our goalkeeper saved a penalty and the team stayed first. | sport
She ran the marathon in under three hours. | sport
The coach wants a younger defence next season. | sport
Two cyclists fell on the last climb of the race. | sport
The swimmer broke her own record over 200 metres. | sport
The final was lost on penalties after extra time. | sport
The club signed a new midfielder for four years. | sport
Heavy rain is expected in the north until Friday. | weather
Snow fell on the hills during the night. | weather
Temperatures drop below zero, with fog in the morning. | weather
A warm wind from the south melts the ice. | weather
Thunder and hail damaged roofs along the coast. | weather
It stays dry and sunny for the whole week. | weather
The drought has lasted since the end of April. | weather
Clouds clear in the evening, and the night is cold. | weather
The central bank raised interest rates by half a point. | money
Shares of the carmaker lost a tenth of their value. | money
Inflation slowed to two per cent in March. | money
The company reports a loss for the third quarter. | money
Savers earn more on deposits than last year. | money
The budget of the city has a hole of nine million. | money
Investors sold bonds after the figures on jobs. | money
Rents rise faster than wages in most towns. | money
Fry the onions in butter until they are brown. | food
The bread needs two hours to rise before baking. | food
Add the garlic and the tomatoes, and let the sauce simmer. | food
Season the soup with salt, pepper and a little lemon. | food
The cheese ripens for a year in a cool cellar. | food
Mix flour, eggs and milk for the pancakes. | food
A restaurant for fresh fish opened at the harbour. | food
Roast the potatoes with rosemary and olive oil. | food
The match was called off because the pitch was under snow. | sport, weather
Rain stopped play at the tennis tournament twice. | sport, weather
The ski race was moved because of fog and wind. | sport, weather
The club sold its best striker to pay its debts. | sport, money
Tickets for the cup final cost twice as much as last year. | sport, money
The sponsor pays the league forty million a season. | sport, money
Wheat is dearer after the drought, and so is bread. | food, money
The price of butter rose by a third in a year. | food, money
Coffee companies earn more while farmers earn less. | food, money
Frost in May destroyed most of the apples and cherries. | food, weather
After the wet summer, the vegetables are small and late. | food, weather
The storm sank two fishing boats, and fish is scarce. | food, weather
"""

NEW = {
    "The goalkeeper is injured and misses the final.": "sport",
    "Tomorrow brings showers and strong wind.": "weather",
    "The bank lends less to small companies.": "money",
    "Boil the rice and add the fried fish.": "food",
    "The game was stopped by a thunderstorm.": "sport, weather",
}
"""Texts to predict, and what a reader would say."""


class Table(NamedTuple):
    """The documents as every maker writes them."""

    texts: list[str]
    labels: list[list[str]]
    names: list[str]

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """Pairs of a text and its labels."""
        return list(zip(self.texts, self.labels, strict=True))


class Maker(NamedTuple):
    """Who writes a file, its name, its bytes, and the flags that it needs."""

    name: str
    file: str
    write: Callable[[Table], bytes]
    flags: tuple[str, ...] = ()


def read_table() -> Table:
    """Reads the documents above."""
    rows = [line.split(" | ") for line in DOCUMENTS.strip().splitlines()]
    labels = [row[1].split(", ") for row in rows]
    return Table([row[0] for row in rows], labels, sorted({name for row in labels for name in row}))


def write_csv(rows: list[list[object]], **options: str) -> str:
    """Formats rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n", **options).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def pandas_lists(table: Table) -> bytes:
    """`to_csv` of a column of lists, with the index."""
    return bytes(pd.DataFrame({"text": table.texts, "labels": table.labels}).to_csv().encode())


def numpy_arrays(table: Table) -> bytes:
    """`to_csv` of a column of arrays."""
    arrays = [np.array(row, dtype=object) for row in table.labels]
    return bytes(pd.DataFrame({"text": table.texts, "tags": arrays}).to_csv(index=False).encode())


def excel(table: Table) -> bytes:
    """CSV of a German Excel: semicolons, Windows-1252, and a line that names the delimiter."""
    rows = [[text, ", ".join(row)] for text, row in table.rows]
    return ("sep=;\r\n" + write_csv([["Text", "Schlagwörter"], *rows], delimiter=";")).encode("cp1252")


def kaggle(table: Table) -> bytes:
    """An id, the text, and a column of zeros and ones for each label."""
    rows = [
        [f"{number:08x}", text, *(int(name in row) for name in table.names)]
        for number, (text, row) in enumerate(table.rows)
    ]
    return write_csv([["id", "comment_text", *table.names], *rows]).encode()


def hugging_face(table: Table) -> bytes:
    """Parquet of `datasets`: numbers of classes, whose names are in the metadata."""
    feature = {"feature": {"names": table.names, "_type": "ClassLabel"}, "_type": "List"}
    info = {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, "label": feature}}}
    numbers = [[table.names.index(name) for name in row] for row in table.labels]
    columns = pa.table({"text": table.texts, "label": pa.array(numbers, pa.list_(pa.int64()))})
    sink = io.BytesIO()
    pq.write_table(columns.replace_schema_metadata({"huggingface": json.dumps(info)}), sink)
    return sink.getvalue()


def label_studio(table: Table) -> bytes:
    """JSON-MIN: `choices` is text for a single choice, and an object for several."""
    rows = [
        {"id": number, "text": text, "topic": row[0] if len(row) == 1 else {"choices": row}}
        for number, (text, row) in enumerate(table.rows, 1)
    ]
    return json.dumps(rows, indent=1).encode()


def doccano(table: Table) -> bytes:
    """JSON lines."""
    rows = [{"id": number, "text": text, "label": row, "Comments": []} for number, (text, row) in enumerate(table.rows)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def fast_text(table: Table) -> bytes:
    """Labels in front of each text."""
    lines = (" ".join([*(f"__label__{name}" for name in row), text]) for text, row in table.rows)
    return "".join(line + "\n" for line in lines).encode()


def jira(table: Table) -> bytes:
    """A column of the same name for each further label."""
    rows = [[f"NEWS-{number}", text, *row, *[""] * (2 - len(row))] for number, (text, row) in enumerate(table.rows, 1)]
    return write_csv([["Issue key", "Summary", "Labels", "Labels"], *rows]).encode()


def word_press(table: Table) -> bytes:
    """An export with tags joined by a bar."""
    rows = [[number, text, "|".join(row), "publish"] for number, (text, row) in enumerate(table.rows, 1)]
    return write_csv([["ID", "Content", "Tags", "Status"], *rows]).encode("utf-8-sig")


MAKERS = (
    Maker("pandas, lists", "lists.csv", pandas_lists),
    Maker("pandas, NumPy arrays", "arrays.csv", numpy_arrays, ("--labels", "tags")),
    Maker("Excel in German", "news.csv", excel, ("--text", "Text", "--labels", "Schlagwörter", "--separator", ",")),
    Maker("Kaggle", "train.csv", kaggle, ("--text", "comment_text")),
    Maker("Hugging Face datasets", "train.parquet", hugging_face),
    Maker("Label Studio", "project.json", label_studio, ("--labels", "topic")),
    Maker("doccano", "all.jsonl", doccano),
    Maker("fastText", "train.txt", fast_text),
    Maker("Jira", "issues.csv", jira, ("--text", "Summary", "--labels", "Labels.1", "Labels.2")),
    Maker("WordPress", "posts.csv", word_press, ("--text", "Content", "--labels", "Tags", "--separator", "|")),
)


def run(maker: Maker, table: Table, folder: Path) -> dict[str, Any]:
    """Trains on the file of a maker; returns its start, the command, what was printed about it, and predictions."""
    folder.mkdir()
    content = maker.write(table)
    (folder / maker.file).write_bytes(content)
    (folder / "new.txt").write_text("\n".join(NEW) + "\n", encoding="utf-8")
    arguments = ["train", maker.file, *maker.flags, "--output_dir", "runs"]
    printed = hf_gile(arguments, folder).partition("documents: ")[0]
    scored = map(json.loads, hf_gile(["score", "runs/auto/model", "new.txt", "--top-k", "0"], folder).splitlines())
    predictions = [dict(zip(row["labels"], row["scores"], strict=True)) for row in scored]
    return {
        "start": start_of(content),
        "command": "hf-gile " + shlex.join(arguments),
        "printed": [line.rstrip() for line in printed.splitlines()],
        "predictions": [{name: scores[name] for name in table.names} for scores in predictions],
    }


def start_of(content: bytes) -> list[str]:
    """Returns the first lines of a file, or what says that it is binary."""
    if content.startswith(b"PAR1"):
        return ["PAR1... (binary)"]
    encoding = "cp1252" if content.startswith(b"sep=") else "utf-8-sig"
    return [line[:100] for line in content.decode(encoding).splitlines()[:LINES]]


def hf_gile(arguments: list[str], folder: Path) -> str:
    """Runs the command in a folder; returns what it printed."""
    command = [sys.executable, "-m", "hf_gile_cli", *arguments]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    if finished.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{finished.stderr[-3000:]}")
    return finished.stdout


def check_equal(makers: Mapping[str, Any]) -> None:
    """Ends the script if a file led to other predictions than the first."""
    first, *others = (result["predictions"] for result in makers.values())
    for name, other in zip(list(makers)[1:], others, strict=True):
        if not np.allclose([[*row.values()] for row in other], [[*row.values()] for row in first], atol=1e-3):
            raise SystemExit(f"{name}: other predictions than {next(iter(makers))}: {other}")


def page(results: Mapping[str, Any]) -> str:
    """Formats docs/makers.md."""
    makers = results["makers"]
    text = INTRODUCTION
    for name, result in makers.items():
        shown = "\n".join([*result["start"], "", f"$ {result['command']}", *result["printed"]])
        text += f"\n## {name}\n\n```text\n{shown}\n```\n"
    first, *_ = makers.values()
    names = list(first["predictions"][0])
    text += f"\n## Predictions\n\n{SAME}\n\n| text | a reader says | {' | '.join(names)} |\n"
    text += f"| --- | --- |{' --- |' * len(names)}\n"
    for (new, said), scores in zip(NEW.items(), first["predictions"], strict=True):
        text += f"| {new} | {said} | {' | '.join(f'{scores[name]:.2f}' for name in names)} |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the page from the stored results")
    options = parser.parse_args()
    if not options.page:
        stay_offline()
        table = read_table()
        with tempfile.TemporaryDirectory() as work:
            makers = {maker.name: run(maker, table, Path(work) / str(number)) for number, maker in enumerate(MAKERS)}
        check_equal(makers)
        write_json(RESULT, {**provenance(0), "makers": makers})
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
