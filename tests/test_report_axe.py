"""axe-core, the rule book of accessibility, finds nothing in any page; nor does one scroll on a telephone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_fixture import hostile, nosocomial_model, nosocomial_run, with_lines
from report_voxel_fixture import voxel_model, voxel_run
from test_comparison import QUICK, cohort, table
from test_history import simulate

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.model_selection import compare as comparison
from screening.report import render_model, render_run
from screening.report.comparison import render_comparison
from screening.report.history import render_history
from screening.report.page import render_case

SMALL = 60
PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "run, light": ("light", lambda: render_run(with_lines(4, SMALL))),
    "run, dark": ("dark", lambda: render_run(with_lines(4, SMALL))),
    "voxel run": ("light", lambda: render_run(few_voxels())),
    "model": ("dark", lambda: render_model(nosocomial_model())),
    "one case": (
        "light",
        lambda: render_case(nosocomial_run(), nosocomial_run()["cases"][0] | {"flagged": True}),
    ),
}


def few_voxels() -> dict[str, Any]:
    run = voxel_run()
    return run | {"cases": run["cases"][:5]}


@pytest.fixture(scope="module")
def axe():
    """axe-core, as the Python package carries it: a rule book of accessibility that runs in the page."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def faults(view: Any, axe: str) -> list[str]:
    view.evaluate(axe)
    result = view.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in result["violations"]]


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_at_all(opened, axe, name):
    scheme, draw = PAGES[name]
    view, _ = opened(draw(), color_scheme=scheme)

    assert faults(view, axe) == []


def test_axe_finds_nothing_while_somebody_explores_and_judges(opened, axe):
    view, _ = opened(render_run(with_lines(4, SMALL)))
    for fold in view.locator("details:not(details details) > summary").all():
        fold.click()
    view.locator(".t input[value=unsure]").first.check()
    view.locator("input[type=range]").press("ArrowRight")
    view.locator("input[type=range]").press("PageUp")

    assert view.locator("#exploring").is_visible() and view.locator(".c.out").count() > 0
    assert faults(view, axe) == []


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    with open_ledger(tmp_path_factory.mktemp("book") / "screening.db", make=True) as ledger:
        simulate(ledger, nights=8)
        return render_history(history(ledger))


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohorts")
    table(90, 0).to_csv(folder / "one.csv", index=False)
    comparison_of_methods = comparison.compare(
        {"one": cohort(folder, "one", drop=["ward"])}, ["logistic"], **QUICK
    )
    return render_comparison(comparison_of_methods.document)


@pytest.fixture(
    params=["nights", "compared", "hostile", "lines", "model", "voxel model", "voxel run", "case"]
)
def page(request):
    run = nosocomial_run()
    made = {
        "hostile": lambda: render_run(hostile(nosocomial_run())),
        "lines": lambda: render_run(with_lines()),
        "model": lambda: render_model(nosocomial_model()),
        "voxel model": lambda: render_model(voxel_model()),
        "voxel run": lambda: render_run(voxel_run()),
        "case": lambda: render_case(run, run["cases"][0] | {"flagged": True}),
    }
    return made[request.param]() if request.param in made else request.getfixturevalue(request.param)


def test_no_page_scrolls_sideways_on_a_telephone(opened, page):
    view, seen = opened(page)
    view.set_viewport_size({"width": 320, "height": 800})

    assert view.evaluate("document.documentElement.scrollWidth") <= 320
    assert seen == []


def test_axe_finds_nothing_on_a_telephone(opened, axe, page):
    view, _ = opened(page)
    view.set_viewport_size({"width": 390, "height": 800})

    assert faults(view, axe) == []
