"""A made hospital as events, written as a long table, MEDS, OMOP CDM and FHIR.

    python benchmarks/made_hospital_events.py --patients 2000 --out made

Three years of stays: wards, laboratory values in two units, results that come late,
twice, corrected or withdrawn, diagnoses entered at discharge, two patients who had two
numbers until they were merged, and values in both hours of the night in which the clock
goes back. Acute kidney injury (`SNOMED/14669001`) is the outcome; it follows
creatinine that rises. All four formats have the same events, so that features made from
them have to be the same; `tests/test_features_sources.py` compares them.

Printed are the events and bytes of each format.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ZONE = "Europe/Berlin"
START = pd.Timestamp("2023-01-01")
COLUMNS = ["subject", "stay", "time", "known_since", "code", "value", "unit", "text"]
WARDS = ("3B", "4A", "Surgery", "ICU")
BIRTH, SEX, DEATH, MERGED = "BIRTH", "SEX", "DEATH", "MERGED"
ADMISSION, TRANSFER, DISCHARGE = "ADMISSION", "TRANSFER", "DISCHARGE"
RESERVED = (BIRTH, SEX, DEATH, MERGED, ADMISSION, TRANSFER, DISCHARGE)
WITHDRAWN = "entered-in-error"
KIDNEY_INJURY = "SNOMED/14669001"
CULTURE = "LOINC/600-7"
# Code, results a day, centre, spread, decimals, unit, and the same in another unit:
# its code, unit, factor and offset.
NUMBERS = (
    ("LOINC/2160-0", 1.2, 1.0, 0.35, 2, "mg/dL", "LOINC/14682-9", "umol/L", 88.42, 0),
    (
        "LOINC/2345-7",
        2.0,
        115,
        0.25,
        0,
        "mg/dL",
        "LOINC/2345-7",
        "mmol/L",
        1 / 18.016,
        0,
    ),
    ("LOINC/718-7", 1.0, 12.5, 0.15, 1, "g/dL", "LOINC/718-7", "g/L", 10, 0),
    ("LOINC/1988-5", 0.7, 20, 0.9, 1, "mg/L", "LOINC/1988-5", "mg/dL", 0.1, 0),
    ("LOINC/2524-7", 0.4, 1.4, 0.5, 1, "mmol/L", "LOINC/2524-7", "mmol/L", 1, 0),
    ("LOINC/2823-3", 1.0, 4.1, 0.12, 1, "mmol/L", "LOINC/2823-3", "mmol/L", 1, 0),
    ("LOINC/8310-5", 3.0, 37.1, 0.015, 1, "Cel", "LOINC/8310-5", "[degF]", 1.8, 32),
    ("LOINC/8867-4", 4.0, 82, 0.18, 0, "/min", "LOINC/8867-4", "/min", 1, 0),
    ("LOINC/8480-6", 3.0, 128, 0.15, 0, "mm[Hg]", "LOINC/8480-6", "kPa", 0.133322, 0),
    ("LOINC/59408-5", 2.0, 96, 0.02, 0, "%", "LOINC/59408-5", "%", 1, 0),
)
# Code, doses a day, dose, unit.
DRUGS = (
    ("RxNorm/4603", 0.4, 40.0, "mg"),
    ("RxNorm/11124", 0.2, 1000.0, "mg"),
    ("RxNorm/5224", 0.5, 5000.0, "[iU]"),
)
PROCEDURES = (("SNOMED/265764009", 0.02), ("SNOMED/241541005", 0.08))
DIAGNOSES = ("SNOMED/38341003", "SNOMED/44054006", "SNOMED/84114007", "SNOMED/13645005")
HOUR_US = 3_600_000_000


def make_events(
    patients: int = 2000, years: float = 3, seed: int = 0, rate: float = 1.0
) -> pd.DataFrame:
    """Return the events of a made hospital, one row each, in UTC.

    Parameters
    ----------
    patients : int
    years : float
        From 1 January 2023 on.
    seed : int
    rate : float
        Results a day, in those of an ordinary ward.
    """
    rng = np.random.default_rng(seed)
    horizon = START + pd.Timedelta(days=round(365.25 * years))
    people = _make_people(patients, rng)
    stays = _make_stays(people, horizon, rng)
    parts = [_people_events(people), *_stay_events(stays, horizon, rng)]
    parts += _results(stays, rate, rng)
    parts += [_cultures(stays, rng), *_kidney_injuries(stays, rng)]
    parts += _doses(stays, rate, rng)
    parts += [_procedures(stays, rng), _diagnoses(stays, rng)]
    parts += _repeated_hours(stays)
    events = pd.concat(parts, ignore_index=True)
    events = events[events["time"] < horizon]
    is_of_stay = ~events["code"].isin([BIRTH, SEX])
    events["time"] = events["time"].where(~is_of_stay, _never_midnight(events["time"]))
    events = _merge_two(events, stays, people)
    return sorted_events(events)


def sorted_events(events: pd.DataFrame) -> pd.DataFrame:
    """Return events with the columns and types of the long table, in a total order."""
    events = events.reindex(columns=COLUMNS)
    for name in ("time", "known_since"):
        events[name] = events[name].astype("datetime64[us]")
    for name in ("subject", "stay", "code", "unit", "text"):
        events[name] = events[name].astype(object).where(events[name].notna(), None)
    events["value"] = events["value"].astype(float)
    order = ["time", "subject", "code", "known_since", "value", "text", "stay", "unit"]
    return events.sort_values(order, ignore_index=True)


def _make_people(patients: int, rng: np.random.Generator) -> pd.DataFrame:
    born = pd.Timestamp("1928-01-01") + pd.to_timedelta(
        rng.integers(0, 80 * 365, patients), unit="D"
    )
    return pd.DataFrame(
        {
            "subject": [str(100_001 + number) for number in range(patients)],
            "birth": born,
            "sex": rng.choice(["female", "male"], patients),
            "frailty": rng.normal(0, 0.4, patients),
        }
    )


def _make_stays(
    people: pd.DataFrame, horizon: pd.Timestamp, rng: np.random.Generator
) -> pd.DataFrame:
    """Return stays that do not overlap, none after a death."""
    rows = np.repeat(np.arange(len(people)), 1 + rng.poisson(1.5, len(people)))
    span = (horizon - START) / pd.Timedelta(hours=1)
    hours = rng.uniform(0, span, len(rows))
    length = 6 + rng.gamma(1.4, 90, len(rows))
    stays = people.iloc[rows].reset_index(drop=True)
    stays["start"] = START + _whole_minutes(hours)
    stays["end"] = stays["start"] + _whole_minutes(length)
    stays["died"] = rng.random(len(rows)) < 0.03
    stays = stays.sort_values(["subject", "start"], ignore_index=True)
    by_patient = stays.groupby("subject")
    before = by_patient["end"].cummax().groupby(stays["subject"]).shift()
    dead = by_patient["died"].cummax().groupby(stays["subject"]).shift(fill_value=False)
    is_kept = ~(before >= stays["start"]) & ~dead.astype(bool)
    stays = stays[is_kept].reset_index(drop=True)
    stays = stays.sort_values("start", ignore_index=True)
    stays["stay"] = [str(500_001 + number) for number in range(len(stays))]
    stays["injured"] = rng.random(len(stays)) < 0.08 * np.exp(stays["frailty"])
    stays["days"] = (stays["end"] - stays["start"]) / pd.Timedelta(days=1)
    return stays


def _whole_minutes(hours: np.ndarray) -> pd.TimedeltaIndex:
    return pd.to_timedelta(
        np.round(np.asarray(hours) * 60).astype(np.int64), unit="min"
    )


def _never_midnight(time: pd.Series) -> pd.Series:
    """Return times, those at midnight a minute later: OMOP has midnight for a day."""
    return time.where(time != time.dt.normalize(), time + pd.Timedelta(minutes=1))


def _people_events(people: pd.DataFrame) -> pd.DataFrame:
    midnight = people["birth"].dt.tz_localize(
        ZONE, ambiguous=True, nonexistent="shift_forward"
    )
    time = midnight.dt.tz_convert("UTC").dt.tz_localize(None)
    births = pd.DataFrame({"subject": people["subject"], "time": time, "code": BIRTH})
    sexes = births.assign(code=SEX, text=people["sex"])
    return pd.concat([births, sexes])


def _stay_events(
    stays: pd.DataFrame, horizon: pd.Timestamp, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    keys = stays[["subject", "stay"]]
    yield keys.assign(time=stays["start"], code=ADMISSION)
    first = rng.choice(WARDS, len(stays), p=(0.4, 0.3, 0.2, 0.1))
    yield keys.assign(time=stays["start"], code=TRANSFER, text=first)
    moved = stays[rng.random(len(stays)) < 0.3]
    spent = rng.uniform(0.05, 0.95, len(moved)) * moved["days"] * 24
    ward = np.where(moved["injured"], "ICU", rng.choice(WARDS, len(moved)))
    yield moved[["subject", "stay"]].assign(
        time=moved["start"] + _whole_minutes(spent), code=TRANSFER, text=ward
    )
    over = stays[stays["end"] < horizon]
    ended = over[["subject", "stay"]].assign(time=over["end"], code=DISCHARGE)
    yield ended.assign(text=np.where(over["died"], "exp", "home"))
    died = over[over["died"]]
    yield died[["subject"]].assign(time=died["end"], code=DEATH)


def _drawn(
    stays: pd.DataFrame, a_day: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return stays, repeated for each of their events, and the share of the stay."""
    often = rng.poisson(a_day * stays["days"])
    drawn = stays.iloc[np.repeat(np.arange(len(stays)), often)]
    return drawn.reset_index(drop=True), rng.uniform(0, 1, int(often.sum()))


