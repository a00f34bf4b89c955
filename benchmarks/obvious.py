"""Compares `hf-gile train` with default settings to obvious alternatives on the same texts, splits and labels.

    python benchmarks/obvious.py --data FOLDER --sets clinc150 --systems ours tfidf_svc minilm_cosine --seeds 1
    python benchmarks/obvious.py --data FOLDER --sets sib200 tibkat --e5 FOLDER_OF_E5
    python benchmarks/obvious.py --data FOLDER --sets pubmed_mesh --systems minilm_mixture --held_out 0.1
    python benchmarks/obvious.py --page

Data sets are defined in benchmarks/obvious_sets.py and read from the folder; clinc150 selects clinc150, clinc150_unseen
and clinc150_few. Systems are defined in benchmarks/obvious_systems.py; by default, all systems that support a set are
run, each in a separate process with `--threads` threads. A system is fitted to the training documents, tuned on the
validation documents, and scores the test documents once.

Metrics are computed for seen labels ranked among seen labels, unseen labels among unseen labels, all labels, and unseen
labels among all labels except seen gold labels. F1 uses the threshold with the best micro-F1 of seen labels on
validation documents. For single-label documents, F1 is that of the best label, and micro-F1 of all labels is accuracy;
so is P@1, but it counts ties as errors. Systems without scores of unseen labels rank these last. F1@5 and NDCG are as
in Annif: means over documents for the five and the ten best labels.

Training time is the processor time of all fitting, including the encoding of texts. Documents per second are per
processor, from texts to the scores of all labels.

Writes results/obvious.json after each set, by set, system and seed, docs/obvious.md, and the table in README.md.
Existing results are not computed again without `--again`. If neither set nor system depends on the seed, only the first
seed is run. A set `few_NAME_N` has N training texts of each label of NAME, drawn by the seed, and no validation
documents. `--held_out SHARE`, for choosing settings, removes this share of the seen labels from training, ignores the
unseen labels of the test, and tests on the validation documents; it writes results/obvious_held_out.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, stay_offline, write_json
from obvious_sets import DRAWN, SETS, Task, hold_out
from obvious_systems import (
    LOWEST,
    SYSTEMS,
    VALIDATION,
    Encoder,
    Fitted,
    NotForThisSetError,
    Options,
    Score,
    batches,
    padded,
)
from papers.threshold_tuner import ThresholdTuner
from torch.nn import functional

from hf_gile.metrics import LabelMetrics

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "obvious.md", ROOT / "README.md"

COLUMNS = {"AvgPr": "average_precision", "P@1": "precision_at_1", "micro-F1": "micro_f1", "macro-F1": "macro_f1"}
"""Metrics in percent, by heading."""

RANKING = {heading: COLUMNS[heading] for heading in ("AvgPr", "P@1")}

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "seen": ("seen_", COLUMNS),
    "unseen": ("unseen_", RANKING),
    "unseen among all": ("unseen_among_all_", RANKING),
    "all": ("", COLUMNS),
}
"""Groups of labels: the prefix of their metrics, and their columns; no threshold is chosen for unseen labels."""

ANNIF = {"F1@5": "f1_at_5", "NDCG": "ndcg"}

PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "annif_en": {
        "Annif, MLLM": {"f1_at_5": 0.2160, "ndcg": 0.4291},
        "Annif, Bonsai": {"f1_at_5": 0.2934, "ndcg": 0.5807},
        "Annif, XTransformer": {"f1_at_5": 0.2761, "ndcg": 0.5419},
        "Annif, ensemble of the three": {"f1_at_5": 0.3079, "ndcg": 0.6051},
    },
    "annif_de": {
        "Annif, MLLM": {"f1_at_5": 0.2087, "ndcg": 0.4157},
        "Annif, Bonsai": {"f1_at_5": 0.2625, "ndcg": 0.5233},
        "Annif, XTransformer": {"f1_at_5": 0.2552, "ndcg": 0.5052},
        "Annif, ensemble of the three": {"f1_at_5": 0.2891, "ndcg": 0.5684},
    },
}
"""Published test results of other systems: https://github.com/NatLibFi/Annif-LLMs4Subjects, CC0.

