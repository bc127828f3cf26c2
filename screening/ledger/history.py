"""Sum up the nights of each series: workload, PPV by reviews, missed cases, and drift.

Two models of a series, or two series, can be compared: patients that both flag,
patients that only one flags, and how many of them had the condition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import entries, trail, verifying
from screening.ledger.current import current_runs, last_verdicts, ordered_verdicts
from screening.ledger.database import CASES, IS_FLAGGED, REVIEWS, RUNS, TRAIL, Ledger
from screening.ledger.entries import Night
from screening.ledger.merging import Merges, merges_of
from screening.ledger.model_registry import (
    NO_SHADOW,
    champions,
    every_series,
    find_series,
    in_shadow,
    models_in_shadow,
)
from screening.ledger.outcome_entries import last_figures
from screening.metrics.control import (
    EARLIER_NIGHTS,
    RECENT_NIGHTS,
    control_charts,
    drift_over,
)
from screening.metrics.reviews import count_verdicts, judged_share, review_figures
from screening.schemas import history as documents
from screening.schemas.history import (
    NightFigures,
    NightRun,
    NightsBeside,
    Promotion,
    ThresholdChange,
)
from screening.schemas.run import WAITING
from screening.spelling import DIGITS, shown_series

# Fewest digits by which a shadow's model is named.
MIN_DIGITS = 4

Change = TypeVar(
    "Change",
    ThresholdChange,
    Promotion,
    documents.ModelApproved,
    documents.Retraining,
    documents.Retirement,
)


def history(
    ledger: Ledger,
    series: str | None = None,
    *,
    verify: bool = False,
    printed: str | None = None,
) -> dict[str, object]:
    """Return every run and the figures of each series, without shadows and patients.

    Parameters
    ----------
    ledger : Ledger
        As `open_ledger` returns it.
    series : str, optional
        Only this one, by its name; one without a name by the first digits of its key.
    verify : bool
        Verify the audit trail from its first entry before.
    printed : str, optional
        With `verify`: a head printed on a report, which the trail must contain.

    Returns
    -------
    dict
        As `screen history --json` prints it: `runs`, one entry a run and revision,
        oldest first; `series`; `threshold_changes`; `approvals`; `promotions`;
        `retrainings`; `retirements`; `audit`.

    Raises
    ------
    Unchained
        With `verify`, naming the first entry that is not as it was written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from screening import history, open_ledger
    >>> with open_ledger(f"{mkdtemp()}/screening.db", make=True) as ledger:
    ...     history(ledger)["runs"]
    []
    """
    with ledger.reading() as connection:
        if verify:
            head = verifying.verify(connection, printed)
        else:
            head = trail.head(connection)
        key = None if series is None else find_series(connection, series)
        changes = _changes(connection, key, entries.ThresholdChosen, ThresholdChange)
        promotions = _changes(connection, key, entries.Promoted, Promotion)
        approvals = _changes(connection, key, entries.Approved, documents.ModelApproved)
        runs: dict[int, NightRun] = {}
        facts = []
        for name in _by_first_night(connection, key):
            nights = _SeriesNights.read(connection, name)
            runs |= nights.runs
            facts.append(nights.sum_up(connection, changes, promotions, approvals))
        document = documents.HistoryDocument(
            runs=[runs[entry] for entry in _in_order(runs)],
            series=facts,
            threshold_changes=changes,
            approvals=approvals,
            promotions=promotions,
            retrainings=_changes(
                connection, key, entries.Retrained, documents.Retraining
            ),
            retirements=_changes(
                connection, key, entries.Retired, documents.Retirement
            ),
            audit=documents.Trail(
                entries=head.number,
                head=head.digest,
                verified=verify,
                erased=_count_erased(connection),
            ),
        )
    return document.to_dict()


def _by_first_night(connection: sa.Connection, series: str | None) -> Sequence[str]:
    """Return the keys of all series, or of one, in order of their first nights."""
    runs = RUNS.c
    names = sa.select(runs.series).where(~runs.shadow).group_by(runs.series)
    if series is not None:
        names = names.where(runs.series == series)
    in_order = names.order_by(sa.func.min(runs.night), sa.func.min(runs.entry))
    return connection.scalars(in_order).all()


def _in_order(runs: Mapping[int, NightRun]) -> list[int]:
    """Return the entries of runs in order of their nights."""
    return sorted(runs, key=lambda entry: (runs[entry].night, entry))


def _count_erased(connection: sa.Connection) -> int:
    """Count erased names, as entries state them."""
    # To look for what is gone all parts would have to be read.
    n_erased = 0
    for erasing in entries.stated(connection, entries.Erasing):
        n_erased += sum(len(places) for *_, places, _ in erasing.facts.erased)
    return n_erased


def _changes(
    connection: sa.Connection,
    series: str | None,
    kind: type[entries.Facts],
    document: type[Change],
) -> list[Change]:
    """Return changes of thresholds or champions in order.

    `series`: only those of this series, and those that are of all.
    """
    changes = []
    for change in entries.stated(connection, kind):
        values = dict(change.facts) | change._asdict()
        if series is None or values["series"] in (None, series):
            values["series"] = values["series"] and shown_series(values["series"])
            fields = {name: values[name] for name in document.model_fields}
            changes.append(document.from_dict(fields))
    return changes


class _CurrentVerdict(NamedTuple):
    """The current verdict on a case of a run; `case_id` is the patient's number now."""

    key: str
    case_id: str
    night: str
    flagged: bool
    verdict: str

    @classmethod
    def of(cls, row: sa.Row[Any], merges: Merges) -> _CurrentVerdict:
        """Return the verdict of a row, on the patient by the number of now."""
        patient = merges.patient(row.case_id)
        return cls(row.key, patient, row.night, row.flagged, row.verdict)


