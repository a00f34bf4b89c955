r"""The tables of the paper, on real data of a size that fits an afternoon.

    python recipes/paper_tables.py biomedical --data DATA/pubmed_mesh --jobs 2   # Table 2
    python recipes/paper_tables.py news --data DATA/dw_format --jobs 2           # Tables 3 to 7, Figure 2

Each row is a run of recipes/train_bioasq.py or recipes/train_dw.py, on one thread; `--jobs` of them side by side. Runs
that are done, in `--runs`, are not done again. Writes benchmarks/results/paper_biomedical.json and paper_news.json, and
prints the tables as they stand in docs/paper_tables.md: means of the seeds, in percent.
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

from units import UNITS

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from machine import write_results  # noqa: E402

from hf_gile.data import LOW_RESOURCE_LEVELS  # noqa: E402

MAIN = {"linear", "bilinear_yh15", "bilinear_n16", "gile", "constrained", "only_label", "only_input"}
"""The rows whose order is the point of the table; of the others the first seed is enough."""

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
"""The paper has batches of 16, ReLU and hundreds of epochs: docs/paper_tables.md says what that does here."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["biomedical", "news"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="*", help="some of the rows")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each on one thread")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper_tables"), help="folder of the runs")
    parser.add_argument("recipe", nargs="*", help="arguments for every run, after --")
    options = parser.parse_args()
    {"biomedical": biomedical, "news": news}[options.table](options)


def biomedical(options: argparse.Namespace) -> None:
    """Table 2: word attention under every output layer, and the ranking baselines."""
    files = ["--unseen_file", str(options.data / "unseen_labels.json")]
    for part in ("train", "validation", "test"):
        files += [f"--{part}_files", str(options.data / f"{part}.jsonl.gz")]
    recipe = options.recipe or ["--num_train_epochs", "12", "--patience", "3"]
    units = [unit for unit in BIOMEDICAL if unit in UNITS and (not options.only or unit in options.only)]
    units.sort(key=lambda unit: (unit not in MAIN, unit == "aitextml"))  # the slowest last
    jobs = {
        (unit, seed): ["train_bioasq.py", *files, "--units", unit, "--seed", str(seed), *recipe]
        for place, seed in enumerate(options.seeds)
        for unit in units
        if place == 0 or unit in MAIN
    }
    rows: dict[str, dict[int, dict[str, float]]] = {}
    for (_, seed), results in run_all(jobs, options.runs / "biomedical", options.jobs):
        for row, result in results.items():
            rows.setdefault(row, {})[seed] = table_2(result)
        means = {row: spread(rows[row].values()) for row in BIOMEDICAL if row in rows}
        write_results("paper_biomedical", {"recipe": recipe, "percent": True, "mean": means, "seeds": rows})
    columns = [f"{metric} {group}" for group in ("seen", "unseen") for metric in ("RL", "AvgPr", "OneErr")]
    print(markdown({BIOMEDICAL[row]: mean for row, mean in means.items()}, [*columns, "parameters", "minutes"]))


def news(options: argparse.Namespace) -> None:
    """Tables 3 to 7 and Figure 2: one row is one run of recipes/train_dw.py."""
    recipe = options.recipe or NEWS_RECIPE
    runs = news_runs(options.data)
    if options.only:
        runs = {
            name: arguments for name, arguments in runs.items() if any(name.startswith(one) for one in options.only)
        }
    jobs = {
        (name, seed): ["train_dw.py", *recipe, *arguments, "--save_models", "false", "--seed", str(seed)]
        for seed in options.seeds
        for name, arguments in runs.items()
        if "--language" not in arguments
    }
    # What no seed changes.
    jobs |= {(name, 0): ["bag_of_words.py", *own] for name, own in runs.items() if "--language" in own}
    rows: dict[str, dict[Any, dict[str, float]]] = {}
    for (name, seed), results in run_all(jobs, options.runs / "news", options.jobs):
        (result,) = results.values()
        row, _, percent = name.partition("@")
        rows.setdefault(row, {})[f"{seed}@{percent}" if percent else seed] = news_figures(result)
        means = {row: spread(by_seed.values()) for row, by_seed in rows.items()}
        write_results("paper_news", {"recipe": recipe, "percent": True, "mean": means, "seeds": rows})
    for table in dict.fromkeys(name.split("/")[0] for name in rows):
        of_table = {name.partition("/")[2]: mean for name, mean in means.items() if name.startswith(f"{table}/")}
        columns = list(dict.fromkeys(column for mean in of_table.values() for column in mean))
        print(f"\n{table}\n{markdown(of_table, columns)}")


