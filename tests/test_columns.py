"""What a night needs of a table without pandas: columns of arrays, hashes of ids, times of texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.sources.columns import Columns, absent, coded, joined_columns
from screening.sources.notation import moment

TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=20)
NUMBERS = st.lists(st.one_of(st.just(np.nan), st.floats(-9, 9)), max_size=20)


@given(TEXTS, st.data())
def test_rows_taken_and_joined_are_those_of_a_frame(texts, data):
    columns = Columns({"x": np.arange(len(texts), dtype=float), "t": np.array(texts, object)}, len(texts))
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), dtype=bool)

    both = joined_columns([columns.take(kept), columns.take(~kept)])

    expected = pd.concat([columns.frame()[kept], columns.frame()[~kept]], ignore_index=True)
    pd.testing.assert_frame_equal(both.frame(), expected)
    assert both.n_rows == len(texts)
    assert Columns.of(both.frame())["t"].tolist() == both["t"].tolist()


@given(TEXTS, NUMBERS)
def test_what_is_missing_is_what_pandas_calls_so(texts, numbers):
    for values in (np.array(texts, dtype=object), np.array(numbers, dtype=float)):
        assert absent(values).tolist() == pd.isna(values).tolist()


@given(TEXTS)
def test_codes_lead_back_to_the_values(texts):
    values = np.array(texts, dtype=object)

    distinct, codes = coded(values)

    assert [distinct[code] for code in codes] == texts
    assert len(set(distinct)) == len(distinct)


@pytest.mark.parametrize("day", ["2024-03-05", "2024-3-5", "2024/03/05", "2024.03.05"])
@pytest.mark.parametrize(
    "clock", ["", " 9:05", " 09:05:07", "T09:05:07.25", "T09:05Z", "T09:05+02:00", " 9:5"]
)
def test_a_time_is_read_as_pandas_reads_it_in_utc(day, clock):
    expected = pd.to_datetime(f"2024-03-05{clock}", utc=True).tz_localize(None)

    assert moment(day + clock, None) == expected


@pytest.mark.parametrize(
    "text", ["2024-02-30", "1500-01-01", "9999-12-31", "05/03/2024", "soon", "", "2024-13"]
)
def test_what_says_no_time_is_none(text):
    assert moment(text, None) is None


@pytest.mark.parametrize(("text", "first"), [("2024", "2024-01-01"), ("2024-03", "2024-03-01")])
def test_a_year_or_a_month_alone_is_its_first_day(text, first):
    assert moment(text, None) == pd.Timestamp(first)
