"""How a night's page reads: words in sight, patients on a telephone's first screen,
sheets, keys, size.

    python benchmarks/page_figures.py [--flagged 0 1 100 160 5000] [--out DIR]
    python benchmarks/page_figures.py --pages DIR

Trains on the sample ward, draws further patients from its generator until so many are
flagged, and measures each page in headless Chromium; what is folded away counts for
nothing. Prints a table as docs/benchmarks.md has it; `--out` keeps models, runs and
pages. With `--pages` it measures every page below a directory instead (`pages` of
docs/images.py makes one of each kind there), with all Tab stops and what axe-core
finds.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
PATIENTS = 12_000
NIGHT = datetime.date(2026, 1, 14)
ROOM = "capacity = 100"
SURNAMES = ("Okafor", "Lindqvist", "Kowalski", "Meyer", "Ito", "García")
IDS = {
    "": lambda number: f"{number:07d}",
    ", ids are UUIDs": lambda number: str(
        uuid.UUID(int=int(number) * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)
    ),
    ", ids of 60 characters": lambda number: (
        f"ward-of-the-north-house/admission-{number:026d}"
    ),
}
"""How the hospital names a patient, by what the table says of it."""

WORDS = "document.body.innerText.split(/\\s+/).filter(Boolean).length"
WHOLE = """[...document.querySelectorAll('#list .c')].filter(line => {
    const at = line.getBoundingClientRect(); return at.height > 0 && at.bottom <= innerHeight; }).length"""
AT_FIRST = (
    "document.querySelector('#list .c .t')?.contains(document.activeElement) ?? false"
)
STOPS = """[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter(
    one => one.checkVisibility() && one.type !== 'radio').length
    + new Set([...document.querySelectorAll('input[type=radio]')].map(one => one.name)).size"""
AXE = "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(one => one.id))"
MOST_TABS = 60
CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)


def screen(*words: object) -> None:
    """Run a command of the tool."""
    subprocess.run(
        [sys.executable, "-m", "screening", *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def ward() -> pd.DataFrame:
    """Patients as the sample cohort's generator draws them, each with a bed and a
    name.
    """
    sys.path.insert(0, str(SAMPLES))
    import nosocomial

    rng = np.random.default_rng(160)
    table = nosocomial.census(rng, PATIENTS).drop(columns="infected")
    table["bed"] = [
        f"{room}-{place}" for room, place in rng.integers(1, 9, (PATIENTS, 2))
    ]
    table["name"] = rng.choice(SURNAMES, PATIENTS)
    table["admission_date"] = [
        str(NIGHT - datetime.timedelta(days=int(n))) for n in table["days_in_hospital"]
    ]
    return table


def model_of(folder: Path) -> Path:
    """A model of the sample ward whose contract shows ward, bed and name."""
    text = (SAMPLES / "nosocomial.toml").read_text(encoding="utf-8")
    contract = folder / "contract.toml"
    shown = f'display = ["ward", "bed", "name"]\n{ROOM}'
    contract.write_text(text.replace(ROOM, shown), encoding="utf-8")
    out = folder / "model"
    past = SAMPLES / "nosocomial_past.csv"
    screen(
        "train", past, "--contract", contract, "--recipe", "svm_weighted", "--out", out
    )
    return out


def run_of(folder: Path, model: Path, table: pd.DataFrame) -> Path:
    """The page of one night."""
    night, out = folder / "night.csv", folder / f"run_{len(list(folder.glob('run_*')))}"
    table.to_csv(night, index=False, float_format="%g")
    screen("score", model, night, "--out", out, "--date", NIGHT)
    return out


def figures(browser: Any, page: Path) -> dict[str, object]:
    """What one page asks of its reader."""
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    view.goto(page.as_uri())
    found: dict[str, object] = {"words": f"{view.evaluate(WORDS):,}"}
    presses = 0
    while presses < MOST_TABS and not view.evaluate(AT_FIRST):
        view.keyboard.press("Tab")
        presses += 1
    found["Tab presses"] = presses if view.evaluate(AT_FIRST) else "–"
    for paper in ("A4", "Letter"):
        found[paper] = view.pdf(format=paper).count(b"/Type /Page\n")
    view.close()
    view = browser.new_page(viewport={"width": 390, "height": 844}, is_mobile=True)
    view.goto(page.as_uri())
    found["patients on 390 x 844"] = view.evaluate(WHOLE)
    view.close()
    return found | {"KB": f"{page.stat().st_size / 1000:,.0f}"}


def of_kinds(browser: Any, folder: Path) -> list[dict[str, object]]:
    """What every page below a folder asks of its reader, and what axe-core says of it,
    light and dark.
    """
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(
        encoding="utf-8"
    )
    rows = []
    for page in sorted(folder.rglob("*.html")):
        row: dict[str, object] = {"page": str(page.relative_to(folder))}
        broken = set()
        for scheme, width in (("light", 1440), ("dark", 1440), ("light", 390)):
            view = browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            view.goto(page.as_uri())
            view.evaluate(axe)
            broken |= set(view.evaluate(AXE))
            if scheme == "light" and width == 1440:
                row |= {
                    "words": f"{view.evaluate(WORDS):,}",
                    "Tab stops": view.evaluate(STOPS),
                }
                row |= {"A4": view.pdf(format="A4").count(b"/Type /Page\n")}
            view.close()
        rows.append(
            row
            | {
                "KB": f"{page.stat().st_size / 1000:,.0f}",
                "axe": ", ".join(broken) or "0",
            }
        )
    return rows


def printed(rows: list[dict[str, object]]) -> None:
    """Print the rows as a table."""
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |")


def main() -> None:
    """Make the nights, measure and print."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--flagged", type=int, nargs="+", default=[0, 1, 100, 160, 5000]
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pages", type=Path, help="measure the pages that lie here")
    asked = parser.parse_args()
    if CHROMIUM is None:
        print("skipped: needs Chromium; apt install chromium")
        return
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        if asked.pages:
            printed(of_kinds(browser, asked.pages))
            return
        folder = asked.out or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        model, table = model_of(folder), ward()
        table["patient_id"] = [IDS[""](number) for number in range(len(table))]
        scored = pd.read_parquet(
            run_of(folder, model, table) / "scores.parquet"
        ).set_index("id")
        flagged = scored.loc[table["patient_id"], "flagged"].to_numpy()
        rows = []
        for n in asked.flagged:
            chosen = (
                ~flagged & (np.arange(len(table)) < 240)
                if n == 0
                else np.cumsum(flagged) <= n
            )
            for kind, name in IDS.items() if n == 160 else [("", IDS[""])]:
                night = table[chosen].assign(
                    patient_id=[name(i) for i in np.flatnonzero(chosen)]
                )
                page = run_of(folder, model, night) / "report.html"
                rows.append(
                    {"flagged": f"{n:,} of {len(night):,}{kind}"}
                    | figures(browser, page)
                )
        browser.close()
    printed(rows)


if __name__ == "__main__":
    main()
