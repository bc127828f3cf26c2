"""What the ledger holds; the same tables in a SQLite file and on a PostgreSQL server."""

from __future__ import annotations

import sqlalchemy as sa

from screening.errors import ModelError

FORMAT = "1"
VERDICTS = ("confirmed", "not", "unsure", "known")
"""What a reviewer may say: has the condition; has not; cannot tell; has it, and that was known already."""

STATES = ("new", "ongoing", "reviewed", "known")
"""Of a flagged case; each is counted by itself, and together they are the cases of a night."""


class Unchained(ModelError):
    """The audit trail, or a row it vouches for, is not as it was written (exit code 4)."""


TABLES = sa.MetaData()

SETTINGS = sa.Table(
    "screening_ledger",
    TABLES,
    sa.Column("name", sa.String(20), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

RUNS = sa.Table(
    "runs",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("series", sa.String(64), nullable=False),
    sa.Column("night", sa.String(10), nullable=False),
    # The audit entry that vouches for this row; of two runs of a night the later entry is in force.
    sa.Column("entry", sa.Integer, nullable=False, unique=True),
    # False until the run directory stands: a night whose page nobody could see is no night to remember.
    sa.Column("published", sa.Boolean, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Index("runs_by_night", "series", "night"),
)

CASES = sa.Table(
    "cases",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    # Null: not flagged, but drawn at random for review.
    sa.Column("state", sa.String(10), nullable=True),
    sa.Column("nights", sa.Integer, nullable=False),
)

REVIEWS = sa.Table(
    "verdicts",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    sa.Column("series", sa.String(64), nullable=False, index=True),
    sa.Column("night", sa.String(10), nullable=False),
    sa.Column("verdict", sa.String(10), nullable=False),
    sa.Column("flagged", sa.Boolean, nullable=False),
    sa.Column("site", sa.Text, nullable=False),
    sa.Column("initials", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)

AUDIT = sa.Table(
    "audit",
    TABLES,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("recorded", sa.String(32), nullable=False),
    sa.Column("action", sa.String(20), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
)
