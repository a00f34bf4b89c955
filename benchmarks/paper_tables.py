r"""Reproduces the tables of the paper on real data small enough for an afternoon.

    python benchmarks/paper_tables.py biomedical --data DATA/pubmed_mesh --jobs 2   # Table 2
    python benchmarks/paper_tables.py news --data DATA/dw_format --jobs 2           # Tables 3 to 7, Figure 2

Each row is a run of recipes/train_bioasq.py or recipes/train_dw.py on one thread; `--jobs` runs are parallel. Finished
runs in `--runs` are reused. Writes benchmarks/results/paper_biomedical.json and paper_news.json, and prints the tables
of docs/paper_tables.md: means over the seeds, in percent.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import commit, write_results
from papers.units import UNITS

from hf_gile.writing import whole_file

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "recipes"))

from baselines import BASELINES  # noqa: E402
from papers.news import LOW_RESOURCE_LEVELS  # noqa: E402

MAIN = {"linear", "bilinear_yh15", "bilinear_n16", "gile", "constrained", "only_label", "only_input"}
"""Rows that the table compares; further rows are run with the first seed only."""

Tables = dict[str, dict[str, dict[str, dict[str, float]]]]
"""Maps table, row and column to `mean` and `std`."""

METRICS = {"ranking_loss": "RL", "average_precision": "AvgPr", "one_error": "OneErr"}
BIOMEDICAL = {
    "wsabie": "WSABIE+",
    "aitextml": "AiTextML avg",
    "aitextml_inferred": "AiTextML inf",
    "linear": "WAN",
    "bilinear_yh15": "BIL-WAN [YH15]",
    "bilinear_n16": "BIL-WAN [N16]",
    "gile": "GILE-WAN",
    "constrained": "- constrained d_j",
    "only_label": "- only label (Eq. 6a)",
    "only_input": "- only input (Eq. 6b)",
    "gile_tanh": "GILE-WAN, tanh",
    "linear_tanh": "WAN, tanh",
    "gile_warp": "GILE-WAN, WARP loss",
    "wsabie_cross_entropy": "WSABIE+, cross-entropy",
    "gile_learned": "GILE-WAN, label vectors learned",
    "label_encoder": "GILE-WAN, labels read by the text encoder",
    "hinge": "WAN, hinge loss",
}


NEWS_RECIPE = [
    *("--num_train_epochs", "6", "--epoch_size", "0"),
    *("--per_device_train_batch_size", "64", "--learning_rate", "5e-3", "--hidden_act", "tanh"),
]
"""The paper uses batches of 16, ReLU and hundreds of epochs; docs/paper_tables.md describes their effect here."""


OF_THE_PAPER = ("--save_models", "false", "--problem_type", "multi_label_classification")
"""Sigmoids and micro-F1 at a threshold, even if each document has exactly one label."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["biomedical", "news"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="*", help="rows to run; by default all")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs, each on one thread")
    parser.add_argument("--no_new_runs", action="store_true", help="make tables of the finished runs only")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper_tables"), help="folder of the runs")
    parser.add_argument("recipe", nargs="*", help="arguments for every run, after --")
    options = parser.parse_args(namespace=argparse.Namespace(commits=set()))
    tables = {"biomedical": biomedical, "news": news}[options.table](options)
    print(*markdown(tables).values(), sep="\n\n")


def biomedical(options: argparse.Namespace) -> Tables:
    """Table 2: word attention under every output layer, and the ranking baselines."""
    files = ["--no_baselines", "--lexical", "false", "--unseen_file", str(options.data / "unseen_labels.json")]
    for part in ("train", "validation", "test"):
        files += [f"--{part}_files", str(options.data / f"{part}.jsonl.gz")]
    recipe = options.recipe or ["--num_train_epochs", "12", "--patience", "3"]
    units = [
        unit
        for unit in BIOMEDICAL
        if (unit in UNITS or unit in BASELINES) and (not options.only or unit in options.only)
    ]
    units.sort(key=lambda unit: (unit not in MAIN, unit == "aitextml"))  # the slowest last
    jobs = {
        (unit, seed): ["train_bioasq.py", *files, "--units", unit, "--seed", str(seed), *recipe]
        for seed in options.seeds
        for unit in units
        if seed == options.seeds[0] or unit in MAIN
    }
    rows: dict[str, dict[str, dict[str, float]]] = {}
    means: Tables = {}
    for (_, seed), results in run_all(jobs, options.runs / "biomedical", options):
        for row, result in results.items():
            rows.setdefault(row, {})[str(seed)] = table_2(result)
        in_order = {BIOMEDICAL[row]: rows[row] for row in BIOMEDICAL if row in rows}
        means = write("paper_biomedical", recipe, {"Table 2": in_order}, options)
    return means


