"""Exports over nights: what is new, changed and ended, on a FHIR server with state, in
OMOP and CSV.
"""

import csv
from dataclasses import replace

import pandas as pd
import pytest
from fhir_server import FhirServer
from flow_cohorts import patients
from typer.testing import CliRunner
from written_files import read_json

from screening import MaxFlagRate, export, score
from screening.cli import app
from screening.errors import UsageError
from screening.ledger.database import open_ledger
from screening.ledger.merge_tables import merge_numbers
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.scoring.exports import fhir

DATES = ("2026-03-01", "2026-03-02")
ILL = [41.0, 90.0]
WELL = [36.0, 1.0]


@pytest.fixture(scope="module")
def model(cohort, trained):
    # An export to OMOP needs to know that an id is a person.
    contract = cohort.contract.model_copy(update={"id_is_person": True})
    return trained(
        replace(cohort, contract=contract), "logistic", search=1, rule=MaxFlagRate(0.3)
    )


class Ward:
    """A ward whose nights are scored and exported."""

    def __init__(self, model, folder):
        self.model = model
        self.folder = folder
        self.ledger = str(folder / "screening.db")

    def night(
        self,
        day,
        ill,
        left=(),
        name=None,
        odd=(),
        renamed=(),
        **options,
    ):
        """Score a night on which some of twelve patients are ill, some have left, and
        some have a temperature that nobody can have.
        """
        table = patients(12, seed=7)
        table["patient"] = [str(i) for i in range(1, 13)]
        is_ill = table["patient"].isin(ill)
        table.loc[is_ill, ["fever", "crp"]] = ILL
        table.loc[~is_ill, ["fever", "crp"]] = WELL
        is_odd = table["patient"].isin(odd)
        table.loc[is_odd, "fever"] = 400.0
        table = table[~table["patient"].isin(left)]
        table["patient"] = table["patient"].replace(dict(renamed))
        ill = [dict(renamed).get(name, name) for name in ill]
        out = self.folder / "runs" / (name or str(day))
        with open_ledger(self.ledger, make=True) as ledger:
            run = score(
                self.model,
                table,
                out,
                date=f"2026-03-{day:02}",
                ledger=ledger,
                accept_delivery="a made ward",
                **options,
            )
        flagged = pd.read_csv(out / "flagged.csv", dtype=str)["id"]
        assert set(flagged) == set(ill)
        return run

    def judge(self, run, patient, verdict):
        """Record a verdict on a case of a run."""
        with open_ledger(self.ledger) as ledger:
            key = run.document["ledger"]["key"]
            record_verdicts(ledger, key, [Verdict(patient, verdict)])

    def export(self, run, to, name, *words):
        """Export a run, and return the place."""
        out = self.folder / name
        arguments = ["export", run.directory, "--to", to, "--out", out, *words]
        answer = CliRunner().invoke(app, [str(word) for word in arguments])
        assert answer.exit_code == 0, answer.output
        return out


@pytest.fixture
def ward(model, tmp_path):
    return Ward(model, tmp_path)


def validated(file):
    """Return a bundle's text, which fhir.resources accepts as R4B."""
    r4 = pytest.importorskip("fhir.resources.R4B.bundle", reason="needs fhir.resources")
    r4.Bundle.model_validate_json(file.read_bytes())
    return file.read_text(encoding="utf-8")


def sent(server, file):
    """Apply a bundle twice; the second time nothing changes."""
    text = validated(file)
    server.transaction(text)
    versions = server.n_versions()
    statuses = server.transaction(text)
    assert set(statuses) <= {200}
    assert server.n_versions() == versions


def statuses(server, kind, patient):
    return [resource["status"] for resource in server.of_patient(kind, patient)]


def resources_of(file, patient):
    """Return a patient's resources in a bundle."""
    found = []
    for entry in read_json(file)["entry"]:
        resource = entry["resource"]
        subject = resource.get("subject") or resource.get("for")
        if subject and subject["identifier"]["value"] == patient:
            found.append(resource)
    return found


def kinds_of(file, patient):
    """Return the types of a patient's resources in a bundle."""
    return [resource["resourceType"] for resource in resources_of(file, patient)]


