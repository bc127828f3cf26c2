"""Tables with several rows a patient."""

import numpy as np
import pandas as pd

PATIENTS = 40


ROWS = 5


def visits(
    patients: int = PATIENTS, rows: int = ROWS, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Each row's patient, and what was measured on several visits, one below the
    other."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rows)
    age = rng.integers(20, 90, patients)
    level = rng.normal(size=(patients, 6))
    values = level[who] + 0.4 * rng.normal(size=(len(who), 6))
    table = pd.DataFrame(
        values, columns=["crp", "urea", "sodium", "lactate", "pulse", "bilirubin"]
    )
    table.insert(0, "age", age[who])
    table.insert(1, "sex", rng.choice(["m", "f"], patients)[who])
    ill = level[:, 0] + rng.normal(size=patients) > np.quantile(level[:, 0], 0.7)
    return who, table.assign(ill=np.where(ill[who], "yes", "no"))


def named() -> pd.DataFrame:
    who, table = visits()
    return table.assign(
        name=[f"rec_R1_S{patient:02d}_{row % 5 + 1}" for row, patient in enumerate(who)]
    )
