"""The page in a real browser: scripts, keyboard, printer, telephone, and a tired reader's hands."""

import datetime
import json
import re
from typing import Any

import pytest
from browser_pages import BOXES, WIDTH, on_paper, pressed
from report_fixture import changed, estimate, hostile, nosocomial_run, with_lines
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
