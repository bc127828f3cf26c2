"""A night's document as a copy may show it, built of what may be told: nothing new slips through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from screening.deidentify.cases import WITHHELD, alike, owner
from screening.deidentify.crowds import LEAST, Ranks, at_least, ranks_of, share, smallest, told
from screening.deidentify.key import SiteKey
from screening.deidentify.model import deidentified_model, facts_of, picked
from screening.documents.case import Case
from screening.documents.model import FORMAT_VERSION
from screening.documents.reason import Reason
from screening.documents.run import (
    Counts,
    Discoveries,
    InputFacts,
    NightFeature,
    NightSubgroup,
    ReachingCounts,
    RunDocument,
    Share,
    Times,
    Unflagged,
)
from screening.errors import UsageError

NAME = "copy"


@dataclass(frozen=True)
class Copy:
    """A copy, and how well it hides.

    `smallest_group` counts the fewest patients that share what the page shows of one of them (None where it
    lists nobody), `listed` its rows, `left_out` those of the night's list that it does not have;
    `values_withheld` is the share of the listed rows' contributing values not even shown as a band.
    """

    run: RunDocument
    smallest_group: int | None
    listed: int
    left_out: int
    values_withheld: float


def deidentified(run: RunDocument, key: SiteKey) -> Copy:
    """Return a copy of a night in which nobody stands out from fewer than five.

    The key makes the pseudonyms and shifts the dates. Raises UsageError where one to four patients are
    flagged.
    """
    flagged = len({owner(case) for case in run.cases})
    if 0 < flagged < LEAST:
        raise UsageError(f"fewer than {LEAST} patients are flagged; nobody can be hidden among so few")
    features, ranks = facts_of(run.model), ranks_of(run.model)
    cases = list(alike(run.cases, features, ranks, key, numbered=True))
    near = list(alike(run.near_misses, features, ranks, key, numbered=False))
    lines, owners = [case for _, case in (*cases, *near)], [whose for whose, _ in (*cases, *near)]
    listed = [*run.cases, *run.near_misses]
    before = sum(len(case.contributions or ()) for case in listed)
    return Copy(
        run=_document(run, key, ranks, [c for _, c in cases], [c for _, c in near]),
        smallest_group=smallest([repr(replace(case, id="")) for case in lines], owners),
        listed=len(lines),
        left_out=len(listed) - len(lines),
        values_withheld=1 - sum(map(_n_values, lines)) / before if before else 0.0,
    )


def _n_values(case: Case) -> int:
    return sum(one.value != WITHHELD for one in case.contributions or ())


def _document(
    run: RunDocument,
    key: SiteKey,
    ranks: Mapping[str, Ranks],
    cases: Sequence[Case],
    near: Sequence[Case],
) -> RunDocument:
    estimate = run.prevalence_estimate
    night = key.shifted(run.date) or NAME
    return RunDocument(
        format_version=FORMAT_VERSION,
        run_id=NAME,
        date=night,
        model=deidentified_model(run.model, key),
        input=InputFacts(files=(), delimiter=None, encoding=None, rows=run.counts.scored, notes=()),
        versions={},
        counts=_counts(run.counts),
        refused={reason: n for reason, n in run.refused.items() if n >= LEAST},
        evaluation=None,
        data=[_feature(each, run.counts.scored) for each in run.data],
        groups=None,
        groups_flagged=run.groups_flagged,
        score_counts={
            name: _reaching(counts, ranks[name]) for name, counts in run.score_counts.items() if name in ranks
        },
        cases=cases,
        cases_total=len(cases),
        cases_shown=len(cases),
        cases_explained=sum(case.contributions is not None for case in cases),
        near_misses=near,
        attention=[
            Reason(each.code, f"{each.code.replace('_', ' ').capitalize()}.") for each in run.attention
        ],
        sample=(),
        unflagged=Unflagged(cases=run.unflagged.cases if run.unflagged.cases >= LEAST else 0),
        discoveries=_discoveries(run.discoveries),
        subgroups=_subgroups(run.subgroups),
        prevalence_estimate=estimate
        and Share(value=round(estimate.value, 3), low=round(estimate.low, 3), high=round(estimate.high, 3)),
        pseudonymised=True,
        times=Times(started=night, seconds=0.0),
        sha256="",
    )


def _counts(found: Counts) -> Counts:
    """Counts of five or more; fewer refused rows are as if they had not been in the table."""
    refused = found.refused if found.refused >= LEAST else 0
    states = told({name: getattr(found, name) or 0 for name in ("new", "ongoing", "reviewed", "known")})
    few = found.resolved is not None and 0 < found.resolved < LEAST
    return Counts(
        read=found.scored + refused,
        scored=found.scored,
        refused=refused,
        flagged=found.flagged,
        flagged_by_class=told(found.flagged_by_class),
        cases=found.cases,
        **({name: n for name, n in states.items() if getattr(found, name) is not None}),
        resolved=None if few else found.resolved,
    )


def _feature(found: NightFeature, n_rows: int) -> NightFeature:
    return picked(
        NightFeature,
        found,
        ("name", "type", "unit", "normalised", "alarm"),
        missing=share(found.missing, n_rows),
        missing_training=round(found.missing_training, 2),
        psi=None if found.psi is None else round(found.psi, 2),
        ks=None if found.ks is None else round(found.ks, 2),
        outside=None if found.outside is None else share(found.outside, n_rows),
        unseen=None if found.unseen is None or found.unseen < LEAST else found.unseen,
    )


def _reaching(found: ReachingCounts, ranks: Ranks) -> ReachingCounts:
    """How many rows reach each rank, where at least five lie between one rank and the next."""
    kept: list[tuple[float | None, int]] = []
    for threshold, count in zip(found.thresholds, found.counts, strict=True):
        if not kept or abs(count - kept[-1][1]) >= LEAST:
            kept.append((None if threshold is None else ranks.of_threshold(threshold), count))
    return ReachingCounts(thresholds=[each for each, _ in kept], counts=[count for _, count in kept])


def _discoveries(found: Discoveries | None) -> Discoveries | None:
    """What remains rare among many, unless it is one to four."""
    if found is None or 0 < found.found < LEAST:
        return None
    return picked(
        Discoveries,
        found,
        ("q", "per", "n_screened", "n_calibration", "found", "flagged"),
        p_cut=None if found.p_cut is None else at_least(found.p_cut),
        warning=None,
    )


def _subgroups(found: Sequence[NightSubgroup]) -> list[NightSubgroup]:
    """The levels of each column that five rows or more have."""
    kept = []
    for column in dict.fromkeys(each.column for each in found):
        rows = [each for each in found if each.column == column]
        sizes = {str(i): row.n or 0 for i, row in enumerate(rows)}
        kept += [
            NightSubgroup(
                column=row.column,
                level=row.level,
                n=row.n,
                flag_rate=None if row.flag_rate is None else round(row.flag_rate, 2),
            )
            for i, row in enumerate(rows)
            if row.n and str(i) in told(sizes)
        ]
    return kept
