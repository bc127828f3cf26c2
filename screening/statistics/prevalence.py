"""Predictive values where the model is used: at the local prevalence, and at the ends of its range."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from screening.documents.figures import OperatingPoint, PredictiveValues, Rates, Share
from screening.documents.validation import Predictive
from screening.statistics.intervals import share_range, wilson
from screening.statistics.performance import rates
from screening.statistics.tally import group_codes

FIGURES = tuple(each.name for each in fields(PredictiveValues) if each.name != "prevalence")


def prevalence_range(positive: np.ndarray, groups: np.ndarray | None = None) -> Share:
    """Share of positives with its 95 % interval."""
    value, low, high = share_range(positive, group_codes(groups))
    return Share(value=float(value), low=float(low), high=float(high))


def at_local_prevalence(point: OperatingPoint, share: Share, given: float | None) -> Predictive:
    """PPV, NPV and reviews per case at the local prevalence and the ends of its range, by Bayes.

    `share` of positives in the whole training table is the estimate where none is `given`; given, half and
    twice of it stand for its range. At the point's own prevalence the figures are the point's, which hold
    what is not known of it; at the ends it is taken as known.
    """
    ends = (share.low, share.value, share.high)
    if given is not None:
        ends = (given / 2, given, min(2 * given, (1 + given) / 2))
    rows = []
    for prevalence in ends:
        own = np.isclose(prevalence, point.prevalence)
        found = vars(point) if own else rates(point.sensitivity_ends, point.specificity_ends, prevalence)
        rows.append(PredictiveValues(prevalence=prevalence, **{name: found[name] for name in FIGURES}))
    return Predictive(
        rule=point.rule,
        threshold=point.threshold,
        source="estimated" if given is None else "given",
        rows=rows,
    )


def prevalence_tonight(flagged: int, scored: int, point: Rates) -> Share | None:
    """How common the condition was among tonight's rows, from the share flagged (Rogan and Gladen 1978).

    The range joins the intervals of the share flagged, of sensitivity and of specificity by their squares,
    each weighted by how much it moves the result (MOVER). None where the threshold hardly tells apart.
    """
    se, sp = point.sensitivity, point.specificity
    if not scored or se is None or sp is None or se + sp < 1.2:
        return None
    rate, (low, high) = flagged / scored, (float(end) for end in wilson(flagged, scored))
    value = float(np.clip((rate + sp - 1) / (se + sp - 1), 0, 1))
    (_, se_low, se_high), (_, sp_low, sp_high) = (
        np.array(ends, float) for ends in (point.sensitivity_ends, point.specificity_ends)
    )
    hits = value * np.array([se_high - se, se - se_low])
    clear = (1 - value) * np.array([sp - sp_low, sp_high - sp])
    down, up = np.sqrt(np.square([rate - low, high - rate]) + hits**2 + clear**2)
    return Share(
        value=value,
        low=float(max(value - down / (se + sp - 1), 0)),
        high=float(min(value + up / (se + sp - 1), 1)),
    )
