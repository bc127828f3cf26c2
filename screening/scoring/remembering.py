"""Between a run and the ledger: what a night brings, and what the ledger adds to its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from screening.documents import Reason
from screening.documents.attention import of_run
from screening.documents.series import shown_series
from screening.storage.model import Model

if TYPE_CHECKING:
    from screening.ledger import NightCases, Recorded


JUDGED = ("reviewed", "known")
"""States of a case that somebody has judged: no work of tonight."""


def night_of(
    model: Model,
    document: dict[str, Any],
    key: str,
    flagged: tuple[str, ...],
    series: str | None = None,
    shadow: bool = False,
) -> NightCases:
    """What the run in `document` brings to the ledger."""
    from screening.ledger import NightCases

    contract = model.contract
    counts, recognisable = document["counts"], bool(contract.id or contract.group)

    def decided(states: Mapping[str, int], quiet: int) -> list[Reason]:
        known = document | {"counts": counts | states}
        return of_run(known, quiet=quiet, recognisable=recognisable, trained=model.trained)

    return NightCases(
        key=key,
        question=_question(model),
        night=document["date"],
        flagged=flagged,
        sampled=tuple(document["sample"]),
        facts={
            "run_id": document["run_id"],
            "model": model.digest,
            "recipe": model.document["recipe"]["name"],
            "thresholds": dict(zip(model.watched, model.thresholds.tolist(), strict=True)),
            "title": contract.title,
            "minutes_per_review": contract.minutes_per_review,
            "capacity": contract.capacity,
            "rows": {name: counts[name] for name in ("read", "scored", "refused", "flagged")},
            "unflagged": document["unflagged"],
            "missing": _missing(document),
            "drift": document["drift"],
            "table": ",".join(file["sha256"][:16] for file in document["input"]["files"]),
        },
        recognisable=recognisable,
        known_days=contract.known_days,
        draw=contract.review_sample,
        attention=decided,
        named=series,
        shadow=shadow,
    )


def _missing(document: Mapping[str, Any]) -> dict[str, int]:
    """How many values of the features were missing, of how many: quality of the table, whoever is in it."""
    scored, shares = document["counts"]["scored"], [each["missing"] for each in document["data"]]
    return {"missing": round(scored * sum(shares)), "values": scored * len(shares)}


def _question(model: Model) -> dict[str, Any]:
    task, contract = model.document["task"], model.contract
    return {
        "label": task["label"],
        "positive": sorted(task["positive"]),
        "id": contract.id,
        "group": contract.group,
    }


def series_of(model: Model, named: str | None = None) -> str:
    """The series that the model's nights belong to: by name, by its contract, or by what it asks."""
    from screening.ledger.night import series_by

    return series_by(named or model.contract.series, _question(model))


def remembered(document: dict[str, Any], night: NightCases, found: Recorded) -> dict[str, Any]:
    """Return the run's document with what the ledger knows, and why it wants attention."""

    marked = set(found.drawn)

    def known(case: dict[str, Any], name: str) -> dict[str, Any]:
        fact = found.cases.get(str(case[name]))
        if fact is None:
            return case
        before = None if fact.verdict is None else {"night": fact.verdict[0], "verdict": fact.verdict[1]}
        drawn = str(case[name]) in marked
        return case | {"state": fact.state, "nights": fact.nights, "last_verdict": before, "drawn": drawn}

    groups, unit = document["groups"], "id" if document["groups"] is None else "group"
    return document | {
        "counts": document["counts"] | found.counts | {"drawn": len(found.drawn)},
        "cases": [known(case, unit) for case in document["cases"]],
        "groups": groups and [known(group, "group") for group in groups],
        "attention": [reason.to_dict() for reason in found.attention],
        "ledger": {
            "key": night.key,
            "revision": found.revision,
            "entry": found.head.number,
            "head": found.head.digest,
            "series": shown_series(night.series),
            "shadow": night.shadow,
        },
    }


def waiting(document: Mapping[str, Any]) -> list[float]:
    """Scores of those who wait for a review, the highest first: flagged, and not judged on a night before."""
    if document["groups"] is None:
        return [case["score"] for case in document["cases"] if case.get("state") not in JUDGED]
    flagged = [group for group in document["groups"] if group["flagged"]]
    return [group["top_score"] for group in flagged if group.get("state") not in JUDGED]
