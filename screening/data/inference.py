"""What a table's columns are where no contract says so: one reading, then roles and types, all stated."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Contract
from screening.contract.violations import NO_ROWS, refuse_absent
from screening.data.dependence import FEW_VALUES, MOST_ROWS, dependence, head_columns
from screening.data.encoding import CODE, MANY_VALUES
from screening.data.ids import sizes_of_stems
from screening.data.labels import FEWEST_OF_LABEL, affected, affirming
from screening.data.summary import (
    INDEX_NAME,
    LABELS,
    MOST_TEXTS,
    YES_NO,
    ColumnSummary,
    is_called,
)
from screening.errors import CohortError, UsageError
from screening.io.arrow_types import to_texts
from screening.io.number_formats import is_yes_no
from screening.io.readers import Block, Part, Source
from screening.spelling import first_of

INDICATOR_SHARE = 0.05
# As many rows may have whole values without a gap by chance: the ages of a ward.
FEW = 50
# From here on neighbouring whole numbers are one float: nobody measures so finely, but systems number so.
EXACT = 2.0**53
# Numbers of days as spreadsheets count them from 1900: the latest of a column is in 1954 to 2064.
LATEST_DAY = (20_000, 60_000)
# So many names a note tells.
MOST_NAMES = 20
# Codes that are no category either; "none" or "unknown" may be an answer.
NO_ANSWER = frozenset(
    (
        "na",
        "n/a",
        "n.a.",
        "#n/a",
        "nan",
        "null",
        "n.d.",
        "nd",
        "k.a.",
        ".",
        "?",
        "-",
        "--",
    )
)
# 45 %, 12.5mg/l, <0,5 g: a number, and what it is counted in.
MEASURED = re.compile(
    r"[<>≤≥]?\s*[+-]?\d+([.,]\d+)?\s*(?P<unit>%|[^\W\d]{1,6}(/[^\W\d]{1,6})?)"
)
# More texts than this beside numbers are no way to say "missing".
MOST_ODD = 50
BATCH_ROWS = 65536
# A column called like an id whose values stand in so many rows each is a code, such as admission_type_id.
ROWS_OF_CODE = 20
# So many texts of letters and digits (V57, E909) beside numbers make codes of the numbers too.
FEWEST_CODES = 3
MOST_CLASSES = 20
# Of two values the rarer stands in so few of the rows where the column may be an outcome.
RARE = 0.3
Ask = Callable[[str, str | None, Sequence[str], Sequence[str] | None], str | None]
"""Asks for a role, with a guess and other likely answers; of columns, of some texts, or any number."""


@dataclass(frozen=True)
class TableSummary:
    """A table read once."""

    columns: Mapping[str, ColumnSummary]  # of those that are not dropped
    keys: Mapping[
        str, pa.Array
    ]  # texts of those that are called as rows or patients are, "" where blank
    head: Sequence[
        tuple[Part, Block]
    ]  # the first blocks, whose rows show what they have in common


def summarise(source: Source, given: Contract) -> TableSummary:
    """Read a table once; CohortError where files or roles misfit, or there is no row."""
    first, *others = source.files
    refuse_absent(source, [*given.columns(), *filter(None, [given.label]), *given.drop])
    unlike = [
        f"{file.name}: other columns than {first.name}; read tables of one kind, or name the features"
        for file in others
        if {*file.header} != {*first.header}
    ]
    if unlike:
        raise CohortError(unlike)
    columns = {
        name: ColumnSummary()
        for name in first.header
        if name and name not in given.drop
    }
    keys: dict[str, list[pa.Array]] = {
        name: []
        for name in columns
        if name == given.group or is_called(name, "row", "patient")
    }
    head: list[tuple[Part, Block]] = []
    n_rows = 0
    for file in source.files:
        for block in file.blocks(
            [*dict.fromkeys([*head_columns(source), *columns])], BATCH_ROWS
        ):
            if n_rows < MOST_ROWS:
                head.append((file, block))
            n_rows += block.n_rows
            for name, summary in columns.items():
                summary.add(block.columns[name], file.decimal(name))
            for name, parts in keys.items():
                cells = to_texts(block.columns[name])
                parts.append(
                    pa.array([], pa.string())
                    if cells is None
                    else pc.fill_null(cells, "")
                )
    if columns and not n_rows:
        raise CohortError(NO_ROWS)
    return TableSummary(
        columns, {name: pa.concat_arrays(parts) for name, parts in keys.items()}, head
    )


def proposed(
    source: Source, given: Contract, ask: Ask | None = None, independent: bool = False
) -> tuple[Contract, list[str]]:
    """A contract in which roles that were not given are guessed; `ask` may correct every guess."""
    table, notes = summarise(source, given), list[str]()
    placed = given.with_roles(coordinates=_coordinates(table, given))
    roles = _with_stems(
        table, placed.with_roles(**_guessed(table, placed, independent)), notes
    )
    signs = [] if independent else dependence(source, roles, table.head)
    column, kind = next(
        ((sign.column, sign.kind) for sign in signs if sign.column), (None, "")
    )
    if column and not roles.group:
        roles = roles.with_roles(
            group=column,
            fill_down=[column] if kind == "first_row_only" else None,
            group_stem=kind == "stem",
            id=roles.id or (column if kind == "stem" else None),
        )
    if ask:
        roles = _asked(table, placed, roles, ask)
    if (
        (time := table.columns.get(roles.time or ""))
        and time.day_or_month_first
        and time.date_orders
    ):
        roles = roles.with_roles(date_order=roles.date_order or min(time.date_orders))
    notes += _remarks_on_roles(table, given, roles)
    contract, others = with_features(table, roles)
    observed = [
        sign.seen if sign.column else f"{sign.seen} {sign.remedy}" for sign in signs
    ]
    return contract, [*notes, *observed, *others]


def _asked(
    table: TableSummary, given: Contract, guessed: Contract, ask: Ask
) -> Contract:
    """The roles as a person wants them, who sees the guesses."""
    columns = list(table.columns)
    roles: dict[str, Any] = {}
    label = given.label or ask("label", guessed.label, outcomes(table, given), columns)
    values = (
        [text for text, _ in table.columns[label].counts.most_common()] if label else []
    )
    if label and values and not given.positive:
        roles["positive"] = ask(
            "positive", case_of(label, table.columns[label].counts), values, values
        )
    for role in ("group", "id", "time"):
        roles[role] = getattr(given, role) or ask(
            role, getattr(guessed, role), [], columns
        )
    if roles["group"] == guessed.group:
        roles |= {"group_stem": guessed.group_stem, "fill_down": guessed.fill_down}
    capacity = given.capacity or ask("capacity", None, [], None)
    return given.with_roles(
        label=label, capacity=int(capacity) if capacity else None, **roles
    )


def outcomes(table: TableSummary, given: Contract, named: bool = False) -> list[str]:
    """Columns that may be the outcome, the likeliest first; `named`: only where a word of it says so."""
    ranks: dict[str, tuple[int, int]] = {}
    for position, (name, summary) in enumerate(table.columns.items()):
        rare = 0 < min(summary.counts.values(), default=0) <= RARE * summary.present
        called, two = name.lower() in LABELS, summary.n_texts == 2 or summary.ticked
        if name in _taken(given) - {given.label} or summary.unreadable:
            continue
        signs = (
            called and two,
            two and is_called(name, "outcome"),
            # A class of several values may be that of a cabin, beside one who survived or did not.
            called and 2 < summary.n_texts <= MOST_CLASSES,
            two and bool(YES_NO.fullmatch(name)),
            summary.n_texts == 2 and rare,
            summary.n_texts == 2,
            called,  # and a number: somebody has to make classes of it
        )
        if any(signs):
            rank = signs.index(True)
            # Outcomes stand at the end more often than at the beginning.
            within = (
                LABELS.index(name.lower())
                if rank in (0, 2)
                else -position
                if rank == 5
                else position
            )
            ranks[name] = rank, within
    return sorted(
        (name for name in ranks if not named or ranks[name][0] < 3),
        key=ranks.__getitem__,
    )


def case_of(label: str, counts: Mapping[str, int]) -> str | None:
    """Which of an outcome's two values is the case; None where none or several are, or a slip may be one."""
    if len(counts) != 2 or min(counts.values()) < FEWEST_OF_LABEL:
        return None
    try:
        case = affected(counts)
    except UsageError:
        return None
    turned = is_called(label, "well") and case == affirming([*counts])
    return next(text for text in counts if (text == case) != turned)


