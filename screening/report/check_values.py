"""The list "Check these values": cells and image channels that no patient can have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from screening.report import format as fmt
from screening.schemas.run import (
    AlikeRow,
    ChannelFault,
    CheckValues,
    OddValue,
    RunDocument,
)

FINDINGS = {
    "unreadable": "a text that is not a number",
    "missing": "no value",
}
TREATMENTS = {
    "scored_without": "scored without it",
    "scored_with": "scored as it is",
    "left_out": "not scored",
    "not_taken": "this row was not used",
}
SCORED = ("scored_without", "scored_with")
FAULT_WORDS: Mapping[ChannelFault, str] = {
    "missing": "no voxel has a value",
    "out of bounds": "every voxel is out of bounds",
    "one value": "every voxel has the same value",
}


@dataclass(frozen=True)
class OddLine:
    """A line of the list.

    Parameters
    ----------
    place : sequence of str
        Columns that the contract displays, such as ward and bed.
    id, column : str
    finding : str
        The value with its unit, or what is wrong with a channel.
    remark : str
        The bounds, or the number of voxels.
    flagged : bool or None
        None for a channel of an image, and for a row without a score.
    """

    place: Sequence[str]
    id: str
    column: str
    finding: str
    remark: str
    flagged: bool | None = None


def check_section(run: RunDocument) -> dict[str, object] | None:
    """Return the lines of the list, and how many rows it leaves out; None for none."""
    odd = run.check_values
    if odd is None:
        return None
    lines = [
        *_lines_of_values(run, odd),
        *_lines_of_channels(run, odd),
        *_lines_of_alike(odd),
    ]
    scored = [value for value in odd.values if value.treatment in SCORED]
    n_rows_listed = len({value.row for value in scored})
    n_patients_listed = len({channel.group for channel in odd.channels})
    n_more = odd.rows + odd.doubtful - n_rows_listed + odd.patients - n_patients_listed
    n_more += odd.left_out + odd.not_taken - (len(odd.values) - len(scored))
    # Of rows erased since, the counts are unchanged.
    return {
        "lines": lines,
        "n_more": 0 if run.erased else n_more,
        "has_values": bool(odd.values or odd.channels),
    }


def _lines_of_values(run: RunDocument, odd: CheckValues) -> Iterator[OddLine]:
    units = {feature.name: feature.unit for feature in run.model.training.features}
    for value in odd.values:
        texts = (value.display or {}).values()
        finding = FINDINGS.get(value.fault, "")
        remark = TREATMENTS[value.treatment]
        if value.value is not None:
            unit = fmt.unit(units.get(value.column))
            finding = f"{fmt.number(value.value)} {unit}"
            limits = fmt.value_range((value.low, value.high))
            if value.reading is None:
                remark = f"bounds {limits}; {remark}"
            else:
                remark = f"{_reading_words(value)}; training {limits}; {remark}"
        yield OddLine(
            place=[fmt.name(text) for text in texts],
            id=_id_words(value),
            column=fmt.name(run.model.title_of(value.column)),
            finding=finding.strip(),
            remark=remark,
            flagged=value.flagged if value.treatment in SCORED else None,
        )


def _reading_words(value: OddValue) -> str:
    """Return what the value is in the unit of training if it is in another."""
    number = fmt.number(value.reading)
    if value.reading_unit is None:
        return f"{number} if a digit is missing"
    unit = fmt.unit(value.training_unit)
    return f"{number} {unit} if it is in {fmt.unit(value.reading_unit)}"


def _id_words(row: OddValue | AlikeRow) -> str:
    """Return the id of a row, after that of its patient if rows are grouped."""
    names = [row.id] if row.group is None else [row.group, row.id]
    return ", ".join(map(fmt.name, names))


def _lines_of_alike(odd: CheckValues) -> Iterator[OddLine]:
    for row in odd.alike:
        yield OddLine(
            place=[],
            id=_id_words(row),
            column=f"row {row.row}",
            finding="possibly one patient",
            remark=f"agrees with row {row.other} in everything but the number",
            flagged=row.flagged,
        )


def _lines_of_channels(run: RunDocument, odd: CheckValues) -> Iterator[OddLine]:
    for channel in odd.channels:
        yield OddLine(
            place=[],
            id=fmt.name(channel.group),
            column=fmt.name(run.model.title_of(channel.column)),
            finding=FAULT_WORDS[channel.fault],
            remark=fmt.plural(channel.voxels, "voxel"),
        )
