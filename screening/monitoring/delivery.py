"""Is tonight's table the delivery that was expected: whole, of tonight, of this ward?

A table can be sound row by row and wrong as a whole: half of it, yesterday's, another ward's. So it is held
against the nights of its series. What is sure stops the night, the rest is a reason to look twice, until
somebody accepts the delivery. A night that was surely not whole is no measure for later ones.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from screening.schemas.base import Reason
from screening.schemas.run import Delivery

FEWEST, WINDOW = 5, 28
"""Nights of a series before its own spread is known, and how many count: wards grow and shrink."""
# Chances of a false alarm a night: together, with what is rarer, under one in a hundred.
NOT_WHOLE, GONE, MANY_ROWS, OLD = 0.0095, 0.001, 0.0005, 0.001
NOBODY, UNCHANGED = 1e-3, 1e-4
"""Chance, below which nobody of the last night is left, or nobody came or went, for another reason."""
DOUBTFUL = 1e-3
"""A finding that chance makes less often than this is no measure for later nights; a dip is one."""
STAY = 0.3
"""Share of patients that are there on the next night too, below which patients do not stay."""
# How much few rows and many patients gone go together where nothing is wrong.
TOGETHER = 0.5
# A square root of a count spreads by a half, whatever the count: taken to be as sure as four nights make it.
POISSON, ANSCOMBE, WORTH = 0.5, 3 / 8, 4
# What a weekday can do to admissions, and to those who leave.
OF_WEEKDAY = 0.5
OLD_AT_FIRST = 30
"""Days without a new row that a ward of long stays may have before its own nights tell."""
OTHER_IDS = "ids_of_another_shape"
ACCEPT = "where the table is right all the same, score the night with --accept-delivery REASON"
TONIGHT = f"See whether the table and --date are tonight's; {ACCEPT}."
WHOLE = f"See whether the export was whole and of this ward; {ACCEPT}."


@dataclass(frozen=True)
class Elsewhere:
    """A night that had the same table, to the last byte.

    `series`: as shown to people, "" for this one; `differs`: whether its tables used to be others.
    """

    night: str
    series: str = ""
    differs: bool = True


@dataclass(frozen=True)
class Finding:
    """What is unlike an expected delivery; `chance` of it, 0 where it has no part in it; `sure`: stops."""

    reason: Reason
    chance: float = 0.0
    sure: bool = False


def still_there(
    before: Sequence[int], now: Sequence[int], most: int
) -> tuple[int, int]:
    """Size of a sample of a night's patients, and how many of it are there on another night.

    `before`, `now`: the lowest `most` hashes of the patients of each. Where there are more, those below the
    lower of both ends are a sample of both nights.
    """
    end = min(
        (max(hashes) for hashes in (before, now) if len(hashes) >= most), default=None
    )
    sample = {patient for patient in before if end is None or patient <= end}
    return len(sample), len(sample.intersection(now))


def share_that_stays(nights: Iterable[Delivery]) -> float | None:
    """Share of a night's patients that are there on the next night too; None where nobody is recognised."""
    counts = [(night.before, night.still or 0) for night in nights if night.before]
    before, still = np.sum(counts, axis=0) if counts else (0, 0)
    return float((still + 0.5) / (before + 1)) if before else None