They were trained on the same records, machine-translated into the other language; Bonsai also on records written by a
language model; the weights of the ensemble were tuned on this test.
"""

COSTS = {"training, CPU s": "training_cpu_seconds", "documents/CPU s": "documents_per_cpu_second"}

FAMILIES = {
    "few_clinc150": "texts of each label",
    "few_sib200_english": "texts of each label",
    "few_dw_general_english": "texts of each label",
    "sib200": "language",
    "dw_general": "language",
}
"""Data sets that share a table, and what they differ in."""


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="NAME", help=", ".join(SETS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--e5", default="intfloat/multilingual-e5-small", help="name or folder of that encoder")
    parser.add_argument("--held_out", type=float, default=0.0, help="share of seen labels, to choose settings")
    parser.add_argument("--again", action="store_true", help="run what has been run already")
    parser.add_argument("--cache", type=Path, default=cache / "hf_gile" / "obvious", help="of the vectors of encoders")
    parser.add_argument("--keep", type=Path, help="keep what ours trains in this folder")
    parser.add_argument("--results", type=Path, help="instead of the file in results/")
    parser.add_argument("--page", action="store_true", help="write the page of what has been run")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS, metavar=("SYSTEM", "SEED"))
    options = parser.parse_args()
    standard = RESULTS / ("obvious_held_out.json" if options.held_out else "obvious.json")
    path = options.results or standard
    unknown = [name for name in options.sets if not expand([name])]
    if unknown:
        parser.error(f"--sets: no set begins with {unknown[0]}: choose from {', '.join(SETS)}")
    if options.one:
        run_system(options, options.one[0], int(options.one[1]), path)
        return
    if options.data:
        for system in options.systems:
            for seed in options.seeds:
                if missing(options, system, seed, read(path)):
                    command = [sys.executable, __file__, *sys.argv[1:], "--one", system, str(seed)]
                    subprocess.run(command, check=False)  # what fails says so, and the others go on
    elif not options.page:
        parser.error("pass --data, or --page")
    if path == RESULTS / "obvious.json":
        write_pages(read(path))


def read(path: Path) -> dict[str, Any]:
    """Reads the existing results."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def expand(names: Sequence[str]) -> list[str]:
    """Selects the sets with these names or prefixes."""
    return [name for name in SETS if any(name == short or name.startswith(f"{short}_") for short in names)]


def missing(options: argparse.Namespace, system: str, seed: int, results: Mapping[str, Any]) -> list[str]:
    """Selects the sets on which to run a system with a seed."""
    sets = expand(options.sets)
    if seed != options.seeds[0] and not SYSTEMS[system].drawn:
        sets = [name for name in sets if name in DRAWN]
    return [name for name in sets if options.again or str(seed) not in results.get(name, {}).get(system, {})]


def run_system(options: argparse.Namespace, system: str, seed: int, path: Path) -> None:
    """Runs a system on the sets without results, and writes each result when it is available.

    Raises:
        SystemExit: If a set failed; the other sets were run.
    """
    stay_offline(options.threads)
    failed, made = [], None
    for name in missing(options, system, seed, read(path)):
        task = SETS[name](options.data, seed)
        if options.held_out:
            task = hold_out(task, options.held_out)
        try:
            if made is None or not task.trains_like(made.task):
                made = make(task, system, seed, Options(options.threads, options.cache, options.e5, options.keep))
            figures = measure(task, made, SYSTEMS[system].unseen) | provenance(seed)
        except NotForThisSetError as error:
            print(f"{name}, {system}: left out, {error}", flush=True)
            continue
        except Exception as error:  # a library that fails on one set is not to take the others along
            failed.append(f"{name}, {system}, seed {seed}: {type(error).__name__}: {error}")
            print(failed[-1], flush=True)
            continue
        print(f"{name}, {system}, seed {seed}: {short(figures)}", flush=True)
        results = read(path)  # another command may have written in the meantime
        results.setdefault(name, {}).setdefault(system, {})[str(seed)] = figures
        write_json(path, results)
    if failed:
        raise SystemExit(1)


@dataclass(frozen=True)
class Made:
    """A system fitted to a set, and the processor seconds of fitting."""

    task: Task
    fitted: Fitted
    seconds: float


def make(task: Task, system: str, seed: int, options: Options) -> Made:
    """Fits a system to a set."""
    start = cpu_seconds()
    fitted = SYSTEMS[system].fit(task, seed, options)
    return Made(task, fitted, cpu_seconds() - start)