class _ReviewedCase(NamedTuple):
    """A flagged case of a night; `case_id` is the patient's number now."""

    case_id: str
    state: str
    drawn: bool


@dataclass(frozen=True)
class _SeriesNights:
    """The nights of a series.

    Parameters
    ----------
    series : str
        Its key.
    runs : dict
        Every run by its entry, in order of nights.
    nights : dict
        What was entered, by entry.
    verdicts : sequence of rows
        Current verdicts of the series, in order of nights.
    by_run : dict
        The same by the key of their run.
    merges : Merges
        Cases and verdicts have the numbers by which patients are known now.
    """

    series: str
    runs: Mapping[int, NightRun]
    nights: Mapping[int, Night]
    verdicts: Sequence[_CurrentVerdict]
    by_run: Mapping[str, Sequence[_CurrentVerdict]]
    merges: Merges

    @classmethod
    def read(cls, connection: sa.Connection, series: str) -> _SeriesNights:
        """Read the runs of a series and the verdicts on them."""
        chosen = (
            sa.select(RUNS, TRAIL.c.recorded)
            .join(TRAIL, TRAIL.c.number == RUNS.c.entry)
            .where(RUNS.c.series == series, ~RUNS.c.shadow)
            .order_by(RUNS.c.night, RUNS.c.entry)
        )
        rows = connection.execute(chosen).all()
        nights = entries.facts_at(connection, Night, [row.entry for row in rows])
        merges = merges_of(connection)
        verdicts = [
            _CurrentVerdict.of(row, merges)
            for row in ordered_verdicts(connection, REVIEWS.c.series == series)
        ]
        by_run = defaultdict(list)
        for verdict in verdicts:
            by_run[verdict.key].append(verdict)
        in_force = {row.night: row.entry for row in rows}
        runs = {}
        for row in rows:
            is_in_force = row.entry == in_force[row.night]
            night = nights[row.entry]
            runs[row.entry] = _night_run(row, night, by_run[row.key], is_in_force)
        return cls(series, runs, nights, verdicts, by_run, merges)

    def sum_up(
        self,
        connection: sa.Connection,
        changes: Sequence[ThresholdChange],
        promotions: Sequence[Promotion],
        approvals: Sequence[documents.ModelApproved],
    ) -> documents.SeriesFacts:
        """Compute the figures of the nights in force."""
        title = shown_series(self.series)
        in_force = [entry for entry, run in self.runs.items() if run.in_force]
        runs = [self.runs[entry] for entry in in_force]
        nights = [self.nights[entry] for entry in in_force]
        last = nights[-1]
        of_series = [change for change in promotions if change.series == title]
        reviews = review_figures(
            runs,
            self._reviewed_cases(connection, in_force),
            self.verdicts,
            [self.by_run[night.key] for night in nights],
            last.promised,
        )
        return documents.SeriesFacts(
            series=title,
            title=last.title,
            question=runs[0].question,
            nights=len(runs),
            first=runs[0].night,
            last=runs[-1].night,
            workload=documents.Workload(**_per_night(runs)),
            drift=self._drift(connection, in_force),
            control=control_charts(runs, changes, of_series, approvals),
            review_by=last.review_by,
            is_draft=last.is_draft,
            approval=last.approval,
            verdict=last.verdict,
            outcomes=last_figures(connection, self.series),
            **reviews,
        )

    def _drift(
        self, connection: sa.Connection, in_force: Sequence[int]
    ) -> documents.DriftOver | None:
        """Compare the scores of the last nights with earlier ones of their model."""
        model = self.nights[in_force[-1]].model
        of_model = {
            entry: self.nights[entry]
            for entry in in_force[-RECENT_NIGHTS - EARLIER_NIGHTS :]
            if self.nights[entry].model == model
        }
        merged = self.merges.hashes(model)
        scored = {
            entry: counts.replace(who=[merged.get(who, who) for who in counts.who])
            for entry, counts in entries.scores_at(connection, of_model).items()
        }
        recent = [
            scored[entry] for entry in in_force[-RECENT_NIGHTS:] if entry in scored
        ]
        earlier = [
            scored[entry] for entry in in_force[:-RECENT_NIGHTS] if entry in scored
        ]
        return drift_over(recent, earlier)

    def _reviewed_cases(
        self, connection: sa.Connection, in_force: Sequence[int]
    ) -> list[list[_ReviewedCase]]:
        """Return by night the flagged cases of the audit, and those ever judged."""
        judged = sa.select(REVIEWS.c.case_id).where(
            REVIEWS.c.series == self.series, REVIEWS.c.flagged
        )
        # Under its other numbers too.
        numbers: list[str] = []
        for verdict in self.verdicts:
            if verdict.flagged:
                numbers += self.merges.numbers(verdict.case_id)[1:]
        was_judged = (
            CASES.c.state.not_in(WAITING)
            | CASES.c.case_id.in_(judged)
            | CASES.c.case_id.in_(numbers)
        )
        chosen = sa.select(CASES).where(IS_FLAGGED, CASES.c.drawn | was_judged)
        cases = defaultdict(list)
        # By their numbers: a server may read the cases of every ward to join them with
        # one ward's runs.
        for case in trail.rows_in(connection, chosen, CASES.c.entry, in_force):
            patient = self.merges.patient(case.case_id)
            reviewed = _ReviewedCase(patient, case.state, case.drawn)
            cases[case.entry].append(reviewed)
        return [cases[entry] for entry in in_force]