def examine(
    night: str,
    tonight: Delivery,
    past: Mapping[str, Delivery],
    *,
    n_files: int = 1,
    files_expected: int | None = None,
    rows_expected: tuple[int, int] | None = None,
    other_ids: Sequence[str] = (),
    same_table: Sequence[Elsewhere] = (),
) -> tuple[Delivery, list[Finding]]:
    """Hold a night's delivery against what was expected of it; return it with the findings' codes, and these.

    `past`: by night those of the series in force; `other_ids`: in what the ids are written unlike training's.
    """
    # Ids of another hospital than training's are accepted once: else such a night is not among the past ones.
    known_ids = any(OTHER_IDS in delivery.found for delivery in past.values())
    # Two screens may read one ward's table every night; two wards have tables of their own.
    twins = [
        twin
        for twin in same_table
        if twin.night != night or (twin.series and twin.differs)
    ]
    findings = [_same_table(night, twin) for twin in twins[:1]]
    if other_ids and not known_ids:
        unlike = "; ".join(other_ids)
        words = f"The ids are written otherwise than in training ({unlike}): nobody is recognised."
        findings.append(Finding(Reason(OTHER_IDS, words, remedy=WHOLE), sure=True))
    if files_expected is not None and n_files != files_expected:
        words = f"{n_files} of {files_expected} files came (files_per_night)."
        findings.append(
            Finding(
                Reason("files_unexpected", words, None, n_files, files_expected, WHOLE)
            )
        )
    low, high = rows_expected or (0, tonight.rows)
    if not low <= tonight.rows <= high:
        words = f"{tonight.rows:,} rows came, {low:,} to {high:,} are expected (rows_per_night)."
        bound = low if tonight.rows < low else high
        findings.append(
            Finding(Reason("rows_unexpected", words, None, tonight.rows, bound, WHOLE))
        )
    nights = {
        day: past[day] for day in sorted(past) if day < night and past[day].measure
    }
    history = _History(night, tonight, dict([*nights.items()][-WINDOW:]))
    findings += history.times()
    if len(history.nights) >= FEWEST:
        expected = history.rows_expected()
        usual = np.square(np.maximum(expected.ppf([NOT_WHOLE, 1 - MANY_ROWS]), 0.0))
        tonight = history.tonight = tonight.replace(
            usual=(int(np.ceil(usual[0])), int(usual[1]))
        )
        findings += history.whole(expected)
    codes = [finding.reason.code for finding in findings] + [OTHER_IDS] * bool(
        known_ids and other_ids
    )
    doubtful = any(finding.chance < DOUBTFUL for finding in findings)
    return tonight.replace(found=tuple(codes), doubtful=doubtful), findings


def _same_table(night: str, twin: Elsewhere) -> Finding:
    whose = f" of series {twin.series}" if twin.series else ""
    if twin.night != night:
        words = f"The table is that of the night of {twin.night}{whose}, byte for byte."
        return Finding(Reason("table_of_another_night", words, remedy=WHOLE), sure=True)
    words = f"The table{whose} is the same tonight, byte for byte: one of the two is another ward's."
    return Finding(Reason("table_of_another_series", words, remedy=WHOLE))


