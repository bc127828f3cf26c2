"""The facts of a run, divided into what names no patient and what does."""

from __future__ import annotations

from collections.abc import Mapping

from screening.documents.tables import table

OF_PATIENTS = ("drawn", "verdicts_before")
OF_DRIFT = ("who", "cell")


def divided(facts: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Facts without patients, and the rest: lots, verdicts shown, and the hashes under `drift`."""
    told = {name: value for name, value in facts.items() if name not in OF_PATIENTS}
    named = {name: facts[name] for name in OF_PATIENTS if name in facts}
    if told.get("drift") is not None:
        drift = table(told, "drift")
        named["drift"] = {name: drift[name] for name in OF_DRIFT if name in drift}
        told["drift"] = {name: value for name, value in drift.items() if name not in OF_DRIFT}
    return told, named
