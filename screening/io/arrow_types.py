"""Arrow types of cells: those that are read, and conversion to floats and texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.errors import CohortError

# ".000000" behind a time of day; a part of a second that is not 0 stays.
EMPTY_FRACTION = r"^([^.]*)\.0+($|[^0-9].*$)"


def to_plain_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with its columns in the few types that are read."""
    arrays = [to_plain_type(array) for array in batch.columns]
    return pa.record_batch(arrays, batch.schema.names)


def to_plain_type(cells: pa.Array) -> pa.Array:
    """Return the cells as `string`, a number, a boolean, a date or a time.

    Writers have a dictionary, runs, a view or long offsets for one and the same text.
    What has no single value in a cell, or none without its unit (nested, binary, an
    extension, a duration) becomes empty bytes: `to_texts` returns None for it.
    """
    kind = cells.type
    if pa.types.is_run_end_encoded(kind):
        return to_plain_type(pc.run_end_decode(cells))
    if pa.types.is_dictionary(kind):
        # Arrow decodes no dictionary of views, which polars makes of categories.
        dictionary = to_plain_type(cells.dictionary)
        encoded = pa.DictionaryArray.from_arrays(cells.indices, dictionary)
        return encoded.dictionary_decode()
    if (
        pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    ):
        return cells.cast(pa.string())
    if is_text(cells) or is_numeric(cells) or pa.types.is_boolean(kind):
        return cells
    if is_date_or_time(cells):
        return cells
    empty = pa.scalar(b"", pa.binary())
    return pc.replace_with_mask(
        pa.nulls(len(cells), pa.binary()), cells.is_valid(), empty
    )


def is_text(cells: pa.Array) -> bool:
    """Return True for a column of texts."""
    return pa.types.is_string(cells.type)


def is_numeric(cells: pa.Array) -> bool:
    """Return True for a column of integers, floats or decimals."""
    kind = cells.type
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def is_date_or_time(cells: pa.Array) -> bool:
    """Return True for a column of dates, points in time, or times of day."""
    kind = cells.type
    return (
        pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind)
    )


def to_floats(cells: pa.Array) -> np.ndarray:
    """Return numbers as float64, shape (n_rows,), NaN where missing.

    A decimal becomes the float that its text is read as.
    """
    if pa.types.is_decimal(cells.type):
        # Arrow's own cast is off by the last bit in every third value.
        cells = pc.cast(cells, pa.string())
    floats = pc.cast(cells, pa.float64(), safe=False)
    return np.asarray(floats.to_numpy(zero_copy_only=False))


def to_texts(cells: pa.Array) -> pa.Array | None:
    """Return the cells as text, as a CSV file would have them.

    Whole numbers have no point, times no empty fraction of a second. None for cells
    that `to_plain_type` found unreadable.
    """
    kind = cells.type
    if is_text(cells):
        return cells
    if pa.types.is_floating(kind):
        return _texts_of_floats(cells)
    if is_date_or_time(cells):
        texts = pc.cast(cells, pa.string())
        return pc.replace_substring_regex(texts, EMPTY_FRACTION, r"\1\2")
    if is_numeric(cells) or pa.types.is_boolean(kind):
        return pc.cast(cells, pa.string())
    return None


def _texts_of_floats(cells: pa.Array) -> pa.Array:
    unique, codes = np.unique(to_floats(cells), return_inverse=True)
    texts: list[str | None] = []
    for value in unique.tolist():
        if np.isnan(value):
            texts.append(None)
        elif value.is_integer():
            texts.append(str(int(value)))
        else:
            texts.append(repr(value))
    return pa.array(np.array(texts, dtype=object)[codes], pa.string())


def refuse_other_texts(batch: pa.RecordBatch, name: str, first: int) -> None:
    """Raise CohortError if a text is not UTF-8: Arrow would fail later.

    Parameters
    ----------
    batch : pa.RecordBatch
    name : str
        Name of the file.
    first : int
        Number of the first row.
    """
    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid:
            texts = (text or b"" for text in cells.cast(pa.large_binary()).to_pylist())
            is_utf8 = [text.decode(errors="ignore").encode() == text for text in texts]
            row = first + is_utf8.index(False)
            raise CohortError(
                f"{name}, column '{column}', row {row}: the text is not UTF-8; write "
                "the file again"
            ) from None