def _guessed(table: TableSummary, given: Contract, independent: bool) -> dict[str, Any]:
    columns = table.columns
    # Voxels may well be of two patients.
    fewest = 1 if given.coordinates else FEW_VALUES
    label = given.label or next(iter(outcomes(table, given, named=True)), None)
    roles: dict[str, Any] = {"label": label}
    if label and not given.positive and (case := case_of(label, columns[label].counts)):
        roles["positive"] = [case]
    for name, keys in table.keys.items():
        summary = columns[name]
        if name in _taken(given) | {label} or summary.present < summary.rows:
            continue
        if 0 < len(keys) == len(pc.unique(keys)):
            roles.setdefault("id", given.id or name)
        elif (
            is_called(name, "patient") and summary.n_texts >= fewest and not independent
        ):
            roles.setdefault("group", given.group or name)
    if given.time:
        return roles
    taken = _taken(given) | {label, roles.get("id"), roles.get("group")}
    dated = [
        name
        for name, column in columns.items()
        if name not in taken and column.date_orders and 0 < column.rows == column.dates
    ]
    # The only one whose last word says so.
    ending = [
        name
        for name in dated
        if is_called(name, "time") and not is_called(name, "other time")
    ]
    roles["time"] = ending[0] if len(ending) == 1 else None
    return roles


