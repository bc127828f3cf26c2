"""Ten statements that a tired reader takes from the page of a night, each in the first
screen at 1440 by 900.
"""

import datetime
import re
from pathlib import Path

import pandas as pd
import pytest
from flow_cohorts import patients, written

from screening import MaxFlagRate, read_cohort, score, train
from screening.ledger.database import open_ledger
from screening.model_selection.revising import approve

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
    3: (".approved", r"approved for use by Dr A. Adler on 2026-02-20.*Fit for use\?"),
    4: (".status:not(.approved)", r"^(OK No check failed|No check failed|ATTENTION)"),
    5: (".tonight .big", r"^\d+ patients to review.*about .*capacity 9 reviews"),
    6: (".tonight .sum", r"\d+ flagged of 60 rows scored; 60 read, 0 refused"),
    7: (
        ".tonight .chips",
        r"Since 2026-03-01: \d+ new \d+ risen \d+ no longer flagged",
    ),
    8: (".tonight .expects", r"newest row of 2026-03-01, 21:40"),
    9: (".tonight .expects", r"about \d+ of 100 cases are missed\. PPV \d+%"),
    10: ("#list .c", r"^1 \W*\d-\d .*\d%.*(fever|crp)"),
}


def dated(table, day):
    """Return a table with beds, whose newest row is of twenty to ten at night."""
    times = pd.Timestamp(f"{day} 21:40") - pd.to_timedelta(range(len(table)), unit="h")
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
    model = train(cohort, "logistic", search=1, jobs=1, beside=(), rule=rule)
    reason = "read by two of us"
    model = approve(
        model, "Dr A. Adler", datetime.date(2026, 2, 20), reason, ["fever", "crp"]
    )
    night = patients(62, seed=7).drop(columns="ill")
    warmer = night.assign(fever=night["fever"] + 0.1)
    tables = {
        "2026-03-01": dated(night[:60], "2026-02-28"),
        "2026-03-02": dated(warmer[2:], "2026-03-01"),
    }
    with open_ledger(folder / "screening.db", make=True) as ledger:
        for date, table in tables.items():
            run = score(model, table, folder / date, date=date, ledger=ledger)
    return (run.directory / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", STATEMENTS)
def test_statement_in_first_screen(opened, page, number):
    """The statement stands where docs/page.md says, whole in the first screen."""
    selector, words = STATEMENTS[number]
    view, _ = opened(page, *SIZE)

    element = view.locator(selector).first
    text = " ".join(element.inner_text().split())
    box = element.bounding_box()

    assert re.search(words, text), text
    assert box["y"] >= 0 and box["y"] + box["height"] <= SIZE[1]
    assert box["x"] >= 0 and box["x"] + box["width"] <= SIZE[0]


def test_statements_of_the_page_are_documented():
    """docs/page.md lists as many statements as are tested."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## Ten statements")[1].split("\n## ")[0]

    assert re.findall(r"^\| (\d+) \|", section, re.M) == [*map(str, STATEMENTS)]
