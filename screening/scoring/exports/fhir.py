"""Export the flagged patients as a FHIR R4 transaction that may be sent again.

A patient of a series has one RiskAssessment and one Flag that points to it, and for
each time of being flagged one Task for the review. All are conditional updates on
identifiers that last, so a server that has them already changes what differs and adds
nothing. With the export of an earlier night (`since`), the Flags of patients who are no
longer flagged end, with the reason.

The assessment of a patient with a value out of bounds, flagged or not, is preliminary
and says why, and the Flag asks to check the value. The patient is a reference by
identifier alone: the bundle has no Patient and no name.
"""

from __future__ import annotations

import datetime
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from screening.errors import UsageError
from screening.schemas.run import RunDocument
from screening.scoring.exporting import (
    FlaggedRows,
    instant_of_night,
    read_flagged,
    subjects_of,
)
from screening.scoring.last_export import (
    CORRECTED,
    RULED_OUT,
    endings,
    is_run,
    recognises_patients,
    refuse_later,
    refuse_unrecognisable,
    series_of_run,
)
from screening.spelling import first_of
from screening.store.model import OUT_OF_BOUNDS
from screening.store.publishing import write_whole

Resource = dict[str, Any]

# The extension of the standard by which a Flag refers to its RiskAssessment.
DETAIL = "http://hl7.org/fhir/StructureDefinition/flag-detail"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://hl7.org/fhir/RiskAssessment")
# The system of identifiers that are URIs.
URI = "urn:ietf:rfc:3986"
# Says of a resource that artificial intelligence asserts it, as HL7's guide asks.
AI_ASSERTED = {
    "system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    "code": "AIAST",
    "display": "Artificial Intelligence asserted",
}
AI_DEVICE = {
    "system": "http://hl7.org/fhir/uv/aitransparency/CodeSystem/AIdeviceTypeCS",
    "code": "Artificial-Intelligence",
}
# Decimals of a percentage.
N_DECIMALS = 6
# Days for which the bundles repeat what has ended, for a bundle that was never sent.
REPEATED_DAYS = 30
# The element of each type that names the Device.
AUTHOR_KEYS = {"RiskAssessment": "performer", "Flag": "author", "Task": "requester"}
# A string of FHIR.
STRING = re.compile(
    r"(?=.*\S)[\t\n\r\x20-\ud7ff\ue000-\U0010ffff]{1,1000000}", re.DOTALL
)


