"""Make the pictures that README shows, from the sample cohorts, in headless Chromium.

Run `python docs/images.py` after changing a page. Everything in the pictures is synthetic.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images"
NIGHT = "2026-03-01"
LARGEST = 150_000


class Shot(NamedTuple):
    """One picture: which page, where to look, how large, what was pressed and unfolded before."""

    page: str
    at: str
    size: tuple[int, int]
    scheme: str = "light"
    presses: int = 0
    unfold: str = ""


SHOTS = {
    "run.png": Shot("nosocomial_run/report.html", "body", (1000, 760)),
    "trade_off.png": Shot("nosocomial_model/report.html", "#tradeoff", (1000, 660), presses=12),
    "case_dark.png": Shot("case.html", "body", (1000, 640), scheme="dark"),
    "voxels.png": Shot("prostate_run/report.html", "#list", (1000, 760), unfold="#list .c summary"),
}


def screen(*words: object) -> None:
    """Run a command of the tool."""
    subprocess.run(
        [sys.executable, "-m", "screening", *map(str, words)], check=True, stdout=subprocess.DEVNULL
    )


def pages(folder: Path) -> None:
    """Make the demo, its nights dated, and the page of its first case."""
    cohorts = files("screening.sample_cohorts")
    screen("demo", "--out", folder)
    for name, table in (("nosocomial", "nosocomial_night.csv"), ("prostate", "prostate_new.parquet")):
        model, run = folder / f"{name}_model", folder / f"{name}_run"
        screen("score", model, cohorts / table, "--out", run, "--date", NIGHT)
    run = folder / "nosocomial_run"
    first = (run / "flagged.csv").read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    screen("explain", run, first, "--out", folder / "case.html")


def taken(browser: Any, folder: Path, shot: Shot) -> bytes:
    """One picture of a page, from the element that it looks at downwards."""
    width, height = shot.size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=shot.scheme)
    page.goto((folder / shot.page).as_uri())
    for _ in range(shot.presses):
        page.locator("input[type=range]").first.press("ArrowRight")
    if shot.unfold:
        page.locator(shot.unfold).first.click()
    page.evaluate("at => document.querySelector(at).scrollIntoView()", shot.at)
    picture = page.screenshot(animations="disabled", caret="hide")
    page.close()
    return picture


def main() -> None:
    """Write every picture."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("needs Chromium: apt install chromium")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        pages(Path(place))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, shot in SHOTS.items():
            picture = taken(browser, Path(place), shot)
            if len(picture) > LARGEST:
                raise SystemExit(f"{name} has {len(picture):,} bytes; make its Shot smaller")
            (FOLDER / name).write_bytes(picture)
        browser.close()


if __name__ == "__main__":
    main()
