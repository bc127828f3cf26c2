"""Types and roles of columns where no contract states them; every guess is stated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from screening.cohort.categories import CODE, MANY_VALUES
from screening.cohort.ids import PLACE_NAMES, sizes_of_stems
from screening.cohort.summary import ColumnSummary
from screening.contract.contract import Contract
from screening.contract.parsing import plain, texts
from screening.errors import CohortError
from screening.sources.number_formats import truths
from screening.sources.readers import Source
from screening.spelling import did_you_mean, first_of

INDICATOR_SHARE = 0.05
# As many rows may have whole values without a gap by chance: the ages of a ward.
FEW = 50
# From here on neighbouring whole numbers are one float: nobody measures so finely, but systems number so.
EXACT = 2.0**53
LIKE_AN_ID = "looks like an id (name it with --id or --group)"
INDEX_NAME = re.compile(
    rf"{PLACE_NAMES}|((row|lfd|lauf|seq|serial|sr?)[_. ]*)?(nr|no|num|number|nummer|numéro|número)\.?",
    re.IGNORECASE,
)
# Numbers of days as spreadsheets count them from 1900: the latest of a column is in 1954 to 2064.
LATEST_DAY = (20_000, 60_000)
# So many names a note tells.
MOST_NAMES = 20
# Codes that are no category either; "none" or "unknown" may be an answer.
NO_ANSWER = frozenset(("na", "n/a", "n.a.", "#n/a", "nan", "null", "n.d.", "nd", "k.a.", ".", "?", "-", "--"))
# 45 %, 12.5mg/l, <0,5 g: a number, and what it is counted in.
MEASURED = re.compile(r"[<>≤≥]?\s*[+-]?\d+([.,]\d+)?\s*(?P<unit>%|[^\W\d]{1,6}(/[^\W\d]{1,6})?)")
# More texts than this beside numbers are no way to say "missing".
MOST_ODD = 50
BATCH_ROWS = 65536
# A column of fewer values tells arms, sites or sexes apart, and no patients.
FEW_VALUES = 10
# Alone, or as the first word before "id" or "no".
PEOPLE = frozenset(("patient", "pat", "subject", "person", "proband"))
GROUPS = frozenset(("group", "mrn", "pid", "patientid", "patientennummer", "subjectid"))
# How a date is called in compound words too: Aufnahmedatum, birthdate.
DATED = re.compile(r".*(date|datum)|fecha|data|admission|admitted|aufnahme")
# The last word of a name, or the first where a number follows: MRN, patient_id, CaseID, Fallnummer, visit no.
KEYS = frozenset(("id", "mrn", "pid", "uid", "uuid", "identifier", "key", "fallnummer", "patientennummer"))
WHOSE = frozenset((
    "patient", "pat", "case", "fall", "subject", "encounter", "visit", "stay", "admission", "accession",
    "dossier", "séjour",
))  # fmt: skip
NUMBERED = frozenset(("nr", "nbr", "no", "num", "number", "nummer", "id"))
# In French the number comes first: N° dossier, numéro de séjour.
NUMBER_OF, FILES = frozenset(("n", "numéro")), frozenset(("dossier", "séjour", "patient"))
# The last word of what is coded; the digits of such a column are no quantity.
CODED = frozenset((
    "code", "codes", "icd", "atc", "ops", "drg", "cpt", "loinc", "snomed", "diag", "diagnosis", "dx",
    "specialty", "fachabteilung", "kode", "codice", "código",
))  # fmt: skip
# A column called like an id whose values stand in so many rows each is a code, such as admission_type_id.
ROWS_OF_CODE = 20
# So many texts of letters and digits (V57, E909) beside numbers make codes of the numbers too.
FEWEST_CODES = 3
PLACES = frozenset((
    "bed", "room", "ward", "unit", "floor", "bett", "zimmer", "station", "lit", "chambre", "cama", "sala",
    "habitación", "letto", "stanza", "reparto",
))  # fmt: skip
WORDS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")


def inferred(
    source: Source, given: Contract, summaries: Mapping[str, ColumnSummary] | None = None
) -> tuple[Contract, list[str]]:
    """Complete `given` (roles only) with features inferred from the whole table.

    With `summaries`, what the columns hold, for a starter contract: it also lists categories and ranges, and
    declares the missing-value codes that occur. The notes say what was inferred, by column name and without
    values. Raises CohortError: columns of a role are absent, files have different columns, or no feature is
    left.
    """
    starter = summaries is not None
    summaries = summaries_of(source, given) if summaries is None else summaries
    rows = max((summary.rows for summary in summaries.values()), default=0)
    if summaries and not rows:
        raise CohortError("the cohort has no data rows, only column names; was the export empty?")
    notes: list[str] = []
    given = with_stems(source, given, notes)
    # A group's rows with x, y, z are voxels of one patient: where they lie is no feature of them.
    roles = with_coordinates(summaries, given, notes) if given.group else given
    used = {roles.id, roles.group, roles.label, roles.time, *roles.coordinates, *roles.drop}
    used.update(roles.display)
    features: dict[str, dict[str, Any]] = {}
    dropped: dict[str, list[str]] = {}
    kinds: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        if name in used:
            continue
        codes = _mostly_codes(name, summary)
        reason = _useless(name, summary, starter, codes)
        if reason:
            dropped.setdefault(reason, []).append(name)
            continue
        feature = _feature(summary, starter, codes)
        features[name] = feature
        kinds.setdefault(feature["type"], []).append(name)
        if feature["missing"] in ("indicator", "category"):
            kinds.setdefault(f"extra column for missing (over {INDICATOR_SHARE:.0%})", []).append(name)
        if feature.get("missing_values") and (summary.odd_texts or summary.missing_codes):
            what = "texts that are no numbers" if summary.odd_texts else "texts such as NA"
            notes.append(f"column '{name}': {what} were listed in missing_values; review")
        if feature["type"] == "number" and summary.far_codes:
            done = "was listed in missing_values; review" if starter else "is read as a value; is it one?"
            notes.append(f"column '{name}': a number like -99, repeated and far from all others, {done}")
        if feature["type"] == "number" and summary.stray:
            notes.append(
                f"column '{name}': a number lies far from all others; look at it, "
                "or set `plausible` in a contract"
            )
        if feature["missing"] == "no":
            notes.append(f"column '{name}' is ticked or blank; a blank is read as no")
        if feature.get("censored"):
            notes.append(f"column '{name}': censored values are read as their limit; review")
        if summary.missing_codes and feature["type"] == "category" and not starter:
            notes.append(f"column '{name}' holds a text such as NA; it is read as a category, not as missing")
    notes += [f"inferred {kind}: {_listed(names)}" for kind, names in kinds.items()]
    notes += [f"dropped, {reason}: {_listed(names)}" for reason, names in dropped.items()]
    if not features:
        raise CohortError("; ".join(["no column is left as a feature", *notes[-5:]]))
    content = roles.to_dict()
    left_out = [*roles.drop, *(name for names in dropped.values() for name in names)]
    content["cohort"] = content["cohort"] | {"drop": left_out}
    content.update(features=features, feature_order=[*features])
    return Contract.from_dict(content), notes


def _listed(names: list[str]) -> str:
    # One more name takes no more room than to say so.
    return first_of(names, MOST_NAMES if len(names) > MOST_NAMES + 1 else len(names))


def _refuse_mixed(source: Source, given: Contract) -> None:
    faults = []
    named = [given.id, given.group, given.label, given.time, *given.subgroup, *given.coordinates]
    first = source.files[0]
    for file in source.files:
        present = {*file.header}
        absent = [name for name in dict.fromkeys([*named, *given.drop]) if name and name not in present]
        faults += [
            f"{file.name}: missing column '{name}'"
            f"{did_you_mean(name, file.header) or '; correct the name given for it'}"
            for name in absent
        ]
        missing, more = {*first.header} - present, present - {*first.header}
        if missing or more:
            faults.append(
                f"{file.name}: other columns than {first.name} ({len(missing)} missing, {len(more)} more); "
                "read tables of one kind together, or name the features in a contract"
            )
    if faults:
        raise CohortError(faults)


def summaries_of(source: Source, given: Contract) -> dict[str, ColumnSummary]:
    """What each column holds but the label and what is dropped; CohortError where files or roles misfit."""
    _refuse_mixed(source, given)
    columns = [
        name for name in source.files[0].header if name and name not in given.drop and name != given.label
    ]
    summaries = {name: ColumnSummary() for name in columns}
    for file in source.files:
        for block in file.blocks(columns, BATCH_ROWS):
            for name, summary in summaries.items():
                summary.add(block.columns[name], file.decimal(name))
    return summaries


def _useless(name: str, summary: ColumnSummary, starter: bool, codes: bool) -> str | None:
    if summary.unreadable:
        return "nested or binary"
    if not summary.present:
        return "no values"
    if summary.clocked:
        return "times of day or durations (write them as numbers, such as hours)"
    if summary.dates > summary.present / 2:
        if not summary.date_orders:
            return "dates, but not all possible ones in one order of day and month"
        return "dates (make an age or duration of them, or name one as time in a contract)"
    if summary.constant and summary.present == summary.rows:
        return "one value only"
    distinct = summary.n_texts
    if codes:
        return None
    if _mostly_numbers(summary):
        counting = summary.whole and distinct > min(0.9 * summary.present, 900) and summary.present > 1
        if counting and INDEX_NAME.fullmatch(name):
            return "a row index"
        if summary.whole and distinct > 20 and (names_somebody(name) or summary.low >= EXACT):
            return LIKE_AN_ID
        if names_a_date(name) and summary.low >= 1 and LATEST_DAY[0] <= summary.high <= LATEST_DAY[1]:
            return "dates as numbers of days (format the cells as dates and save the table again)"
        if (
            counting
            and summary.present == summary.rows > FEW
            and summary.high - summary.low == summary.rows - 1
        ):
            return "a row index"
        return "numbers and many other texts" if starter and len(summary.odd_texts) > MOST_ODD else None
    if distinct > 20 and names_somebody(name):
        return LIKE_AN_ID
    if distinct > 10 and _measured(summary.texts):
        return "numbers with a unit or % in every cell (export bare numbers)"
    if summary.many_texts or (distinct > 10 and distinct > 0.5 * summary.present):
        return "id or free text (nearly every row differs)"
    return None


def _measured(texts: Iterable[str]) -> bool:
    """Whether nearly all are numbers in one or a few units."""
    found = [MEASURED.fullmatch(text) for text in texts]
    units = Counter(match["unit"] for match in found if match)
    return sum(count for _, count in units.most_common(3)) >= 0.9 * len(found)


def _mostly_codes(name: str, summary: ColumnSummary) -> bool:
    """Codes, whose digits are no quantity: by letters before some of them, or by the column's name."""
    if summary.unreadable or summary.dates or summary.censored or names_people(name):
        return False
    few = not summary.many_texts and 2 < summary.n_texts <= summary.present / ROWS_OF_CODE
    lettered = [text for text in summary.odd_texts if CODE.fullmatch(text) and text[0].isalpha()]
    if len(lettered) >= FEWEST_CODES and len(lettered) > len(summary.odd_texts) / 2:
        seldom_twice = summary.n_texts > summary.present / 2
        return (few or not names_rows(name)) and not seldom_twice and not _measured(summary.odd_texts)
    *_, last = [word for word in words_of(name) if not word.isdigit()] or [""]
    return few and summary.whole and (names_rows(name) or last in CODED)


