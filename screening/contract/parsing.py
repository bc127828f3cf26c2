"""Parse columns as the contract declares them.

A parsed column has its values, and for each fault the mask of the rows that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from screening.clock.conversion import NAT
from screening.clock.instants import TimeCells, times_of_counts, times_of_texts
from screening.clock.zone import Clock
from screening.contract.contract import Feature
from screening.contract.violations import OF_HOST, TIME_TWICE
from screening.io.arrow_types import is_numeric, is_text, to_floats, to_texts
from screening.io.date_formats import DateNumbers
from screening.io.number_formats import (
    FALSE,
    TRUE,
    parse_number,
    parse_plain_numbers,
    trim,
)

TRUTHS = dict.fromkeys(FALSE, 0.0) | dict.fromkeys(TRUE, 1.0)


@dataclass
class TypedColumn:
    """One column of one block, typed.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        float64 with NaN for missing, datetime64[us] with NaT, or text with None.
    faults : list of (str, ndarray)
        Kind of the fault, a key of `violations.FAULTS`, and the mask of its rows.
    """

    values: np.ndarray
    faults: list[tuple[str, np.ndarray]] = field(default_factory=list)

    def add_fault(self, kind: str, mask: np.ndarray) -> None:
        """Note the rows of a fault; nothing where the mask is all False."""
        if mask.any():
            self.faults.append((kind, mask))


def parse_feature(cells: pa.Array, feature: Feature, decimal: str) -> TypedColumn:
    """Type a feature's column: float64, or text where the feature is a category.

    Parameters
    ----------
    cells : pa.Array
        As `Block.columns` has them.
    feature : Feature
        What the contract says of the column.
    decimal : {".", ","}
        Decimal mark of numbers kept as text.
    """
    if feature.type == "number":
        column = _parse_numbers(cells, feature, decimal)
    else:
        column = _parse_by_type(cells, feature)
    if feature.missing in ("refuse", "leave_out"):
        is_accounted_for = ~pd.isna(column.values)
        for _, mask in column.faults:
            is_accounted_for = is_accounted_for | mask
        column.add_fault("missing", ~is_accounted_for)
    return column


def parse_texts(
    cells: pa.Array,
    missing_fault: str | None,
    strip: bool = False,
    distinct: bool = False,
) -> TypedColumn:
    """Type a role's column, such as the id, as text; blank cells are missing.

    Parameters
    ----------
    cells : pa.Array
    missing_fault : str or None
        Fault of a blank cell; None where cells may be blank.
    strip : bool
        Leave out spaces at the ends, and Excel's apostrophe before a number.
    distinct : bool
        Skip interning, for a column of mostly unique texts.
    """
    texts = to_texts(cells)
    if texts is None:
        return _unreadable(cells, "unreadable", None)
    stripped = trim(texts)
    is_blank = pc.fill_null(pc.equal(stripped, ""), True)
    if strip:
        texts = stripped
    kept = _with_nulls(texts, is_blank)
    if distinct:
        column = TypedColumn(kept.to_numpy(zero_copy_only=False))
    else:
        column = TypedColumn(_interned(kept))
    if missing_fault:
        column.add_fault(missing_fault, np.asarray(is_blank))
    return column


def present_texts(cells: pa.Array) -> pa.Array:
    """Return the texts without spaces at the ends, null where blank or unreadable."""
    texts = to_texts(cells)
    if texts is None:
        return pa.nulls(len(cells), pa.string())
    return _nonmissing(texts)


def are_filled(cells: pa.Array) -> np.ndarray:
    """Return a mask of the cells that are not blank, whatever their type."""
    texts = to_texts(cells)
    filled = cells if texts is None else _nonmissing(texts)
    return np.asarray(filled.is_valid())


def fill_down(cells: pa.Array, above: str | None) -> pa.Array:
    """Fill each blank by the text above it.

    `above` is the text above the first row; cells without text stay as they are.
    """
    texts = to_texts(cells)
    if texts is None:
        return cells
    texts = _with_nulls(texts, pc.equal(trim(texts), ""))
    whole = pa.concat_arrays([pa.array([above], pa.string()), texts])
    return pc.fill_null_forward(whole).slice(1)


def parse_times(
    cells: pa.Array,
    order: str | None,
    counted: DateNumbers | None,
    clock: Clock,
) -> TypedColumn:
    """Type a time column as instants, datetime64[us] in UTC; NaT is a fault.

    A time that exists twice is noted as `TIME_TWICE`, which leaves no row out.

    Parameters
    ----------
    cells : pa.Array
    order : {"dmy", "mdy"} or None
        Order of dates with the year at the end.
    counted : DateNumbers, optional
        What a date that is a number counts: days or seconds, and from when.
    clock : Clock
        Of times without a zone.
    """
    times = read_times(cells, order, counted, clock)
    if times is None:
        return _unreadable(cells, "not_time", NAT)
    column = TypedColumn(times.utc)
    column.add_fault("not_time", np.isnat(times.utc) & ~times.is_lost)
    column.add_fault("lost_hour", times.is_lost)
    column.add_fault(TIME_TWICE, times.is_twice)
    if clock.is_of_host:
        column.add_fault(OF_HOST, times.is_zoned)
    return column


def read_times(
    cells: pa.Array,
    order: str | None,
    counted: DateNumbers | None,
    clock: Clock,
) -> TimeCells | None:
    """Read the times of cells, NaT where blank; parameters as of `parse_times`.

    None for cells of a type that is not read.
    """
    texts = to_texts(cells)
    if texts is None:
        return None
    if counted:
        numbers = _parse_numbers(cells, Feature(type="number"), ".").values
        return times_of_counts(numbers, counted, clock)
    distinct, codes = _codes_of(_nonmissing(texts))
    return times_of_texts([*distinct, None], order, clock).take(codes)


def parse_coordinate(cells: pa.Array, decimal: str) -> TypedColumn:
    """Type a coordinate's column as float64; what is not a finite number is a fault."""
    column = TypedColumn(_parse_numbers(cells, Feature(type="number"), decimal).values)
    column.add_fault("no_coordinate", np.isnan(column.values))
    return column


