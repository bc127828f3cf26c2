"""Events of FHIR resources: each type, versions, times, and lines that are wrong."""

import gzip
import json
from itertools import pairwise

import pandas as pd
import pytest
from event_tables import events_of, faults_of_stays

pytest.importorskip("duckdb")

from screening.errors import EventsError, UsageError
from screening.features.events import WITHDRAWN
from screening.features.faults import FaultKind
from screening.features.spec import Source

PATIENT = {"resourceType": "Patient", "id": "p1", "gender": "female"}
ENCOUNTER = {
    "resourceType": "Encounter",
    "id": "e1",
    "status": "finished",
    "class": {"code": "IMP"},
    "subject": {"reference": "Patient/p1"},
    "period": {"start": "2026-03-01T08:00:00Z", "end": "2026-03-09T10:00:00Z"},
}
CREATININE = {"coding": [{"system": "http://loinc.org", "code": "2160-0"}]}
OBSERVATION = {
    "resourceType": "Observation",
    "id": "o1",
    "status": "final",
    "subject": {"reference": "Patient/p1"},
    "encounter": {"reference": "Encounter/e1"},
    "code": CREATININE,
    "effectiveDateTime": "2026-03-02T08:00:00+01:00",
    "issued": "2026-03-02T09:30:00+01:00",
    "valueQuantity": {"value": 1.23, "unit": "mg per dl", "code": "mg/dL"},
}
CONDITION = {
    "resourceType": "Condition",
    "id": "c1",
    "subject": {"reference": "Patient/p1"},
    "encounter": {"reference": "Encounter/e1"},
    "code": {"coding": [{"system": "http://snomed.info/sct", "code": "38341003"}]},
    "onsetDateTime": "2026-03-02T07:00:00Z",
}


@pytest.fixture
def read(tmp_path):
    """Return events as rows, and faults as (kind, file, lines), of resources."""

    def _read(*resources, zone="Europe/Berlin", file="all.ndjson"):
        lines = "".join(json.dumps(resource) + "\n" for resource in resources)
        (tmp_path / file).write_text(lines, encoding="utf-8")
        return read_folder(tmp_path, zone)

    return _read


def read_folder(folder, zone="Europe/Berlin"):
    return events_of(Source(format="fhir", path=str(folder), zone=zone))


def time(text):
    return pd.Timestamp(text).to_pydatetime()


def coded(events):
    """Return time, known_since, code, value, unit and text of the results."""
    return [row[2:] for row in events if "/" in row[4]]


def test_observation_quantity(read):
    """A result has the system's name, the UCUM unit, and UTC; it is known from
    `issued` on.
    """
    events, faults = read(OBSERVATION)

    assert events == [
        (
            "p1",
            "e1",
            time("2026-03-02T07:00"),
            time("2026-03-02T08:30"),
            "LOINC/2160-0",
            1.23,
            "mg/dL",
            None,
        )
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"valueInteger": 4}, (4.0, None, None)),
        ({"valueString": "positive"}, (None, None, "positive")),
        ({"valueBoolean": True}, (None, None, "true")),
        ({"valueCodeableConcept": {"text": "none seen"}}, (None, None, "none seen")),
        ({}, (None, None, None)),
    ],
)
def test_observation_other_values(read, value, expected):
    """Whole numbers are values; words, answers and concepts are text."""
    observation = {**OBSERVATION, **value}
    del observation["valueQuantity"]

    events, _ = read(observation)

    assert [row[5:] for row in events] == [expected]


def test_observation_components(read):
    """A panel without a value is its components; each has its own code."""
    parts = [
        {
            "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
            "valueQuantity": {"value": value, "code": "mm[Hg]"},
        }
        for code, value in (("8480-6", 121), ("8462-4", 77))
    ]
    panel = {**OBSERVATION, "component": parts}
    del panel["valueQuantity"]

    events, _ = read(panel)

    assert [row[4:6] for row in events] == [
        ("LOINC/8462-4", 77.0),
        ("LOINC/8480-6", 121.0),
    ]


