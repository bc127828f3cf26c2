"""The worklist under a tired reader's hands: keys to a verdict, filters, folds, paper, a telephone."""

import datetime
import json
from typing import Any

import pytest
from report_fixture import nosocomial_run, with_lines
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
    first = view.locator(".list .c").first
    first.locator("input").first.focus()
    view.keyboard.press("Space")
    view.keyboard.press("ArrowRight")
    view.keyboard.press("Tab")
    view.keyboard.press("Tab")
    view.keyboard.press("ArrowRight")
    view.keyboard.press("ArrowLeft")
    view.keyboard.press("ArrowLeft")
    with view.expect_download() as download:
        view.keyboard.press("Control+s")
    download.value.save_as(tmp_path / "v.json")

    # The second was put back to "no verdict", which stands last.
    (saved,) = json.loads((tmp_path / "v.json").read_text())["verdicts"]
    assert (saved["id"], saved["verdict"]) == (run["cases"][0]["id"], "ruled out")
    assert datetime.datetime.fromisoformat(saved["given"]).tzinfo is not None
    assert seen == []


def test_the_list_shows_a_ward_a_state_or_a_verdict_and_says_how_many_of_how_many(opened):
    run = placed()
    view, _ = opened(render_run(run))
    view.locator(".t input[value=confirmed]").first.check()
    total = len(run["cases"])
    icu = sum(case["display"]["ward"] == "icu" for case in run["cases"])

    view.select_option("#by-place", "icu")
    assert view.locator(".list .c:visible[data-at]").count() == icu
    assert view.locator("#shown").inner_text() == f"{icu} of {total} shown"

    view.select_option("#by-verdict", "confirmed")
    assert view.locator(".list .c:visible[data-at]").count() == 1

    view.select_option("#by-place", "")
    view.select_option("#by-verdict", "")
    assert view.locator("#shown").inner_text() == ""


def test_another_order_keeps_every_line_and_the_first_order_comes_back(opened):
    ids = "[...document.querySelectorAll('#list .c:not([data-flagged]) .id bdi')].map(one => one.textContent)"
    view, _ = opened(render_run(placed()))
    before = view.evaluate(ids)

    view.select_option("#in-order", "place")
    places = view.evaluate("[...document.querySelectorAll('#list .c[data-at]')].map(one => one.dataset.at)")
    assert places == sorted(places) and sorted(view.evaluate(ids)) == sorted(before)

    view.select_option("#in-order", "")
    assert view.evaluate(ids) == before


def test_one_confirmed_before_is_no_work_and_stands_folded_by_its_date(opened):
    run = nosocomial_run()
    run["cases"][0] |= {
        "state": "known", "nights": 3, "last_verdict": {"night": "2025-03-09", "verdict": "confirmed"},
    }  # fmt: skip
    view, _ = opened(render_run(run))
    line = view.locator(".list .c", has_text=run["cases"][0]["id"])

    assert not line.is_visible()
    view.locator("summary", has_text="1 judged before").click()
    assert "known, confirmed on 2025-03-09" in line.inner_text()


def test_a_capacity_line_runs_through_the_list_and_says_what_stopping_there_finds(opened):
    run = nosocomial_run()
    share = {"value": 0.8, "low": 0.7, "high": 0.88}
    run["stopping"] = {
        "reviews": 10, "score": run["cases"][9]["score"], "n_cases": 75, "found": share,
        "all_found": share | {"value": 0.9},
    }  # fmt: skip
    view, _ = opened(render_run(run))

    assert view.locator("#list .c:visible").count() == 10
    assert "Your 10 reviews end here. They find about 80 of 100 (70–88) cases" in (
        view.locator(".stop").inner_text()
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_patients_are_whole_on_the_first_screen_of_a_telephone(opened, scheme):
    view, _ = opened(render_run(placed()), color_scheme=scheme)
    view.set_viewport_size({"width": 390, "height": 844})
    whole = view.evaluate(
        "[...document.querySelectorAll('.list .c')].filter(line => line.getBoundingClientRect().height > 0"
        " && line.getBoundingClientRect().bottom <= innerHeight).length"
    )

    assert whole >= 5
    assert view.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [1280, 390])
def test_an_id_of_any_length_stays_on_one_line_and_is_whole_in_title_and_print(opened, width):
    run = nosocomial_run()
    run["cases"][0]["id"] = SIXTY
    view, _ = opened(render_run(run))
    view.set_viewport_size({"width": width, "height": 900})
    shown = view.locator(".list .c .id").first

    assert shown.bounding_box()["height"] < 26
    assert shown.get_attribute("title") == SIXTY and shown.locator("bdi").text_content() == SIXTY
    assert view.evaluate("document.documentElement.scrollWidth") <= width

    view.emulate_media(media="print")
    assert view.evaluate("getComputedStyle(document.querySelector('.id span')).overflow") == "visible"


def test_verdict_boxes_are_at_least_24_pixels_each_way(opened):
    view, _ = opened(render_run(nosocomial_run()))
    for width in (1280, 390):
        view.set_viewport_size({"width": width, "height": 900})
        boxes = [one.bounding_box() for one in view.locator(".list .c .t").first.locator("input").all()]
        assert len(boxes) == 5
        assert min(min(box["width"], box["height"]) for box in boxes) >= 24


def test_paper_has_every_line_that_waits_folded_or_not(opened):
    run = with_lines()
    view, _ = opened(render_run(run), java_script_enabled=False)
    view.emulate_media(media="print")
    view.set_viewport_size({"width": 703, "height": 1000})
    hidden = view.evaluate(
        "[...document.querySelectorAll('#list .c')].filter(line => !line.checkVisibility()).length"
    )

    assert view.locator("#list .part.more").count() > 0
    assert hidden == 0


def test_a_line_beyond_the_fold_takes_a_verdict_when_the_keyboard_comes_to_it(opened):
    view, seen = opened(render_run(with_lines()))
    view.locator(".part.more > summary").first.click()
    last = view.locator("#list .part.more .t").last
    # The buttons may have been made already, for the line lies near what is in sight.
    last.evaluate("place => (place.querySelector('input') || place).focus()")
    view.keyboard.press("Space")

    assert last.locator("input:checked").count() == 1
    assert seen == []
