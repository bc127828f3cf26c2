"""PPV and sensitivity by reviews: of those judged, all flagged and the unflagged, beside validation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot
from typing import Any

from scipy.special import ndtri

from screening.metrics.intervals import (
    EVERY_LOOK,
    LEVEL,
    ratio_interval,
    weighted_share,
    wilson,
)
from screening.schemas import history as documents
from screening.schemas.base import Estimate
from screening.schemas.history import JudgedShare, NightRun, SensitivityAndPpv, Words
from screening.schemas.run import HAS_IT, UNDECIDED, WAITING

Verdicts = Sequence[Any]
"""Words that stand, in order of time, each with `case_id`, `night`, `flagged` and `verdict`."""
Cases = Sequence[Any]
"""Flagged cases of a night, each with `case_id`, `state` and `drawn`."""


def tally(words: Iterable[str]) -> Words:
    """How often each verdict was given."""
    counted = Counter(words)
    return Words(
        **{name: counted[name.replace("_", " ")] for name in Words.model_fields}
    )


@lru_cache(maxsize=4096)
def judged_share(words: Words) -> JudgedShare:
    """Share with the condition among those judged, whoever chose them."""
    # Most nights of a history have the counts of another.
    if not words.judged:
        return JudgedShare(found=words.found, judged=words.judged)
    low, high = map(float, wilson(words.found, words.judged))
    return JudgedShare(
        words.found / words.judged, low, high, found=words.found, judged=words.judged
    )


@dataclass(frozen=True)
class Sample:
    """Judged cases that stand for all cases of some nights, each for as many as it was drawn from."""

    nights: int = 0
    size: int = 0  # Cases of these nights, a patient counting on each.
    rows: Sequence[
        tuple[str, float, bool]
    ] = ()  # Patient, weight, and whether the condition is there.

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
        return Estimate(
            *(share * self.size / self.nights for share in self.share(every_look).ends)
        )


def pooled(samples: Collection[Sample]) -> Sample:
    """The samples of several nights as one."""
    nights, size = sum(one.nights for one in samples), sum(one.size for one in samples)
    return Sample(nights, size, [row for one in samples for row in one.rows])


def review_figures(
    nights: Sequence[NightRun],
    cases: Sequence[Cases],
    verdicts: Verdicts,
    on_run: Sequence[Verdicts],
    promised: SensitivityAndPpv | None,
) -> dict[str, Any]:
    """What the reviews of a series add up to, as `SeriesFacts` has it.

    `cases`: by night in force the flagged ones in the random audit and those ever judged; `on_run`: by night
    the verdicts on its run; `promised`: what validation said.
    """
    flagged, unflagged = flagged_samples(nights, cases, verdicts), []
    for night, words in zip(nights, on_run, strict=True):
        # Those of its random audit that were judged stand for all unflagged of a night.
        judged = [
            word for word in words if not word.flagged and word.verdict not in UNDECIDED
        ]
        n = night.unflagged.cases
        rows = [
            (_patient(night, one.case_id), n / len(judged), one.verdict in HAS_IT)
            for one in judged
        ]
        unflagged.append(Sample(1, n, rows) if judged else Sample())
    of_flagged, rest = pooled(flagged), pooled(unflagged)
    # A patient flagged on five nights is one patient: counted by the last word on them.
    last = tally(
        {
            verdict.case_id: verdict.verdict for verdict in verdicts if verdict.flagged
        }.values()
    )
    return {
        "verdicts": last,
        "ppv": judged_share(last),
        "ppv_to_date": list(_shares_to_date(nights, verdicts)),
        "ppv_flagged": documents.FlaggedShare(
            *of_flagged.share().ends,
            found=len({patient for patient, _, ill in of_flagged.rows if ill}),
            judged=len({patient for patient, *_ in of_flagged.rows}),
            flagged=of_flagged.size,
            nights=of_flagged.nights,
        ),
        "misses": documents.Misses(
            found=sum(ill for *_, ill in rest.rows),
            judged=len(rest.rows),
            unflagged=rest.size,
            nights=rest.nights,
            per_night=rest.per_night(),
        ),
        "forward": _forward_nights(nights, flagged, unflagged, promised),
    }


def _shares_to_date(
    nights: Sequence[NightRun], verdicts: Verdicts
) -> Iterator[documents.ShareToDate]:
    """The share as it stood on each night: a case counts once, by the last word on it until then."""
    on_night = defaultdict(list)
    for verdict in verdicts:
        if verdict.flagged:
            on_night[verdict.night].append(verdict)
    last, counts = dict[str, str](), Counter[str]()
    for night in nights:
        for verdict in on_night[night.night]:
            if verdict.case_id in last:
                counts[last[verdict.case_id]] -= 1
            last[verdict.case_id] = verdict.verdict
            counts[verdict.verdict] += 1
        yield documents.ShareToDate(
            night=night.night, **vars(judged_share(tally(counts)))
        )


def flagged_samples(
    nights: Sequence[NightRun], cases: Sequence[Cases], verdicts: Verdicts
) -> list[Sample]:
    """What stands for all flagged of each night, those who stay included; empty where nothing does.

    A verdict holds for the unbroken row of nights it was given in, the last in it for all of them. Whoever
    had one when the night was scored ("ruled out", "known") counts by it. The others wait, and those of the
    random audit stand for them, each for as many as there were to one judged; all of them, where all were
    judged. A night on whose own page the audit was not judged whole is left out: by preference or by length
    of stay some are judged sooner than others.
    """
    answered = {(verdict.night, verdict.case_id) for verdict in verdicts}
    given = {
        (verdict.night, verdict.case_id): verdict.verdict
        for verdict in verdicts
        if verdict.verdict not in UNDECIDED
    }
    # By night and case, the night on which its unbroken row began; and by that and case the last word.
    began, words, before = (
        dict[tuple[str, str], int](),
        dict[tuple[int, str], str](),
        "",
    )
    for number, (night, of_night) in enumerate(zip(nights, cases, strict=True)):
        for case in of_night:
            place = (night.night, case.case_id)
            began[place] = began.get((before, case.case_id), number)
            if place in given:
                words[began[place], case.case_id] = given[place]
        before = night.night if night.question.recognisable else ""
    samples = []
    for night, of_night in zip(nights, cases, strict=True):
        word = {
            one.case_id: words.get((began[night.night, one.case_id], one.case_id))
            for one in of_night
        }
        waiting = [case for case in of_night if case.state in WAITING]
        audit = [case for case in waiting if (night.night, case.case_id) in answered]
        if len(audit) < night.waiting:
            waiting, audit = (
                [case for case in some if case.drawn] for some in (waiting, audit)
            )
        judged = [case.case_id for case in audit if word[case.case_id]]
        if len(audit) < len(waiting) or (night.waiting and not judged):
            samples.append(Sample())
            continue
        # Known from an earlier row, it has the condition as far as anybody knows.
        rows = [
            (case.case_id, 1.0, (word[case.case_id] or case.state) in HAS_IT)
            for case in of_night
            if case.state not in WAITING
        ]
        weight = night.waiting / max(len(judged), 1)
        rows += [
            (_patient(night, name), weight, word[name] in HAS_IT) for name in judged
        ]
        samples.append(Sample(1, night.cases, rows))
    return samples


def _patient(night: NightRun, name: str) -> str:
    """Whom an id means: where no column names the patients, somebody else on each night."""
    return name if night.question.recognisable else f"{night.night} {name}"


def _forward_nights(
    nights: Sequence[NightRun],
    flagged: Sequence[Sample],
    unflagged: Sequence[Sample],
    promised: SensitivityAndPpv | None,
) -> documents.ForwardNights:
    """Sensitivity and predictive value on the last model's nights, beside what its validation estimated."""
    model = nights[-1].model
    of_model = [number for number, night in enumerate(nights) if night.model == model]
    detected, missed = (
        pooled([some[number] for number in of_model]) for some in (flagged, unflagged)
    )
    always = _seen(detected, missed, every_look=True)
    return documents.ForwardNights(
        model=model,
        nights=len(of_model),
        first=nights[of_model[0]].night,
        last=nights[of_model[-1]].night,
        seen=_seen(detected, missed),
        promised=promised,
        below=[
            name
            for name in ("sensitivity", "ppv")
            if promised and _below(getattr(always, name), getattr(promised, name))
        ],
    )


