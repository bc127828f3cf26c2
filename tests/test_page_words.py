"""What a page says: each figure is its document's, and states and phrases are those of the clinic."""

import re
from pathlib import Path
from typing import get_args

import pytest
from report_fixture import nosocomial_model, nosocomial_run

from screening.ledger.database import STATES
from screening.report import render_model, render_run
from screening.schemas.history import NightRun
from screening.schemas.run import Counts, State

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("figure", ["sensitivity", "specificity", "ppv", "npv"])
def test_a_figure_that_changes_in_the_document_changes_on_the_page(figure):
    document = nosocomial_model()
    document["operating_points"][0][figure] = {"value": 0.4321, "low": 0.3333, "high": 0.5555}

    assert "43% <small>33–56%</small>" in render_model(document)
    assert "43% <small>33–56%</small>" not in render_model(nosocomial_model())


def test_every_flagged_patient_stands_with_the_documents_chance_and_reasons():
    run = nosocomial_run()
    page = render_run(run)
    explained = [case for case in run["cases"] if case["contributions"]]

    assert len(explained) > 20
    for case in explained:
        line = page[page.index(f"<bdi>{case['id']}</bdi>") :][:6000].split("<li class=c")[0]
        for one in case["contributions"]:
            assert one["feature"].replace("_", " ") in line
            sign = f"{one['change']:+.3f}".replace("-", "−")
            assert sign in line


def test_states_of_a_case_are_one_list():
    """Documents, ledger, page and history have the states of `State` and no other."""
    states = [name.replace(" ", "_") for name in get_args(State)]

    assert tuple(get_args(State)) == STATES == ("new", "pending", "ruled out", "known")
    for counted in (Counts, NightRun):
        fields = list(counted.model_fields)
        first = fields.index(states[0])
        assert fields[first : first + len(states)] == states
    tonight = (ROOT / "templates" / "tonight.html.j2").read_text(encoding="utf-8")
    assert str((*states, "no_longer_flagged")).replace("'", '"') in tonight


GONE = (
    "whom to look at", "lots chose", "keep its promise", "kept its promise", "left alone",
    "judged not a case", "not judged", "ongoing", "resolved by", "missed a night", "test of time",
    "would this be useful", "hardly known", "wear it down", "too few to be told", "too coarse",
    "picking by chance takes", "times the folds are dealt", "flag it alone", "the nights so far",
    "bring 9 cases", "single values change", "promise is not kept", "minus promised",
    "expect it to find", "to miss about", "judge these too", "followed from its start", "what came after",
    "anything from", "tell of care", "being missing ranks", "entered late",
)  # fmt: skip
SHOWN = [
    *(ROOT / "templates").glob("*.j2"), *(ROOT / "templates").glob("*.js"), *(ROOT / "docs").glob("*.md"),
    *(ROOT / "screening" / "report").glob("*.py"), *(ROOT / "screening" / "cli").glob("*.py"),
    ROOT / "README.md",
]  # fmt: skip


@pytest.mark.parametrize("phrase", GONE)
def test_no_page_command_or_document_says_it_in_private_english(phrase):
    assert len(SHOWN) > 60
    assert [
        str(path.relative_to(ROOT)) for path in SHOWN
        if re.search(rf"\b{phrase}\b", " ".join(path.read_text(encoding="utf-8").split()), re.IGNORECASE)
    ] == []  # fmt: skip
