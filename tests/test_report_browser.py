"""The page in a real browser: scripts, keyboard, printer, telephone, accessibility,
hostile text.
"""

import datetime
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser_pages import BOXES, WIDTH, on_paper, pressed
from commands import as_json
from compared_methods import QUICK, cohort, table
from event_tables import FIRST, LAST, hospital, spec_of, written_events
from flow_cohorts import night_of_patients, patients, written
from ledger_nights import simulate
from report_fixture import (
    changed,
    estimate,
    hostile,
    nosocomial_model,
    nosocomial_run,
    voxel_model,
    voxel_run,
    with_lines,
)
from written_files import read_json

from screening import (
    Features,
    compare,
    history,
    open_ledger,
    read_cohort,
    train,
    validate,
)
from screening.report import render_model, render_run
from screening.report.comparison import render_comparison
from screening.report.features import render_features
from screening.report.history import render_history
from screening.report.page import render_case, render_validation
from screening.store.model import Model

SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
MARK = "lines => getComputedStyle(document.querySelector(`${lines} .f`), '::after').content"


def explored(view: Any) -> Any:
    view.locator("summary", has_text="Cases found and reviews needed").click()
    return view.locator("input[type=range]").first


def test_policy_stops_what_an_escape_forgotten_would_let_in(opened):
    view, seen = opened(render_run(nosocomial_run()))
    view.evaluate(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="http://192.0.2.1/x.png" onerror="document.title = 1"><p id=p style="color:red">x</p>\')'
    )
    view.wait_for_timeout(100)

    assert view.title() != "1"
    assert (
        view.evaluate("getComputedStyle(document.getElementById('p')).color")
        != "rgb(255, 0, 0)"
    )
    assert len([line for line in seen if "Content Security Policy" in line]) >= 2


def test_page_without_scripts(opened):
    """Everything but slider filter and verdicts is there without scripts."""
    run = nosocomial_run()
    view, _ = opened(render_run(run), java_script_enabled=False)
    for place in (".controls", ".filters", "#exploring"):
        assert view.locator(place).first.is_hidden()
    assert view.locator("#list .c").count() == len(run["cases"])
    assert view.locator("svg").first.is_visible()
    assert view.evaluate(BOXES.format(0)).count("☐") == 4


def test_slider_by_keyboard(opened):
    """Slider by keyboard counts marks and warns and the button takes it back.

    So does printing.
    """
    run = nosocomial_run()
    view, _ = opened(render_run(run))
    slider = explored(view)
    slider.focus()
    pressed(view, *["ArrowLeft"] * 6)

    figures = json.loads(view.locator(".panel script").text_content())
    shown = int(view.locator("[data-show=flagged]").text_content())
    threshold = figures["threshold"][figures["flagged"].index(shown)]
    cases = run["near_misses"]
    named = [case for case in cases if case["score"] >= threshold]

    assert shown > run["counts"]["flagged"]
    assert slider.get_attribute("aria-valuetext").endswith(
        "not the validated threshold"
    )
    assert (
        "Exploring: not the validated threshold."
        in view.locator("#exploring").inner_text()
    )
    assert view.locator(".c.in").count() == len(named) > 0
    assert view.evaluate(MARK, ".c.in") == '"would be flagged"'

    for back in (view.locator("#back").click, lambda: view.pdf(format="A4")):
        back()
        assert view.locator(".c.in, .c.out").count() == 0
        assert view.locator("#exploring").is_hidden()
        assert (
            int(view.locator("[data-show=flagged]").text_content())
            == run["counts"]["flagged"]
        )
        slider.focus()
        pressed(view, *["ArrowLeft"] * 6)


def test_leave_with_unsaved_verdicts(opened):
    """Leaving with verdicts unsaved is questioned and after saving it is not."""
    view, _ = opened(render_run(nosocomial_run()))
    confirmed = view.locator(".t input[value=confirmed]").first
    asked = []

    def accept(dialog):
        asked.append(dialog.type)
        dialog.accept()

    view.on("dialog", accept)
    pressed(view, "Control+s")
    assert "no verdict has been given" in view.locator("#review-save").inner_text()
    confirmed.check()
    view.reload()
    assert asked == ["beforeunload"]

    confirmed.check()
    view.fill("#review-initials", "ab")
    with view.expect_download():
        view.click("#review-save button")
    view.reload()
    assert asked == ["beforeunload"]