def measure(task: Task, made: Made, unseen: bool) -> dict[str, Any]:
    """Scores the test documents of a set."""
    figures = evaluate(task, made.fitted.score, unseen)
    return {"training_cpu_seconds": made.seconds, **figures, "details": made.fitted.details}


def cpu_seconds() -> float:
    """Returns the processor time of this process, of its finished children, and of cached vectors."""
    return time.process_time() + sum(os.times()[2:4]) + Encoder.saved_seconds


def evaluate(task: Task, score: Score, unseen: bool) -> dict[str, Any]:
    """Computes the metrics of the test part.

    Args:
        task: Documents and labels.
        score: Computes `(B, L)` or `(B, num_seen)` scores of texts.
        unseen: Whether the system scores unseen labels; if not, metrics of unseen labels are omitted.

    Returns:
        `threshold`, of the seen labels of validation documents (1, of no use, where each document has one label);
        `documents_per_cpu_second` of the test part; and `test`, the figures of `GROUPS` and `ANNIF`.
    """
    num_labels, has_unseen = len(task.labels), task.num_seen < len(task.labels)

    def scored(part: str, rows: slice) -> Any:
        scores = score(task.texts[part][rows])
        return functional.pad(scores, (0, num_labels - scores.shape[1]), value=LOWEST)

    threshold = 1.0
    if not task.one_label:
        tuner = ThresholdTuner(task.num_seen)
        for rows in batches(min(VALIDATION, len(task.texts["validation"]))):
            of_seen = [[column for column in row if column < task.num_seen] for row in task.gold["validation"][rows]]
            tuner.update(scored("validation", rows)[:, : task.num_seen], padded(of_seen))
        threshold = tuner.compute()["threshold"]
    seen = task.labels.seen if has_unseen else None
    metrics = LabelMetrics(num_labels, seen, threshold, top_k=(1,), one_label=task.one_label)
    competing = LabelMetrics(num_labels, top_k=(1,))
    sums, seconds, documents = dict.fromkeys(ANNIF.values(), 0.0), 0.0, len(task.texts["test"])
    for rows in batches(documents):
        start = cpu_seconds()
        scores = scored("test", rows)
        seconds += cpu_seconds() - start
        gold = task.gold["test"][rows]
        metrics.update(scores, padded(gold))
        for figure, values in annif_figures(scores, gold).items():
            sums[figure] += sum(values)
        if has_unseen and unseen:
            for row, columns in zip(scores, gold, strict=True):
                row[[column for column in columns if column < task.num_seen]] = LOWEST
            competing.update(scores, padded([[c for c in columns if c >= task.num_seen] for columns in gold]))
    computed = metrics.compute()
    if has_unseen and unseen:
        computed |= {f"unseen_among_all_{figure}": value for figure, value in competing.compute().items()}
    test = {
        prefix + figure: computed[prefix + figure]
        for group, (prefix, columns) in GROUPS.items()
        for figure in columns.values()
        if (has_unseen or group == "all") and (unseen or not prefix.startswith("unseen"))
    }
    test |= {figure: value / documents for figure, value in sums.items()}
    return {"threshold": threshold, "documents_per_cpu_second": documents / seconds, "test": test}


def annif_figures(scores: torch.Tensor, gold: Sequence[Sequence[int]]) -> dict[str, list[float]]:
    """Computes F1 of the five best labels and NDCG of the ten best labels of each document, as in Annif.

    Without a gold label F1 is 0 and NDCG is 1.
    """
    best = scores.topk(min(10, scores.shape[1])).indices.tolist()
    gains = [1 / torch.tensor(place + 2.0).log2().item() for place in range(max([10, *map(len, gold)]))]
    f1, ndcg = [], []
    for columns, own in zip(best, gold, strict=True):
        hits = [column in own for column in columns]
        f1.append(2 * sum(hits[:5]) / (5 + len(own)))
        gained = sum(gain for gain, hit in zip(gains, hits, strict=False) if hit)
        ndcg.append(gained / sum(gains[: len(own)]) if own else 1.0)
    return {"f1_at_5": f1, "ndcg": ndcg}


# --- The page --------------------------------------------------------------------------------------------------------

