"""Write the JSON Schema of every document into `docs/schemas/`.

Run `python docs/schemas.py` after changing a document's type; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "schemas"


def texts() -> dict[str, str]:
    """The text of each schema, by the name of its file."""
    from screening.schemas.schemas import DOCUMENTS, schema_of

    return {
        f"{name}.json": json.dumps(schema_of(name), indent=1, sort_keys=True) + "\n"
        for name in DOCUMENTS
    }


if __name__ == "__main__":
    from screening.registry import refuse_plugins

    refuse_plugins()
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
