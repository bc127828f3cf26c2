"""Models, runs and ledgers from before the first release are refused by name, and nothing is touched."""

import json

import pytest
import sqlalchemy as sa
from commands import screen
from faults.desk import content, laid

from screening.errors import ModelError
from screening.ledger.database import SETTINGS, open_ledger
from screening.store.serialization import canonical


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model and a run with the key and the number of before; table, verdicts and ledger are of today."""
    folder = laid(tmp_path_factory.mktemp("made"))
    for document in (folder / "model" / "model.json", folder / "run" / "run.json"):
        content = json.loads(document.read_bytes())
        del content["format_version"]
        document.write_bytes(canonical(content | {"format": 4}))
    return folder


COMMANDS = {
    "score": ("score", "model", "tonight.csv", "--out", "new", "--ledger", "screening.db"),
    "threshold": ("threshold", "model", "--g-mean", "--reason", "tried", "--ledger", "new.db"),
    "report of a run": ("report", "run"),
    "review": ("review", "run", "verdicts.json", "--ledger", "screening.db"),
    "export": ("export", "run", "--to", "csv", "--out", "new.csv"),
    "promote": ("promote", "model", "--series", "s", "--reason", "tried", "--ledger", "screening.db"),
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
