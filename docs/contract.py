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
so that every night is read by the same rules. Unknown keys are refused. Written by
`python docs/contract.py`.
"""
PARTS = (
    (
        "`[cohort]`",
        Contract,
        "Roles of columns, and settings of the whole table.",
    ),
    (
        "`[outcome]`",
        OutcomeDefinition,
        "Events that make a row a case, for `screen outcomes`.",
    ),
    (
        "`[score]`",
        ScorePerUnit,
        "Row that counts if a unit, such as a stay, has several.",
    ),
    (
        "`[features.NAME]`",
        Feature,
        "One table per feature, in the order of the encoded columns.",
    ),
)
TYPES = {
    "number": "number",
    "integer": "whole number",
    "array": "list of texts",
    "object": "table of texts",
    "string": "text",
    "boolean": "`true` or `false`",
}
BOUNDS = {
    "exclusiveMinimum": "over",
    "minimum": "from",
    "exclusiveMaximum": "under",
    "maximum": "to",
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
        default = ", needed" if name in schema.get("required", ()) else ""
        if declared.get("default") not in (None, []):
            default = f"; default `{toml_text(declared['default'])}`"
        meaning = " ".join(declared["description"].split())
        cells = (f"`{name}`", _kind(declared) + default, meaning)
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
        return "day such as 2030-01-31"
    if values := chosen.get("enum"):
        return " or ".join(f"`{toml_text(value)}`" for value in values)
    if numbers := chosen.get("prefixItems"):
        return f"{len(numbers)} numbers"
    bounds = [
        f"{word} {chosen[bound]:g}" for bound, word in BOUNDS.items() if bound in chosen
    ]
    return " ".join([TYPES[chosen["type"]], *bounds])


def main() -> None:
    """Write the page."""
    (Path(__file__).parent / "contract.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
