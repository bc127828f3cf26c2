"""A table that is sound row by row and wrong as a whole: half of it, yesterday's, another ward's."""

import datetime

import numpy as np
import pytest

from screening.monitoring.delivery import Elsewhere, examine, still_there
from screening.schemas.run import Delivery

FIRST = datetime.date(2026, 1, 5)
ROWS = (40, 41, 39, 40, 42, 38, 40, 41, 40, 39)


def night(number: int) -> str:
    return str(FIRST + datetime.timedelta(days=number))


def came(rows: int, number: int, still: int | None = 33, before: int | None = 40, **told: object) -> Delivery:
    return Delivery(rows=rows, units=rows, earlier=night(number - 1), before=before, still=still, **told)


def ward(n: int = len(ROWS), **told: object) -> dict[str, Delivery]:
    """Nights of a ward of about forty, of whom seven leave every day."""
    return {night(number): came(rows, number, **told) for number, rows in enumerate(ROWS[:n])}


def codes(
    tonight: Delivery, past: dict[str, Delivery], number: int = len(ROWS), **asked: object
) -> list[str]:
    _, findings = examine(night(number), tonight, past, **asked)
    return [("stops: " if one.sure else "") + one.reason.code for one in findings]


@pytest.mark.parametrize(
    ("rows", "still", "expected"),
    [
        (40, 33, []), (36, 30, []), (44, 34, []), (20, 17, ["not_whole"]), (40, 16, ["not_whole"]),
        (40, 0, ["stops: patients_gone"]), (80, 33, ["rows_too_many"]),
    ],
)  # fmt: skip
def test_rows_and_patients_are_held_against_the_nights_before(rows, still, expected):
    assert codes(came(rows, 10, still), ward()) == expected


def test_a_series_says_nothing_of_rows_before_its_own_spread_is_known():
    assert codes(came(12, 4, 10), ward(4), 4) == []
    assert codes(came(12, 5, 10), ward(5), 5) == ["not_whole"]


def test_where_nobody_stays_nobody_is_missed():
    """A table of a day's admissions has other patients every night."""
    past = ward(still=0)
    assert codes(came(40, 10, 0), past) == []
    assert codes(came(10, 10, 0), past) == ["not_whole"]


def test_half_a_ward_three_nights_running_is_named_three_times_and_then_accepted():
    """A night that was not whole is no measure for the next one, unless somebody answers for it."""
    past = ward()
    for number in (10, 11, 12):
        delivery, findings = examine(night(number), came(20, number, 17), past)
        assert [one.reason.code for one in findings] == ["not_whole"]
        past[night(number)] = delivery
    past[night(12)] = delivery.replace(accepted="half of the ward is closed")

    assert codes(came(20, 13, 16, 20), past, 13) == []


def test_a_growing_ward_is_followed():
    past = {night(n): came(40 + 2 * n, n, 34 + 2 * n, 38 + 2 * n) for n in range(30)}
    assert codes(came(100, 30, 92, 98), past, 30) == []
    assert codes(came(40, 30, 36, 98), past, 30) == ["not_whole"]


def test_weekends_of_a_clinic_are_known_after_some_weeks():
    rows = [20 if (FIRST + datetime.timedelta(days=n)).weekday() > 4 else 60 for n in range(28)]
    past = {night(n): came(count, n, 0, rows[n - 1]) for n, count in enumerate(rows)}
    assert codes(came(20, 33, 0), past, 33) == []
    assert codes(came(20, 29, 0), past, 29) == ["not_whole"]


def test_rows_of_one_patient_come_and_go_together():
    """Two patients of 500 voxels less are not a thousand patients less."""
    counts = 500 * np.array(ROWS[:6])
    past = {night(n): came(int(rows), n).replace(units=ROWS[n]) for n, rows in enumerate(counts)}
    assert codes(came(18_000, 6).replace(units=36), past, 6) == []
    assert codes(came(9_000, 6, 15).replace(units=18), past, 6) == ["not_whole"]


@pytest.mark.parametrize(
    ("same", "expected"),
    [
        ([Elsewhere(night(9))], ["stops: table_of_another_night"]),
        ([Elsewhere(night(12), "ward-7")], ["stops: table_of_another_night"]),
        ([Elsewhere(night(10), "ward-7")], ["table_of_another_series"]),
        ([Elsewhere(night(10), "ward-9.falls", differs=False)], []),
        ([Elsewhere(night(10))], []),
    ],
)  # fmt: skip
def test_a_table_that_was_there_before(same, expected):
    """Two screens may read one ward's table every night; the same night again is no other night."""
    assert codes(came(40, 10), ward(), same_table=same) == expected


def test_what_the_contract_states_and_ids_of_another_shape():
    stated = {"files_expected": 3, "n_files": 2, "rows_expected": (60, 120)}

    assert codes(came(40, 0), {}, 0, **stated) == ["files_unexpected", "rows_unexpected"]
    other = {"other_ids": ["4 characters long"]}
    assert codes(came(40, 0), {}, 0, **other) == ["stops: ids_of_another_shape"]
    taken, _ = examine(night(0), came(40, 0, accepted="another hospital's"), {}, **other)
    later, findings = examine(night(1), came(40, 1), {night(0): taken}, **other)
    assert not findings and later.found == taken.found


@pytest.mark.parametrize(
    ("oldest", "newest", "past", "expected"),
    [
        (0, 0, {"oldest": 0, "newest": 0}, []), (1, 1, {"oldest": 0, "newest": 0}, ["rows_too_old"]),
        (20, 1, {"oldest": 20, "newest": 0}, []), (20, 9, {"oldest": 20, "newest": 0}, ["rows_too_old"]),
        (0, -2, {"oldest": 20, "newest": 0}, ["rows_of_days_to_come"]),
        (0, -2, {"oldest": 20, "newest": -3}, []), (3, 3, None, ["rows_too_old"]), (1, 1, None, []),
        (60, 20, None, []), (60, 40, None, ["rows_too_old"]),
    ],
)  # fmt: skip
def test_the_newest_row_beside_the_night(oldest, newest, past, expected):
    """In days before it; tables of one day are held to that, tables of stays to how often somebody comes."""
    nights = {
        day: one.replace(**{name: night(number - old) for name, old in (past or {}).items()})
        for number, (day, one) in enumerate(ward().items())
    }
    tonight = came(40, 10, oldest=night(10 - oldest), newest=night(10 - newest))

    assert codes(tonight, nights if past else {}) == expected


def test_the_last_nights_table_written_again_is_known_by_its_patients():
    assert codes(came(40, 10, 40, 40), ward()) == ["patients_unchanged"]


def test_patients_of_large_nights_are_compared_on_the_hashes_that_both_kept():
    rng = np.random.default_rng(0)
    everybody = rng.permutation(100_000)[:3000].tolist()
    stayed, new = everybody[:2400], rng.integers(100_000, 2**32, 600).tolist()

    before, still = still_there(sorted(everybody)[:500], sorted([*stayed, *new])[:500], 500)

    assert 400 < before <= 500 and 0.76 < still / before < 0.84
    assert still_there([1, 2, 3], [2, 3, 4], 500) == (3, 2)
