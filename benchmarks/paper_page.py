"""Writes docs/paper_tables.md from the list of rows and the runs that there are."""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paper_rows import Cell, Run, Table

Runs = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Records of runs, by name of the run and by seed."""


@dataclass(frozen=True)
class Measured:
    """The counterpart of a number of a paper, over seeds.

    Args:
        values: A value for each seed that all runs of the cell have.
        wanted: Number of seeds that the row claims.
    """

    values: tuple[float, ...]
    wanted: int

    @property
    def is_complete(self) -> bool:
        """Whether there are all seeds."""
        return len(self.values) >= self.wanted

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


def measured(cell: Cell, runs: Runs) -> Measured | None:
    """Returns the values of a cell, or None if nothing can be measured here, or if it has words."""
    if not cell.groups:
        return None
    wanted = max(run.seeds for run in cell.runs)
    values = []
    for seed in range(1, wanted + 1):
        groups = [[_figure(run, name, seed, runs) for run, name in group] for group in cell.groups]
        if all(isinstance(figure, float | int) for group in groups for figure in group):
            values.append(statistics.fmean(statistics.fmean(group) for group in groups))
    return Measured(tuple(values), wanted)


def _figure(run: Run, name: str, seed: int, runs: Runs) -> Any:
    """A figure of a run; runs whose kind has no seeds count for each seed."""
    records = runs.get(run.name, {})
    record = records.get(str(min(seed, run.seeds)), {})
    return record.get("figures", {}).get(name)


def page(tables: list[Table], runs: Runs) -> str:
    """Returns the page: all tables with the rows there are, and the rows that there are not."""
    parts = [INTRODUCTION, _totals(tables, runs), *_sources(runs)]
    for table in tables:
        parts += [f"## {table.title}", table.about]
        if table.missing:
            parts.append(table.missing)
        rows = _rows(table, runs)
        if rows:
            parts.append("\n".join([_line(["", *table.columns]), _line(["---"] * (1 + len(table.columns))), *rows]))
        orders = list(_orders(table, runs))
        if orders:
            parts.append("\n".join(orders))
        if any("; not in " in order for order in orders):
            parts.append(f"Why an order is not that of the paper: {table.why or 'not known.'}")
    unmeasured = [line for table in tables for line in not_measured(table, runs)]
    parts += ["## Not measured", NOT_MEASURED if unmeasured else "Every row has all its seeds."]
    if unmeasured:
        parts.append("\n".join(unmeasured))
    return "\n\n".join(parts) + "\n"


def not_measured(table: Table, runs: Runs) -> Iterator[str]:
    """Yields a line for each row that lacks runs, with the number of those it has."""
    for name, cells in table.rows.items():
        wanted = {
            (run.name, str(seed)) for cell in cells.values() for run in cell.runs for seed in range(1, run.seeds + 1)
        }
        there = {(run, seed) for run, seed in wanted if seed in runs.get(run, {})}
        if not wanted:
            yield f"- {table.title}: {name}: cannot be measured on the data here."
        elif there != wanted:
            yield f"- {table.title}: {name}: {len(there)} of {len(wanted)} runs."


def _rows(table: Table, runs: Runs) -> list[str]:
    """Returns the rows with at least one figure."""
    lines = []
    for name, cells in table.rows.items():
        shown = [_show(cells[column], runs) if column in cells else "-" for column in table.columns]
        if any(text[0] not in "-(…" for text in shown):
            lines.append(_line([name, *shown]))
    return lines


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _show(cell: Cell, runs: Runs) -> str:
    """A cell of the page: mean and standard deviation here, and in brackets the number of the paper."""
    paper = "" if cell.paper is None else f" ({printed(cell.paper)})"
    found = measured(cell, runs)
    if found is None:
        return f"-{paper}"
    if not found.values:
        return _words(cell, runs) or f"…{paper}"
    spread = f" ± {number(found.deviation)}" if len(found.values) > 1 else ""
    few = "" if found.is_complete else f", {len(found.values)} of {found.wanted} seeds"
    return f"{number(found.mean)}{spread}{few}{paper}"


def _words(cell: Cell, runs: Runs) -> str:
    run, name = cell.groups[0][0]
    words = _figure(run, name, 1, runs)
    return ", ".join(words) if isinstance(words, list) else ""


def number(value: float) -> str:
    """Formats a figure with two digits after the point, three below 0.1, and none for whole numbers."""
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 0.1 else f"{value:,.2f}"


def printed(value: float) -> str:
    """Formats a number of a paper as the paper prints it."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,}"


def _orders(table: Table, runs: Runs) -> Iterator[str]:
    """Yields a sentence for each pair of rows or columns: where their order is that of the paper, and where not."""
    compared = table.compared or table.columns
    for first, second in table.beside:
        rows = (table.rows[first], table.rows[second])
        pairs = {name: tuple(row.get(name) for row in rows) for name in compared}
        yield from _order(first, second, pairs, table.falling, runs)
    for first, second in table.columns_beside:
        pairs = {name: (row.get(first), row.get(second)) for name, row in table.rows.items()}
        yield from _order(first, second, pairs, (), runs)


