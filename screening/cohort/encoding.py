"""From typed columns to the numeric matrix that kernels see; everything learned is kept as plain arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.cohort.code_prefixes import MANY_VALUES, CodePrefixes
from screening.cohort.cohort import Cohort
from screening.contract.contract import Contract
from screening.errors import CohortError, ModelError
from screening.sources.columns import Columns, absent

# A 0/1 column set in few rows would stand apart by 1 / sd; below this sd it does not grow further.
LEAST_SPREAD = 0.1
# Nothing was learned about a column that is constant in training: divided by this, it stays zero.
UNINFORMATIVE = 1e300
ABSENT = ""
BLOCK, BLOCK_ROWS = 32, 4096  # columns, and rows, at a time
PLAIN = -1  # the width of a category that is not encoded by beginnings


class Encoder:
    """Impute, one-hot encode, centre and scale, as learned on the rows `fit` was given.

    number: missing to the median. boolean: to the most frequent. ordinal: codes 0, 1, ..., missing to the
    lower median. category: one 0/1 column a level seen in training (two levels: one column), missing to the
    most frequent or, where the contract says so, a level of its own; a level not seen in training has no
    column set, and where one column tells two levels apart, lies at its mean. A category of more than 30
    levels has a 0/1 column for each beginning that many of its values share (`CodePrefixes`), which a level
    not seen in training may have too. Where the contract asks for an
    indicator, a 0/1 column `NAME missing` is added. Then every column gets zero mean and unit variance over
    the training rows (of 0/1 columns, an sd under 0.1 is 0.1).
    """

    names: list[str]  # encoded columns, such as `age`, `ward=ICU`, `lactate missing`
    columns: list[str]  # the feature of each
    medians: dict[str, float | str | None]  # what is put where a feature is missing, as in `Cohort.values`

    def __init__(self, contract: Contract):
        self.contract = contract
        # By name: the columns of a table in another order are encoded alike.
        self._features: list[str] = sorted(contract.features)

    def fit(self, cohort: Cohort) -> Encoder:
        """Learn from the rows of `cohort`; returns self."""
        if not cohort.n_rows:
            raise CohortError("no rows to learn the encoding from")
        self._fill: dict[str, float] = {}
        self._levels: dict[str, list[str]] = {}
        self._widths: dict[str, int] = {}
        for name in self._features:
            values = cohort.values[name]
            kind = self.contract.features[name].type
            if kind == "category":
                self._levels[name], self._fill[name] = self._learn_levels(name, values)
            else:
                self._levels[name] = []
                self._fill[name] = _typical(values, kind)
        self._name_columns()
        raw = self._raw(cohort.values)
        self._center, self._scale = np.empty(len(self.names)), np.empty(len(self.names))
        for at in range(0, len(self.names), BLOCK):  # a copy of all columns may not fit
            columns = slice(at, at + BLOCK)
            self._center[columns], self._scale[columns] = _spread(raw[:, columns], self._binary[columns])
        return self

    def transform(self, cohort: Cohort) -> np.ndarray:
        """Encode rows, float64, shape (n_rows, n_encoded)."""
        encoded = self._raw(cohort.values)
        encoded -= self._center
        encoded /= self._scale
        return np.nan_to_num(encoded, copy=False, posinf=np.inf, neginf=-np.inf)

    def places(self, feature: str) -> np.ndarray:
        """Positions of the encoded columns of one feature."""
        return np.flatnonzero(np.array(self.columns) == feature)

    def typical_row(self) -> np.ndarray:
        """Encode a row of nothing but training medians and most frequent values, shape (n_encoded,)."""
        typical = {
            name: np.array([value], dtype=object if isinstance(value, str | None) else np.float64)
            for name, value in self.medians.items()
        }
        row = self._raw(Columns(typical, 1))[0]
        return (row - self._center) / self._scale

    def state(self) -> dict[str, np.ndarray]:
        """What was learned, as arrays without objects; `from_state` takes it back bit for bit."""
        levels = [level for name in self._features for level in self._levels[name]]
        return {
            "features": np.array(self._features, dtype=np.str_),
            "fill": np.array([self._fill[name] for name in self._features], dtype=np.float64),
            "levels": np.array(levels, dtype=np.str_),
            "level_counts": np.array([len(self._levels[name]) for name in self._features], dtype=np.int64),
            "widths": np.array([self._widths.get(name, PLAIN) for name in self._features], dtype=np.int64),
            "center": self._center,
            "scale": self._scale,
        }

    def bundles(self) -> Bundles:
        """The columns of each category as one: its levels, and its codes, as a dictionary has them."""
        widths = np.diff(self._starts, append=len(self.names))
        return Bundles(self._starts, np.where(np.repeat(widths == 1, widths), 1.0, self._steps * self._scale))

    @classmethod
    def from_state(cls, contract: Contract, state: Mapping[str, np.ndarray]) -> Encoder:
        """Rebuild a fitted encoder.

        Raises ModelError: the arrays do not belong to this contract.
        """
        encoder = cls(contract)
        try:
            encoder._features = [str(name) for name in state["features"]]
            counts = [int(count) for count in state["level_counts"]]
            levels = [str(level) for level in state["levels"]]
            fill = [float(value) for value in state["fill"]]
            widths = [int(width) for width in state["widths"]]
            center, scale = np.array(state["center"], np.float64), np.array(state["scale"], np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError("the encoder's arrays are incomplete; train the model again") from error
        sound = (
            set(encoder._features) == set(contract.features)
            and len(counts) == len(fill) == len(widths) == len(encoder._features) == len(contract.features)
            and min(counts, default=0) >= 0
            and all(count or width == PLAIN for count, width in zip(counts, widths, strict=True))
            and sum(counts) == len(levels)
        )
        if not sound:
            raise ModelError("the encoder's arrays belong to another contract; train the model again")
        ends = np.cumsum(counts)
        encoder._levels = {
            name: levels[end - count : end]
            for name, end, count in zip(encoder._features, ends, counts, strict=True)
        }
        encoder._fill = dict(zip(encoder._features, fill, strict=True))
        encoder._widths = {
            name: width for name, width in zip(encoder._features, widths, strict=True) if width != PLAIN
        }
        encoder._name_columns()
        if center.shape != (len(encoder.names),) or scale.shape != center.shape or not (scale > 0).all():
            raise ModelError("the encoder's arrays have the wrong shape; train the model again")
        encoder._center, encoder._scale = center, scale
        return encoder

    def _learn_levels(self, name: str, values: np.ndarray) -> tuple[list[str], float]:
        missing = absent(values)
        counts = Counter(values[~missing].tolist())
        if len(counts) > MANY_VALUES:
            learned = CodePrefixes.learned(counts)
            self._widths[name] = learned.width
            (typical, most), *_ = counts.most_common(1)
            return [typical, *learned.prefixes], float(self._own_level(name) and missing.sum() > most)
        listed = self.contract.features[name].categories
        levels = [text for text in (listed or sorted(counts)) if text in counts]
        fill = float(np.argmax([counts[text] for text in levels])) if levels else 0.0
        if self._own_level(name):
            if missing.sum() > (max(counts.values()) if levels else 0):
                fill = float(len(levels))
            levels = [*levels, ABSENT]
        return levels, fill

    def _code_prefixes(self, name: str) -> CodePrefixes:
        """Of a category of many values, whose first level is the most frequent value."""
        return CodePrefixes(tuple(self._levels[name][1:]), self._widths[name])

    def _own_level(self, name: str) -> bool:
        return self.contract.features[name].missing == "category"

    def _codes(self, name: str, values: np.ndarray) -> np.ndarray:
        """Level of each row, -1 where it is missing or was not met in training."""
        return pd.Index(self._known(name), dtype=object).get_indexer(pd.Index(values, dtype=object))

    def _known(self, name: str) -> list[str]:
        return [level for level in self._levels[name] if level != ABSENT]

    def _shown_levels(self, name: str) -> list[int]:
        """Positions of the levels that have a column: with two, the second says all."""
        return [1] if len(self._levels[name]) == 2 else list(range(len(self._levels[name])))

    def _name_columns(self) -> None:
        self.names, self.columns, binary = [], [], []
        self.medians = {}
        starts: list[int] = []
        steps: list[int] = []
        for name in self._features:
            feature, levels = self.contract.features[name], self._levels[name]
            starts.append(len(self.names))
            own: Sequence[int] = ()
            if name in self._widths:
                codes = self._code_prefixes(name)
                added = [f"{name}={prefix}*" for prefix in codes.prefixes]
                own = codes.steps
                added += [f"{name}=(missing)"] * self._own_level(name)
                self.medians[name] = None if self._fill[name] else levels[0]
            elif feature.type == "category":
                shown = [levels[place] or "(missing)" for place in self._shown_levels(name)]
                added = [f"{name}={level}" for level in shown]
                typical = levels[int(self._fill[name])] if levels else ABSENT
                self.medians[name] = typical or None
            else:
                added = [name]
                self.medians[name] = self._fill[name]
            binary += [feature.type in ("category", "boolean")] * len(added)
            steps += [*own, *range(len(own) + 1, len(added) + 1)]
            if feature.missing == "indicator":
                starts.append(len(self.names) + len(added))
                added.append(f"{name} missing")
                binary.append(True)
                steps.append(1)
            self.names += added
            self.columns += [name] * len(added)
        self._binary = np.array(binary, dtype=bool)
        self._starts, self._steps = np.unique(starts), np.array(steps)

    def _raw(self, features: Columns) -> np.ndarray:
        """Encoded columns before centring and scaling."""
        raw = np.zeros((features.n_rows, len(self.names)))
        at = 0
        for name in self._features:
            feature, values = self.contract.features[name], features[name]
            missing = absent(values)
            if name in self._widths:
                shown = self._code_prefixes(name).columns(
                    values if self._own_level(name) else np.where(missing, self._levels[name][0], values)
                )
                raw[:, at : at + shown.shape[1]] = shown
                at += shown.shape[1]
                if self._own_level(name):
                    raw[:, at] = missing
                    at += 1
            elif feature.type == "category":
                at = self._raw_category(raw, at, name, values, missing)
            else:
                raw[:, at] = np.where(missing, self._fill[name], values)
                at += 1
            if feature.missing == "indicator":
                raw[:, at] = missing
                at += 1
        return raw

    def _raw_category(
        self, raw: np.ndarray, at: int, name: str, values: np.ndarray, missing: np.ndarray
    ) -> int:
        known = self._known(name)
        codes = self._codes(name, values)
        codes[missing] = len(known) if self._own_level(name) else int(self._fill[name])
        for place in self._shown_levels(name):
            raw[:, at] = codes == place
            if len(self._levels[name]) == 2:
                # Zero would say the first of the two; NaN says neither.
                raw[codes < 0, at] = np.nan
            at += 1
        return at


@dataclass(frozen=True)
class Bundles:
    """The 0/1 columns of each category as a single one, which is all that a tree needs of them.

    Histograms are made for a tenth of the columns. Exclusive feature bundling (Ke et al. 2017), by what the
    encoder knows: the steps of the levels that are set add up to a level's place.

    Parameters
    ----------
    starts : ndarray of int, shape (n_bundles,)
        The first encoded column of each.
    steps : ndarray, shape (n_encoded,)
        What an encoded column is multiplied by before those of a bundle are added up.
    """

    starts: np.ndarray
    steps: np.ndarray

    def of(self, encoded: np.ndarray) -> np.ndarray:
        """Encoded rows as trees see them, float32, shape (n_rows, n_bundles)."""
        bundled = np.empty((len(encoded), len(self.starts)), np.float32)
        for at in range(0, len(encoded), BLOCK_ROWS):
            rows = slice(at, at + BLOCK_ROWS)
            bundled[rows] = np.add.reduceat(encoded[rows] * self.steps, self.starts, axis=1)
        return bundled


def _spread(raw: np.ndarray, binary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns, the latter as columns are divided by it."""
    # In units of a power of two, so that neither 1e300 nor 1e-300 leaves the range of its square.
    _, power = np.frexp(np.abs(raw).max(axis=0))
    level = np.ldexp(raw, -power)
    center = np.ldexp(level.mean(axis=0), power)
    spread = np.ldexp(level.std(axis=0), power)
    spread[binary & (spread > 0) & (spread < LEAST_SPREAD)] = LEAST_SPREAD
    # What rounding leaves of a constant column is no spread.
    return center, np.where(spread > 1e-12 * np.abs(center), spread, UNINFORMATIVE)


def _typical(values: np.ndarray, kind: str) -> float:
    there = np.sort(values[~np.isnan(values)])
    if not there.size:
        return 0.0
    if kind == "number":
        return float(np.median(there))
    if kind == "boolean":
        return float(there.mean() > 0.5)
    return float(there[(there.size - 1) // 2])
