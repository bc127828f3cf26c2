"""Tables of what became of patients: their zones, orders, ends, and what is refused."""

import os
import re
import shutil

import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import patients

from screening import MaxFlagRate, read_cohort, score, train
from screening.clock.zone import Clock
from screening.contract.contract import Contract, OutcomeDefinition
from screening.data.outcome_table import OutcomeColumns, read_outcomes
from screening.data.stream import open_cohort
from screening.errors import CohortError
from screening.ledger.database import open_ledger
from screening.ledger.entries import Outcomes, facts_in
from screening.ledger.trail import entries
from screening.store.model import save_model
from screening.store.serialization import read_document

NIGHTS = ("2026-03-01", "2026-03-02", "2026-03-03")
AS_OF = ("--as-of", "2026-03-10")
NAMES = [f"002{number:05}" for number in range(60)]


def trained(**cohort):
    """Return a model of a past whose contract states the columns of outcomes."""
    past = patients(240, share=0.2, seed=1)
    past["stay"] = [f"S{number:05}" for number in range(240)]
    outcome = OutcomeDefinition(within="3d", time="when")
    given = {"id": "patient", "outcome": outcome} | cohort
    contract = Contract(label="ill", **given)
    if contract.id == "patient":
        past = past.drop(columns="stay")
    rule = MaxFlagRate(0.3)
    quick = {"search": 1, "beside": (), "jobs": 1}
    return train(past, "logistic", contract=contract, rule=rule, **quick)


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Three nights of sixty patients, scored into a ledger."""
    folder = tmp_path_factory.mktemp("ward")
    save_model(trained(), folder / "model")
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    for number, night in enumerate(NIGHTS):
        changed = table.assign(fever=table.fever + 0.001 * number)
        changed.to_csv(folder / "night.csv", index=False)
        screen(
            *("score", folder / "model", folder / "night.csv"),
            *("--out", folder / night, "--date", night, "--jobs", "1"),
            *("--ledger", folder / "l.db", "--series", "ward"),
        )
    return folder


@pytest.fixture
def outcomes(ward, tmp_path):
    """Enter a table in a ledger of its own, and return the answer."""
    place = tmp_path / "ward"
    shutil.copytree(ward, place)
    screen("ledger", "moved", place / "l.db", "--reason", "a copy for a test")

    def enter(text, *options, code=0):
        path = tmp_path / "events.csv"
        path.write_text(text)
        words = ("--ledger", place / "l.db", "--series", "ward", *options)
        if code:
            return screen("outcomes", path, *words, code=code).stderr
        return as_json("outcomes", path, *words)

    enter.place = place
    return enter


def lines(names, time, head="patient,when\n"):
    """Return a table in which some patients have an event at one time."""
    return head + "".join(f"{name},{time}\n" for name in names)


def figures_alone(answer):
    """Return the figures of an answer without what compares its tables."""
    return answer["figures"] | {"table": None}


ZONE = ("--time-zone", "Europe/Berlin")


def test_instants_in_every_zone_give_the_same_cases(outcomes):
    """Half past midnight in Berlin is the same instant, whatever zone it states."""
    found = []
    for time in (
        "2026-03-02T00:30:00",
        "2026-03-01T23:30:00Z",
        "2026-03-02T00:30+01:00",
    ):
        answer = outcomes(lines(NAMES[:20], time), *AS_OF, *ZONE)
        found.append(figures_alone(answer))

    assert found[0]["cases"] == 40
    assert found[0] == found[1] == found[2]
    assert found[0]["time_zone"] == "Europe/Berlin"


def test_zone_of_the_host_is_said(outcomes, tmp_path):
    """Without a stated zone it is the host's, on the page and in the answer."""
    answer = outcomes(lines(NAMES[:5], "2026-03-02 08:00"), *AS_OF)
    place = outcomes.place

    screen("history", "--ledger", place / "l.db", "--out", tmp_path / "h.html")

    assert answer["figures"]["is_zone_of_host"] is True
    page = " ".join((tmp_path / "h.html").read_text().split())
    assert "of this host; set `time_zone` to state one" in page
    assert "time zone" in (place / NIGHTS[0] / "report.html").read_text()


