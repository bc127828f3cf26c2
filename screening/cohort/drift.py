"""Gates before scoring: is tonight's table of the kind the model was trained on, unit by unit.

Training stores a small profile (bins of each feature); the first pass over a night's table counts on those
bins, so memory does not grow with the table. A column in other units stops the run; all else is said aloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from screening.cohort.contract import Contract
from screening.cohort.units import SampledValues, unit_shift

FORMAT = 1
STEPS = 20
MOST_CATEGORIES = 200
# Conventional reading of a PSI: below 0.1 stable, above 0.25 another population.
PSI_ALARM = 0.25
FALSE_ALARM = 0.001
OUTSIDE_ALARM = 0.05


def profile(features: Any, contract: Contract, groups: np.ndarray | None = None) -> dict[str, Any]:
    """What a night is compared with: counts of the training rows on bins of their own quantiles.

    Parameters
    ----------
    features : DataFrame, shape (n_rows, n_features)
        Typed columns, before any normalisation within groups.
    groups : ndarray, shape (n_rows,), optional
        Rows of one group are alike, so groups, not rows, tell how sure a difference is.

    Returns
    -------
    dict
        Plain JSON values. number: right-closed bins ending at `edges`, their `counts`, `range` and `core`
        (0.5 to 99.5 %); other types: `counts` of each text or code.
    """
    units = len(features) if groups is None else len(set(groups))
    described = {}
    for name, feature in contract.features.items():
        values = features[name]
        if feature.type == "number":
            described[name] = _numbers(values.to_numpy(dtype=float))
        else:
            ordered = sorted(_texts(values).items(), key=lambda item: (-item[1], item[0]))
            described[name] = {
                "counts": dict(ordered[:MOST_CATEGORIES]),
                "more": sum(n for _, n in ordered[MOST_CATEGORIES:]),
            }
    return {"format": FORMAT, "n_units": units, "features": described}


def profile_of(cohort: Any) -> dict[str, Any]:
    """The `profile` of a cohort's rows as its table has them, normalised or not."""
    features = cohort.features if cohort.raw is None else cohort.features.assign(**cohort.raw)
    return profile(features, cohort.contract, cohort.group)


def gates_of(document: Mapping[str, Any], contract: Contract) -> Gates | None:
    """The gates of a trained model; None for one trained before profiles were kept."""
    stored = document["training"].get("profile")
    return Gates(stored, contract) if stored else None


def _numbers(values: np.ndarray) -> dict[str, Any]:
    values = values[np.isfinite(values)]
    if not values.size:
        return {"edges": [], "counts": [0], "range": None, "core": None}
    # Data values as edges, right-closed: then no bin is empty.
    edges = np.unique(np.quantile(values, np.arange(1, STEPS) / STEPS, method="inverted_cdf"))
    edges = edges[edges < values.max()]
    core = np.quantile(values, [0.005, 0.995], method="inverted_cdf")
    return {
        "edges": edges.tolist(),
        "counts": _binned(values, edges).tolist(),
        "range": [float(values.min()), float(values.max())],
        "core": core.tolist(),
    }


def _binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def _texts(values: Any) -> dict[str, int]:
    """How often each text, or each code written as text, occurs; missing ones apart."""
    counted = values.value_counts()
    return {f"{value:g}" if isinstance(value, float) else str(value): int(n) for value, n in counted.items()}


def psi(expected: Any, observed: Any) -> float | None:
    """Population stability index, sum of (q - p) ln(q / p) over bins; 0 for equal shares, None without rows.

    An empty bin counts as half a row, or the index would be infinite.
    """
    p, q = np.asarray(expected, float), np.asarray(observed, float)
    if not p.sum() or not q.sum():
        return None
    there = (p > 0) | (q > 0)
    p, q = (np.maximum(part[there], 0.5) / part.sum() for part in (p, q))
    return float(((q - p) * np.log(q / p)).sum())


def ks(expected: Any, observed: Any) -> float | None:
    """Largest difference of the two cumulative shares over ordered bins, 0 to 1 (Kolmogorov-Smirnov)."""
    p, q = np.asarray(expected, float), np.asarray(observed, float)
    if not p.sum() or not q.sum():
        return None
    return float(np.abs(np.cumsum(p) / p.sum() - np.cumsum(q) / q.sum()).max())


def tenths(counts: Any) -> np.ndarray:
    """Which tenth of the training rows each bin lies in: the bins a PSI is taken over, shape (n_bins,)."""
    share = np.asarray(counts, float) / max(np.sum(counts), 1)
    middle = np.cumsum(share) - share / 2
    return np.unique(np.minimum((middle * 10).astype(int), 9), return_inverse=True)[1].ravel()


