"""A history with the monthly rates of outcomes before a series began, and since."""

from __future__ import annotations

from collections.abc import Mapping

from screening.data.monthly_counts import read_monthly_counts
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.metrics.outcomes import before_and_after
from screening.schemas.history import HistoryDocument


def with_rates(history: Mapping[str, object], rates: Readable) -> dict[str, object]:
    """Return the history of one series with monthly rates before and after.

    Parameters
    ----------
    history : mapping
        As `ledger.history.history` returns it.
    rates : path, URL, Database, or a pandas, polars or Arrow table
        Monthly counts of outcomes and interventions before and after the first night
        of the series (`data.monthly_counts`).

    Raises
    ------
    UsageError
        The history is of several series, or of one without nights.
    CohortError
        The table of `rates` cannot be read.
    """
    document = HistoryDocument.from_dict(history)
    series = document.series
    if len(series) != 1 or series[0].first is None:
        raise UsageError(
            "monthly counts belong to one series that has nights; name that series",
            parameters=["series"],
        )
    counts = read_monthly_counts(rates)
    before_after = before_and_after(counts, series[0].first)
    changed = series[0].replace(before_after=before_after)
    return document.replace(series=[changed]).to_dict()
