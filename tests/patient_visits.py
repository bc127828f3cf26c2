"""Tables with several rows a patient."""

import numpy as np
import pandas as pd
from numpy.random import default_rng

PATIENTS = 40


ROWS = 5


def visits(
    patients: int = PATIENTS, rows: int = ROWS, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Each row's patient, and what was measured on several visits, one below the
    other."""
    rng = default_rng(seed)
    who = np.repeat(np.arange(patients), rows)
    age = rng.integers(20, 90, patients)
    level = rng.normal(size=(patients, 6))
    noise = rng.normal(size=(len(who), 6))
    names = ["crp", "urea", "sodium", "lactate", "pulse", "bilirubin"]
    values = level[who] + 0.4 * noise
    table = pd.DataFrame(values, columns=names)
    table.insert(0, "age", age[who])
    sex = rng.choice(["m", "f"], patients)
    table.insert(1, "sex", sex[who])
    crp = level[:, 0]
    severity = crp + rng.normal(size=patients)
    ill = severity > np.quantile(crp, 0.7)
    table["ill"] = np.where(ill[who], "yes", "no")
    return who, table


def named() -> pd.DataFrame:
    who, table = visits()
    return table.assign(
        name=[f"rec_R1_S{patient:02d}_{row % 5 + 1}" for row, patient in enumerate(who)]
    )