def _order(first: str, second: str, pairs: Mapping[str, Any], falling: Iterable[str], runs: Runs) -> Iterator[str]:
    same, other, few = 0, [], ""
    for name, cells in pairs.items():
        if any(cell is None or cell.paper is None for cell in cells):
            continue
        gap = cells[0].paper - cells[1].paper
        here = _over_same_seeds([measured(cell, runs) for cell in cells])
        if not gap or not here:
            continue
        if not all(one.is_complete for one in here):
            few = ", with fewer seeds so far"
        difference = here[0].mean - here[1].mean
        if difference * gap > 0:
            same += 1
            continue
        level = ", within a standard deviation" if abs(difference) <= max(one.deviation for one in here) else ""
        better = (gap < 0) if name in falling else (gap > 0)
        other.append(
            f"{name} ({'ahead' if better else 'behind'} in the paper, {printed(cells[0].paper)} and "
            f"{printed(cells[1].paper)}; here {number(here[0].mean)} and {number(here[1].mean)}{level})"
        )
    if same + len(other) == 0:
        return
    text = f"- **{first}** beside **{second}**{few}: the order of the paper in {same} of {same + len(other)}"
    yield f"{text}; not in {'; '.join(other)}." if other else f"{text}."


def _over_same_seeds(pair: list[Measured | None]) -> list[Measured]:
    """Returns two cells over as many seeds, or nothing if one has none; a row without seeds goes with any."""
    there = [one for one in pair if one is not None and one.values]
    if len(there) < len(pair):
        return []
    least = min((len(one.values) for one in there if one.wanted > 1), default=1)
    return [Measured(one.values[:least], one.wanted) for one in there]


def _totals(tables: list[Table], runs: Runs) -> str:
    """Counts rows, runs and hours."""
    wanted = {(run, seed) for table in tables for run in table.runs for seed in range(1, run.seeds + 1)}
    there = [(run, runs[run.name][str(seed)]) for run, seed in wanted if str(seed) in runs.get(run.name, {})]
    heads = ["runs of", "runs", "measured", "CPU hours measured", "hours by the clock", "CPU hours of all, estimated"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for kind, name in NAMES.items():
        all_of = [run for run, _ in wanted if run.kind == kind]
        records = [record for run, record in there if run.kind == kind]
        hours = [sum(record[key] for record in records) / 3600 for key in ("cpu_seconds", "seconds")]
        lines.append(
            _line(
                [
                    name,
                    f"{len(all_of)}",
                    f"{len(records)}",
                    *(f"{value:.2f}" for value in hours),
                    f"{sum(run.price for run in all_of) / 3600:.2f}",
                ]
            )
        )
    rows = sum(len(table.rows) for table in tables)
    whole = sum(1 for table in tables for _ in table.rows) - sum(
        1 for table in tables for _ in not_measured(table, runs)
    )
    return f"Of {rows} rows, {whole} have all their runs.\n\n" + "\n".join(lines)


def _sources(runs: Runs) -> Iterator[str]:
    """Yields a table of the commits and machines of the runs, if there are any."""
    records = [record for by_seed in runs.values() for record in by_seed.values()]
    counts: dict[tuple[str, str], list[int]] = {}
    for record in records:
        machine = record["machine"]
        processors = " and ".join(filter(None, (machine["cpu"], machine.get("gpu"))))
        source = (record["commit"], f"{processors}, torch {machine['torch']}, {machine['date']}")
        numbers = counts.setdefault(source, [0, 0])
        numbers[0] += 1
        numbers[1] += "stamped" in record
    if not counts:
        return
    lines = [_line([f"`{commit}`", *map(str, numbers), on]) for (commit, on), numbers in sorted(counts.items())]
    yield SOURCES
    heads = ["measured at commit", "runs", "of them marked as up to date later", "machine"]
    yield "\n".join([_line(heads), _line(["---"] * 4), *lines])


NAMES = {
    "describe": "Table 1",
    "biomedical": "Table 2",
    "news": "Tables 3 to 7, Figure 2",
    "words": "logistic regression",
    "translation": "translation",
    "speed": "translation, speed",
}

INTRODUCTION = """# The tables of the papers, on smaller data

<!-- Written by benchmarks/paper_tables.py: change benchmarks/paper_rows.py or benchmarks/paper_page.py instead. -->

Every table and figure of GILE (Pappas & Henderson, TACL 2019) and of "Beyond Weight Tying" (Pappas, Miculicich &
Henderson, WMT 2018), with the recipes of this repository, on data that fits an afternoon.
`benchmarks/paper_rows.py` lists the rows with their commands, and `benchmarks/results/paper_tables.json` has the
figures of every run:

```bash
python benchmarks/paper_tables.py --data FOLDER --seeds 3 --resume --jobs 2
```

`FOLDER` has `dw_format`, `pubmed_mesh` and `multi30k`. The command runs what is missing, or older than the code that it
depends on, and writes this page.

A cell has the mean here and its standard deviation over seeds (three for GILE, two for "Beyond Weight Tying"), and in
brackets the number of the paper. The data differ, so compare orders, not numbers: below each table is a list of the
orders that the paper reports, and where they are not found here. With a single seed, a cell has no deviation, and a
small difference means little. The bootstrap p-values of "Beyond Weight Tying" are not computed. The biomedical models
are trained with `--lexical false`, because the paper's model has no terms that match words."""

SOURCES = (
    "After a change of the code that leaves its behaviour as it is, `benchmarks/paper_stamps.py` trains each output "
    "layer on the first 300 documents, with the code that measured it and with the present code, and marks its "
    "runs as up to date if all figures are equal to ten digits. The others are not repeated."
)

NOT_MEASURED = "Rows that lack runs, or that no data here can measure:"
