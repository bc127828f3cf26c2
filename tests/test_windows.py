"""One or several events around one or several nights: the right truth of each night.

`windows.csv` has 42 cases. `hour` is when the tables were taken, in Europe/Berlin; of
the events `Z` means UTC and "yes" a case that is known without a time.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import night_of_patients, patients

from screening import MaxFlagRate, train
from screening.clock.instants import times_of_texts
from screening.clock.windows import TRUTHS, Known, Window, with_truth
from screening.clock.zone import Clock
from screening.contract.contract import Contract, OutcomeDefinition, hours_from
from screening.store.model import save_model

CASES = pd.read_csv(Path(__file__).with_name("windows.csv"), dtype=str).fillna("")
BERLIN = Clock("Europe/Berlin")
# What the nights of one series, and its table of outcomes, have in common.
RULE = ["hour", "within", "after", "again", "as_of"]


def instants(texts):
    """Return the instants of times in Berlin."""
    return times_of_texts(texts, None, BERLIN).utc


def known_of(case):
    """Return what is known of the patient of a case."""
    texts = [text for text in case.events.split(";") if text]
    times = [text for text in texts if text != "yes"]
    events = pd.DataFrame({"unit": "p", "time": instants(times)})
    names = ["p"] * texts.count("yes")
    without_time = pd.DataFrame({"unit": names, "name": ""}, dtype=object)
    ended = [text for text in [case.stay_ended] if text]
    ends = pd.DataFrame({"unit": "p", "time": instants(ended)})
    return Known(events, without_time, ends)


@pytest.mark.parametrize("case", [*CASES.itertuples()], ids=[*CASES["case"]])
def test_truth_of_each_night(case):
    """Every night of a case has its truth, by the library."""
    nights = case.nights.split(";")
    rows = pd.DataFrame(
        {
            "night": pd.to_datetime(nights),
            "at": instants([f"{night} {case.hour}" for night in nights]),
            "unit": "p",
        }
    )
    again = hours_from(case.again) if case.again else None
    window = Window(hours_from(case.within), hours_from(case.after), again=again)
    (complete,) = instants([case.as_of])

    found = with_truth(rows, known_of(case), window, pd.Timestamp(complete))

    assert found["truth"].tolist() == case.truth.split(";")
    assert set(found["truth"]) <= set(TRUTHS)


@pytest.mark.parametrize(
    ("is_of_stays", "truths"),
    [(False, ["censored", "none", "open"]), (True, ["censored"] * 3)],
)
def test_end_of_an_earlier_stay_says_nothing_of_the_next_one(is_of_stays, truths):
    """A patient who is back waits for the end of this stay; a stay has one end."""
    nights = ["2025-05-10", "2025-05-20", "2025-05-29"]
    rows = pd.DataFrame(
        {"night": pd.to_datetime(nights), "at": instants(nights), "unit": "p"}
    )
    events = pd.DataFrame({"unit": [], "time": instants([])})
    ends = pd.DataFrame({"unit": "p", "time": instants(["2025-05-11 10:00"])})
    known = Known(events, ends=ends, is_of_stays=is_of_stays)
    complete = pd.Timestamp("2025-05-30")

    found = with_truth(rows, known, Window(72.0), complete)

    assert found["truth"].tolist() == truths


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model whose contract states the zone and the columns of outcomes."""
    folder = tmp_path_factory.mktemp("windows") / "model"
    outcome = OutcomeDefinition(within="3d", time="when", until="ended")
    contract = Contract(
        label="ill", id="patient", time_zone="Europe/Berlin", outcome=outcome
    )
    past = patients(240, share=0.2, seed=1)
    rule = MaxFlagRate(0.3)
    quick = {"search": 1, "beside": (), "jobs": 1}
    trained = train(past, "logistic", contract=contract, rule=rule, **quick)
    save_model(trained, folder)
    return folder


def patient_of(name):
    """Return the number of the patient of a case; no other number begins so."""
    return f"900{name:05}"


def table_of_night(cases, night):
    """Return the rows of a night: the patients of its cases, and others."""
    names = [case.Index for case in cases.itertuples() if night in case.nights]
    seed = int(night.replace("-", "")) % 1000
    table = night_of_patients(30 + len(names), seed=seed)
    of_cases = [patient_of(name) for name in names]
    others = [f"{night[2:4]}{night[5:7]}{night[8:]}{number:02}" for number in range(30)]
    return table.assign(patient=of_cases + others)


def lines_of(case):
    """Return the lines of a case in a table of outcomes."""
    events = case.events.split(";")
    return [(patient_of(case.Index), event, case.stay_ended) for event in events]


def test_truth_of_each_night_by_commands(model, tmp_path):
    """`screen score` and `screen outcomes --rows` give every night the same truth."""
    found = {}
    for number, (rule, cases) in enumerate(CASES.groupby(RULE)):
        hour, within, after, again, as_of = rule
        place = ("--ledger", tmp_path / "l.db", "--series", f"ward-{number}")
        for night in sorted(set(";".join(cases["nights"]).split(";"))):
            table = tmp_path / "night.csv"
            table_of_night(cases, night).to_csv(table, index=False)
            screen(
                *("score", model, table, "--out", tmp_path / f"{number}-{night}"),
                *("--date", night, "--hour", hour, "--jobs", "1", *place),
            )
        lines = [line for case in cases.itertuples() for line in lines_of(case)]
        frame = pd.DataFrame(lines, columns=["patient", "when", "ended"])
        frame.to_csv(tmp_path / "events.csv", index=False)
        options = ["--within", within, "--after", after, "--as-of", as_of]
        options += ["--again", again] if again else []
        rows = tmp_path / "rows.csv"

        answer = as_json(
            *("outcomes", tmp_path / "events.csv", *options, "--rows", rows, *place)
        )

        found |= {
            (row.patient, row.night): (row.truth, row.reason)
            for row in pd.read_csv(rows, dtype=str).itertuples()
        }
        figures = answer["figures"]
        left_out = sum(figures["left_out"].values())
        assert len(pd.read_csv(rows, dtype=str)) == figures["rows"] + left_out
        assert rows.stat().st_mode & 0o777 == 0o600
    expected = {}
    for case in CASES.itertuples():
        nights = case.nights.split(";")
        for night, truth in zip(nights, case.truth.split(";"), strict=True):
            expected[patient_of(case.Index), night] = truth
    truths = {key: truth for key, (truth, _) in found.items()}
    assert {key: truths[key] for key in expected} == expected
    assert all(isinstance(reason, str) for _, reason in found.values())
    others = [truths[key] for key in set(truths) - set(expected)]
    assert set(others) <= {"none", "open"}
    assert np.sum([truth == "none" for truth in others]) > 0
