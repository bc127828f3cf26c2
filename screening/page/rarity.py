"""How rare the flagged are among so many screened, and whether the others look as negatives used to."""

from __future__ import annotations

from screening.documents.drift_words import words
from screening.documents.run import Discoveries, RunDocument
from screening.page import format as shown


def rarity(run: RunDocument) -> dict[str, object] | None:
    """Return the sentences on false discoveries and on drift; None for a run that holds neither."""
    found = run.discoveries
    if not found and not run.drift:
        return None
    sentences = [_discovered(found)] if found else []
    if found and found.warning and not found.found:
        sentences.append(f"Too coarse to tell: {shown.text(found.warning)}.")
    return {"sentences": sentences, "drift": words(run.drift)}


def _discovered(found: Discoveries) -> str:
    screened = shown.plural(found.n_screened, "patient" if found.per == "group" else "row")
    rate = shown.percent(found.q)
    head = f"Of {screened} screened, some look rare by chance alone."
    if not found.found:
        return (
            f"{head} None is rare enough to be reported at a false discovery rate of {rate} "
            "(Benjamini-Hochberg)."
        )
    count = shown.plural(found.found, "is", "are")
    return (
        f"{head} {count} rare even so: p at most {shown.p_value(found.p_cut)}, where no more than "
        f"about {rate} of those reported are expected to be false (Benjamini-Hochberg). They are marked FDR. "
        "The mark is a note on rarity; the list follows the threshold "
        f"({shown.count(found.flagged)} flagged)."
    )