def _remarks_on_roles(
    table: TableSummary, given: Contract, roles: Contract
) -> list[str]:
    notes = []
    label = table.columns.get(roles.label or "")
    for role in (
        "label",
        "positive",
        "id",
        "group",
        "fill_down",
        "time",
        "coordinates",
    ):
        if getattr(given, role) or not (value := getattr(roles, role)):
            continue
        note = f"guessed role {role}: {value if isinstance(value, str) else ', '.join(value)}"
        if role == "positive" and label and len(value) == 1 and len(label.counts) == 2:
            (other,) = {*label.counts} - {*value}
            share = label.counts[value[0]] / label.counts.total()
            note += f", {share:.0%} of rows (if the others are the cases, give --positive {other})"
        notes.append(note)
    others = [
        name
        for name in outcomes(table, roles, bool(roles.label))
        if name != roles.label
    ]
    if not roles.label:
        candidates = f"; it may be {first_of(others, MOST_NAMES)}" if others else ""
        notes.append(
            f"no outcome recognised: set `label` to its column, or give --label{candidates}"
        )
    elif others:
        names = first_of(others, MOST_NAMES)
        notes.append(
            f"read as features, though they may be outcomes too: {names}; drop what is known later"
        )
    if not roles.id:
        notes.append(
            "no column names the rows: their numbers are their ids; set `id` if there is one"
        )
    if roles.time and table.columns[roles.time].day_or_month_first:
        leads = "day" if roles.date_order == "dmy" else "month"
        doubt = (
            "; review date_order"
            if len(table.columns[roles.time].date_orders) > 1
            else ""
        )
        notes.append(
            f"column '{roles.time}': dates are read with the {leads} first{doubt}"
        )
    if label and not given.label and label.present < label.rows:
        notes.append(
            f"column '{roles.label}': some rows have no label; fill them or leave them out"
        )
    return notes


def _taken(given: Contract) -> set[str | None]:
    """Columns that have a role, and are no features for that."""
    roles = (given.id, given.group, given.label, given.time)
    return {*roles, *given.coordinates, *given.drop, *given.display}


def _coordinates(table: TableSummary, given: Contract) -> list[str]:
    """Columns x, y and z of voxels, where no other role was given them."""
    taken = _taken(given) | {*given.subgroup}
    free = {name.lower(): name for name in table.columns if name not in taken}
    if given.coordinates or not {"x", "y", "z"} <= free.keys():
        return given.coordinates
    axes = [free[axis] for axis in "xyz"]
    return axes if all(table.columns[axis].on_grid for axis in axes) else []


