"""PPV and sensitivity estimated from reviews, beside the estimates of validation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, starmap
from math import hypot
from typing import Any, Literal, NamedTuple

from scipy.special import ndtri

from screening.metrics.intervals import (
    ANYTIME_LEVEL,
    LEVEL,
    rate_interval,
    ratio_interval,
    weighted_share,
)
from screening.schemas import history as documents
from screening.schemas.base import Estimate
from screening.schemas.figures import LabelledCounts
from screening.schemas.history import JudgedShare, NightRun, SensitivityAndPpv, Words
from screening.schemas.run import HAS_IT, UNDECIDED, WAITING

Verdicts = Sequence[Any]
"""Verdicts in force, by time, each with `case_id`, `night`, `flagged`, `verdict`."""
Cases = Sequence[Any]
"""Flagged cases of a night, each with `case_id`, `state` and `drawn` (audited)."""


def count_verdicts(verdicts: Iterable[str]) -> Words:
    """Count how often each verdict was given."""
    counts = Counter(verdicts)
    by_field = {}
    for field in Words.model_fields:
        by_field[field] = counts[field.replace("_", " ")]
    return Words(**by_field)


@lru_cache(maxsize=4096)
def judged_share(counts: Words) -> JudgedShare:
    """Return the share with the condition among judged cases, with its interval."""
    # Cached: most nights of a history have the same counts as another.
    if not counts.judged:
        return JudgedShare(found=counts.found, judged=counts.judged)
    low, high = rate_interval(counts.found, counts.judged)
    return JudgedShare(
        counts.found / counts.judged,
        float(low),
        float(high),
        found=counts.found,
        judged=counts.judged,
    )


class JudgedCase(NamedTuple):
    """A judged case of a sample."""

    patient: str
    weight: float  # number of cases that it represents
    has_condition: bool


@dataclass(frozen=True)
class Sample:
    """Judged cases that represent all cases of some nights.

    Parameters
    ----------
    nights : int
    size : int
        Cases of these nights; a patient counts on each.
    rows : sequence of JudgedCase
    """

    nights: int = 0
    size: int = 0
    rows: Sequence[JudgedCase] = ()

    def share(self, anytime: bool = False) -> Estimate:
        """Return the share with the condition; see ``weighted_share``.

        The nights of a patient are one unit. Undefined if no case was judged.
        """
        if not self.rows:
            return Estimate()
        has_condition = [row.has_condition for row in self.rows]
        weights = [row.weight for row in self.rows]
        patients = [row.patient for row in self.rows]
        return Estimate(
            *weighted_share(has_condition, weights, patients, anytime=anytime)
        )

    def per_night(self, anytime: bool = False) -> Estimate:
        """Return how many cases per night have the condition.

        Undefined if no case was judged.
        """
        if not self.rows:
            return Estimate()
        ends = self.share(anytime).value_and_interval
        return Estimate(*[share * self.size / self.nights for share in ends])


def pooled(samples: Collection[Sample]) -> Sample:
    """Return the samples of several nights as one."""
    rows: list[JudgedCase] = []
    for sample in samples:
        rows.extend(sample.rows)
    nights = sum(sample.nights for sample in samples)
    size = sum(sample.size for sample in samples)
    return Sample(nights, size, rows)


def review_figures(
    nights: Sequence[NightRun],
    cases: Sequence[Cases],
    verdicts: Verdicts,
    on_run: Sequence[Verdicts],
    promised: SensitivityAndPpv | None,
) -> dict[str, Any]:
    """Return the figures of a series that come from reviews, by field of `SeriesFacts`.

    Parameters
    ----------
    nights : sequence of NightRun
        Nights in force.
    cases : sequence of Cases
        By night the flagged cases of the random audit and those ever judged.
    verdicts : Verdicts
    on_run : sequence of Verdicts
        By night the verdicts on its run.
    promised : SensitivityAndPpv, optional
        Estimates of validation.
    """
    flagged = _flagged_samples(nights, cases, verdicts)
    unflagged = list(starmap(_unflagged_sample, zip(nights, on_run, strict=True)))
    all_flagged = pooled(flagged)
    all_unflagged = pooled(unflagged)
    # A patient who is flagged on five nights counts once, by the latest verdict.
    latest = {
        verdict.case_id: verdict.verdict for verdict in verdicts if verdict.flagged
    }
    counts = count_verdicts(latest.values())
    patients = {row.patient for row in all_flagged.rows}
    cases_found = {row.patient for row in all_flagged.rows if row.has_condition}
    return {
        "verdicts": counts,
        "ppv": judged_share(counts),
        "ppv_to_date": list(_shares_to_date(nights, verdicts)),
        "ppv_flagged": documents.FlaggedShare(
            *all_flagged.share().value_and_interval,
            found=len(cases_found),
            judged=len(patients),
            flagged=all_flagged.size,
            nights=all_flagged.nights,
        ),
        "misses": documents.Misses(
            found=sum(row.has_condition for row in all_unflagged.rows),
            judged=len(all_unflagged.rows),
            unflagged=all_unflagged.size,
            nights=all_unflagged.nights,
            per_night=all_unflagged.per_night(),
        ),
        "forward": _forward_nights(nights, flagged, unflagged, promised),
    }


def _unflagged_sample(night: NightRun, verdicts: Verdicts) -> Sample:
    """Return the judged cases of a night's random audit of unflagged cases.

    They represent all unflagged cases of the night.
    """
    judged = [
        verdict
        for verdict in verdicts
        if not verdict.flagged and verdict.verdict not in UNDECIDED
    ]
    if not judged:
        return Sample()
    n = night.unflagged.cases
    weight = n / len(judged)
    rows = []
    for verdict in judged:
        patient = _patient(night, verdict.case_id)
        rows.append(JudgedCase(patient, weight, verdict.verdict in HAS_IT))
    return Sample(1, n, rows)


def _shares_to_date(
    nights: Sequence[NightRun], verdicts: Verdicts
) -> Iterator[documents.ShareToDate]:
    """Yield the judged share as of each night; a case counts by its latest verdict."""
    on_night = defaultdict(list)
    for verdict in verdicts:
        if verdict.flagged:
            on_night[verdict.night].append(verdict)
    last: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for night in nights:
        for verdict in on_night[night.night]:
            if verdict.case_id in last:
                counts[last[verdict.case_id]] -= 1
            last[verdict.case_id] = verdict.verdict
            counts[verdict.verdict] += 1
        share = judged_share(count_verdicts(counts))
        yield documents.ShareToDate(night=night.night, **vars(share))


def _flagged_samples(
    nights: Sequence[NightRun], cases: Sequence[Cases], verdicts: Verdicts
) -> list[Sample]:
    """Return samples that represent all flagged cases of each night.

    A verdict applies to the unbroken run of nights in which it was given, the last one
    to all of them. A case that had a verdict when the night was scored ("ruled out",
    "known") counts by it. The other cases wait, and those of the random audit represent
    them, each as many as there were per judged case; all of them, if all were judged. A
    night with an incomplete audit is left out (an empty sample): some cases are judged
    sooner than others, by preference or by length of stay.

    Parameters as for ``review_figures``.
    """
    answered: dict[str, set[str]] = defaultdict(set)
    for verdict in verdicts:
        answered[verdict.night].add(verdict.case_id)
    verdict_of = _verdicts_of_runs(nights, cases, verdicts)
    samples = []
    for number, night in enumerate(nights):
        audit = _audit(night, cases[number], answered[night.night])
        judged = [case_id for case_id in audit if verdict_of[number][case_id]]
        is_unrepresented = night.waiting and not judged
        if is_unrepresented or not answered[night.night].issuperset(audit):
            samples.append(Sample())
            continue
        rows = _known_cases(cases[number], verdict_of[number])
        rows += _audited_cases(night, judged, verdict_of[number])
        samples.append(Sample(1, night.cases, rows))
    return samples


def _audit(night: NightRun, night_cases: Cases, answered: Collection[str]) -> list[str]:
    """Return the cases that represent all that wait on a night.

    Those of the random audit, or all, if all of them are answered. `answered`: cases
    with a verdict of this night, an undecided one too.
    """
    audit = [case for case in night_cases if case.state in WAITING]
    n_answered = sum(case.case_id in answered for case in audit)
    if n_answered < night.waiting:
        audit = [case for case in audit if case.drawn]
    return [case.case_id for case in audit]


def _known_cases(
    night_cases: Cases, verdict_by_case: Mapping[str, str | None]
) -> list[JudgedCase]:
    """Return the cases that had a verdict when the night was scored."""
    rows = []
    for case in night_cases:
        if case.state not in WAITING:
            # Without a verdict its state from an earlier run of nights counts.
            verdict = verdict_by_case[case.case_id] or case.state
            rows.append(JudgedCase(case.case_id, 1.0, verdict in HAS_IT))
    return rows


def _audited_cases(
    night: NightRun, judged: Sequence[str], verdict_by_case: Mapping[str, str | None]
) -> list[JudgedCase]:
    """Return the judged cases of the audit, weighted to represent all that wait."""
    weight = night.waiting / max(len(judged), 1)
    rows = []
    for case_id in judged:
        has_condition = verdict_by_case[case_id] in HAS_IT
        rows.append(JudgedCase(_patient(night, case_id), weight, has_condition))
    return rows


def _verdicts_of_runs(
    nights: Sequence[NightRun], cases: Sequence[Cases], verdicts: Verdicts
) -> list[dict[str, str | None]]:
    """Return by night the verdict of each case, None if undecided.

    It is the last verdict in the case's unbroken run of nights.
    """
    decided = {
        (verdict.night, verdict.case_id): verdict.verdict
        for verdict in verdicts
        if verdict.verdict not in UNDECIDED
    }
    # By night and case the number of the night on which its unbroken run began; by that
    # and the case the last verdict.
    began: dict[tuple[str, str], int] = {}
    verdict_of_run: dict[tuple[int, str], str] = {}
    before = ""
    for number, (night, night_cases) in enumerate(zip(nights, cases, strict=True)):
        for case in night_cases:
            key = (night.night, case.case_id)
            began[key] = began.get((before, case.case_id), number)
            if key in decided:
                verdict_of_run[began[key], case.case_id] = decided[key]
        before = night.night if night.question.recognisable else ""
    verdict_of = []
    for night, night_cases in zip(nights, cases, strict=True):
        by_case = {}
        for case in night_cases:
            first = began[night.night, case.case_id]
            by_case[case.case_id] = verdict_of_run.get((first, case.case_id))
        verdict_of.append(by_case)
    return verdict_of


def _patient(night: NightRun, case_id: str) -> str:
    """Return the patient that an id refers to.

    Without a patient column, an id refers to another patient on each night.
    """
    return case_id if night.question.recognisable else f"{night.night} {case_id}"


def _forward_nights(
    nights: Sequence[NightRun],
    flagged: Sequence[Sample],
    unflagged: Sequence[Sample],
    promised: SensitivityAndPpv | None,
) -> documents.ForwardNights:
    """Compare sensitivity and PPV of the last model's nights with validation."""
    model = nights[-1].model
    is_of_model = [night.model == model for night in nights]
    of_model = list(compress(nights, is_of_model))
    detected = pooled(list(compress(flagged, is_of_model)))
    missed = pooled(list(compress(unflagged, is_of_model)))
    below: list[Literal["sensitivity", "ppv"]] = []
    if promised:
        anytime = _sensitivity_and_ppv(detected, missed, anytime=True)
        if is_below(anytime.sensitivity, promised.sensitivity):
            below.append("sensitivity")
        if is_below(anytime.ppv, promised.ppv):
            below.append("ppv")
    return documents.ForwardNights(
        model=model,
        nights=len(of_model),
        first=of_model[0].night,
        last=of_model[-1].night,
        seen=_sensitivity_and_ppv(detected, missed),
        promised=promised,
        below=below,
        labelled=_labelled_nights(of_model),
    )


