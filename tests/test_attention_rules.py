"""What deserves attention: each rule fires where it should and nowhere else, and all
places say the same.
"""

import datetime
import json
import os
import re
import shutil
from html import unescape

import pytest
from commands import as_json, screen
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from report_fixture import changed, nosocomial_run
from scipy.stats import binom
from written_files import names_in, page_in, read_json

from screening.report import format as fmt
from screening.report import render_run
from screening.report.model_attention import attention_of_model, with_attention
from screening.report.night_attention import attention_of_night, flags_expected
from screening.schemas.base import Estimate, Reason
from screening.schemas.run import RunDocument


def run(**changes) -> dict:
    """A night that nothing is wrong with, but for these changes of its document."""
    return changed(nosocomial_run(refused=0), **changes)


def of_run(document: dict, **known) -> list[Reason]:
    night = RunDocument.from_dict(document)
    return attention_of_night(night.replace(model=with_attention(night.model)), **known)


def codes(document: dict, **known) -> set[str]:
    return {reason.code for reason in of_run(document, **known)}


POINT = "model__operating_points__0__"
SUMMARY = "model__validation__summary__yes__"
COHORT = "model__contract__cohort__"
SENSITIVITY = POINT + "figures__sensitivity__"
TONIGHT = "input__files__0__sha256"
PAST = "model__training__source__files__0__sha256"
GROUPS = {"groups": [], "groups_flagged": 20}
TELLING = {
    "too_few_cases": ({POINT + "n_positive": 29}, {POINT + "n_positive": 30}),
    "not_better_than_chance": (
        {SUMMARY + "figures__auroc__low": 0.5},
        {SUMMARY + "figures__auroc__low": 0.51},
    ),
    "intervals_too_wide": ({SENSITIVITY + "low": 0.6}, {SENSITIVITY + "low": 0.7}),
    "flags_everything": ({POINT + "threshold": -1e12}, {POINT + "threshold": -1e3}),
    "own_cases_not_flagged": (
        {SENSITIVITY + "value": 0.0},
        {SENSITIVITY + "value": 0.01},
    ),
    "past_review_date": (
        {COHORT + "review_by": "2025-03-10"},
        {COHORT + "review_by": "2025-03-11"},
    ),
    "rows_refused": (
        {"counts__refused": 2, "counts__read": 242},
        {"counts__refused": 0},
    ),
    "counts_do_not_add_up": ({"counts__read": 241}, {"counts__read": 240}),
    "over_capacity": ({COHORT + "capacity": 56}, {COHORT + "capacity": 57}),
    "flags_unexpected": ({"counts__flagged": 200}, {"counts__flagged": 80}),
    "trained_on_these_rows": (
        {TONIGHT: "ab" * 32, PAST: "ab" * 32},
        {TONIGHT: "ab" * 32, PAST: "cd" * 32},
    ),
    "everybody_flagged": (
        GROUPS | {"unflagged__cases": 0},
        GROUPS | {"unflagged__cases": 1},
    ),
    "nobody_flagged": ({"counts__flagged": 0}, {"counts__flagged": 70}),
}


@pytest.mark.parametrize("code", TELLING)
def test_each_rule_fires_beyond_its_bound_and_not_before(code):
    beyond, before = TELLING[code]
    assert codes(run()) == set()
    assert code in codes(run(**beyond))
    assert code not in codes(run(**before))


