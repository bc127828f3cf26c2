"""What the ledger holds; the same tables in a SQLite file and on a PostgreSQL server.

`audit` is the chain: an entry holds the digest of the one before it, and vouches for its contents by salted
digests. `contents` holds what the entries say, in parts: part 0 names no patient, part 1 does where there is
one. A run's part 0 is key, series, night and facts, its part 1 the cases, lots, verdicts shown and hashes of
patients; a verdict's part 0 is run, night and word, its part 1 id, site, initials and note, its part 2 the
user who entered it and the digest of the reviewer's token, where they are known; a change of
threshold or champion has part 0 alone. A part can be written anew without one patient, or erased (salt and
body null), by an entry `forget` or `purge` that names it (`audit.rewrite`); then the chain still holds.
`runs`, `cases` and `verdicts` hold the same for asking; `--verify` compares them with the contents.
Patients are named in `cases`, `verdicts` and part 1 of contents, and nowhere else; `drift.who` of a run's
part 1 holds keyed hashes of them (`screening.cohort.id_hash.keyed_lots`, by the digest of the run's model).
"""

from __future__ import annotations

import sqlalchemy as sa

from screening.errors import ModelError

FORMAT_VERSION = "1"
"""Of these tables, under this name in the settings; a ledger from before the first release has `format`."""

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

SERIES = sa.Table(
    "series",
    TABLES,
    sa.Column("series", sa.String(64), primary_key=True),
    # Digest of the model whose nights are in force, and the entry that made it so.
    sa.Column("champion", sa.String(64), nullable=False),
    sa.Column("since", sa.Integer, nullable=False),
)

RUNS = sa.Table(
    "runs",
    TABLES,
    # The audit entry that vouches for this row; of two runs of a night the later entry is in force.
    sa.Column("entry", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("series", sa.String(64), nullable=False),
    sa.Column("night", sa.String(10), nullable=False),
    sa.Column("model", sa.String(64), nullable=False),
    # Scored beside the champion and shown to nobody: never in force.
    sa.Column("shadow", sa.Boolean, nullable=False),
    # False until the run directory stands: a night whose page nobody could see is no night to remember.
    sa.Column("published", sa.Boolean, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.UniqueConstraint("key", "revision"),
    sa.Index("runs_by_series", "series", "night"),
)

CASES = sa.Table(
    "cases",
    TABLES,
    sa.Column("entry", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("case_id", sa.Text, primary_key=True),
    # Null: not flagged, but drawn at random for review.
    sa.Column("state", sa.String(10), nullable=True),
    sa.Column("nights", sa.Integer, nullable=False),
    # Flagged and new, and marked by lot for review.
    sa.Column("drawn", sa.Boolean, nullable=False),
)

REVIEWS = sa.Table(
    "verdicts",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    sa.Column("entry", sa.Integer, nullable=False, unique=True),
    sa.Column("series", sa.String(64), nullable=False),
    sa.Column("night", sa.String(10), nullable=False),
    sa.Column("verdict", sa.String(10), nullable=False),
    sa.Column("flagged", sa.Boolean, nullable=False),
    sa.Column("site", sa.Text, nullable=False),
    sa.Column("initials", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    # Its cases too: of one patient's verdicts only these are read, however many years there are.
    sa.Index("verdicts_by_case", "series", "case_id"),
)

AUDIT = sa.Table(
    "audit",
    TABLES,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("recorded", sa.String(32), nullable=False),
    sa.Column("action", sa.String(20), nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Index("audit_by_action", "action", "number"),
)

CONTENTS = sa.Table(
    "contents",
    TABLES,
    sa.Column("entry", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("salt", sa.String(32), nullable=True),
    sa.Column("body", sa.Text, nullable=True),
    # As the chain has it: of the part as it was first written.
    sa.Column("digest", sa.String(64), nullable=False),
)
