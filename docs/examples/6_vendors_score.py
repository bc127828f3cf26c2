"""
A vendor's score
================

A score that somebody else made is judged on local patients like any model: nothing is
fitted, and the threshold keeps the promise here. The score of this example is made up.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from screening import MinSensitivity, train

rng = np.random.default_rng(0)
ill = rng.random(600) < 0.12
past = pd.DataFrame(
    {
        "patient": [f"p{number:04}" for number in range(600)],
        "early_warning": np.round(rng.normal(4 + 3 * ill, 2).clip(0), 1),
        "sepsis": np.where(ill, "yes", "no"),
    }
)

model = train(
    past,
    "given",
    label="sepsis",
    id="patient",
    score="early_warning",
    rule=MinSensitivity(0.9),
)

figure, ax = plt.subplots(layout="constrained")
for outcome, scores in model.validation.groupby("label")["score"]:
    ax.hist(scores, bins=30, alpha=0.6, density=True, label=f"sepsis: {outcome}")
ax.axvline(model.thresholds[0], color="black", linestyle="--", label="threshold")
ax.set(xlabel="score of the vendor", ylabel="density")
ax.legend()
