"""The page of a table of features: what it was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.features.coverage import MIN_ROWS, Coverage
from screening.report.drawing import draw


def render_features(
    table: str,
    *,
    rows: Mapping[str, int],
    faults: Sequence[str],
    undated: Sequence[str],
    coverage: Coverage,
) -> str:
    """Render the HTML page of a table of features.

    Parameters
    ----------
    table : str
        Name of the table.
    rows : mapping from str to int
        Stays at a night by reason: in, or why they are not rows.
    faults : sequence of str
        Faults of the sources, by file and line.
    undated : sequence of str
        Features that may know more in the past than the night did.
    coverage : Coverage
    """
    groups = [*dict.fromkeys((ward, month) for _, ward, month, *_ in coverage.filled)]
    shares: dict[str, dict[tuple[str, str], float]] = {}
    for name, ward, month, n, n_filled in coverage.filled:
        shares.setdefault(name, {})[ward, month] = n_filled / n
    return draw(
        "features.html.j2",
        {
            "table": table,
            "rows": rows,
            "faults": faults,
            "undated": undated,
            "groups": groups,
            "shares": shares,
            "units": coverage.units,
            "delays": coverage.delays,
            "codes_not_met": coverage.codes_not_met,
            "min_rows": MIN_ROWS,
            "banner": {"title": table, "kind": "features", "date": ""},
        },
        footer=f"features {table}",
    )
