"""What reviews found: of those judged, all flagged and the unflagged, beside the validation estimate."""

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
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


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


def judged_share(words: Iterable[str]) -> JudgedShare:
    """Share with the condition among those judged, whoever chose them; who is unsure has not judged.

    `words`: the verdicts, or how often each was given.
    """
    counts = Counter(words)
    found = sum(counts[word] for word in HAS_IT)
    judged = counts.total() - counts["unsure"] - counts[DISPUTED]
    if not judged:
        return JudgedShare(found=found, judged=judged)
    return JudgedShare(found / judged, *_ends(found, judged), found=found, judged=judged)


@lru_cache(maxsize=4096)
def _ends(found: float, judged: float) -> tuple[float, float]:
    """The interval; most nights of a history have the counts of another."""
    low, high = wilson(found, judged)
    return float(low), float(high)


def shares_to_date(nights: Iterable[str], verdicts: Sequence[sa.Row[Any]]) -> Iterator[ShareToDate]:
    """The share among those judged as it stood on each night, nights and verdicts in order of time.

    A case counts once, by the last word on it until then; each verdict is looked at once.
    """
    last: dict[str, str] = {}
    counts: Counter[str] = Counter()
    ahead = deque(one for one in verdicts if one.flagged)
    for night in nights:
        while ahead and ahead[0].night <= night:
            one = ahead.popleft()
            if one.case_id in last:
                counts[last[one.case_id]] -= 1
            last[one.case_id] = one.verdict
            counts[one.verdict] += 1
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
    rows: dict[tuple[str, str], int] = {}
    before = ""
    for at, (night, cases) in enumerate(nights):
        for case in cases:
            rows[night.night, case.case_id] = rows.get((before, case.case_id), at)
        before = night.night if night.question.recognisable else ""
    answered = {(one.night, one.case_id) for one in verdicts}
    words = {
        (rows[one.night, one.case_id], one.case_id): one.verdict
        for one in verdicts
        if one.verdict not in UNDECIDED and (one.night, one.case_id) in rows
    }

    def sample(night: NightRun, cases: Sequence[sa.Row[Any]]) -> Sample:
        n_waiting = night.new + night.pending
        word = {case.case_id: words.get((rows[night.night, case.case_id], case.case_id)) for case in cases}
        drawn = [case.case_id for case in cases if case.drawn]
        waiting = [case.case_id for case in cases if case.state in WAITING]
        audit = [name for name in waiting if (night.night, name) in answered]
        if len(audit) < n_waiting:
            audit = [name for name in drawn if (night.night, name) in answered]
            if len(audit) < len(drawn):
                return Sample()
        judged = [name for name in audit if word[name]]
        if n_waiting and not judged:
            return Sample()
        # Known from an earlier row, it has the condition as far as anybody knows.
        flags = [
            (case.case_id, 1.0, (word[case.case_id] or case.state) in HAS_IT)
            for case in cases
            if case.state not in WAITING
        ]
        flags += [(_patient(night, name), n_waiting / len(judged), word[name] in HAS_IT) for name in judged]
        return Sample(1, night.cases, flags)

    return [sample(*night) for night in nights]


def unflagged_sample(night: NightRun, verdicts: Sequence[sa.Row[Any]]) -> Sample:
    """What stands for all unflagged of a night: those of its random audit that were judged, if any."""
    judged = [one for one in verdicts if not one.flagged and one.verdict not in UNDECIDED]
    cases = night.unflagged.cases
    rows = [(_patient(night, one.case_id), cases / len(judged), one.verdict in HAS_IT) for one in judged]
    return Sample(1, cases, rows) if judged else Sample()


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
    used: Sequence[NightRun],
    flagged: Sequence[Sample],
    unflagged: Sequence[Sample],
    promised: SensitivityAndPpv | None,
) -> ForwardNights | None:
    """Sensitivity and predictive value on the last model's nights, beside what its validation estimated.

    `used`: nights in force, in order; `flagged` and `unflagged` have what stands for each. `promised`: as
    the last night's facts have it.
    """
    if not used:
        return None
    model = used[-1].model
    mine = [at for at, run in enumerate(used) if run.model == model]
    samples = pooled([flagged[at] for at in mine]), pooled([unflagged[at] for at in mine])
    seen, always = _seen(*samples), _seen(*samples, every_look=True)
    return ForwardNights(
        model=model,
        nights=len(mine),
        first=used[mine[0]].night,
        last=used[mine[-1]].night,
        seen=seen,
        promised=promised,
        below=[
            name
            for name in ("sensitivity", "ppv")
            if promised and _below(getattr(always, name), getattr(promised, name))
        ],
    )


def _seen(flagged: Sample, unflagged: Sample, every_look: bool = False) -> SensitivityAndPpv:
    """Of the flagged, and of those with the condition that the flagged and the unflagged of a night make."""
    found, missed = flagged.per_night(every_look), unflagged.per_night(every_look)
    sensitivity = Estimate()
    if found.value and missed.value is not None:
        low, high = ratio_interval(missed.ends, found.ends)
        sensitivity = Estimate(1 / (1 + missed.value / found.value), 1 / (1 + high), 1 / (1 + low))
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
