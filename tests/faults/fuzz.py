"""Malformed inputs through whole commands for as long as is asked: no traceback, no
hang.

`python tests/faults/fuzz.py --minutes 10` makes its inputs by hypothesis from valid
ones (table, contract, recipe, verdicts, run.json, ledger) and runs the command that
reads each in this process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.amounts import counted
from faults.desk import laid
from screening.cli import app

LONGEST_SECONDS = 60
PIECES = (
    b"",
    b"\0",
    b"\xff\xfe",
    b'"',
    b";",
    b",",
    b"\n",
    b"\r",
    b"=",
    b"[",
    b"{",
    b"]]",
    b"1e999",
    b"NaN",
    b"-1",
)
MORE = (
    b"99999999999999999999",
    b'"\\ud83d"',
    "\u202e\U0001f600".encode(),
    b"null",
    b"true",
    b"\x1f\x8b",
    b"PAR1",
)


class Hang(BaseException):
    """Longer than any command may take; no error of the system, which the tool would
    answer itself.
    """


def _hang(*_: object) -> None:
    raise Hang


@st.composite
def damage(draw, content: bytes) -> bytes:
    """A valid file with pieces put in, cut out or doubled."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        last = min(len(content), at + 40)
        end = draw(st.integers(at, last))
        piece = draw(
            st.sampled_from(PIECES + MORE)
            | st.binary(max_size=6)
            | st.just(content[at:end] * 2)
        )
        content = content[:at] + piece + content[end:]
    return content


WRITTEN = "ledgers, written"
KEPT = "kept.db"


def attacks(desk: Path, broken: Path) -> dict[str, tuple[Path, list[object]]]:
    """By kind: the valid file, and the command that reads the broken one."""
    recipe = Path(__file__).parents[2] / "models" / "logistic.toml"
    run = desk / "run"
    verdicts = desk / "verdicts.json"
    ledger = desk / "screening.db"
    return {
        "tables": (desk / "tonight.csv", ["check", broken, "--model", desk / "model"]),
        "contracts": (
            desk / "contract.toml",
            ["check", desk / "tonight.csv", "--contract", broken],
        ),
        "recipes": (recipe, ["recipes", broken]),
        "verdicts": (verdicts, ["review", run, broken, "--ledger", ledger]),
        "runs": (run / "run.json", ["report", broken.parent / "run"]),
        "ledgers": (ledger, ["history", "--verify", "--ledger", broken]),
        # At its own place: a ledger elsewhere is a copy, and takes no verdicts.
        WRITTEN: (desk / KEPT, ["review", run, verdicts, "--ledger", ledger]),
    }


def main() -> None:
    """Fuzz every kind in turn until the time is over; say what was tried, keep an input
    of each bad end.
    """
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=10)
    until = time.monotonic() + 60 * options.parse_args().minutes
    desk = laid(Path(tempfile.mkdtemp(prefix="fuzz")))
    shutil.copy(desk / "screening.db", desk / KEPT)
    command = get_command(app)  # made once: that takes longer than most attacks
    tried = Counter[str]()
    bad = Counter[str]()

    def run(words: list[object]) -> None:
        with (
            redirect_stdout(StringIO()),
            redirect_stderr(StringIO()),
            suppress(SystemExit),
        ):
            command.main([str(word) for word in words], prog_name="screen")

    run(["init", desk / "past.csv", "--out", desk / "contract.toml"])
    signal.signal(signal.SIGALRM, _hang)

    def attempt(kind: str, content: bytes) -> None:
        names = {
            "contracts": "broken.toml",
            "recipes": "broken.toml",
            "runs": "run/run.json",
        }
        folder = Path(tempfile.mkdtemp(dir=desk))
        place = folder / names.get(kind, "broken")
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        if kind == WRITTEN:
            (desk / "screening.db").write_bytes(content)
        broken = place.parents[1] / "broken" if kind == "runs" else place
        signal.alarm(LONGEST_SECONDS)
        try:
            run(attacks(desk, broken)[kind][1])
        except (Exception, Hang) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{kind}: {type(error).__name__} at {place.filename}:{place.lineno}"
            if found not in bad:
                Path(f"bad-{kind}-{len(bad)}").write_bytes(content)
                traceback.print_exc()
            bad[found] += 1
        finally:
            signal.alarm(0)
        shutil.rmtree(broken.parent)
        shutil.copy(desk / KEPT, desk / "screening.db")
        tried[kind] += 1

    fifty = settings(
        max_examples=50,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    while time.monotonic() < until:
        for kind, (valid, _) in attacks(desk, desk / "broken.toml").items():
            damaged = damage(valid.read_bytes())
            attack = given(st.just(kind), damaged)(attempt)
            fifty(attack)()
    shutil.rmtree(desk)
    for kind, n in tried.items():
        counted(f"fuzzed {kind}", n)
    print(json.dumps({"tried": tried, "bad": bad}))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