@pytest.mark.parametrize("time", ["2062-03-02T08:30:00", "2026-03-11"])
def test_event_after_the_time_of_outcomes_is_refused(outcomes, time):
    """An event in the future is a slip of the pen: its rows are named, exit code 3."""
    said = outcomes(lines(NAMES[:20], time), *AS_OF, code=3)

    assert "column 'when', rows 1, 2, 3, 4, 5 and 15 more: an event after" in said
    assert "--as-of" in said


def test_event_of_years_ago_takes_patients_out_and_is_counted(outcomes):
    """Patients with an event of 2019 are at risk again only if `again` says so."""
    text = lines(NAMES[:20], "2026-03-02T08:30:00")
    text += lines(NAMES[20:30], "2019-03-02T08:30:00", head="")

    never = outcomes(text, *AS_OF)["figures"]
    again = outcomes(text, *AS_OF, "--again", "365d")["figures"]

    # Twenty are past on the third night as well.
    assert never["left_out"]["past"] == 3 * 10 + 20
    assert never["by_month"][0]["left_out"]["past"] == 50
    assert again["left_out"]["past"] == 20
    assert again["rows"] == never["rows"] + 30


def test_dates_with_the_day_first_need_an_order(outcomes):
    """A date such as 02.03.2026 is refused by row until its order is stated."""
    text = lines(NAMES[:20], "02.03.2026 08:30").replace(",", ";")

    said = outcomes(text, *AS_OF, code=3)
    read = outcomes(text, *AS_OF, "--date-order", "dmy")
    other = outcomes(text.replace("02.03", "22.02"), "--date-order", "mdy", code=3)

    assert "rows 1, 2, 3, 4, 5 and 15 more: not a date" in said
    assert "--date-order (dmy or mdy)" in said
    assert read["figures"]["cases"] == 40
    assert "not a date in the order mdy" in other


def test_dates_alone_are_at_noon(outcomes):
    """A window of 72 hours has three days, and the number of such dates is said."""
    text = lines(NAMES[:20], "2026-03-04")
    plain = figures_alone(outcomes(text, *AS_OF))
    with_time = text.replace("03-04", "03-04 00:00:00")
    empty_time = figures_alone(outcomes(with_time, *AS_OF))

    # Noon of the fourth is 84 hours after the first night.
    assert plain["cases"] == 40
    assert plain["at_noon"] == 20
    assert empty_time == plain


def test_hour_that_does_not_exist_is_refused_and_one_that_exists_twice_is_said(
    outcomes,
):
    """In March an hour is lost, in October one exists twice."""
    lost = outcomes(lines(NAMES[:2], "2025-03-30 02:30"), *AS_OF, *ZONE, code=3)
    twice = outcomes(lines(NAMES[:2], "2025-10-26 02:30"), *AS_OF, *ZONE)

    assert "rows 1, 2: a time that does not exist" in lost
    assert "--time-zone" in lost
    assert twice["figures"]["twice"] == 2


def test_case_without_a_time_is_left_out_or_of_its_last_night(outcomes):
    """ "yes" is a case whose time nobody knows: its rows are unknown, or one a case."""
    text = lines(NAMES[:4], "yes")

    left_out = outcomes(text, *AS_OF)["figures"]
    as_case = outcomes(text, *AS_OF, "--known-without-time", "case")["figures"]

    assert left_out["left_out"]["unknown"] == 12
    assert left_out["cases"] == 0
    assert as_case["cases"] == 4
    assert as_case["left_out"]["unknown"] == 8
    # Without a time there is no lead time.
    assert as_case["lead"]["events"] == 0


