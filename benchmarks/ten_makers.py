"""Writes one table as ten makers write it, trains on each file, and writes docs/makers.md.

    python benchmarks/ten_makers.py
    python benchmarks/ten_makers.py --page      # only writes the page

Every file has the same documents and labels, so every model must predict the same.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
from machine import RESULTS, provenance, stay_offline, write_json

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "data"))

from makers import fasttext, frame, joined, label_studio, lines, numbered, one_hot, parquet  # noqa: E402

PAGE = ROOT / "docs" / "makers.md"
RESULT = RESULTS / "ten_makers.json"
LINES = 4

INTRODUCTION = """# Ten makers of tables

`python benchmarks/ten_makers.py` writes the same 44 sentences, with one or two of four labels each, as ten programs
write them, trains on each file, and writes this page. Below are the start of each file, the command, and what it prints
about the file. [Read data](data.md) has the rules.
"""

SAME = "The ten models give these probabilities to five new sentences, with the same digits for each file."

DOCUMENTS = """
The striker scored twice in the last ten minutes. | sport
The match was called off because the pitch was under snow. | sport, weather
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


ROWS = [(text, labels.split(", ")) for text, labels in (line.split(" | ") for line in DOCUMENTS.strip().splitlines())]
NAMES = sorted({name for _, labels in ROWS for name in labels})
CLASSES = datasets.Sequence(datasets.ClassLabel(names=NAMES))
ISSUES = [[f"NEWS-{number}", text, *[*labels, ""][:2]] for number, (text, labels) in enumerate(ROWS, 1)]

# The name and content of the file, and the flags.
MAKERS: dict[str, tuple[str, Any, list[str]]] = {
    "pandas": ("lists.csv", frame(ROWS).to_csv(), []),
    "NumPy": ("arrays.csv", frame(ROWS, np.array).to_csv(index=False), []),
    "Excel in Germany": (
        "news.csv",
        (
            "sep=;\r\n" + joined(ROWS, ", ").rename(columns={"labels": "Schlagwörter"}).to_csv(sep=";", index=False)
        ).encode("cp1252"),
        ["--labels", "Schlagwörter", "--separator", ","],
    ),
    "Kaggle": ("train.csv", one_hot(ROWS, 1, 0, NAMES).to_csv(), []),
    "datasets of Hugging Face": ("train.parquet", parquet(numbered(ROWS, NAMES), labels=CLASSES), []),
    "Label Studio": ("project.csv", frame(ROWS, label_studio).to_csv(index=False), []),
    "doccano": (
        "all.jsonl",
        lines({"id": number, "text": text, "label": labels} for number, (text, labels) in enumerate(ROWS)),
        [],
    ),
    "fastText": ("train.txt", fasttext(ROWS), []),
    "Jira": (
        "issues.csv",
        pd.DataFrame(ISSUES, columns=["Issue key", "Summary", "Labels", "Labels"]).to_csv(index=False),
        ["--text", "Summary", "--labels", "Labels.1", "Labels.2"],
    ),
    "WordPress": (
        "posts.csv",
        "\ufeff" + joined(ROWS, "|").rename(columns={"text": "Content", "labels": "Tags"}).to_csv(index=False),
        ["--text", "Content", "--labels", "Tags", "--separator", "|"],
    ),
}


def run(file: str, content: Any, flags: list[str], folder: Path) -> dict[str, Any]:
    """Trains on a file; returns its start, the command, what was printed about it, and predictions."""
    folder.mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (folder / file).write_bytes(data)
    (folder / "new.txt").write_text("\n".join(NEW) + "\n", encoding="utf-8")
    arguments = ["train", file, *flags, "--output_dir", "runs"]
    printed = hf_gile(arguments, folder).partition("documents: ")[0]
    scored = map(json.loads, hf_gile(["score", "runs/auto/model", "new.txt", "--top-k", "0"], folder).splitlines())
    predictions = [dict(zip(row["labels"], row["scores"], strict=True)) for row in scored]
    return {
        "start": start_of(data),
        "command": "hf-gile " + shlex.join(arguments),
        "printed": [line.rstrip() for line in printed.splitlines()],
        "predictions": [{name: scores[name] for name in NAMES} for scores in predictions],
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
        with tempfile.TemporaryDirectory() as work:
            makers = {
                name: run(*maker, Path(work) / str(number)) for number, (name, maker) in enumerate(MAKERS.items())
            }
        check_equal(makers)
        write_json(RESULT, {**provenance(0), "makers": makers})
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