def test_observation_absent(read):
    """A result that is absent for a reason, or only registered, is not an event."""
    absent = {**OBSERVATION, "dataAbsentReason": {"text": "haemolysed"}}
    registered = {**OBSERVATION, "id": "o2", "status": "registered"}

    events, _ = read(absent, registered)

    assert events == []


def test_observation_versions(read):
    """Each version is known from when it was entered; the last withdraws the result."""
    corrected = {
        **OBSERVATION,
        "status": "corrected",
        "meta": {"lastUpdated": "2026-03-03T00:00:00Z"},
        "valueQuantity": {"value": 2.5, "code": "mg/dL"},
    }
    withdrawn = {
        **OBSERVATION,
        "status": "entered-in-error",
        "meta": {"lastUpdated": "2026-03-04T00:00:00Z"},
    }

    events, _ = read(OBSERVATION, withdrawn, corrected)

    assert [row[3:] for row in events] == [
        (time("2026-03-02T08:30"), "LOINC/2160-0", 1.23, "mg/dL", None),
        (time("2026-03-03"), "LOINC/2160-0", 2.5, "mg/dL", None),
        (time("2026-03-04"), "LOINC/2160-0", None, None, "entered-in-error"),
    ]


def test_observation_version_moved(read):
    """A version with another time withdraws the result at the time before."""
    moved = {
        **OBSERVATION,
        "status": "amended",
        "effectiveDateTime": "2026-03-02T05:00:00Z",
        "meta": {"lastUpdated": "2026-03-03T00:00:00Z"},
    }

    events, _ = read(OBSERVATION, moved)

    assert [(row[2], row[3], row[7]) for row in events] == [
        (time("2026-03-02T05:00"), time("2026-03-03"), None),
        (time("2026-03-02T07:00"), time("2026-03-02T08:30"), None),
        (time("2026-03-02T07:00"), time("2026-03-03"), "entered-in-error"),
    ]


def test_stay_wards(read):
    """A stay is its admission, a transfer a ward, and its discharge, at their times."""
    ward = {"resourceType": "Location", "id": "w2", "name": "ICU"}
    encounter = {
        **ENCOUNTER,
        "hospitalization": {"dischargeDisposition": {"coding": [{"code": "home"}]}},
        "location": [
            {"location": {"display": "3B"}},
            {
                "location": {"reference": "Location/w2"},
                "period": {"start": "2026-03-04T12:00:00Z"},
            },
            {"location": {"display": "4A"}, "status": "planned"},
        ],
    }

    events, faults = read(encounter, ward)

    assert [(row[1], row[2], row[3], row[4], row[7]) for row in events] == [
        ("e1", time("2026-03-01T08:00"), None, "ADMISSION", None),
        ("e1", time("2026-03-01T08:00"), None, "TRANSFER", "3B"),
        ("e1", time("2026-03-04T12:00"), None, "TRANSFER", "ICU"),
        ("e1", time("2026-03-09T10:00"), None, "DISCHARGE", "home"),
    ]
    assert faults == []


def test_stay_parts(read):
    """An encounter within another one is a ward of its stay, and so are its results."""
    part = {
        **ENCOUNTER,
        "id": "e2",
        "partOf": {"reference": "Encounter/e1"},
        "period": {"start": "2026-03-02T00:00:00Z", "end": "2026-03-03T00:00:00Z"},
        "serviceProvider": {"display": "Surgery"},
    }
    inner = {**part, "id": "e3", "partOf": {"reference": "Encounter/e2"}}
    result = {**OBSERVATION, "encounter": {"reference": "Encounter/e3"}}

    events, _ = read(ENCOUNTER, part, inner, result)

    assert {row[1] for row in events} == {"e1"}
    assert [row[4] for row in events if row[7] == "Surgery"] == ["TRANSFER"] * 2
    assert [row[4] for row in events].count("ADMISSION") == 1


