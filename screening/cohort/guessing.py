"""Which column is id, group, label and time, by name and uniqueness; every guess is said."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from screening.cohort.repeats import hashed
from screening.cohort.summary import ColumnSummary
from screening.contract.contract import Contract
from screening.contract.stems import sizes_of_stems
from screening.contract.typing import plain, texts
from screening.sources.source_files import Source

BATCH_ROWS = 65536
LABELS = (
    "label", "outcome", "target", "class", "infected", "infection", "event", "case", "diseased", "disease",
    "ill", "diagnosis", "sepsis", "septic", "died", "death", "dead", "mortality", "positive", "result",
    "status", "y", "klasse", "diagnose", "ergebnis", "verstorben", "gestorben", "resultado",
)  # fmt: skip
MOST_CLASSES = 20
# A column of fewer values tells arms, sites or sexes apart, and no patients.
FEW_VALUES = 10
# Alone, or as the first word before "id" or "no".
PEOPLE = frozenset(("patient", "pat", "subject", "person", "proband"))
GROUPS = frozenset(("group", "mrn", "pid", "patientid", "patientennummer", "subjectid"))
TIMES = (
    "date", "time", "admission_date", "admission", "admitted", "timestamp", "datum", "aufnahme",
    "aufnahmedatum", "fecha", "data",
)  # fmt: skip
# How a date is called in compound words too: Aufnahmedatum, birthdate.
DATED = re.compile(r".*(date|datum)|fecha|data|admission|admitted|aufnahme")
# A date that is named otherwise is the row's if it is the only one, and not one of these.
OTHER_DATES = frozenset(("birth", "death", "discharge", "review", "follow"))
# The last word of a name, or the first where a number follows: MRN, patient_id, CaseID, Fallnummer, visit no.
KEYS = frozenset(("id", "mrn", "pid", "uid", "uuid", "identifier", "key", "fallnummer", "patientennummer"))
WHOSE = frozenset((
    "patient", "pat", "case", "fall", "subject", "encounter", "visit", "stay", "admission", "accession",
    "dossier", "séjour",
))  # fmt: skip
NUMBERED = frozenset(("nr", "no", "num", "number", "nummer", "id"))
# In French the number comes first: N° dossier, numéro de séjour.
NUMBER_OF, FILES = frozenset(("n", "numéro")), frozenset(("dossier", "séjour", "patient"))
WORDS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")


def names_rows(column: str) -> bool:
    """Whether a column is called as ids are."""
    words = _words(column)
    if not words:
        return False
    numbered = words[0] in WHOSE and words[-1] in NUMBERED
    return words[-1] in KEYS or numbered or (words[0] in NUMBER_OF and words[-1] in FILES)


def names_people(column: str) -> bool:
    """Whether a column is called as what several rows of one patient share."""
    words = _words(column)
    if len(words) == 1:
        return words[0] in PEOPLE | GROUPS
    return bool(words) and words[0] in PEOPLE and words[-1] in NUMBERED | KEYS


def names_somebody(column: str) -> bool:
    """Whether a column is called as what tells rows or patients apart, which no model is to learn."""
    return names_rows(column) or names_people(column)


def names_a_date(column: str) -> bool:
    """Whether a column is called as dates are."""
    words = _words(column)
    return bool(words) and DATED.fullmatch(words[-1]) is not None


def _words(column: str) -> list[str]:
    return [word.lower() for word in WORDS.findall(column)]


def guessed_roles(
    source: Source, summaries: dict[str, ColumnSummary], given: Contract, notes: list[str]
) -> Contract:
    """Roles by obvious column names, where none was given."""
    # Voxels may well be of two patients.
    fewest = 1 if given.coordinates else FEW_VALUES
    taken = {given.id, given.group, given.label, given.time, *given.coordinates, *given.drop}
    free = {name.lower(): name for name in summaries if name not in taken}
    found: dict[str, str | None] = {}
    if not given.label:
        named = (name for name in LABELS if name in free and _few(summaries[free[name]]))
        label = next(named, None)
        found["label"] = free.pop(label) if label else None
    for lower, name in list(free.items()):
        summary = summaries[name]
        if not names_somebody(name) or summary.present < summary.rows:
            continue
        role = (
            "id"
            if _all_differ(source, name)
            else "group"
            if names_people(name) and len(summary.texts) >= fewest
            else None
        )
        if role and not getattr(given, role) and not found.get(role):
            found[role] = free.pop(lower)
    if not given.time:
        found["time"] = _time({lower: name for lower, name in free.items() if _dated(summaries[name])})
    notes += [f"guessed role {role}: {column}" for role, column in found.items() if column]
    if not found.get("id") and not given.id:
        notes.append("no column names the rows: their numbers are their ids; set `id` if there is one")
    if found["time"] and summaries[found["time"]].day_or_month_first:
        orders = summaries[found["time"]].date_orders
        found["date_order"] = min(orders)
        doubt = "" if len(orders) == 1 else ", though the month might be; review date_order"
        leads = "day" if found["date_order"] == "dmy" else "month"
        notes.append(f"column '{found['time']}': dates are read with the {leads} first{doubt}")
    label = found.get("label")
    if label and summaries[label].present < summaries[label].rows:
        notes.append(
            f"column '{label}': some rows have no label; fill them before training, or leave them out"
        )
    return given.with_roles(**found)


def _time(dated: dict[str, str]) -> str | None:
    """The row's own date: by its name, or the only one whose last word says so."""
    named = [dated[name] for name in TIMES if name in dated]
    ending = [name for name in dated.values() if _is_date(_words(name))]
    return named[0] if named else ending[0] if len(ending) == 1 else None


def _is_date(words: list[str]) -> bool:
    return bool(words) and words[-1] in TIMES and not OTHER_DATES & {*words}


def _few(summary: ColumnSummary) -> bool:
    return (2 <= len(summary.texts) <= MOST_CLASSES or summary.ticked) and not summary.unreadable


def _dated(summary: ColumnSummary) -> bool:
    return summary.rows > 0 and summary.dates == summary.rows and bool(summary.date_orders)


def _all_differ(source: Source, name: str) -> bool:
    parts = [hashed(words) for words in _texts_of(source, name)]
    hashes = np.concatenate(parts) if parts else np.zeros(0)
    return len(np.unique(hashes)) == len(hashes) > 0


def _texts_of(source: Source, name: str) -> Iterator[np.ndarray]:
    """Blocks of a column's texts, blanks as empty ones."""
    for file in source.files:
        for block in file.blocks([name], BATCH_ROWS):
            words = texts(plain(block.columns[name]))
            yield (
                np.array([], object)
                if words is None
                else pc.fill_null(words, "").to_numpy(zero_copy_only=False)
            )


def with_stems(source: Source, given: Contract, notes: list[str]) -> Contract:
    """The contract with `group_stem` where its group names each row by a stem and a running end."""
    if not given.group or given.group_stem or given.coordinates:
        return given
    names = [name.strip() for words in _texts_of(source, given.group) for name in words.tolist()]
    sizes = sizes_of_stems(names)
    if not sizes:
        return given
    notes.append(
        f"column '{given.group}': the patient is taken to be the stem of a row's name, without its running "
        f"end ({len(sizes):,} patients; group_stem in a contract)"
    )
    return given.with_roles(group_stem=True)