def test_fhir_three_nights(ward):
    """Who stays keeps one Flag, who goes has it ended with the reason, who comes back
    has it open again.
    """
    server = FhirServer()
    first = ward.night(1, ["1", "2", "3"])
    sent(server, ward.export(first, "fhir", "1.json"))
    second = ward.night(2, ["1", "4"], left=["3"])
    since = ["--since", ward.folder / "1.json"]
    sent(server, ward.export(second, "fhir", "2.json", *since))

    assert len(server.newest("Flag")) == 4
    assert len(server.newest("RiskAssessment")) == 4
    assert len(server.newest("Device")) == 1
    [stays] = server.of_patient("Flag", "1")
    assert stays["status"] == "active"
    assert stays["period"] == {"start": "2026-03-01"}
    [below] = server.of_patient("Flag", "2")
    assert below["status"] == "inactive"
    assert below["period"] == {"start": "2026-03-01", "end": "2026-03-02"}
    assert "no longer flagged" in below["code"]["text"]
    [left] = server.of_patient("Flag", "3")
    assert left["status"] == "inactive"
    assert "no row" in left["code"]["text"]
    [task] = server.of_patient("Task", "2")
    assert task["status"] == "cancelled"
    assert task["statusReason"] == {"text": "no longer flagged"}
    [comes] = server.of_patient("Flag", "4")
    assert comes["period"] == {"start": "2026-03-02"}

    third = ward.night(3, ["2", "4"])
    since = ["--since", ward.folder / "2.json"]
    sent(server, ward.export(third, "fhir", "3.json", *since))

    assert len(server.newest("Flag")) == 4
    [back] = server.of_patient("Flag", "2")
    assert back["status"] == "active"
    assert back["period"] == {"start": "2026-03-03"}
    assert statuses(server, "Task", "2") == ["cancelled", "requested"]
    assert statuses(server, "Flag", "1") == ["inactive"]
    [unchanged] = [
        len(history)
        for history in server.versions.values()
        if history[-1] == server.of_patient("Flag", "4")[0]
    ]
    assert unchanged == 1


def test_fhir_corrected_table(ward):
    """Who was flagged by a table that was wrong has a Flag entered in error, or one
    that ended.
    """
    server = FhirServer()
    first = ward.night(1, ["1", "5"])
    sent(server, ward.export(first, "fhir", "1.json"))
    wrong = ward.night(2, ["1", "2", "5"])
    since_first = ["--since", ward.folder / "1.json"]
    sent(server, ward.export(wrong, "fhir", "2.json", *since_first))
    right = ward.night(2, ["1", "3"], name="corrected", replace="wrong units")
    since_wrong = ["--since", ward.folder / "2.json"]
    corrected = ward.export(right, "fhir", "2b.json", *since_wrong)
    sent(server, corrected)

    [error] = server.of_patient("Flag", "2")
    assert error["status"] == "entered-in-error"
    assert "the table was corrected" in error["code"]["text"]
    assert statuses(server, "RiskAssessment", "2") == ["entered-in-error"]
    assert statuses(server, "Flag", "5") == ["inactive"]
    assert statuses(server, "Flag", "1") == ["active"]
    assert statuses(server, "Flag", "3") == ["active"]

    again = ward.export(right, "fhir", "2c.json", "--since", corrected)
    versions = server.n_versions()
    sent(server, again)
    assert server.n_versions() == versions


def test_fhir_verdicts(ward):
    """A case that was ruled out ends, once; one that was confirmed is done and stays
    open.
    """
    server = FhirServer()
    first = ward.night(1, ["1", "2", "3"])
    sent(server, ward.export(first, "fhir", "1.json"))
    ward.judge(first, "1", "ruled out")
    ward.judge(first, "2", "confirmed")
    for day in (2, 3):
        run = ward.night(day, ["1", "2", "3"])
        since = ["--since", ward.folder / f"{day - 1}.json"]
        sent(server, ward.export(run, "fhir", f"{day}.json", *since))

    [ruled_out] = server.of_patient("Flag", "1")
    assert ruled_out["status"] == "inactive"
    assert ruled_out["period"] == {"start": "2026-03-01", "end": "2026-03-02"}
    assert "ruled out by review" in ruled_out["code"]["text"]
    [done] = server.of_patient("Task", "1")
    assert done["status"] == "completed"
    assert done["output"][0]["valueString"] == "ruled out"
    assert statuses(server, "Flag", "2") == ["active"]
    assert statuses(server, "Task", "2") == ["completed"]
    assert statuses(server, "Task", "3") == ["requested"]


