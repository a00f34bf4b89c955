"""Counts the code: `python benchmarks/house.py` prints a table of the rooms; tests/test_budgets.py holds the limits."""

import argparse
import ast
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONG_LINE = 100


@dataclass
class Counts:
    """Counts of several files; the properties are what budgets limit."""

    files: int = 0
    lines: int = 0
    statements: int = 0
    tuple_assignments: int = 0
    conditions: int = 0
    raises: int = 0
    code_lines: list[int] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)

    @property
    def mean_line(self) -> float:
        """Mean number of characters of a line of code, without comments and docstrings."""
        return statistics.fmean(self.code_lines) if self.code_lines else 0.0

    @property
    def long_lines(self) -> float:
        """Percentage of lines of code with more than 100 characters."""
        long = sum(length > LONG_LINE for length in self.code_lines)
        return 100 * long / max(1, len(self.code_lines))

    @property
    def tuple_rate(self) -> float:
        """Assignments of a tuple to a tuple in 1,000 statements."""
        return 1000 * self.tuple_assignments / max(1, self.statements)

    @property
    def condition_rate(self) -> float:
        """Conditional expressions in 1,000 statements."""
        return 1000 * self.conditions / max(1, self.statements)


def count(paths: Iterable[Path]) -> Counts:
    """Counts the files of a room together."""
    counts = Counts()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        documentation = set(_docstrings(tree))
        counts.files += 1
        counts.lines += len(text.splitlines())
        counts.code_lines += [len(line) for line in code_lines(text)]
        for node in ast.walk(tree):
            _count_node(counts, node, documentation)
    return counts


def _count_node(counts: Counts, node: ast.AST, documentation: set[ast.stmt]) -> None:
    if isinstance(node, ast.stmt) and node not in documentation:
        counts.statements += 1
    if isinstance(node, ast.IfExp):
        counts.conditions += 1
    elif isinstance(node, ast.Raise):
        counts.raises += 1
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        counts.functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        counts.tuple_assignments += any(isinstance(target, ast.Tuple) for target in node.targets)


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields the statements that are strings only: docstrings, and the documentation of constants."""
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_string and isinstance(node.value.value, str):
            yield node


def code_lines(text: str) -> list[str]:
    """Returns the lines of a file that are neither empty, comments, nor documentation."""
    documented: set[int] = set()
    for node in _docstrings(ast.parse(text)):
        documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#") and number not in documented:
            lines.append(line)
    return lines


def rooms() -> dict[str, list[Path]]:
    """Returns the files of each folder directly within hf_gile and of hf_gile_cli; files on top are a room too."""
    by_room: dict[str, list[Path]] = defaultdict(list)
    for package in ("hf_gile", "hf_gile_cli"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT / package).parts
            room = f"{package}/{parts[0]}" if len(parts) > 1 else package
            by_room[room].append(path)
    return dict(by_room)


COLUMNS = (
    "room", "files", "lines", "statements", "mean line", "over 100, %", "function median", "p90", "max",
    "tuple assignments in 1,000", "conditional expressions in 1,000", "raises",
)  # fmt: skip


def row(name: str, counts: Counts) -> list[str]:
    """Returns the cells of a room."""
    functions = sorted(counts.functions) or [0]
    percentile = functions[int(0.9 * (len(functions) - 1))]
    return [
        name,
        f"{counts.files:,}",
        f"{counts.lines:,}",
        f"{counts.statements:,}",
        f"{counts.mean_line:.1f}",
        f"{counts.long_lines:.1f}",
        f"{statistics.median(functions):.0f}",
        str(percentile),
        str(functions[-1]),
        f"{counts.tuple_rate:.1f}",
        f"{counts.condition_rate:.1f}",
        str(counts.raises),
    ]


def main() -> None:
    """Prints the counts of all rooms as a table in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.parse_args()
    by_room = rooms()
    package = [path for room, paths in by_room.items() if room.startswith("hf_gile/") or room == "hf_gile"
               for path in paths]  # fmt: skip
    tables = [row(name, count(paths)) for name, paths in sorted(by_room.items())]
    tables.append(row("**hf_gile**", count(package)))
    tables.append(row("tests", count((ROOT / "tests").rglob("*.py"))))
    for cells in [COLUMNS, ["---"] * len(COLUMNS), *tables]:
        sys.stdout.write("| " + " | ".join(cells) + " |\n")


if __name__ == "__main__":
    main()
