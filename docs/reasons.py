"""Write the table of reasons for attention from their registry.

Run `python docs/reasons.py` after changing a reason; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from screening.schemas.reasons import REASONS

BRACES = re.compile(r"\{(\w+)[^}]*\}")
HEAD = """# Reasons for attention

A reason says why a model or a night needs attention. It is decided once, when the model
or the run is created, and stored as `attention` in `model.json` or `run.json` with
`code`, `words`, `column`, `figure`, `threshold`, `remedy` and `since`, the night since
when a reason stands (it then rings no more: `--strict` ignores it); page, `--json`,
`--strict`, ledger, `history` and `status` read that list. A reason that stops a night ends the
command with exit code 3, and yesterday's page stays in place. Written by
`python docs/reasons.py` from `screening/schemas/reasons.py`.

| code | when | on | remedy |
|---|---|---|---|
"""


def reference() -> str:
    """Return the page of all reasons."""
    lines = []
    for kind in REASONS.values():
        arises_in = kind.arises_in
        if kind.stops:
            arises_in += "; stops it"
        remedy = BRACES.sub(lambda fact: fact[1].upper(), kind.remedy)
        if remedy == "REMEDY":
            remedy = "named with the reason"
        cells = (f"`{kind.code}`", kind.when, arises_in, remedy.replace("|", "\\|"))
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    page = Path(__file__).parent / "reasons.md"
    page.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
