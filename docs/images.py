"""Make the pictures that README and the gallery show, from the sample cohorts, in
headless Chromium.

Run `python docs/images.py [NAME.png ...]` after changing a page. Everything in the
pictures is synthetic.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images"
NIGHT = datetime.date(2026, 3, 1)
NIGHTS = 16
LARGEST = 150_000
SITE = """[site]
title = "County hospital"
ledger = "site.db"
runs = "site"

[series."ward-7.infection"]
model = "nosocomial_model"
cohort = "site_night.csv"
shadow = ["nosocomial_one_class_model"]

[series."ward-9.infection"]
model = "nosocomial_model"
cohort = "site_night.csv"

[series."radiology.prostate"]
model = "prostate_model"
cohort = "prostate_night.parquet"
"""


class Shot(NamedTuple):
    """One picture: which page, where to look, how large, how shown, what was pressed
    and unfolded before.
    """

    page: str
    at: str
    size: tuple[int, int] = (1000, 760)
    scheme: str = "light"
    presses: int = 0
    unfold: str = ""
    media: str = "screen"
    scripts: bool = True


RUN, MODEL = "nosocomial_run/report.html", "nosocomial_model/report.html"
SHOTS = {
    "run.png": Shot(RUN, "body"),
    "telephone.png": Shot(RUN, "body", (390, 844)),
    "without_scripts.png": Shot(RUN, "body", (1000, 700), scripts=False),
    "paper.png": Shot(RUN, "body", (794, 560), media="print"),
    "case_dark.png": Shot("case.html", "body", (1000, 640), scheme="dark"),
    "voxels.png": Shot("prostate_run/report.html", "#list", unfold="#list .c summary"),
    "model.png": Shot(MODEL, "body", (1000, 660)),
    "trade_off.png": Shot(MODEL, "#tradeoff", (1000, 660), presses=12),
    "classes.png": Shot("prostate_model/report.html", "#classes", (1000, 900)),
    "comparison.png": Shot("compared/report.html", "body"),
    "history.png": Shot("history.html", "body"),
    "control.png": Shot("history.html", ".columns.control", (1000, 640)),
    "overview.png": Shot(f"site/overview/{NIGHT}.html", "body", (1000, 560)),
    "turned_out.png": Shot(
        "labelled_run/report.html",
        "#evaluation",
        (1000, 480),
        unfold="details:has(#evaluation) > summary",
    ),
}


def screen(*words: object) -> None:
    """Run a command of the tool."""
    subprocess.run(
        [sys.executable, "-m", "screening", *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def pages(folder: Path) -> None:
    """Make the demo, its nights dated, and every other page there is."""
    cohorts = Path(str(files("screening.sample_cohorts")))
    screen("demo", "--out", folder)
    tables = {"nosocomial": "nosocomial_night.csv", "prostate": "prostate_new.parquet"}
    for name, table in tables.items():
        model, run = folder / f"{name}_model", folder / f"{name}_run"
        shutil.rmtree(run)  # The demo's, of today.
        screen("score", model, cohorts / table, "--out", run, "--date", NIGHT)
    model, run = folder / "nosocomial_model", folder / "nosocomial_run"
    first = pd.read_csv(run / "flagged.csv", dtype=str)["id"][0]
    screen("explain", run, first, "--out", folder / "case.html")
    labelled = [cohorts / "nosocomial_night_labelled.csv", "--label", "infected"]
    screen("score", model, *labelled, "--out", folder / "labelled_run", "--date", NIGHT)
    past = [cohorts / "nosocomial_past.csv", "--contract", cohorts / "nosocomial.toml"]
    screen(
        "compare",
        *past,
        "--recipes",
        "auto,svm_weighted,logistic,williams",
        "--out",
        folder / "compared",
    )
    shutil.copy(cohorts / tables["nosocomial"], folder / "site_night.csv")
    shutil.copy(cohorts / tables["prostate"], folder / "prostate_night.parquet")
    (folder / "NIGHT.toml").write_text(SITE, encoding="utf-8")
    screen("run", folder / "NIGHT.toml", "--date", NIGHT)
    nights(folder, model, cohorts / "nosocomial_night_labelled.csv")


def nights(folder: Path, model: Path, table: Path) -> None:
    """Score night after night of a ward whose patients come and go, with verdicts on
    half of the flagged.
    """
    ward = pd.read_csv(table, dtype=str)
    ill = set(ward.loc[ward["infected"] == "yes", "patient_id"])
    ledger = [
        "--ledger",
        f"sqlite:///{folder}/nights.db",
        "--series",
        "ward-7.infection",
    ]
    for number in range(NIGHTS):
        present = ward.drop(columns="infected").iloc[5 * number : 5 * number + 150]
        present.to_csv(folder / "present.csv", index=False)
        out, date = folder / f"night_{number}", NIGHT + datetime.timedelta(days=number)
        screen(
            "score",
            model,
            folder / "present.csv",
            "--date",
            date,
            "--out",
            out,
            *ledger,
        )
        run = json.loads((out / "run.json").read_text(encoding="utf-8"))
        told = [
            {
                "id": case["id"],
                "verdict": "confirmed" if case["id"] in ill else "ruled out",
            }
            for case in run["cases"][::2]
        ]
        verdicts = {
            "format": 1,
            "run_id": run["run_id"],
            "site": "",
            "initials": "xy",
            "verdicts": told,
        }
        (folder / "verdicts.json").write_text(json.dumps(verdicts), encoding="utf-8")
        screen("review", out, folder / "verdicts.json", *ledger[:2])
    screen("history", *ledger, "--out", folder / "history.html")


def taken(browser: Any, folder: Path, shot: Shot) -> bytes:
    """One picture of a page, from the element that it looks at downwards."""
    width, height = shot.size
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme=shot.scheme,
        java_script_enabled=shot.scripts,
    )
    page.emulate_media(media=shot.media)
    page.goto((folder / shot.page).as_uri())
    for _ in range(shot.presses):
        page.locator("input[type=range]").first.press("ArrowRight")
    if shot.unfold:
        page.locator(shot.unfold).first.click()
    page.locator(shot.at).first.evaluate("element => element.scrollIntoView()")
    picture = page.screenshot(animations="disabled", caret="hide")
    page.close()
    return picture


def main() -> None:
    """Write every picture."""
    from playwright.sync_api import sync_playwright

    from screening.registry import refuse_plugins

    refuse_plugins()
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        raise SystemExit("needs Chromium: apt install chromium")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        pages(Path(place))
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for name in sys.argv[1:] or SHOTS:
            picture = taken(browser, Path(place), SHOTS[name])
            if len(picture) > LARGEST:
                raise SystemExit(
                    f"{name} has {len(picture):,} bytes; make its Shot smaller"
                )
            (FOLDER / name).write_bytes(picture)
        browser.close()


if __name__ == "__main__":
    main()
