"""
One class, without a case
=========================

The past has no labels. A one-class machine learns what patients are like, and the rule
flags one in ten of tonight's. Only afterwards is it seen who was infected.
"""

from importlib.resources import files

import pandas as pd

from screening import MaxFlagRate, Screen, Validation

samples = files("screening.sample_cohorts")
past, night = (
    pd.read_csv(samples / f"nosocomial_{name}.csv", dtype={"patient_id": str})
    for name in ("past", "night_labelled")
)
unlabelled = past.drop(columns="infected")

once = Validation(repeats=1)
screen = Screen("one_class", rule=MaxFlagRate(0.1), validation=once)
screen.fit(unlabelled, id="patient_id", drop="admission_date")
scores = screen.score_frame(night.drop(columns="infected"))["score"]

by_outcome = scores.groupby(night["infected"])
ax = pd.DataFrame(dict(list(by_outcome))).plot.hist(bins=30, stacked=True)
ax.axvline(screen.threshold_, color="black", linestyle="--", label="threshold")
ax.set(xlabel="score: how unlike past patients", ylabel="patients of the night")
ax.legend(title="infected")
