"""Compare tonight's table with the delivery that was expected.

A table can be valid row by row and wrong as a whole: half of it, yesterday's, another
ward's. So it is compared with the nights of its series. What is certain stops the
night, the rest is a reason for attention, until a person accepts the delivery. Later
nights are not compared with a night that was surely not whole.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy import stats

from screening.schemas import reasons
from screening.schemas.base import Reason
from screening.schemas.run import Delivery

# Nights of a series before its own spread is known.
MIN_NIGHTS = 5
# The last nights that count: wards grow and shrink.
MAX_NIGHTS = 28
# Share of patients assumed to be there on the next night, where no column names them.
STAY_UNKNOWN = 0.9
# Nominal chance of a false alarm a night, by finding. All together were measured to be
# under one in a hundred (docs/benchmarks.md).
ALPHA = {
    "not_whole": 0.0095,
    "more_left_than_came": 0.005,
    "patients_missing": 0.001,
    "rows_too_many": 0.0005,
    "rows_too_old": 0.001,
}
# p-value below which another reason explains that no patient of the last night is left.
ALPHA_NOBODY_LEFT = 1e-3
# p-value below which so many left, by the ward's own nights, that it may be the table
# of another ward, from which a few patients have moved here.
ALPHA_SO_MANY_LEFT = 0.05
# p-value below which another reason explains that no patient came or left.
ALPHA_UNCHANGED = 1e-4
# Later nights are not compared with one that has a finding less likely than this; they
# are with one that has a dip.
ALPHA_DOUBTFUL = 1e-3
# Share of patients that are there on the next night too; below, patients do not stay.
MIN_STAY = 0.3
# Correlation of few rows and many patients gone where nothing is wrong.
CORRELATION = 0.5
# The square root of a Poisson count has this standard deviation, whatever its mean;
# the constant is Anscombe's, added to a count below the root.
POISSON_SPREAD = 0.5
ANSCOMBE = 3 / 8
# Nights that the spread stated beforehand is worth.
PRIOR_NIGHTS = 4
# Relative effect of a weekday on admissions and discharges.
WEEKDAY_EFFECT = 0.5
# Days without a new row in a ward of long stays, before its own nights are known.
MAX_DAYS_AT_FIRST = 30
# Share of nights with a line end from which the next one is expected to have it too.
USUALLY_ENDS = 0.9
# Nights without a line end after which an exporter has changed.
MIN_WITHOUT_LINE_END = 3
OTHER_IDS = reasons.IDS_OF_ANOTHER_SHAPE.code


@dataclass(frozen=True)
class Elsewhere:
    """A night that had the same table, to the last byte.

    Parameters
    ----------
    night : str
        Its date.
    series : str
        Its series as messages show it, "" for the series of tonight.
    differs : bool
        That series should have a table of its own: it had one on the last night that
        both have or, if they have none in common, it is scored by the same model.
    """

    night: str
    series: str = ""
    differs: bool = True


@dataclass(frozen=True)
class Finding:
    """A way in which a delivery is not as expected.

    Parameters
    ----------
    reason : Reason
    chance : float
        Probability of the finding in a delivery that is as expected; 0 where the
        finding has nothing to do with chance.
    """

    reason: Reason
    chance: float = 0.0

    @property
    def sure(self) -> bool:
        """True if the finding stops the night."""
        return reasons.REASONS[self.reason.code].stops


def still_there(
    before: Sequence[int],
    now: Sequence[int],
    most: int,
    merged: Mapping[int, int] = MappingProxyType({}),
) -> tuple[int, int]:
    """Return the size of a sample of a night's patients, and how many are there later.

    Parameters
    ----------
    before, now : sequence of int
        The `most` lowest hashes of the patients of each night.
    most : int
        A night with so many hashes may have more patients: it is known up to its
        highest hash only, and the sample ends at the lowest such end.
    merged : mapping of int to int, optional
        For merged numbers, the hash of the new number by that of the old one. A number
        beyond that end is not in the sample.
    """
    ends = [max(hashes) for hashes in (before, now) if len(hashes) >= most]
    sample = {merged.get(patient, patient) for patient in before}
    if ends:
        end = min(ends)
        beyond = {new for old, new in merged.items() if max(old, new) > end}
        sample = {patient for patient in sample - beyond if patient <= end}
    still = sample.intersection(merged.get(patient, patient) for patient in now)
    return len(sample), len(still)


def share_that_stays(nights: Iterable[Delivery]) -> float | None:
    """Return the share of a night's patients that are there on the next night too.

    None if patients are not recognised from night to night.
    """
    recognised = [night for night in nights if night.before]
    n_before = sum(night.before or 0 for night in recognised)
    n_still = sum(night.still or 0 for night in recognised)
    if not n_before:
        return None
    return (n_still + 0.5) / (n_before + 1)


def independent(stay: float | None) -> float:
    """Return how many independent rows a patient's row is worth where so many stay.

    Nights are alike like those of a Markov chain.

    Parameters
    ----------
    stay : float or None
        Share that is there on the next night; None if patients are not recognised.
    """
    share = STAY_UNKNOWN if stay is None else stay
    return (1 - share) / (1 + share)


def examine(
    night: str,
    tonight: Delivery,
    past: Mapping[str, Delivery],
    *,
    n_files: int = 1,
    files_expected: int | None = None,
    rows_expected: tuple[int, int] | None = None,
    ids: Sequence[Reason] = (),
    same_table: Sequence[Elsewhere] = (),
) -> tuple[Delivery, list[Finding]]:
    """Compare a night's delivery with what was expected of it.

    Parameters
    ----------
    night : str
        Date of the night.
    tonight : Delivery
    past : mapping from str to Delivery
        By date, the deliveries of the series that are in force.
    n_files, files_expected : int
        Files that came, and as many as the contract expects.
    rows_expected : (int, int), optional
        Fewest and most rows that the contract expects.
    ids : sequence of Reason
        What is wrong with how the ids are written.
    same_table : sequence of Elsewhere
        Other nights with this very table.

    Returns
    -------
    tonight : Delivery
        With the usual number of rows, and the codes of the findings.
    findings : list of Finding
    """
    # Ids of another hospital than training's are accepted once and for all.
    are_ids_known = any(OTHER_IDS in delivery.found for delivery in past.values())
    findings = [*_same_table(night, same_table)]
    for reason in ids:
        if reason.code != OTHER_IDS or not are_ids_known:
            findings.append(Finding(reason))
    findings += _unlike_contract(n_files, tonight.rows, files_expected, rows_expected)
    findings += _line_end_missing(night, tonight, past)
    history = _History(night, tonight, past)
    findings += history.time_findings()
    if len(history.nights) >= MIN_NIGHTS:
        expected = history.rows_expected()
        usual = _usual_rows(expected)
        tonight = tonight.replace(usual=usual)
        findings += history.row_findings(expected, *usual)
    elif history.nights:
        findings += history.exchange_findings()
    codes = [finding.reason.code for finding in findings]
    if are_ids_known and any(reason.code == OTHER_IDS for reason in ids):
        codes.append(OTHER_IDS)
    doubtful = any(finding.chance < ALPHA_DOUBTFUL for finding in findings)
    return tonight.replace(found=tuple(codes), doubtful=doubtful), findings


def _same_table(night: str, same_table: Sequence[Elsewhere]) -> Iterator[Finding]:
    """Find the table of another night, or of another ward tonight."""
    for twin in same_table:
        whose = f" of series {twin.series}" if twin.series else ""
        if twin.night != night:
            reason = reasons.TABLE_OF_ANOTHER_NIGHT(night=twin.night, of_series=whose)
            yield Finding(reason)
            return
        # Two screens may read one ward's table every night; two wards have their own.
        if twin.series and twin.differs:
            yield Finding(reasons.TABLE_OF_ANOTHER_SERIES(of_series=whose))
            return


def _unlike_contract(
    n_files: int,
    n_rows: int,
    files_expected: int | None,
    rows_expected: tuple[int, int] | None,
) -> Iterator[Finding]:
    """Find other numbers of files or rows than the contract states."""
    if files_expected not in (None, n_files):
        reason = reasons.FILES_UNEXPECTED(
            figure=n_files,
            threshold=files_expected,
            n_files=n_files,
            n_expected=files_expected,
        )
        yield Finding(reason)
    if rows_expected is not None:
        low, high = rows_expected
        if not low <= n_rows <= high:
            reason = reasons.ROWS_UNEXPECTED(
                figure=n_rows,
                threshold=low if n_rows < low else high,
                n_rows=n_rows,
                low=low,
                high=high,
            )
            yield Finding(reason)


def _line_end_missing(
    night: str, tonight: Delivery, past: Mapping[str, Delivery]
) -> Iterator[Finding]:
    """Find a last line without a line end where one is expected."""
    if tonight.ends_in_newline is not False:
        return
    texts = [
        past[day]
        for day in sorted(past)
        if day < night and past[day].ends_in_newline is not None
    ]
    nights = texts[-MAX_NIGHTS:]
    without = [delivery for delivery in nights if not delivery.ends_in_newline]
    n_with = len(nights) - len(without)
    if not _is_line_end_expected(without, n_with):
        return
    earlier = ", and no earlier night shows whether it should"
    if len(nights) == 1:
        earlier = ", which it had on the night before"
    elif nights:
        earlier = f", which it had on {n_with} of the last {len(nights)} nights"
    reason = reasons.LINE_END_MISSING(earlier=earlier)
    # By the rule of succession, which does not make the night's rows doubtful.
    chance = (len(without) + 1) / (len(nights) + 2)
    yield Finding(reason, chance)


def _is_line_end_expected(without: Sequence[Delivery], n_with: int) -> bool:
    """Return True on a first night, and if the nights before had line ends.

    No night is left out as doubtful: an exporter that has changed for good is usual
    after three nights.

    Parameters
    ----------
    without : sequence of Delivery
        Nights without a line end.
    n_with : int
        Number of nights with one.
    """
    if any(delivery.accepted for delivery in without):
        return False
    least_with = USUALLY_ENDS * (n_with + len(without))
    if len(without) >= MIN_WITHOUT_LINE_END and n_with < least_with:
        return False
    return n_with > 0 or not without


def _usual_rows(expected: stats.rv_continuous) -> tuple[int, int]:
    """Return fewest and most rows without a finding, of the root's distribution."""
    roots = expected.ppf([ALPHA["not_whole"], 1 - ALPHA["rows_too_many"]])
    low, high = np.square(np.maximum(roots, 0.0))
    return int(np.ceil(low)), int(high)


