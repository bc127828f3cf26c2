"""The page over all series of a site: which nights came, which want attention, which did not come."""

from __future__ import annotations

from collections.abc import Sequence

from screening.documents.overview import OverviewDocument, SeriesNight
from screening.page import format as shown
from screening.page.drawing import draw


def render_overview(found: OverviewDocument) -> str:
    """Return the page; the same document always gives the same text."""
    tables = (("Tonight", found.series), ("Missed nights", found.caught_up), ("In shadow", found.shadows))
    return draw(
        "overview.html.j2",
        {
            "banner": {
                "title": shown.text(found.title, 200),
                "kind": "All series, night of",
                "date": found.night,
            },
            "overview": found,
            "tables": [(title, _worst_first(lines)) for title, lines in tables if lines],
        },
        styles=("report.css", "stacked.css", "overview.css"),
        footer=f"overview of {shown.name(found.night)}, exit code {found.exit_code}",
    )


def _worst_first(lines: Sequence[SeriesNight]) -> list[SeriesNight]:
    """What has no page, then what wants attention, then the rest; by name within."""
    return sorted(lines, key=lambda one: (one.scored is not None, not one.attention, one.series, one.night))