def test_stay_that_ended_before_its_window_is_censored(outcomes):
    """A patient who left without an event is not one who stayed without one."""
    text = "patient,when,left\n" + "".join(
        f"{name},,2026-03-04 09:00\n" for name in NAMES[:10]
    )

    figures = outcomes(text, *AS_OF, "--until", "left")["figures"]

    # The window of the first night was over by then.
    assert figures["left_out"]["censored"] == 20
    assert figures["rows"] == 180 - 20


def test_first_of_several_events(outcomes):
    """With `again` a second event is a case, unless only the first counts."""
    text = lines(NAMES[:3], "2026-02-20 08:00")
    text += lines(NAMES[:3], "2026-03-03 08:00", head="")

    any_event = outcomes(text, *AS_OF, "--again", "3d")["figures"]
    first = outcomes(text, *AS_OF, "--again", "3d", "--events", "first")["figures"]

    assert any_event["cases"] == 9
    assert first["cases"] == 0


def test_correction_says_how_many_cases_it_takes_away(outcomes):
    """Cases taken back are counted; more than half at once need a reason."""
    outcomes(lines(NAMES[:6], "2026-03-02 08:30"), *AS_OF)

    some = outcomes(lines(NAMES[:2], ""), *AS_OF)
    refused = outcomes(lines(NAMES[2:5], ""), *AS_OF, code=3)
    reason = ("--accept-delivery", "the laboratory mixed them up")
    accepted = outcomes(lines(NAMES[2:5], ""), *AS_OF, *reason)

    assert some["withdrawn"] == 2
    assert "removes 3 of 4 cases" in refused
    assert "--accept-delivery" in refused
    assert accepted["withdrawn"] == 3
    place = str(outcomes.place / "l.db")
    with open_ledger(place) as ledger, ledger.reading() as connection:
        facts = [facts_in(entry)[0] for entry in entries(connection)]
    last = [fact for fact in facts if isinstance(fact, Outcomes)][-1]
    assert last.accepted == "the laboratory mixed them up"


def test_empty_table_leaves_windows_open(outcomes):
    """An export without a line is no proof that nobody had an event."""
    empty = outcomes("patient,when\n", *AS_OF)["figures"]

    assert empty["rows"] == 0
    assert empty["left_out"]["open"] == 180
    assert "no line" in empty["reach"]
    assert empty["complete"] is None


def test_time_up_to_which_a_table_is_complete_may_be_its_own(outcomes):
    """A column, the file's time or an option states how far a table reaches."""
    text = "patient,when,made\n" + "".join(
        f"{name},2026-03-02 08:30,2026-03-04 12:00\n" for name in NAMES[:5]
    )
    whole = outcomes(text, *AS_OF)["figures"]
    by_option = outcomes(text, *AS_OF, "--reach", "2026-03-04 12:00")["figures"]

    assert whole["left_out"]["open"] == 0
    assert by_option["complete"].startswith("2026-03-04T12:00")
    # Only the window of the first night was over.
    assert by_option["rows"] == 60 - 0
    assert by_option["left_out"]["open"] == 120 - by_option["left_out"]["past"]


def test_as_of_of_the_contract_is_a_column_or_the_time_of_the_file(tmp_path):
    """`as_of` under [outcome] names a column, or the table's file."""
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    table.to_csv(tmp_path / "night.csv", index=False)
    completes = []
    for as_of in ("made", "file"):
        outcome = OutcomeDefinition(within="3d", time="when", as_of=as_of)
        model = tmp_path / f"model-{as_of}"
        save_model(trained(outcome=outcome, time_zone="UTC"), model)
        place = ("--ledger", tmp_path / "l.db", "--series", as_of)
        screen(
            *("score", model, tmp_path / "night.csv", "--out", tmp_path / as_of),
            *("--date", NIGHTS[0], "--jobs", "1", *place),
        )
        events = tmp_path / "events.csv"
        events.write_text(f"patient,when,made\n{NAMES[0]},,2026-03-03 07:00\n")
        os.utime(events, (0, pd.Timestamp("2026-03-03 08:00").timestamp()))
        figures = as_json("outcomes", events, *place, *AS_OF)["figures"]
        completes.append(figures["complete"])

    assert completes == ["2026-03-03T07:00+00:00", "2026-03-03T08:00+00:00"]


