"""How much is tried: a little in every test run, all by `make faults`, which goes on
where it was stopped.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LONG = os.environ.get("FAULTS") == "long"


def attempts(attack: str, quick: int, long: int) -> Iterator[int]:
    """Numbers of the attempts that are still to be made; one that ended well is noted
    (`FAULTS_LOG`).

    `FAULTS_SCALE` multiplies the long number.
    """
    scale = float(os.environ.get("FAULTS_SCALE", "1"))
    n = round(long * scale) if LONG else quick
    for at in range(noted()[attack], n):
        yield at
        counted(attack)


def repeats(quick: int, long: int) -> range:
    """Numbers of the samples that a test draws: `make faults` draws all of them.

    A test that asks has the mark `repeated`.
    """
    return range(long if LONG else quick)


def examples(quick: int, long: int) -> int:
    """Return the number of examples of a property: `make faults` tries all of them.

    A test that asks has the mark `repeated`.
    """
    return long if LONG else quick


def counted(attack: str, n: int = 1) -> None:
    """Note what was tried without a bad end, where `make faults` collects it."""
    log = os.environ.get("FAULTS_LOG")
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            note = json.dumps({"attack": attack, "tried": n})
            file.write(note + "\n")


def noted() -> Counter[str]:
    """How often each attack was tried so far."""
    log = Path(os.environ.get("FAULTS_LOG", os.devnull))
    tried = Counter[str]()
    if not log.exists():
        return tried
    for line in log.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        tried[note["attack"]] += note["tried"]
    return tried


if __name__ == "__main__":
    os.environ["FAULTS_LOG"] = sys.argv[1]
    for attack, n in sorted(noted().items()):
        print(f"{n:8,}  {attack}")