@pytest.mark.parametrize(
    ("end", "discharges"),
    [("2026-03-12T09:00:00Z", ["2026-03-12T09:00"]), (None, [])],
)
def test_admitted_from_the_emergency_room(read, end, discharges):
    """A stay that begins as an emergency ends with the encounter that is part of it."""
    emergency = {**ENCOUNTER, "class": {"code": "EMER"}}
    admitted = {
        **ENCOUNTER,
        "id": "e2",
        "status": "finished" if end else "in-progress",
        "partOf": {"reference": "Encounter/e1"},
        "period": {"start": ENCOUNTER["period"]["end"], "end": end},
    }

    events, _ = read(emergency, admitted)

    assert [row[1] for row in events if row[4] == "ADMISSION"] == ["e1"]
    assert [row[2] for row in events if row[4] == "DISCHARGE"] == [
        *map(time, discharges)
    ]


def test_part_of_a_visit_is_a_stay(read):
    """An encounter is a stay if it is part of an ambulatory one, of none that is there,
    or of one that was over for a day.
    """
    visit = {**ENCOUNTER, "class": {"code": "AMB"}}
    of_visit = {**ENCOUNTER, "id": "e2", "partOf": {"reference": "Encounter/e1"}}
    of_none = {**ENCOUNTER, "id": "e3", "partOf": {"reference": "Encounter/e9"}}
    again = {**ENCOUNTER, "id": "e4", "partOf": {"reference": "Encounter/e2"}}
    again["period"] = {"start": "2026-03-11T08:00:00Z", "end": "2026-03-12T08:00:00Z"}

    events, _ = read(visit, of_visit, of_none, again)

    stays = [row[1] for row in events if row[4] == "ADMISSION"]
    assert sorted(stays) == ["e2", "e3", "e4"]


@pytest.mark.parametrize("circle", [["e1"], ["e1", "e2"], ["e1", "e2", "e3"]])
def test_encounters_that_are_part_of_each_other(read, circle):
    """Each is a stay: none is lost."""
    encounters = []
    for inner, outer in zip(circle, [*circle[1:], circle[0]], strict=True):
        part_of = {"reference": f"Encounter/{outer}"}
        encounters.append({**ENCOUNTER, "id": inner, "partOf": part_of})

    events, _ = read(*encounters)

    stays = [row[1] for row in events if row[4] == "ADMISSION"]
    assert sorted(stays) == circle


def test_visit_is_no_stay(read):
    """An ambulatory encounter is an event, not a stay; a cancelled one is nothing."""
    visit = {**ENCOUNTER, "class": {"code": "AMB"}}
    cancelled = {**ENCOUNTER, "id": "e2", "status": "cancelled"}

    events, _ = read(visit, cancelled)

    assert [row[4] for row in events] == ["ActCode/AMB"]


def test_encounter_newest_version(read):
    """Of two exports of an encounter the newer counts, in any order of lines."""
    opened = {**ENCOUNTER, "status": "in-progress", "period": {"start": "2026-03-01"}}
    opened["meta"] = {"lastUpdated": "2026-03-01T09:00:00Z"}
    closed = {**ENCOUNTER, "meta": {"lastUpdated": "2026-03-09T10:05:00Z"}}

    events, _ = read(closed, opened)
    other_order, _ = read(opened, closed)

    assert events == other_order
    assert [row[4] for row in events] == ["ADMISSION", "DISCHARGE"]


def test_patient_facts(read):
    """Birth is the midnight of its date on the hospital's clock; death has its time."""
    patient = {
        **PATIENT,
        "birthDate": "1950-07-01",
        "deceasedDateTime": "2026-03-05T10:00:00Z",
    }

    events, _ = read(patient)

    assert [(row[2], row[4], row[7]) for row in events] == [
        (time("1950-06-30T23:00"), "BIRTH", None),
        (time("1950-06-30T23:00"), "SEX", "female"),
        (time("2026-03-05T10:00"), "DEATH", None),
    ]