def _unreadable(cells: pa.Array, kind: str, missing: object) -> TypedColumn:
    """Return a column in which every row is missing and at fault."""
    column = TypedColumn(np.full(len(cells), missing))
    column.add_fault(kind, np.ones(len(cells), dtype=bool))
    return column


def _nonmissing(texts: pa.Array, missing_values: Sequence[str] = ()) -> pa.Array:
    """Return stripped texts, null where blank or one of `missing_values`."""
    stripped = trim(texts)
    missing = ["", *(value.strip() for value in missing_values)]
    return _with_nulls(stripped, pc.is_in(stripped, pa.array(missing, pa.string())))


def _with_nulls(texts: pa.Array, mask: pa.Array) -> pa.Array:
    """Return the texts with null where the mask is true.

    Before Arrow 24, `if_else` with a null scalar reads past a sliced column of texts.
    """
    return pc.replace_with_mask(texts, mask, pa.scalar(None, texts.type))


def _parse_numbers(cells: pa.Array, feature: Feature, decimal: str) -> TypedColumn:
    """Parse the cells of a feature as numbers, NaN where missing or not a number."""
    if is_text(cells):
        column = _numbers_of_texts(cells, feature, decimal)
    elif is_numeric(cells):
        column = TypedColumn(to_floats(cells))
    elif pa.types.is_boolean(cells.type):
        column = TypedColumn(to_floats(cells.cast(pa.int8())))
        # As 0 and 1 they would be scored like any value of that size.
        column.add_fault("truth_for_number", np.asarray(cells.is_valid()))
    else:
        column = TypedColumn(np.full(len(cells), np.nan))
        column.add_fault("unreadable", np.asarray(cells.is_valid()))
        return column
    values = np.array(column.values, dtype=np.float64)
    values[np.isin(values, _missing_numbers(feature))] = np.nan
    is_infinite = np.isinf(values)
    column.add_fault("infinite", is_infinite)
    values[is_infinite] = np.nan
    if feature.plausible:
        low, high = feature.plausible
        column.add_fault("implausible", (values < low) | (values > high))
    column.values = values
    return column


def _numbers_of_texts(cells: pa.Array, feature: Feature, decimal: str) -> TypedColumn:
    """Return the numbers that texts write."""
    texts = _nonmissing(cells, feature.missing_values)
    values = parse_plain_numbers(texts, decimal)
    if values is not None:
        return TypedColumn(values)
    return _map_numbers(
        texts,
        lambda text: parse_number(text, decimal, feature.censored, feature.unit),
    )


