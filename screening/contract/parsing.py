"""From a column as it was read (text, or what Parquet holds) to typed values and a mask per fault."""

from __future__ import annotations

from collections.abc import Callable
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
    typed = _READERS[feature.type](cells, feature, decimal)
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
    words = texts(plain(cells))
    if words is None:
        return _all_at_fault(cells, "unreadable", np.full(len(cells), None, dtype=object))
    bare = trimmed(words)
    empty = np.asarray(pc.fill_null(pc.equal(bare, ""), True))
    typed = Typed(_shared(bare if trim else words, empty))
    if absent:
        typed.fault(absent, empty)
    return typed


def filled_down(cells: pa.Array, above: str | None) -> pa.Array:
    """Texts in which a blank has the text above it, the first one `above`."""
    words = texts(plain(cells))
    if words is None:
        return cells
    words = pc.if_else(pc.equal(trimmed(words), ""), None, words).cast(pa.string())
    return pc.fill_null_forward(pa.concat_arrays([pa.array([above], pa.string()), words])).slice(1)


def read_time(cells: pa.Array, order: str | None) -> Typed:
    """Type a time column: dates to datetime64[us], zones to UTC; `order` is that of day and month."""
    cells = plain(cells)
    words = texts(cells)
    if words is None or is_numeric(cells):
        return _all_at_fault(cells, "not_time", np.full(len(cells), "NaT", "datetime64[us]"))
    given, _ = _missing(words, Feature(type="category"))
    coded = given.dictionary_encode()
    # The last entry stands for null, whose code is -1.
    found = [*(moment(text, order) for text in coded.dictionary.to_pylist()), None]
    typed = Typed(np.array(found, dtype="datetime64[us]")[coded.indices.fill_null(-1).to_numpy()])
    typed.fault("not_time", np.isnat(typed.values))
    return typed


def read_coordinate(cells: pa.Array, decimal: str) -> Typed:
    """Type a coordinate column: finite numbers, none missing."""
    typed = _numbers(plain(cells), Feature(type="number"), decimal)
    place = Typed(typed.values)
    place.fault("no_coordinate", np.isnan(typed.values))
    return place


def _all_at_fault(cells: pa.Array, kind: str, values: np.ndarray) -> Typed:
    return Typed(values, [(kind, np.ones(len(cells), dtype=bool))] if len(cells) else [])


def _missing(cells: pa.Array, feature: Feature) -> tuple[pa.Array, np.ndarray]:
    """Trimmed text with null where missing, and the mask of the missing."""
    bare = trimmed(cells)
    absent = pc.is_in(bare, pa.array(["", *(text.strip() for text in feature.missing_values)], bare.type))
    absent = pc.or_(absent, pc.is_null(bare))
    return pc.if_else(absent, pa.scalar(None, bare.type), bare), np.asarray(absent)


def _numbers(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    if is_text(cells):
        given, _ = _missing(cells, feature)
        values = fast_numbers(given, decimal)
        typed = (
            Typed(values)
            if values is not None
            else _by_text(given, lambda text: parsed_number(text, decimal, feature.censored))
        )
    elif is_numeric(cells) or pa.types.is_boolean(cells.type):
        if pa.types.is_boolean(cells.type):
            cells = pc.cast(cells, pa.int8())
        typed = Typed(floats(cells))
    else:
        present = ~np.asarray(pc.is_null(cells))
        return Typed(np.full(len(cells), np.nan), [("unreadable", present)] if present.any() else [])
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


def _booleans(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    def meaning(text: str) -> float | str:
        word = text.lower()
        return 1.0 if word in TRUE else 0.0 if word in FALSE else "not_boolean"

    typed = _worded(cells, feature, meaning)
    if feature.missing == "no":
        typed.values = np.where(np.isnan(typed.values), 0.0, typed.values)
    return typed


def _categories(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    words = texts(cells)
    if words is None:
        return _all_at_fault(cells, "unreadable", np.full(len(cells), None, dtype=object))
    given, absent = _missing(words, feature)
    typed = Typed(_shared(given, absent))
    # Fixed-width arrays of a stored encoder would lose a NUL at a text's end.
    typed.fault("nul", np.asarray(pc.fill_null(pc.match_substring(given, "\0"), False)))
    if feature.categories is not None:
        known = np.asarray(pc.is_in(given, pa.array(feature.categories, given.type)))
        # The text stays: where the row is scored all the same, it is unknown, not missing.
        typed.fault("unknown_category", ~known & ~absent)
    return typed


def _ordinals(cells: pa.Array, feature: Feature, decimal: str) -> Typed:
    codes = {text: float(code) for code, text in enumerate(feature.categories or ())}
    return _worded(cells, feature, lambda text: codes.get(text, "unknown_category"))


def _worded(cells: pa.Array, feature: Feature, meaning: Callable[[str], float | str]) -> Typed:
    words = texts(cells)
    if words is None:
        return _all_at_fault(cells, "unreadable", np.full(len(cells), np.nan))
    return _by_text(_missing(words, feature)[0], meaning)


def _by_text(given: pa.Array, meaning: Callable[[str], float | str]) -> Typed:
    """Values and faults by asking `meaning` once per distinct text."""
    coded = given.dictionary_encode()
    found = [meaning(text) for text in coded.dictionary.to_pylist()]
    # The last entry stands for null, whose code is -1.
    numbers = np.array([*(x if isinstance(x, float) else np.nan for x in found), np.nan])
    codes = coded.indices.fill_null(-1).to_numpy()
    typed = Typed(numbers[codes])
    for kind in dict.fromkeys(x for x in found if isinstance(x, str)):
        typed.fault(kind, np.array([*(x == kind for x in found), False])[codes])
    return typed


def _shared(words: pa.Array, empty: np.ndarray) -> np.ndarray:
    """Object array in which equal texts are one Python string, None where `empty`."""
    coded = words.dictionary_encode()
    unique = np.empty(len(coded.dictionary) + 1, dtype=object)
    unique[:-1] = coded.dictionary.to_pylist()
    values = unique[coded.indices.fill_null(-1).to_numpy()]
    values[empty] = None
    return values


_READERS: dict[str, Callable[[pa.Array, Feature, str], Typed]] = {
    "number": _numbers,
    "boolean": _booleans,
    "category": _categories,
    "ordinal": _ordinals,
}
