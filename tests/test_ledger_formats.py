"""A ledger of format 1 is brought to format 2: it says what it said, on the chain that was printed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from test_ledger import QUESTION, night

from screening.errors import ModelError, UsageError
from screening.ledger import (
    NightCases,
    Unchained,
    history,
    open_ledger,
    record_night,
    record_threshold,
)
from screening.ledger.format_1 import OLD_TABLES
from screening.ledger.tables import SERIES, SETTINGS

KEPT = Path(__file__).parent / "kept" / "ledger_1.db"


def as_json(told: str | dict) -> dict:
    """As JSON gives it, to 12 decimals: the last bits of an interval depend on the library."""
    text = told if isinstance(told, str) else json.dumps(told)
    return json.loads(text, parse_float=lambda figure: round(float(figure), 12))


def of_before(told, before):
    """What is told now under the keys of before: later versions tell more, never other figures."""
    if isinstance(before, dict):
        return {key: of_before(told[key], value) for key, value in before.items()}
    if isinstance(before, list):
        return [of_before(*pair) for pair in zip(told, before, strict=True)]
    # SciPy's versions find a quantile to ten digits, not to the last one.
    return before if isinstance(before, float) and told == pytest.approx(before, rel=1e-9) else told


TOLD = as_json(KEPT.with_suffix(".json").read_text())


@pytest.fixture
def old(place) -> str:
    """The kept ledger of format 1 in a file, or its tables copied to a server."""
    if "://" not in place:
        shutil.copyfile(KEPT, place)
        return place
    engine, kept = sa.create_engine(place), sa.create_engine(f"sqlite:///{KEPT}")
    tables = [SETTINGS, *OLD_TABLES.sorted_tables]
    with engine.begin() as there, kept.begin() as here:
        for table in tables:
            table.create(there)
            there.execute(table.insert(), list(here.execute(sa.select(table)).mappings()))
    engine.dispose()
    kept.dispose()
    return place


def meddle(place: str, statement: str) -> None:
    engine = sa.create_engine(place if "://" in place else f"sqlite:///{place}")
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def test_every_figure_of_before_is_that_of_after_and_the_printed_head_still_stands(old):
    with open_ledger(old) as ledger:
        told = as_json(history(ledger, verify=True, printed=TOLD["audit"]["head"]))

    before = {name: TOLD[name] for name in ("runs", "series", "threshold_changes")}
    assert of_before(told, before) == before
    assert told["audit"]["entries"] == TOLD["audit"]["entries"] + 1
    assert told["audit"]["erased"] == 0


def test_once_is_enough(old):
    with open_ledger(old) as ledger:
        first = history(ledger)
    with open_ledger(old, make=True) as ledger:
        assert history(ledger, verify=True)["audit"]["entries"] == first["audit"]["entries"]


def test_who_only_looks_is_told_and_changes_nothing(old):
    with pytest.raises(UsageError, match="has format 1"):
        open_ledger(old, read_only=True)
    with open_ledger(old) as ledger:
        assert len(history(ledger)["runs"]) == len(TOLD["runs"])


def test_the_nights_go_on_where_they_were(old):
    threshold = night(4, "")
    facts = dict(threshold.facts) | {"model": "n" * 64}
    with open_ledger(old) as ledger:
        found = record_night(ledger, NightCases("k", QUESTION, "2026-01-04", ("P00001",), (), facts))

    # Flagged on the night before by the model whose threshold was changed since, and judged.
    assert found.cases["P00001"].nights > 1
    assert found.cases["P00001"].verdict is not None


def test_a_run_of_before_is_found_as_it_was(old):
    recorded = next(run for run in TOLD["runs"] if run["night"] == "2026-01-02" and run["in_force"])
    with open_ledger(old) as ledger:
        found = record_night(ledger, NightCases("2026-01-02", QUESTION, "2026-01-02", (), (), {"model": "x"}))

    assert not found.first_time
    assert found.counts == {name: recorded[name] for name in found.counts}
    assert len(found.cases) == recorded["cases"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET body = REPLACE(body, 'svm', 'lda') WHERE number = 1",
        "UPDATE audit SET digest = previous WHERE number = 1",
        "UPDATE runs SET facts = REPLACE(facts, 'svm', 'lda')",
        "UPDATE cases SET nights = 9 WHERE case_id = 'P00001'",
        "DELETE FROM cases WHERE case_id = 'P00001'",
        "UPDATE verdicts SET note = 'other' WHERE case_id = 'P00021'",
        "DELETE FROM verdicts WHERE case_id = 'P00021'",
        "INSERT INTO cases VALUES ('no run', 1, 'q', 'new', 1)",
    ],
)
def test_what_was_meddled_with_before_is_found_after(old, statement):
    meddle(old, statement)

    with pytest.raises(Unchained), open_ledger(old) as ledger:
        history(ledger, verify=True)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE contents SET body = REPLACE(body, 'svm', 'lda') WHERE entry = 1",
        "UPDATE contents SET body = NULL, salt = NULL WHERE entry = 1 AND part = 1",
        "UPDATE contents SET digest = '0' WHERE entry = 1",
        "UPDATE audit SET format = 2 WHERE number = 1",
        "UPDATE audit SET format = 1 WHERE action = 'migrate'",
    ],
)
def test_what_is_meddled_with_after_is_found(old, statement):
    with open_ledger(old):
        pass
    meddle(old, statement)

    with open_ledger(old) as ledger, pytest.raises(Unchained):
        history(ledger, verify=True)


def test_a_migration_that_is_stopped_leaves_the_ledger_as_it_was(old, monkeypatch):
    from screening.ledger import format_1

    def stopped(connection):
        raise KeyboardInterrupt

    monkeypatch.setattr(format_1, "_champions", stopped)
    with pytest.raises(KeyboardInterrupt):
        open_ledger(old)
    monkeypatch.undo()
    with open_ledger(old) as ledger:
        assert of_before(as_json(history(ledger, verify=True))["runs"], TOLD["runs"]) == TOLD["runs"]


def test_a_change_of_threshold_of_before_has_made_its_model_the_champion(old):
    with open_ledger(old) as ledger:
        with ledger.reading() as connection:
            champions = set(connection.scalars(sa.select(SERIES.c.champion)))
        record_threshold(
            ledger, {"model_before": "n" * 64, "model_after": "o" * 64, "reason": "r", "classes": []}
        )
        history(ledger, verify=True)

    assert champions == {"m" * 64, "n" * 64}


def test_the_file_says_which_format_it_is_of(tmp_path):
    path = tmp_path / "screening.db"
    shutil.copyfile(KEPT, path)
    os.chmod(path, 0o600)
    with open_ledger(path):
        pass
    connection = sqlite3.connect(path)
    numbers = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")
    ]
    connection.close()

    assert numbers == [2, 0x7363726E]


def test_a_file_whose_own_description_is_no_text_is_called_damaged(tmp_path):
    path = tmp_path / "screening.db"
    open_ledger(path, make=True).close()
    words = path.read_bytes().replace(b"screening_", b"\x81creening_")
    path.write_bytes(words.replace(b"CREATE TABLE", b"CREATE TABEL"))

    with pytest.raises(ModelError, match="the ledger is damaged"):
        open_ledger(path, read_only=True)
