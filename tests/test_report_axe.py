"""axe-core, the rule book of accessibility, finds nothing in any page; nor does one scroll on a telephone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_pages import WIDTH
from report_fixture import hostile, nosocomial_model, nosocomial_run, with_lines
from report_voxel_fixture import voxel_model, voxel_run
from test_comparison import QUICK, cohort, table
from test_history import simulate

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.model_selection.compare import compare
from screening.report import render_model, render_run
from screening.report.comparison import render_comparison
from screening.report.history import render_history
from screening.report.page import render_case


def nights(folder: Path) -> str:
    with open_ledger(folder / "screening.db", make=True) as ledger:
        simulate(ledger, nights=8)
        return render_history(history(ledger))


def compared(folder: Path) -> str:
    table(90, 0).to_csv(folder / "one.csv", index=False)
    return render_comparison(compare({"one": cohort(folder, "one")}, ["logistic"], **QUICK).document)


def one_case(folder: Path) -> str:
    run = nosocomial_run()
    return render_case(run, run["cases"][0] | {"flagged": True})


MADE: dict[str, Callable[[Path], str]] = {
    "nights": nights, "compared": compared, "case": one_case,
    "hostile": lambda _: render_run(hostile(nosocomial_run())),
    "lines": lambda _: render_run(with_lines(4, 60)), "model": lambda _: render_model(nosocomial_model()),
    "voxel model": lambda _: render_model(voxel_model()), "voxel run": lambda _: render_run(voxel_run()),
}  # fmt: skip


@pytest.fixture(scope="module", params=MADE)
def page(request, tmp_path_factory):
    return MADE[request.param](tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def axe():
    """axe-core, as the Python package carries it: a rule book of accessibility that runs in the page."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def faults(view: Any, axe: str) -> list[str]:
    view.evaluate(axe)
    result = view.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in result["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_while_somebody_explores_and_judges(opened, axe, scheme):
    view, _ = opened(render_run(with_lines(4, 60)), color_scheme=scheme)
    before = faults(view, axe)
    for fold in view.locator("details:not(details details) > summary").all():
        fold.click()
    view.locator(".t input[value=unsure]").first.check()
    for key in ("ArrowRight", "PageUp"):
        view.locator("input[type=range]").press(key)

    assert view.locator("#exploring").is_visible() and view.locator(".c.out").count() > 0
    assert before == faults(view, axe) == []


def test_axe_finds_nothing_at_all_on_a_telephone_and_no_page_scrolls_sideways(opened, axe, page):
    view, seen = opened(page, 320, 800)

    assert view.evaluate(WIDTH) <= 320
    assert seen == []
    for width in (390, 1100):
        view.set_viewport_size({"width": width, "height": 800})
        assert faults(view, axe) == []
