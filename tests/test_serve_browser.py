"""The page of a letterbox in a browser: what is typed, kept, sent, shown of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from browser_pages import browser, pressed
from hung import HUNG_SECONDS
from letterbox import ACTIONS, IDS, NIGHT, Served, lay_site, served, words_of
from test_serve import BY_KEYS, SECRET, basic, file_in, site

__all__ = ["browser", "site"]
KLEIN = basic("b.klein", SECRET)


@pytest.fixture
def box(site) -> Iterator[Served]:
    """A letterbox that the browser reaches itself, with the secret of a ward."""
    with served(lay_site(site, BY_KEYS), "127.0.0.1:0") as answering:
        yield answering


@contextmanager
def reader(browser, box: Served, name: str = "anna") -> Iterator[Any]:
    """Give a reader's windows: a function that opens the page in a new one."""
    host, port = box.address
    context = browser.new_context(
        http_credentials={"username": name, "password": SECRET}
    )
    context.set_default_timeout(1000 * HUNG_SECONDS)

    def opened():
        view = context.new_page()
        view.clock.install()
        view.goto(f"http://{host}:{port}/ward-a/{NIGHT}.html")
        return view

    yield opened
    context.close()


def line_of(view, number: int = 0):
    """Return a line of the worklist."""
    return view.locator(".list .c:has(.t)").nth(number)


def give(view, number: int = 0) -> None:
    """Give the first verdict on a line by the keyboard."""
    place = line_of(view, number).locator(".t")
    place.scroll_into_view_if_needed()
    place.locator("input").first.focus()
    pressed(view, "Space")


def note_on(view, number: int = 0):
    """Return the note of a line, which is unfolded for it."""
    line = line_of(view, number)
    line.locator("details").evaluate("details => (details.open = true)")
    note = line.locator(".said")
    note.focus()
    return note


def said(view, words: str) -> None:
    """Wait until the page says these words."""
    view.locator("#review-save", has_text=words).wait_for()


def test_note_typed(browser, box):
    """A note that is being typed is not replaced by the answer of the service, is sent
    without its field having been left, and is saved then.
    """
    with reader(browser, box) as opened:
        view = opened()
        give(view)
        note_on(view).press_sequentially("seen")
        pressed(view, "Control+s")
        said(view, "1 saved, 0 withdrawn by anna")
        note = note_on(view)
        note.press_sequentially(" again")
        box.save(words_of(IDS[:1], "ruled out", note="<b>no</b>"), None, **KLEIN)
        view.clock.fast_forward(31_000)
        view.locator(".word", has_text="ruled out, <b>no</b>: b.klein").wait_for()
        assert view.locator(".word b").count() == 0
        assert note.input_value() == "seen again"
        left = {word.bounding_box()["x"] for word in view.locator(".word").all()}
        assert len(left) == 1
        pressed(view, "Control+s")
        said(view, "1 saved, 0 withdrawn by anna")
        view.locator("h1").first.click()
        assert "not saved" not in view.locator("#review-save").inner_text()
    content = [word for word in box.words(None, **KLEIN) if word["by"] == "anna"]
    assert [word["note"] for word in content] == ["seen again"]


def test_note_kept(browser, box):
    """Neither a note that was being typed when its tab was closed is lost, nor what was
    given in another tab with the same page.
    """
    with reader(browser, box) as opened:
        first, second = opened(), opened()
        give(first)
        note_on(first).press_sequentially("seen")
        give(second, 1)
        pressed(second, "Control+s")
        said(second, "1 saved, 0 withdrawn by anna")
        give(second, 2)
        first.close()
        second.close()
        view = opened()
        said(view, "2 verdicts not saved yet")
        pressed(view, "Control+s")
        said(view, "2 saved, 0 withdrawn by anna")
        assert view.evaluate("localStorage.length") == 0
    content = file_in(box.inbox)
    assert [one["id"] for one in content["verdicts"]] == [IDS[1], IDS[0], IDS[2]]
    assert content["verdicts"][1]["note"] == "seen"


def test_action_shown(browser, box):
    """What was done is sent with the verdict, shown to others, and there again when the
    page is opened later.
    """
    with reader(browser, box) as opened, reader(browser, box, "b.klein") as by_klein:
        view = opened()
        give(view)
        note_on(view).press_sequentially("at 7")
        line_of(view).locator(".did").select_option(ACTIONS[1])
        pressed(view, "Control+s")
        said(view, "1 saved, 0 withdrawn by anna")
        other = by_klein().locator(".word")
        assert other.inner_text().startswith(f"confirmed, {ACTIONS[1]}, at 7: anna, ")
        later = opened()
        later.locator(".word").wait_for()
        assert line_of(later).locator(".did").input_value() == ACTIONS[1]
    (verdict,) = file_in(box.inbox)["verdicts"]
    assert verdict["action"] == ACTIONS[1]