def test_fhir_lost_bundle(ward, monkeypatch):
    """A bundle that was never sent does no harm: the next ones repeat what has
    ended.
    """
    server = FhirServer()
    ill = {1: ["1", "2"], 2: ["1"], 3: ["1"]}
    since = []
    for day, names in ill.items():
        run = ward.night(day, names)
        file = ward.export(run, "fhir", f"{day}.json", *since)
        since = ["--since", file]
        if day != 2:
            sent(server, file)

    assert statuses(server, "Flag", "2") == ["inactive"]
    late = ward.night(31, ["1"])
    bundle = ward.export(late, "fhir", "31.json", *since)
    assert kinds_of(bundle, "2")
    monkeypatch.setattr(fhir, "REPEATED_DAYS", 20)
    bundle = ward.export(late, "fhir", "31b.json", *since)
    assert not kinds_of(bundle, "2")


def test_fhir_security_and_device(ward):
    """All about a patient is marked as asserted by AI, of a Device with its version."""
    run = ward.night(1, ["1", "2"])
    server = FhirServer()
    sent(server, ward.export(run, "fhir", "1.json"))
    model = run.document["model"]

    for kind in ("RiskAssessment", "Flag", "Task"):
        for resource in server.newest(kind).values():
            codes = [label["code"] for label in resource["meta"]["security"]]
            assert codes == ["AIAST"]
    [(place, device)] = server.newest("Device").items()
    assert device["modelNumber"] == model["id"]
    versions = [version["value"] for version in device["version"]]
    assert model["digest"] in versions
    flags = server.newest("Flag").values()
    assert {flag["author"]["reference"] for flag in flags} == {place}
    entries = read_json(ward.folder / "1.json")["entry"]
    for entry in entries:
        assert "urn%3Auuid" in entry["request"]["url"]


def test_fhir_since_run(ward):
    """In place of a bundle its run directory is enough to end what has ended."""
    first = ward.night(1, ["1", "2"])
    second = ward.night(2, ["1"])
    server = FhirServer()
    sent(server, ward.export(first, "fhir", "1.json"))
    since = ["--since", first.directory]
    sent(server, ward.export(second, "fhir", "2.json", *since))
    assert statuses(server, "Flag", "2") == ["inactive"]
    assert statuses(server, "Flag", "1") == ["active"]


@pytest.mark.parametrize("to", ["fhir", "csv", "omop"])
def test_since_refused(ward, to):
    """What is no earlier export, or one of a later night, is refused."""
    first = ward.night(1, ["1", "2"])
    second = ward.night(2, ["1"])
    later = ward.export(second, to, "later")
    other = ward.folder / "other"
    other.write_text("a,b\n1,2\n")
    for since, words in ((later, "after the night"), (other, "is neither")):
        arguments = ["export", first.directory, "--to", to, "--since", since]
        arguments += ["--out", ward.folder / "refused"]
        answer = CliRunner().invoke(app, [str(word) for word in arguments])
        assert answer.exit_code == 2
        assert words in answer.output
    assert not (ward.folder / "refused").exists()


def changes_in(file):
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        return {row["id"]: (row["change"], row["reason"]) for row in rows}


def test_csv_since(ward):
    """Each row says if its patient is new, changed or the same; who is gone is listed
    last.
    """
    first = ward.night(1, ["1", "2", "3"])
    second = ward.night(2, ["1", "4"], left=["3"])
    plain = ward.export(first, "csv", "1.csv")
    for since in (plain, first.directory):
        out = ward.export(second, "csv", f"2-{since.name}.csv", "--since", since)
        assert changes_in(out) == {
            "1": ("changed", ""),
            "4": ("new", ""),
            "2": ("ended", "no longer flagged"),
            "3": ("ended", "no row in the table"),
        }
    again = ward.export(second, "csv", "again.csv", "--since", out)
    unchanged = ("same", "")
    assert changes_in(again) == {"1": unchanged, "4": unchanged}


