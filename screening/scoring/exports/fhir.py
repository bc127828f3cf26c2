"""Export the flagged rows as a FHIR R4 bundle: for each a RiskAssessment and a Flag.

Of a row with a value out of bounds, flagged or not, the assessment is preliminary and
says why, and the Flag asks to check the value. The patient is a reference by identifier
alone: the bundle has no Patient and no name.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from screening.errors import UsageError
from screening.schemas.run import RunDocument
from screening.scoring.rows import FlaggedRows, subjects_of
from screening.spelling import first_of
from screening.store.model import OUT_OF_BOUNDS
from screening.store.publishing import write_whole

# The extension of the standard by which a Flag refers to its RiskAssessment.
DETAIL = "http://hl7.org/fhir/StructureDefinition/flag-detail"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://hl7.org/fhir/RiskAssessment")
# A string of FHIR.
STRING = re.compile(
    r"(?=.*\S)[\t\n\r\x20-\ud7ff\ue000-\U0010ffff]{1,1000000}", re.DOTALL
)


def write(flagged: FlaggedRows, *, out: Path, id_system: str | None = None) -> None:
    """Write a bundle (collection) as JSON.

    `id_system`: URI of the system whose identifiers the ids are. UsageError if an id is
    no string of FHIR.
    """
    table = pa.concat_tables([flagged.rows, flagged.to_check])
    rows = table.to_pylist()
    subjects = subjects_of(table)
    wrong = []
    for row, subject in zip(rows, subjects, strict=True):
        if not (STRING.fullmatch(subject) and STRING.fullmatch(row["id"])):
            wrong.append(row["rank"] or "none")
    if wrong:
        raise UsageError(
            f"ids of rank {first_of(wrong, 5)} hold characters that FHIR does not know; nothing was written"
        )
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "identifier": {"value": flagged.run.run_id},
        "type": "collection",
        "timestamp": flagged.run.times.started,
    }
    entries: list[dict[str, Any]] = []
    for row, subject in zip(rows, subjects, strict=True):
        entries += _entries(flagged.run, row, subject, id_system)
    # An empty list is not allowed: a quiet night has no entries.
    if entries:
        bundle["entry"] = entries
    text = json.dumps(bundle, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    write_whole(out, text.encode())


def _entries(
    run: RunDocument, row: Mapping[str, Any], patient: str, system: str | None
) -> list[dict[str, Any]]:
    """Return the RiskAssessment of a row, and the Flag that points to it."""
    is_flagged = row["rank"] is not None
    name = f"{run.run_id} check {row['id']}"
    if is_flagged:
        name = f"{run.run_id} {row['rank']}"
    assessment = uuid.uuid5(NAMESPACE, f"RiskAssessment {name}").urn
    flag = uuid.uuid5(NAMESPACE, f"Flag {name}").urn
    identifier = {"system": system, "value": patient} if system else {"value": patient}
    subject = {"type": "Patient", "identifier": identifier}
    # The label column, and the class that is looked for.
    outcome = f"{run.model.task.label}: {row['class']}"
    author = {
        "display": f"screening, model {run.model.id}, recipe {run.model.recipe.name}"
    }
    prediction: dict[str, Any] = {"outcome": {"text": outcome}}
    # A score is no probability: there is one only if the model passed calibration.
    if row.get("chance") is not None:
        prediction["probabilityDecimal"] = row["chance"]
    prediction["rationale"] = (
        f"score {row['score']!r}, p-value {row['p_value']!r}, rank {row['rank']}"
    )
    odd_columns = row.get(OUT_OF_BOUNDS)
    codes = []
    if is_flagged:
        codes.append(f"To be reviewed: {outcome}")
    risk_assessment: dict[str, Any] = {
        "resourceType": "RiskAssessment",
        "identifier": [{"value": f"{name} {row['id']}"}],
        "status": "preliminary" if odd_columns else "final",
        "method": {"text": run.model.recipe.title},
        "subject": subject,
        "occurrenceDateTime": run.date,
        "performer": author,
        "prediction": [prediction],
    }
    if odd_columns:
        remark = f"Check these values, out of bounds and not used: {odd_columns}"
        codes.append(remark)
        risk_assessment["note"] = [{"text": remark}]
    flag_resource = {
        "resourceType": "Flag",
        "extension": [{"url": DETAIL, "valueReference": {"reference": assessment}}],
        "status": "active",
        "code": {"text": "; ".join(codes)},
        "subject": subject,
        "period": {"start": run.date},
        "author": author,
    }
    return [
        {"fullUrl": assessment, "resource": risk_assessment},
        {"fullUrl": flag, "resource": flag_resource},
    ]