def _timed(drawn: pd.DataFrame, share: np.ndarray) -> pd.DataFrame:
    time = drawn["start"] + _whole_minutes(share * drawn["days"] * 24)
    return drawn[["subject", "stay"]].assign(time=time)


def _known_later(time: pd.Series, rng: np.random.Generator) -> pd.Series:
    """Return when results are known: within hours, some days later."""
    hours = rng.exponential(1.0, len(time))
    hours = np.where(
        rng.random(len(time)) < 0.03, rng.uniform(12, 60, len(time)), hours
    )
    return time + _whole_minutes(hours)


def _results(
    stays: pd.DataFrame, rate: float, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    for (
        code,
        a_day,
        centre,
        spread,
        decimals,
        unit,
        other,
        unit_2,
        factor,
        offset,
    ) in NUMBERS:
        drawn, share = _drawn(stays, a_day * rate, rng)
        own = rng.normal(0, 0.7, len(stays))[drawn["stay"].astype(int) - 500_001]
        rises = 1.2 * drawn["injured"] * share if code == "LOINC/2160-0" else 0
        noise = own + rng.normal(0, 0.5, len(drawn)) + drawn["frailty"]
        value = centre * np.exp(spread * noise + rises)
        is_other = rng.random(len(drawn)) < 0.3
        in_other = np.round(value * factor + offset, 2)
        results = _timed(drawn, share).assign(
            code=np.where(is_other, other, code),
            value=np.where(is_other, in_other, np.round(value, decimals)),
            unit=np.where(is_other, unit_2, unit),
        )
        results["known_since"] = _known_later(results["time"], rng)
        yield results
        yield from _later_versions(results, rng)


def _later_versions(
    results: pd.DataFrame, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    """Yield versions of results that came twice, corrected or withdrawn."""
    fate = rng.random(len(results))
    later = results["known_since"] + _whole_minutes(rng.uniform(1, 72, len(results)))
    yield results[fate < 0.01]
    is_corrected = (fate >= 0.01) & (fate < 0.03)
    corrected = results[is_corrected].assign(known_since=later[is_corrected])
    yield corrected.assign(value=(corrected["value"] * 1.25).round(2))
    is_withdrawn = (fate >= 0.03) & (fate < 0.034)
    withdrawn = results[is_withdrawn].assign(known_since=later[is_withdrawn])
    yield withdrawn.assign(value=np.nan, unit=None, text=WITHDRAWN)


def _repeated_hours(stays: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield results at 02:30 and at 02:30 again where the clock goes back."""
    for year in range(START.year, START.year + 3):
        october = pd.Timestamp(year, 10, 31)
        sunday = october - pd.Timedelta(days=(october.day_of_week + 1) % 7)
        for minutes, value in ((30, 3.9), (90, 5.3)):
            time = sunday + pd.Timedelta(minutes=minutes)
            here = stays[(stays["start"] < time) & (time < stays["end"])]
            results = here[["subject", "stay"]].assign(time=time, value=value)
            yield results.assign(
                code="LOINC/2823-3",
                unit="mmol/L",
                known_since=time + pd.Timedelta(minutes=20),
            )


def _cultures(stays: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    drawn, share = _drawn(stays, 0.08, rng)
    cultures = _timed(drawn, share).assign(code=CULTURE)
    cultures["text"] = rng.choice(["positive", "negative"], len(drawn), p=(0.2, 0.8))
    hours = rng.uniform(24, 72, len(drawn))
    cultures["known_since"] = cultures["time"] + _whole_minutes(hours)
    return cultures


def _kidney_injuries(
    stays: pd.DataFrame, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    injured = stays[stays["injured"]]
    share = rng.uniform(0.4, 0.95, len(injured))
    events = _timed(injured, share).assign(code=KIDNEY_INJURY)
    events["known_since"] = _known_later(events["time"], rng)
    yield events


def _doses(
    stays: pd.DataFrame, rate: float, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    for code, a_day, dose, unit in DRUGS:
        drawn, share = _drawn(stays, a_day * rate, rng)
        given = rng.choice([0.5, 1.0, 2.0], len(drawn)) * dose
        doses = _timed(drawn, share).assign(code=code, value=given, unit=unit)
        yield doses.assign(known_since=doses["time"] + pd.Timedelta(minutes=5))


def _procedures(stays: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    parts = []
    for code, a_day in PROCEDURES:
        done = _timed(*_drawn(stays, a_day, rng)).assign(code=code)
        parts.append(done.assign(known_since=_known_later(done["time"], rng)))
    return pd.concat(parts)


def _diagnoses(stays: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return diagnoses that are entered at the discharge or days after it."""
    coded = stays.iloc[np.repeat(np.arange(len(stays)), 2)]
    time = coded["end"]
    return (
        coded[["subject", "stay"]]
        .assign(
            time=time,
            code=rng.choice(DIAGNOSES, len(coded)),
            known_since=time + _whole_minutes(rng.exponential(48, len(coded))),
        )
        .drop_duplicates(["subject", "stay", "code"])
    )


def _merge_two(
    events: pd.DataFrame, stays: pd.DataFrame, people: pd.DataFrame
) -> pd.DataFrame:
    """Give two patients another number until their second stay."""
    order = stays.sort_values(["subject", "start"])
    seconds = order[order.groupby("subject").cumcount() == 1].head(2)
    added = []
    for number, second in zip(count(900_001), seconds.itertuples()):
        mine = order[order["subject"] == second.subject]
        old = str(number)
        is_first = events["stay"] == mine["stay"].iloc[0]
        events.loc[is_first, "subject"] = old
        is_person = (events["subject"] == second.subject) & events["code"].isin(
            [BIRTH, SEX]
        )
        added.append(events[is_person].assign(subject=old))
        merged = {
            "subject": old,
            "time": second.start + pd.Timedelta(hours=30),
            "code": MERGED,
            "text": second.subject,
        }
        added.append(pd.DataFrame([merged]))
    return pd.concat([events, *added], ignore_index=True)


# Formats.


def write_long(events: pd.DataFrame, folder: Path) -> None:
    """Write the long table: events.parquet, times in UTC."""
    _write(events, folder / "events.parquet")


def _write(frame: pd.DataFrame, path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)


MEDS_CODES = {BIRTH: "MEDS_BIRTH", DEATH: "MEDS_DEATH"}


def write_meds(events: pd.DataFrame, folder: Path) -> None:
    """Write data/0.parquet as MEDS 0.4 has it, sorted by subject and time.

    MEDS allows more columns: `stay_id`, `known_since` and `unit`.
    """
    table = pd.DataFrame(
        {
            "subject_id": events["subject"].astype(np.int64),
            "time": events["time"],
            "code": events["code"].replace(MEDS_CODES),
            "numeric_value": events["value"].astype(np.float32),
            "text_value": events["text"],
            "stay_id": pd.array(events["stay"], "Int64"),
            "known_since": events["known_since"],
            "unit": events["unit"],
        }
    )
    (folder / "data").mkdir()
    table = table.sort_values(["subject_id", "time"], kind="stable")
    _write(table, folder / "data" / "0.parquet")


# Numbers of concepts: those of OMOP for sexes and visits, own ones above 2 billion
# for codes, as the CDM has it.
SEX_CONCEPTS = {"male": 8507, "female": 8532}
INPATIENT, EHR = 9201, 32817
CODES_FROM = 2_000_000_001
MERGED_CODE = "Hospital/merged-into"


def domain_of(code: str) -> str:
    """Return the OMOP domain of a code of the made hospital."""
    if code in (CULTURE, MERGED_CODE):
        return "Observation"
    if code in {procedure for procedure, _ in PROCEDURES}:
        return "Procedure"
    vocabulary = code.partition("/")[0]
    return {"LOINC": "Measurement", "RxNorm": "Drug"}.get(vocabulary, "Condition")


def write_omop(events: pd.DataFrame, folder: Path) -> None:
    """Write the tables of OMOP CDM 5.4 as Parquet, one file each, times in UTC.

    The clinical tables have one more column, `known_since`. A merge is an observation
    `Hospital/merged-into`, whose text is the patient's number from then on.
    """
    events = events.replace({"code": {MERGED: MERGED_CODE}})
    is_coded = ~events["code"].isin(RESERVED)
    coded, reserved = events[is_coded], events[~is_coded]
    for name, table in {
        **_omop_people(reserved),
        **_omop_visits(reserved),
        **_omop_coded(coded),
    }.items():
        _write(table, folder / f"{name}.parquet")


def _number(texts: pd.Series) -> pd.Series:
    return pd.Series(pd.array(texts, "Int64"), index=texts.index)


def _omop_people(events: pd.DataFrame) -> dict[str, pd.DataFrame]:
    births = events[events["code"] == BIRTH].set_index("subject")["time"]
    sexes = events[events["code"] == SEX].set_index("subject")["text"]
    person = pd.DataFrame({"birth_datetime": births})
    person["gender_concept_id"] = sexes.map(SEX_CONCEPTS).fillna(0).astype(int)
    local = births.dt.tz_localize("UTC").dt.tz_convert(ZONE)
    person["year_of_birth"] = local.dt.year
    person["month_of_birth"] = local.dt.month
    person["day_of_birth"] = local.dt.day
    person = person.reset_index(names="person_id")
    person["person_id"] = _number(person["person_id"])
    died = events[events["code"] == DEATH]
    death = pd.DataFrame(
        {
            "person_id": _number(died["subject"]),
            "death_date": died["time"].dt.date,
            "death_datetime": died["time"],
            "death_type_concept_id": EHR,
        }
    )
    return {"person": person, "death": death}


def _omop_visits(events: pd.DataFrame) -> dict[str, pd.DataFrame]:
    ends = events[events["code"] == DISCHARGE].set_index("stay")
    begun = events[events["code"] == ADMISSION]
    end = begun["stay"].map(ends["time"])
    visits = pd.DataFrame(
        {
            "visit_occurrence_id": _number(begun["stay"]),
            "person_id": _number(begun["subject"]),
            "visit_concept_id": INPATIENT,
            "visit_start_date": begun["time"].dt.date,
            "visit_start_datetime": begun["time"],
            "visit_end_date": end.dt.date,
            "visit_end_datetime": end,
            "visit_type_concept_id": EHR,
            "discharged_to_source_value": begun["stay"].map(ends["text"]),
        }
    )
    wards = events[events["code"] == TRANSFER].sort_values(["stay", "time"])
    until = wards.groupby("stay")["time"].shift(-1)
    until = until.fillna(wards["stay"].map(ends["time"]))
    details = pd.DataFrame(
        {
            "visit_detail_id": np.arange(len(wards)) + 1,
            "person_id": _number(wards["subject"]),
            "visit_detail_concept_id": INPATIENT,
            "visit_detail_start_date": wards["time"].dt.date,
            "visit_detail_start_datetime": wards["time"],
            "visit_detail_end_date": until.dt.date,
            "visit_detail_end_datetime": until,
            "visit_detail_type_concept_id": EHR,
            "care_site_id": wards["text"].map(WARDS.index).astype(int) + 1,
            "visit_occurrence_id": _number(wards["stay"]),
        }
    )
    sites = {"care_site_id": np.arange(len(WARDS)) + 1, "care_site_name": WARDS}
    return {
        "visit_occurrence": visits,
        "visit_detail": details,
        "care_site": pd.DataFrame(sites),
    }


def _omop_coded(events: pd.DataFrame) -> dict[str, pd.DataFrame]:
    codes = sorted(set(events["code"]))
    numbers = {code: CODES_FROM + place for place, code in enumerate(codes)}
    events = events.assign(concept=events["code"].map(numbers))
    domain = events["code"].map(domain_of)
    tables = {
        "measurement": _omop_table(events[domain == "Measurement"], "measurement"),
        "observation": _omop_table(events[domain == "Observation"], "observation"),
        "drug_exposure": _omop_table(events[domain == "Drug"], "drug"),
        "condition_occurrence": _omop_table(events[domain == "Condition"], "condition"),
        "procedure_occurrence": _omop_table(events[domain == "Procedure"], "procedure"),
    }
    tables["concept"] = pd.DataFrame(
        {
            "concept_id": [numbers[code] for code in codes],
            "concept_name": codes,
            "domain_id": [domain_of(code) for code in codes],
            "vocabulary_id": [code.partition("/")[0] for code in codes],
            "concept_code": [code.partition("/")[2] for code in codes],
        }
    )
    return tables


def _omop_table(events: pd.DataFrame, word: str) -> pd.DataFrame:
    """Return a clinical table, whose columns begin with the word of its domain."""
    long = word if word in ("measurement", "observation") else ""
    key = {"drug": "drug_exposure"}.get(word, long or f"{word}_occurrence")
    start = {"drug": "drug_exposure_start", "condition": "condition_start"}.get(
        word, word
    )
    table = pd.DataFrame(
        {
            f"{key}_id": np.arange(len(events)) + 1,
            "person_id": _number(events["subject"]),
            f"{word}_concept_id": events["concept"],
            f"{start}_date": events["time"].dt.date,
            f"{start}_datetime": events["time"],
            f"{word}_type_concept_id": EHR,
            "visit_occurrence_id": _number(events["stay"]),
            "known_since": events["known_since"],
        }
    )
    if word == "measurement":
        table["value_as_number"] = events["value"]
        table["unit_source_value"] = events["unit"]
        table["value_source_value"] = events["text"]
    elif word == "observation":
        table["value_as_string"] = events["text"]
    elif word == "drug":
        table["quantity"] = events["value"]
        table["dose_unit_source_value"] = events["unit"]
    return table


SYSTEMS = {
    "LOINC": "http://loinc.org",
    "SNOMED": "http://snomed.info/sct",
    "RxNorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
}


def write_fhir(events: pd.DataFrame, folder: Path) -> None:
    """Write FHIR R4 resources as NDJSON, one file a type, with the hospital's clock."""
    events = events.assign(
        local=_local_text(events["time"]), since=_local_text(events["known_since"])
    )
    _write_lines(_fhir_patients(events), folder / "Patient.ndjson")
    _write_lines(_fhir_encounters(events), folder / "Encounter.ndjson")
    coded = _numbered_versions(events[~events["code"].isin(RESERVED)])
    domain = coded["code"].map(domain_of)
    for name, (domains, resource_of) in FHIR_RESOURCES.items():
        rows = coded[domain.isin(domains)].itertuples()
        resources = ({"resourceType": name} | resource_of(row) for row in rows)
        _write_lines(resources, folder / f"{name}.ndjson")


def _local_text(times: pd.Series) -> pd.Series:
    """Return times on the hospital's clock, with its offset."""
    local = times.dt.tz_localize("UTC").dt.tz_convert(ZoneInfo(ZONE))
    return local.map(lambda time: time.isoformat(), na_action="ignore").astype(object)


def _write_lines(resources: Iterator[dict], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for resource in resources:
            file.write(json.dumps(resource, separators=(",", ":")) + "\n")


def _fhir_patients(events: pd.DataFrame) -> Iterator[dict]:
    people = events[events["code"].isin([BIRTH, SEX, DEATH, MERGED])]
    for subject, rows in people.groupby("subject"):
        by_code = rows.set_index("code")
        patient = {"resourceType": "Patient", "id": subject}
        patient["gender"] = by_code.loc[SEX, "text"]
        patient["birthDate"] = by_code.loc[BIRTH, "local"][:10]
        if DEATH in by_code.index:
            patient["deceasedDateTime"] = by_code.loc[DEATH, "local"]
        if MERGED in by_code.index:
            merged = by_code.loc[MERGED]
            other = {"reference": f"Patient/{merged['text']}"}
            patient["meta"] = {"lastUpdated": merged["local"]}
            patient["link"] = [{"other": other, "type": "replaced-by"}]
        yield patient


def _fhir_encounters(events: pd.DataFrame) -> Iterator[dict]:
    kinds = [ADMISSION, TRANSFER, DISCHARGE]
    for stay, rows in events[events["code"].isin(kinds)].groupby("stay"):
        ended = rows[rows["code"] == DISCHARGE]
        period = {"start": rows.loc[rows["code"] == ADMISSION, "local"].iloc[0]}
        encounter = {
            "resourceType": "Encounter",
            "id": stay,
            "status": "in-progress" if ended.empty else "finished",
            "class": {"code": "IMP"},
            "subject": {"reference": f"Patient/{rows['subject'].iloc[0]}"},
            "period": period,
        }
        if not ended.empty:
            period["end"] = ended["local"].iloc[0]
            disposition = {"coding": [{"code": ended["text"].iloc[0]}]}
            encounter["hospitalization"] = {"dischargeDisposition": disposition}
        wards = rows[rows["code"] == TRANSFER]
        encounter["location"] = [
            {"location": {"display": ward}, "period": {"start": start}}
            for ward, start in zip(wards["text"], wards["local"], strict=True)
        ]
        yield encounter


def _numbered_versions(events: pd.DataFrame) -> pd.DataFrame:
    """Return events with the id of their resource: versions of a result share it.

    A result that is there twice has two.
    """
    key = ["subject", "stay", "code", "time"]
    number = events.groupby(key, dropna=False).ngroup()
    twin = events.groupby([number, "known_since"], dropna=False).cumcount()
    first = events.groupby([number, twin])["known_since"].transform("min")
    return events.assign(
        id=number.astype(str) + "-" + twin.astype(str),
        is_first=(first == events["known_since"]) | events["known_since"].isna(),
    )


def _fhir_shared(row: tuple, concept: str = "code") -> dict:
    """Return what all resources with a code have."""
    vocabulary, _, code = row.code.partition("/")
    coding = {"system": SYSTEMS.get(vocabulary, vocabulary), "code": code}
    shared = {"id": row.id, "subject": {"reference": f"Patient/{row.subject}"}}
    shared[concept] = {"coding": [coding]}
    if row.stay:
        shared["encounter"] = {"reference": f"Encounter/{row.stay}"}
    if isinstance(row.since, str):
        shared["meta"] = {"lastUpdated": row.since}
    return shared


def _fhir_observation(row: tuple) -> dict:
    resource = _fhir_shared(row) | {"status": "final" if row.is_first else "corrected"}
    resource["effectiveDateTime"] = row.local
    if isinstance(row.since, str):
        resource["issued"] = row.since
    if row.text == WITHDRAWN:
        resource["status"] = "entered-in-error"
    elif row.text is not None:
        resource["valueString"] = row.text
    elif not np.isnan(row.value):
        resource["valueQuantity"] = _quantity(row)
    return resource


def _quantity(row: tuple) -> dict:
    coded = {"system": "http://unitsofmeasure.org", "code": row.unit}
    unit = coded if row.unit else {}
    return {"value": row.value} | unit


def _fhir_condition(row: tuple) -> dict:
    resource = _fhir_shared(row) | {"onsetDateTime": row.local}
    if isinstance(row.since, str):
        resource["recordedDate"] = row.since
    return resource


def _fhir_administration(row: tuple) -> dict:
    resource = _fhir_shared(row, "medicationCodeableConcept")
    resource |= {"status": "completed", "effectiveDateTime": row.local}
    if "encounter" in resource:
        resource["context"] = resource.pop("encounter")
    if not np.isnan(row.value):
        resource["dosage"] = {"dose": _quantity(row)}
    return resource


def _fhir_procedure(row: tuple) -> dict:
    return _fhir_shared(row) | {"status": "completed", "performedDateTime": row.local}


FHIR_RESOURCES: dict[str, tuple[tuple[str, ...], Callable[..., dict]]] = {
    "Observation": (("Measurement", "Observation"), _fhir_observation),
    "Condition": (("Condition",), _fhir_condition),
    "MedicationAdministration": (("Drug",), _fhir_administration),
    "Procedure": (("Procedure",), _fhir_procedure),
}
WRITERS = {
    "long": write_long,
    "meds": write_meds,
    "omop": write_omop,
    "fhir": write_fhir,
}


def write_hospital(events: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """Write events in all formats, one folder each; return the folders by format."""
    folders = {name: folder / name for name in WRITERS}
    for name, write in WRITERS.items():
        folders[name].mkdir(parents=True)
        write(events, folders[name])
    return folders


def main() -> None:
    """Make a hospital and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--years", type=float, default=3)
    parser.add_argument("--rate", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    events = make_events(options.patients, options.years, options.seed, options.rate)
    print(f"{len(events):,} events of {events['subject'].nunique():,} patients")
    for name, folder in write_hospital(events, options.out).items():
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{name}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
