"""The page over all series of a site: who came, who did not, and what each asks for; no patient on it."""

from __future__ import annotations

from collections.abc import Sequence

from screening.documents.overview import OverviewDocument, SeriesNight
from screening.page import format as shown
from screening.page.drawing import draw


def render_overview(found: OverviewDocument) -> str:
    """Return the page; the same document always gives the same text."""
    absent = [line for line in found.series if line.scored is None]
    wanting = [line for line in found.series if line.attention]
    flagged = [line.flagged for line in found.series if line.flagged is not None]
    return draw(
        "overview.html.j2",
        {
            "banner": {
                "title": shown.text(found.title, 200),
                "kind": "All series, night of",
                "date": found.night,
            },
            "facts": [
                ("Series", shown.count(len(found.series))),
                ("Without a page", shown.count(len(absent))),
                ("Want attention", shown.count(len(wanting))),
                ("Rows flagged", shown.count(sum(flagged))),
                (
                    "Missed nights caught up",
                    shown.count(sum(one.status == "published" for one in found.caught_up)),
                ),
            ],
            "tables": [
                {"title": title, "rows": [_row(line) for line in _worst_first(lines)]}
                for title, lines in (
                    ("Tonight", found.series),
                    ("Missed nights", found.caught_up),
                    ("In shadow", found.shadows),
                )
                if lines
            ],
        },
        styles=("report.css", "stacked.css", "overview.css"),
        footer=f"overview of {shown.name(found.night)}, exit code {found.exit_code}",
    )


def _worst_first(lines: Sequence[SeriesNight]) -> list[SeriesNight]:
    """What has no page, then what wants attention, then the rest; by name within."""
    return sorted(lines, key=lambda one: (one.scored is not None, not one.attention, one.series, one.night))


def _row(line: SeriesNight) -> dict[str, object]:
    failed = line.status == "failed"
    reasons = [" ".join(filter(None, (one.words, one.remedy))) for one in line.attention]
    said = [line.said] if line.said else []
    return {
        "series": shown.name(line.series),
        "night": shown.name(line.night),
        "page": line.page,
        "model": shown.name(line.model),
        "status": f"FAILED, code {line.exit_code}" if failed else "ATTENTION" if reasons else line.status,
        "loud": line.scored is None or bool(reasons),
        "figures": [shown.count(n) for n in (line.scored, line.refused, line.flagged, line.to_review)],
        "capacity": shown.count(line.capacity),
        "full": None not in (line.capacity, line.to_review) and line.to_review > line.capacity,  # type: ignore[operator]
        "drift": shown.p_value(line.drift_p),
        "words": [shown.text(each, 400) for each in (*said, *reasons)],
    }
