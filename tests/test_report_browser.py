"""The page in a real browser: with and without scripts, by keyboard, and on its way to the printer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from report_fixture import hostile, nosocomial_run
from report_voxel_fixture import voxel_run

from screening.report import render_run

api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
MARK = "rows => getComputedStyle(document.querySelector(`${rows} > th`), '::after').content"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Return a function that opens a run's page and gives it with all it complained of or asked for."""
    contexts = []

    def visit(run: dict[str, Any], **settings: Any) -> tuple[Any, list[str]]:
        file = tmp_path / "report.html"
        file.write_text(render_run(run), encoding="utf-8")
        context = browser.new_context(viewport={"width": 1100, "height": 900}, **settings)
        contexts.append(context)
        view, seen = context.new_page(), []
        view.on("console", lambda message: seen.append(message.text))
        view.on("pageerror", lambda error: seen.append(str(error)))
        view.on("dialog", lambda dialog: seen.append(dialog.message))
        view.on("request", lambda request: seen.append(request.url) if request.url != file.as_uri() else None)
        view.goto(file.as_uri())
        return view, seen

    yield visit
    for context in contexts:
        context.close()


@pytest.mark.parametrize("document", [nosocomial_run, voxel_run, lambda: hostile(nosocomial_run())])
def test_page_makes_no_complaint_and_no_request(opened: Any, document: Any) -> None:
    view, seen = opened(document())

    assert view.locator(".controls").first.is_visible()
    assert seen == []


def test_policy_stops_what_an_escape_forgotten_would_let_in(opened: Any) -> None:
    view, seen = opened(nosocomial_run())
    view.evaluate(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="http://192.0.2.1/x.png" onerror="document.title = 1"><p id=p style="color:red">x</p>\')'
    )
    view.wait_for_timeout(100)

    assert view.title() != "1"
    assert view.evaluate("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    assert len([line for line in seen if "Content Security Policy" in line]) >= 2


def test_everything_but_the_slider_is_there_without_scripts(opened: Any) -> None:
    run = nosocomial_run()
    view, _ = opened(run, java_script_enabled=False)

    assert view.locator(".controls").first.is_hidden()
    assert view.locator("#exploring").is_hidden()
    assert view.locator("#flagged tbody tr").count() == len(run["cases"])
    assert view.locator("svg").first.is_visible()


def test_slider_by_keyboard_counts_marks_and_warns_and_the_button_takes_it_back(opened: Any) -> None:
    run = nosocomial_run()
    view, _ = opened(run)
    slider = view.locator("input[type=range]")
    slider.focus()
    for _ in range(6):
        view.keyboard.press("ArrowLeft")

    figures = json.loads(view.locator(".panel script").text_content())
    said = slider.get_attribute("aria-valuetext")
    shown = int(view.locator("[data-show=flagged]").text_content())
    threshold = figures["threshold"][figures["flagged"].index(shown)]
    named = [c for c in run["near_misses"] if c["score"] >= threshold]

    assert shown > run["counts"]["flagged"]
    assert said.endswith("not the validated threshold")
    assert "Exploring: not the validated threshold." in view.locator("#exploring").inner_text()
    assert view.locator("tr.in").count() == len(named) > 0
    assert view.evaluate(MARK, "tr.in") == '"would be flagged"'

    view.locator("#back").click()

    assert view.locator("tr.in, tr.out").count() == 0
    assert view.locator("#exploring").is_hidden()
    assert int(view.locator("[data-show=flagged]").text_content()) == run["counts"]["flagged"]


def test_a_higher_threshold_marks_the_rows_it_would_drop(opened: Any) -> None:
    view, _ = opened(nosocomial_run())
    view.locator("input[type=range]").focus()
    for _ in range(10):
        view.keyboard.press("ArrowRight")

    dropped = view.locator("tr.out")

    assert dropped.count() > 0
    assert view.evaluate(MARK, "tr.out") == '"would not be flagged"'


def test_printing_goes_back_to_the_validated_threshold(opened: Any, tmp_path: Path) -> None:
    view, _ = opened(nosocomial_run())
    view.locator("input[type=range]").focus()
    for _ in range(6):
        view.keyboard.press("ArrowLeft")
    printed = view.pdf(format="A4")

    assert printed.startswith(b"%PDF")
    assert view.locator("tr.in, tr.out").count() == 0
    assert view.locator("#exploring").is_hidden()
    assert view.locator(".explore").first.get_attribute("visibility") == "hidden"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ink_stands_out_from_paper_in_light_and_dark(opened: Any, scheme: str) -> None:
    view, _ = opened(nosocomial_run(), color_scheme=scheme)
    ratio = view.evaluate(
        """() => {
          const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
            .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
            return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return Math.min(...["h1", ".note", "th small", ".why em", ".lowers bdi"].map(s => {
            const ink = light(getComputedStyle(document.querySelector(s)).color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05); })); }"""
    )

    assert ratio >= 4.5


def test_page_does_not_scroll_sideways_on_a_narrow_screen(opened: Any) -> None:
    view, _ = opened(hostile(nosocomial_run()))
    view.set_viewport_size({"width": 820, "height": 900})

    assert view.evaluate("document.documentElement.scrollWidth") <= 820
