"""Write the reference of a contract's keys from the types themselves.

Run `python docs/contract.py` after changing a key; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue

from screening.contract.contract import (
    Contract,
    Feature,
    OutcomeDefinition,
    ScorePerUnit,
    toml_text,
)

HEAD = """# The contract

A contract is a TOML file that describes the table of a cohort. `screen init` writes
one, and `screen check` compares a table with it. `screen train` stores it in the model,
so that every night is read by the same rules. Unknown keys are refused.
`python docs/contract.py` writes this page.
"""
PARTS = (
    (
        "`[cohort]`",
        Contract,
        "Roles of columns, and settings of the table.",
    ),
    (
        "`[outcome]`",
        OutcomeDefinition,
        "Which events make a row a case, for `screen outcomes`.",
    ),
    (
        "`[score]`",
        ScorePerUnit,
        "Which row counts if a unit, such as a stay, has several.",
    ),
    (
        "`[features.NAME]`",
        Feature,
        "One table per feature, in the order of the encoded columns.",
    ),
)
TYPES = {
    "number": "number",
    "integer": "integer",
    "array": "list",
    "object": "table",
    "string": "text",
    "boolean": "boolean",
}
BOUNDS = {
    "exclusiveMinimum": ">",
    "minimum": "≥",
    "exclusiveMaximum": "<",
    "maximum": "≤",
}


def reference() -> str:
    """The page of all keys."""
    lines = [HEAD]
    for title, model, about in PARTS:
        lines += [
            f"## {title}",
            "",
            about,
            "",
            "| key | value | meaning |",
            "|---|---|---|",
        ]
        lines += [*rows(model), ""]
    return "\n".join(lines)


def rows(model: type[BaseModel]) -> list[str]:
    """A line for each key, in the order of the type; tables within it are none of
    them.
    """
    schema = model.model_json_schema()
    lines = []
    for name, declared in schema["properties"].items():
        if name in ("features", "outcome", "per_unit"):
            continue
        value = _kind(declared)
        default = declared.get("default")
        if name in schema.get("required", ()):
            value += ", required"
        elif default not in (None, []):
            mark = f"`{toml_text(default)}`"
            known = f"{mark} (default)"
            value = value.replace(mark, known) if mark in value else f"{value}; {known}"
        meaning = " ".join(declared["description"].split())
        cells = (f"`{name}`", value, meaning)
        lines.append(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        )
    return lines


def _kind(declared: JsonSchemaValue) -> str:
    """The type of a key that is set, in words."""
    chosen = next(
        kind for kind in declared.get("anyOf", [declared]) if kind.get("type") != "null"
    )
    if chosen.get("format") == "date":
        return "date, 2030-01-31"
    if values := chosen.get("enum"):
        return ", ".join(f"`{toml_text(value)}`" for value in values)
    if numbers := chosen.get("prefixItems"):
        return f"{len(numbers)} numbers"
    bounds = [
        f"{word}{chosen[bound]:g}" for bound, word in BOUNDS.items() if bound in chosen
    ]
    return " ".join([TYPES[chosen["type"]], *bounds])


def main() -> None:
    """Write the page."""
    (Path(__file__).parent / "contract.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