class _History:
    """Tonight and the last nights that were as expected.

    Parameters
    ----------
    night : str
    tonight : Delivery
    past : mapping from str to Delivery
        All nights of the series by date.
    """

    def __init__(self, night: str, tonight: Delivery, past: Mapping[str, Delivery]):
        days = [day for day in sorted(past) if day < night and past[day].measure]
        days = days[-MAX_NIGHTS:]
        self.tonight = tonight
        self.nights = [past[day] for day in days]
        # With tonight's as the last.
        self.days = [*days, night]
        self.dates = [datetime.date.fromisoformat(day) for day in self.days]
        numbers = [date.weekday() for date in self.dates]
        self.weekdays = np.eye(7)[numbers]
        self.stay = share_that_stays(self.nights) or 0.0

    def rows_expected(self) -> stats.rv_continuous:
        """Return the distribution of the square root of tonight's rows.

        It depends on the rows of the night before and on the weekday.
        """
        roots = np.sqrt([night.rows for night in self.nights])
        mean_root = float(roots.mean())
        previous = np.concatenate([[0.0], roots - mean_root])
        intercept = np.ones(len(previous))
        design = np.column_stack([intercept, previous, self.weekdays])
        # In a ward only arrivals and departures make a difference; rows of one patient
        # come and go together.
        n_units = sum(night.units for night in self.nights)
        rows_a_unit = sum(night.rows for night in self.nights) / max(n_units, 1)
        moves = min(1.0, 2 * (1 - self.stay))
        spread = POISSON_SPREAD * np.sqrt(rows_a_unit * moves)
        weekday = max(0.1, WEEKDAY_EFFECT * mean_root / 2 * (1 - self.stay))
        prior_mean = np.array([mean_root, self.stay, *[0.0] * 7])
        prior_scale = np.array([10 * mean_root, spread, *[weekday] * 7])
        return _next_value(roots, design, prior_mean, prior_scale, spread)

    def row_findings(
        self, expected: stats.rv_continuous, low: int, high: int
    ) -> Iterator[Finding]:
        """Yield findings about the rows, and about arrivals and departures.

        Parameters
        ----------
        expected : rv_continuous
            As `rows_expected` returns it.
        low, high : int
            Fewest and most rows that are usual.
        """
        n_rows = self.tonight.rows
        root = np.sqrt(n_rows)
        text = f"{n_rows:,} rows arrived; the last nights suggest {low:,} to {high:,}"
        if n_rows > high:
            reason = reasons.ROWS_TOO_MANY(
                figure=n_rows, threshold=high, description=text
            )
            yield Finding(reason, expected.sf(root))
        # Chances of so few rows, and of so many patients gone.
        chances = [expected.cdf(root)]
        n_before = self.tonight.before or 0
        if n_before and self.stay >= MIN_STAY:
            n_still = self.tonight.still or 0
            stay = self._stay_since_last_night()
            text += (
                f"; {n_still} of {n_before} patients of {self.days[-2]} are still "
                f"there, usually {stay:.0%} of them"
            )
            # Some leave together, to one ward or home before a holiday: half as many
            # decisions.
            chance_nobody = (1 - stay) ** (n_before / 2)
            if not n_still and chance_nobody < ALPHA_NOBODY_LEFT:
                reason = reasons.PATIENTS_GONE(
                    figure=0.0, threshold=stay, description=text
                )
                yield Finding(reason)
                return
            leavers = self._leavers_expected(n_before, stay)
            chances.append(leavers.sf(np.sqrt(n_before - n_still + ANSCOMBE)))
            if chances[-1] < ALPHA_SO_MANY_LEFT:
                chances[-1] = min(chances[-1], _chance_of_few(n_still, n_before, stay))
            yield from self._unchanged(n_before, n_still, stay)
        chance = _joint_chance(chances)
        if chances[-1] < ALPHA["patients_missing"]:
            chance = min(chance, chances[-1])
        if chance < ALPHA["not_whole"]:
            reason = reasons.NOT_WHOLE(figure=n_rows, threshold=low, description=text)
            yield Finding(reason, chance)

    def exchange_findings(self) -> Iterator[Finding]:
        """Yield that far more patients left than came, before a spread is known.

        Where the size of a ward does not change, as many leave as come: given how many
        did either, arrivals are binomial with probability 1/2. If few of tonight's
        patients were there before, that is a finding only if patients usually stay, by
        the nights before.
        """
        last = self.nights[-1]
        n_before = self.tonight.before or 0
        n_still = self.tonight.still or 0
        if not n_before:
            return
        if n_still < MIN_STAY * self.tonight.units:
            yield from self._others_came(n_before, n_still)
            return
        # Of a large night, only a sample of the patients is recognised.
        sampled = min(1.0, n_before / last.units)
        n_came = max(0, round(self.tonight.units * sampled) - n_still)
        n_left = n_before - n_still
        chance = float(stats.binom.cdf(n_came, n_came + n_left, 0.5))
        if chance >= ALPHA["more_left_than_came"]:
            return
        n_rows = self.tonight.rows
        text = (
            f"{n_rows:,} rows arrived, {last.rows:,} on {self.days[-2]}; {n_still} of "
            f"{n_before} patients of that night are still there, and only {n_came} "
            "are new"
        )
        reason = reasons.NOT_WHOLE(figure=n_rows, threshold=last.rows, description=text)
        yield Finding(reason, chance)

    def _others_came(self, n_before: int, n_still: int) -> Iterator[Finding]:
        """Find that few patients of the last night are left although patients stay."""
        stay = self._stay_since_last_night()
        chance = _chance_of_few(n_still, n_before, stay)
        if self.stay < MIN_STAY or chance >= ALPHA["more_left_than_came"]:
            return
        text = (
            f"only {n_still} of the {n_before} patients of {self.days[-2]} are still "
            f"there; on earlier nights {stay:.0%} stayed"
        )
        reason = reasons.NOT_WHOLE(figure=n_still, threshold=stay, description=text)
        yield Finding(reason, chance)

    def _stay_since_last_night(self) -> float:
        n_days = (self.dates[-1] - self.dates[-2]).days
        return float(self.stay**n_days)

    def _unchanged(self, n_before: int, n_still: int, stay: float) -> Iterator[Finding]:
        """Find that no patient came or left although some do every day."""
        recognised = [night for night in self.nights if night.before]
        came = [night.units - (night.still or 0) for night in recognised]
        n_came = np.mean(came)
        chance = float(stay**n_before * np.exp(-n_came))
        if n_still == n_before == self.tonight.units and chance < ALPHA_UNCHANGED:
            reason = reasons.PATIENTS_UNCHANGED(
                night=self.days[-2], n_patients=n_before
            )
            yield Finding(reason, chance)

    def _leavers_expected(self, n_before: int, stay: float) -> stats.rv_continuous:
        """Return the distribution of the root of how many of `n_before` leave."""
        is_recognised = [bool(night.before) for night in self.nights]
        recognised = [night for night in self.nights if night.before]
        befores = [night.before or 0 for night in recognised]
        leavers = [(night.before or 0) - (night.still or 0) for night in recognised]
        roots = np.sqrt([count + ANSCOMBE for count in leavers])
        # Several days since the last night are worth more patients at one day's rate.
        worth_now = n_before * (1 - stay) / (1 - self.stay)
        sizes = np.sqrt([*befores, worth_now])
        weekdays = self.weekdays[[*is_recognised, True]]
        effects = np.column_stack([np.ones(len(sizes)), weekdays])
        design = sizes[:, None] * effects
        usual = np.sqrt(1 - self.stay)
        prior_mean = np.array([usual, *[0.0] * 7])
        prior_scale = np.array([10.0, *[usual * WEEKDAY_EFFECT / 2] * 7])
        spread = POISSON_SPREAD * np.sqrt(self.stay)
        return _next_value(roots, design, prior_mean, prior_scale, spread)

    def time_findings(self) -> Iterator[Finding]:
        """Yield that the newest row is too old, or of a day to come."""
        newest = self.tonight.newest
        if newest is None:
            return
        age = _age(self.dates[-1], newest)
        # Of tables with dates.
        nights = [night for night in self.nights if night.newest]
        usual_ages = [
            _age(date, night.newest)
            for date, night in zip(self.dates, self.nights, strict=False)
            if night.newest
        ]
        soonest = min([-1, *usual_ages])
        # Not below `ALPHA_DOUBTFUL`, so these findings leave the night a measure.
        alpha = ALPHA["rows_too_old"]
        if age < soonest:
            reason = reasons.ROWS_OF_DAYS_TO_COME(
                figure=age, threshold=soonest, newest=newest
            )
            yield Finding(reason, alpha)
        of_one_day = all(
            night.oldest == night.newest for night in [self.tonight, *nights]
        )
        bound = self._oldest_usual(usual_ages, of_one_day)
        if age > bound:
            reason = reasons.ROWS_TOO_OLD(
                figure=age, threshold=bound, newest=newest, age=age, bound=bound
            )
            yield Finding(reason, alpha)

    def _oldest_usual(self, usual_ages: Sequence[int], of_one_day: bool) -> int:
        """Return the largest age in days of a newest row without a finding.

        `of_one_day`: each table has rows of a single day.
        """
        if len(usual_ages) < MIN_NIGHTS:
            if of_one_day and self.tonight.rows >= MIN_NIGHTS:
                return 1
            return MAX_DAYS_AT_FIRST
        if of_one_day:
            return max(usual_ages)
        # A day brings a new row with a chance of its own, estimated as if one day
        # before these had brought none.
        n_days = sum(days for days in usual_ages if days > 0)
        n_nights = len(usual_ages)
        chance_none = 1 - (1 + n_nights) / (2 + n_nights + n_days)
        n_days_by_chance = int(np.log(ALPHA["rows_too_old"]) / np.log(chance_none))
        return max(*usual_ages, n_days_by_chance)


