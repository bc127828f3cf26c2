"""From a column as it was read (text, or what Parquet holds) to typed values and a mask per fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Feature
from screening.io.arrow_types import is_numeric, is_text, to_floats, to_texts
from screening.io.columns import absent
from screening.io.number_formats import (
    FALSE,
    TRUE,
    fast_numbers,
    moment,
    parsed_number,
    trimmed,
)


@dataclass
class Typed:
    """Typed values of one column in one batch, shape (n_rows,), and the rows at fault by kind."""

    values: np.ndarray  # float64 with NaN for missing, or text with None
    faults: list[tuple[str, np.ndarray]] = field(default_factory=list)

    def fault(self, kind: str, mask: np.ndarray) -> None:
        if mask.any():
            self.faults.append((kind, mask))


def read_feature(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    typed = (
        _numbers(cells, feature, decimal)
        if feature.type == "number"
        else _words(cells, feature)
    )
    if feature.missing == "refuse":
        at_fault = [~absent(typed.values), *(mask for _, mask in typed.faults)]
        typed.fault("missing", ~np.any(at_fault, axis=0))
    return typed


def read_text(cells: pa.Array, absent: str | None, trim: bool = False) -> Typed:
    """Type a role column, such as the id; blank cells are missing, and at fault of kind `absent` if given."""
    column = to_texts(cells)
    if column is None:
        return _unreadable(cells, "unreadable", None)
    bare = trimmed(column)
    empty = pc.fill_null(pc.equal(bare, ""), True)
    typed = Typed(_mapped(_without(empty, bare if trim else column), str, "object"))
    if absent:
        typed.fault(absent, np.asarray(empty))
    return typed


def given_texts(cells: pa.Array) -> pa.Array:
    """Trimmed texts, null where they are blank, or where the column has no text."""
    column = to_texts(cells)
    return pa.nulls(len(cells), pa.string()) if column is None else _given(column)


def filled_down(cells: pa.Array, above: str | None) -> pa.Array:
    """Texts in which a blank has the text above it, the first one `above`."""
    column = to_texts(cells)
    if column is None:
        return cells
    column = _without(pc.equal(trimmed(column), ""), column)
    return pc.fill_null_forward(
        pa.concat_arrays([pa.array([above], pa.string()), column])
    ).slice(1)


def read_time(cells: pa.Array, order: str | None) -> Typed:
    """Type a time column: dates to datetime64[us], zones to UTC; `order` is that of day and month."""
    column = to_texts(cells)
    if column is None or is_numeric(cells):
        return _unreadable(cells, "not_time", np.datetime64("NaT", "us"))
    typed = Typed(
        _mapped(_given(column), lambda text: moment(text, order), "datetime64[us]")
    )
    typed.fault("not_time", np.isnat(typed.values))
    return typed


def read_coordinate(cells: pa.Array, decimal: str) -> Typed:
    """Type a coordinate column: finite numbers, none missing."""
    typed = Typed(_numbers(cells, Feature(type="number"), decimal).values)
    typed.fault("no_coordinate", np.isnan(typed.values))
    return typed


def _unreadable(cells: pa.Array, kind: str, missing: object) -> Typed:
    typed = Typed(np.full(len(cells), missing))
    typed.fault(kind, np.ones(len(cells), dtype=bool))
    return typed


def _given(column: pa.Array, missing_values: Sequence[str] = ()) -> pa.Array:
    """Trimmed texts, null where they are missing."""
    bare = trimmed(column)
    missing = pa.array(["", *(text.strip() for text in missing_values)], bare.type)
    return _without(pc.is_in(bare, missing), bare)


def _without(mask: pa.Array, column: pa.Array) -> pa.Array:
    """Return the column with null where the mask is true.

    Before Arrow 24, `if_else` with a null scalar reads beyond a sliced column of texts.
    """
    return pc.replace_with_mask(column, mask, pa.scalar(None, column.type))


def _numbers(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    if is_text(cells):
        given = _given(cells, feature.missing_values)
        values = fast_numbers(given, decimal)
        if values is None:
            typed = _meant(
                given, lambda text: parsed_number(text, decimal, feature.censored)
            )
        else:
            typed = Typed(values)
    elif is_numeric(cells) or pa.types.is_boolean(cells.type):
        typed = Typed(
            to_floats(
                cells.cast(pa.int8()) if pa.types.is_boolean(cells.type) else cells
            )
        )
    else:
        typed = Typed(np.full(len(cells), np.nan))
        typed.fault("unreadable", np.asarray(pc.is_valid(cells)))
        return typed
    values = np.array(typed.values, dtype=np.float64)
    # A code such as -999 is one number in every notation, so it is compared as a number too.
    codes = [parsed_number(text.strip()) for text in feature.missing_values]
    values[np.isin(values, [code for code in codes if isinstance(code, float)])] = (
        np.nan
    )
    infinite = np.isinf(values)
    typed.fault("infinite", infinite)
    values[infinite] = np.nan
    typed.values = values
    if feature.plausible:
        low, high = feature.plausible
        typed.fault("implausible", (values < low) | (values > high))
    return typed


def _words(cells: pa.Array, feature: Feature) -> Typed:
    """Truths as 0 and 1, texts that have an order as their places in it, categories as text."""
    column = to_texts(cells)
    if column is None:
        return _unreadable(
            cells, "unreadable", None if feature.type == "category" else np.nan
        )
    given = _given(column, feature.missing_values)
    if feature.type == "ordinal":
        places = {
            text: float(place) for place, text in enumerate(feature.categories or ())
        }
        return _meant(given, lambda text: places.get(text, "unknown_category"))
    if feature.type == "boolean":
        truths = dict.fromkeys(FALSE, 0.0) | dict.fromkeys(TRUE, 1.0)
        typed = _meant(given, lambda text: truths.get(text.lower(), "not_boolean"))
        if feature.missing == "no":
            typed.values = np.where(np.isnan(typed.values), 0.0, typed.values)
        return typed
    typed = Typed(_mapped(given, str, "object"))
    # Fixed-width arrays of a stored encoder would lose a NUL at a text's end.
    typed.fault("nul", np.asarray(pc.fill_null(pc.match_substring(given, "\0"), False)))
    if feature.categories is not None:
        listed = pc.or_(
            pc.is_in(given, pa.array(feature.categories, given.type)), pc.is_null(given)
        )
        # The text stays: where the row is scored all the same, it is unknown, not missing.
        typed.fault("unknown_category", ~np.asarray(listed))
    return typed


def _meant(given: pa.Array, meaning: Callable[[str], float | str]) -> Typed:
    """Numbers that texts mean, NaN where missing or at fault; of a fault `meaning` gives the kind."""
    distinct, codes = _coded(given)
    meant = [meaning(text) for text in distinct]
    numbers = [value if isinstance(value, float) else np.nan for value in meant]
    typed = Typed(np.array([*numbers, np.nan])[codes])
    for kind in dict.fromkeys(value for value in meant if isinstance(value, str)):
        typed.fault(kind, np.array([*(value == kind for value in meant), False])[codes])
    return typed


def _mapped(
    given: pa.Array, meaning: Callable[[str], object], dtype: str
) -> np.ndarray:
    """What texts mean, equal ones as one object, None where missing."""
    distinct, codes = _coded(given)
    return np.array([*map(meaning, distinct), None], dtype=dtype)[codes]


def _coded(given: pa.Array) -> tuple[list[str], np.ndarray]:
    """The distinct texts, and the place of each row's among them, -1 where it has none."""
    coded = given.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy()