WINDOW = "model__training__window"
OLD = {"model__training__window": ["2014-01-01", "2015-03-11"]}
SPARES = {
    POINT + "figures__specificity__low": 0.0,
    POINT + "figures__specificity__value": 0.0,
}
FEW_ROWS = {
    "counts__scored": 2,
    "counts__read": 2,
    "counts__flagged": 0,
    POINT + "figures__flag_rate__value": 0.1,
}
MOST_FLAGGED = {
    "model__validation__n_rows": 15_000,
    "counts__scored": 15_000,
    "counts__read": 15_000,
    POINT + "figures__flag_rate__value": 0.95,
}
NO_STATES = dict.fromkeys(
    ("counts__new", "counts__pending", "counts__ruled_out", "counts__known"), 0
)
NUMBERED = {"attention": [{"code": "ids_are_row_numbers", "words": "w"}]}
MANY = {"counts__flagged": 200}
IN_2025 = {"trained": datetime.datetime(2025, 3, 1)}
# A reason, what is changed in a night's document, what its ledger or model knows, and
# whether it is given.
GIVEN = [
    ("quiet_nights", {}, {"quiet": 3}, True),
    ("quiet_nights", {}, {"quiet": 2}, False),
    ("quiet_nights", FEW_ROWS, {"quiet": 5}, False),
    ("quiet_nights", FEW_ROWS, {"quiet": 60}, True),
    ("counts_do_not_add_up", NO_STATES | {"counts__cases": 3}, {}, True),
    ("counts_do_not_add_up", NO_STATES | {"counts__cases": 0}, {}, False),
    ("not_recognisable", {}, {"recognisable": False}, True),
    ("not_recognisable", {}, {}, False),
    ("not_recognisable", NUMBERED, {"recognisable": False}, False),  # said once
    (
        "flags_everything",
        SPARES | {POINT + "figures__specificity__high": 0.04},
        {},
        True,
    ),
    (
        "flags_everything",
        SPARES | {POINT + "figures__specificity__high": 0.06},
        {},
        False,
    ),
    # Two years after its last patient a model is old, whenever it was trained, but for
    # a date of review.
    ("past_review_date", {WINDOW: ["2014-01-01", "2023-03-12"]}, IN_2025, False),
    ("past_review_date", {WINDOW: ["2014-01-01", "2023-03-09"]}, IN_2025, True),
    (
        "past_review_date",
        {WINDOW: None},
        {"trained": datetime.datetime(2024, 3, 11)},
        False,
    ),
    ("past_review_date", OLD, {}, True),
    (
        "past_review_date",
        {WINDOW: None},
        {"trained": datetime.datetime(2015, 3, 11)},
        True,
    ),
    ("past_review_date", OLD | {COHORT + "review_by": "2026-01-01"}, {}, False),
    # No number of flags is expected of rows in groups; the mean of many machines may
    # flag somewhat more.
    ("flags_unexpected", MANY, {}, True),
    ("flags_unexpected", MANY | {"model__validation__grouped": True}, {}, False),
    ("flags_unexpected", MANY | {COHORT + "group": "patient"}, {}, False),
    ("flags_unexpected", MOST_FLAGGED | {"counts__flagged": 14_640}, {}, False),
    ("flags_unexpected", MOST_FLAGGED | {"counts__flagged": 14_800}, {}, True),
    ("flags_unexpected", MOST_FLAGGED | {"counts__flagged": 14_100}, {}, True),
]


@pytest.mark.parametrize(("code", "changes", "known", "given"), GIVEN)
def test_reason_is_given_where_it_should(code, changes, known, given):
    assert (code in codes(run(**changes), **known)) == given


def test_open_question_is_for_who_trains_and_for_every_night():
    """Until somebody answers, in the contract or at the approval."""
    leak = {"code": "named_after", "column": "crp", "figure": 0.9, "said": "crp: late"}
    answer = {"columns": ["crp"], "by": "A. Weber", "date": "2026-03-01"}
    night = run(model__training__leaks=[leak])
    (reason,) = attention_of_model(RunDocument.from_dict(night).model)
    answered = run(model__training__leaks=[leak], model__known_before=[answer])

    assert reason.code == "answer_first"
    assert reason.column == "crp"
    assert reason.figure == 0.9
    assert codes(night) == {"answer_first"}
    assert codes(answered) == set()


