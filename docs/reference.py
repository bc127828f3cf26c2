"""Write the reference of the documents and of the Python names, read off the types and
the registries.

Run by `make docs`; the pages are kept in no repository. `docs/commands.py` and
`docs/templates.py` write others beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import screening
from screening.schemas.schemas import DOCUMENTS, schema_of

FOLDER = Path(__file__).parent / "reference"
WORDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
    "null": "null",
}
FILES = {
    "model": "`model.json` in a model's directory, written by `train`, `threshold` and `forget`.",
    "run": "`run.json` in a run's directory, written by `score`.",
    "comparison": "`comparison.json`, written by `compare`.",
    "validation": "`validation.json`, written by `validate`.",
    "history": "What `screen history --json` prints.",
    "overview": "What `screen run --json` prints and hooks receive.",
}
METHODS = "fit predict decision_function predict_proba score_frame explain report plot save load factor_at"


def documents() -> str:
    """The page of every document and of the parts that they are made of."""
    schemas = {name: schema_of(name) for name in DOCUMENTS}
    parts = {
        name: part
        for schema in schemas.values()
        for name, part in schema.get("$defs", {}).items()
    }
    lines = [
        "# Documents",
        "",
        "The commands write these JSON documents. `screen schema NAME` prints the same as",
    ]
    lines += [
        "JSON Schema. Missing and unknown keys are refused when a document is read.",
        "",
    ]
    for name, schema in schemas.items():
        lines += [
            f"## {name}",
            "",
            FILES.get(name, ""),
            "",
            *described(schema),
            *fields(schema),
            "",
        ]
    lines += ["## Parts", ""]
    for name in sorted(parts):
        lines += [
            f"({anchor(name)})=",
            f"### {name}",
            "",
            *described(parts[name]),
            *fields(parts[name]),
            "",
        ]
    return "\n".join(lines)


def described(part: dict[str, Any]) -> list[str]:
    """The words of a type's docstring, its table of parameters left out."""
    words = part.get("description", "").split("\nParameters\n---")[0].strip()
    return [words, ""] if words else []


def fields(part: dict[str, Any]) -> list[str]:
    """A table of the fields of an object, or what else it is."""
    if "properties" not in part:
        return [kind(part)]
    needed = part.get("required", [])
    rows = [
        f"| `{name}` | {kind(field)} | {'' if name in needed else 'optional'} |"
        for name, field in part["properties"].items()
    ]
    return ["| key | value | presence |", "|---|---|---|", *rows]


def kind(field: dict[str, Any]) -> str:
    """What a value may be, in words, with links to parts."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{anchor(name)})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(kind(one) for one in field["anyOf"]))
    if "enum" in field or "const" in field:
        return " or ".join(
            f"`{value}`" for value in field.get("enum", [field.get("const")])
        )
    if field.get("type") == "array":
        if "prefixItems" in field:
            return "[" + ", ".join(kind(one) for one in field["prefixItems"]) + "]"
        return f"list of {kind(field.get('items', {}))}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"object of {kind(inner)}" if isinstance(inner, dict) else "object"
    return WORDS.get(field.get("type", ""), field.get("type", "anything"))


def anchor(name: str) -> str:
    return f"part-{name.lower()}"


def python() -> str:
    """The page of the public Python names, kernels, factors and remedies."""
    from screening.estimators.remedies import REMEDIES
    from screening.factors import FACTORS
    from screening.kernels import KERNELS
    from screening.store.model import Model

    public = [
        getattr(screening, name)
        for name in sorted(screening.__all__)
        if not name.startswith("_")
    ]
    groups = {
        "The flow": [
            one for one in public if not hasattr(one, "fit") or one is screening.Screen
        ],
        "What `train` and `load_model` return": [Model],
        "Machines": [
            one for one in public if hasattr(one, "fit") and one is not screening.Screen
        ],
        "Kernels": list(KERNELS.values()),
        "Factors": list(FACTORS.values()),
        "Remedies": list(REMEDIES.values()),
    }
    lines = [
        "# Python names",
        "",
        "This page shows the docstrings. [How to use them together](../python.md).",
        "",
    ]
    for title, members in groups.items():
        lines += [
            f"## {title}",
            "",
            "```{eval-rst}",
            *(line for one in members for line in entry(one)),
            "```",
            "",
        ]
    return "\n".join(lines)


def entry(one: Any) -> list[str]:
    home = "screening" if one.__name__ in screening.__all__ else one.__module__
    if not isinstance(one, type):
        return [f".. autofunction:: {home}.{one.__name__}", ""]
    methods = ", ".join(name for name in METHODS.split() if name in vars(one))
    return [
        f".. autoclass:: {home}.{one.__name__}",
        *([f"   :members: {methods}"] if methods else []),
        "",
    ]


def pages() -> dict[str, str]:
    """Text of every page, by the name of its file."""
    return {"documents.md": documents(), "python.md": python()}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
