"""Write the reference of a contract's keys from the types themselves.

Run `python docs/contract.py` after changing a key; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from screening.contract.contract import Contract, Feature, Key, keys_of

HEAD = """# The contract

A TOML file that says what a cohort's table must look like. `screen init past.csv --out cohort.toml` writes
one; `screen check` holds a table against it; `train` keeps it in the model, and every night is
read by it. A key that is not listed here is refused. Written by `python docs/contract.py` from the types.
"""
PARTS = (
    ("`[cohort]`", Contract, "Roles of the columns, and what holds for the whole table."),
    (
        "`[features.NAME]`",
        Feature,
        "One table a column that the model reads, in the order of the encoded columns.",
    ),
)


def reference() -> str:
    """The page of all keys."""
    lines = [HEAD]
    for title, model, about in PARTS:
        lines += [f"## {title}", "", about, "", "| key | value | meaning |", "|---|---|---|"]
        lines += [_row(key) for key in keys_of(model)]
        lines.append("")
    return "\n".join(lines)


def _row(key: Key) -> str:
    default = ", needed" if key.required else f"; default `{key.default}`" if key.default else ""
    cells = (f"`{key.name}`", key.kind + default, key.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Write the page."""
    (Path(__file__).parent / "contract.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
