"""Are promises of sensitivity kept on public tables, by this tool and by what a user
would do instead?

    pip install -r benchmarks/promises/requirements.txt
    pip install --no-deps lifelines
    apt install r-cran-survival
    python benchmarks/promises_kept.py --splits 2

Every table is split twice into two thirds and a third, with patients whole. Each
method learns from the two thirds, promises a sensitivity, and flags the third. A method
is a file in promises/methods with `TITLE` and `flag(past, new)`, and its name in
`METHODS`. A table is an entry in promises/public_tables.toml.

Runs are appended to promises/runs.csv, and a run that is there is not repeated. A
method or a table whose package is not installed is named and skipped. `--page` writes
docs/promises.md from the runs and runs nothing.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import matplotlib.pyplot as pyplot
import numpy as np
import pandas as pd
from promises.answers import ASKED, NoAnswer, Past, sensitivity_of
from promises.public_tables import (
    PublicTable,
    installed_version,
    listed_tables,
    load,
    package_versions,
)
from resumed import run_missing
from strangers import halves

from screening.metrics.intervals import independent_difference
from screening.schemas.base import Estimate

FOLDER = Path(__file__).parent / "promises"
DOCS = Path(__file__).parents[1] / "docs"
RUNS = FOLDER / "runs.csv"

# In the order of the page.
METHODS = (
    "screening_auto",
    "screening_logistic",
    "screening_svm_weighted",
    "screening_one_class",
    "half",
    "half_weighted",
    "youden",
    "youden_forest",
    "tuned_threshold",
    "tuned_sensitivity",
    "held_out_third",
    "crepes_conformal",
    "mapie_risk_control",
    "mapie_fixed_sequence",
)
COLUMNS = (
    "table",
    "method",
    "split",
    "promised",
    "promised_low",
    "promised_high",
    "found",
    "found_low",
    "found_high",
    "past_rows",
    "past_cases",
    "new_rows",
    "new_cases",
    "flagged",
    "found_cases",
    "seconds",
    "date",
    "no_answer",
)
MIN_CASES = 5
"""Cases that a third must have, so that its sensitivity means something."""


def load_method(name: str) -> ModuleType | None:
    """Return the file of a method, or None if a package that it needs is missing."""
    try:
        return importlib.import_module(f"promises.methods.{name}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("promises"):
            raise
        print(f"skipped: method {name} needs {error.name}")
        return None


def split_table(table: PublicTable, split: int) -> tuple[PublicTable, PublicTable]:
    """Return two thirds and a third of a table, patients whole, at most 2,500 rows."""
    numbers = pd.DataFrame({"row": np.arange(len(table.case))})
    group = None
    if table.group is not None:
        numbers["patient"] = table.group
        group = "patient"
    past, new = halves(numbers, group, split)
    return (
        table.take(np.isin(numbers["row"], past["row"])),
        table.take(np.isin(numbers["row"], new["row"])),
    )


def run_method(
    method: ModuleType, past: PublicTable, new: PublicTable, seed: int
) -> dict[str, Any]:
    """Return what a method promised for a table, and what the new rows showed."""
    run = {
        "past_rows": len(past.case),
        "past_cases": int(past.case.sum()),
        "new_rows": len(new.case),
        "new_cases": int(new.case.sum()),
    }
    began = time.perf_counter()
    try:
        answer = method.flag(Past(past, seed), new.rows)
    except NoAnswer as reason:
        return run | {"no_answer": str(reason)}
    found = sensitivity_of(new, answer.flagged)
    promised = answer.promised
    return run | {
        "promised": promised.value,
        "promised_low": promised.low,
        "promised_high": promised.high,
        "found": found.value,
        "found_low": found.low,
        "found_high": found.high,
        "flagged": int(answer.flagged.sum()),
        "found_cases": int(answer.flagged[new.case].sum()),
        "seconds": round(time.perf_counter() - began, 2),
    }


def fill(
    runs: Path,
    entries: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    splits: int,
) -> None:
    """Append the runs that the CSV lacks."""
    methods = {name: load_method(name) for name in names}
    read = cache(lambda table: load(entries[table]))

    def rows_of(table: str, name: str, split: int) -> Iterator[dict[str, Any]]:
        past, new = split_table(read(table), split)
        today = datetime.now(UTC).date()
        row = {"table": table, "method": name, "split": split, "date": today}
        if min(past.case.sum(), new.case.sum()) < MIN_CASES:
            row["no_answer"] = f"a third has fewer than {MIN_CASES} cases"
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row |= run_method(methods[name], past, new, split)
        print(
            table, name, split, row.get("found"), row.get("no_answer", ""), flush=True
        )
        yield row

    pieces = (
        (table, name, split)
        for split in range(splits)
        for table in entries
        for name in names
        if methods[name] is not None
    )
    run_missing(runs, COLUMNS, COLUMNS[:3], pieces, rows_of)


def promise_of(run: Mapping[str, Any]) -> Estimate:
    """Return the promise of a run; a promise without an interval is taken as exact."""
    ends = [run["promised_low"], run["promised_high"]]
    if np.isnan(ends).any():
        ends = [run["promised"]] * 2
    return Estimate(run["promised"], *map(float, ends))


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Add to each run how far the new rows are from the promise.

    `short` is True if they show less than was promised, by more than chance in past and
    new rows (Newcombe 1998, two-sided 95 %). `covered` is True if the difference
    can be chance, and missing for a promise without an interval.
    """
    answered = runs[runs["found"].notna()].copy()
    differences = [
        independent_difference(
            Estimate(run["found"], run["found_low"], run["found_high"]), promise_of(run)
        )
        for run in answered.to_dict("records")
    ]
    high = np.array([each.high for each in differences], dtype=float)
    low = np.array([each.low for each in differences], dtype=float)
    has_interval = answered["promised_low"].notna().to_numpy()
    answered["difference"] = answered["found"] - answered["promised"]
    answered["short"] = high < 0
    answered["covered"] = np.where(has_interval, (low <= 0) & (high >= 0), np.nan)
    answered["flagged_share"] = answered["flagged"] / answered["new_rows"]
    return answered