def _night_run(
    row: sa.Row[Any], night: Night, verdicts: Sequence[_CurrentVerdict], in_force: bool
) -> NightRun:
    """Return a run of the history.

    `row`: the run, and when it was recorded; `verdicts`: those on it.
    """
    on_flagged = [verdict.verdict for verdict in verdicts if verdict.flagged]
    on_sample = [verdict.verdict for verdict in verdicts if not verdict.flagged]
    flagged = count_verdicts(on_flagged)
    figures = {name: getattr(night, name) for name in NightFigures.model_fields}
    figures["model"] = row.model[:12]
    flag_rate = night.flagged / night.scored if night.scored else None
    return NightRun(
        **figures,
        night=row.night,
        revision=row.revision,
        series=shown_series(row.series),
        recorded=row.recorded,
        in_force=in_force,
        flag_rate=flag_rate,
        minutes=night.review_minutes,
        verdicts=flagged,
        ppv=judged_share(flagged),
        sample=count_verdicts(on_sample),
    )


def _per_night(nights: Sequence[NightFigures]) -> dict[str, float | None]:
    """Return means over the nights for which a figure is known."""
    minutes = [
        night.review_minutes for night in nights if night.review_minutes is not None
    ]
    return {
        "cases_per_night": _mean([night.cases for night in nights]),
        "waiting_per_night": _mean([night.waiting for night in nights]),
        "minutes_per_night": _mean(minutes),
    }


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without a value."""
    return fmean(values) if values else None


@dataclass
class _Side:
    """One side of a comparison: the nights in force that both sides have.

    Parameters
    ----------
    series : str
        Key of its series.
    model : str
        Digest of its model if there are no nights.
    shadow : bool
    nights : list of Night
    flagged, alone : set of str
        Cases that it flagged, and that it alone flagged on some night.
    """

    series: str
    model: str
    shadow: bool = False
    nights: list[Night] = field(default_factory=list)
    flagged: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)

    def add(self, night: Night, cases: set[str], other_cases: set[str]) -> None:
        """Add a night with the cases that each side flagged."""
        self.nights.append(night)
        self.flagged |= cases
        self.alone |= cases - other_cases

    def sum_up(self, n_both: int, verdicts: Mapping[str, str]) -> documents.Flagging:
        """Count its flags, one per night; `n_both`: those that both sides raised."""
        models = dict.fromkeys(night.model[:12] for night in self.nights)
        return documents.Flagging(
            series=shown_series(self.series),
            model=", ".join(models) or self.model[:12],
            shadow=self.shadow,
            **_per_night(self.nights),
            ppv=_share_judged(self.flagged, verdicts),
            only=sum(night.cases for night in self.nights) - n_both,
            only_ppv=_share_judged(self.alone, verdicts),
        )


def compare_nights(
    ledger: Ledger, series: str, beside: str, drafts: Sequence[str] = ()
) -> NightsBeside:
    """Compare the nights of a series with those of a shadow or another series.

    Parameters
    ----------
    ledger : Ledger
    series : str
    beside : str
        First digits of the shadow's model, or the name of the other series.
    drafts : sequence of str
        Digests under which that model may have been scored before its approval.
    """
    with ledger.reading() as connection:
        key = find_series(connection, series)
        other_key, shadow = _compared_with(connection, key, beside, drafts)
        models = champions(connection)
        side = _Side(key, models.get(key, ""))
        other_model = shadow or models.get(other_key, "")
        other_side = _Side(other_key, other_model, shadow is not None)
        merges = merges_of(connection)
        n_both = _add_nights(connection, side, other_side, merges)
        words = last_verdicts(REVIEWS.c.series.in_((key, other_key)))
        # The last one on any number of a patient.
        in_order = sa.select(words).order_by(words.c.night, words.c.run)
        verdicts = {
            merges.patient(row.case_id): row.verdict
            for row in connection.execute(in_order)
        }
    nights = [night.night for night in side.nights]
    first = nights[0] if nights else None
    last = nights[-1] if nights else None
    return NightsBeside(
        nights=len(nights),
        first=first,
        last=last,
        both=sum(n_both),
        **_agreement(side, other_side, n_both),
        one=side.sum_up(sum(n_both), verdicts),
        other=other_side.sum_up(sum(n_both), verdicts),
    )


def _add_nights(
    connection: sa.Connection, side: _Side, other: _Side, merges: Merges
) -> list[int]:
    """Add the nights that both sides have; return by night the cases both flagged."""
    shadow = other.model if other.shadow else None
    ours = current_runs(side.series).subquery()
    theirs = current_runs(other.series, shadow).subquery()
    common = (
        sa.select(ours.c.entry, theirs.c.entry)
        .join(theirs, theirs.c.night == ours.c.night)
        .order_by(ours.c.night)
    )
    pairs = connection.execute(common).all()
    both = chain.from_iterable(pairs)
    nights = entries.facts_at(connection, Night, list(both))
    n_both = []
    for entry, other_entry in pairs:
        cases = _flagged_cases(connection, entry, merges)
        other_cases = _flagged_cases(connection, other_entry, merges)
        side.add(nights[entry], cases, other_cases)
        other.add(nights[other_entry], other_cases, cases)
        n_both.append(len(cases & other_cases))
    return n_both


def _flagged_cases(connection: sa.Connection, entry: int, merges: Merges) -> set[str]:
    """Return the flagged cases of a run, by their patients' numbers of now."""
    chosen = sa.select(CASES.c.case_id).where(CASES.c.entry == entry, IS_FLAGGED)
    return set(map(merges.patient, connection.scalars(chosen)))


