"""Entries of the trail, verdicts and ledgers that a site meets rarely."""

import json
from types import SimpleNamespace

import pytest

from screening import open_ledger
from screening.errors import ModelError, UsageError
from screening.ledger import verdicts
from screening.ledger.entries import facts_in
from screening.ledger.standing import has_grown
from screening.ledger.trail import Part, Unchained, part_in, plain
from screening.schemas.reasons import COLUMN_DRIFTS
from screening.scoring.expected import curve_of

ROW = {"entry": 7, "what": "facts", "facts": "{}", "names": '["a"]', "salts": b"0" * 16}


def row(**changes):
    """Return a row of the trail's table."""
    return SimpleNamespace(**ROW | {"gone": "{}"} | changes)


@pytest.mark.parametrize(
    "damage",
    [
        {"names": '{"a": 1}'},
        {"names": "[1]"},
        {"salts": "text"},
        {"salts": b"short"},
        {"gone": "[]"},
        {"gone": '{"0": "no digest"}'},
        {"facts": "{"},
        {"facts": "NaN"},
    ],
    ids=str,
)
def test_damaged_part_named(damage):
    """A part whose names, salts, digests or facts are damaged is named by its entry."""
    with pytest.raises(Unchained, match="entry 7"):
        part_in(row(**damage))


def test_half_a_character_in_trail():
    """A name in no known encoding is kept as its escape."""
    assert json.loads(plain(["\ud800"])) == ["\ud800"]
    assert plain(["\ud800"]).isascii()


@pytest.mark.parametrize(
    "parts",
    [[], [Part("facts", ["a list"], [], b"", {})], [Part("facts", {}, [], b"", {})]],
    ids=["no part", "no facts", "unknown kind"],
)
def test_entry_of_unknown_kind(parts):
    """An entry that this version does not know is refused with its number."""
    entry = SimpleNamespace(number=3, kind="of another version", parts=parts)

    with pytest.raises(ModelError, match=r"entry 3 .* is of an unknown kind"):
        facts_in(entry)


@pytest.mark.parametrize(
    ("code", "figure", "earlier"),
    [
        ("of_another_version", 9.0, 1.0),
        (COLUMN_DRIFTS.code, None, 1.0),
        (COLUMN_DRIFTS.code, 9.0, None),
    ],
)
def test_reason_without_size_does_not_grow(code, figure, earlier):
    """A reason that is unknown, or lacks a figure on a night, has not grown."""
    assert not has_grown(SimpleNamespace(code=code, figure=figure), earlier)


def test_reviewer_without_account(monkeypatch):
    """A process whose user has no account enters its number."""
    monkeypatch.setattr(verdicts.os, "getuid", lambda: 2**31 - 5)

    assert verdicts._user() == str(2**31 - 5)


def test_ledger_of_another_database():
    """A database that cannot be a ledger is refused before it is asked."""
    with pytest.raises(UsageError, match="a ledger is a file or a PostgreSQL database"):
        open_ledger("mysql://host/database")


def test_chances_of_several_classes():
    """Expected cases are of one class and the rest: several have no single curve."""
    assert curve_of(SimpleNamespace(watched=("a", "b"))) is None
