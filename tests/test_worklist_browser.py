"""The worklist under a tired reader's hands: keys to a verdict, filters, folds, paper, a telephone."""

import datetime
import json
from typing import Any

import pytest
from browser_pages import WIDTH, pressed
from report_fixture import changed, estimate, nosocomial_run, with_lines
from report_voxel_fixture import voxel_run

from screening.report import render_run

WARDS = ("icu", "surgery", "medicine")
AT_FIRST = "document.activeElement.closest('.t') === document.querySelector('.list .c .t')"
SIXTY = "ward-of-the-north-house/admission-00000000000000000000012345"


def placed(n: int = 240, **more: Any) -> dict[str, Any]:
    """A night whose contract shows ward and bed, with a ledger that knows every third case."""
    run = nosocomial_run(n) | more
    for i, case in enumerate(run["cases"]):
        case["display"] = {"ward": WARDS[i % 3], "bed": f"{i}-1"}
        case |= {"state": ("new", "pending", "known")[i % 3], "nights": 1 + i % 4}
    run["counts"] |= {"known": sum(case["state"] == "known" for case in run["cases"])}
    return run


@pytest.mark.parametrize("run", [nosocomial_run, placed, voxel_run])
def test_the_first_case_has_its_verdict_within_eight_tab_presses(opened, run):
    view, _ = opened(render_run(run()))
    presses = 0
    while presses < 20 and not view.evaluate(AT_FIRST):
        view.keyboard.press("Tab")
        presses += 1
    view.keyboard.press("Space")

    assert presses <= 8
    assert view.locator(".t").first.locator("input:checked").get_attribute("value") == "confirmed"


def test_a_verdict_is_given_changed_taken_back_and_saved_by_keyboard(opened, tmp_path):
    run = nosocomial_run()
    view, seen = opened(render_run(run))
    view.locator(".list .c").first.locator("input").first.focus()
    pressed(view, "Space", "ArrowRight", "Tab", "Tab", "ArrowRight", "ArrowLeft", "ArrowLeft")
    with view.expect_download() as download:
        pressed(view, "Control+s")
    download.value.save_as(tmp_path / "v.json")

    # The second was put back to "no verdict", which stands last.
    (saved,) = json.loads((tmp_path / "v.json").read_text())["verdicts"]
    assert (saved["id"], saved["verdict"]) == (run["cases"][0]["id"], "ruled out")
    assert datetime.datetime.fromisoformat(saved["given"]).tzinfo is not None
    assert seen == []


def test_the_list_shows_a_ward_a_state_or_a_verdict_and_says_how_many_of_how_many(opened):
    """Another order keeps every line, and the first order comes back."""
    run = placed()
    view, _ = opened(render_run(run))
    view.locator(".t input[value=confirmed]").first.check()
    icu = sum(case["display"]["ward"] == "icu" for case in run["cases"])
    ids = "[...document.querySelectorAll('#list .c:not([data-flagged]) .id bdi')].map(one => one.textContent)"
    wards = "[...document.querySelectorAll('#list .c[data-at]')].map(one => one.dataset.at)"

    view.select_option("#by-place", "icu")
    assert view.locator(".list .c:visible[data-at]").count() == icu
    assert view.locator("#shown").inner_text() == f"{icu} of {len(run['cases'])} shown"
    view.select_option("#by-verdict", "confirmed")
    assert view.locator(".list .c:visible[data-at]").count() == 1
    view.select_option("#by-place", "")
    view.select_option("#by-verdict", "")
    assert view.locator("#shown").inner_text() == ""

    before = view.evaluate(ids)
    view.select_option("#in-order", "place")
    places = view.evaluate(wards)
    assert places == sorted(places) and sorted(view.evaluate(ids)) == sorted(before)
    view.select_option("#in-order", "")
    assert view.evaluate(ids) == before


def test_one_confirmed_before_is_no_work_and_stands_folded_by_its_date(opened):
    verdict = {"night": "2025-03-09", "verdict": "confirmed"}
    run = changed(
        nosocomial_run(), cases__0__state="known", cases__0__nights=3, cases__0__last_verdict=verdict
    )
    view, _ = opened(render_run(run))
    line = view.locator(".list .c", has_text=run["cases"][0]["id"])

    assert not line.is_visible()
    view.locator("summary", has_text="1 judged before").click()
    assert "known, confirmed on 2025-03-09" in line.inner_text()


def test_a_capacity_line_runs_through_the_list_and_says_what_stopping_there_finds(opened):
    run = nosocomial_run()
    found, every = estimate(0.8, 0.7, 0.88), estimate(0.9, 0.7, 0.88)
    facts = {"reviews": 10, "score": run["cases"][9]["score"], "n_cases": 75}
    view, _ = opened(render_run(run | {"stopping": facts | {"found": found, "all_found": every}}))

    assert view.locator("#list .c:visible").count() == 10
    words = view.locator(".stop").inner_text()
    assert "Your 10 reviews end here. They find about 80 of 100 (70–88) cases" in words


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_patients_are_whole_on_the_first_screen_of_a_telephone(opened, scheme):
    view, _ = opened(render_run(placed()), 390, 844, color_scheme=scheme)
    whole = view.evaluate(
        "[...document.querySelectorAll('.list .c')].filter(line => line.getBoundingClientRect().height > 0"
        " && line.getBoundingClientRect().bottom <= innerHeight).length"
    )

    assert whole >= 5
    assert view.evaluate(WIDTH) <= 390


@pytest.mark.parametrize("width", [1280, 390])
def test_an_id_of_any_length_stays_on_one_line_and_is_whole_in_title_and_print(opened, width):
    """Verdict boxes are at least 24 pixels each way."""
    view, _ = opened(render_run(changed(nosocomial_run(), cases__0__id=SIXTY)), width)
    shown = view.locator(".list .c .id").first
    boxes = [one.bounding_box() for one in view.locator(".list .c .t").first.locator("input").all()]

    assert shown.bounding_box()["height"] < 26
    assert shown.get_attribute("title") == shown.locator("bdi").text_content() == SIXTY
    assert view.evaluate(WIDTH) <= width
    assert len(boxes) == 5 and min(min(box["width"], box["height"]) for box in boxes) >= 24
    view.emulate_media(media="print")
    assert view.evaluate("getComputedStyle(document.querySelector('.id span')).overflow") == "visible"


def test_a_line_beyond_the_fold_takes_a_verdict_when_the_keyboard_comes_to_it(opened):
    view, seen = opened(render_run(with_lines()))
    view.locator(".part.more > summary").first.click()
    last = view.locator("#list .part.more .t").last
    # The buttons may have been made already, for the line lies near what is in sight.
    last.evaluate("place => (place.querySelector('input') || place).focus()")
    view.keyboard.press("Space")

    assert last.locator("input:checked").count() == 1
    assert seen == []
