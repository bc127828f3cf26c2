"""Write the table of reasons for attention from their registry.

Run `python docs/reasons.py` after changing a reason; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from screening.registry import refuse_plugins
from screening.schemas.reasons import (
    MODEL,
    MODEL_AND_NIGHTS,
    NIGHT,
    NIGHT_WITH_LEDGER,
    REASONS,
    ReasonKind,
)

HEAD = """# Reasons for attention

A reason states why a model or a night needs attention and, in most cases, what to type.
Reasons are stored under `attention` in `model.json` or `run.json`. If a reason stops a
night, the command exits with 3, and yesterday's page stays in place.

The keys of a reason are `code`, `words`, `column`, `figure`, `threshold`, `remedy` and
`since`, the first night of a [standing](page.md#what-needs-attention) reason.
`python docs/reasons.py` writes this page from `screening/schemas/reasons.py`.
"""
TITLES = {
    MODEL_AND_NIGHTS: "Model and every night",
    MODEL: "Model only",
    NIGHT: "Night",
    NIGHT_WITH_LEDGER: "Night, with a ledger",
}


def reference() -> str:
    """Return the page of all reasons, in a table for each place where they arise."""
    kinds = REASONS.values()
    parts = [HEAD]
    for place in dict.fromkeys(kind.arises_in for kind in kinds):
        parts += [
            f"## {TITLES.get(place, place)}",
            "",
            "| code | when |",
            "|---|---|",
            *(_row(kind) for kind in kinds if kind.arises_in == place),
            "",
        ]
    return "\n".join(parts)


def _row(kind: ReasonKind) -> str:
    """Return the line of a reason."""
    when = f"{kind.when} (**stops the night**)" if kind.stops else kind.when
    return f"| `{kind.code}` | {when} |"


def main() -> None:
    """Write the page."""
    refuse_plugins()
    page = Path(__file__).parent / "reasons.md"
    page.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
