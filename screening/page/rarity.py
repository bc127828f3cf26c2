"""How rare the flagged are among so many screened, and whether the others look as negatives used to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents import ScoreCounts
from screening.documents.drift_words import words
from screening.documents.reading import mapping
from screening.page import format as shown


def rarity(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the sentences on false discoveries and on drift; None for a run that holds neither."""
    found, drift = mapping(run, "discoveries"), ScoreCounts.of(mapping(run, "drift"))
    if not found and not drift:
        return None
    per = "group" if found.get("per") == "group" else "row"
    sentences = []
    if shown.finite(found.get("q")):
        sentences.append(_discovered(found, "patient" if per == "group" else "row"))
    if found.get("warning") and not found.get("found"):
        sentences.append(f"Too coarse to tell: {shown.text(found['warning'])}.")
    return {"sentences": sentences, "drift": words(drift)}


def _discovered(found: Mapping[str, Any], one: str) -> str:
    screened = shown.plural(found.get("n_screened"), one)
    rate = shown.percent(found["q"])
    head = f"Of {screened} screened, some look rare by chance alone."
    if not found.get("found"):
        return (
            f"{head} None is rare enough to be reported at a false discovery rate of {rate} "
            "(Benjamini-Hochberg)."
        )
    count = shown.plural(found["found"], "is", "are")
    return (
        f"{head} {count} rare even so: p at most {shown.p_value(found.get('p_cut'))}, where no more than "
        f"about {rate} of those reported are expected to be false (Benjamini-Hochberg). They are marked FDR. "
        "The mark is a note on rarity; the list follows the threshold "
        f"({shown.count(found.get('flagged'))} flagged)."
    )