class _History:
    """Tonight beside the last nights that were as expected."""

    def __init__(self, night: str, tonight: Delivery, nights: Mapping[str, Delivery]):
        self.tonight, self.days, self.nights = (
            tonight,
            [*nights, night],
            [*nights.values()],
        )
        self.dates = [datetime.date.fromisoformat(day) for day in self.days]
        self.weekdays = np.eye(7)[[date.weekday() for date in self.dates]]
        self.stay = share_that_stays(self.nights) or 0.0

    def rows_expected(self) -> stats.rv_continuous:
        """Square root of tonight's rows, by those of the night before it and by the weekday."""
        roots = np.sqrt([night.rows for night in self.nights])
        middle = float(roots.mean())
        last = np.concatenate([[0.0], roots - middle])
        design = np.column_stack([np.ones(len(last)), last, self.weekdays])
        # Of a ward only those who came or went make the difference; rows of one patient do so together.
        units = sum(night.units for night in self.nights)
        rows_of_each = sum(night.rows for night in self.nights) / max(units, 1)
        spread = POISSON * np.sqrt(rows_of_each * min(1.0, 2 * (1 - self.stay)))
        weekday = max(0.1, OF_WEEKDAY * middle / 2 * (1 - self.stay))
        scale = np.array([10 * middle, spread, *[weekday] * 7])
        return _next(
            roots, design, np.array([middle, self.stay, *[0.0] * 7]), scale, spread
        )

    def whole(self, expected: stats.rv_continuous) -> Iterator[Finding]:
        """Whether rows are too few and too many patients gone; or rows too many, or nobody came or went."""
        rows, root, (low, high) = (
            self.tonight.rows,
            np.sqrt(self.tonight.rows),
            self.tonight.usual or (0, 0),
        )
        words = (
            f"{rows:,} rows came, {low:,} to {high:,} are usual after the last nights"
        )
        if rows > high:
            yield Finding(
                Reason("rows_too_many", f"{words}.", None, rows, high, WHOLE),
                expected.sf(root),
            )
        few = [expected.cdf(root)]
        before, still, last = (
            self.tonight.before or 0,
            self.tonight.still or 0,
            self.days[-2],
        )
        if before and self.stay >= STAY:
            stay = self.stay ** (self.dates[-1] - self.dates[-2]).days
            words += f"; {still} of {before} patients of {last} are still there, usually {stay:.0%} of them"
            # Some leave together, to one ward or home before a holiday: half as many decisions.
            if not still and (1 - stay) ** (before / 2) < NOBODY:
                yield Finding(
                    Reason("patients_gone", f"{words}.", None, 0.0, stay, WHOLE),
                    sure=True,
                )
                return
            few.append(
                self._leavers(before, stay).sf(np.sqrt(before - still + ANSCOMBE))
            )
            # Some leave and come every day.
            came = np.mean(
                [
                    night.units - (night.still or 0)
                    for night in self.nights
                    if night.before
                ]
            )
            chance = float(stay**before * np.exp(-came))
            if still == before == self.tonight.units and chance < UNCHANGED:
                same = f"The patients are those of {last}: none of {before} has left, and nobody came."
                yield Finding(
                    Reason("patients_unchanged", same, remedy=TONIGHT), chance
                )
        # Two views of one loss, added as normal deviates that go together.
        spread = np.sqrt(len(few) * (1 + (len(few) - 1) * TOGETHER))
        chance = float(stats.norm.cdf(stats.norm.ppf(few).sum() / spread))
        if chance < NOT_WHOLE or few[-1] < GONE:
            yield Finding(
                Reason("not_whole", f"{words}.", None, rows, low, WHOLE), chance
            )

    def _leavers(self, before: int, stay: float) -> stats.rv_continuous:
        """Square root of how many of so many leave, by the weekday."""
        recognised = [night for night in self.nights if night.before]
        roots = np.sqrt(
            [
                (night.before or 0) - (night.still or 0) + ANSCOMBE
                for night in recognised
            ]
        )
        sizes = np.sqrt(
            [
                *(night.before or 0 for night in recognised),
                before * (1 - stay) / (1 - self.stay),
            ]
        )
        weekdays = self.weekdays[[*(bool(night.before) for night in self.nights), True]]
        design = sizes[:, None] * np.column_stack([np.ones(len(sizes)), weekdays])
        usual = np.sqrt(1 - self.stay)
        scale = np.array([10.0, *[usual * OF_WEEKDAY / 2] * 7])
        return _next(
            roots,
            design,
            np.array([usual, *[0.0] * 7]),
            scale,
            POISSON * np.sqrt(self.stay),
        )

    def times(self) -> Iterator[Finding]:
        """Whether the newest row is older than the newest rows used to be, or of a day to come."""
        newest = self.tonight.newest
        if newest is None:
            return
        old = (self.dates[-1] - datetime.date.fromisoformat(newest)).days
        dated = [
            (date, night)
            for date, night in zip(self.dates, self.nights, strict=False)
            if night.newest
        ]
        usual = [
            (date - datetime.date.fromisoformat(night.newest or "")).days
            for date, night in dated
        ]
        soonest = min([-1, *usual])
        if old < soonest:
            words = f"The newest row is of {newest}, a day still to come."
            yield Finding(
                Reason("rows_of_days_to_come", words, None, old, soonest, TONIGHT), OLD
            )
        of_one_day = all(
            night.oldest == night.newest
            for night in [self.tonight, *dict(dated).values()]
        )
        if len(usual) < FEWEST:
            bound = 1 if of_one_day and self.tonight.rows >= FEWEST else OLD_AT_FIRST
        elif of_one_day:
            bound = max(usual)
        else:
            # A day brings a new row with a chance of its own, as if one day before these had brought none.
            none = 1 - (1 + len(usual)) / (
                2 + len(usual) + sum(days for days in usual if days > 0)
            )
            bound = max(*usual, int(np.log(OLD) / np.log(none)))
        if old > bound:
            words = f"The newest row is of {newest}, {old} days before the night; at most {bound} are usual."
            yield Finding(Reason("rows_too_old", words, None, old, bound, TONIGHT), OLD)


def _next(
    values: np.ndarray,
    design: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    spread: float,
) -> stats.rv_continuous:
    """Student's t of the value that follows some: linear regression with a conjugate prior.

    `design`, shape (n + 1, p): what explains them, in its last row the value to come; `mean`, `scale`: of the
    coefficients before anything is seen; `spread`: of the values, as sure as `WORTH` nights would make it.
    """
    past, now = design[:-1], design[-1]
    prior = np.diag(np.square(spread / scale))
    precision = past.T @ past + prior
    coefficients = np.linalg.solve(precision, past.T @ values + prior @ mean)
    off = coefficients - mean
    misfit = np.square(values - past @ coefficients).sum() + off @ prior @ off
    # What was fitted is no longer free to spread: the weekdays of few nights fit them nearly exactly.
    freedom = WORTH + len(values) - np.trace(np.linalg.solve(precision, past.T @ past))
    variance = (
        (WORTH * spread**2 + misfit)
        / freedom
        * (1 + now @ np.linalg.solve(precision, now))
    )
    return stats.t(freedom, now @ coefficients, np.sqrt(variance))