def test_flag_count_beyond_range():
    """Flags are unexpected from the first beyond either end of the range."""
    model = RunDocument.from_dict(run()).model
    low, high = flags_expected(model, 240)
    for flagged, bound in ((low - 1, low), (high + 1, high)):
        (reason,) = (
            each
            for each in of_run(run(counts__flagged=flagged))
            if each.code == "flags_unexpected"
        )
        assert reason.threshold == bound
    for flagged in (low, high):
        assert "flags_unexpected" not in codes(run(counts__flagged=flagged))


@given(
    rate=st.floats(0.001, 0.999),
    scored=st.integers(0, 100_000),
    known=st.integers(1, 10_000),
)
def test_flag_count_expected_range(rate, scored, known):
    """The number of flags that is expected lies in the range expected."""
    model = RunDocument.from_dict(run()).model
    (point,) = model.operating_points
    model = model.replace(
        operating_points=[point.replace(figures={"flag_rate": Estimate(rate)})],
        validation=model.validation.replace(n_rows=known),
    )
    low, high = flags_expected(model, scored)
    assert 0 <= low <= rate * scored <= high


@pytest.mark.parametrize("scored", [1, 5, 10, 20, 40, 240])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_flag_count_false_alarms(scored, rate):
    """The number of flags alarms on less than one night in a hundred."""
    rows = {"counts__scored": scored, "counts__read": scored, COHORT + "capacity": None}
    rows[POINT + "figures__flag_rate__value"] = rate
    night = RunDocument.from_dict(run(**rows))
    alarms = 0.0
    for flagged in range(scored + 1):
        counts = night.counts.replace(flagged=flagged)
        reasons = attention_of_night(night.replace(counts=counts))
        chance = binom.pmf(flagged, scored, rate)
        alarms += chance if reasons else 0.0
    assert alarms < 0.01


def told_on(page: str) -> list[str]:
    """The words and remedies at the head of a page, as a reader sees them."""
    status = re.search(r'<div class="status attention">(.*?)</div>', page, re.DOTALL)
    if not status:
        return []
    items = re.findall(r"<li>(.*?)</li>", status[1], re.DOTALL)
    texts = [re.sub(r"\s*</?small>", " ", item) for item in items]
    return [unescape(text).strip() for text in texts]


def said(reasons: list[dict]) -> list[str]:
    remedies = [each["remedy"] for each in reasons if each["remedy"]]
    words = [each["words"] for each in reasons]
    return [*words, *dict.fromkeys(remedies)]


def test_a_page_shows_the_list_of_its_document_and_judges_nothing_anew():
    only = vars(Reason("odd", "Something is odd.", remedy="Look at it."))
    night = run(counts__refused=7) | {"attention": [only]}
    assert told_on(render_run(night)) == ["Something is odd.", "Look at it."]
    assert told_on(render_run(night | {"attention": []})) == []


@pytest.mark.repeated
@settings(max_examples=examples(10, 25), deadline=None)
@given(
    st.sets(st.sampled_from(sorted(TELLING))),
    st.lists(
        st.text("αz é<&\u202e", min_size=1).map(
            lambda text: Reason("values", f"crp {text}.")
        )
    ),
    st.integers(0, 5),
)
def test_whatever_is_wrong_the_page_names_it_as_the_document_does(wrong, gates, quiet):
    night = run(
        **{
            place: value
            for code in sorted(wrong)
            for place, value in TELLING[code][0].items()
        }
    )
    night["attention"] = [vars(reason) for reason in gates]
    found = of_run(night, quiet=quiet)
    reasons = [vars(reason) for reason in found]
    told = told_on(render_run(night | {"attention": reasons}))
    words = [fmt.text(each).split() for each in said(reasons)]
    assert words == [each.split() for each in told]