def news(options: argparse.Namespace) -> Tables:
    """Tables 3 to 7 and Figure 2: each row is a run of recipes/train_dw.py."""
    recipe = options.recipe or NEWS_RECIPE
    runs = news_runs(options.data)
    if options.only:
        runs = {
            name: arguments for name, arguments in runs.items() if any(name.startswith(row) for row in options.only)
        }
    jobs = {
        (name, seed): ["train_dw.py", *recipe, *arguments, *OF_THE_PAPER, "--seed", str(seed)]
        for seed in options.seeds
        for name, arguments in runs.items()
        if "--language" not in arguments
    }
    # Bag-of-words baselines do not depend on the seed.
    jobs |= {
        (name, 0): ["baselines/bag_of_words.py", *arguments]
        for name, arguments in runs.items()
        if "--language" in arguments
    }
    tables: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    means: Tables = {}
    for (name, seed), results in run_all(jobs, options.runs / "news", options):
        ((unit, result),) = results.items()
        table, _, row = name.partition("/")
        row, _, percent = row.partition("@")
        languages = [language for language, content in result.items() if isinstance(content, dict)]
        for language in languages[-1:] if percent else languages:  # the last language has few documents
            label = row if language in row or percent else f"{language}, {row}"
            row_runs = tables.setdefault(table, {}).setdefault(label, {})
            row_runs[f"{seed}, {percent} %" if percent else str(seed)] = news_figures(unit, result, language)
        means = write("paper_news", recipe, tables, options)
    return means


def news_runs(data: Path) -> dict[str, list[str]]:
    """Maps rows, as `table/row`, to the arguments of their runs; `table/row@percent` are averaged over the percents."""
    specific, general = (["--data", str(data / kind)] for kind in ("specific", "general"))
    some_unseen = [*specific, "--held_out", "0.1"]
    runs: dict[str, list[str]] = {}
    for language in ("english", "german"):
        for encoder in ("nn", "hnn", "han") if language == "english" else ("han",):
            for unit in ("linear", "gile"):
                options = ["--languages", language, "--text_encoder_type", encoder, "--units", unit]
                runs[f"specific, one language/{language}, {encoder}, {unit}"] = [*some_unseen, *options]
    for unit in ("bilinear_yh15", "bilinear_n16", "constrained", "only_label", "only_input"):
        runs[f"specific, one language/english, han, {unit}"] = [*some_unseen, "--languages", "english", "--units", unit]
    for share, words in (("1", "all words"), ("0.1", "a tenth of the words")):
        options = ["--language", "english", "--share_of_words", share]
        runs[f"specific, one language/english, logistic regression, {words}"] = [*some_unseen, *options]
    for sharing in ("encoders", "attention", "both"):
        for unit in ("linear", "gile"):
            options = ["--languages", "english", "german", "--sharing", sharing, "--units", unit]
            runs[f"specific, two languages/{sharing} shared, {unit}"] = [*some_unseen, *options]
    more_epochs = ["--num_train_epochs", "30", "--per_device_train_batch_size", "16"]
    for cell in ("dense", "gru", "bigru"):
        for unit in ("linear", "gile"):
            options = ["--languages", "english", "--encoder_cell", cell, "--units", unit, "--joint_size", "100"]
            runs[f"general, English/{cell}, {unit}"] = [*general, *options, *more_epochs]
    for unit in ("linear", "gile"):
        runs[f"general, eight languages/{unit}"] = [*general, "--units", unit, "--joint_size", "100", *more_epochs]
    for share in (0.1, 0.25, 0.5, 0.75, 1.0):
        options = ["--languages", "english", "--text_encoder_type", "hnn", "--units", "gile"]
        runs[f"labels sampled, English/{share:.0%}"] = [*specific, *options, "--label_share", str(share)]
    models = {
        "han": ["--languages", "german", "--units", "linear"],
        "mhan": ["--languages", "english", "german", "--sharing", "both", "--units", "linear"],
        "gile-mhan": [
            "--languages",
            "english",
            "german",
            "--sharing",
            "both",
            "--units",
            "gile",
            "--joint_size",
            "100",
        ],
    }
    for level, percents in LOW_RESOURCE_LEVELS.items():
        for model, options in models.items():
            for percent in percents:
                few = ["--percent", str(percent), "--num_train_epochs", "15", "--per_device_train_batch_size", "16"]
                runs[f"low resource, English to German/{level}, {model}@{percent}"] = [*general, *options, *few]
    return runs


