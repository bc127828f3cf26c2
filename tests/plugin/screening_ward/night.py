"""A reason for attention, and a column of the worklist."""

from screening.report.columns import Column
from screening.schemas.reasons import NIGHT, ReasonKind

MAX_REVIEWS = 20


def find_long_list(run):
    """Yield the reason that more patients are flagged than the ward can review."""
    if run.counts.flagged > MAX_REVIEWS:
        yield LONG_LIST(
            figure=run.counts.flagged, threshold=MAX_REVIEWS, rows=run.counts.flagged
        )


LONG_LIST = ReasonKind(
    code="long_list",
    words="{rows} rows are flagged, more than the ward can review before noon.",
    remedy="Call the second reviewer.",
    when="more than 20 rows are flagged",
    arises_in=NIGHT,
    found_in=find_long_list,
)

POINTS = Column(
    "points",
    width="4rem",
    print_width="12mm",
    help="the score in points",
    head=lambda run: "Points",
    text=lambda line: f"{line.score:.1f}",
)