@pytest.mark.parametrize(
    ("model", "table", "year"),
    [
        ("good", "night.csv", 2015),
        ("good", "annex.csv", 2026),
        ("good", "night.csv", 2026),
        ("mute", "night.csv", 2015),
        ("tissue", "voxels.parquet", 2026),
    ],
)
def test_page_run_json_answer_ledger_and_status_say_the_same(
    judged, tmp_path, model, table, year
):
    book = tmp_path / "book.db"
    out = tmp_path / "run"
    copy = tmp_path / "model"
    shutil.copytree(judged / model, copy)
    written_at = datetime.datetime(year, 3, 11).timestamp()
    os.utime(copy / "arrays.npz", (written_at, written_at))
    night = (
        "score",
        copy,
        judged / table,
        "--out",
        out,
        "--ledger",
        book,
        "--date",
        "2026-03-30",
        "--json",
    )
    answer = screen(*night)
    kept = read_json(out / "run.json")["attention"]
    page = page_in(out)
    drawn = as_json("report", out, "--out", tmp_path / "again.html")
    came = ("status", "--ledger", book, "--night", "2026-03-30")
    (pulse,) = as_json(*came)["series"]
    (night,) = as_json("history", "--ledger", book)["runs"]
    line = screen(*came).stdout

    assert json.loads(answer.stdout)["attention"] == kept
    assert told_on(page) == said(kept)
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page
    assert drawn["attention"] == pulse["attention"] == night["attention"] == kept
    codes = {each["code"] for each in kept}
    assert ("past_review_date" in codes) == (year == 2015)
    for reason in kept:
        assert "; " + reason["words"].removesuffix(".") in line
    assert line.startswith("ATTENTION" if kept else "ok")
    screen(*came, "--strict", code=5 if kept else 0)


@pytest.mark.parametrize("name", ["good", "blind", "mute", "tissue"])
def test_the_page_of_a_model_says_what_its_document_says(judged, name):
    kept = read_json(judged / name / "model.json")["attention"]
    assert told_on(page_in(judged / name)) == said(kept)


def test_strict_exit_code(judged, tmp_path):
    """Strict exits 5 after the whole run is there and says why on one line."""
    words = (
        "score",
        judged / "good",
        judged / "annex.csv",
        "--out",
        tmp_path / "run",
        "--json",
    )
    answer = screen(*words, "--strict", code=5)
    names = {"flagged.csv", "report.html", "run.json", "scores.parquet"}
    assert names_in(tmp_path / "run") == names
    (why,) = answer.stderr.splitlines()
    reasons = json.loads(answer.stdout)["attention"]
    assert "a category never seen in training" in why
    assert all(reason["words"] in why for reason in reasons)


def test_three_nights_in_a_row_without_a_flag_are_said_on_the_third(judged, tmp_path):
    said = []
    for day in ("01", "02", "03", "03"):
        words = (
            "score",
            judged / "mute",
            judged / "night.csv",
            "--ledger",
            tmp_path / "book.db",
            "--json",
        )
        out = tmp_path / f"run-{len(said)}"
        words += ("--accept-delivery", "the same table again")
        answer = screen(
            *words, "--date", f"2026-03-{day}", "--out", out, "--strict", code=5
        )
        attention = json.loads(answer.stdout)["attention"]
        codes = {reason["code"] for reason in attention}
        said.append("quiet_nights" in codes)
    assert said == [False, False, True, True]


def test_another_threshold_makes_a_model_no_younger(judged, tmp_path):
    old = shutil.copytree(judged / "good", tmp_path / "old")
    past = datetime.datetime(2016, 3, 1).timestamp()
    os.utime(old / "arrays.npz", (past, past))
    screen("threshold", old, "--max-flag-rate", 0.2, "--reason", "fewer")
    night = (
        "score",
        old,
        judged / "night.csv",
        "--out",
        tmp_path / "r",
        "--date",
        "2026-03-01",
    )
    (reason,) = as_json(*night)["attention"]
    assert reason["code"] == "past_review_date"
    assert reason["figure"] == pytest.approx(10, abs=0.01)
