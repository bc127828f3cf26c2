"""What a page says: each figure is its document's, and states and phrases are those of the clinic."""

import re
from collections.abc import Iterable
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


PHRASES = {
    "expect it to find": "Expected sensitivity", "to miss about": "are missed", "whom to look at": "Worklist",
    "left alone": "are not flagged", "lots chose": "Random sample of unflagged patients",
    "judge these too": "please review, to estimate missed cases", "flag it alone": "also flag this patient",
    "all that its values change": "of the total contribution", "judged not a case": "ruled out",
    "not judged": "pending", "ongoing": "known", "resolved by": "no longer flagged",
    "missed a night": "Estimated missed cases per night", "the nights so far": "Run history",
    "followed from its start": "Audit trail verified", "test of time": "Temporal validation",
    "keep its promise": "require the target to hold with this confidence",
    "kept its promise": "validation estimate", "promise is not kept": "Performance is shown to be lower",
    "minus promised": "Observed minus validation estimate", "what came after": "later period",
    "would this be useful": "Fit for local use?", "picking by chance takes": "without the model",
    "hardly known": "is imprecise", "anything from": "95% CI",
    "wear it down": "may degrade as practice changes",
    "too few to be told": "suppressed", "too coarse": "Insufficient resolution",
    "being missing ranks": "missingness alone predicts the outcome", "tell of care": "care-process leakage",
    "bring 9 cases": "cases are needed", "times the folds are dealt": "Repeats of cross-validation",
    "entered late": "late entry", "has not come": "not published", "said alike": "% agreement",
    "reviews in vain": "unnecessary reviews", "past ones tell": "estimated from",
    "what wanted attention": "Attention on these nights", "nobody stands out": "de-identified",
    "ever told so": "ever read this", "cases for each one": "Observed / expected cases",
    "beside other methods": "Comparison with other methods",
}  # fmt: skip
"""What pages, commands and documents no longer say, and what they say in its stead."""
SHOWN = [
    *(ROOT / "templates").glob("*.j2"), *(ROOT / "templates").glob("*.js"), *(ROOT / "docs").glob("*.md"),
    *(ROOT / "screening" / "report").glob("*.py"), *(ROOT / "screening" / "cli").glob("*.py"),
    ROOT / "README.md",
]  # fmt: skip


def words_of(paths: Iterable[Path]) -> dict[str, str]:
    """Texts on one line each, by their place."""
    return {str(path.relative_to(ROOT)): " ".join(path.read_text(encoding="utf-8").split()) for path in paths}


@pytest.mark.parametrize(("before", "after"), PHRASES.items())
def test_no_page_command_or_document_says_it_in_private_english(before, after):
    shown = words_of(SHOWN)
    everywhere = shown | words_of((ROOT / "screening").rglob("*.py"))

    assert len(shown) > 60
    assert [place for place, text in shown.items() if re.search(rf"\b{before}\b", text, re.IGNORECASE)] == []
    assert any(after in text for text in everywhere.values())
