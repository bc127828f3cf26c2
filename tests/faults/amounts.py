"""How much is tried: a little in every test run, all of it by `make faults`."""

from __future__ import annotations

import os

LONG = os.environ.get("FAULTS") == "long"


def tries(quick: int, long: int) -> int:
    """The number for this run; `FAULTS_SCALE` multiplies the long one."""
    return round(long * float(os.environ.get("FAULTS_SCALE", "1"))) if LONG else quick
