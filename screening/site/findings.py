"""Find what the nights of a site show together: drift of columns, and outbreaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.ledger.database import Ledger
from screening.ledger.entries import SiteNight
from screening.ledger.site_entries import recent_site_nights
from screening.ledger.site_nights import CountedNights, counted_nights
from screening.ledger.standing import (
    NIGHTS_UNTIL_STANDING,
    GivenReasons,
    mark_standing,
)
from screening.monitoring.bins import equal_shares
from screening.monitoring.column_drift import (
    Drift,
    drifts,
    factor_of,
    outbreak,
    slow_rise,
)
from screening.monitoring.profile import BINS
from screening.report import format as shown
from screening.schemas.base import Reason
from screening.schemas.model import NumberProfile
from screening.schemas.reasons import (
    COLUMN_DRIFTS,
    FLAGS_DRIFT,
    OUTBREAK,
    SCORES_DRIFT,
)
from screening.site.site import Network
from screening.spelling import command_line, first_of
from screening.store.serialization import read_model

MAX_SERIES_NAMED = 5
# A factor that deviates less from 1 may be due to other patients.
MIN_FACTOR_DEVIATION = 0.03


@dataclass(frozen=True)
class Findings:
    """Reasons for attention that several nights show.

    Parameters
    ----------
    of_site : list of Reason
        Of all series together.
    by_series : dict of str to list of Reason
    series_of_site : dict of (str, str or None) to tuple of str
        By code and column of a reason of the site, the series in which it is clear.
    """

    of_site: list[Reason] = field(default_factory=list)
    by_series: dict[str, list[Reason]] = field(default_factory=dict)
    series_of_site: dict[tuple[str, str | None], tuple[str, ...]] = field(
        default_factory=dict
    )

    def of(self, series: str) -> list[Reason]:
        """Return the reasons of one series."""
        return self.by_series.get(series, [])

    def on_page_of(self, series: str) -> list[Reason]:
        """Return the reasons of one series, and those of the site that it shows."""
        of_site = [
            reason
            for reason in self.of_site
            if series in self.series_of_site.get((reason.code, reason.column), ())
        ]
        return [*self.of(series), *of_site]

    def add(self, series: str, reason: Reason) -> None:
        """Take in a reason of one series."""
        self.by_series.setdefault(series, []).append(reason)


def find(network: Network, ledger: Ledger, night: str) -> Findings:
    """Find drift and unusual flags in a site's nights up to this one."""
    counted = counted_nights(ledger, night, network.series)
    findings = Findings()
    recent = {name: nights.recent for name, nights in counted.items()}
    for drift in drifts(recent):
        nights_of = {name: counted[name] for name in drift.series}
        if drift.of_site:
            reason = _reason_of_drift(network, drift, nights_of)
            findings.of_site.append(reason)
            findings.series_of_site[reason.code, reason.column] = drift.series
        else:
            name = drift.series[0]
            findings.add(name, _reason_of_drift(network, drift, nights_of))
    for name, nights in counted.items():
        for reason in _reasons_of_flags(network, name, nights, len(counted)):
            findings.add(name, reason)
    with ledger.reading() as connection:
        earlier = recent_site_nights(connection, night, NIGHTS_UNTIL_STANDING)
    return _with_standing(findings, earlier)


def _with_standing(findings: Findings, earlier: Iterable[SiteNight]) -> Findings:
    """Mark standing findings with the night they began."""
    nights = [*earlier]
    of_site = [GivenReasons(night.night, night.attention) for night in nights]
    by_series = {}
    for name, reasons in findings.by_series.items():
        of_series = [
            GivenReasons(night.night, night.by_series.get(name, ())) for night in nights
        ]
        by_series[name] = mark_standing(reasons, of_series)
    return replace(
        findings,
        of_site=mark_standing(findings.of_site, of_site),
        by_series=by_series,
    )


def _options(network: Network, series: str | None) -> str:
    """Return the options of `status` that acknowledge a reason."""
    words: list[object] = ["status", "--site", network.file]
    if series is not None:
        words += ["--series", series]
    return command_line(*words).removeprefix("screen status")