def test_print_one_line_a_row(opened):
    """On paper a line without reasons is one line however long place and id are.

    Paper is A4 and has boxes for every case, folded or not.
    """
    run = with_lines()
    for number, case in enumerate(run["cases"]):
        case["id"] = f"8f14e45f-ceea-467f-a6c5-{number:012d}"
        case["display"] = {"ward": "intensive_care", "bed": "5-8", "name": "Kowalski"}
    view, _ = opened(render_run(run), java_script_enabled=False)
    printed = view.pdf(format="A4", prefer_css_page_size=True)
    on_paper(view)
    lines = "[...document.querySelectorAll('#list .c{}')]"
    heights = view.evaluate(
        lines.format(":not(:has(.y))") + ".map(one => one.clientHeight)"
    )
    hidden = view.evaluate(
        lines.format("") + ".filter(line => !line.checkVisibility()).length"
    )

    assert len(heights) == 12
    assert max(heights) < 20
    assert view.locator("#list .part.more").count() > 0 == hidden
    assert re.search(rb"/MediaBox \[0 0 59[45]\S* 84[12]", printed)
    assert view.evaluate(WIDTH) <= 703
    assert view.evaluate(BOXES.format(-1)).count("☐") == 4
    assert view.locator(".filters").is_hidden()
    assert view.locator(".t input").first.is_hidden()


WARDS = ("icu", "surgery", "medicine")
AT_FIRST = (
    "document.activeElement.closest('.t') === document.querySelector('.list .c .t')"
)
SIXTY = "ward-of-the-north-house/admission-00000000000000000000012345"


def placed(n: int = 240, **more: Any) -> dict[str, Any]:
    """A night whose contract shows ward and bed, with a ledger that knows every third
    case.
    """
    run = nosocomial_run(n) | more
    for i, case in enumerate(run["cases"]):
        case["display"] = {"ward": WARDS[i % 3], "bed": f"{i}-1"}
        case["state"] = ("new", "pending", "known")[i % 3]
        case["nights"] = 1 + i % 4
    n_known = sum(case["state"] == "known" for case in run["cases"])
    run["counts"] |= {"known": n_known}
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
    assert (
        view.locator(".t").first.locator("input:checked").get_attribute("value")
        == "confirmed"
    )


def test_a_verdict_is_given_changed_taken_back_and_saved_by_keyboard(opened, tmp_path):
    run = nosocomial_run()
    view, seen = opened(render_run(run))
    first = view.locator(".list .c").first
    first.locator("input").first.focus()
    pressed(
        view,
        "Space",
        "ArrowRight",
        "Tab",
        "Tab",
        "ArrowRight",
        "ArrowLeft",
        "ArrowLeft",
    )
    pressed(view, "Control+s")
    assert "who reviewed (initials)" in view.locator("#review-save").inner_text()
    with view.expect_download() as download:
        pressed(view, "a", "b", "Control+s")
    download.value.save_as(tmp_path / "v.json")

    # The second was put back to "no verdict", which stands last.
    (saved,) = read_json(tmp_path / "v.json")["verdicts"]
    assert saved["id"] == run["cases"][0]["id"]
    assert saved["verdict"] == "ruled out"
    assert datetime.datetime.fromisoformat(saved["given"]).tzinfo is not None
    assert seen == []


def test_list_filters(opened):
    """The list shows a ward a state or a verdict and says how many of how many.

    Another order keeps every line, and the first order comes back.
    """
    run = placed()
    view, _ = opened(render_run(run))
    view.locator(".t input[value=confirmed]").first.check()
    wards_of_cases = [case["display"]["ward"] for case in run["cases"]]
    icu = wards_of_cases.count("icu")
    ids = "[...document.querySelectorAll('#list .c:not([data-flagged]) .id bdi')].map(one => one.textContent)"
    wards = (
        "[...document.querySelectorAll('#list .c[data-at]')].map(one => one.dataset.at)"
    )

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
    assert places == sorted(places)
    assert sorted(view.evaluate(ids)) == sorted(before)
    view.select_option("#in-order", "")
    assert view.evaluate(ids) == before


def test_one_confirmed_before_is_no_work_and_stands_folded_by_its_date(opened):
    verdict = {"night": "2025-03-09", "verdict": "confirmed"}
    run = changed(
        nosocomial_run(),
        cases__0__state="known",
        cases__0__nights=3,
        cases__0__last_verdict=verdict,
    )
    view, _ = opened(render_run(run))
    first, *_ = run["cases"]
    line = view.locator(".list .c", has_text=first["id"])

    assert not line.is_visible()
    view.locator("summary", has_text="1 reviewed before").click()
    assert "known, confirmed on 2025-03-09" in line.inner_text()


