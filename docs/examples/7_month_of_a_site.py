"""
A site's month
==============

Thirty nights, each with the patients of that day. The ledger remembers them: a patient
who was flagged before is no new case.
"""

from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

from screening import MaxFlagRate, Screen, Validation, open_ledger, score

samples = files("screening.sample_cohorts")
columns = ["patient_id", "age", "temperature_max", "crp", "urinary_catheter_days"]
past, new = (
    pd.read_csv(samples / f"nosocomial_{name}.csv", dtype={"patient_id": str})
    for name in ("past", "night")
)
once = Validation(repeats=1, beside=())
screen = Screen("logistic", rule=MaxFlagRate(0.1), search=1, validation=once)
screen.fit(past[[*columns, "infected"]], "infected", id="patient_id")

# Six patients arrive each day, and stay ten nights.
arrival = np.arange(len(new)) // 6 - 9
folder = Path(mkdtemp())
with open_ledger(folder / "screening.db", make=True) as ledger:
    for day in range(30):
        date = f"2026-04-{day + 1:02}"
        present = new.loc[(arrival <= day) & (day < arrival + 10), columns]
        score(screen.model_, present, folder / date, date=date, ledger=ledger, jobs=1)

ax = screen.plot("history", ledger=folder / "screening.db")