def _mostly_numbers(summary: ColumnSummary) -> bool:
    """Numbers, but for missing codes, censored values and a few that cannot be read."""
    if summary.native:
        return True
    meant = summary.numbers + summary.censored + summary.misprinted
    if not meant or summary.zero_led:
        return False
    share = meant / (meant + summary.odd)
    return share >= 0.9 or (share >= 0.5 and summary.n_texts > 30)


def _feature(summary: ColumnSummary, starter: bool, codes: bool) -> dict[str, Any]:
    numeric = not codes and _mostly_numbers(summary)
    coded = summary.coded_share if starter and numeric else 0.0
    often_missing = summary.missing_share + coded > INDICATOR_SHARE
    feature: dict[str, object] = {"missing": "indicator" if often_missing else "impute"}
    if summary.ticked:
        return {"type": "boolean", "missing": "no"}
    absent = sorted(summary.missing_codes)
    # Without a review, 0 and 1 stay numbers: a later 2 must not stop a night's run.
    reviewed_flag = starter and summary.n_texts <= 2 and summary.texts <= {"0", "1"}
    if summary.boolean_words and (not numeric or reviewed_flag) and not summary.constant:
        return {"type": "boolean", **feature}
    if numeric:
        feature["type"] = "number"
        if starter:
            seen = summary.percentiles(1, 99)
            feature.update({"seen": seen} if seen else {})
            not_known = sorted({*absent, *summary.odd_texts, *(f"{code:g}" for code in summary.far_codes)})
            feature.update({"missing_values": not_known} if not_known else {})
            feature.update({"censored": "limit"} if summary.censored else {})
        return feature
    absent = [text for text in absent if text.lower() in NO_ANSWER and summary.n_texts > 1]
    if starter and absent:
        feature["missing_values"] = absent
        if truths(text.lower() for text in summary.texts - set(absent)):
            return {"type": "boolean", **feature}
    feature.update(type="category", missing="category" if often_missing else "impute")
    # Of many codes the next table has some that this one lacks, which is no fault of it.
    if starter and summary.n_texts <= MANY_VALUES:
        feature["categories"] = sorted(summary.texts - set(absent))
    return feature


