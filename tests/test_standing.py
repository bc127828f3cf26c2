"""A reason rings on three nights in a row; then it stands, and is told with since
when.
"""

from screening.ledger.standing import GivenReasons, mark_standing
from screening.schemas.base import Reason, new_reasons

FEW_CASES = Reason("too_few_cases", "Only 20 to train on.")
CRP = Reason("values_differ", "crp: distributed otherwise.", "crp")
REFUSED = Reason("rows_refused", "2 rows refused.")


def nights(*reasons: Reason, n_nights: int = 3) -> list[GivenReasons]:
    dates = [f"2026-03-0{n}" for n in range(1, n_nights + 1)]
    return [GivenReasons(date, reasons) for date in dates]


def test_mark_standing_after_three_nights_names_the_first():
    standing = mark_standing([FEW_CASES], nights(FEW_CASES))
    assert [reason.since for reason in standing] == ["2026-03-01"]
    assert standing[0].sentence == ("Standing since 2026-03-01: Only 20 to train on.")
    assert new_reasons(standing) == []


def test_mark_standing_on_the_third_night_still_rings():
    after_two = mark_standing([FEW_CASES], nights(FEW_CASES, n_nights=2))
    assert new_reasons(after_two)


def test_mark_standing_carries_the_first_night_on():
    earlier = mark_standing([FEW_CASES], nights(FEW_CASES))
    later = [GivenReasons("2026-05-01", earlier)] * 3
    assert mark_standing([FEW_CASES], later)[0].since == "2026-03-01"


def test_mark_standing_after_a_night_without_it_rings_again():
    earlier = [*nights(CRP), GivenReasons("2026-03-04", [])]
    assert new_reasons(mark_standing([CRP], earlier)) == [CRP]


def test_mark_standing_of_another_column_rings():
    other = Reason("values_differ", "age: distributed otherwise.", "age")
    marked = mark_standing([other], nights(CRP))
    assert new_reasons(marked) == [other]


def test_mark_standing_other_rows_each_night_always_ring():
    marked = mark_standing([REFUSED], nights(REFUSED))
    assert new_reasons(marked) == [REFUSED]


def test_mark_standing_lists_new_reasons_first():
    marked = mark_standing([FEW_CASES, CRP], nights(FEW_CASES))
    assert [reason.code for reason in marked] == ["values_differ", "too_few_cases"]