def _seen(
    flagged: Sample, unflagged: Sample, every_look: bool = False
) -> SensitivityAndPpv:
    """Of the flagged, and of those with the condition that the flagged and the unflagged of a night make."""
    detected, missed = flagged.per_night(every_look), unflagged.per_night(every_look)
    sensitivity = Estimate()
    if detected.value and missed.value is not None:
        low, high = ratio_interval(missed.ends, detected.ends)
        sensitivity = Estimate(
            1 / (1 + missed.value / detected.value), 1 / (1 + high), 1 / (1 + low)
        )
    return SensitivityAndPpv(sensitivity=sensitivity, ppv=flagged.share(every_look))


WIDER = float(ndtri(0.5 + EVERY_LOOK / 2) / ndtri(0.5 + LEVEL / 2))
"""How much wider an interval of 98 % is than one of 95."""


def _below(seen: Estimate, promised: Estimate) -> bool:
    """Whether the nights lie below the validation estimate by more than chance, at whatever look.

    The interval of the difference by MOVER (Zou and Donner 2008), `seen` with the ends for every look: either
    of the two figures is said to be below in at most 2.5 of 100 histories where it is not, looked at daily.
    """
    if None in (*seen.ends, *promised.ends):
        return False
    (value, _, high), (estimate, low, _) = seen.ends, promised.ends
    return bool(estimate - value > hypot(WIDER * (estimate - low), high - value))