def news_figures(unit: str, result: dict[str, Any], language: str) -> dict[str, float]:
    """Returns the figures of a language in a run: F1, and ranking metrics of its seen and unseen labels."""
    content = result[language]
    test = content["test"]
    groups = {"seen": "seen_", "unseen": "unseen_"} if "test_seen_documents" in test else {"seen": ""}
    if unit not in UNITS or UNITS[unit].is_linear:
        groups.pop("unseen", None)  # a linear unit scores unseen labels at random
    ranking = {
        f"{short} {group}": 100 * test[f"test_{infix}{name}"]
        for group, infix in groups.items()
        for name, short in METRICS.items()
        if test[f"test_{infix}documents"]  # the figures of no document are null
    }
    fixed = {f"F1 at {content['fixed_threshold']}": 100 * content["fixed_f1"]}
    cost = {"parameters": result["parameters"], "minutes": result["seconds"] / 60}
    return {"F1": 100 * content["tuned_f1"], **fixed, **ranking, **cost}


def table_2(result: dict[str, Any]) -> dict[str, float]:
    """Returns the columns of the paper's Table 2 for a run."""
    test = result["test"]
    groups = {"seen": "seen_", "unseen": "unseen_"} if "test_seen_documents" in test else {"seen": ""}
    figures = {
        f"{short} {group}": 100 * test[f"test_{infix}{name}"]
        for group, infix in groups.items()
        for name, short in METRICS.items()
        if test[f"test_{infix}documents"]
    }
    return {**figures, "parameters": result["parameters"], "minutes": result["seconds"] / 60}


def run_all(
    jobs: dict[tuple[Any, ...], list[str]], folder: Path, options: argparse.Namespace
) -> Iterable[tuple[Any, Any]]:
    """Runs recipes and yields the contents of their results.json files in the order of the jobs."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    def run(key: tuple[Any, ...], command: list[str]) -> dict[str, Any] | None:
        output = folder / "-".join(map(str, key)).replace("/", "-").replace(" ", "_")
        marker = output / "command.json"
        finished = json.loads(marker.read_text()) if marker.exists() else {}
        if finished.get("command") != command:
            if options.no_new_runs:
                return None
            output.mkdir(parents=True, exist_ok=True)
            arguments = [sys.executable, str(ROOT / "recipes" / command[0]), *command[1:], "--output_dir", str(output)]
            with (output / "log.txt").open("w") as log:
                code = subprocess.run(arguments, env=environment, stdout=log, stderr=log, check=False).returncode
            if code:
                raise RuntimeError(f"{' '.join(arguments)} exited with status {code}; see {output / 'log.txt'}")
            finished = {"command": command, "commit": commit()}
            with whole_file(marker) as written:
                written.write_text(json.dumps(finished))
        options.commits.add(finished["commit"])
        return json.loads((output / "results.json").read_text())

    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {key: pool.submit(run, key, command) for key, command in jobs.items()}
        for key, future in futures.items():
            if (results := future.result()) is not None:
                yield key, results


def write(
    name: str,
    recipe: list[str],
    tables: dict[str, dict[str, dict[str, dict[str, float]]]],
    options: argparse.Namespace,
) -> Tables:
    """Writes the results of the runs so far and returns their means."""
    means = {table: {row: spread(runs.values()) for row, runs in rows.items()} for table, rows in tables.items()}
    commits = sorted(options.commits)  # reused runs may come from earlier commits
    results = {"commits_of_runs": commits, "recipe": recipe, "percent": True, "mean": means, "runs": tables}
    write_results(name, results, seed=options.seeds)
    return means


def spread(runs: Iterable[dict[str, float]]) -> dict[str, Any]:
    """Returns mean and standard deviation of every figure over the runs, and the number of runs."""
    runs = list(runs)
    figures = {
        name: {
            "mean": round(statistics.mean(run[name] for run in runs), 2),
            "std": round(statistics.stdev([run[name] for run in runs]), 2) if len(runs) > 1 else 0.0,
        }
        for name in runs[0]
    }
    return {**figures, "runs": {"mean": len(runs), "std": 0.0}}


def markdown(means: Tables) -> dict[str, str]:
    """Returns the tables of means in the format of docs/paper_tables.md."""

    def cell(value: dict[str, float] | None, column: str) -> str:
        if value is None:
            return "-"
        if column == "parameters":
            return f"{value['mean'] / 1e6:.2f}M" if value["mean"] >= 1e5 else f"{value['mean'] / 1e3:.1f}K"
        return f"{value['mean']:.0f}" if column == "runs" else f"{value['mean']:.2f}"

    tables = {}
    for table, rows in means.items():
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        columns.sort(key=lambda column: ("unseen" in column) + 2 * (column in ("parameters", "minutes", "runs")))
        lines = [f"| {table} | {' | '.join(columns)} |", "| --- |" + " --- |" * len(columns)]
        lines += [
            f"| {name} | {' | '.join(cell(row.get(column), column) for column in columns)} |"
            for name, row in rows.items()
        ]
        tables[table] = "\n".join(lines)
    return tables


if __name__ == "__main__":
    main()