@pytest.mark.parametrize("kind", ["replaced-by", "replaces"])
def test_patient_merged(read, kind):
    """A link of two patients is a merge, known since the link was entered."""
    ends = {"replaced-by": ("old", "new"), "replaces": ("new", "old")}
    this, other = ends[kind]
    patient = {
        "resourceType": "Patient",
        "id": this,
        "meta": {"lastUpdated": "2026-03-03T00:00:00Z"},
        "link": [{"other": {"reference": f"Patient/{other}"}, "type": kind}],
    }
    later = {**patient, "meta": {"lastUpdated": "2026-03-08T00:00:00Z"}}

    events, _ = read(patient, later)

    assert [(row[0], row[2], row[4], row[7]) for row in events] == [
        ("old", time("2026-03-03"), "MERGED", "new")
    ]


def test_condition_without_record_known_at_end(read):
    """A diagnosis that does not say when it was entered is known from the end of its
    stay on: it is coded then.
    """
    recorded = {**CONDITION, "id": "c2", "recordedDate": "2026-03-02T08:00:00Z"}

    events, _ = read(ENCOUNTER, CONDITION, recorded)

    assert [row[1] for row in coded(events)] == [
        time("2026-03-02T08:00"),
        time("2026-03-09T10:00"),
    ]


def test_condition_of_open_stay_not_known(read):
    """While the stay is open such a diagnosis is not known."""
    opened = {**ENCOUNTER, "period": {"start": "2026-03-01T08:00:00Z"}}

    events, _ = read(opened, CONDITION)

    assert [row[1] for row in coded(events)] == [time("9999-01-01")]


def test_condition_refuted(read):
    """A diagnosis that is refuted is withdrawn."""
    status = {"coding": [{"code": "refuted"}]}

    events, _ = read({**CONDITION, "verificationStatus": status})

    assert [row[5] for row in coded(events)] == ["entered-in-error"]


def test_administration_and_procedure(read):
    """A dose has its amount and the code of its medication; what was not done is not
    an event.
    """
    drug = {"coding": [{"system": "urn:ward", "code": "heparin"}]}
    given = {
        "resourceType": "MedicationAdministration",
        "id": "m1",
        "status": "completed",
        "subject": {"reference": "urn:uuid:p1"},
        "context": {"reference": "https://host.example/fhir/Encounter/e1/_history/2"},
        "medicationReference": {"reference": "Medication/d1"},
        "effectivePeriod": {"start": "2026-03-02T10:00:00Z"},
        "dosage": {"dose": {"value": 5000, "unit": "IU"}},
    }
    procedure = {
        "resourceType": "Procedure",
        "id": "r1",
        "status": "completed",
        "subject": {"reference": "Patient/p1"},
        "code": {"text": "dialysis"},
        "performedDateTime": "2026-03-02T11:00:00Z",
    }
    events, _ = read(
        {"resourceType": "Medication", "id": "d1", "code": drug},
        given,
        {**given, "id": "m2", "status": "not-done"},
        procedure,
        {**procedure, "id": "r2", "status": "not-done"},
    )

    assert [(row[0], row[1], *row[4:7]) for row in events] == [
        ("p1", "e1", "urn:ward/heparin", 5000.0, "IU"),
        ("p1", None, "dialysis", None, None),
    ]


@pytest.mark.parametrize(
    ("written", "at", "known"),
    [
        ("2026-03-02", "2026-03-02T11:00", "2026-03-02T23:00"),
        ("2026-02", "2026-02-28T11:00", "2026-02-28T23:00"),
        ("2025", "2025-12-31T11:00", "2025-12-31T23:00"),
    ],
)
def test_date_alone_known_after_the_day(read, written, at, known):
    """An event of a day is at its noon, and known once the day is over."""
    procedure = {
        "resourceType": "Procedure",
        "subject": {"reference": "Patient/p1"},
        "code": {"text": "dialysis"},
        "performedDateTime": written,
    }

    events, _ = read(procedure)

    assert [row[2:4] for row in events] == [(time(at), time(known))]


