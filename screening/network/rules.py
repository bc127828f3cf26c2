"""The rule that a site agreed on for a series, against the one its model's threshold follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from screening.documents.stored import model_in
from screening.errors import ModelError
from screening.storage.sealing import read_document


def check_rule(agreed: Mapping[str, float] | None, model: Path) -> None:
    """Refuse a model whose threshold follows another rule than the agreed one.

    Raises
    ------
    ModelError
        Naming both, and what to do.
    """
    for name, value in (agreed or {}).items():
        for point in model_in(read_document(model, "model")).operating_points:
            if (point.rule.name, point.rule.value) != (name, value):
                known = f"{point.rule.name} {'' if point.rule.value is None else point.rule.value}".strip()
                raise ModelError(
                    f"the model's threshold follows {known}, and {name} {value:g} was agreed for the series; "
                    "choose it with `screen threshold`, or correct `rule`"
                )
