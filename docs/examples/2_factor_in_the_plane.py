"""
A factor, seen in the plane
===========================

A conformal factor c(x) rescales a kernel where the classes meet. Here it is adaptive
bumps, around support vectors of the first pass (Wu and Chang 2003). The lines are the
boundaries before (dashed) and after.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons

from screening import build

x, y = make_moons((160, 40), noise=0.25, random_state=0)
plain = build("act_feature_space", C=10.0, passes=0).fit(x, y)
rescaled = build("act_feature_space", C=10.0, passes=1).fit(x, y)

low, high = x.min(axis=0) - 0.3, x.max(axis=0) + 0.3
axes = [np.linspace(low[k], high[k], 100) for k in range(2)]
plane = np.stack(np.meshgrid(*axes), axis=-1)
points = plane.reshape(-1, 2)

figure, ax = plt.subplots(layout="constrained")
factor = rescaled.factor_at(points).reshape(100, 100)
figure.colorbar(ax.contourf(*axes, factor, levels=12, cmap="Blues"), label="c(x)")
for machine, style in ((plain, "dashed"), (rescaled, "solid")):
    decision = machine.decision_function(points).reshape(100, 100)
    ax.contour(*axes, decision, levels=[0], colors="black", linestyles=style)
for case, marker in ((0, "o"), (1, "^")):
    ax.plot(*x[y == case].T, marker, markersize=4, label=["others", "cases"][case])
ax.legend()
