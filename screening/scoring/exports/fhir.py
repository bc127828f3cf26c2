"""The flagged rows as a FHIR R4 bundle: for each a RiskAssessment, and a Flag for it.

Of a row with a value out of bounds, flagged or not, the assessment is preliminary and
says why, and the Flag asks to check the value. Who is meant stands as a reference by
identifier alone: no Patient is in the bundle, and no name.
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

# How a Flag says what it was raised for: an extension of the standard itself.
DETAIL = "http://hl7.org/fhir/StructureDefinition/flag-detail"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://hl7.org/fhir/RiskAssessment")
# What a string of FHIR may hold.
STRING = re.compile(
    r"(?=.*\S)[\t\n\r\x20-\ud7ff\ue000-\U0010ffff]{1,1000000}", re.DOTALL
)


def write(flagged: FlaggedRows, *, out: Path, id_system: str | None = None) -> None:
    """A bundle (collection) as JSON; `id_system`: URI of the system whose identifiers the ids are."""
    table = pa.concat_tables([flagged.rows, flagged.to_check])
    rows = list(zip(table.to_pylist(), subjects_of(table), strict=True))
    wrong = [
        row["rank"] or "none"
        for row, subject in rows
        if not all(map(STRING.fullmatch, (subject, row["id"])))
    ]
    if wrong:
        raise UsageError(
            f"ids of rank {first_of(wrong, 5)} hold characters that FHIR does not know; nothing was written"
        )
    entries = [
        entry
        for row, subject in rows
        for entry in _entries(flagged.run, row, subject, id_system)
    ]
    bundle = {
        "resourceType": "Bundle",
        "identifier": {"value": flagged.run.run_id},
        "type": "collection",
        "timestamp": flagged.run.times.started,
        # An empty list is not allowed: a quiet night has no entries.
        **({"entry": entries} if entries else {}),
    }
    text = json.dumps(bundle, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    write_whole(out, text.encode())


def _entries(
    run: RunDocument, row: Mapping[str, Any], patient: str, system: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    is_flagged = row["rank"] is not None
    name = f"{run.run_id} {row['rank'] if is_flagged else 'check'}"
    if not is_flagged:
        name += f" {row['id']}"
    assessment, flag = (
        uuid.uuid5(NAMESPACE, f"{kind} {name}").urn
        for kind in ("RiskAssessment", "Flag")
    )
    identifier = {"system": system, "value": patient} if system else {"value": patient}
    subject = {"type": "Patient", "identifier": identifier}
    # What is looked for: the label column and its class.
    outcome = f"{run.model.task.label}: {row['class']}"
    by = {"display": f"screening, model {run.model.id}, recipe {run.model.recipe.name}"}
    chance = row.get("chance")
    odd_columns = row.get(OUT_OF_BOUNDS)
    codes = []
    if is_flagged:
        codes.append(f"To be reviewed: {outcome}")
    notes = {}
    if odd_columns:
        remark = f"Check these values, out of bounds and not used: {odd_columns}"
        codes.append(remark)
        notes = {"note": [{"text": remark}]}
    return (
        {
            "fullUrl": assessment,
            "resource": {
                "resourceType": "RiskAssessment",
                "identifier": [{"value": f"{name} {row['id']}"}],
                "status": "preliminary" if odd_columns else "final",
                "method": {"text": run.model.recipe.title},
                "subject": subject,
                "occurrenceDateTime": run.date,
                "performer": by,
                "prediction": [
                    {
                        "outcome": {"text": outcome},
                        # A score is no probability: only where the model has earned a calibration.
                        **(
                            {"probabilityDecimal": chance} if chance is not None else {}
                        ),
                        "rationale": "score {score!r}, p-value {p_value!r}, rank {rank}".format(
                            **row
                        ),
                    }
                ],
                **notes,
            },
        },
        {
            "fullUrl": flag,
            "resource": {
                "resourceType": "Flag",
                "extension": [
                    {"url": DETAIL, "valueReference": {"reference": assessment}}
                ],
                "status": "active",
                "code": {"text": "; ".join(codes)},
                "subject": subject,
                "period": {"start": run.date},
                "author": by,
            },
        },
    )
