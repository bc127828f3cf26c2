"""Who said it: the system's user and a token stand with each verdict, and the contract may ask for more."""

import hashlib
import json
import os
import pwd

import pytest
import sqlalchemy as sa
from commands import screen
from flow_cohorts import patients, written

from screening.ledger.database import REVIEWS, open_ledger
from screening.ledger.erasing import Scope, erase
from screening.ledger.history import history
from screening.store.serialization import read_document

QUICK = ["--search", "1", "--folds", "3", "--repeats", "1", "--jobs", "1", "--beside", "none"]
CONTRACT = """
[cohort]
id = "patient"
label = "ill"
positive = ["yes"]
verdicts_need = ["site", "initials"]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A night whose contract asks who a reviewer is."""
    place = tmp_path_factory.mktemp("desk")
    (place / "cohort.toml").write_text(CONTRACT)
    past = [written(patients(), place / "past.csv"), "--contract", place / "cohort.toml"]
    rule = ["--recipe", "logistic", "--max-flag-rate", 0.3]
    screen("train", *past, *rule, *QUICK, "--out", place / "model")
    night = written(patients(60, seed=7), place / "night.csv")
    screen("score", place / "model", night, "--out", place / "run", "--ledger", place / "screening.db")
    return place


def review(desk, said: dict, *words: object, code: int = 0):
    run = read_document(desk / "run", "run")
    verdicts = [{"id": each["id"], "verdict": "ruled out"} for each in run["cases"][:2]]
    content = {"format": 1, "run_id": run["run_id"], "verdicts": verdicts} | said
    (desk / "verdicts.json").write_text(json.dumps(content))
    where = [desk / "run", desk / "verdicts.json", "--ledger", desk / "screening.db"]
    return screen("review", *where, *words, code=code)


def entered(ledger) -> list[tuple[str, str]]:
    with ledger.reading() as connection:
        return [tuple(row) for row in connection.execute(sa.select(REVIEWS.c.login, REVIEWS.c.token))]


@pytest.mark.parametrize("said", [{}, {"site": "ward 7"}, {"site": "ward 7", "initials": " "}])
def test_a_verdict_without_what_the_contract_asks_for_is_refused(desk, said):
    refused = review(desk, said, code=3)

    assert "verdict 1: it has no initials, which the contract asks for" in refused.stderr
    assert ("verdict 2: it has no site" in refused.stderr) == ("site" not in said)


def test_user_and_digest_of_the_token_stand_with_each_verdict_and_can_be_purged(desk):
    token = desk / "token"
    token.write_text("a reviewer's secret\n")
    token.chmod(0o600)
    review(desk, {"site": "ward 7", "initials": "ab"}, "--token", token)

    digest = hashlib.sha256(b"a reviewer's secret").hexdigest()
    with open_ledger(desk / "screening.db") as ledger:
        known = entered(ledger)
        history(ledger, verify=True)
        erase(ledger, "purge", "old", Scope())
        left = entered(ledger)
        history(ledger, verify=True)
    assert known == [(pwd.getpwuid(os.getuid()).pw_name, digest)] * 2
    assert left == [("", "")] * 2


def test_a_token_that_others_can_read_is_refused(desk):
    token = desk / "open"
    token.write_text("secret")
    token.chmod(0o644)

    refused = review(desk, {"site": "ward 7", "initials": "ab"}, "--token", token, code=2)

    assert "others can read" in refused.stderr