def test_hour_of_unread_type_is_refused():
    """A column of the hour whose type is not read is refused; blank cells are not.

    The night was taken to be that of the table's file.
    """
    features = {"fever": {"type": "number"}}
    cohort = {"hour": "taken", "time_zone": "UTC"}
    contract = Contract.from_dict({"cohort": cohort, "features": features})
    table = pd.DataFrame({"fever": [37.0, 38.0], "taken": [b"06:00", None]})
    blank = table.assign(taken=["2026-03-01 06:00", None])

    with pytest.raises(CohortError, match="column 'taken', row 1: not a date"):
        list(open_cohort(table, contract))
    (rows,) = open_cohort(blank, contract)
    assert rows.n_rows == 2


def test_as_of_unread_is_refused():
    """A cell of `as_of` that cannot be read is refused by row, as any other time.

    The table was taken to be complete up to the newest time that could be read.
    """
    made = ["2026-03-03", "2026-13-09", "", "2026-03-29 02:30"]
    table = pd.DataFrame({"patient": list("abcd"), "when": [""] * 4, "made": made})
    columns = OutcomeColumns("patient", "when", as_of="made")

    with pytest.raises(CohortError) as refused:
        read_outcomes(table, columns, Clock("Europe/Berlin"))

    assert [fault[:28] for fault in refused.value.violations] == [
        "column 'made', rows 2: not a",
        "column 'made', rows 4: a tim",
    ]


def test_export_that_ended_early_closes_no_later_window(outcomes):
    """Events of every day that stop long before `--as-of` leave windows open."""
    days = pd.date_range("2026-03-01 09:00", "2026-03-06 09:00", freq="6h")
    # Of patients whom nobody scored; two are of the ward.
    names = [f"9{number:07}" for number in range(len(days))]
    text = "patient,when\n" + "".join(
        f"{name},{day:%Y-%m-%d %H:%M}\n" for name, day in zip(names, days, strict=True)
    )
    text += lines(NAMES[:2], "2026-03-05 10:00", head="")
    within = ("--within", "30d")

    late = outcomes(text, *within, "--as-of", "2026-04-05")["figures"]
    stated = outcomes(text, *within, "--as-of", "2026-04-05", "--reach", "2026-04-05")[
        "figures"
    ]

    assert late["complete"] == "2026-03-06T09:00+00:00"
    assert "30 days earlier" in late["reach"]
    assert late["left_out"]["open"] == 180
    assert stated["left_out"]["open"] == 0
    assert stated["cases"] == 6


def test_outcomes_by_stay(tmp_path):
    """By stay an event is of the stay alone; by patient, of all of the patient's."""
    outcome = OutcomeDefinition(within="3d", time="when", by="stay")
    contract = {"id": "stay", "group": "patient", "outcome": outcome}
    save_model(trained(**contract), tmp_path / "model")
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    table["stay"] = [f"S{number:05}" for number in range(60)]
    # The first two stays are of one patient.
    table.loc[1, "patient"] = table.loc[0, "patient"]
    table.to_csv(tmp_path / "night.csv", index=False)
    place = ("--ledger", tmp_path / "l.db", "--series", "ward")
    screen(
        *("score", tmp_path / "model", tmp_path / "night.csv"),
        *("--out", tmp_path / "run", "--date", NIGHTS[0], "--jobs", "1", *place),
    )
    events = tmp_path / "events.csv"
    events.write_text(lines(["S00000"], "2026-03-02 08:00", head="stay,when\n"))

    by_stay = as_json("outcomes", events, *place, *AS_OF)["figures"]
    events.write_text(lines([table.patient[0]], "2026-03-02 08:00"))
    by_patient = as_json("outcomes", events, *place, *AS_OF, "--by", "patient")
    refused = screen("outcomes", events, *place, "--again", "30d", code=2)

    assert by_stay["cases"] == 1
    assert by_stay["by"] == "stay"
    assert by_patient["figures"]["cases"] == 2
    assert "--again" in refused.stderr