def with_coordinates(summaries: Mapping[str, ColumnSummary], given: Contract, notes: list[str]) -> Contract:
    """Columns x, y and z as voxel coordinates, where no other role was given them."""
    taken = {given.id, given.group, given.label, given.time, *given.subgroup, *given.drop}
    free = {name.lower(): name for name in summaries if name not in taken}
    if given.coordinates or not {"x", "y", "z"} <= free.keys():
        return given
    axes = [free[axis] for axis in "xyz"]
    if any(summaries[axis].numbers < summaries[axis].rows for axis in axes):
        return given
    notes.append(f"guessed role coordinates: {', '.join(axes)}")
    return given.with_roles(coordinates=axes)


def names_rows(column: str) -> bool:
    """Whether a column is called as ids are."""
    words = words_of(column)
    if not words:
        return False
    numbered = words[0] in WHOSE and words[-1] in NUMBERED
    return words[-1] in KEYS or numbered or (words[0] in NUMBER_OF and words[-1] in FILES)


def names_people(column: str) -> bool:
    """Whether a column is called as what several rows of one patient share."""
    words = words_of(column)
    if len(words) == 1:
        return words[0] in PEOPLE | GROUPS
    return bool(words) and words[0] in PEOPLE and words[-1] in NUMBERED | KEYS


def names_somebody(column: str) -> bool:
    """Whether a column is called as what tells rows or patients apart, which no model is to learn."""
    return names_rows(column) or names_people(column)


def names_a_place(column: str) -> bool:
    """Whether a column is called as beds, rooms and wards are, which one patient leaves to the next."""
    return bool(PLACES & {*words_of(column)})


def names_a_date(column: str) -> bool:
    """Whether a column is called as dates are."""
    words = words_of(column)
    return bool(words) and DATED.fullmatch(words[-1]) is not None


def words_of(column: str) -> list[str]:
    """The words of a column's name, in small letters."""
    return [word.lower() for word in WORDS.findall(column)]


def texts_of(source: Source, name: str) -> Iterator[np.ndarray]:
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
    names = [name.strip() for words in texts_of(source, given.group) for name in words.tolist()]
    sizes = sizes_of_stems(names)
    if not sizes:
        return given
    notes.append(
        f"column '{given.group}': the patient is taken to be the stem of a row's name, without its running "
        f"end ({len(sizes):,} patients; group_stem in a contract)"
    )
    return given.with_roles(group_stem=True)