INTRODUCTION = """# hf_gile beside the obvious systems

    python benchmarks/obvious.py --data FOLDER
    python benchmarks/obvious.py --page

This page compares `hf-gile train` with default settings ("ours") with the systems that most people would try first, on
the same texts, splits and labels. "No pretrained encoder" is `hf-gile train --text_encoder words`, which is also the
default if no encoder is available. Figures are in percent, means over the seeds that were run. `benchmarks/obvious.py`
measures them and writes this page; the systems are in `benchmarks/obvious_systems.py`, the data sets in
`benchmarks/obvious_sets.py`.

Seen labels have training documents and are ranked among the seen labels. Unseen labels have none and are ranked among
the unseen labels; "unseen among all" ranks them while all labels compete. Columns without a group cover all labels. F1
uses a single threshold, the best for the micro-F1 of the seen labels on validation documents. If each text has a
single label, F1 is that of the best label, and the micro-F1 of all labels is the accuracy. So is P@1, except that it
counts ties as errors. The first table averages over the languages of a data set and omits systems that were not run in
all of them.

Rows marked "published" are the test figures of Annif's authors (NatLibFi/Annif-LLMs4Subjects). Their systems trained on
the same records, translated by machine into the other language; Bonsai also used records written by a language model,
and the weights of the ensemble were tuned on this test. The test records of each language include translations, too.
Ours trains on the original records only.
"""


def page(results: Mapping[str, Any]) -> str:
    """Formats the page of a results file."""
    made = {"Ours beside the best of the others": beside(results), **tables(results)}
    sections = "".join(f"\n## {title}\n\n{table}\n" for title, table in made.items())
    return f"{INTRODUCTION}\n{commits(results)}\n{sections}"


def commits(results: Mapping[str, Any]) -> str:
    """Says at which commits ours was measured."""
    families_at: dict[str, list[str]] = {}
    for family, sets in members(results).items():
        stamps = {f"`{run['commit'][:8]}`" for name in sets for run in results[name].get("ours", {}).values()}
        families_at.setdefault(" and ".join(sorted(stamps)), []).append(family)
    lines = [f"- {stamp}: {', '.join(families)}" for stamp, families in families_at.items()]
    return "\n".join(["Ours, nothing set, was measured at these commits:", "", *lines])


