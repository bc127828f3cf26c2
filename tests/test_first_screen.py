"""Ten statements that a tired reader takes from the page of a night, each in the first
screen at 1440 by 900.
"""

import copy
import datetime
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from approvals import approved
from flow_cohorts import night_of_patients, patients, written
from numpy.random import default_rng
from written_files import page_in

from screening import MaxFlagRate, read_cohort, score, train
from screening.ledger.database import open_ledger
from screening.report import render_run

SIZE = (1440, 900)
CONTRACT = """format = 1
[cohort]
title = "Infection, ward 7"
id = "patient"
label = "ill"
positive = ["yes"]
time = "seen"
display = ["bed"]
minutes_per_review = 4
capacity = 9
"""
PAGE = Path(__file__).parents[1] / "docs" / "page.md"
# Of each statement of docs/page.md: an element of the page, and what stands in it.
STATEMENTS = {
    1: (".banner .head", r"Infection, ward 7\s+Night of 2026-03-02"),
    2: (".banner .support", r"Decision support: confirm by chart review"),
    3: (
        ".approved",
        r"approved for use by Dr A. Adler on 2026-02-20, until the review on 202\d-",
    ),
    4: (".status:not(.approved)", r"^(OK No check failed|No check failed|ATTENTION)"),
    5: (".tonight .big", r"^\d+ patients to review.*about .*capacity 9 reviews"),
    6: (".tonight .sum", r"\d+ flagged of 60 rows scored; 60 read, 0 refused"),
    7: (
        ".tonight .chips",
        r"Since 2026-03-01: \d+ new \d+ risen \d+ no longer flagged",
    ),
    8: (".tonight .plain", r"The table arrived as usual, written 2026-03-02, 05:12\."),
    9: (
        ".tonight .plain",
        r"About \d+ of these \d+ have the condition\. "
        r"About \d+ patients who have it are not on this list\.",
    ),
    10: ("#list .c", r"^1 \W*\d-\d .*\d%.*(fever|crp)"),
}


def dated(table, day):
    """Return a table with beds, whose newest row is of twenty to ten at night."""
    hours = pd.to_timedelta(range(len(table)), unit="h")
    times = pd.Timestamp(f"{day} 21:40") - hours
    beds = [f"{1 + row // 4}-{1 + row % 4}" for row in range(len(table))]
    return table.assign(seen=times.astype(str), bed=beds)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the page of the second night of a ward with an approved model."""
    folder = tmp_path_factory.mktemp("ward")
    (folder / "cohort.toml").write_text(CONTRACT)
    past = written(dated(patients(800), "2025-12-31"), folder / "past.csv")
    cohort = read_cohort(past, folder / "cohort.toml")
    rule = MaxFlagRate(0.2)
    model = train(
        cohort,
        "logistic",
        search=1,
        jobs=1,
        beside=(),
        rule=rule,
    )
    reason = "read by two of us"
    day = datetime.date(2026, 2, 20)
    model = approved(model, "Dr A. Adler", day, reason, ["fever", "crp"])
    night = night_of_patients(62, seed=7)
    warmer = night.assign(fever=night["fever"] + 0.1)
    tables = {
        "2026-03-01": dated(night[:60], "2026-02-28"),
        "2026-03-02": dated(warmer[2:], "2026-03-01"),
    }
    with open_ledger(folder / "screening.db", make=True) as ledger:
        for date, table in tables.items():
            delivered = written(table, folder / f"{date}.csv")
            arrived = datetime.datetime.fromisoformat(f"{date} 05:12")
            written_at = arrived.timestamp()
            os.utime(delivered, (written_at, written_at))
            run = score(model, delivered, folder / date, date=date, ledger=ledger)
    return page_in(run.directory)


@pytest.mark.parametrize("number", STATEMENTS)
def test_statement_in_first_screen(opened, page, number):
    """The statement stands where docs/page.md says, whole in the first screen."""
    selector, words = STATEMENTS[number]
    view, _ = opened(page, *SIZE)

    element = view.locator(selector).first
    text = " ".join(element.inner_text().split())
    box = element.bounding_box()

    assert re.search(words, text), text
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= SIZE[1]
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= SIZE[0]


def test_statements_of_the_page_are_documented():
    """docs/page.md lists as many statements as are tested."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## What to see in the first ten seconds")[1]
    section, *_ = section.split("\n## ")

    numbers = re.findall(r"^\| (\d+) \|", section, re.M)
    assert numbers == [*map(str, STATEMENTS)]


SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
# A line of text, and the bars below it.
ONE_LINE, THREE_LINES = 33, 62
SAMPLE_NIGHTS = ("2026-03-01", "2026-03-02", "2026-03-03")
CUT = "one => one.scrollWidth > one.clientWidth"


@pytest.fixture(scope="module")
def sample_night(tmp_path_factory):
    """Return the document of the third night of the sample ward, with a ledger."""
    folder = tmp_path_factory.mktemp("sample")
    past = read_cohort(SAMPLES / "nosocomial_past.csv", SAMPLES / "nosocomial.toml")
    model = train(past, "logistic", search=1, jobs=1, beside=())
    table = pd.read_csv(SAMPLES / "nosocomial_night.csv", dtype={"patient_id": str})
    rng = default_rng(0)
    with open_ledger(folder / "screening.db", make=True) as ledger:
        for date in SAMPLE_NIGHTS:
            tonight = table.sample(frac=0.9, random_state=rng)
            noise = rng.normal(0, 0.5, len(tonight))
            tonight["crp"] *= np.exp(noise)
            run = score(model, tonight, folder / date, date=date, ledger=ledger)
    return run.document


def with_places(document):
    """Return a night whose rows show ward, bed and name, some with an earlier
    verdict.
    """
    document = copy.deepcopy(document)
    for number, case in enumerate(document["cases"]):
        name = "Kowalski-Meyer" if number % 2 else "Li"
        case["display"] = {"ward": "geriatrics", "bed": f"{number}-4", "name": name}
        if number % 9 == 0:
            case["last_verdict"] = {"night": "2026-03-01", "verdict": "ruled out"}
    return document


@pytest.mark.parametrize(
    ("shows_place", "tallest"), [(False, ONE_LINE), (True, THREE_LINES)]
)
def test_rows_one_line(opened, sample_night, shows_place, tallest):
    """At 1440 every row is one line high, sparks, audit tags, risen and new ones too; a
    row that names ward, bed and patient may take three.
    """
    document = with_places(sample_night) if shows_place else sample_night
    view, _ = opened(render_run(document), *SIZE)
    view.evaluate(
        "document.querySelectorAll('.part').forEach(part => part.open = true)"
    )

    faces = view.locator("#list .c .f").evaluate_all(
        "faces => faces.map(face => face.getBoundingClientRect().height)"
    )
    words = view.locator("#list").inner_text()
    sparks = view.locator("#list .s").count()
    cut_reasons = view.locator("#list .y > span").evaluate_all(
        f"all => all.filter({CUT})"
    )

    assert max(faces) < tallest
    assert "please check" in words and "risen" in words and sparks > 50
    assert cut_reasons == []


def test_row_unfolded_is_whole(opened, sample_night):
    """Place and remarks are not cut, folded or unfolded."""
    view, _ = opened(render_run(with_places(sample_night)), *SIZE)
    row = view.locator("#list .c:has(small)").first
    texts = row.locator(".p, small")

    assert not texts.evaluate_all(f"all => all.some({CUT})")
    row.locator("summary").click()
    assert not texts.evaluate_all(f"all => all.some({CUT})")
