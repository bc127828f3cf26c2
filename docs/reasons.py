"""Write the table of reasons for attention from their registry.

Run `python docs/reasons.py` after changing a reason; a test compares.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from screening.schemas.reasons import REASONS, ReasonKind

BRACES = re.compile(r"\{(\w+)[^}]*\}")
MAX_REPEATED = 30
"""Characters of a remedy that several rows of the table may repeat."""
HEAD = """# Reasons for attention

A reason says why a model or a night needs attention. It is decided once, when the model
or the run is created, and stored under `attention` in `model.json` or `run.json`. The
page, `--json`, `--strict`, ledger, `history` and `status` read that list. A reason that
stops a night ends the command with exit code 3, and yesterday's page stays in place.

The keys of a reason are `code`, `words`, `column`, `figure`, `threshold`, `remedy` and
`since`, the night since when it [stands](page.md#what-needs-attention). Remedies with a
number follow the table. Written by `python docs/reasons.py` from
`screening/schemas/reasons.py`.

| code | when | on | remedy |
|---|---|---|---|
"""


def remedy_of(kind: ReasonKind) -> str:
    """Return the remedy of a reason, its facts in capitals."""
    remedy = BRACES.sub(lambda fact: fact[1].upper(), kind.remedy)
    if remedy == "REMEDY":
        return "named with the reason"
    return remedy.replace("|", "\\|")


def reference() -> str:
    """Return the page of all reasons; remedies of several reasons stand once, below."""
    counts = Counter(map(remedy_of, REASONS.values()))
    shared = [text for text, n in counts.items() if n > 1 and len(text) > MAX_REPEATED]
    lines = []
    for kind in REASONS.values():
        arises_in = kind.arises_in
        if kind.stops:
            arises_in += "; stops it"
        remedy = remedy_of(kind)
        if remedy in shared:
            remedy = f"({shared.index(remedy) + 1})"
        cells = (f"`{kind.code}`", kind.when, arises_in, remedy)
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- ({number}) {text}" for number, text in enumerate(shared, 1)]
    return HEAD + "\n".join([*lines, "", *notes]) + "\n"


def main() -> None:
    """Write the page."""
    page = Path(__file__).parent / "reasons.md"
    page.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