def news_runs(data: Path) -> dict[str, list[str]]:
    """The rows, as `table/row`, and the arguments of their runs; `table/row@percent` are averaged over the percents."""
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


def news_figures(result: dict[str, Any]) -> dict[str, float]:
    """The figures of one run: F1 of each language, and ranking of its seen and unseen labels."""
    figures: dict[str, float] = {}
    for language, own in result.items():
        if not isinstance(own, dict):
            continue
        test = own["test"]
        groups = {"seen": "seen_", "unseen": "unseen_"} if "test_seen_documents" in test else {"seen": ""}
        figures |= {
            f"{language} F1": 100 * own["tuned_f1"],
            f"{language} F1 at {own['fixed_threshold']}": 100 * own["fixed_f1"],
        }
        for group, infix in groups.items():
            figures |= {
                f"{language} {short} {group}": 100 * test[f"test_{infix}{name}"] for name, short in METRICS.items()
            }
    return {**figures, "parameters": result["parameters"], "minutes": result["seconds"] / 60}


def table_2(result: dict[str, Any]) -> dict[str, float]:
    """The columns of the paper's Table 2 of one run."""
    test = result["test"]
    groups = {"seen": "seen_", "unseen": "unseen_"} if "test_seen_documents" in test else {"seen": ""}
    figures = {
        f"{short} {group}": 100 * test[f"test_{infix}{name}"]
        for group, infix in groups.items()
        for name, short in METRICS.items()
    }
    return {**figures, "parameters": result["parameters"], "minutes": result["seconds"] / 60}


def run_all(jobs: dict[tuple[Any, ...], list[str]], folder: Path, side_by_side: int) -> Iterable[tuple[Any, Any]]:
    """Runs recipes, and gives the contents of each one's results.json in the order of the jobs."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    def run(key: tuple[Any, ...], command: list[str]) -> dict[str, Any]:
        place = folder / "-".join(map(str, key)).replace("/", "-").replace(" ", "_")
        done = place / "command.json"
        if not done.exists() or json.loads(done.read_text()) != command:
            place.mkdir(parents=True, exist_ok=True)
            arguments = [sys.executable, str(ROOT / "recipes" / command[0]), *command[1:], "--output_dir", str(place)]
            with (place / "log.txt").open("w") as log:
                code = subprocess.run(arguments, env=environment, stdout=log, stderr=log, check=False).returncode
            if code:
                raise RuntimeError(f"{' '.join(arguments)} ended with {code}; see {place / 'log.txt'}")
            done.write_text(json.dumps(command))
        return json.loads((place / "results.json").read_text())

    with ThreadPoolExecutor(side_by_side) as pool:
        futures = {key: pool.submit(run, key, command) for key, command in jobs.items()}
        for key, future in futures.items():
            yield key, future.result()


def spread(runs: Iterable[dict[str, float]]) -> dict[str, Any]:
    """Mean and standard deviation of every figure over the seeds."""
    runs = list(runs)
    return {
        name: {
            "mean": round(statistics.mean(run[name] for run in runs), 2),
            "std": round(statistics.stdev([run[name] for run in runs]), 2) if len(runs) > 1 else 0.0,
        }
        for name in runs[0]
    }


def markdown(rows: dict[str, dict[str, Any]], columns: list[str]) -> str:
    """A table of means."""

    def cell(value: dict[str, float] | None, column: str) -> str:
        if value is None:
            return "-"
        return f"{value['mean'] / 1e6:.2f}M" if column == "parameters" else f"{value['mean']:.2f}"

    lines = [f"| | {' | '.join(columns)} |", "| --- |" + " --- |" * len(columns)]
    lines += [f"| {name} | {' | '.join(cell(row.get(one), one) for one in columns)} |" for name, row in rows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