class Gates:
    """Counts a night's rows against a training profile; a `CohortStream` feeds it in its first pass.

    Parameters
    ----------
    stored : mapping
        What `profile` returned; features it does not know are let through.
    contract : Contract
    """

    def __init__(self, stored: Mapping[str, Any], contract: Contract):
        known = stored.get("features", {})
        self.contract = contract
        self.n_units = int(stored.get("n_units") or 1)
        self.known = {name: known[name] for name in contract.features if name in known}
        self.n_rows = 0
        self.groups: set[Any] = set()
        self.counts = {
            name: np.zeros(len(found["counts"]), dtype=np.int64) for name, found in self.known.items()
        }
        self.outside = dict.fromkeys(self.known, 0)
        self.unseen = dict.fromkeys(self.known, 0)
        self.samples = {name: SampledValues() for name, found in self.known.items() if "edges" in found}

    def add(self, features: Any, groups: np.ndarray | None = None) -> None:
        """Take in the rows of one batch, before normalisation."""
        self.n_rows += len(features)
        if groups is not None:
            self.groups.update(groups)
        for name, found in self.known.items():
            if "edges" in found:
                self._add_numbers(name, features[name].to_numpy(dtype=float), found)
            else:
                self._add_texts(name, features[name], found)

    def _add_numbers(self, name: str, values: np.ndarray, found: Mapping[str, Any]) -> None:
        values = values[np.isfinite(values)]
        self.counts[name] += _binned(values, np.asarray(found["edges"], float))
        if found["range"]:
            low, high = found["range"]
            self.outside[name] += int(np.count_nonzero((values < low) | (values > high)))
        self.samples[name].add(values)

    def _add_texts(self, name: str, values: Any, found: Mapping[str, Any]) -> None:
        places = {text: i for i, text in enumerate(found["counts"])}
        for text, n in _texts(values).items():
            if text in places:
                self.counts[name][places[text]] += n
            elif not found.get("more"):
                self.unseen[name] += n

    def stops(self) -> list[str]:
        """Reasons not to score at all: columns whose values are in other units than the model's."""
        reasons = []
        for name in self.samples:
            said = self._shift(name)
            if said and said.whole:
                reasons.append(
                    f"column '{name}': {said.words} the model was trained on ({said.conversion}); "
                    "convert the column, or have the source send the old unit again"
                )
        return reasons

    def attention(self) -> list[str]:
        """Reasons to distrust tonight's scores, in words; empty on a night like those of training."""
        reasons = []
        for name, facts in self.facts().items():
            said = self._shift(name) if name in self.samples else None
            if facts["unseen"]:
                reasons.append(
                    f"{name}: {facts['unseen']} row{'s' * (facts['unseen'] != 1)} with a category never seen "
                    "in training; the model knows nothing of it."
                )
            if said and not said.whole:
                reasons.append(
                    f"{name}: in {said.share:.0%} of the rows the {said.words} of training; check the source."
                )
            if self._normalised(name):
                continue
            if facts["alarm"]:
                reasons.append(
                    f"{name}: distributed differently from training "
                    f"(PSI {facts['psi']:.2f}, KS {facts['ks']:.2f})."
                )
            if facts["outside"] > OUTSIDE_ALARM and self.outside[name] >= 3:
                reasons.append(
                    f"{name}: {facts['outside']:.0%} of the values lie outside the training range."
                )
        return reasons

    def facts(self) -> dict[str, dict[str, Any]]:
        """For every feature PSI, KS, share outside the training range and rows of unseen categories."""
        described = {}
        for name, found in self.known.items():
            observed = self.counts[name]
            n = int(observed.sum()) + self.unseen[name]
            if "edges" in found:
                expected, place = found["counts"], tenths(found["counts"])
                pair = np.bincount(place, expected), np.bincount(place, observed)
            else:
                expected = list(found["counts"].values())
                pair = np.append(expected, found["more"]), np.append(observed, self.unseen[name])
            index = psi(*pair)
            described[name] = {
                "psi": index,
                "ks": ks(expected, observed),
                "outside": self.outside[name] / n if n else 0.0,
                "unseen": self.unseen[name],
                "normalised": self._normalised(name),
                "alarm": self._alarm(name, index, *pair),
            }
        return described

    def _shift(self, name: str) -> Any:
        if self._normalised(name):
            return None
        return unit_shift(self.samples[name].values, self.known[name], self.contract.features[name].unit)

    def _normalised(self, name: str) -> bool:
        """Whether scale and centre of this feature are taken out within each group before scoring."""
        return self.contract.features[name].normalise is not None

    def _alarm(self, name: str, index: float | None, expected: Any, observed: Any) -> bool:
        """Whether a PSI says something: above 0.25, and more than chance makes of so few rows (or groups).

        A PSI of small samples is large without any drift. By the chi-square test of equal shares,
        chance alone raises an alarm for some feature on one night in a thousand.
        """
        if index is None or index <= PSI_ALARM or self._normalised(name):
            return False
        from scipy.stats import chi2

        p, q = np.asarray(expected, float), np.asarray(observed, float)
        p, q = p[p + q > 0], q[p + q > 0]
        p, q = p * min(self.n_units / p.sum(), 1), q * min((len(self.groups) or self.n_rows) / q.sum(), 1)
        balance = np.sqrt(p.sum() / q.sum())
        statistic = float(((balance * q - p / balance) ** 2 / (p + q)).sum())
        return bool(chi2.sf(statistic, max(len(p) - 1, 1)) < FALSE_ALARM / len(self.known))