def rows_of(folder, name):
    with (folder / name).open(encoding="utf-8", newline="") as lines:
        _, *rows = csv.reader(lines)
        return [tuple(row) for row in rows]


def test_omop_since(ward):
    """Who stays in the cohort has a later end, who is gone keeps the end, who returns
    has a new row.
    """
    first = ward.night(1, ["1", "2"])
    second = ward.night(2, ["1", "4"])
    third = ward.night(3, ["2", "4"])
    ward.export(first, "omop", "1")
    ward.export(second, "omop", "2", "--since", ward.folder / "1")
    since_second = ["--since", ward.folder / "2"]
    out = ward.export(third, "omop", "3", *since_second)

    assert rows_of(out, "cohort.csv") == [
        ("1", "1", "2026-03-01", "2026-03-02"),
        ("1", "2", "2026-03-01", "2026-03-01"),
        ("1", "2", "2026-03-03", "2026-03-03"),
        ("1", "4", "2026-03-02", "2026-03-03"),
    ]
    assert sorted(rows_of(out, "changes.csv")) == [
        ("1", "1", "2026-03-01", "2026-03-02", "ended", "no longer flagged"),
        ("1", "2", "2026-03-03", "2026-03-03", "new", ""),
        ("1", "4", "2026-03-02", "2026-03-03", "changed", ""),
    ]
    [definition] = rows_of(out, "cohort_definition.csv")
    assert definition[-1] == "2026-03-01"


def test_omop_since_run(ward):
    """In place of an export its run directory is enough."""
    first = ward.night(1, ["1", "2"])
    second = ward.night(2, ["1"])
    made = ward.export(first, "omop", "1")

    by_export = ward.export(second, "omop", "2", "--since", made)
    by_run = ward.export(second, "omop", "again", "--since", first.directory)

    for name in ("cohort.csv", "changes.csv"):
        assert rows_of(by_run, name) == rows_of(by_export, name)


def test_exports_follow_a_merge(ward):
    """With the ledger a patient under another number is the same one, or the reason is
    that the number was merged.
    """
    first = ward.night(1, ["1", "2"])
    with open_ledger(ward.ledger) as ledger:
        merges = pd.DataFrame({"old": ["1"], "new": ["101"], "since": ["2026-03-02"]})
        merge_numbers(ledger, merges)
    second = ward.night(2, ["1"], renamed=[("1", "101")])
    with_ledger = ["--ledger", ward.ledger]
    for form in ("csv", "fhir", "omop"):
        ward.export(first, form, f"1.{form}", *with_ledger)

    listed, bundle, cohort = [
        ward.export(
            *(second, form, f"2.{form}"),
            *("--since", ward.folder / f"1.{form}", *with_ledger),
        )
        for form in ("csv", "fhir", "omop")
    ]

    assert changes_in(listed) == {
        "101": ("changed", ""),
        "2": ("ended", "no longer flagged"),
    }
    ended = {
        (row[1], row[5]) for row in rows_of(cohort, "changes.csv") if row[4] == "ended"
    }
    assert ended == {
        ("1", "the number was merged into another one"),
        ("2", "no longer flagged"),
    }
    texts = [
        resource["code"]["text"]
        for resource in resources_of(bundle, "1")
        if resource["resourceType"] == "Flag"
    ]
    assert len(texts) == 1
    assert "the number was merged into another one" in texts[0]


def test_omop_left_out(ward):
    """Who is flagged, but by a row with a value to be checked, leaves the cohort."""
    first = ward.night(1, ["1", "2"])
    second = ward.night(2, ["1", "2"], odd=["2"])
    ward.export(first, "omop", "1")
    out = ward.export(second, "omop", "2", "--since", ward.folder / "1")

    changes = rows_of(out, "changes.csv")
    gone = [row for row in changes if row[1] == "2"]
    assert [row[-2:] for row in gone] == [
        ("ended", "left out: a value is out of bounds")
    ]


