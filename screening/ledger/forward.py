"""Forward validation over the nights: what reviews found of the champion beside what its page promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from screening.documents.history import Estimate, ForwardNights, Misses, NightRun, SensitivityAndPpv
from screening.documents.shape import read
from screening.ledger.judged import Drawn, misses, of_flagged
from screening.statistics.intervals import ratio_interval


def forward_nights(
    used: Sequence[NightRun],
    drawn: Sequence[Drawn],
    verdicts: Sequence[sa.Row[Any]],
    promised: Mapping[str, object] | None,
) -> ForwardNights | None:
    """Sensitivity and predictive value on the last model's nights, from lots and samples that were judged.

    Parameters
    ----------
    used : sequence of NightRun
        Nights in force as the history tells them, in order; `drawn` has the lots of each.
    promised : mapping, optional
        As the last night's facts have it.

    Returns
    -------
    ForwardNights, or None before the first night
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
