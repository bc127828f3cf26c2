"""The page in a real browser: with and without scripts, by keyboard, and on its way to the printer."""

import json
import re
from typing import Any

import pytest
from browser_pages import BOXES, WIDTH, on_paper, pressed
from report_fixture import hostile, nosocomial_run, with_lines
from report_voxel_fixture import voxel_run

from screening.report import render_run

MARK = "lines => getComputedStyle(document.querySelector(`${lines} .f`), '::after').content"


def explored(view: Any) -> Any:
    """The slider, out of its fold."""
    view.locator("summary", has_text="What the threshold finds").click()
    return view.locator("input[type=range]").first


@pytest.mark.parametrize("document", [nosocomial_run, voxel_run, lambda: hostile(nosocomial_run())])
def test_page_makes_no_complaint_and_no_request(opened, document):
    view, seen = opened(render_run(document()))

    assert explored(view).is_visible()
    assert seen == []


def test_policy_stops_what_an_escape_forgotten_would_let_in(opened):
    view, seen = opened(render_run(nosocomial_run()))
    view.evaluate(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="http://192.0.2.1/x.png" onerror="document.title = 1"><p id=p style="color:red">x</p>\')'
    )
    view.wait_for_timeout(100)

    assert view.title() != "1"
    assert view.evaluate("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    assert len([line for line in seen if "Content Security Policy" in line]) >= 2


def test_everything_but_slider_filter_and_verdicts_is_there_without_scripts(opened):
    run = nosocomial_run()
    view, _ = opened(render_run(run), java_script_enabled=False)

    for place in (".controls", ".filters", "#exploring"):
        assert view.locator(place).first.is_hidden()
    assert view.locator("#list .c").count() == len(run["cases"])
    assert view.locator("svg").first.is_visible()
    assert view.evaluate(BOXES.format(0)).count("☐") == 4


def test_slider_by_keyboard_counts_marks_and_warns_and_the_button_takes_it_back(opened):
    """So does printing."""
    run = nosocomial_run()
    view, _ = opened(render_run(run))
    slider = explored(view)
    slider.focus()
    pressed(view, *["ArrowLeft"] * 6)

    figures = json.loads(view.locator(".panel script").text_content())
    shown = int(view.locator("[data-show=flagged]").text_content())
    threshold = figures["threshold"][figures["flagged"].index(shown)]
    named = [case for case in run["near_misses"] if case["score"] >= threshold]

    assert shown > run["counts"]["flagged"]
    assert slider.get_attribute("aria-valuetext").endswith("not the validated threshold")
    assert "Exploring: not the validated threshold." in view.locator("#exploring").inner_text()
    assert view.locator(".c.in").count() == len(named) > 0
    assert view.evaluate(MARK, ".c.in") == '"would be flagged"'

    for back in (view.locator("#back").click, lambda: view.pdf(format="A4")):
        back()
        assert view.locator(".c.in, .c.out").count() == 0
        assert view.locator("#exploring").is_hidden()
        assert int(view.locator("[data-show=flagged]").text_content()) == run["counts"]["flagged"]
        slider.focus()
        pressed(view, *["ArrowLeft"] * 6)


def test_leaving_with_verdicts_unsaved_is_questioned_and_after_saving_it_is_not(opened):
    view, _ = opened(render_run(nosocomial_run()))
    confirmed, asked = view.locator(".t input[value=confirmed]").first, []
    view.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    pressed(view, "Control+s")
    assert "no verdict has been given" in view.locator("#review-save").inner_text()

    confirmed.check()
    view.reload()
    assert asked == ["beforeunload"]

    confirmed.check()
    with view.expect_download():
        view.click("#review-save button")
    view.reload()
    assert asked == ["beforeunload"]


def test_on_paper_a_line_without_reasons_is_one_line_however_long_place_and_id_are(opened):
    """Paper is A4 and has boxes for every case, folded or not."""
    run = with_lines()
    for number, case in enumerate(run["cases"]):
        case["id"] = f"8f14e45f-ceea-467f-a6c5-{number:012d}"
        case["display"] = {"ward": "intensive_care", "bed": "5-8", "name": "Kowalski"}
    view, _ = opened(render_run(run), java_script_enabled=False)
    printed = view.pdf(format="A4", prefer_css_page_size=True)
    on_paper(view)
    lines = "[...document.querySelectorAll('#list .c{}')]"
    heights = view.evaluate(lines.format(":not(:has(.y))") + ".map(one => one.clientHeight)")
    hidden = view.evaluate(lines.format("") + ".filter(line => !line.checkVisibility()).length")

    assert len(heights) == 12 and max(heights) < 20
    assert view.locator("#list .part.more").count() > 0 == hidden
    assert re.search(rb"/MediaBox \[0 0 59[45]\S* 84[12]", printed)
    assert view.evaluate(WIDTH) <= 703
    assert view.evaluate(BOXES.format(-1)).count("☐") == 4
    assert view.locator(".filters").is_hidden() and view.locator(".t input").first.is_hidden()