def test_capacity_line(opened):
    """A capacity line runs through the list and says what stopping there finds."""
    run = nosocomial_run()
    found = estimate(0.8, 0.7, 0.88)
    every = estimate(0.9, 0.7, 0.88)
    facts = {
        "reviews": 10,
        "score": run["cases"][9]["score"],
        "n_cases": 75,
    }
    stopping = facts | {"found": found, "all_found": every}
    view, _ = opened(render_run(run | {"stopping": stopping}))
    assert view.locator("#list .c:visible").count() == 10
    words = view.locator(".stop").inner_text()
    assert "Your 10 reviews end here. They find about 80 of 100 (70–88) cases" in words


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_patients_are_whole_on_the_first_screen_of_a_telephone(opened, scheme):
    view, _ = opened(render_run(placed()), 390, 844, color_scheme=scheme)
    whole = view.evaluate(
        "[...document.querySelectorAll('.list .c')].filter(line => line.getBoundingClientRect().height > 0"
        " && line.getBoundingClientRect().bottom"
        " <= document.getElementById('review-save').getBoundingClientRect().top).length"
    )

    assert whole >= 5
    assert view.evaluate(WIDTH) <= 390


@pytest.mark.parametrize("width", [1280, 390])
def test_long_id_on_one_line(opened, width):
    """An id of any length stays on one line and is whole in title and print.

    Verdict boxes are at least 24 pixels each way.
    """
    run = changed(nosocomial_run(), cases__0__id=SIXTY)
    view, _ = opened(render_run(run), width)
    shown = view.locator(".list .c .id").first
    inputs = view.locator(".list .c .t").first.locator("input")
    boxes = [one.bounding_box() for one in inputs.all()]

    assert shown.bounding_box()["height"] < 26
    assert shown.get_attribute("title") == SIXTY
    assert shown.locator("bdi").text_content() == SIXTY
    assert view.evaluate(WIDTH) <= width
    assert len(boxes) == 5
    for box in boxes:
        assert min(box["width"], box["height"]) >= 24
    view.emulate_media(media="print")
    assert (
        view.evaluate("getComputedStyle(document.querySelector('.id span')).overflow")
        == "visible"
    )


# Texts of a line that are cut, or lie behind its verdict.
NOT_SEEN = """
[...document.querySelectorAll('#list .c')].slice(0, 8).flatMap(line => {
  const verdict = line.querySelector('.t').getBoundingClientRect();
  const behind = box => box.right > verdict.left && box.left < verdict.right
    && box.bottom > verdict.top + 1 && box.top < verdict.bottom - 1;
  return [...line.querySelectorAll('.p bdi, .w > .tag, .w > small')].filter(one => {
    const boxes = [...one.getClientRects()];
    const end = one.closest('.p, .w > *');
    const isCut = getComputedStyle(end).overflow !== 'visible'
      && end.scrollWidth > end.clientWidth;
    return !boxes.length || isCut || boxes.some(behind);
  }).map(one => one.textContent);
})
"""


def test_place_and_remarks_seen_at_every_width(opened):
    """Ward, bed, the tag of the audit and the nights of a line are never cut."""
    run = placed()
    for case in run["cases"]:
        case["display"] = {"ward": "orthopaedics and trauma", "bed": "12-4"}
        case["drawn"] = True
        case["nights"] = 2
    view, _ = opened(render_run(run))
    unseen = {}
    for width in (390, 768, 1280, 1366, 1440, 1536, 1920):
        view.set_viewport_size({"width": width, "height": 900})
        unseen[width] = view.evaluate(NOT_SEEN)

    assert view.locator("#list .w > small").count() > 8
    assert {width: words for width, words in unseen.items() if words} == {}


def test_keyboard_verdict_beyond_fold(opened):
    """A line beyond the fold takes a verdict when the keyboard comes to it."""
    view, seen = opened(render_run(with_lines()))
    view.locator(".part.more > summary").first.click()
    last = view.locator("#list .part.more .t").last
    # The buttons may have been made already, for the line lies near what is in sight.
    last.evaluate("place => (place.querySelector('input') || place).focus()")
    view.keyboard.press("Space")

    assert last.locator("input:checked").count() == 1
    assert seen == []