def test_times_without_zone(read):
    """A time without a zone is on the clock that the spec states; of a night in which
    the clock changes the line is named.
    """
    lost, twice = (
        {**OBSERVATION, "id": name, "effectiveDateTime": written}
        for name, written in (
            ("a", "2026-03-29T02:30:00"),
            ("b", "2026-10-25T02:30:00"),
        )
    )
    plain = {**OBSERVATION, "effectiveDateTime": "2026-03-02T08:00:00"}

    events, faults = read(plain, lost, twice)

    assert [row[2] for row in events] == [
        time("2026-03-02T07:00"),
        time("2026-03-29T01:30"),
        time("2026-10-25T00:30"),
    ]
    assert faults == [
        (FaultKind.LOST_TIME, "all.ndjson", [2]),
        (FaultKind.TWICE_TIME, "all.ndjson", [3]),
    ]


def test_times_with_offset_in_repeated_hour(read):
    """With offsets both times in the repeated hour are apart."""
    both = [
        {
            **OBSERVATION,
            "id": offset,
            "effectiveDateTime": f"2026-10-25T02:30:00{offset}",
        }
        for offset in ("+02:00", "+01:00")
    ]

    events, faults = read(*both)

    assert [row[2] for row in events] == [
        time("2026-10-25T00:30"),
        time("2026-10-25T01:30"),
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ({**OBSERVATION, "subject": None}, FaultKind.NO_SUBJECT),
        ({**OBSERVATION, "code": {}}, FaultKind.NO_CODE),
        ({**CONDITION, "onsetDateTime": "in spring"}, FaultKind.NO_TIME),
        ({**ENCOUNTER, "period": None}, FaultKind.NO_TIME),
    ],
)
def test_left_out_lines_named(read, resource, kind):
    """A resource without subject, code or time is left out and named by its line."""
    events, faults = read(PATIENT, resource)

    assert [row[4] for row in events if row[4] not in ("SEX", "ADMISSION")] == []
    assert faults == [(kind, "all.ndjson", [2])]


@pytest.mark.parametrize(
    "value",
    [
        {"valueQuantity": {"value": 5, "comparator": "<", "code": "mg/dL"}},
        {"valueQuantity": None, "valueString": "<5"},
        {"valueQuantity": None, "valueString": " >= 12.5 "},
    ],
)
def test_comparator_left_out(read, value):
    """A number with a comparator is no value, and its line is named."""
    events, faults = read(OBSERVATION, {**OBSERVATION, "id": "o2", **value})

    assert [row[5] for row in events if row[7] != WITHDRAWN] == [1.23]
    assert [row[5] for row in events if row[7] == WITHDRAWN] == [None]
    assert faults == [(FaultKind.COMPARATOR, "all.ndjson", [2])]


def test_two_systems(read):
    """A result with codes of two systems is an event for each, and is named."""
    local = {"system": "urn:lab", "code": "KREA"}
    both = {"coding": [*CREATININE["coding"], local]}

    events, faults = read({**OBSERVATION, "code": both})

    assert [row[4] for row in events] == ["LOINC/2160-0", "urn:lab/KREA"]
    assert faults == [(FaultKind.TWO_SYSTEMS, "all.ndjson", [1])]