def _with_stems(table: TableSummary, given: Contract, notes: list[str]) -> Contract:
    """The contract with `group_stem` where its group names each row by a stem and a running end."""
    if not given.group or given.group_stem or given.coordinates or given.fill_down:
        return given
    sizes = sizes_of_stems(pc.utf8_trim_whitespace(table.keys[given.group]).to_pylist())
    if not sizes:
        return given
    stem = f"the patient is the stem of a row's name, without its running end ({len(sizes):,} patients)"
    notes.append(f"column '{given.group}': {stem}")
    return given.with_roles(group_stem=True)


def completed(source: Source, given: Contract) -> tuple[Contract, list[str]]:
    """The contract with its features, which are inferred where it names none, and what was inferred."""
    return (
        (given, [])
        if given.features
        else with_features(summarise(source, given), given)
    )


def with_features(table: TableSummary, given: Contract) -> tuple[Contract, list[str]]:
    """The roles given with every other column as a feature or dropped, and what was inferred of them."""
    notes: list[str] = []
    given = _with_stems(table, given, notes)
    # A group's rows with x, y, z are voxels of one patient: where they lie is no feature of them.
    roles = (
        given.with_roles(coordinates=_coordinates(table, given))
        if given.group
        else given
    )
    if roles.coordinates != given.coordinates:
        notes.append(f"guessed role coordinates: {', '.join(roles.coordinates)}")
    taken = _taken(roles)
    features: dict[str, dict[str, Any]] = {}
    dropped, kinds, remarks = (defaultdict[str, list[str]](list) for _ in range(3))
    for name, summary in table.columns.items():
        if name in taken:
            continue
        codes = _mostly_codes(name, summary)
        if reason := _useless(name, summary, codes):
            dropped[reason].append(name)
            continue
        features[name] = feature = _feature(summary, codes)
        kinds[feature["type"]].append(name)
        if feature["missing"] in ("indicator", "category"):
            kinds[f"extra column for missing (over {INDICATOR_SHARE:.0%})"].append(name)
        for remark in _remarks(summary, feature):
            remarks[remark].append(name)
    for remark, names in remarks.items():
        quoted = [f"'{name}'" for name in names]
        notes.append(
            f"column{'s' * (len(names) > 1)} {first_of(quoted, MOST_NAMES)}: {remark}"
        )
    notes += [
        f"inferred {kind}: {first_of(names, MOST_NAMES)}"
        for kind, names in kinds.items()
    ]
    notes += [
        f"dropped, {reason}: {first_of(names, MOST_NAMES)}"
        for reason, names in dropped.items()
    ]
    if not features:
        raise CohortError("; ".join(["no column is left as a feature", *notes[-5:]]))
    left_out = [*roles.drop, *(name for names in dropped.values() for name in names)]
    stated = roles.to_dict()["cohort"] | {"drop": left_out}
    return Contract.from_dict({"cohort": stated, "features": features}), notes


def _remarks(summary: ColumnSummary, feature: Mapping[str, object]) -> Iterator[str]:
    """What a person is to look at in a feature."""
    if feature.get("missing_values") and (summary.odd_texts or summary.missing_codes):
        yield "texts that are no numbers, or such as NA, were listed in missing_values; review"
    if feature["type"] == "number" and summary.far_codes:
        yield "a number like -99, repeated and far from all others, was listed in missing_values; review"
    if feature["missing"] == "no":
        yield "ticked or blank; a blank is read as no"
    if feature.get("censored"):
        yield "censored values are read as their limit; review"


