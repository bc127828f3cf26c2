"""The facts of a run, divided into what names no patient and what does, and put together again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_PATIENTS = ("drawn", "verdicts_before")
OF_DRIFT = ("who", "cell")


def divided(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts without patients, and the rest: lots, verdicts shown, and the hashes under `drift`."""
    told = {name: value for name, value in facts.items() if name not in OF_PATIENTS}
    named = {name: facts[name] for name in OF_PATIENTS if name in facts}
    drift = told.get("drift")
    if drift is not None:
        named["drift"] = {name: drift[name] for name in OF_DRIFT if name in drift}
        told["drift"] = {name: value for name, value in drift.items() if name not in OF_DRIFT}
    return told, named


def together(told: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `divided`."""
    facts = dict(told) | {name: named[name] for name in OF_PATIENTS if name in named}
    if "drift" in named:
        facts["drift"] = facts["drift"] | named["drift"]
    return facts
