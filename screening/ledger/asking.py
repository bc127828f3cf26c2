"""Asking the ledger's tables for much: some at a time, and what the trail's entries say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa

from screening.ledger.audit import OPEN
from screening.ledger.tables import AUDIT, CONTENTS

AT_ONCE = 500
"""Rows asked for, or names given, in one statement: years of nights need little memory then."""

Each = TypeVar("Each")


def portions(values: Sequence[Each]) -> Iterator[Sequence[Each]]:
    """The values in their order, some at a time."""
    return (values[first : first + AT_ONCE] for first in range(0, len(values), AT_ONCE))


def stretches(connection: sa.Connection) -> Iterator[tuple[int, int]]:
    """First and last number of the trail's entries, some at a time."""
    last = connection.scalar(sa.select(sa.func.max(AUDIT.c.number))) or 0
    return ((first, first + AT_ONCE - 1) for first in range(1, last + 1, AT_ONCE))


def said(connection: sa.Connection, *actions: str) -> Iterator[dict[str, object]]:
    """What the entries of these actions say without naming a patient, in order, with number and time."""
    asked = sa.select(AUDIT.c.number, AUDIT.c.recorded, CONTENTS.c.body)
    asked = asked.join(CONTENTS, (CONTENTS.c.entry == AUDIT.c.number) & (CONTENTS.c.part == OPEN))
    asked = asked.where(AUDIT.c.action.in_(actions), CONTENTS.c.body.is_not(None))
    for row in connection.execute(asked.order_by(AUDIT.c.number)):
        yield json.loads(row.body) | {"entry": row.number, "recorded": row.recorded}
