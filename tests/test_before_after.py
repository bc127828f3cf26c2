"""Outcomes and interventions before and after the screen went live."""

import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import night_of_patients, patients
from ledger_nights import enter, of_ward
from scipy.stats import poisson

from screening import MaxFlagRate, train
from screening.data.monthly_counts import read_monthly_counts
from screening.errors import CohortError, UsageError
from screening.ledger.history import history
from screening.ledger.rates import with_rates
from screening.metrics.outcomes import before_and_after, rate_per_1000
from screening.store.model import save_model

MONTHS = pd.DataFrame(
    {
        "month": ["2026-02", "2026-01", "2026-03", "2026-04"],
        "patient_days": [1000, 900, 1100, 1000],
        "outcomes": [10, 12, 9, 4],
        "interventions": [20, 18, 30, 42],
    }
)


def test_rates_are_of_whole_months_before_and_after():
    compared = before_and_after(read_monthly_counts(MONTHS), "2026-03-14")

    assert [month.month for month in compared.months] == [
        *("2026-01", "2026-02", "2026-03", "2026-04")
    ]
    assert compared.before.outcomes == 22
    assert compared.before.patient_days == 1900
    assert compared.after.outcomes == 4
    assert compared.after.interventions == 42
    outcome_rate = compared.before.outcome_rate
    assert outcome_rate.value == pytest.approx(1000 * 22 / 1900)
    assert compared.after.intervention_rate.value == pytest.approx(42)


@pytest.mark.parametrize("n", [0, 1, 4, 30])
def test_interval_is_the_exact_one(n):
    """At its ends the count is as improbable as 2.5 %."""
    rate = rate_per_1000(n, 1000)

    assert rate.value == n
    assert poisson.cdf(n, rate.high) == pytest.approx(0.025)
    assert (
        rate.low == 0 if n == 0 else poisson.sf(n - 1, rate.low) == pytest.approx(0.025)
    )


def test_interventions_may_be_uncounted():
    counts = read_monthly_counts(MONTHS.drop(columns="interventions"))

    compared = before_and_after(counts, "2026-01-05")

    assert compared.before is None
    assert compared.after.interventions is None
    assert compared.after.intervention_rate.value is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"month": "March"}, "'month', rows 1, 2, 3, 4: not a month"),
        ({"month": "2026-01"}, "a month occurs twice"),
        ({"outcomes": -1}, "'outcomes', rows 1, 2, 3, 4"),
        ({"patient_days": 0}, "'patient_days', rows 1"),
    ],
)
def test_cells_that_are_no_counts_are_named(change, fault):
    with pytest.raises(CohortError, match=fault):
        read_monthly_counts(MONTHS.assign(**change))
    with pytest.raises(CohortError, match="missing column 'outcomes'"):
        read_monthly_counts(MONTHS.drop(columns="outcomes"))


@pytest.mark.parametrize("wards", [(), ("ward-1", "ward-2")])
def test_rates_need_one_series(ledger, wards):
    """Before which night, is asked of one series that has nights."""
    for ward in wards:
        enter(ledger, of_ward(ward, 1, "a"))

    with pytest.raises(UsageError, match="belong to one series that has nights"):
        with_rates(history(ledger), MONTHS)


def test_page_shows_the_night_and_what_it_cannot_prove(tmp_path):
    past = patients(240, share=0.2, seed=1)
    quick = {
        "search": 1,
        "beside": (),
        "jobs": 1,
        "rule": MaxFlagRate(0.3),
    }
    model = train(past, "logistic", label="ill", id="patient", **quick)
    save_model(model, tmp_path / "model")
    night = night_of_patients(60, seed=2)
    night.to_csv(tmp_path / "night.csv", index=False)
    MONTHS.to_csv(tmp_path / "months.csv", index=False)
    place = ("--ledger", tmp_path / "l.db")
    for series in ("ward", "other"):
        screen(
            *("score", tmp_path / "model", tmp_path / "night.csv", *place),
            *("--out", tmp_path / series, "--date", "2026-03-14", "--series", series),
        )
    rates = ("--rates", tmp_path / "months.csv")

    answer = as_json("history", *place, "--series", "ward", *rates)
    screen("history", *place, "--series", "ward", *rates, "--out", tmp_path / "h.html")
    refused = screen("history", *place, *rates, code=2)

    assert answer["series"][0]["before_after"]["live"] == "2026-03-14"
    page = (tmp_path / "h.html").read_text()
    assert "live 2026-03-14" in page
    assert "cannot prove that the screen helped" in page
    assert "--series" in refused.stderr
