"""Another model in the place where one is to be written is not swept away by accident."""

from __future__ import annotations

from pathlib import Path

from screening.cohort.cohort import Cohort
from screening.documents.tables import table, tables
from screening.errors import ModelError, UsageError
from screening.recipes.recipe import Recipe
from screening.storage.sealing import read_document


def refuse_other_model(directory: Path, recipe: Recipe, cohort: Cohort) -> None:
    """Refuse a directory whose model was made by another recipe, or of other files or another label.

    The same training again, with other settings or an edited contract, may replace its own model.

    Raises
    ------
    UsageError
        It holds such a model, or one that cannot be read.
    """
    if not (directory / "model.json").exists():
        return
    remedy = "give another --out, or --force to replace it"
    try:
        document = read_document(directory, "model")
        earlier = tables(table(table(document, "training"), "source"), "files")
        same = {
            "recipe": table(document, "recipe")["text"] == recipe.text,
            "cohort": [file["sha256"] for file in earlier] == [file.sha256 for file in cohort.source.files],
            "label": table(document, "task")["label"] == (cohort.contract.label or "label"),
        }
    except (ModelError, KeyError, TypeError):
        raise UsageError(f"{directory} holds a model that cannot be read; {remedy}") from None
    others = [what for what, agrees in same.items() if not agrees]
    if others:
        raise UsageError(f"{directory} holds a model of another {' and '.join(others)}; {remedy}")