def nights(folder: Path) -> str:
    with open_ledger(folder / "screening.db", make=True) as ledger:
        simulate(ledger, nights=8)
        return render_history(history(ledger))


def compared(folder: Path) -> str:
    table(90, 0).to_csv(folder / "one.csv", index=False)
    cohorts = {"one": cohort(folder, "one")}
    compared = compare(cohorts, ["logistic"], **QUICK)
    return render_comparison(compared.document)


def one_case(folder: Path) -> str:
    run = nosocomial_run()
    flagged = run["cases"][0] | {"flagged": True}
    return render_case(run, flagged)


@cache
def trained() -> Model:
    past = read_cohort(SAMPLES / "nosocomial_past.csv", SAMPLES / "nosocomial.toml")
    return train(past, "logistic", search=1, jobs=1, beside=())


def trained_model(folder: Path) -> str:
    """Return the page of a model with all that training writes, Table 1 included."""
    return render_model(trained().document)


def validated(folder: Path) -> str:
    """Return the page of a validation, whose subgroups have all their columns."""
    validation = validate(trained(), SAMPLES / "nosocomial_night_labelled.csv")
    return render_validation(validation.to_dict())


def features(folder: Path) -> str:
    """Return the page of a table of features, with wrong lines and codes not met."""
    pytest.importorskip("duckdb")
    events = hospital().replace({"unit": {"umol/L": "furlong"}})
    is_crp = events["code"].eq("LAB/crp")
    events["known_since"] = events["known_since"].mask(is_crp)
    written_events(events, folder / "events.csv")
    made = Features(spec_of(folder), threads=1).make_past(FIRST, LAST)
    assert made.faults
    assert made.undated
    assert made.coverage.codes_not_met
    return render_features(
        "past.parquet",
        rows=made.rows,
        faults=made.faults,
        undated=made.undated,
        coverage=made.coverage,
    )


MADE: dict[str, Callable[[Path], str]] = {
    "features": features,
    "nights": nights,
    "compared": compared,
    "case": one_case,
    "hostile": lambda _: render_run(hostile(nosocomial_run())),
    "lines": lambda _: render_run(with_lines(4, 60)),
    "model": lambda _: render_model(nosocomial_model()),
    "trained model": trained_model,
    "validated": validated,
    "voxel model": lambda _: render_model(voxel_model()),
    "voxel run": lambda _: render_run(voxel_run()),
}


@pytest.fixture(scope="module", params=MADE)
def page(request, tmp_path_factory):
    return MADE[request.param](tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def axe():
    package = pytest.importorskip(
        "axe_playwright_python", reason="needs axe-playwright-python"
    )
    script = Path(package.__file__).parent / "axe.min.js"
    return script.read_text(encoding="utf-8")


def faults(view: Any, axe: str) -> list[str]:
    view.evaluate(axe)
    result = view.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {violation['nodes'][0]['html']}"
        for violation in result["violations"]
    ]


def test_axe_finds_nothing_while_somebody_explores_and_judges(opened, axe):
    view, _ = opened(render_run(with_lines(4, 60)))
    for fold in view.locator("details:not(details details) > summary").all():
        fold.click()
    view.locator(".t input[value=unsure]").first.check()
    for key in ("ArrowRight", "PageUp"):
        view.locator("input[type=range]").press(key)

    assert view.locator("#exploring").is_visible()
    assert view.locator(".c.out").count() > 0
    for scheme in ("light", "dark"):
        view.emulate_media(color_scheme=scheme)
        assert faults(view, axe) == []


def test_axe_on_telephone(opened, axe, page):
    """Axe finds nothing at all on a telephone and no page scrolls sideways, on a large
    screen neither; a tablet shows one of the two layouts.
    """
    view, seen = opened(page, 320, 800)
    assert view.evaluate(WIDTH) <= 320
    assert seen == []
    for width in (390, 768, 1250, 1440):
        view.set_viewport_size({"width": width, "height": 800})
        assert view.evaluate(WIDTH) <= width
        if width in (390, 1440):
            assert faults(view, axe) == []


def test_no_page_is_wider_than_a_sheet(opened, page):
    """On A4 nothing runs into the margin, folded parts included."""
    view, _ = opened(page)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    on_paper(view)
    assert view.evaluate(WIDTH) <= 703


IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
SUM = "{{7*7}}{% raw %}"
TURNED = "\u202eevil\u200b"
LONG = "A" * 9_992 + "LONGTAIL"
FEATURES = {
    "fever": f"fever {IMAGE}",
    "crp": f"{SCRIPT} {SUM}",
    "ward": f"ward {TURNED}\"'&",
}
HOSTILE_WARDS = {
    "icu": IMAGE,
    "medicine": SCRIPT,
    "surgery": f"{SUM} {TURNED} {'C' * 10_000}",
}
IDS = (
    IMAGE,
    SCRIPT,
    SUM,
    f"12{TURNED}34",
    LONG,
    "\"'><b>&amp;",
    "\u05d0\u05d1 77",
    "00123",
)


def attacked(table: pd.DataFrame) -> pd.DataFrame:
    numbered = [f"{SUM} {i}" for i in range(len(IDS), len(table))]
    wards = table["ward"].map(HOSTILE_WARDS)
    table = table.assign(patient=[*IDS, *numbered], ward=wards)
    name = "B" * 9_990 + "LONGCOLUMN"
    table.insert(1, name, table["fever"] - 36.5)
    new_names = {"patient": "id <b>", "ill": "ill?</title>"}
    return table.rename(columns=FEATURES | new_names)


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Model, run, one case and a page of nights, all of the same hostile table."""
    folder = tmp_path_factory.mktemp("ward")
    past = written(attacked(patients(200)), folder / "past.csv")
    tonight = night_of_patients(60, seed=3)
    tonight.loc[: len(IDS) - 1, ["fever", "crp"]] = [38.2, 30.0]
    tonight = written(attacked(tonight), folder / f"{SUM} & night.csv")
    contract = folder / "cohort.toml"
    contract.write_text(
        '[cohort]\nlabel = "ill?</title>"\nid = "id <b>"\n'
        f"actions = {json.dumps([IMAGE, SCRIPT])}\n"
    )
    words = ("--contract", contract, "--recipe", "svm_weighted", "--jobs", 1)
    settings = ("--search", 1, "--folds", 3)
    as_json("train", past, *words, *settings, "--out", folder / "model")
    ledger = ("--ledger", folder / "l.db", "--date", "2026-03-01")
    as_json("score", folder / "model", tonight, "--out", folder / "run", *ledger)
    as_json("explain", folder / "run", IMAGE, "--out", folder / "case.html")
    as_json("history", "--ledger", folder / "l.db", "--out", folder / "history.html")
    return {
        "model": folder / "model" / "report.html",
        "run": folder / "run" / "report.html",
        "case": folder / "case.html",
        "history": folder / "history.html",
    }


@pytest.mark.parametrize("page", ["model", "run", "case", "history"])
def test_nothing_in_a_hostile_table_acts_on_any_page(opened, ward, page):
    view, seen = opened(ward[page].read_text(encoding="utf-8"))
    assert seen == []
    assert view.locator("img, b > script, iframe, title ~ title").count() == 0
    assert view.evaluate("document.querySelectorAll('script:not([type])').length") <= 1
    assert view.evaluate("document.documentElement.scrollWidth") <= 1100


def test_verdicts_hostile_ids(opened, ward, tmp_path):
    """Verdicts on hostile ids are saved letter by letter and read back."""
    view, seen = opened(ward["run"].read_text(encoding="utf-8"))
    for fold in view.locator("#list .part > summary").all():
        fold.click()
    for place in view.locator(".list .t").all():
        place.scroll_into_view_if_needed()
        place.locator("input[value=unsure]").check()
    view.locator(".list li details > summary").first.click()
    view.locator(".list .said").first.fill("seen <here>")
    view.locator(".list .did").first.select_option(label=SCRIPT)
    view.fill("#review-site", "ward 3")
    view.fill("#review-initials", "ab")
    with view.expect_download() as download:
        view.keyboard.press("Control+s")
    download.value.save_as(tmp_path / "v.json")
    content = read_json(tmp_path / "v.json")
    saved = {one["id"] for one in content["verdicts"]}
    run = ward["run"].parent

    assert content["site"] == "ward 3"
    assert content["verdicts"][0]["note"] == "seen <here>"
    assert content["verdicts"][0]["action"] == SCRIPT
    assert set(IDS) <= saved
    ledger = run.parent / "l.db"
    entered = as_json("review", run, tmp_path / "v.json", "--ledger", ledger)
    assert entered["new"] == len(saved)
    assert seen == []
