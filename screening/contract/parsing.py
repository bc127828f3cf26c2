"""From a column as it was read (text, or what Parquet holds) to typed values and a mask per fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Feature
from screening.io.columns import absent, floats, is_numeric, is_text, plain, texts
from screening.io.number_formats import FALSE, TRUE, fast_numbers, moment, parsed_number, trimmed


@dataclass
class Typed:
    """Typed values of one column in one batch, shape (n_rows,), and the rows at fault by kind.

    `values` is float64 with NaN for missing, or object (text, None for missing).
    """

    values: np.ndarray
    faults: list[tuple[str, np.ndarray]] = field(default_factory=list)

    def fault(self, kind: str, mask: np.ndarray) -> None:
        if mask.any():
            self.faults.append((kind, mask))


def read_feature(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    """Type one feature column by its contract."""
    cells = plain(cells)
    if feature.type == "number":
        typed = _numbers(cells, feature, decimal)
    elif feature.type == "category":
        typed = _categories(cells, feature)
    else:
        typed = _words(cells, feature)
    if feature.missing == "refuse":
        gone = absent(typed.values)
        for _, mask in typed.faults:
            gone &= ~mask
        typed.fault("missing", gone)
    return typed


def read_text(cells: pa.Array, absent: str | None, trim: bool = False) -> Typed:
    """Type a role column (id, group, label, subgroup): its text, unchanged unless `trim`.

    Null, empty and blank cells are missing, and at fault of kind `absent` if that is given.
    """
    column = texts(plain(cells))
    if column is None:
        return _unreadable(cells, "unreadable", None)
    bare = trimmed(column)
    empty = pc.fill_null(pc.equal(bare, ""), True)
    typed = Typed(_shared(pc.if_else(empty, None, bare if trim else column)))
    if absent:
        typed.fault(absent, np.asarray(empty))
    return typed


def filled_down(cells: pa.Array, above: str | None) -> pa.Array:
    """Texts in which a blank has the text above it, the first one `above`."""
    column = texts(plain(cells))
    if column is None:
        return cells
    column = pc.if_else(pc.equal(trimmed(column), ""), None, column).cast(pa.string())
    return pc.fill_null_forward(pa.concat_arrays([pa.array([above], pa.string()), column])).slice(1)


def read_time(cells: pa.Array, order: str | None) -> Typed:
    """Type a time column: dates to datetime64[us], zones to UTC; `order` is that of day and month."""
    cells = plain(cells)
    column = texts(cells)
    if column is None or is_numeric(cells):
        return _unreadable(cells, "not_time", np.datetime64("NaT", "us"))
    distinct, codes = _coded(_given(column))
    moments = [*(moment(text, order) for text in distinct), None]
    typed = Typed(np.array(moments, dtype="datetime64[us]")[codes])
    typed.fault("not_time", np.isnat(typed.values))
    return typed


def read_coordinate(cells: pa.Array, decimal: str) -> Typed:
    """Type a coordinate column: finite numbers, none missing."""
    typed = Typed(_numbers(plain(cells), Feature(type="number"), decimal).values)
    typed.fault("no_coordinate", np.isnan(typed.values))
    return typed


def _unreadable(cells: pa.Array, kind: str, missing: object) -> Typed:
    """A column of which every cell is at fault."""
    typed = Typed(np.full(len(cells), missing))
    typed.fault(kind, np.ones(len(cells), dtype=bool))
    return typed


def _given(column: pa.Array, missing_values: Sequence[str] = ()) -> pa.Array:
    """Trimmed texts, null where they are missing."""
    bare = trimmed(column)
    missing = pa.array(["", *(text.strip() for text in missing_values)], bare.type)
    return pc.if_else(pc.is_in(bare, missing), None, bare)


def _numbers(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    if is_text(cells):
        given = _given(cells, feature.missing_values)
        values = fast_numbers(given, decimal)
        typed = (
            _meant(given, lambda text: parsed_number(text, decimal, feature.censored))
            if values is None
            else Typed(values)
        )
    elif is_numeric(cells) or pa.types.is_boolean(cells.type):
        typed = Typed(floats(cells.cast(pa.int8()) if pa.types.is_boolean(cells.type) else cells))
    else:
        typed = Typed(np.full(len(cells), np.nan))
        typed.fault("unreadable", np.asarray(pc.is_valid(cells)))
        return typed
    values = np.array(typed.values, dtype=np.float64)
    # A code such as -999 is one number in every notation, so it is compared as a number too.
    codes = [parsed_number(text.strip()) for text in feature.missing_values]
    values[np.isin(values, [code for code in codes if isinstance(code, float)])] = np.nan
    infinite = np.isinf(values)
    typed.fault("infinite", infinite)
    values[infinite] = np.nan
    typed.values = values
    if feature.plausible:
        low, high = feature.plausible
        typed.fault("implausible", (values < low) | (values > high))
    return typed


def _words(cells: pa.Array, feature: Feature) -> Typed:
    """Truths as 0 and 1, and texts that have an order as their places in it."""
    column = texts(cells)
    if column is None:
        return _unreadable(cells, "unreadable", np.nan)
    given = _given(column, feature.missing_values)
    if feature.type == "ordinal":
        codes = {text: float(code) for code, text in enumerate(feature.categories or ())}
        return _meant(given, lambda text: codes.get(text, "unknown_category"))
    truths = dict.fromkeys(FALSE, 0.0) | dict.fromkeys(TRUE, 1.0)
    typed = _meant(given, lambda text: truths.get(text.lower(), "not_boolean"))
    if feature.missing == "no":
        typed.values = np.where(np.isnan(typed.values), 0.0, typed.values)
    return typed


def _categories(cells: pa.Array, feature: Feature) -> Typed:
    column = texts(cells)
    if column is None:
        return _unreadable(cells, "unreadable", None)
    given = _given(column, feature.missing_values)
    typed = Typed(_shared(given))
    # Fixed-width arrays of a stored encoder would lose a NUL at a text's end.
    typed.fault("nul", np.asarray(pc.fill_null(pc.match_substring(given, "\0"), False)))
    if feature.categories is not None:
        listed = pc.or_(pc.is_in(given, pa.array(feature.categories, given.type)), pc.is_null(given))
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


def _shared(given: pa.Array) -> np.ndarray:
    """Texts as objects, equal ones as one, None where missing."""
    distinct, codes = _coded(given)
    return np.array([*distinct, None], dtype=object)[codes]


def _coded(given: pa.Array) -> tuple[list[str], np.ndarray]:
    """The distinct texts, and the place of each row's among them, -1 where it has none."""
    coded = given.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy()
