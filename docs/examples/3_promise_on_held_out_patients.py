"""
A promise on held-out patients
==============================

Each threshold promises a sensitivity, with an interval from the past. Here it meets
240 patients of a later night that no machine and no threshold has seen.
"""

from importlib.resources import files

import pandas as pd
from matplotlib import pyplot as plt

from screening import MinSensitivity, Screen, Validation

samples = files("screening.sample_cohorts")
past, night = (
    pd.read_csv(samples / f"nosocomial_{name}.csv", dtype={"patient_id": str})
    for name in ("past", "night_labelled")
)
ill = night["infected"] == "yes"
once = Validation(repeats=1, beside=())
screen = Screen("logistic", search=1, validation=once)

figure, ax = plt.subplots(layout="constrained")
for asked in (0.6, 0.75, 0.9):
    screen.set_params(rule=MinSensitivity(asked))
    screen.fit(past, "infected", id="patient_id", drop="admission_date")
    promised = screen.model_.facts.operating_points[0]["sensitivity"]
    flagged = screen.predict(night.drop(columns="infected")) == "yes"
    ax.vlines(asked, promised.low, promised.high, color="lightgrey", linewidth=8)
    ax.plot(asked, promised.value, "_", color="black", markersize=12)
    ax.plot(asked, flagged[ill].mean(), "o", color="#D55E00")
ax.set(xlabel="sensitivity asked for", ylabel="promised (line), found (dot)")
