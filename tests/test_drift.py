"""Gates before scoring: other units stop the run, other patients are said aloud, the
same night is silent.

Chances are valid at any size, and those that textbooks give where textbooks give one.
"""

import re

import numpy as np
import pandas as pd
import pytest
from commands import screen
from faults.amounts import repeats
from flow_cohorts import columns_of, patients, written
from gated_tables import CONTRACT, count_in, gated, stored
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy.stats import fisher_exact, ks_2samp, kstwobign
from written_files import page_in

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.data.reading import check_cohort
from screening.data.stream import ReadOptions
from screening.io.columns import SampledValues
from screening.monitoring import chance
from screening.monitoring.bins import equal_shares
from screening.monitoring.drift import (
    ALARMS,
    Gates,
)
from screening.monitoring.profile import (
    ks,
    profile,
    psi,
    total_variation,
)
from screening.store.loading import load_model
from screening.store.model import save_model


def kinds(**types: str) -> Contract:
    """A contract of columns by their types, and nothing else."""
    features = {name: {"type": kind} for name, kind in types.items()}
    return Contract.from_dict({"features": features})


def of_one(name: str, **feature) -> Contract:
    """A contract of one column, described further than by its type."""
    return Contract.from_dict({"features": {name: feature}})


def codes(gates: Gates) -> list[str]:
    return [reason.code for reason in gates.attention()]


def said(gates: Gates) -> str:
    return " ".join(reason.words for reason in gates.attention())


def in_fahrenheit(
    table: pd.DataFrame,
    rows: slice = slice(None),
) -> pd.DataFrame:
    celsius = table.loc[rows, "fever"]
    table.loc[rows, "fever"] = 1.8 * celsius + 32
    return table


@st.composite
def two_counts(draw) -> tuple[list[int], list[int]]:
    """Counts of two samples in the same categories."""
    k = draw(st.integers(2, 20))
    counts = st.lists(st.integers(1, 100), min_size=k, max_size=k)
    return draw(counts), draw(counts)


