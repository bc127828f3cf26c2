"""Fixtures that open a page in headless Chromium and keep what it complained of or
asked for.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hung import HUNG_SECONDS

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, the system's own: nothing is downloaded."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def opened(
    browser: Any, tmp_path: Path
) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Return a function that opens HTML and gives its page and all that it complained
    of or asked for.
    """
    contexts = []
    file = tmp_path / "report.html"

    def visit(
        html: str, width: int = 1100, height: int = 900, **settings: Any
    ) -> tuple[Any, list[str]]:
        file.write_text(html, encoding="utf-8")
        contexts.append(
            browser.new_context(viewport={"width": width, "height": height}, **settings)
        )
        contexts[-1].set_default_timeout(1000 * HUNG_SECONDS)
        view = contexts[-1].new_page()
        seen = []
        view.on("console", lambda message: seen.append(message.text))
        view.on("pageerror", lambda error: seen.append(str(error)))
        view.on("dialog", lambda dialog: seen.append(dialog.message))
        view.on(
            "request",
            lambda request: (
                seen.append(request.url) if request.url != file.as_uri() else None
            ),
        )
        view.goto(file.as_uri())
        return view, seen

    yield visit
    for context in contexts:
        context.close()


# What a page's JavaScript says of it.
WIDTH = "document.documentElement.scrollWidth"
BOXES = (
    "getComputedStyle([...document.querySelectorAll('.t')].at({}), '::before').content"
)


def pressed(view: Any, *keys: str) -> None:
    for key in keys:
        view.keyboard.press(key)


def on_paper(view: Any) -> None:
    """As printed on A4, between its margins."""
    view.emulate_media(media="print")
    view.set_viewport_size({"width": 703, "height": 1000})
