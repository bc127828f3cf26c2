"""
First screen
============

A model of past patients, with the threshold that is to find 90% of new cases. Every
patient is scored by a machine that has not seen them. The bands are 95% intervals.
"""

from importlib.resources import files

import pandas as pd

from screening import MinSensitivity, Screen, Validation

samples = files("screening.sample_cohorts")
past = pd.read_csv(samples / "nosocomial_past.csv", dtype={"patient_id": str})

alone = Validation(beside=())
screen = Screen("logistic", rule=MinSensitivity(0.9), search=1, validation=alone)
screen.fit(past, "infected", id="patient_id", drop="admission_date")

ax = screen.plot("trade_off")