def _useless(name: str, summary: ColumnSummary, codes: bool) -> str | None:
    if summary.unreadable:
        return "nested, binary, or times of day or durations (write them as numbers, such as hours)"
    if not summary.present:
        return "no values"
    if summary.dates > summary.present / 2:
        return (
            "dates (make an age or duration of them, or name one as time in a contract)"
        )
    if summary.constant and summary.present == summary.rows:
        return "one value only"
    if codes:
        return None
    distinct, numbers = summary.n_texts, _mostly_numbers(summary)
    if numbers and summary.whole:
        counting = distinct > min(0.9 * summary.present, 900) and summary.present > 1
        gapless = (
            summary.high - summary.low == summary.rows - 1
            and summary.present == summary.rows > FEW
        )
        if counting and (gapless or INDEX_NAME.fullmatch(name)):
            return "a row index"
    if (
        numbers
        and is_called(name, "date")
        and LATEST_DAY[0] <= summary.high <= LATEST_DAY[1]
    ):
        return "dates as numbers of days (format the cells as dates and save the table again)"
    unlike = summary.whole or not numbers
    if (
        distinct > 20
        and unlike
        and (is_called(name, "row", "patient") or (numbers and summary.low >= EXACT))
    ):
        return "looks like an id (name it with --id or --group)"
    if numbers:
        return (
            "numbers and many other texts"
            if len(summary.odd_texts) > MOST_ODD
            else None
        )
    if distinct > 10 and _measured(summary.texts):
        return "numbers with a unit or % in every cell (export bare numbers)"
    if distinct > MOST_TEXTS or (distinct > 10 and distinct > 0.5 * summary.present):
        return "id or free text (nearly every row differs)"
    return None


def _measured(texts: Iterable[str]) -> bool:
    """Whether nearly all are numbers in one or a few units."""
    matches = [MEASURED.fullmatch(text) for text in texts]
    units = Counter(match["unit"] for match in matches if match)
    return sum(count for _, count in units.most_common(3)) >= 0.9 * len(matches)


def _mostly_codes(name: str, summary: ColumnSummary) -> bool:
    """Codes, whose digits are no quantity: by letters before some of them, or by the column's name."""
    if (
        summary.unreadable
        or summary.dates
        or summary.faults["censored"]
        or is_called(name, "patient")
    ):
        return False
    few = 2 < summary.n_texts <= min(summary.present / ROWS_OF_CODE, MOST_TEXTS)
    lettered = [
        text for text in summary.odd_texts if CODE.fullmatch(text) and text[0].isalpha()
    ]
    if len(lettered) >= FEWEST_CODES and len(lettered) > len(summary.odd_texts) / 2:
        seldom_twice = summary.n_texts > summary.present / 2
        return (
            (few or not is_called(name, "row"))
            and not seldom_twice
            and not _measured(summary.odd_texts)
        )
    return few and summary.whole and is_called(name, "row", "code")


def _mostly_numbers(summary: ColumnSummary) -> bool:
    """Numbers, but for missing codes, censored values and a few that cannot be read."""
    numbers = (
        summary.numbers + summary.faults["censored"] + summary.faults["decimal_mark"]
    )
    if summary.native or not numbers or summary.zero_led:
        return summary.native
    share = numbers / (numbers + summary.odd)
    return share >= 0.9 or (share >= 0.5 and summary.n_texts > 30)


def _feature(summary: ColumnSummary, codes: bool) -> dict[str, Any]:
    if summary.ticked:
        return {"type": "boolean", "missing": "no"}
    numeric = not codes and _mostly_numbers(summary)
    often_missing = summary.missing_share(coded=numeric) > INDICATOR_SHARE
    feature: dict[str, object] = {"missing": "indicator" if often_missing else "impute"}
    flag = not numeric or (summary.n_texts <= 2 and summary.texts <= {"0", "1"})
    words = summary.native_boolean or is_yes_no(text.lower() for text in summary.texts)
    if words and flag and not summary.constant:
        return {"type": "boolean", **feature}
    if numeric:
        absent = {
            *summary.missing_codes,
            *summary.odd_texts,
            *(f"{code:g}" for code in summary.far_codes),
        }
        stated = {
            "seen": summary.usual_range(),
            "missing_values": sorted(absent),
            "censored": "limit" if summary.faults["censored"] else None,
        }
        return (
            feature
            | {"type": "number"}
            | {key: value for key, value in stated.items() if value}
        )
    unanswered = {
        text
        for text in summary.missing_codes
        if text.lower() in NO_ANSWER and summary.n_texts > 1
    }
    if unanswered:
        feature["missing_values"] = sorted(unanswered)
        if is_yes_no(text.lower() for text in summary.texts - unanswered):
            return {"type": "boolean", **feature}
    feature.update(type="category", missing="category" if often_missing else "impute")
    # Of many codes the next table has some that this one lacks, which is no fault of it.
    if summary.n_texts <= MANY_VALUES:
        feature["categories"] = sorted(summary.texts - unanswered)
    return feature
