"""Models, runs and ledgers from before the first release are refused by name, and nothing is touched."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from commands import screen
from faults.desk import content
from flow_cohorts import patients, written

from screening import score
from screening.errors import ModelError
from screening.ledger.database import SETTINGS, open_ledger
from screening.store.loading import load_model
from screening.store.serialization import canonical


def as_before(document: Path, number: int = 4) -> None:
    """Give a document the key and the number that it had before the first release."""
    content = json.loads(document.read_bytes())
    content.pop("format_version", None)
    document.write_bytes(canonical(content | {"format": number}))


@pytest.fixture(scope="module")
def made(logistic_model, tmp_path_factory):
    """A model and a run as an earlier version left them, a table, and a ledger of today with a night."""
    folder = tmp_path_factory.mktemp("made")
    tonight = written(patients(60, seed=1).drop(columns="ill"), folder / "tonight.csv")
    with open_ledger(folder / "ledger.db", make=True) as ledger:
        score(load_model(logistic_model), tonight, folder / "run", ledger=ledger)
    (folder / "model").mkdir()
    (folder / "model" / "model.json").write_bytes((logistic_model / "model.json").read_bytes())
    as_before(folder / "model" / "model.json")
    as_before(folder / "run" / "run.json")
    (folder / "verdicts.json").write_text("{}")
    return folder


COMMANDS = {
    "score": ("score", "model", "tonight.csv", "--out", "new", "--ledger", "ledger.db"),
    "threshold": ("threshold", "model", "--g-mean", "--reason", "tried", "--ledger", "new.db"),
    "report of a run": ("report", "run"),
    "review": ("review", "run", "verdicts.json", "--ledger", "ledger.db"),
    "export": ("export", "run", "--to", "csv", "--out", "new.csv"),
    "promote": ("promote", "model", "--series", "s", "--reason", "tried", "--ledger", "ledger.db"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_model_or_run_of_before_is_refused_and_nothing_is_made_or_changed(made, monkeypatch, words):
    monkeypatch.chdir(made)
    before = content(made)

    refused = screen(*words, code=4)

    assert "was made by a version before the first release; " in refused.stderr
    assert content(made) == before


@pytest.mark.parametrize("how", [{"make": True}, {"read_only": True}])
def test_a_ledger_of_before_is_refused_and_left_as_it_is(place, how):
    with open_ledger(place, make=True) as ledger, ledger.writing() as connection:
        connection.execute(SETTINGS.update().values(name="format", value="2"))
    engine = sa.create_engine(place if "://" in place else f"sqlite:///{place}")

    with pytest.raises(ModelError, match="made by a version before the first release; begin a new one"):
        open_ledger(place, **how)

    with engine.connect() as connection:
        assert connection.execute(sa.select(SETTINGS)).all() == [("format", "2")]
    engine.dispose()
