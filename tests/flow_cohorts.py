"""Small tables for the flow: written as files, because that is how cohorts arrive."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import default_rng


def patients(n_rows: int = 240, share: float = 0.15, seed: int = 0) -> pd.DataFrame:
    """Two informative values, one that is often missing, one category; one patient a
    row.
    """
    rng = default_rng(seed)
    ill = rng.random(n_rows) < share
    fever = rng.normal(37, 0.5, n_rows) + 0.8 * ill
    logs = rng.normal(2, 0.7, n_rows) + 0.9 * ill
    crp = np.exp(logs)
    crp[rng.random(n_rows) < 0.15] = np.nan
    ward = rng.choice(["icu", "medicine", "surgery"], n_rows)
    names = [f"{seed:03d}{i:05d}" for i in range(n_rows)]
    return pd.DataFrame(
        {
            "patient": names,
            "fever": fever,
            "crp": crp,
            "ward": ward,
            "ill": np.where(ill, "yes", "no"),
        }
    )


def night_of_patients(n_rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Patients without a label, as a night has them."""
    return patients(n_rows, seed=seed).drop(columns="ill")


def voxels(n_patients: int = 8, each: int = 60, seed: int = 0) -> pd.DataFrame:
    """Three tissues of several patients, one of them rare, with a shift a patient."""
    rng = default_rng(seed)
    n_rows = n_patients * each
    tissue = rng.choice(["gland", "zone", "lesion"], n_rows, p=[0.5, 0.4, 0.1])
    middle = {
        "gland": (0.0, 0.0),
        "zone": (2.0, 0.0),
        "lesion": (1.0, 2.0),
    }
    means = np.array([middle[name] for name in tissue])
    noise = rng.normal(0, 0.6, (n_rows, 2))
    shift = rng.normal(0, 0.15, (n_patients, 2))
    values = means + noise + np.repeat(shift, each, axis=0)
    names = [f"P{seed}{i}" for i in range(n_patients)]
    spot = np.tile(np.arange(each), n_patients)
    return pd.DataFrame(
        {
            "patient": np.repeat(names, each),
            "x": spot % 4,
            "y": spot // 4 % 4,
            "z": spot // 16,
            "t2": values[:, 0],
            "adc": values[:, 1],
            "tissue": tissue,
        }
    )


def columns_of(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a frame: numbers and truths as float64, all else as text."""
    kinds = {
        name: "float64" if frame[name].dtype.kind in "bif" else "object"
        for name in frame.columns
    }
    texts = (
        frame.astype(kinds).where(frame.notna(), None)
        if "object" in kinds.values()
        else frame
    )
    return {name: texts[name].to_numpy(dtype=kind) for name, kind in kinds.items()}


def written(table: pd.DataFrame, path: Path) -> Path:
    """Write a table by the ending of its path."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)
    return path