def _share_judged(
    cases: Iterable[str], verdicts: Mapping[str, str]
) -> documents.JudgedShare:
    """Return the share with the condition among the cases that were judged."""
    counts = count_verdicts(verdicts[case] for case in cases if case in verdicts)
    return judged_share(counts)


def _compared_with(
    connection: sa.Connection, series: str, text: str, drafts: Sequence[str]
) -> tuple[str, str | None]:
    """Return the key of the series to compare with, and its shadow's model or None."""
    model = _shadow_of(connection, series, text, drafts)
    if model is not None:
        return series, model
    names = every_series(connection)
    begins_series = any(name.startswith(text) for name in names)
    if DIGITS.fullmatch(text) and not begins_series:
        raise UsageError(
            NO_SHADOW.format(text, shown_series(series)), parameters=["shadow"]
        )
    other = find_series(connection, text)
    if other == series:
        raise UsageError(
            f"`beside` {text}: a series cannot be compared with itself; give a model "
            "in shadow or another series",
            parameters=["beside"],
        )
    return other, None


def _shadow_of(
    connection: sa.Connection, series: str, text: str, drafts: Sequence[str]
) -> str | None:
    """Return the digest of a series' shadow by its first digits, or None."""
    shadows = models_in_shadow(connection, series)
    models = [digest for digest in shadows if digest.startswith(text)]
    if len(text) < MIN_DIGITS or not models:
        return in_shadow(connection, series, text, drafts)
    if len(models) > 1:
        raise UsageError(
            f"`beside` {text}: several models in shadow begin with these digits; "
            "give more digits",
            parameters=["beside"],
        )
    return models[0]