def _age(date: datetime.date, newest: str) -> int:
    """Return how many days before a date the newest row is."""
    return (date - datetime.date.fromisoformat(newest)).days


def _chance_of_few(n_still: int, n_before: int, stay: float) -> float:
    """Return the chance that so few are still there, if half as many stay as usual.

    A weekday or a closed bay may do that. The table of another ward, from which a few
    patients have moved, does more.
    """
    return float(stats.binom.cdf(n_still, n_before, WEEKDAY_EFFECT * stay))


def _joint_chance(chances: Sequence[float]) -> float:
    """Return the chance of several views of one loss together.

    They are added as normal deviates that are correlated.
    """
    n_views = len(chances)
    spread = np.sqrt(n_views * (1 + (n_views - 1) * CORRELATION))
    z = stats.norm.ppf(chances).sum() / spread
    return float(stats.norm.cdf(z))


def _next_value(
    values: np.ndarray,
    design: np.ndarray,
    prior_mean: np.ndarray,
    prior_scale: np.ndarray,
    spread: float,
) -> stats.rv_continuous:
    """Return Student's t of the next value: linear regression, conjugate prior.

    Parameters
    ----------
    values : ndarray, shape (n,)
    design : ndarray, shape (n + 1, p)
        What explains the values, in the last row the value to come.
    prior_mean, prior_scale : ndarray, shape (p,)
        Mean and standard deviation of the coefficients before anything is seen.
    spread : float
        Standard deviation of the values, as certain as `PRIOR_NIGHTS` would make it.
    """
    past = design[:-1]
    now = design[-1]
    prior = np.diag(np.square(spread / prior_scale))
    precision = past.T @ past + prior
    coefficients = np.linalg.solve(precision, past.T @ values + prior @ prior_mean)
    shift = coefficients - prior_mean
    residuals = values - past @ coefficients
    misfit = np.square(residuals).sum() + shift @ prior @ shift
    # What was fitted is no longer free to spread: the weekdays of few nights fit them
    # nearly exactly.
    n_fitted = np.trace(np.linalg.solve(precision, past.T @ past))
    freedom = PRIOR_NIGHTS + len(values) - n_fitted
    residual_variance = (PRIOR_NIGHTS * spread**2 + misfit) / freedom
    variance = residual_variance * (1 + now @ np.linalg.solve(precision, now))
    return stats.t(freedom, now @ coefficients, np.sqrt(variance))