def test_omop_corrected_table(ward):
    """Rows of a table that was wrong go, or end the day before."""
    first = ward.night(1, ["1", "5"])
    wrong = ward.night(2, ["1", "2", "5"])
    ward.export(first, "omop", "1")
    ward.export(wrong, "omop", "2", "--since", ward.folder / "1")
    right = ward.night(2, ["1"], name="corrected", replace="wrong units")
    out = ward.export(right, "omop", "2b", "--since", ward.folder / "2")

    assert rows_of(out, "cohort.csv") == [
        ("1", "1", "2026-03-01", "2026-03-02"),
        ("1", "5", "2026-03-01", "2026-03-01"),
    ]
    changes = rows_of(out, "changes.csv")
    reasons = {row[1]: row[4:] for row in changes}
    assert reasons == {
        "2": ("ended", "the table was corrected"),
        "5": ("ended", "the table was corrected"),
    }


@pytest.mark.parametrize("to", ["fhir", "omop"])
def test_since_of_another_series(ward, to):
    """The patients of another series would end in this one."""
    first = ward.night(1, ["1"], name="icu", series="icu")
    second = ward.night(2, ["1"], name="surgery", series="surgery")
    since = ward.export(first, to, "icu")

    answer = refused_export(ward, second, to, "--since", since)

    assert "belongs to" in answer
    assert "series" in answer


def test_omop_since_with_another_definition(ward):
    first = ward.night(1, ["1"])
    second = ward.night(2, ["1"])
    since = ward.export(first, "omop", "1", "--definition", "7")

    answer = refused_export(ward, second, "omop", "--since", since)

    assert "this export has other cohort_definition_ids" in answer


def test_fhir_device_of_an_earlier_model(ward, cohort, trained):
    """The model that gave the last night's scores stays as it is."""
    first = ward.export(ward.night(1, ["1", "2"]), "fhir", "1.json")
    contract = cohort.contract.model_copy(update={"id_is_person": True})
    persons = replace(cohort, contract=contract)
    other = trained(persons, "logistic", search=1, rule=MaxFlagRate(0.31))
    (ward.folder / "other").mkdir()
    second = Ward(other, ward.folder / "other").night(2, ["1"])

    out = ward.export(second, "fhir", "2.json", "--since", first)

    devices = dict(resource_urls(out, "Device"))
    earlier = dict(resource_urls(first, "Device"))
    assert len(devices) == 2
    assert earlier.items() <= devices.items()


def refused_export(ward, run, to, *words):
    """Return what an export says that is refused and leaves nothing."""
    out = ward.folder / "refused"
    arguments = ["export", run.directory, "--to", to, "--out", out, *words]
    answer = CliRunner().invoke(app, [str(word) for word in arguments])
    assert answer.exit_code == 2
    assert not out.exists()
    return " ".join(answer.output.split())


def test_rows_without_ids_belong_to_their_run(cohort, trained, tmp_path):
    """A row number is another patient on the next night: no resource goes on, and
    nothing can be compared with the last export.
    """
    contract = cohort.contract.model_copy(update={"id": None})
    model = trained(
        replace(cohort, contract=contract), "logistic", search=1, rule=MaxFlagRate(0.3)
    )
    night = patients(40, seed=7).drop(columns="patient")
    runs = [score(model, night, tmp_path / date, date=date) for date in DATES]
    flags = []
    for run in runs:
        out = tmp_path / f"{run.document['date']}.json"
        export(run.directory, "fhir", out)
        flags.append({url for url, _ in resource_urls(out, "Flag")})

    assert flags[0] and flags[0].isdisjoint(flags[1])
    with pytest.raises(UsageError, match="names no column of ids"):
        export(runs[1].directory, "csv", tmp_path / "a.csv", since=runs[0].directory)


def resource_urls(file, kind):
    """Return the address and the resource of each entry of a kind."""
    entries = read_json(file)["entry"]
    return [
        (entry["fullUrl"], entry["resource"])
        for entry in entries
        if entry["resource"]["resourceType"] == kind
    ]
