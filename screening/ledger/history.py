"""What the nights add up to: workload, what reviews found and what was missed, and drift."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ..conformal_p import uniformity
from ..statistics.intervals import wilson
from . import audit
from .book import Ledger
from .tables import AUDIT, REVIEWS, RUNS, VERDICTS

RECENT_NIGHTS = 14
"""Nights whose unflagged are compared with the training cohort as one."""


def history(ledger: Ledger, *, verify: bool = False, printed: str | None = None) -> dict[str, Any]:
    """Every run, and what the runs of each question add up to; counts only, no patient.

    Parameters
    ----------
    verify : bool
        Follow the audit trail from its beginning first.
    printed : str, optional
        With `verify`: a head printed on a report, which the trail must still hold.

    Returns
    -------
    dict
        `runs`, one entry a run and revision, oldest first; `series`, one entry a question asked of the
        tables; `threshold_changes`; `audit`.

    Raises
    ------
    Unchained
        With `verify`: naming the first entry that is not as it was written.
    """
    with ledger.reading() as connection:
        head = audit.verify(connection, printed) if verify else audit.head(connection)
        recorded = {
            row.number: row.recorded
            for row in connection.execute(sa.select(AUDIT.c.number, AUDIT.c.recorded))
        }
        runs = list(connection.execute(sa.select(RUNS).order_by(RUNS.c.night, RUNS.c.entry)))
        verdicts = list(connection.execute(sa.select(REVIEWS).order_by(REVIEWS.c.night, REVIEWS.c.key)))
        changes = connection.execute(
            sa.select(AUDIT).where(AUDIT.c.action == "threshold").order_by(AUDIT.c.number)
        )
        told = [json.loads(row.body) | {"entry": row.number, "recorded": row.recorded} for row in changes]
    reviews: dict[str, list[sa.Row[Any]]] = {}
    for verdict in verdicts:
        reviews.setdefault(verdict.key, []).append(verdict)
    latest = {(run.series, run.night): run.entry for run in runs if run.published}
    listed = [
        _run(
            run,
            reviews.get(run.key, []),
            recorded[run.entry],
            latest.get((run.series, run.night)) == run.entry,
        )
        for run in runs
    ]
    return {
        "runs": listed,
        "series": [
            _series(name, [run for run in listed if run["series"] == name], verdicts)
            for name in dict.fromkeys(run["series"] for run in listed)
        ],
        "threshold_changes": told,
        "audit": {"entries": head.number, "head": head.digest, "verified": verify},
    }


def _run(run: sa.Row[Any], reviews: list[sa.Row[Any]], recorded: str, in_force: bool) -> dict[str, Any]:
    facts = json.loads(run.facts)
    rows, counts, unflagged = facts["rows"], facts["counts"], facts["unflagged"]
    return {
        "night": run.night,
        "run_id": facts["run_id"],
        "revision": run.revision,
        "series": run.series[:12],
        "question": facts["question"],
        "title": facts["title"],
        "model": facts["model"][:12],
        "recipe": facts["recipe"],
        "thresholds": facts["thresholds"],
        "recorded": recorded,
        "published": run.published,
        "in_force": in_force,
        **rows,
        **counts,
        "flag_rate": rows["flagged"] / rows["scored"] if rows["scored"] else None,
        "minutes": _times(counts["cases"] - counts["reviewed"], facts["minutes_per_review"]),
        "capacity": facts["capacity"],
        "verdicts": _tally(one.verdict for one in reviews if one.flagged),
        "ppv": _ppv(one.verdict for one in reviews if one.flagged),
        "sample": _tally(one.verdict for one in reviews if not one.flagged),
        "unflagged": unflagged,
        "attention": facts.get("attention", []),
    }


def _times(count: float, minutes: float | None) -> float | None:
    return None if minutes is None else count * minutes


def _series(name: str, runs: Sequence[Mapping[str, Any]], verdicts: Sequence[sa.Row[Any]]) -> dict[str, Any]:
    used = [run for run in runs if run["in_force"]]
    said = [one for one in verdicts if one.series[:12] == name]
    # A patient flagged on five nights is one patient: counted by the last word on them.
    cases = {one.case_id: one.verdict for one in said if one.flagged}
    waiting = [run["cases"] - run["reviewed"] for run in used]
    return {
        "series": name,
        "title": used[-1]["title"] if used else None,
        "question": runs[0]["question"],
        "nights": len(used),
        "first": used[0]["night"] if used else None,
        "last": used[-1]["night"] if used else None,
        "ppv": _ppv(cases.values()),
        "verdicts": _tally(cases.values()),
        "ppv_to_date": [_to_date(run["night"], said) for run in used],
        "workload": {
            "cases_per_night": sum(run["cases"] for run in used) / len(used) if used else None,
            "waiting_per_night": sum(waiting) / len(waiting) if waiting else None,
            "minutes_per_night": _mean([run["minutes"] for run in used]),
        },
        "misses": _misses(used),
        "drift": _drift(used),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _tally(words: Iterable[str]) -> dict[str, int]:
    counted = Counter(words)
    return {word: counted[word] for word in VERDICTS}


def _ppv(words: Iterable[str]) -> dict[str, Any]:
    """Share with the condition among those judged; "unsure" is no judgement."""
    counted = Counter(words)
    found, judged = counted["confirmed"] + counted["known"], sum(counted.values()) - counted["unsure"]
    return {"found": found, "judged": judged} | _share(found, judged)


def _to_date(night: str, verdicts: Sequence[sa.Row[Any]]) -> dict[str, Any]:
    cases = {one.case_id: one.verdict for one in verdicts if one.flagged and one.night <= night}
    return {"night": night} | _ppv(cases.values())


def _share(found: float, judged: float) -> dict[str, float | None]:
    if not judged:
        return {"value": None, "low": None, "high": None}
    low, high = wilson(found, judged)
    return {"value": found / judged, "low": float(low), "high": float(high)}


def _misses(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Cases among the unflagged of the nights whose random sample was reviewed, by the share in the sample.

    Every night's sample stands for that night's unflagged, be they many or few. The interval is Wilson's at
    the size of a simple sample that would tell as much. A patient unflagged on several nights counts on each.
    """
    judged = [sum(run["sample"].values()) - run["sample"]["unsure"] for run in runs]
    drawn = [(run, n) for run, n in zip(runs, judged, strict=True) if n]
    positive = [run["sample"]["confirmed"] + run["sample"]["known"] for run, _ in drawn]
    sizes = [run["unflagged"]["cases"] for run, _ in drawn]
    told: dict[str, Any] = {
        "found": sum(positive),
        "judged": sum(judged),
        "unflagged": sum(sizes),
        "nights": len(drawn),
    }
    names = {"per_night": "value", "per_night_low": "low", "per_night_high": "high"}
    if not drawn:
        return told | dict.fromkeys(names)
    numbers = [n for _, n in drawn]
    total = sum(size * k / n for size, k, n in zip(sizes, positive, numbers, strict=True))
    worth = sum(sizes) ** 2 / sum(size**2 / n for size, n in zip(sizes, numbers, strict=True))
    share = _share(total / sum(sizes) * worth, worth)
    return told | {name: (share[key] or 0.0) * sum(sizes) / len(drawn) for name, key in names.items()}


def _drift(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The unflagged of recent nights together, under the model now in use, against its training cohort."""
    recent = [run for run in runs if runs and run["model"] == runs[-1]["model"]][-RECENT_NIGHTS:]
    if not recent:
        return None
    ranks = [sum(column) for column in zip(*(run["unflagged"]["ranks"] for run in recent), strict=True)]
    distance, p = uniformity(ranks, recent[-1]["unflagged"]["calibration"])
    return {"nights": len(recent), "counted": sum(ranks), "ks": distance, "p": p}