def _missing_numbers(feature: Feature) -> list[float]:
    """Return the codes for missing that are numbers, such as -999.

    A code is one number in every notation, so it is compared as a number too.
    """
    codes = [parse_number(value.strip()) for value in feature.missing_values]
    return [code for code in codes if isinstance(code, float)]


def _parse_by_type(cells: pa.Array, feature: Feature) -> TypedColumn:
    """Type yes and no as 1 and 0, an ordinal as its rank, a category as text."""
    texts = to_texts(cells)
    if texts is None:
        missing = None if feature.type == "category" else np.nan
        return _unreadable(cells, "unreadable", missing)
    present = _nonmissing(texts, feature.missing_values)
    if feature.type == "ordinal":
        return _parse_ordinal(present, feature)
    if feature.type == "boolean":
        return _parse_boolean(present, feature)
    return _parse_category(present, feature)


def _parse_ordinal(texts: pa.Array, feature: Feature) -> TypedColumn:
    categories = feature.categories or ()
    codes = {text: float(code) for code, text in enumerate(categories)}
    texts = _as_listed(texts, categories)
    return _map_numbers(texts, lambda text: codes.get(text, "unknown_category"))


def _parse_boolean(texts: pa.Array, feature: Feature) -> TypedColumn:
    """Parse yes and no as 1.0 and 0.0."""
    column = _map_numbers(texts, lambda text: TRUTHS.get(text.lower(), "not_boolean"))
    # A blank cell means "no".
    if feature.missing == "no":
        column.values = np.nan_to_num(column.values)
    return column


def _parse_category(texts: pa.Array, feature: Feature) -> TypedColumn:
    """Parse the texts of a category; those that are not listed are faults."""
    if feature.categories is not None:
        texts = _as_listed(texts, feature.categories)
    column = TypedColumn(_interned(texts))
    # Fixed-width arrays of a stored encoder would lose a NUL at a text's end.
    has_nul = pc.fill_null(pc.match_substring(texts, "\0"), False)
    column.add_fault("nul", np.asarray(has_nul))
    if feature.categories is not None:
        is_listed = pc.is_in(texts, pa.array(feature.categories, texts.type))
        # The text stays: a row that is scored all the same has an unknown value.
        is_unknown = pc.and_(pc.invert(is_listed), texts.is_valid())
        column.add_fault("unknown_category", np.asarray(is_unknown))
    return column


def _as_listed(texts: pa.Array, categories: Sequence[str]) -> pa.Array:
    """Return the texts, with 2.0 as 2 where only 2 is a category.

    A program that exports whole numbers of a column with gaps writes them so.
    """
    listed = pa.array(categories, texts.type)
    is_unlisted = pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, listed)))
    if not pc.any(is_unlisted).as_py():
        return texts
    whole = pc.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    is_written_so = pc.and_(is_unlisted, pc.is_in(whole, listed))
    return pc.replace_with_mask(texts, is_written_so, whole.filter(is_written_so))


def _map_numbers(
    texts: pa.Array, number_of: Callable[[str], float | str]
) -> TypedColumn:
    """Map texts to numbers, each distinct text once; NaN where missing or at fault.

    `number_of` returns a number, or the kind of the text's fault.
    """
    distinct, codes = _codes_of(texts)
    mapped = [number_of(text) for text in distinct]
    numbers = [value if isinstance(value, float) else np.nan for value in mapped]
    column = TypedColumn(np.array([*numbers, np.nan])[codes])
    kinds = [value for value in mapped if isinstance(value, str)]
    for kind in dict.fromkeys(kinds):
        has_fault = [value == kind for value in mapped]
        column.add_fault(kind, np.array([*has_fault, False])[codes])
    return column


def _interned(texts: pa.Array) -> np.ndarray:
    """Return texts, equal ones as one object; None where missing."""
    distinct, codes = _codes_of(texts)
    return np.array([*distinct, None], dtype=object)[codes]


def _codes_of(texts: pa.Array) -> tuple[list[str], np.ndarray]:
    """Return the distinct texts, and the number of each row's text; -1 if null."""
    encoded = texts.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy()