def test_negative_duration(read, tmp_path):
    """A stay that ends before it begins has its discharge, by which nobody is in; of a
    result the beginning counts. Both lines are named.
    """
    stay = {
        **ENCOUNTER,
        "period": {"start": "2026-03-01T08:00:00Z", "end": "2026-02-01T08:00:00Z"},
    }
    result = {
        **OBSERVATION,
        "effectiveDateTime": None,
        "effectivePeriod": stay["period"],
    }

    events, _ = read(stay, result)

    assert sorted((row[2], row[4]) for row in events) == [
        (time("2026-02-01T08:00"), "DISCHARGE"),
        (time("2026-03-01T08:00"), "ADMISSION"),
        (time("2026-03-01T08:00"), "LOINC/2160-0"),
    ]
    faults = faults_of_stays(Source(format="fhir", path=str(tmp_path)))
    assert faults == [(FaultKind.NEGATIVE_DURATION, "all.ndjson", [1, 2])]


def test_mark_before_the_first_line(tmp_path):
    """A byte-order mark is no part of the first line."""
    lines = f"\ufeff{json.dumps(PATIENT)}\n"
    (tmp_path / "all.ndjson").write_text(lines, encoding="utf-8")

    events, _ = read_folder(tmp_path)

    assert [row[4] for row in events] == ["SEX"]


def test_number_that_is_too_large(read):
    """A value that is greater than any number is missing."""
    result = {**OBSERVATION, "valueQuantity": {"value": float("1e999")}}

    events, _ = read(result)

    assert [row[5] for row in events] == [None]


def test_finished_without_end(read):
    """A finished encounter without an end counts as open, and its line is named."""
    endless = {**ENCOUNTER, "period": {"start": "2026-03-01T08:00:00Z"}}
    running = {**endless, "id": "e2", "status": "in-progress"}

    events, faults = read(endless, running)

    assert [row[4] for row in events] == ["ADMISSION"] * 2
    assert faults == [(FaultKind.NO_END, "all.ndjson", [1])]


@pytest.mark.parametrize(
    "bad", [b'{"resourceType": "Pat\n', b"\xff\xfe\n", b"id,sex\n"]
)
def test_not_json_named(tmp_path, bad):
    """A line that is not JSON in UTF-8 ends the run, named by file and line."""
    good = json.dumps(OBSERVATION).encode() + b"\n"
    (tmp_path / "a.ndjson").write_bytes(good + b"\n" + bad + good)

    with pytest.raises(EventsError) as error:
        read_folder(tmp_path)

    assert error.value.violations == [
        "a.ndjson: the line cannot be read as JSON (1 line: 3); write the export "
        "again: one resource a line, in UTF-8"
    ]


def test_not_json_many(tmp_path):
    """Of many such lines the first are named and the others are counted."""
    (tmp_path / "a.ndjson").write_text("x\n" * 9, encoding="utf-8")

    with pytest.raises(EventsError, match=r"\(9 lines: 1, 2, 3, \.\.\.\)"):
        read_folder(tmp_path)


def test_truncated_archive(tmp_path):
    """An archive that ends too early ends the run with its reason."""
    whole = gzip.compress(json.dumps(OBSERVATION).encode() * 50)
    (tmp_path / "a.ndjson.gz").write_bytes(whole[:-12])

    with pytest.raises(EventsError, match=r"a\.ndjson\.gz"):
        read_folder(tmp_path)


def test_no_files(tmp_path):
    """A folder without resources is refused."""
    with pytest.raises(UsageError, match="ndjson"):
        read_folder(tmp_path)


def test_any_cut_of_files(tmp_path):
    """However the lines lie in files, packed or not, the events are the same."""
    lines = [json.dumps({**OBSERVATION, "id": f"o{n}"}) for n in range(9)]
    for folder, cuts in (("one", [0, 9]), ("three", [0, 2, 7, 9])):
        (tmp_path / folder).mkdir()
        for begin, end in pairwise(cuts):
            text = "\n".join(lines[begin:end]).encode()
            (tmp_path / folder / f"{begin}.ndjson.gz").write_bytes(gzip.compress(text))

    assert read_folder(tmp_path / "one")[0] == read_folder(tmp_path / "three")[0]
