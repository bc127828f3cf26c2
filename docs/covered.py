"""Write the page of test coverage from the report of `coverage json`.

`make coverage` runs the tests and then `python docs/covered.py build/coverage.json`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("coverage.md")
ROOMS = ("metrics", "ledger", "scoring")
N_PLACES = 10
MIN_STATEMENTS = 10
"""Statements that a place has at least, so that one line does not decide."""
MARK = re.compile(r"#\s*pragma: no (?:cover|branch) - (.+)$")

HEAD = """# Test coverage

`make coverage` runs all tests, counts the lines and branches of the package that they
run, and writes this page. Loops compiled by numba are not counted, because no Python tool
can follow them. Tests compare their results with SciPy, scikit-learn and plain NumPy.
"""


def share(covered: int, total: int) -> str:
    """Return a share in per cent."""
    return f"{100 * covered / total if total else 100.0:.1f}%"


def room_of(path: str) -> str:
    """Return the folder of a file under `screening/`."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else "(top)"


def totals(report: Mapping[str, Any]) -> str:
    """Return the table of lines and branches, of all and by folder."""
    sums: dict[str, list[int]] = {}
    for path, file in report["files"].items():
        found = file["summary"]
        counts = (
            found["covered_lines"],
            found["num_statements"],
            found["covered_branches"],
            found["num_branches"],
        )
        for name in ("all", room_of(path)):
            before = sums.setdefault(name, [0, 0, 0, 0])
            sums[name] = [a + b for a, b in zip(before, counts, strict=True)]
    lines = ["| folder | lines | branches |", "|---|---|---|"]
    for name, (lines_run, statements, taken, branches) in sums.items():
        lines.append(
            f"| {name} | {share(lines_run, statements)} | {share(taken, branches)} |"
        )
    return "\n".join(
        [*lines[:2], *sorted(lines[2:], key=lambda row: row[:6] != "| all ")]
    )


def places(report: Mapping[str, Any]) -> str:
    """Return the table of the ten least covered functions and classes' methods."""
    found = []
    for path, file in report["files"].items():
        for name, function in file["functions"].items():
            counts = function["summary"]
            if name and counts["num_statements"] >= MIN_STATEMENTS:
                found.append((counts["percent_covered"], f"`{path}`", name, counts))
    lines = [
        "| file | function | lines and branches covered | lines not run |",
        "|---|---|---|---|",
    ]
    for percent, path, name, counts in sorted(found, key=lambda row: row[:3])[
        :N_PLACES
    ]:
        missing = counts["missing_lines"]
        # A function within another is no name that can be imported.
        words = " in ".join(f"`{part}`" for part in reversed(name.split(".")))
        lines.append(f"| {path} | {words} | {percent:.0f}% | {missing} |")
    return "\n".join(lines)


def function_at(path: Path, line: int) -> str:
    """Return the innermost function or class that contains a line of a file."""
    name = "(module)"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if is_definition and node.lineno <= line <= node.end_lineno:
            name = node.name
    return name


def reasons() -> Iterator[tuple[str, str, str]]:
    """Yield file, function and reason of each line marked as not covered."""
    for room in ROOMS:
        for path in sorted((ROOT / "screening" / room).rglob("*.py")):
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                if mark := MARK.search(line):
                    yield (
                        str(path.relative_to(ROOT)),
                        function_at(path, number),
                        mark[1],
                    )


def missed(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield file and place of each branch of the rooms that no test takes."""
    for path, file in report["files"].items():
        if room_of(path) not in ROOMS:
            continue
        for start, end in file["missing_branches"]:
            target = f"line {end}" if end > 0 else "the end of the function"
            yield (
                path,
                f"line {start} to {target}, in `{function_at(ROOT / path, start)}`",
            )


def page(report: Mapping[str, Any]) -> str:
    """Return the page of a report."""
    meta = report["meta"]
    text = [
        HEAD,
        f"Measured on {meta['timestamp'][:10]} with coverage.py {meta['version']}.\n",
        totals(report),
        "\n## The ten least covered functions\n",
        f"Of functions with at least {MIN_STATEMENTS} statements.\n",
        places(report),
        "\n## Branches of metrics, ledger and scoring\n",
        "Each branch of these folders is tested, or is listed here.\n",
        "| file | function | why no test takes it |\n|---|---|---|",
        *(f"| `{file}` | `{name}` | {why} |" for file, name, why in reasons()),
    ]
    if untested := list(missed(report)):
        text += ["\nNeither tested nor explained:\n"]
        text += [f"- `{path}`, {place}" for path, place in untested]
    return "\n".join(text) + "\n"


def main() -> None:
    """Write the page."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
