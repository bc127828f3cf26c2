"""The rule book of accessibility, axe-core, finds nothing in any page, whoever looks at it and however."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_fixture import nosocomial_model, nosocomial_run
from report_lines_fixture import with_lines
from report_voxel_fixture import voxel_run

from screening.page import render_model, render_run
from screening.page.page import render_case

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
def axe() -> str:
    """axe-core, as the Python package carries it: a rule book of accessibility that runs in the page."""
    package = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def faults(view: Any, axe: str) -> list[str]:
    view.evaluate(axe)
    found = view.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_at_all(opened: Any, axe: str, name: str) -> None:
    scheme, draw = PAGES[name]
    view, _ = opened(draw(), color_scheme=scheme)

    assert faults(view, axe) == []


def test_axe_finds_nothing_while_somebody_explores_and_judges(opened: Any, axe: str) -> None:
    view, _ = opened(render_run(with_lines(4, SMALL)))
    for fold in view.locator("details:not(details details) > summary").all():
        fold.click()
    view.locator(".t input[value=unsure]").first.check()
    view.locator("input[type=range]").press("ArrowRight")
    view.locator("input[type=range]").press("PageUp")

    assert view.locator("#exploring").is_visible() and view.locator(".c.out").count() > 0
    assert faults(view, axe) == []


def test_axe_would_find_a_picture_without_words_and_ink_too_pale(opened: Any, axe: str) -> None:
    broken = (
        render_run(nosocomial_run(20))
        .replace("--ink:#15202b", "--ink:#ddd")
        .replace("<h2", '<img alt><img src="data:,"><h2', 1)
    )
    view, _ = opened(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", broken))

    assert {fault.partition(":")[0] for fault in faults(view, axe)} >= {"image-alt", "color-contrast"}
