"""Types and roles of columns where no contract states them; every guess is stated."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from screening.cohort.categories import CODE, MANY_VALUES
from screening.cohort.column_names import INDEX_NAME, is_called
from screening.cohort.ids import sizes_of_stems
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
# A column called like an id whose values stand in so many rows each is a code, such as admission_type_id.
ROWS_OF_CODE = 20
# So many texts of letters and digits (V57, E909) beside numbers make codes of the numbers too.
FEWEST_CODES = 3


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
    if summaries and not any(summary.rows for summary in summaries.values()):
        raise CohortError("the cohort has no data rows, only column names; was the export empty?")
    notes: list[str] = []
    given = with_stems(source, given, notes)
    # A group's rows with x, y, z are voxels of one patient: where they lie is no feature of them.
    roles = with_coordinates(summaries, given, notes) if given.group else given
    used = {roles.id, roles.group, roles.label, roles.time, *roles.coordinates, *roles.drop, *roles.display}
    features: dict[str, dict[str, Any]] = {}
    dropped, kinds = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name, summary in summaries.items():
        if name in used:
            continue
        codes = _mostly_codes(name, summary)
        if reason := _useless(name, summary, starter, codes):
            dropped[reason].append(name)
            continue
        features[name] = feature = _feature(summary, starter, codes)
        kinds[feature["type"]].append(name)
        if feature["missing"] in ("indicator", "category"):
            kinds[f"extra column for missing (over {INDICATOR_SHARE:.0%})"].append(name)
        notes += [f"column '{name}'{words}" for words in _remarks(summary, feature, starter)]
    notes += [f"inferred {kind}: {_listed(names)}" for kind, names in kinds.items()]
    notes += [f"dropped, {reason}: {_listed(names)}" for reason, names in dropped.items()]
    if not features:
        raise CohortError("; ".join(["no column is left as a feature", *notes[-5:]]))
    left_out = [*roles.drop, *itertools.chain(*dropped.values())]
    stated = roles.to_dict()["cohort"] | {"drop": left_out}
    return Contract.from_dict({"cohort": stated, "features": features}), notes


def _remarks(summary: ColumnSummary, feature: Mapping[str, object], starter: bool) -> Iterator[str]:
    """What a person is to look at in a feature, behind its name."""
    if feature.get("missing_values") and (summary.odd_texts or summary.missing_codes):
        what = "texts that are no numbers" if summary.odd_texts else "texts such as NA"
        yield f": {what} were listed in missing_values; review"
    if feature["type"] == "number" and summary.far_codes:
        done = "was listed in missing_values; review" if starter else "is read as a value; is it one?"
        yield f": a number like -99, repeated and far from all others, {done}"
    if feature["type"] == "number" and summary.stray:
        yield ": a number lies far from all others; look at it, or set `plausible` in a contract"
    if feature["missing"] == "no":
        yield " is ticked or blank; a blank is read as no"
    if feature.get("censored"):
        yield ": censored values are read as their limit; review"
    if summary.missing_codes and feature["type"] == "category" and not starter:
        yield " holds a text such as NA; it is read as a category, not as missing"


def _listed(names: list[str]) -> str:
    # One more name takes no more room than to say so.
    return first_of(names, MOST_NAMES if len(names) > MOST_NAMES + 1 else len(names))


def _refuse_mixed(source: Source, given: Contract) -> None:
    roles = (given.id, given.group, given.label, given.time, *given.subgroup, *given.coordinates, *given.drop)
    first = source.files[0]
    faults = []
    for file in source.files:
        faults += [
            f"{file.name}: missing column '{name}'"
            f"{did_you_mean(name, file.header) or '; correct the name given for it'}"
            for name in dict.fromkeys(filter(None, roles))
            if name not in file.header
        ]
        missing, more = {*first.header} - {*file.header}, {*file.header} - {*first.header}
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
    left_out = {"", given.label, *given.drop}
    summaries = {name: ColumnSummary() for name in source.files[0].header if name not in left_out}
    for file in source.files:
        for block in file.blocks([*summaries], BATCH_ROWS):
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
        if summary.whole and distinct > 20 and (is_called(name, "row", "patient") or summary.low >= EXACT):
            return LIKE_AN_ID
        if is_called(name, "date") and summary.low >= 1 and LATEST_DAY[0] <= summary.high <= LATEST_DAY[1]:
            return "dates as numbers of days (format the cells as dates and save the table again)"
        if (
            counting
            and summary.present == summary.rows > FEW
            and summary.high - summary.low == summary.rows - 1
        ):
            return "a row index"
        return "numbers and many other texts" if starter and len(summary.odd_texts) > MOST_ODD else None
    if distinct > 20 and is_called(name, "row", "patient"):
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
    if summary.unreadable or summary.dates or summary.censored or is_called(name, "patient"):
        return False
    few = not summary.many_texts and 2 < summary.n_texts <= summary.present / ROWS_OF_CODE
    lettered = [text for text in summary.odd_texts if CODE.fullmatch(text) and text[0].isalpha()]
    if len(lettered) >= FEWEST_CODES and len(lettered) > len(summary.odd_texts) / 2:
        seldom_twice = summary.n_texts > summary.present / 2
        return (few or not is_called(name, "row")) and not seldom_twice and not _measured(summary.odd_texts)
    return few and summary.whole and is_called(name, "row", "code")


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