def members(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Groups the sets with results by family."""
    families: dict[str, list[str]] = {}
    for name in (name for name in SETS if results.get(name)):
        family = next((family for family in FAMILIES if name.startswith(f"{family}_")), name)
        families.setdefault(family, []).append(name)
    return families


def columns_of(name: str) -> dict[str, str]:
    """Returns the headings of a set, and the names of their metrics."""
    columns = {
        f"{group} {heading}".removeprefix("all "): prefix + figure
        for group, (prefix, figures) in GROUPS.items()
        for heading, figure in figures.items()
    }
    if name.startswith("annif"):
        return ANNIF | {f"{group} AvgPr": columns[f"{group} AvgPr"] for group in ("seen", "unseen", "unseen among all")}
    return columns


def mean_of(runs: Mapping[str, Any], figure: str) -> float | None:
    """Computes the mean of a metric over the runs of a system on a set; None if missing."""
    values = [run["test"].get(figure, run.get(figure)) for run in runs.values()]
    return statistics.mean(values) if values and None not in values else None


def compared(results: Mapping[str, Any], sets: Sequence[str], figure: str) -> tuple[float, float, str] | None:
    """Returns ours, the best other system and its name, in percent, means over sets; None if either is missing."""
    of_sets = {system: [mean_of(results[name].get(system, {}), figure) for name in sets] for system in SYSTEMS}
    means = {SYSTEMS[key].name: 100 * sum(values) / len(sets) for key, values in of_sets.items() if None not in values}
    ours = means.pop(SYSTEMS["ours"].name, None)
    for key in ("ours_words", "static"):
        means.pop(SYSTEMS[key].name, None)
    published = PUBLISHED.get(sets[0], {})
    means |= {name: 100 * figures[figure] for name, figures in published.items() if figure in figures}
    if ours is None or not means:
        return None
    best = max(means, key=means.__getitem__)
    return ours, means[best], best


def beside(results: Mapping[str, Any]) -> str:
    """Compares ours to the best other system for each set and metric; averages the languages of a family."""
    lines = []
    for family, sets in members(results).items():
        for heading, figure in columns_of(family).items():
            if both := compared(results, sets, figure):
                ours, best, name = both
                lines.append([family, heading, f"{ours:.1f}", f"{best:.1f}", name, f"{ours - best:+.1f}"])
    return markdown(["set", "figure", "ours", "best other", "which", "difference"], lines)


DESCRIBED = {
    "pubmed_mesh": "MEDLINE abstracts, 12,000 headings",
    "tibkat_en": "library records in English, 26,000 subjects",
    "clinc150_unseen": "utterances, 50 of the intents unseen",
    "clinc150_few": "utterances, 8 examples of an intent",
    "sib200": "sentences in eight languages, 7 topics",
}
"""Sets in the table of README.md."""


def front_table(results: Mapping[str, Any]) -> str:
    """Formats the table of README.md: average precision per group, of ours and the best other system."""
    lines = []
    for family, sets in members(results).items():
        if family not in DESCRIBED:
            continue
        figures = columns_of(family)
        cells = [DESCRIBED[family]]
        for group in ("seen", "unseen", "unseen among all"):
            both = compared(results, sets, figures[f"{group} AvgPr"])
            if both is None and group == "seen":  # all labels are seen
                both = compared(results, sets, figures["AvgPr"])
            cells.append("-" if both is None else f"{both[0]:.1f} / {both[1]:.1f} ({both[2]})")
        lines.append(cells)
    return markdown(["ours / best other", "seen", "unseen", "unseen, ranked among all"], lines)


def write_pages(results: Mapping[str, Any]) -> None:
    """Writes docs/obvious.md, and replaces the table of README.md."""
    PAGE.write_text(page(results), encoding="utf-8")
    lines = README.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("| ours / best other |"))
    end = next(place for place, line in enumerate(lines) if place > start and not line.startswith("|"))
    text = "\n".join([*lines[:start], front_table(results), *lines[end:]])
    README.write_text(text + "\n", encoding="utf-8")
    from pictures import draw_all  # which reads the results file, and imports this module

    draw_all()


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Formats Markdown tables of a results file, by title, with a row per system."""
    made = {}
    for family, sets in members(results).items():
        title, columns = family, {heading: (sets, figure) for heading, figure in columns_of(family).items()}
        if family in FAMILIES:
            title = f"{family}, P@1 by {FAMILIES[family]}"
            columns = {name.removeprefix(f"{family}_"): ([name], "precision_at_1") for name in sets}
        columns |= {heading: (sets, figure) for heading, figure in COSTS.items()}
        rows = []
        for key, system in SYSTEMS.items():
            if runs := max(len(results[name].get(key, {})) for name in sets):
                cells = [
                    cell([results[name].get(key, {}) for name in names], figure) for names, figure in columns.values()
                ]
                rows.append([system.name, *cells, str(runs)])
        for name, figures in PUBLISHED.get(family, {}).items():
            cells = [f"{100 * figures[figure]:.1f}" if figure in figures else "-" for _, figure in columns.values()]
            rows.append([name, *cells, "published"])
        used = [place for place in range(len(columns) + 2) if any(row[place] != "-" for row in rows)]
        headings = ["", *columns, "runs"]
        made[title] = markdown([headings[place] for place in used], [[row[place] for place in used] for row in rows])
    return made


def cell(of_sets: Sequence[Mapping[str, Any]], figure: str) -> str:
    """Formats the mean of a metric over the sets that have it, in percent except for costs."""
    values = [value for runs in of_sets if (value := mean_of(runs, figure)) is not None]
    if not values:
        return "-"
    return f"{statistics.mean(values):,.0f}" if "second" in figure else f"{100 * statistics.mean(values):.1f}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a Markdown table."""
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(figures: Mapping[str, Any]) -> str:
    """Summarizes a run in a line."""
    test = ", ".join(f"{name} {100 * value:.1f}" for name, value in figures["test"].items())
    seconds = f"{figures['training_cpu_seconds']:.0f} CPU s, {figures['documents_per_cpu_second']:.0f} documents/CPU s"
    return f"{test}; {seconds}; {figures['details']}"


if __name__ == "__main__":
    main()