@given(two_counts())
def test_drift_distances(pair):
    """Distances are never negative the same in both directions and zero of equal
    shares."""
    first, second = pair
    for distance in (psi, ks, total_variation):
        assert distance(first, second) >= 0
        assert distance(first, second) == pytest.approx(distance(second, first))
        multiple = [7 * n for n in first]
        assert distance(first, multiple) == pytest.approx(0, abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_bins_hold_every_training_value_and_none_is_empty(values):
    table = pd.DataFrame({"x": values})
    described = stored(table, kinds(x="number"))
    counts = described.features["x"].counts
    assert sum(counts) == len(values)
    assert min(counts) > 0
    assert len(np.unique(equal_shares(counts, 10))) <= 10


IS_GIVEN = default_rng(0).random(600) > 0.75
ZEROS = IS_GIVEN * default_rng(1).lognormal(1, 1, 600)


@pytest.mark.parametrize(
    ("past", "contract"),
    [
        (patients(600), CONTRACT),
        (pd.DataFrame({"dose": ZEROS}), kinds(dose="number")),
    ],
    ids=["a ward", "many zeros"],
)
def test_the_training_table_itself_passes_without_a_word(past, contract):
    gates = gated(past, past, contract)
    distances = {facts.psi for facts in gates.facts().values()}
    assert gates.stops() == gates.attention() == []
    assert distances == {0.0}


@pytest.mark.parametrize("seed", range(40))
def test_other_nights_of_the_same_ward_pass_without_a_word(seed):
    night = patients(5 + 9 * seed, seed=seed + 1)
    gates = gated(night)
    assert gates.stops() == gates.attention() == []


@pytest.mark.parametrize("n_rows", [3, 12, 90])
def test_a_fahrenheit_night_is_stopped_and_named(n_rows):
    night = in_fahrenheit(patients(n_rows, seed=5))
    (reason,) = gated(night).stops()
    assert reason.code == "unit_changed"
    assert reason.column == "fever"
    assert "in degrees F instead of degrees C (times 1.8, plus 32)" in reason.words
    assert reason.figure > reason.threshold
    assert reason.remedy


def test_degrees_are_not_looked_for_in_a_column_of_years():
    ages = default_rng(0).normal(37, 0.5, 500)
    past = pd.DataFrame({"age": ages})
    contract = of_one("age", type="number", unit="years")
    night = 1.8 * past[:50] + 32
    assert gated(night, past, contract).stops() == []


def test_a_part_of_the_rows_in_another_unit_is_said_and_does_not_stop():
    night = in_fahrenheit(patients(100, seed=5), slice(19))
    gates = gated(night)
    words = r"fever: in (19|20)% of the rows the values appear to be in degrees F"
    assert gates.stops() == []
    assert re.search(words, said(gates))


def test_unseen_categories_ranges_and_shifts_are_said_by_column():
    night = patients(200, seed=5)
    night.loc[:9, "ward"] = "tent"
    night.loc[:9, "fever"] = 44.5
    night["crp"] = night["crp"] * 2.5 + 3
    gates = gated(night)
    reasons = gates.attention()

    assert {(reason.code, reason.column) for reason in reasons} == {
        ("unseen_category", "ward"),
        ("values_differ", "crp"),
        ("outside_range", "fever"),
    }
    for reason in reasons:
        assert reason.figure < reason.threshold
        assert reason.remedy
    assert "ward: 10 of 200 rows with a category never seen in training" in said(gates)
    assert "tent" not in said(gates)
    assert gates.facts()["ward"].unseen == 10


def test_unseen_category_listed():
    """A frequent text is named where the contract lists a column's categories."""
    past = patients(600)
    wards = sorted(past["ward"].dropna().unique())
    contract = of_one("ward", type="category", categories=wards)
    night = patients(200, seed=5)
    night.loc[:9, "ward"] = "tent"
    night.loc[10:13, "ward"] = "J. Doe"

    words = said(gated(night, past, contract))

    assert "14 of 200 rows with a category never seen in training ('tent')" in words
    assert "Doe" not in words


@pytest.mark.parametrize("code", [999.0, 9999.0, -9.0, 999.9])
def test_number_for_unknown_tenth_of_rows(code):
    """A repeated code for "not known" is no change of unit and no patient's value."""
    night = patients(120, seed=5)
    night.loc[::10, "crp"] = code
    (reason,) = gated(night).attention()

    assert reason.code == "number_for_unknown"
    assert reason.column == "crp"
    assert f"crp: 11% of the values are {code:g}, which" in reason.words


def test_number_for_unknown_known_to_training():
    """A code that training had is among its values, and no reason."""
    past = patients(600)
    past.loc[::10, "crp"] = 999.0
    night = patients(120, seed=5)
    night.loc[::10, "crp"] = 999.0

    assert gated(night, past).attention() == []


def test_a_single_row_of_a_new_ward_is_counted_by_column_and_no_alarm():
    night = patients(30, seed=5)
    night.loc[0, "ward"] = "tent"
    assert gated(night).attention() == []
    assert gated(night).notes() == [
        "ward: 1 row with a category never seen in training, scored as unknown"
    ]


@pytest.mark.parametrize("n_rows", [5, 20, 240])
def test_drift_recoded_column(n_rows):
    """A column whose values were all recoded is one reason and no error."""
    night = patients(n_rows, seed=5)
    night["ward"] = night["ward"].str.upper()
    gates = gated(night)
    (reason,) = gates.attention()
    assert reason.code == "unseen_category"
    assert reason.column == "ward"
    assert gates.stops() == []


def test_drift_missing_more_often():
    """A column that is missing far more often is a reason at any batch size."""
    night = patients(60, seed=5)
    night.loc[:39, "crp"] = np.nan
    (reason,) = gated(night).attention()
    assert reason.code == "missing_more"
    assert reason.column == "crp"
    assert "in training 1" in reason.words
    # The share is that of all rows.
    past = pd.DataFrame({"crp": np.arange(200.0)})
    fewer = past.where(past.index.to_series() % 4 > 0)
    contract = kinds(crp="number")
    words = said(gated(fewer, past, contract))
    assert "50 of 200 rows without a value, in training 0%" in words


EVEN = np.linspace(0, 1, 4000)
WARD = kinds(ward="category")


ROW = np.arange(4000)


def with_every(step: int, value: float) -> np.ndarray:
    """The even values, every so many of them another."""
    return np.where(ROW % step == 0, value, EVEN)


@pytest.mark.parametrize(
    ("night", "expected"),
    [
        (0.92 * EVEN, []),
        (0.85 * EVEN, ["values_differ"]),
        (with_every(25, np.nan), []),
        (with_every(15, np.nan), ["missing_more"]),
        (with_every(70, 5), []),
        (with_every(40, -5), ["outside_range"]),
        (with_every(40, 5), ["outside_range"]),
        (with_every(40, 1), []),
        (with_every(40, 0), []),
    ],
)
def test_what_very_many_rows_make_sure_is_said_from_where_it_matters(night, expected):
    past = pd.DataFrame({"x": np.linspace(0, 1, 2000)})
    contract = kinds(x="number")
    night = pd.DataFrame({"x": night})
    gates = gated(night, past, contract)
    assert codes(gates) == expected


@pytest.mark.parametrize("n_columns", [1, 4])
def test_one_night_in_a_hundred_is_shared_among_gates_and_columns(n_columns):
    names = [f"x{j}" for j in range(n_columns)]
    past = pd.DataFrame(dict.fromkeys(names, 1.0 * EVEN))
    night = pd.DataFrame(dict.fromkeys(names, 0.8 * EVEN))
    contract = kinds(**dict.fromkeys(names, "number"))
    reasons = gated(night, past, contract).attention()
    thresholds = {reason.threshold for reason in reasons}
    assert thresholds == {ALARMS["values"] / n_columns}
    assert sum(ALARMS.values()) == pytest.approx(0.01)


def test_rows_added_after_a_look_are_looked_at_too():
    gates = gated(patients(30, seed=5))
    assert gates.stops() == []
    more = in_fahrenheit(patients(240, seed=6))
    count_in(gates, columns_of(more[list(CONTRACT.features)]))
    assert "in degrees F" in said(gates)


def test_texts_beyond_those_that_are_kept_are_not_taken_for_missing():
    texts = [f"c{n}" for n in range(1200)]
    past = pd.DataFrame({"code": [*texts, None, None, None]})
    night = pd.DataFrame({"code": ["c5", "no such"]})
    gates = gated(night, past, kinds(code="category"))
    counted = gates.training.columns["code"]
    assert gates.past.features["code"].more == 200
    assert counted[:2].tolist() == [1203, 1200]
    # It may be one of those that training had and did not keep.
    assert gates.facts()["code"].unseen == 0
    assert gates.categories == {}


def test_drift_new_texts_memory():
    """A night of new texts alone is far from training in bounded memory."""
    past = pd.DataFrame({"code": ["a", "b", "b"] * 100})
    new_texts = [f"new {n}" for n in range(3000)]
    night = pd.DataFrame({"code": new_texts})
    gates = gated(night, past, kinds(code="category"))
    assert gates.facts()["code"].psi > 5
    assert gates.facts()["code"].unseen == 3000
    assert len(gates.columns["code"].counted.unseen) <= 1001


def test_drift_unlisted_ordinal():
    """A text that an ordinal does not list is a present row of an unseen category."""
    contract = of_one("asa", type="ordinal", categories=["low", "high"])
    past = pd.DataFrame({"asa": [0.0, 1.0] * 200})
    gates = Gates(profile(columns_of(past), contract), contract)
    unlisted = np.arange(40) < 10
    codes = np.where(unlisted, np.nan, 1.0)
    night = pd.DataFrame({"asa": codes})
    count_in(gates, columns_of(night), unlisted={"asa": unlisted})
    assert "asa: 10 of 40 rows with a category never seen in training" in said(gates)
    assert "missing" not in said(gates)


def test_shares_are_compared_as_their_definitions_say():
    expected_psi = 0.5 * np.log(2) + (0.5 - 0.05) * np.log(10)
    three_rows = pd.DataFrame({"ward": list("abb")})
    by_count = stored(three_rows, WARD)
    # Twelve rows of one group and four of others: by Kish, 16^2 / (12^2 + 4).
    groups = np.array([0] * 12 + [1, 2, 3, 4])
    one_ward = pd.DataFrame({"ward": ["a"] * 16})
    grouped = stored(one_ward, WARD, groups)
    of_ten = equal_shares([30] * 20, 10)

    assert psi([10, 0], [5, 5]) == pytest.approx(expected_psi)
    assert total_variation([1, 1], [2, 0]) == 0.5
    assert np.bincount(of_ten).tolist() == [2] * 10
    assert list(by_count.features["ward"].counts) == ["b", "a"]
    assert grouped.n_units == pytest.approx(256 / 148)


OF_PATIENTS = kinds(crp="number").with_roles(group="p")


def measured_often(rng, n_patients, each):
    """Patients by their numbers, and a value of each that hardly varies between its
    rows."""
    names = np.repeat(np.arange(n_patients), each)
    means = rng.normal(0, 1, n_patients)[names]
    noise = rng.normal(0, 0.2, len(names))
    return names, pd.DataFrame({"crp": means + noise})


def test_drift_rows_of_one_patient():
    """Rows of one patient tonight or in training are not taken for many."""
    rng = default_rng(0)
    names, past = measured_often(rng, 40, 50)
    night = pd.DataFrame({"crp": rng.normal(1, 0.2, 100)})
    few, past_of_few = measured_often(rng, 4, 100)
    usual = pd.DataFrame({"crp": rng.normal(0, 1, 40)})
    one_patient = np.zeros(100, int)
    many = np.arange(100)
    night_of_one = gated(night, past, OF_PATIENTS, one_patient, names)
    night_of_many = gated(night, past, OF_PATIENTS, many, names)
    after_few = gated(usual, past_of_few, OF_PATIENTS, past_groups=few)
    after_many = gated(usual, past_of_few, OF_PATIENTS)

    assert codes(night_of_one) == []
    assert codes(night_of_many) == ["values_differ"]
    assert codes(after_few) == []
    assert "values_differ" in codes(after_many)


def test_counts_do_not_depend_on_the_batches():
    """The sample of a column is bounded and spread over it."""
    night = patients(200, seed=5)
    features = night[list(CONTRACT.features)]
    split = Gates(stored(patients(600)), CONTRACT)
    for start in range(0, 200, 7):
        part = columns_of(features[start : start + 7])
        count_in(split, part, start=start)
    sampled = SampledValues(8192)
    for start in range(0, 100_000, 3_000):
        rows = np.arange(start, min(start + 3_000, 100_000))
        sampled += SampledValues.of(8192, rows, rows.astype(float))
    assert split.facts() == gated(night).facts()
    assert len(sampled.values) <= 8192
    steps = np.diff(sampled.values)
    assert len(np.unique(steps)) == 1


def test_rows_that_are_not_scored_are_not_said_to_be_scored_as_unknown():
    leaving = of_one("ward", type="category", on_unseen="refuse_row")
    past = pd.DataFrame({"ward": list("abab")})
    night = pd.DataFrame({"ward": list("abc")})
    noted = gated(night, past, WARD).notes()
    assert len(noted) == 1
    assert gated(night, past, leaving).notes() == []


def test_drift_unseen_counted_by_patient():
    """An unseen category of one patient's many rows is one case of it."""
    past = pd.DataFrame({"ward": list("ab" * 300)})
    night = pd.DataFrame({"ward": list("c" * 30 + "ab" * 10)})
    of_one = np.array([0] * 30 + [*range(1, 21)])
    by_patient = codes(gated(night, past, WARD, of_one))
    by_row = codes(gated(night, past, WARD, np.arange(50)))
    assert "unseen_category" not in by_patient
    assert "unseen_category" in by_row


def test_leaving_implausible_rows_out_does_not_hide_the_unit(tmp_path):
    lenient = CONTRACT.with_roles(label=None, on_violation="refuse_rows")
    warm = in_fahrenheit(patients(40, seed=5), slice(5, None))
    night = written(warm, tmp_path / "night.csv")
    gates = Gates(stored(patients(600)), lenient)
    violations, *_ = check_cohort(
        night, lenient, options=ReadOptions(observers=[gates])
    )
    assert "column fever: the values appear to be in degrees F" in violations[0]


def test_drift_normalised_values(tmp_path):
    """Values normalised within groups are described and raise no alarm."""
    t2 = {"type": "number", "normalise": "within_group"}
    roles = {"group": "p", "label": "ill"}
    contract = Contract.from_dict({"cohort": roles, "features": {"t2": t2}})
    names = np.repeat([f"p{n}" for n in range(60)], 5)
    values = default_rng(0).normal(100, 9, 300)
    table = pd.DataFrame(
        {
            "p": names,
            "t2": values,
            "ill": np.where(values > 108, "yes", "no"),
        }
    )
    past = read_cohort(written(table, tmp_path / "past.csv"), contract)
    described = profile(past.measured, contract, past.group)
    gates = Gates(described, contract)
    other_unit = table.assign(t2=table["t2"] * 1000)
    night = written(other_unit, tmp_path / "night.csv")
    raw = profile({**past.values, **past.raw}, contract, past.group)
    violations, *_ = check_cohort(
        night, contract, options=ReadOptions(observers=[gates])
    )

    assert violations == gates.attention() == []
    assert gates.facts()["t2"].ks > 0.9
    assert described == raw != profile(past.values, contract)
    model = train(past, "logistic", search=1, beside=())
    training = model.facts.training
    extremes = (values.min(), values.max())
    assert training.profile.features["t2"].range == extremes


def test_gates_stop_or_stand(tmp_path):
    """What the gates found stops the night or stands in the run and on its page."""
    past = read_cohort(written(patients(), tmp_path / "past.csv"), CONTRACT)
    trained = train(past, "logistic", search=1, beside=())
    model = save_model(trained, tmp_path / "model")
    night = patients(90, seed=5)
    night.loc[:6, "ward"] = "tent"
    loaded = load_model(model)
    run = score(loaded, night, tmp_path / "run", date="2026-01-31")
    page = page_in(tmp_path / "run")
    columns = {entry["name"]: entry for entry in run.document["data"]}
    ward = columns["ward"]
    in_other_unit = in_fahrenheit(patients(40, seed=5))
    warm = written(in_other_unit, tmp_path / "warm.csv")
    refused = screen("score", model, warm, "--out", tmp_path / "warm", code=3)
    scored = refused.stderr
    refused = screen("check", warm, "--model", model, code=3)
    checked = refused.stderr

    assert ward["unseen"] == 7
    assert ward["psi"] > 0
    (reason,) = run.document["attention"]
    assert reason["code"] == "unseen_category"
    assert "ward: 7 of 90 rows with a category never seen in training" in page
    assert "PSI" in page
    assert "7 unseen" in page
    assert "column fever: the values appear to be in degrees F" in scored
    assert "column fever: the values appear to be in degrees F" in checked
    # An implausible value is out of bounds in a night, and no violation.
    assert "outside the plausible range" not in scored
    assert not (tmp_path / "warm").exists()


sizes = st.integers(1, 60)


@given(st.integers(0, 60), sizes, st.integers(0, 60), sizes)
def test_more_events_than_before_is_the_one_sided_test_of_fisher(
    events, rows, past, past_rows
):
    events = min(events, rows)
    past = min(past, past_rows)
    table = [[events, rows - events], [past, past_rows - past]]
    told = chance.more_often(events, rows, past, past_rows)
    expected = fisher_exact(table, "greater").pvalue
    assert told == pytest.approx(expected, rel=1e-7)


counts_in_both = st.tuples(st.integers(0, 30), st.integers(0, 90))


@given(st.lists(counts_in_both, min_size=2, max_size=4))
def test_drift_shares_bonferroni(categories):
    """Other shares are the surest category either way times their number."""
    counts, past = np.array(categories).T
    rows = counts.sum()
    past_rows = past.sum()
    assume(rows and past_rows)
    p_values = []
    for n, k in zip(counts, past, strict=True):
        of_category = [[n, rows - n], [k, past_rows - k]]
        p_values.append(fisher_exact(of_category, "greater").pvalue)
        p_values.append(fisher_exact(of_category, "less").pvalue)
    # Of two categories each says what the other says.
    n_independent = 1 if len(categories) == 2 else len(categories)
    expected = min(1.0, 2 * n_independent * min(p_values))

    found = chance.other_shares(counts, past)
    assert found == pytest.approx(expected, rel=1e-7)


@given(st.integers(1, 25), st.integers(4, 80), st.integers(0, 10_000))
def test_drift_p_value_conservative(m, n, seed):
    """The distance of two samples is never said to be rarer than it is."""
    rng = default_rng(seed)
    first = rng.normal(0.5, 1, m)
    second = rng.normal(0, 1, n)
    found = ks_2samp(first, second, method="exact")
    p_value = chance.other_distribution(found.statistic, m, n)
    assert p_value >= 0.999 * found.pvalue


@given(st.integers(2, 400))
def test_one_row_of_a_new_category_has_the_chance_of_a_draw(n):
    """It counts as one row at least, and names that nearly all differ are no news."""
    of_a_draw = 1 / (n + 1)
    unseen = chance.never_seen([1], [n], 1)
    assert unseen == pytest.approx(of_a_draw, rel=1e-6)
    either_end = min(1, 2 * of_a_draw)
    outside = chance.outside(1, 1, n)
    assert outside == pytest.approx(either_end, rel=1e-6)
    of_one_row = chance.never_seen([1], [40], 1)
    of_less = chance.never_seen([0.2], [40], 1)
    assert of_less == of_one_row < 0.03
    of_names = chance.never_seen([1] * 40, [1] * 500, 40)
    assert of_names > 0.5


@pytest.mark.repeated
@pytest.mark.parametrize("m", [1, 5, 20, 60])
def test_drift_unseen_false_alarms(m):
    """Unseen and outside keep their chance where nothing has changed."""
    rng = default_rng(m)
    unseen = []
    outside = []
    for _ in repeats(600, 2000):
        counts = rng.exponential(5, 100 + m)
        rows = np.floor(counts).astype(int)
        night = rows[:m]
        past = rows[m:]
        _, known = np.unique(past, return_counts=True)
        is_new = ~np.isin(night, past)
        _, new = np.unique(night[is_new], return_counts=True)
        is_beyond = (night < past.min()) | (night > past.max())
        unseen.append(chance.never_seen(new, known, m))
        outside.append(chance.outside(is_beyond.sum(), m, 100))

    assert np.mean(np.array(unseen) < 0.05) < 0.06
    assert np.mean(np.array(outside) < 0.05) < 0.06


def test_large_tables_count_as_the_limits_of_their_laws():
    """More than 20,000 rows as so many of the same shares, the distance by Kolmogorov's
    law."""
    of_many = chance.more_often(60, 80_000, 20, 40_000)
    assert of_many == chance.more_often(15, 20_000, 10, 20_000)
    unit = np.sqrt(1 / 800 + 1 / 1600)
    for scale in (1.2, 1.6, 2.2):
        long = chance.other_distribution(scale * unit, 800, 1600)
        limit = kstwobign.sf(scale)
        assert limit <= long <= 1.1 * limit
    assert chance.effective_units([500]) == 1
    assert chance.effective_units([5] * 20) == pytest.approx(20)
