"""Rows with scores, labels and a threshold, from which figures are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, Self

import numpy as np

from screening.metrics.groups import group_codes, units_of
from screening.metrics.intervals import share_range, weighted_share
from screening.metrics.predictive_intervals import variance_inflation
from screening.metrics.tally import ThresholdCounts, rate_at_last
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import LabelledCounts

Kind = Literal["rows", "cases", "others", "flagged", "unflagged"]
"""Kind of rows."""

Need = Kind | Literal["class_sizes", "one_model", "chance", "chance_at_threshold"]
"""What a figure needs.

Some rows of a kind; that numbers of cases and of others may be shown, even 0, since the
figure tells them; scores of one model, which have a common order; a calibrated chance
of every row, or at the threshold.
"""


def is_enough(n_units: int, min_units: int) -> bool:
    """Return True if a figure of so many units is shown, and not withheld."""
    return n_units >= min_units


class ShareMethod(Protocol):
    """How shares of rows, and their 95 % intervals, are estimated."""

    def rate(self, rows: EvaluatedRows, *, of_cases: bool) -> Estimate:
        """Return sensitivity or specificity of rows with some of its class."""
        ...

    def share(
        self, rows: EvaluatedRows, events: np.ndarray, among: np.ndarray
    ) -> Estimate:
        """Return the share of some rows, at least one, with an event.

        Parameters
        ----------
        rows : EvaluatedRows
        events, among : bool ndarray of shape (n_rows,)
        """
        ...


class SharesOfSample:
    """Shares of held-out or labelled rows, by default.

    With Wilson's intervals, for the effective number of rows if they come in groups.

    Shares of a weighted sample are those of its table.
    """

    def rate(self, rows: EvaluatedRows, *, of_cases: bool) -> Estimate:
        """As for ``ShareMethod``."""
        return Estimate(*rate_at_last(rows.class_counts, of_cases))

    def share(
        self, rows: EvaluatedRows, events: np.ndarray, among: np.ndarray
    ) -> Estimate:
        """As for ``ShareMethod``."""
        codes = rows.codes
        if rows.weight is None:
            codes_of_rows = None if codes is None else codes[among]
            return share_range(events[among], codes_of_rows)
        units = np.arange(len(events)) if codes is None else codes
        share = weighted_share(events[among], rows.weight[among], units[among])
        return Estimate(*share)


@dataclass(frozen=True)
class EvaluatedRows:
    """Rows at a threshold that was chosen elsewhere.

    Intervals of `rate` and `share`, and of figures made of them, are by groups.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    threshold : float
        Rows that score as much or more are flagged.
    groups : ndarray of shape (n_rows,), optional
        Independent units.
    chance : ndarray of shape (n_rows,), optional
        Calibrated.
    weight : ndarray of shape (n_rows,), optional
        Weights with which shares of these rows are those of the table that they were
        sampled from (``weights_of_table``); by default rows are all there is.
    min_units : int
        Units (independent rows, or groups) below which a figure is withheld: of rows in
        subgroups the contract's `suppress`, else 0, which withholds none.
    fold : ndarray of shape (n_rows,), optional
        Fold in which a row was held out.
    n_settings : int, optional
        Settings that were tried on these held-out rows; the best was chosen; None if no
        setting was chosen by them.
    seed : int
        Of the bootstrap.
    chance_at_threshold : float, optional
        Calibrated chance at the threshold, between 0 and 1, from which on a review is
        taken to be worth its effort; None where scores are not calibrated.
    flags : bool ndarray of shape (n_rows,), optional
        Rows that were flagged, where they had several thresholds, such as each night's.
    one_model : bool
        Scores are those of one model, and have a common order.
    shares : ShareMethod
        How `rate` and `share` are estimated, which suits where the rows come from.
    """

    scores: np.ndarray
    positive: np.ndarray
    threshold: float
    groups: np.ndarray | None = None
    chance: np.ndarray | None = None
    weight: np.ndarray | None = None
    min_units: int = 0
    fold: np.ndarray | None = None
    n_settings: int | None = None
    seed: int = 0
    chance_at_threshold: float | None = None
    flags: np.ndarray | None = None
    one_model: bool = True
    shares: ShareMethod = field(default_factory=SharesOfSample)

    @cached_property
    def codes(self) -> np.ndarray | None:
        """Number of each row's group, (n_rows,); None if rows are independent."""
        return group_codes(self.groups)

    @cached_property
    def flagged(self) -> np.ndarray:
        """Mask of the flagged rows, (n_rows,): by default those at the threshold."""
        return self.scores >= self.threshold if self.flags is None else self.flags

    @property
    def two_by_two(self) -> LabelledCounts:
        """Number of rows by label and flag."""
        return LabelledCounts(
            true_positive=int((self.flagged & self.positive).sum()),
            false_negative=int((~self.flagged & self.positive).sum()),
            false_positive=int((self.flagged & ~self.positive).sum()),
            true_negative=int((~self.flagged & ~self.positive).sum()),
        )

    @property
    def variance_inflation(self) -> float:
        """Factor on the variance of a ranking, for machines chosen by these rows."""
        if self.n_settings is None:
            return 1.0
        return variance_inflation(self.n_settings)

    @cached_property
    def units(self) -> Mapping[Need, int]:
        """Number of units of each kind: rows, or groups that have some."""
        return {
            "rows": units_of(np.ones(len(self.scores), dtype=bool), self.codes),
            "cases": units_of(self.positive, self.codes),
            "others": units_of(~self.positive, self.codes),
            "flagged": units_of(self.flagged, self.codes),
            "unflagged": units_of(~self.flagged, self.codes),
        }

    def has(self, need: Need) -> bool:
        """Return True if these rows have what a figure needs, and may show it."""
        if need == "one_model":
            return self.one_model
        if need == "chance":
            return self.chance is not None
        if need == "chance_at_threshold":
            return self.chance_at_threshold is not None
        if need != "class_sizes" and not self.units[need]:
            return False
        return self.may_show(need)

    def may_show(self, need: Need) -> bool:
        """Return True unless figures with this need are withheld, of too few rows."""
        if need == "class_sizes":
            return self.may_show("cases") and self.may_show("others")
        return need not in self.units or is_enough(self.units[need], self.min_units)

    @cached_property
    def sensitivity(self) -> Estimate:
        """Share of cases that is flagged."""
        return self.rate(of_cases=True)

    @cached_property
    def specificity(self) -> Estimate:
        """Share of others that is not flagged."""
        return self.rate(of_cases=False)

    def rate(self, *, of_cases: bool) -> Estimate:
        """Return sensitivity or specificity; undefined without a row of its class."""
        if not self.units["cases" if of_cases else "others"]:
            return UNDEFINED
        return self.shares.rate(self, of_cases=of_cases)

    @cached_property
    def class_counts(self) -> ThresholdCounts:
        """Rows of each class at or above the threshold; both rates are of them."""
        thresholds = np.array([-np.inf, self.threshold])
        return ThresholdCounts(self.scores, self.positive, self.codes, thresholds)

    def share(self, events: np.ndarray, among: np.ndarray) -> Estimate:
        """Return the share of some rows with an event; undefined without such a row.

        Parameters
        ----------
        events, among : bool ndarray of shape (n_rows,)
        """
        if not among.any():
            return UNDEFINED
        return self.shares.share(self, events, among)

    def take(self, rows: np.ndarray) -> Self:
        """Return some of the rows, by a mask (n_rows,)."""

        def of_rows(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[rows]

        return replace(
            self,
            scores=self.scores[rows],
            positive=self.positive[rows],
            groups=of_rows(self.groups),
            chance=of_rows(self.chance),
            weight=of_rows(self.weight),
            fold=of_rows(self.fold),
            flags=of_rows(self.flags),
        )


def weights_of_table(positive: np.ndarray, prevalence: float | None) -> np.ndarray:
    """Return weights with which a sample has the table's share of cases, (n_rows,).

    Parameters
    ----------
    positive : bool ndarray of shape (n_rows,)
    prevalence : float, optional
        Share of cases of the table, 0 to 1; that of the sample if None.
    """
    if not positive.any() or prevalence is None:
        return np.ones(len(positive))
    of_sample = float(np.mean(positive))
    of_positive = prevalence / of_sample
    of_negative = (1 - prevalence) / (1 - of_sample)
    return np.where(positive, of_positive, of_negative)