def test_hour_of_a_night_is_what_an_event_is_before(tmp_path):
    """An infection of 03:00 was known to a list of 06:00, and is a case at midnight."""
    save_model(trained(time_zone="Europe/Berlin"), tmp_path / "model")
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    table["taken"] = "2026-03-01T05:00:00Z"
    path = tmp_path / "night.csv"
    table.to_csv(path, index=False)
    events = tmp_path / "events.csv"
    events.write_text(lines(NAMES[:4], "2026-03-01 03:00"))
    found = {}
    instants = {}
    for name, options in {
        "midnight": (),
        "hour": ("--hour", "06:00"),
        "column": ("--hour", "taken"),
        "file": (),
    }.items():
        place = ("--ledger", tmp_path / "l.db", "--series", name)
        day = "2026-03-01" if name == "file" else "2026-02-28"
        written = pd.Timestamp(f"{day} 05:00").timestamp()
        os.utime(path, (written, written))
        answer = as_json(
            *("score", tmp_path / "model", path, "--out", tmp_path / name),
            *("--date", "2026-03-01", "--jobs", "1", *options, *place),
        )
        figures = as_json("outcomes", events, *place, *AS_OF)["figures"]
        found[name] = (answer["taken_at"], figures["cases"], figures["past"])
        assert answer["taken_from"] == name
        assert figures["hours"] == {name: 1}
        page = (tmp_path / name / "report.html").read_text()
        assert "hour of the night" in page
        bundle = tmp_path / f"{name}.json"
        screen("export", tmp_path / name, "--to", "fhir", "--out", bundle)
        instants[name] = set(
            re.findall(r'occurrenceDateTime": ?"([^"]*)"', bundle.read_text())
        )

    six = ("2026-03-01T06:00+01:00", 0, 4)
    assert found == {
        "midnight": ("2026-03-01T00:00+01:00", 4, 0),
        "hour": six,
        "column": six,
        "file": six,
    }
    # An export states the instant with its offset, or the date if no hour is known.
    assert instants.pop("midnight") == {"2026-03-01"}
    assert set.union(*instants.values()) == {"2026-03-01T06:00:00+01:00"}


def test_night_of_another_year_is_refused(ward, tmp_path):
    """A night long before the first of its series is a slip of the pen."""
    place = tmp_path / "ward"
    shutil.copytree(ward, place)
    screen("ledger", "moved", place / "l.db", "--reason", "a copy for a test")
    words = ["score", place / "model", place / "night.csv", "--jobs", "1"]
    words += ["--ledger", place / "l.db", "--series", "ward", "--date", "2016-03-04"]

    refused = screen(*words, "--out", place / "old", code=3)

    assert "is 3649 days before the first" in refused.stderr
    assert "--date" in refused.stderr
    assert not (place / "old").exists()
    screen(*words, "--out", place / "old", "--accept-delivery", "an old table")


def test_outcomes_known_before_every_night_are_refused(outcomes):
    """`--as-of` before the first night says nothing of it."""
    said = outcomes("patient,when\n", "--as-of", "2016-03-10", code=2)

    assert "--as-of is before the first night" in said


def test_times_of_a_cohort_are_read_row_by_row(tmp_path):
    """Rows with a zone are converted, others are local; a lost hour is refused."""
    table = patients(6, seed=3)
    table["seen"] = [
        "2025-06-01T22:30:00Z",
        "2025-06-02 00:30",
        "2025-06-02",
        "2025-06-01T18:30:00-04:00",
        "2025-10-26 02:30",
        "2025-03-30 02:30",
    ]
    contract = Contract(
        label="ill", id="patient", time="seen", time_zone="Europe/Berlin"
    )

    cohort = read_cohort(table[:5], contract)
    with pytest.raises(CohortError, match="row 6: a time that does not exist"):
        read_cohort(table, contract)

    days = [str(day) for day in cohort.days]
    assert days == ["2025-06-02"] * 4 + ["2025-10-26"]
    assert len(set(cohort.time[[0, 1, 3]])) == 1
    assert any("row 5: a time that exists twice" in note for note in cohort.notes)


