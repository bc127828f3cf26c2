"""Write the table of reasons for attention from their registry.

Run `python docs/reasons.py` after changing a reason; a test compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from screening.schemas.reasons import (
    MODEL,
    MODEL_AND_NIGHTS,
    NIGHT,
    NIGHT_WITH_LEDGER,
    REASONS,
    ReasonKind,
)

BRACES = re.compile(r"\{(\w+)[^}]*\}")
MAX_REPEATED = 30
"""Characters of a remedy that several rows of the table may repeat."""
HEAD = """# Reasons for attention

A reason states why a model or a night needs attention. The command that creates the
model or the run decides it once, and stores it under `attention` in `model.json` or
`run.json`. The page, `--json`, `--strict`, the ledger, `history` and `status` read that
list. A reason that stops a night ends the command with exit code 3. Yesterday's page
then stays in place.

The keys of a reason are `code`, `words`, `column`, `figure`, `threshold`, `remedy` and
`since`, the first night of a [lasting](page.md#what-needs-attention) reason. Remedies
with a number follow the tables. `python docs/reasons.py` writes this page from
`screening/schemas/reasons.py`.
"""
TITLES = {
    MODEL_AND_NIGHTS: "Model and every night",
    MODEL: "Model only",
    NIGHT: "Night",
    NIGHT_WITH_LEDGER: "Night, with a ledger",
}


def remedy_of(kind: ReasonKind) -> str:
    """Return the remedy of a reason, its facts in capitals."""
    # Options begin with a blank of their own.
    text = kind.remedy.replace("{options}", " {options}")
    remedy = BRACES.sub(lambda fact: fact[1].upper(), text)
    if remedy == "REMEDY":
        return "given with the reason"
    return remedy.replace("|", "\\|")


def reference() -> str:
    """Return the page of all reasons, in a table for each place where they arise.

    The remedies of several reasons follow the tables.
    """
    kinds = REASONS.values()
    counts = Counter(map(remedy_of, kinds))
    shared = [text for text, n in counts.items() if n > 1 and len(text) > MAX_REPEATED]
    parts = [HEAD]
    for place in dict.fromkeys(kind.arises_in for kind in kinds):
        parts += [
            f"## {TITLES.get(place, place)}",
            "",
            "| code | when | remedy |",
            "|---|---|---|",
            *(_row(kind, shared) for kind in kinds if kind.arises_in == place),
            "",
        ]
    notes = [f"- ({number}) {text}" for number, text in enumerate(shared, 1)]
    return "\n".join([*parts, "## Remedies of several reasons", "", *notes]) + "\n"


def _row(kind: ReasonKind, shared: Sequence[str]) -> str:
    """Return the line of a reason."""
    when = f"{kind.when} (**stops the night**)" if kind.stops else kind.when
    remedy = remedy_of(kind)
    if remedy in shared:
        remedy = f"({shared.index(remedy) + 1})"
    return f"| `{kind.code}` | {when} | {remedy} |"


def main() -> None:
    """Write the page."""
    page = Path(__file__).parent / "reasons.md"
    page.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
