"""What a page says: each figure is its document's, and states and phrases are those of the clinic."""

import re
from pathlib import Path
from typing import get_args

from screening.ledger.database import STATES
from screening.schemas.history import NightRun
from screening.schemas.run import Counts, State

ROOT = Path(__file__).parents[1]


PHRASES = (
    "expect it to find", "to miss about", "whom to look at", "left alone", "lots chose", "judge these too",
    "flag it alone", "all that its values change", "judged not a case", "not judged", "ongoing",
    "resolved by", "missed a night", "the nights so far", "followed from its start", "test of time",
    "keep its promise", "kept its promise", "promise is not kept", "minus promised", "what came after",
    "would this be useful", "picking by chance takes", "hardly known", "anything from", "wear it down",
    "too few to be told", "too coarse", "being missing ranks", "tell of care", "bring 9 cases",
    "times the folds are dealt", "entered late", "has not come", "said alike", "reviews in vain",
    "past ones tell", "what wanted attention", "nobody stands out", "ever told so", "cases for each one",
    "beside other methods",
)  # fmt: skip
"""What pages, commands and documents no longer say."""
SHOWN = [
    *(ROOT / "templates").glob("*.j2"), *(ROOT / "templates").glob("*.js"), *(ROOT / "docs").glob("*.md"),
    *(ROOT / "screening" / "report").glob("*.py"), *(ROOT / "screening" / "cli").glob("*.py"),
    ROOT / "README.md",
]  # fmt: skip


def test_no_page_command_or_document_says_it_in_private_english():
    """What they say in the clinic's words instead is in DESIGN and on the pages."""
    private = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
    shown = {path.name: " ".join(path.read_text(encoding="utf-8").split()) for path in SHOWN}

    assert len(shown) > 60
    assert {name: private.findall(text) for name, text in shown.items() if private.search(text)} == {}


def test_states_of_a_case_are_one_list():
    """Documents, ledger, page and history have the states of `State` and no other."""
    states = [name.replace(" ", "_") for name in get_args(State)]
    tonight = (ROOT / "templates" / "tonight.html.j2").read_text(encoding="utf-8")

    assert tuple(get_args(State)) == STATES == ("new", "pending", "ruled out", "known")
    for fields in (list(Counts.model_fields), list(NightRun.model_fields)):
        first = fields.index(states[0])
        assert fields[first : first + len(states)] == states
    assert str((*states, "no_longer_flagged")).replace("'", '"') in tonight
