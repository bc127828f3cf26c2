"""PPV and sensitivity by reviews: of those judged, all flagged and the unflagged, beside validation."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot
from typing import Any

import sqlalchemy as sa
from scipy.special import ndtri

from screening.ledger.database import WAITING
from screening.ledger.verdicts import DISPUTED, HAS_IT, UNDECIDED
from screening.metrics.intervals import EVERY_LOOK, LEVEL, ratio_interval, weighted_share, wilson
from screening.schemas.base import Estimate
from screening.schemas.history import (
    FlaggedShare,
    ForwardNights,
    JudgedShare,
    Misses,
    NightRun,
    SensitivityAndPpv,
    ShareToDate,
    Words,
)


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def tally(words: Iterable[str]) -> Words:
    """How often each verdict was given."""
    counted = Counter(words)
    return Words(
        confirmed=counted["confirmed"],
        ruled_out=counted["ruled out"],
        unsure=counted["unsure"],
        known=counted["known"],
        disputed=counted[DISPUTED],
    )


def judged_share(verdicts: Iterable[str]) -> JudgedShare:
    """Share with the condition among those judged, whoever chose them; who is unsure has not judged.

    `verdicts`: the words, or how often each was given.
    """
    counts = Counter(verdicts)
    n_judged = counts.total() - counts["unsure"] - counts[DISPUTED]
    return _share(sum(counts[word] for word in HAS_IT), n_judged)


@lru_cache(maxsize=4096)
def _share(n_ill: int, n_judged: int) -> JudgedShare:
    """With its interval; most nights of a history have the counts of another."""
    if not n_judged:
        return JudgedShare(found=n_ill, judged=n_judged)
    low, high = wilson(n_ill, n_judged)
    return JudgedShare(n_ill / n_judged, float(low), float(high), found=n_ill, judged=n_judged)


def shares_to_date(nights: Iterable[str], verdicts: Sequence[sa.Row[Any]]) -> Iterator[ShareToDate]:
    """The share among those judged as it stood on each night, nights and verdicts in order of time.

    A case counts once, by the last word on it until then; each verdict is looked at once.
    """
    last: dict[str, str] = {}
    counts: Counter[str] = Counter()
    ahead = deque(verdict for verdict in verdicts if verdict.flagged)
    for night in nights:
        while ahead and ahead[0].night <= night:
            verdict = ahead.popleft()
            if verdict.case_id in last:
                counts[last[verdict.case_id]] -= 1
            last[verdict.case_id] = verdict.verdict
            counts[verdict.verdict] += 1
        yield ShareToDate(night=night, **vars(judged_share(counts)))


@dataclass(frozen=True)
class Sample:
    """Judged cases that stand for all cases of some nights, each for as many as it was drawn from."""

    nights: int = 0
    size: int = 0  # Cases of these nights, a patient counting on each.
    rows: Sequence[tuple[str, float, bool]] = ()  # Patient, weight, and whether the condition is there.

    def share(self, every_look: bool = False) -> Estimate:
        """The share with the condition; the nights of a patient are one unit. See `weighted_share`."""
        if not self.rows:
            return Estimate()
        patients, weights, ill = zip(*self.rows, strict=True)
        return Estimate(*weighted_share(ill, weights, patients, every_look=every_look))

    def per_night(self, every_look: bool = False) -> Estimate:
        """How many have the condition a night; undefined where nobody was judged."""
        if not self.rows:
            return Estimate()
        return Estimate(*(share * self.size / self.nights for share in self.share(every_look).ends))


def pooled(samples: Collection[Sample]) -> Sample:
    """The samples of several nights as one."""
    nights, size = sum(one.nights for one in samples), sum(one.size for one in samples)
    return Sample(nights, size, [row for one in samples for row in one.rows])


def flagged_samples(
    nights: Sequence[tuple[NightRun, Sequence[sa.Row[Any]]]], verdicts: Sequence[sa.Row[Any]]
) -> list[Sample]:
    """What stands for all flagged of each night, those who stay included; empty where nothing does.

    A verdict holds for the unbroken row of nights it was given in, the last in it for all of them. Whoever
    had one when the night was scored ("ruled out", "known") counts by it. The others wait, and those of the
    random audit stand for them, each for as many as there were to one judged; all of them, where all were
    judged. A night on whose own page the audit was not judged whole is left out: by preference or by length
    of stay some are judged sooner than others.

    `nights`: in force, in order; of each the flagged cases in the random audit and those ever judged.
    `verdicts`: of the same series, in order of time.
    """
    # By night and case, the night on which its unbroken row began.
    began: dict[tuple[str, str], int] = {}
    before = ""
    for number, (night, cases) in enumerate(nights):
        for case in cases:
            began[night.night, case.case_id] = began.get((before, case.case_id), number)
        before = night.night if night.question.recognisable else ""
    answered = {(verdict.night, verdict.case_id) for verdict in verdicts}
    words = {
        (began[verdict.night, verdict.case_id], verdict.case_id): verdict.verdict
        for verdict in verdicts
        if verdict.verdict not in UNDECIDED and (verdict.night, verdict.case_id) in began
    }

    def sample(night: NightRun, cases: Sequence[sa.Row[Any]]) -> Sample:
        word = {case.case_id: words.get((began[night.night, case.case_id], case.case_id)) for case in cases}
        drawn = [case.case_id for case in cases if case.drawn]
        audit = [
            case.case_id
            for case in cases
            if case.state in WAITING and (night.night, case.case_id) in answered
        ]
        if len(audit) < night.waiting:
            audit = [name for name in drawn if (night.night, name) in answered]
            if len(audit) < len(drawn):
                return Sample()
        judged = [name for name in audit if word[name]]
        if night.waiting and not judged:
            return Sample()
        # Known from an earlier row, it has the condition as far as anybody knows.
        rows = [
            (case.case_id, 1.0, (word[case.case_id] or case.state) in HAS_IT)
            for case in cases
            if case.state not in WAITING
        ]
        weight = night.waiting / max(len(judged), 1)
        rows += [(_patient(night, name), weight, word[name] in HAS_IT) for name in judged]
        return Sample(1, night.cases, rows)

    return [sample(night, cases) for night, cases in nights]


def unflagged_sample(night: NightRun, verdicts: Sequence[sa.Row[Any]]) -> Sample:
    """What stands for all unflagged of a night: those of its random audit that were judged, if any."""
    judged = [one for one in verdicts if not one.flagged and one.verdict not in UNDECIDED]
    n_cases = night.unflagged.cases
    rows = [(_patient(night, one.case_id), n_cases / len(judged), one.verdict in HAS_IT) for one in judged]
    return Sample(1, n_cases, rows) if judged else Sample()


def _patient(night: NightRun, name: str) -> str:
    """Whom an id means: where no column names the patients, somebody else on each night."""
    return name if night.question.recognisable else f"{night.night} {name}"


def flagged_share(flagged: Sample) -> FlaggedShare:
    """Share with the condition among all flagged of the nights that count, patients counting on each."""
    return FlaggedShare(
        *flagged.share().ends,
        found=len({patient for patient, _, ill in flagged.rows if ill}),
        judged=len({patient for patient, *_ in flagged.rows}),
        flagged=flagged.size,
        nights=flagged.nights,
    )


def misses(unflagged: Sample) -> Misses:
    """Cases among the unflagged, a night: every night's audit stands for that night's unflagged."""
    return Misses(
        found=sum(ill for *_, ill in unflagged.rows), judged=len(unflagged.rows), unflagged=unflagged.size,
        nights=unflagged.nights, per_night=unflagged.per_night(),
    )  # fmt: skip


def forward_nights(
    nights: Sequence[NightRun],
    flagged: Sequence[Sample],
    unflagged: Sequence[Sample],
    promised: SensitivityAndPpv | None,
) -> ForwardNights:
    """Sensitivity and predictive value on the last model's nights, beside what its validation estimated.

    `nights`: those in force, in order; `flagged` and `unflagged` have what stands for each. `promised`: as
    the last night's facts have it.
    """
    model = nights[-1].model
    of_model = [number for number, night in enumerate(nights) if night.model == model]
    samples = (
        pooled([flagged[number] for number in of_model]),
        pooled([unflagged[number] for number in of_model]),
    )
    always = _seen(*samples, every_look=True)
    return ForwardNights(
        model=model,
        nights=len(of_model),
        first=nights[of_model[0]].night,
        last=nights[of_model[-1]].night,
        seen=_seen(*samples),
        promised=promised,
        below=[
            name
            for name in ("sensitivity", "ppv")
            if promised and _below(getattr(always, name), getattr(promised, name))
        ],
    )


def _seen(flagged: Sample, unflagged: Sample, every_look: bool = False) -> SensitivityAndPpv:
    """Of the flagged, and of those with the condition that the flagged and the unflagged of a night make."""
    detected, missed = flagged.per_night(every_look), unflagged.per_night(every_look)
    sensitivity = Estimate()
    if detected.value and missed.value is not None:
        low, high = ratio_interval(missed.ends, detected.ends)
        sensitivity = Estimate(1 / (1 + missed.value / detected.value), 1 / (1 + high), 1 / (1 + low))
    return SensitivityAndPpv(sensitivity=sensitivity, ppv=flagged.share(every_look))


WIDER = float(ndtri(0.5 + EVERY_LOOK / 2) / ndtri(0.5 + LEVEL / 2))
"""How much wider an interval of 98 % is than one of 95."""


def _below(seen: Estimate, promised: Estimate) -> bool:
    """Whether the nights lie below the validation estimate by more than chance, at whatever look.

    The interval of the difference by MOVER (Zou and Donner 2008), `seen` with the ends for every look: either
    of the two figures is said to be below in at most 2.5 of 100 histories where it is not, looked at daily.
    """
    if seen.value is None or seen.high is None or promised.value is None or promised.low is None:
        return False
    reach = hypot(WIDER * (promised.value - promised.low), seen.high - seen.value)
    return promised.value - seen.value > reach
