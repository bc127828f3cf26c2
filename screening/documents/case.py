"""Whom a run names: rows and patients, with what the ledger knows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from screening.documents.shape import Range, document, named, rare

State = Literal["new", "ongoing", "reviewed", "known"]
Word = Literal["confirmed", "not", "unsure", "known", "disputed"]


@document
class Contribution:
    """How far one value moves a case's score from what the median would give.

    `lower` is the share of training rows with a lower value, `alike` that with the same category.
    """

    feature: str
    value: str
    unit: str | None
    direction: str
    change: float
    reference: Range | None = rare()
    seen: Range | None = rare()
    lower: float | None = None
    alike: float | None = None


@document
class Verdict:
    """The last verdict on a case, and the night it was given for."""

    night: str
    verdict: Word


@document
class Case:
    """One flagged row, or one just below the threshold.

    `p_low` and `p_high` bound the share of past negatives that score as high; `display` is what the contract
    wants shown beside the row; `explained` is the share of its contributions in the changes of all values.
    """

    rank: int | None = rare()
    id: str
    group: str | None
    row: int | None
    score: float
    p_value: float
    label: Annotated[str, named("class")]
    display: Mapping[str, str | None] | None = None
    contributions: Sequence[Contribution] | None = rare()
    explained: float | None = rare(beside="contributions")
    missing: Sequence[str] = rare((), beside="contributions")
    votes: Mapping[str, bool] | None = rare(beside="contributions")
    discovery: bool | None = rare()
    chance: float | None
    chance_low: float | None
    chance_high: float | None
    p_low: float | None = None
    p_high: float | None = None
    state: State | None = rare()
    nights: int | None = rare(beside="state")
    last_verdict: Verdict | None = rare(beside="state")
    drawn: bool | None = rare(beside="state")


@document
class ExplainedCase(Case):
    """Any row of the table, explained by itself."""

    flagged: bool


@document
class GroupFacts:
    """One patient, where rows come in patients; `by_class`: flagged rows by the class that speaks loudest."""

    group: str
    rows: int
    flagged: int
    by_class: Mapping[str, int]
    top_score: float
    display: Mapping[str, str | None] | None = None
    p_value: float
    discovery: bool
    p_low: float | None = None
    p_high: float | None = None
    state: State | None = rare()
    nights: int | None = rare(beside="state")
    last_verdict: Verdict | None = rare(beside="state")
    drawn: bool | None = rare(beside="state")