def _agreement(side: _Side, other: _Side, n_both: Sequence[int]) -> dict[str, Any]:
    """Return agreement, Cohen's kappa and how many units neither side flagged.

    They are over the nights on which both scored the same table; `n_both`: by night the
    cases that both flagged.
    """
    totals: Counter[str] = Counter()
    for night, other_night, n in zip(side.nights, other.nights, n_both, strict=True):
        is_same_table = night.table == other_night.table
        if is_same_table and night.units == other_night.units:
            totals.update(nights=1, units=night.units, both=n)
            totals.update(first=night.cases, second=other_night.cases)
    other_tables = len(n_both) - totals["nights"]
    n_units = totals["units"]
    if n_units == 0:
        return {
            "agreement": None,
            "kappa": None,
            "neither": 0,
            "other_tables": other_tables,
        }
    first = totals["first"]
    second = totals["second"]
    agreement = 1 - (first + second - 2 * totals["both"]) / n_units
    both_by_chance = first * second
    neither_by_chance = (n_units - first) * (n_units - second)
    chance = (both_by_chance + neither_by_chance) / n_units**2
    kappa = None if chance == 1 else (agreement - chance) / (1 - chance)
    return {
        "agreement": agreement,
        "kappa": kappa,
        "neither": n_units - first - second + totals["both"],
        "other_tables": other_tables,
    }