def test_column_of_the_hour_is_read_by_the_same_rules(tmp_path):
    """What is no time, or an hour that does not exist, is refused by row; a blank is
    neither.
    """
    model = trained(time_zone="Europe/Berlin", hour="taken")
    night = patients(6, seed=3).drop(columns="ill").assign(taken="2026-03-29 05:00")
    night.loc[1, "taken"] = None
    night.loc[3, "taken"] = "2026-03-29 02:30"
    night.loc[4, "taken"] = "six o'clock"

    with pytest.raises(CohortError) as refused:
        score(model, night, tmp_path / "run", date="2026-03-29")
    right = night.drop(index=[3, 4])
    run = score(model, right, tmp_path / "run", date="2026-03-29")

    assert "'taken', row 4: a time that does not exist" in str(refused.value)
    assert "'taken', row 5: not a date" in str(refused.value)
    assert "row 2" not in str(refused.value)
    assert run.document["times"]["taken_at"] == "2026-03-29T05:00+02:00"


def test_zone_of_the_host_is_said_where_a_time_is_converted(monkeypatch):
    """Without `time_zone` a time with a zone is read in that of the host, noted."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    table = patients(5, seed=3).assign(seen="2025-06-01T22:30:00Z")

    cohort = read_cohort(table, Contract(label="ill", id="patient", time="seen"))

    assert {str(day) for day in cohort.days} == {"2025-06-02"}
    assert any("time zone of this host" in note for note in cohort.notes)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"time_zone": "Berlin"}, "is not a time zone"),
        ({"hour": "25:00"}, "is not an hour of the day"),
    ],
)
def test_contract_refuses_a_wrong_zone_or_hour(keys, words):
    """A wrong zone or hour is refused when the contract is read."""
    with pytest.raises(ValueError, match=words):
        Contract(**keys)


def test_stay_is_not_at_risk_again():
    """`again` has no meaning for outcomes by stay."""
    with pytest.raises(ValueError, match="`again` needs"):
        OutcomeDefinition(within="3d", by="stay", again="30d")


SITE = """
[site]
ledger = "site.db"
time_zone = "Europe/Berlin"
hour = "06:00"

[series.ward]
model = "model"
cohort = "in/{date}.csv"
outcomes = "events.csv"
"""


def test_site_states_zone_and_hour_of_its_tables(tmp_path, monkeypatch):
    """`time_zone` and `hour` under [site] hold for nights and outcomes alike."""
    save_model(trained(), tmp_path / "model")
    (tmp_path / "in").mkdir()
    (tmp_path / "NIGHT.toml").write_text(SITE)
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    table.to_csv(tmp_path / "in" / "2026-03-01.csv", index=False)
    # Ten minutes before and after six in Berlin.
    text = lines(NAMES[:3], "2026-03-01T04:50:00Z")
    text += lines(NAMES[3:5], "2026-03-01T05:10:00Z", head="")
    (tmp_path / "events.csv").write_text(text)
    monkeypatch.chdir(tmp_path)

    as_json("run", "NIGHT.toml", "--date", "2026-03-01")
    (series,) = as_json("history", "--ledger", "site.db")["series"]

    figures = series["outcomes"]
    assert figures["time_zone"] == "Europe/Berlin"
    assert figures["is_zone_of_host"] is False
    assert figures["past"] == 3
    assert figures["cases"] == 2
    run = read_document(tmp_path / "runs" / "ward" / "2026-03-01", "run")
    assert run["times"]["taken_at"] == "2026-03-01T06:00+01:00"