def write(
    flagged: FlaggedRows,
    *,
    out: Path,
    id_system: str | None = None,
    since: Path | None = None,
) -> None:
    """Write a bundle (transaction) as JSON.

    `id_system`: URI of the identifier system of the ids. `since`: the last bundle of
    the series, or the run directory that it was made from.

    UsageError if an id is not a FHIR string, or `since` is not an earlier export of
    this series.
    """
    night = _Night(flagged, id_system)
    earlier: Mapping[str, Resource] = {}
    if since is not None:
        refuse_unrecognisable(flagged.run)
        earlier = _read_earlier(since, id_system)
        _refuse_other_series(earlier, night, since)
        refuse_later(since, _dates(earlier), flagged.run)
    resources = night.resources(earlier)
    resources |= _closed(earlier, resources, flagged)
    resources = _without_old(resources, flagged.run.date)
    bundle: Resource = {
        "resourceType": "Bundle",
        "identifier": {"value": flagged.run.run_id},
        "type": "transaction",
        "timestamp": flagged.run.times.started,
    }
    # An empty list is not allowed: a quiet night has no entries.
    if resources:
        bundle["entry"] = list(starmap(_put, resources.items()))
    text = json.dumps(bundle, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    write_whole(out, text.encode())


def _put(url: str, resource: Resource) -> Resource:
    """Return the entry that creates a resource or updates it by its identifier."""
    search = quote(f"{URI}|{url}", safe="")
    request = {
        "method": "PUT",
        "url": f"{resource['resourceType']}?identifier={search}",
    }
    return {"fullUrl": url, "resource": resource, "request": request}


def _url(kind: str, *parts: str) -> str:
    """Return the URL of a resource, which is its identifier: the same every night."""
    return uuid.uuid5(NAMESPACE, json.dumps([kind, *parts])).urn


def _reference(url: str) -> Resource:
    return {"reference": url}


def _identifiers(url: str) -> list[Resource]:
    return [{"system": URI, "value": url}]


@dataclass(frozen=True)
class _Night:
    """The resources of a night.

    Parameters
    ----------
    flagged : FlaggedRows
    id_system : str or None
        URI of the system of the ids.
    """

    flagged: FlaggedRows
    id_system: str | None

    @property
    def run(self) -> RunDocument:
        """The run."""
        return self.flagged.run

    def url(self, kind: str, subject: str, *parts: str) -> str:
        """Return the URL of a resource of a patient in this series."""
        series = [series_of_run(self.run)]
        if not recognises_patients(self.run):
            # Row numbers: on another night the same number is another patient.
            series.append(self.run.run_id)
        return _url(kind, *series, subject, *parts)

    @property
    def device_url(self) -> str:
        """URL of the model's Device."""
        return _url("Device", self.run.model.digest)

    def resources(self, earlier: Mapping[str, Resource]) -> dict[str, Resource]:
        """Return the Device, and the resources of every patient, by URL.

        `earlier`: those of the last export, which know when a Flag began.
        """
        resources: dict[str, Resource] = {}
        for subject, rows in self._rows_by_patient().items():
            if not resources:
                resources[self.device_url] = self._device()
            resources |= self._of_patient(subject, rows, earlier)
        return resources

    def _rows_by_patient(self) -> dict[str, list[Resource]]:
        """Return the rows of each patient, the highest score first.

        UsageError if an id is not a FHIR string.
        """
        table = pa.concat_tables([self.flagged.rows, self.flagged.to_check])
        by_patient: dict[str, list[Resource]] = {}
        wrong = []
        for row, subject in zip(table.to_pylist(), subjects_of(table), strict=True):
            if not (STRING.fullmatch(subject) and STRING.fullmatch(row["id"])):
                wrong.append(row["rank"] or "none")
            by_patient.setdefault(subject, []).append(row)
        if wrong:
            raise UsageError(
                f"the ids of the rows ranked {first_of(wrong, 5)} contain characters "
                "that FHIR does not allow; nothing was written"
            )
        return by_patient

    def _device(self) -> Resource:
        """Return the model as a Device of artificial intelligence."""
        model = self.run.model
        return {
            "resourceType": "Device",
            "identifier": _identifiers(self.device_url),
            "status": "active",
            "deviceName": [
                {"name": f"screening model {model.id}", "type": "model-name"}
            ],
            "modelNumber": model.id,
            "type": {"coding": [AI_DEVICE]},
            "version": [
                {"type": {"text": "model, SHA-256"}, "value": model.digest},
                {
                    "type": {"text": "software"},
                    "value": f"screening {self.run.versions['screening']}",
                },
            ],
            "note": [{"text": f"{model.recipe.title} (recipe {model.recipe.name})"}],
        }

    def _of_patient(
        self, subject: str, rows: Sequence[Resource], earlier: Mapping[str, Resource]
    ) -> dict[str, Resource]:
        """Return the RiskAssessment, the Flag and the Task of a patient, by URL."""
        row = rows[0]
        assessment_url = self.url("RiskAssessment", subject)
        flag_url = self.url("Flag", subject)
        identifier = {"value": subject}
        if self.id_system:
            identifier = {"system": self.id_system, "value": subject}
        patient = {"type": "Patient", "identifier": identifier}
        odd_columns = _odd_columns(rows)
        assessment = self._assessment(row, odd_columns, assessment_url, patient)
        state = row.get("state")
        flag = earlier.get(flag_url, {})
        is_decided = state == "ruled out" and flag.get("status") == "inactive"
        if not is_decided:
            flag = self._flag(row, odd_columns, flag_url, patient, flag)
            flag["extension"] = [
                {"url": DETAIL, "valueReference": _reference(assessment_url)}
            ]
        start = flag["period"]["start"]
        task_url = self.url("Task", subject, start)
        task = self._task(task_url, assessment_url, patient, flag, state)
        if state == "ruled out" and not is_decided:
            flag = _ended(flag, self.run.date, RULED_OUT)
            task["executionPeriod"]["end"] = self.run.date
        elif is_decided:
            task = earlier.get(task_url, task)
        return {assessment_url: assessment, flag_url: flag, task_url: task}

    def _assessment(
        self, row: Mapping[str, Any], odd_columns: str, url: str, patient: Resource
    ) -> Resource:
        """Return the RiskAssessment of a patient's highest row."""
        model = self.run.model
        prediction: Resource = {"outcome": {"text": self._outcome(row)}}
        # A score is not a probability: there is one only if the model passed
        # calibration. FHIR R4 defines the element as a percentage, up to 100 by rule
        # ras-2.
        if row.get("chance") is not None:
            percent = round(100 * row["chance"], N_DECIMALS)
            prediction["probabilityDecimal"] = percent
        prediction["rationale"] = (
            f"score {row['score']!r}, p-value {row['p_value']!r}, rank {row['rank']}"
        )
        assessment: Resource = {
            "resourceType": "RiskAssessment",
            "meta": {"security": [AI_ASSERTED]},
            "identifier": _identifiers(url),
            "status": "preliminary" if odd_columns else "final",
            "method": {"text": model.recipe.title},
            "subject": patient,
            "occurrenceDateTime": _occurrence(self.run),
            "performer": _reference(self.device_url),
            "prediction": [prediction],
        }
        if odd_columns:
            assessment["note"] = [{"text": _remark(odd_columns)}]
        return assessment

    def _outcome(self, row: Mapping[str, Any]) -> str:
        """Return the label column, and the class that is looked for."""
        return f"{self.run.model.task.label}: {row['class']}"

    def _flag(
        self,
        row: Mapping[str, Any],
        odd_columns: str,
        url: str,
        patient: Resource,
        earlier: Resource,
    ) -> Resource:
        """Return the Flag of a patient; one that is open keeps the day it began."""
        codes = []
        if row["rank"] is not None:
            codes.append(f"To be reviewed: {self._outcome(row)}")
        if row.get("state") == "known":
            codes = [f"Known, according to a reviewer: {self._outcome(row)}"]
        if odd_columns:
            codes.append(_remark(odd_columns))
        start = self.run.date
        if earlier.get("status") == "active":
            start = earlier["period"]["start"]
        return {
            "resourceType": "Flag",
            "meta": {"security": [AI_ASSERTED]},
            "identifier": _identifiers(url),
            "status": "active",
            "code": {"text": "; ".join(codes)},
            "subject": patient,
            "period": {"start": start},
            "author": _reference(self.device_url),
        }

    def _task(
        self,
        url: str,
        assessment_url: str,
        patient: Resource,
        flag: Resource,
        state: str | None,
    ) -> Resource:
        """Return the Task of reviewing a patient, done once the case is judged."""
        task: Resource = {
            "resourceType": "Task",
            "meta": {"security": [AI_ASSERTED]},
            "identifier": _identifiers(url),
            "status": "requested",
            "intent": "proposal",
            "code": {"text": flag["code"]["text"]},
            "focus": _reference(assessment_url),
            "for": patient,
            "executionPeriod": {"start": flag["period"]["start"]},
            "authoredOn": flag["period"]["start"],
            "requester": _reference(self.device_url),
        }
        if state in ("ruled out", "known"):
            task["status"] = "completed"
            task["output"] = [{"type": {"text": "verdict"}, "valueString": state}]
        return task


def _odd_columns(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the columns out of bounds of a patient's rows, each once."""
    texts = [row.get(OUT_OF_BOUNDS) for row in rows]
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _remark(odd_columns: str) -> str:
    return f"Check these values, out of bounds and not used: {odd_columns}"


def _occurrence(run: RunDocument) -> str:
    """Return the instant of a night with its offset, or its date if none is known."""
    taken_at = instant_of_night(run)
    if taken_at[:10] != run.date:
        return run.date
    return datetime.datetime.fromisoformat(taken_at).isoformat(timespec="seconds")


def _ended(flag: Resource, date: str, reason: str) -> Resource:
    """Return a Flag that ended; one of a table that was corrected is an error."""
    start = flag["period"]["start"]
    is_error = start == date and reason == CORRECTED
    text = f"Ended on {date}, {reason}. Was: {flag['code']['text']}"
    return flag | {
        "status": "entered-in-error" if is_error else "inactive",
        "code": {"text": text},
        "period": {"start": start, "end": date},
    }


def _cancelled(task: Resource, date: str, reason: str) -> Resource:
    """Cancel the Task of a patient who no longer needs a review."""
    return task | {
        "status": "cancelled",
        "statusReason": {"text": reason},
        "executionPeriod": task["executionPeriod"] | {"end": date},
    }


def _read_earlier(since: Path, id_system: str | None) -> dict[str, Resource]:
    """Read the resources of an earlier export, or of an earlier run, by URL."""
    if is_run(since):
        return _Night(read_flagged(since), id_system).resources({})
    try:
        bundle = json.loads(since.read_text(encoding="utf-8"))
        entries = bundle.get("entry", [])
        resources = {entry["fullUrl"]: entry["resource"] for entry in entries}
        is_ours = bundle["type"] == "transaction"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise UsageError(
            f"`since` {since}: this is neither a FHIR export nor a run directory",
            parameters=["since"],
        )
    return resources


def _flags(resources: Mapping[str, Resource]) -> Iterator[tuple[str, str, Resource]]:
    """Yield URL, patient and resource of every Flag."""
    for url, resource in resources.items():
        if resource["resourceType"] == "Flag":
            yield url, _patient_of(resource), resource


def _patient_of(resource: Resource) -> str:
    """Return the id of a resource's patient."""
    subject = resource.get("subject") or resource["for"]
    return str(subject["identifier"]["value"])


def _dates(resources: Mapping[str, Resource]) -> list[str]:
    """Return the nights of all assessments."""
    return [
        resource["occurrenceDateTime"]
        for resource in resources.values()
        if resource["resourceType"] == "RiskAssessment"
    ]


def _refuse_other_series(
    earlier: Mapping[str, Resource], night: _Night, since: Path
) -> None:
    """Raise UsageError if an export has patients of another series."""
    for url, subject, _ in _flags(earlier):
        if url != night.url("Flag", subject):
            raise UsageError(
                f"`since` {since}: this export belongs to another series; give the "
                f"last one of series {series_of_run(night.run)}",
                parameters=["since"],
            )


def _closed(
    earlier: Mapping[str, Resource],
    tonight: Mapping[str, Resource],
    flagged: FlaggedRows,
) -> dict[str, Resource]:
    """Return what the last export has and tonight has not, ended where it was open."""
    rest = {url: earlier[url] for url in earlier if url not in tonight}
    last_flagged = {
        _patient_of(resource): resource["occurrenceDateTime"][:10]
        for resource in rest.values()
        if resource["resourceType"] == "RiskAssessment"
    }
    reasons = endings(flagged, last_flagged)
    for url, resource in rest.items():
        if resource["resourceType"] == "Device":
            continue
        reason = reasons.get(_patient_of(resource))
        if reason is not None:
            rest[url] = _close(resource, flagged.run.date, reason)
    return rest


def _close(resource: Resource, date: str, reason: str) -> Resource:
    """Close a resource of a patient who is no longer flagged."""
    kind = resource["resourceType"]
    if kind == "Flag" and resource["status"] == "active":
        return _ended(resource, date, reason)
    if kind == "Task" and resource["status"] == "requested":
        return _cancelled(resource, date, reason)
    if kind == "RiskAssessment" and resource["occurrenceDateTime"][:10] == date:
        return resource | {"status": "entered-in-error"}
    return resource


def _without_old(resources: Mapping[str, Resource], date: str) -> dict[str, Resource]:
    """Return what is open or ended a short time ago, and what that refers to."""
    first = datetime.date.fromisoformat(date) - datetime.timedelta(days=REPEATED_DAYS)
    recent = {
        url: resource
        for url, resource in resources.items()
        if _end_of(resource, date) >= first.isoformat()
    }
    with_flag = {subject for _, subject, _ in _flags(recent)}
    retained = {}
    devices = {}
    for url, resource in recent.items():
        if resource["resourceType"] == "Device":
            devices[url] = resource
        elif _patient_of(resource) in with_flag:
            retained[url] = resource
    authors = {_author_of(resource) for resource in retained.values()}
    used = {url: devices[url] for url in devices if url in authors}
    return used | retained


def _end_of(resource: Resource, date: str) -> str:
    """Return the day on which a Flag or a Task ended; `date` where it is open."""
    period = resource.get("period") or resource.get("executionPeriod") or {}
    return str(period.get("end", date))


def _author_of(resource: Resource) -> str:
    """Return the URL of the Device that a resource is from."""
    kind = resource["resourceType"]
    return str(resource[AUTHOR_KEYS[kind]]["reference"])
