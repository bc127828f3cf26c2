"""Between a run and the ledger: what a night brings, and what the ledger adds to its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from screening.store import Model

if TYPE_CHECKING:
    from screening.ledger import NightCases, Recorded

UNNAMED = (
    "No column names the rows, so nobody is recognised from night to night: "
    "give the contract an id or a group."
)

QUIET_NIGHTS = 3
"""Nights in a row without a case after which the table or the model is suspected, not the ward praised."""


def night_of(model: Model, document: dict[str, Any], key: str, flagged: tuple[str, ...]) -> NightCases:
    """What the run in `document` brings to the ledger."""
    from screening.ledger import NightCases

    task, contract = model.document["task"], model.contract
    counts = document["counts"]
    return NightCases(
        key=key,
        question={
            "label": task["label"],
            "positive": sorted(task["positive"]),
            "id": contract.id,
            "group": contract.group,
        },
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
        },
        recognisable=bool(contract.id or contract.group),
    )


def remembered(document: dict[str, Any], key: str, night: NightCases, found: Recorded) -> dict[str, Any]:
    """Return the run's document with what the ledger knows of its cases."""
    notes = [] if night.recognisable else [UNNAMED]
    if found.quiet >= QUIET_NIGHTS:
        notes.append(
            f"Nobody was flagged on {found.quiet} nights in a row: check the table and the threshold."
        )

    def known(case: dict[str, Any], name: str) -> dict[str, Any]:
        fact = found.cases.get(str(case[name]))
        if fact is None:
            return case
        before = None if fact.verdict is None else {"night": fact.verdict[0], "verdict": fact.verdict[1]}
        return case | {"state": fact.state, "nights": fact.nights, "last_verdict": before}

    groups, unit = document["groups"], "id" if document["groups"] is None else "group"
    return document | {
        "counts": document["counts"] | found.counts,
        "cases": [known(case, unit) for case in document["cases"]],
        "groups": groups and [known(group, "group") for group in groups],
        "attention": [*document.get("attention", []), *notes],
        "ledger": {
            "key": key,
            "revision": found.revision,
            "entry": found.head.number,
            "head": found.head.digest,
        },
    }
