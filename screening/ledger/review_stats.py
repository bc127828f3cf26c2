"""What reviews found of those judged and of all flagged, by lots; and what the page had promised."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.documents.history import (
    Estimate,
    FlaggedShare,
    ForwardNights,
    JudgedShare,
    Misses,
    NightRun,
    SensitivityAndPpv,
    ShareToDate,
    Words,
)
from screening.documents.shape import read
from screening.ledger.verdicts import HAS_IT
from screening.statistics.intervals import ratio_interval, wilson


@dataclass(frozen=True)
class Drawn:
    """The cases of a night that lots marked for review."""

    night: str
    among: int  # New cases of the night, that the lots were over.
    names: tuple[str, ...]


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def tally(words: Iterable[str]) -> Words:
    """How often each verdict was given."""
    counted = Counter(words)
    return Words(
        confirmed=counted["confirmed"], not_=counted["not"], unsure=counted["unsure"], known=counted["known"]
    )


def of_judged(words: Iterable[str]) -> JudgedShare:
    """Share with the condition among those judged, whoever chose them; "unsure" is no judgement."""
    return _of_counts(Counter(words))


def _of_counts(counted: Mapping[str, int]) -> JudgedShare:
    found = sum(counted[word] for word in HAS_IT)
    judged = sum(counted.values()) - counted["unsure"]
    if not judged:
        return JudgedShare(found=found, judged=judged, value=None, low=None, high=None)
    low, high = _ends(found, judged)
    return JudgedShare(found=found, judged=judged, value=found / judged, low=low, high=high)


def to_date(nights: Iterable[str], verdicts: Sequence[sa.Row[Any]]) -> Iterator[ShareToDate]:
    """The share among those judged as it stood on each night, nights and verdicts in order of time.

    A case counts once, by the last word on it until then; each verdict is looked at once.
    """
    last: dict[str, str] = {}
    counted: Counter[str] = Counter()
    waiting = iter([one for one in verdicts if one.flagged])
    ahead = next(waiting, None)
    for night in nights:
        while ahead is not None and ahead.night <= night:
            if ahead.case_id in last:
                counted[last[ahead.case_id]] -= 1
            last[ahead.case_id] = ahead.verdict
            counted[ahead.verdict] += 1
            ahead = next(waiting, None)
        yield ShareToDate(night=night, **vars(_of_counts(counted)))


def of_flagged(nights: Sequence[Drawn], verdicts: Sequence[sa.Row[Any]]) -> FlaggedShare:
    """Share with the condition among all new cases, judged or not, by those that lots marked for review.

    Reviewers who read from the top meet the condition more often than it is among all flagged, so only the
    marked cases count: each stands for as many new cases of its night as there were to one marked (weights
    are the inverse of the chance to be marked; Hajek 1971). A night counts when each of its marked cases has
    a verdict; the first one since says what the case was.

    `nights`: those in force. `verdicts`: of the same series, in order of time.
    """
    by_case: dict[str, list[tuple[str, str]]] = {}
    for one in verdicts:
        if one.flagged:
            by_case.setdefault(one.case_id, []).append((one.night, one.verdict))
    sizes, numbers, positives, drawn = [], [], [], 0
    for night in nights:
        words = [_word_since(by_case.get(name, []), night.night) for name in night.names]
        judged = [word for word in words if word not in (None, "unsure")]
        if None in words or not judged:
            continue
        drawn += len(words)
        sizes.append(night.among)
        numbers.append(len(judged))
        positives.append(sum(word in HAS_IT for word in judged))
    share = weighted(sizes, positives, numbers)
    return FlaggedShare(
        found=sum(positives), judged=sum(numbers), drawn=drawn, flagged=sum(sizes), nights=len(sizes),
        value=share.value, low=share.low, high=share.high,
    )  # fmt: skip


def _word_since(said: Sequence[tuple[str, str]], night: str) -> str | None:
    at = bisect_left(said, (night, ""))
    return said[at][1] if at < len(said) else None


def misses(runs: Sequence[NightRun]) -> Misses:
    """Cases among the unflagged of the nights whose random sample was reviewed, by the share in the sample.

    Every night's sample stands for that night's unflagged, be they many or few. A patient unflagged on
    several nights counts on each.
    """
    drawn = [run for run in runs if run.sample.judged]
    positives, numbers = [run.sample.found for run in drawn], [run.sample.judged for run in drawn]
    sizes = [run.unflagged.cases for run in drawn]
    share, a_night = weighted(sizes, positives, numbers), sum(sizes) / max(len(drawn), 1)
    value, low, high = (
        None if end is None else end * a_night for end in (share.value, share.low, share.high)
    )
    return Misses(
        found=sum(positives), judged=sum(numbers), unflagged=sum(sizes), nights=len(drawn),
        per_night=value, per_night_low=low, per_night_high=high,
    )  # fmt: skip


def weighted(sizes: Sequence[int], positives: Sequence[int], numbers: Sequence[int]) -> Estimate:
    """A share in whole nights from simple random samples of each, with a 95 % interval.

    The interval is Wilson's at the size of a simple sample that would tell as much (Kish 1965), with
    Student's quantile at that size: a few cases that stand for many tell less than their share shows.

    `sizes`, `positives`, `numbers`, shape (n_nights,): those the sample stands for, those of the sample with
    the condition, and the sample.
    """
    size, k, n = (np.asarray(each, float) for each in (sizes, positives, numbers))
    if not size.sum():
        return Estimate(value=None, low=None, high=None)
    value = float((size * k / n).sum() / size.sum())
    worth = float(size.sum() ** 2 / (np.square(size) / n).sum())
    low, high = wilson(value * worth, worth, freedom=max(worth - 1, 1))
    return Estimate(value=value, low=float(low), high=float(high))


@lru_cache(maxsize=4096)
def _ends(found: float, judged: float) -> tuple[float, float]:
    """The interval; most nights of a history have the counts of another."""
    low, high = wilson(found, judged)
    return float(low), float(high)


def forward_nights(
    used: Sequence[NightRun],
    drawn: Sequence[Drawn],
    verdicts: Sequence[sa.Row[Any]],
    promised: Mapping[str, object] | None,
) -> ForwardNights | None:
    """Sensitivity and predictive value on the last model's nights, from lots and samples that were judged.

    `used`: nights in force as the history tells them, in order; `drawn` has the lots of each. `promised`: as
    the last night's facts have it.
    """
    if not used:
        return None
    model = used[-1].model
    mine = [at for at, run in enumerate(used) if run.model == model]
    nights = [used[at] for at in mine]
    whole = of_flagged([drawn[at] for at in mine], verdicts)
    ppv = Estimate(value=whole.value, low=whole.low, high=whole.high)
    flagged = sum(run.cases for run in nights) / len(nights)
    return ForwardNights(
        model=model,
        nights=len(nights),
        first=nights[0].night,
        last=nights[-1].night,
        seen=SensitivityAndPpv(sensitivity=_sensitivity(ppv, flagged, misses(nights)), ppv=ppv),
        promised=None if promised is None else read(SensitivityAndPpv, promised, "the ledger's facts"),
    )


def _sensitivity(ppv: Estimate, flagged: float, missed: Misses) -> Estimate:
    """Found a night, of found and missed: those flagged have the condition as often as the new among them."""
    lost = [end for end in (missed.per_night, missed.per_night_low, missed.per_night_high) if end is not None]
    found = [end * flagged for end in (ppv.value, ppv.low, ppv.high) if end is not None]
    if len(lost) < 3 or len(found) < 3 or not found[0]:
        return Estimate(value=None, low=None, high=None)
    low, high = ratio_interval((lost[0], lost[1], lost[2]), (found[0], found[1], found[2]))
    return Estimate(value=1 / (1 + lost[0] / found[0]), low=1 / (1 + high), high=1 / (1 + low))