def _reason_of_drift(
    network: Network, drift: Drift, nights: Mapping[str, CountedNights]
) -> Reason:
    """Return the reason for attention of a change, by its measure."""
    effect = drift.difference.effect
    series = None if drift.of_site else drift.series[0]
    facts: dict[str, Any] = {
        "figure": abs(effect),
        "threshold": drift.bound,
        "since": drift.since,
        "options": _options(network, series),
    }
    is_higher = effect > 0
    if drift.measure.kind == "scores":
        direction = "higher" if is_higher else "lower"
        return SCORES_DRIFT(direction=direction, **facts)
    if drift.measure.kind == "flags":
        counts = nights[drift.series[0]].recent.counts[drift.measure]
        before, of_late = _shares(counts, drift.window)
        direction = "more frequent" if is_higher else "rarer"
        return FLAGS_DRIFT(
            of_late=of_late,
            before=before,
            earlier="before",
            direction=direction,
            **facts,
        )
    where = ""
    if drift.of_site:
        names = [shown.name(name) for name in drift.series]
        named = first_of(names, MAX_SERIES_NAMED)
        where = f", in {len(names)} of {drift.n_series} series ({named})"
    if drift.measure.kind == "missing":
        change = _change_of_missing(drift, nights)
    else:
        change = _change_of_values(network, drift, nights)
    return COLUMN_DRIFTS(
        column=drift.measure.column, change=change, where=where, **facts
    )


def _shares(counts: np.ndarray, window: int) -> tuple[float, float]:
    """Return the share in the last bin before the recent nights, and on these."""
    ends = []
    for part in (counts[:-window], counts[-window:]):
        total = part.sum(axis=0)
        share = total[-1] / max(total.sum(), 1)
        ends.append(float(share))
    return ends[0], ends[1]


def _change_of_missing(drift: Drift, nights: Mapping[str, CountedNights]) -> str:
    """Return in words how the share without a value has changed."""
    counts = [night.recent.counts[drift.measure] for night in nights.values()]
    if not counts:
        return "is missing more often, or less often"
    before, of_late = _shares(_added(counts), drift.window)
    return f"{of_late:.0%} of the values are missing ({before:.0%} before)"


def _change_of_values(
    network: Network, drift: Drift, nights: Mapping[str, CountedNights]
) -> str:
    """Return in words how the values have changed: by a factor, a shift, or higher."""
    level = "higher" if drift.difference.effect > 0 else "lower"
    sizes = list(_sizes_of_change(network, drift, nights))
    factors = [size for kind, size in sizes if kind == "factor"]
    shifts = [size for kind, size in sizes if kind == "shift"]
    if factors and abs(np.median(factors) - 1) > MIN_FACTOR_DEVIATION:
        return f"values are about {np.median(factors):.2g} times as high"
    if shifts:
        return f"values are {level} by about {abs(np.median(shifts)):.2g}"
    return f"values are distributed differently ({level} overall)"


def _sizes_of_change(
    network: Network, drift: Drift, nights: Mapping[str, CountedNights]
) -> Iterator[tuple[str, float]]:
    """Yield the factor or shift of each series with known bins of the column."""
    for name, counted in nights.items():
        edges = _edges(network, name, drift.measure.column)
        if edges is not None:
            counts = counted.recent.counts[drift.measure]
            size = factor_of(counts, edges, drift.window)
            if size is not None:
                yield size


def _added(counts: list[np.ndarray]) -> np.ndarray:
    """Return the sum of counts of several series over the nights that all have."""
    n_nights = min(map(len, counts))
    common = [of_series[-n_nights:] for of_series in counts]
    return np.sum(common, axis=0)


def _edges(network: Network, series: str, column: str) -> np.ndarray | None:
    """Return the edges of a numeric column's bins, by the series' model."""
    folder = network.series[series].model
    try:
        model = read_model(folder)
    except ModelError:
        return None
    profile = model.training.profile
    past = None if profile is None else profile.features.get(column)
    if not isinstance(past, NumberProfile):
        return None
    is_last_of_bin = np.diff(equal_shares(past.counts, BINS)) > 0
    return np.asarray(past.edges, float)[is_last_of_bin]


def _reasons_of_flags(
    network: Network, name: str, nights: CountedNights, n_series: int
) -> list[Reason]:
    """Return reasons for how many patients of a series are flagged over nights."""
    reasons = []
    options = _options(network, name)
    rise = slow_rise(nights.flagged, nights.sizes, n_series)
    if rise is not None:
        at_first, of_late = rise
        reason = FLAGS_DRIFT(
            figure=abs(of_late - at_first),
            of_late=of_late,
            since=nights.nights[-28],
            before=at_first,
            earlier="on the first ninety nights",
            direction="more frequent" if of_late > at_first else "rarer",
            options=options,
        )
        reasons.append(reason)
    cases = outbreak(nights.nights, nights.new_cases, n_series)
    if cases is not None:
        reason = OUTBREAK(
            figure=cases.new / max(cases.expected, 0.5),
            new=cases.new,
            since=cases.since,
            expected=cases.expected,
            p=cases.p,
        )
        reasons.append(reason)
    return reasons