@dataclass(frozen=True)
class Summary:
    """What the runs of a method show. Shares are means over tables.

    Attributes
    ----------
    promised, found, flagged : float
        Sensitivities, and share of new rows flagged.
    difference, error : float
        Found - promised, and its standard error over tables.
    short, covered : float
        Share of runs with less than promised, and whose interval contains what was
        found; `covered` is NaN for promises without intervals.
    flags_per_case : float
        Flagged rows for each case found, over all runs.
    lowest : str
        Table where least was found, against the promise.
    """

    method: str
    runs: int
    unanswered: int
    tables: int
    promised: float
    found: float
    difference: float
    error: float
    short: float
    covered: float
    flagged: float
    flags_per_case: float
    lowest: str
    lowest_difference: float


def summarise(runs: pd.DataFrame, names: Sequence[str]) -> list[Summary]:
    """Return a summary for each method that has runs, in the order of the names."""
    compared = compare(runs)
    found = []
    for name in names:
        own = compared[compared["method"] == name]
        if own.empty:
            continue
        columns = ["promised", "found", "difference", "flagged_share"]
        tables = own.groupby("table")[columns].mean()
        means = tables.mean()
        found.append(
            Summary(
                method=name,
                runs=len(own),
                unanswered=int((runs["method"] == name).sum() - len(own)),
                tables=len(tables),
                promised=means["promised"],
                found=means["found"],
                difference=means["difference"],
                error=tables["difference"].sem(),
                short=own["short"].mean(),
                covered=own["covered"].mean(),
                flagged=means["flagged_share"],
                flags_per_case=_per_case(own),
                lowest=tables["difference"].idxmin(),
                lowest_difference=tables["difference"].min(),
            )
        )
    return found


def _per_case(runs: pd.DataFrame) -> float:
    found_cases = runs["found_cases"].sum()
    return runs["flagged"].sum() / found_cases if found_cases else float("inf")


def titles(names: Sequence[str]) -> dict[str, str]:
    """Return the title of each method; its name if its package is missing."""
    return {name: getattr(load_method(name), "TITLE", name) for name in names}


def draw(summaries: Sequence[Summary], names: Mapping[str, str], path: Path) -> None:
    """Draw for each method the sensitivity promised and that found."""
    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(summaries) + 1.2))
    places = np.arange(len(summaries))[::-1]
    promised = [each.promised for each in summaries]
    found = [each.found for each in summaries]
    axes.hlines(places, promised, found, color="0.6", zorder=1)
    axes.scatter(promised, places, facecolor="white", edgecolor="C0", label="promised")
    axes.scatter(found, places, color="C0", label="found on new rows")
    axes.axvline(ASKED, color="0.6", linestyle=":")
    labels = [names[each.method].replace("`", "") for each in summaries]
    axes.set_yticks(places, labels)
    for place, each in zip(places, summaries, strict=True):
        axes.text(1.02, place, f"{100 * each.flagged:.0f}%", va="center")
    axes.text(1.02, len(summaries) - 0.35, "flagged", va="center")
    axes.set_xlim(0, 1.01)
    axes.set_xlabel("sensitivity, mean over tables")
    axes.legend(loc="lower left", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=68, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)


def write_page(runs: pd.DataFrame, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write docs/promises.md and its plot."""
    summaries = summarise(runs, METHODS)
    names = titles(METHODS)
    draw(summaries, names, DOCS / "plots" / "promises.png")
    place = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(
        loader=place, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    measured = {name: entries[name] for name in entries if name in set(runs["table"])}
    one_method = runs.drop_duplicates(["table", "split"])
    new = one_method[["new_rows", "new_cases"]].sum()
    unanswered = runs[runs["found"].isna()]
    # What follows a semicolon, or the first sentence, is advice.
    reasons = unanswered["no_answer"].str.partition(";")[0].str.partition(". ")[0]
    grouped = unanswered["table"].groupby([unanswered["method"], reasons])
    without: dict[tuple[str, str], list[str]] = {}
    for (method, reason), tables in grouped.unique().items():
        without.setdefault((reason, ", ".join(tables)), []).append(names[method])
    versions = package_versions()
    methods_of_others = {name: installed_version(name) for name in ("crepes", "mapie")}
    text = environment.get_template("page.md.j2").render(
        dates=sorted(runs["date"].unique()),
        summaries=summaries,
        names=names,
        tables=measured,
        splits=len(one_method),
        new_rows=int(new["new_rows"]),
        new_cases=int(new["new_cases"]),
        versions=versions | methods_of_others,
        missing=[package for package, found in versions.items() if found is None],
        without=[("; ".join(methods), *key) for key, methods in without.items()],
    )
    (DOCS / "promises.md").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--tables", nargs="+", help="some of public_tables.toml")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument(
        "--page", action="store_true", help="write the page and run nothing"
    )
    asked = parser.parse_args()
    entries = listed_tables()
    there = {name for name, found in package_versions().items() if found}
    for package in sorted(set(package_versions()) - there):
        print(f"skipped: tables of {package}, which is not installed")
    chosen = {
        name: entry
        for name, entry in entries.items()
        if entry["package"] in there and name in (asked.tables or entries)
    }
    if not asked.page:
        fill(asked.runs, chosen, asked.methods, asked.splits)
    write_page(pd.read_csv(asked.runs), entries)


if __name__ == "__main__":
    main()
