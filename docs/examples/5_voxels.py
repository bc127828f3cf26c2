"""
Voxels
======

One row is a voxel of an image, and folds never split a patient. Left: the scores of a
slice of a new patient. Right: what is flagged.
"""

from importlib.resources import files

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from screening import MaxFlagRate, Screen, Validation

samples = files("screening.sample_cohorts")
past = pd.read_parquet(samples / "prostate_past.parquet")
new = pd.read_parquet(samples / "prostate_new.parquet")

once = Validation(repeats=1, beside=())
screen = Screen("logistic", rule=MaxFlagRate(0.2), search=1, validation=once)
screen.fit(
    past,
    "gleason",
    positive="G3+G3+4+G4+G4+3+G4+5",
    contract=samples / "prostate.toml",
)
scored = screen.score_frame(new)

in_slice = (new["patient"] == new["patient"].iloc[0]) & (new["z"] == 4)
across, up = new.loc[in_slice, ["x", "y"]].to_numpy().T
figure, axes = plt.subplots(1, 2, layout="constrained")
for ax, column in zip(axes, ("score", "flagged"), strict=True):
    image = np.full((up.max() + 1, across.max() + 1), np.nan)
    image[up, across] = scored.loc[in_slice, column]
    ax.imshow(image, origin="lower")
    ax.set_title(column)
