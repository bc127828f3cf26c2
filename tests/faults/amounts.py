"""How much is tried: a little in every test run, all of it by `make faults`."""

from __future__ import annotations

import json
import os
from pathlib import Path

LONG = os.environ.get("FAULTS") == "long"


def tries(quick: int, long: int) -> int:
    """The number for this run; `FAULTS_SCALE` multiplies the long one."""
    return round(long * float(os.environ.get("FAULTS_SCALE", "1"))) if LONG else quick


def counted(attack: str, n: int) -> None:
    """Note what was tried without a bad end, where `make faults` collects it (`FAULTS_LOG`)."""
    log = os.environ.get("FAULTS_LOG")
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"attack": attack, "tried": n, "bad": 0}) + "\n")
