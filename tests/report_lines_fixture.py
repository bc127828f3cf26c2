"""A night with more flagged rows than are explained."""

from __future__ import annotations

from typing import Any

from report_fixture import nosocomial_run


def with_lines(n: int = 12, rows: int = 240) -> dict[str, Any]:
    """A night whose last `n` flagged have no reasons: they are listed on a line each."""
    run = nosocomial_run(rows)
    for case in run["cases"][-n:]:
        del case["contributions"]
    return run
