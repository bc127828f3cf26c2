"""Types and roles of columns where no contract states them; every guess is stated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from screening.cohort.guessing import BATCH_ROWS, guessed_roles, names_a_date, names_somebody, with_stems
from screening.cohort.identity import PLACE_NAMES
from screening.cohort.summary import ColumnSummary
from screening.contract.contract import Contract
from screening.documents.tables import table, word
from screening.errors import CohortError
from screening.sources.number_formats import truths
from screening.sources.source_files import Source
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


def inferred(source: Source, given: Contract, starter: bool = False) -> tuple[Contract, list[str]]:
    """Complete `given` (roles only) with features inferred from the whole table.

    Parameters
    ----------
    starter : bool
        Also guess roles, list categories and ranges, and declare the missing-value codes that occur.

    Returns
    -------
    contract : Contract
    notes : list of str
        What was inferred, by column name; no values.

    Raises
    ------
    CohortError
        Columns of a role are absent, files have different columns, or no feature is left.
    """
    _refuse_mixed(source, given)
    summaries = _summaries(source, given)
    rows = max((summary.rows for summary in summaries.values()), default=0)
    if summaries and not rows:
        raise CohortError("the cohort has no data rows, only column names; was the export empty?")
    notes: list[str] = []
    given = with_stems(source, given, notes)
    # A group's rows with x, y, z are voxels of one patient: where they lie is no feature of them.
    voxels = starter or bool(given.group)
    roles = _coordinates(summaries, given, notes) if voxels else given
    roles = guessed_roles(source, summaries, roles, notes) if starter else roles
    used = {roles.id, roles.group, roles.label, roles.time, *roles.coordinates, *roles.drop}
    used.update(roles.display)
    features: dict[str, dict[str, object]] = {}
    dropped: dict[str, list[str]] = {}
    kinds: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        if name in used:
            continue
        reason = _useless(name, summary, starter)
        if reason:
            dropped.setdefault(reason, []).append(name)
            continue
        feature = _feature(summary, starter)
        features[name] = feature
        kinds.setdefault(word(feature, "type"), []).append(name)
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
    content["cohort"] = table(content, "cohort") | {"drop": left_out}
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
        absent = [name for name in dict.fromkeys([*named, *given.drop]) if name and name not in file.header]
        faults += [
            f"{file.name}: missing column '{name}'"
            f"{did_you_mean(name, file.header) or '; correct the name given for it'}"
            for name in absent
        ]
        missing = [name for name in first.header if name not in file.header]
        more = [name for name in file.header if name not in first.header]
        if missing or more:
            faults.append(
                f"{file.name}: other columns than {first.name} ({len(missing)} missing, {len(more)} more); "
                "read tables of one kind together, or name the features in a contract"
            )
    if faults:
        raise CohortError(faults)


def _summaries(source: Source, given: Contract) -> dict[str, ColumnSummary]:
    columns = [
        name for name in source.files[0].header if name and name not in given.drop and name != given.label
    ]
    summaries = {name: ColumnSummary() for name in columns}
    for file in source.files:
        for block in file.blocks(columns, BATCH_ROWS):
            for name, summary in summaries.items():
                summary.add(block.columns[name], file.decimal(name))
    return summaries


def _useless(name: str, summary: ColumnSummary, starter: bool) -> str | None:
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
    distinct = len(summary.texts)
    numeric = _mostly_numbers(summary)
    if numeric:
        counting = summary.whole and distinct > min(0.9 * summary.present, 900) and summary.present > 1
        if counting and INDEX_NAME.fullmatch(name):
            return "a row index"
        if summary.whole and distinct > 20 and (names_somebody(name) or summary.low >= EXACT):
            return LIKE_AN_ID
        if names_a_date(name) and summary.low >= 1 and LATEST_DAY[0] <= summary.high <= LATEST_DAY[1]:
            return "dates as numbers of days (format the cells as dates and save the table again)"
        if counting and summary.present == summary.rows > FEW and _without_gaps(summary):
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


def _without_gaps(summary: ColumnSummary) -> bool:
    return summary.high - summary.low == summary.rows - 1


def _mostly_numbers(summary: ColumnSummary) -> bool:
    """Numbers, but for missing codes, censored values and a few that cannot be read."""
    if summary.native:
        return True
    meant = summary.numbers + summary.censored + summary.misprinted
    if not meant or summary.zero_led:
        return False
    share = meant / (meant + summary.odd)
    return share >= 0.9 or (share >= 0.5 and len(summary.texts) > 30)


def _feature(summary: ColumnSummary, starter: bool) -> dict[str, object]:
    coded = summary.coded_share if starter and _mostly_numbers(summary) else 0.0
    often_missing = summary.missing_share + coded > INDICATOR_SHARE
    feature: dict[str, object] = {"missing": "indicator" if often_missing else "impute"}
    if summary.ticked:
        return {"type": "boolean", "missing": "no"}
    codes = sorted(summary.missing_codes)
    # Without a review, 0 and 1 stay numbers: a later 2 must not stop a night's run.
    reviewed_flag = starter and summary.texts <= {"0", "1"}
    if summary.boolean_words and (not _mostly_numbers(summary) or reviewed_flag) and not summary.constant:
        return {"type": "boolean", **feature}
    if _mostly_numbers(summary):
        feature["type"] = "number"
        if starter:
            usual = summary.percentiles(1, 99)
            feature.update({"usual": usual} if usual else {})
            not_known = sorted({*codes, *summary.odd_texts, *(f"{code:g}" for code in summary.far_codes)})
            feature.update({"missing_values": not_known} if not_known else {})
            feature.update({"censored": "limit"} if summary.censored else {})
        return feature
    codes = [text for text in codes if text.lower() in NO_ANSWER and summary.texts != {text}]
    if starter and codes:
        feature["missing_values"] = codes
        if truths(text.lower() for text in summary.texts - set(codes)):
            return {"type": "boolean", **feature}
    feature.update(type="category", missing="category" if often_missing else "impute")
    if starter:
        feature["categories"] = sorted(summary.texts - set(codes))
    return feature


def _coordinates(summaries: dict[str, ColumnSummary], given: Contract, notes: list[str]) -> Contract:
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