def _labelled_nights(nights: Sequence[NightRun]) -> documents.LabelledNights | None:
    """Return the sums over nights whose tables had labels, None if none had."""
    labelled = [night.labelled for night in nights if night.labelled is not None]
    if not labelled:
        return None
    sums = {}
    for name in LabelledCounts.model_fields:
        sums[name] = sum(getattr(counts, name) for counts in labelled)
    return documents.LabelledNights(nights=len(labelled), **sums)


def _sensitivity_and_ppv(
    flagged: Sample, unflagged: Sample, anytime: bool = False
) -> SensitivityAndPpv:
    """Estimate sensitivity and PPV from audited samples."""
    detected = flagged.per_night(anytime)
    missed = unflagged.per_night(anytime)
    sensitivity = Estimate()
    if detected.value and missed.value is not None:
        low, high = ratio_interval(
            missed.value_and_interval, detected.value_and_interval
        )
        value = 1 / (1 + missed.value / detected.value)
        sensitivity = Estimate(value, 1 / (1 + high), 1 / (1 + low))
    return SensitivityAndPpv(sensitivity=sensitivity, ppv=flagged.share(anytime))


_ANYTIME_Z = ndtri(0.5 + ANYTIME_LEVEL / 2)
ANYTIME_WIDENING = float(_ANYTIME_Z / ndtri(0.5 + LEVEL / 2))
"""Width of an interval of 98 % divided by that of one of 95 %."""


def is_below(observed: Estimate, promised: Estimate) -> bool:
    """Return True if nights lie below the validation estimate by more than chance.

    The interval of the difference is by MOVER (Zou and Donner 2008), with the anytime
    ends of `observed`: in at most 2.5 of 100 histories without a difference, looked at
    daily, either figure is ever said to be below.
    """
    if None in (*observed.value_and_interval, *promised.value_and_interval):
        return False
    value, _, high = observed.value_and_interval
    estimate, low, _ = promised.value_and_interval
    reach = hypot(ANYTIME_WIDENING * (estimate - low), high - value)
    return bool(estimate - value > reach)
