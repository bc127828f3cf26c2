"""Every rule of inference by name: a column that it applies to, and what it says."""

import shlex

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import default_rng

from screening.contract.contract import Contract, Feature
from screening.contract.parsing import parse_feature
from screening.data.feature_rules import (
    DROP_ANY,
    DROP_NUMBERS,
    DROP_TEXTS,
    REVIEW_RULES,
    TYPE_RULES,
    Candidate,
    drop_rule,
    infer_feature,
)
from screening.data.outcome_rules import (
    NAME_SIGNS,
    OTHER_SIGNS,
    OutcomeColumn,
    as_likely,
    follow_up_strengths,
    infer_positive,
    is_sure_case,
    likeliest_outcome,
    ranked,
)
from screening.data.role_rules import TableSummary, outcome_candidates, role_doubts
from screening.data.sentinels import sentinel_counts
from screening.data.summary import ColumnSummary
from screening.spelling import names_from

DROP_RULES = [*DROP_ANY, *DROP_NUMBERS, *DROP_TEXTS]


def column(name, values) -> Candidate:
    summary = ColumnSummary()
    cells = values if isinstance(values, pa.Array) else pa.array(values)
    summary.add(cells, ".")
    summary.settle()
    return Candidate(name, summary)


NAMED = [
    f"{first}{last}" for first in ("Mac", "O'") for last in "Neil Dana Lee".split()
]
NAMED += [f"Anna-{last}" for last in "Karlsson Meyer Silva Rossi Dubois Kim".split()]
# By rule, the name and the cells of a column that it drops.
DROPPED = {
    "unreadable": ("scan", pa.array([b"", b""], pa.binary())),
    "person": ("last_name", ["Meyer", "Smith"] * 20),
    "empty": ("crp", pa.array([None, ""], pa.string())),
    "dates": ("seen", ["2024-01-31", "2024-02-01", "soon"]),
    "constant": ("ward", ["icu", "icu"]),
    "bed": ("bed", ["06", "07", "08"] * 20),
    "row_index": ("value", default_rng(0).permutation(60)),
    "day_numbers": ("admission_date", 44_931 + np.arange(0, 180, 3)),
    "id_number": ("patient_id", np.arange(0, 90, 3)),
    "ten_digits": ("contact", 1_000_000_019 + 7_919 * np.arange(60)),
    "blocks": ("kept", np.repeat(np.arange(1, 31), 3)),
    "mixed_texts": (
        "finding",
        [*map(str, np.arange(200) / 8), *(f"text of {i}" for i in range(60))],
    ),
    "id_text": ("patient_id", [f"P{i}-x" for i in range(30)]),
    "comment": ("remark", ["seen", "called", "seen again"] * 10),
    "measured": ("weight", [f"{i} {'kg' if i % 2 else 'lb'}" for i in range(30)]),
    "two_numbers": ("bp", [f"{110 + i}/{60 + i % 9}" for i in range(30)]),
    "names": ("referred", [*NAMED, *NAMED]),
    "free_text": ("story", [f"seen by {i}" for i in range(30)]),
}


def test_drop_rules_have_examples():
    """A rule that is new needs a column in this test."""
    assert [*DROPPED] == [rule.name for rule in DROP_RULES]


@pytest.mark.parametrize("rule", DROP_RULES, ids=lambda rule: rule.name)
def test_drop_rule(rule):
    """Each rule drops its column, and no rule before it does."""
    name, values = DROPPED[rule.name]

    applied = drop_rule(column(name, values))

    assert applied is rule
    assert rule.reason


KEPT = {
    "a number": ("crp", np.linspace(0, 1, 60)),
    "ages of a ward": ("age", np.arange(20, 50)),
    "codes by name": ("admission_type_id", [1, 2, 3] * 30),
    "codes by letters": ("icd", ["V57", "E909", "V58", "250"] * 30),
    "departments": ("dept", [310, 101, 450] * 100),
    "diagnoses": ("icd9", [401.9, 250.0, 428.1] * 20),
    "repeated words": ("drug", ["aspirin", "heparin", "insulin"] * 10),
    "visits of doctors": ("doctor_visits", np.linspace(0, 9, 60).round()),
    "categories": ("ward", ["icu", "medicine"] * 10),
}


@pytest.mark.parametrize(("name", "values"), KEPT.values(), ids=KEPT)
def test_drop_rule_keeps(name, values):
    """A column of values is a feature, and no rule drops it."""
    assert drop_rule(column(name, values)) is None


PERSONS = (
    "first_name,LastName,maiden name,name,Surname,home_address,street,Postcode,zip"
    ",phone,E-Mail,initials,clinician,Vorname,PLZ,prénom,apellido,cognome"
).split(",")


@pytest.mark.parametrize("name", PERSONS)
def test_person_is_dropped(name):
    """Columns called as names and addresses of people are never features."""
    rule = drop_rule(column(name, ["a", "b"] * 20))

    assert rule.name == "person"


@pytest.mark.parametrize("name", ["clinic_name", "drug", "nomad", "viability", "rued"])
def test_thing_is_no_person(name):
    """Names of things, and words that begin like those of people, are kept."""
    candidate = column(name, ["a", "b"] * 20)
    assert drop_rule(candidate) is None


ROWS_OF_SUBSET = default_rng(0).permutation(400)[:60]
COUNTERS = {
    "rownames": ROWS_OF_SUBSET,
    "Sl. No": ROWS_OF_SUBSET,
    "Obs": ROWS_OF_SUBSET,
    "value": np.sort(ROWS_OF_SUBSET),
}


@pytest.mark.parametrize(("name", "values"), COUNTERS.items(), ids=COUNTERS)
def test_counter_of_subset_is_dropped(name, values):
    """Row counters with gaps are dropped, by name or because they rise."""
    assert drop_rule(column(name, values)).name == "row_index"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dept", [310, 101, 450] * 100),
        ("race", [1, 5, 2] * 100),
        ("payer", [1, 5, 2] * 100),
        ("marital_status", [1, 4, 2] * 100),
        ("icd9", [401.9, 250.0, 428.1] * 20),
    ],
)
def test_names_of_things_are_categories(name, values):
    """Whole numbers that name things, and codes of diagnoses, are no quantities."""
    assert infer_feature(column(name, values))["type"] == "category"


QUANTITIES = (
    "days_in_hospital,time_in_hospital,Age_at_diagnosis,Number_of_diagnosis"
    ",Time_since_first_diagnosis,hospital_los,years_in_country,Tage seit Diagnose"
).split(",")


@pytest.mark.parametrize("name", QUANTITIES)
def test_quantity_of_thing_is_number(name):
    """A word of a quantity beats the thing, and the guess is listed for review."""
    candidate = column(name, [1, 2, 3] * 30)

    feature = infer_feature(candidate)

    assert feature["type"] == "number"
    applied = [rule.name for rule in REVIEW_RULES if rule.applies(candidate, feature)]
    assert applied in ([], ["codes_as_numbers"])


@pytest.mark.parametrize("name", ["age_group_code", "time_code_id", "department"])
def test_stated_code_is_category(name):
    """A name that ends in a word for codes is one of codes, listed for review."""
    candidate = column(name, [1, 2, 3] * 30)

    feature = infer_feature(candidate)

    assert feature["type"] == "category"
    applied = [rule.name for rule in REVIEW_RULES if rule.applies(candidate, feature)]
    assert applied == ["numbers_as_codes"]


@pytest.mark.parametrize("name", ["cluster", "inst"])
def test_many_numbers_of_places_are_a_category(name):
    """Numbers of places are no quantity, though each has only a few rows."""
    candidate = column(name, [3, 17, 9, 11, 2, 8, 5, 14, 6, 12, 20] * 4)

    assert infer_feature(candidate)["type"] == "category"


# By what it is, a column of two values, and its type.
TWO_VALUES = {
    "codes of the sexes": ([1, 2] * 30, "category"),
    "codes exported with gaps": (["1.0", "2.0", None] * 30, "category"),
    "no and yes exported with gaps": (["0.0", "1.0", None] * 30, "boolean"),
    "no, yes and not known": (["0", "1", "NA"] * 30, "boolean"),
    "doses": ([200, 400] * 30, "number"),
    "numbers in few rows": ([1, 2] * 10, "number"),
    "classes of age": (["<40", ">=40"] * 30, "category"),
    "a limit among numbers": (["<0.5", "0.7"] * 30, "number"),
}


@pytest.mark.parametrize(("values", "kind"), TWO_VALUES.values(), ids=TWO_VALUES)
def test_two_values(values, kind):
    """Two small numbers are codes, 0 and 1 answers, and limits alone are classes."""
    assert infer_feature(column("value", values))["type"] == kind


def test_codes_are_written_whole():
    """A code exported as 2.0 is the category 2, which cells with 2.0 and 2 have."""
    feature = infer_feature(column("value", ["1.0", "2.0", None] * 30))
    cells = pa.array(["2.0", "1", "3.0", None])
    codes = parse_feature(cells, Feature.model_validate(feature), ".")

    assert feature["categories"] == ["1", "2"]
    assert codes.values.tolist() == ["2", "1", "3.0", None]
    ((kind, is_unknown),) = codes.faults
    assert kind == "unknown_category"
    assert is_unknown.tolist() == [False, False, True, False]


def test_ranks_are_written_whole():
    """A grade that is exported as 2.0 has the rank of the listed 2."""
    grade = Feature(type="ordinal", categories=["1", "2", "4"])

    ranks = parse_feature(pa.array(["2.0", "4", "3.0"]), grade, ".")

    np.testing.assert_array_equal(ranks.values, [1.0, 2.0, np.nan])


# By what they are, whole numbers that may be of patients or places, or are measured.
NUMBERED = {
    "communes": (default_rng(0).permutation([*range(1, 41)] * 5), True),
    "patients in order": (np.repeat(np.arange(3, 300, 4), 2), True),
    "a number a row": (100_000 + 7 * default_rng(0).permutation(90), True),
    "hospitals": (30_001 + 100 * default_rng(0).permutation([*range(20)] * 9), True),
    "counts": (default_rng(0).poisson(2, 300) * 5, False),
    "pressures": (default_rng(0).normal(130, 20, 300).round(), False),
}


@pytest.mark.parametrize(("values", "is_numbered"), NUMBERED.values(), ids=NUMBERED)
def test_numbers_of_patients(values, is_numbered):
    """Numbers without gaps, in order, of each row or large are to be reviewed."""
    assert column("value", values).may_number == is_numbered
    assert not column("days in value", values).may_number


@pytest.mark.parametrize("name", ["bed", "Room No", "cubicle", "bed_label", "Zimmer"])
def test_bed_is_no_feature(name):
    """A place that one patient leaves to the next is dropped, and said."""
    assert drop_rule(column(name, [*range(1, 41)] * 3)).name == "bed"


@pytest.mark.parametrize("name", ["emergency_room", "bed_rest", "room_air", "ward"])
def test_name_with_bed_is_feature(name):
    """A ward, and what only has such a word in its name, is a feature."""
    assert drop_rule(column(name, [0, 1, 2] * 30)) is None
    assert drop_rule(column("bed", ["yes", "no"] * 30)) is None


@pytest.mark.parametrize("name", ["ANT_CA_S_n", "high_blood_pressure"])
def test_zero_beside_one_is_an_answer(name):
    """A 0 among ones says no, whatever is measured by that name."""
    candidate = column(name, [0, 1] * 30)

    assert candidate.sentinels == {}
    assert not candidate.often_missing
    assert infer_feature(candidate)["type"] == "boolean"


# By rule, the cells of a column, and the table of the feature in the contract.
TYPED = {
    "ticked": (["x", None, "x"], {"type": "boolean", "missing": "no"}),
    "yes_no": (["Yes", "no"] * 10, {"type": "boolean", "missing": "impute"}),
    "yes_no_unanswered": (
        ["yes", "no", "NA"] * 10,
        {"type": "boolean", "missing": "impute", "missing_values": ["NA"]},
    ),
    "number": (
        ["1.5", "2.5", "<0.5", "n.d."] * 10,
        {
            "type": "number",
            "missing": "indicator",
            "seen": (1.5, 2.5),
            "missing_values": ["n.d."],
            "censored": "limit",
        },
    ),
    "category": (
        ["icu", "medicine", None] * 10,
        {
            "type": "category",
            "missing": "category",
            "categories": ["icu", "medicine"],
        },
    ),
}


def test_type_rules_have_examples():
    """A rule that is new needs a column in this test."""
    assert [*TYPED] == [rule.name for rule in TYPE_RULES]


@pytest.mark.parametrize("rule", TYPE_RULES, ids=lambda rule: rule.name)
def test_type_rule(rule):
    """Each rule makes a feature of its column, and no rule before it does."""
    values, feature = TYPED[rule.name]
    candidate = column("value", values)

    applied = next(other for other in TYPE_RULES if other.applies(candidate))

    assert applied is rule
    assert infer_feature(candidate) == feature
    Feature.model_validate(feature)


# By rule, the cells of a column of which a person is to review the feature.
REVIEWED = {
    "numbers_as_codes": [310, 101, 450] * 30,
    "numbered_answers": [1, 4, 2, 3] * 30,
    "two_numbers_as_codes": [1, 2] * 30,
    "codes_as_numbers": [1, 2, 3] * 30,
    "grades": [0, 3, 1, 2] * 30,
    "numbers_of_patients": [*range(1, 31)] * 3,
    "codes_apart": [*range(13), *[2, 7, 12] * 30],
    "one_text": ["modern", None, None] * 10,
    "missing_texts": ["1.5", "2.5", "3.5", "NA"] * 10,
    "missing_numbers": [999.9, 999.9, 999.9, *range(20, 60)],
    "ticked": ["x", None, "x"],
    "flagged": ["1.5", "2.5 H", "3.5*"] * 10,
    "units": ["1.5", "2.5 mg/L", "3.5 mg/l"] * 10,
    "censored": ["1.5", "2.5", "3.5", "<0.5"] * 10,
}


# Names of columns that are reviewed for their name.
REVIEWED_NAMES = {
    "numbers_as_codes": "dept",
    "codes_as_numbers": "days_in_hospital",
}


def test_review_rules_have_examples():
    """A rule that is new needs a column in this test."""
    assert [*REVIEWED] == [rule.name for rule in REVIEW_RULES]


@pytest.mark.parametrize("rule", REVIEW_RULES, ids=lambda rule: rule.name)
def test_review_rule(rule):
    """Each rule applies to its column, and none to a plain one."""
    name = REVIEWED_NAMES.get(rule.name, "value")
    candidate = column(name, REVIEWED[rule.name])
    plain = column("value", np.linspace(0, 1, 60))

    assert rule.applies(candidate, infer_feature(candidate))
    assert rule.remark(candidate)
    assert not rule.applies(plain, infer_feature(plain))


# Cells of a column, and the categories and texts for "missing" that are found in it.
ANSWERS = {
    "minus beside plus": (["+", "-"] * 10, ["+", "-"], []),
    "minus beside grades": (["-", "+", "++"] * 10, ["+", "++", "-"], []),
    "ND beside Positive": (["ND", "Positive"] * 10, ["ND", "Positive"], []),
    "minus beside one answer": (["-", "seen"] * 10, ["-", "seen"], []),
    "not detected": (
        ["not detected", "none seen", "neg", "Positive"] * 10,
        ["Positive", "neg", "none seen", "not detected"],
        [],
    ),
    "minus beside two answers": (["-", "a", "b"] * 10, ["a", "b"], ["-"]),
    "minus beside one number": (["-", "1"] * 10, ["-", "1"], []),
}


@pytest.mark.parametrize(
    ("values", "categories", "missing"), ANSWERS.values(), ids=ANSWERS
)
def test_answers_are_not_missing(values, categories, missing):
    """A mark means missing only where two other categories are left."""
    feature = infer_feature(column("culture", values))

    assert feature["categories"] == categories
    assert feature.get("missing_values", []) == missing


def test_remark_names_texts():
    """A review names the texts that several rows have, and no patient's own."""
    values = [*map(str, range(50)), "NA", *["not done"] * 3, "Mrs Smith"]
    candidate = column("crp", values)
    (rule,) = (rule for rule in REVIEW_RULES if rule.name == "missing_texts")

    remark = rule.remark(candidate)

    assert '("NA", "not done")' in remark
    assert "Smith" not in remark


# Numbers that stand for missing, by a sign, beside others.
USUAL = [float(value) for value in range(35, 75)]
SENTINELS = {
    "far above": ([*USUAL, *[999.9] * 3], {999.9: 3}),
    "an age": ([*USUAL, *[300.0] * 4], {300.0: 4}),
    "two of them": ([*USUAL, *[999.0] * 3, *[9999.0] * 3], {999.0: 3, 9999.0: 3}),
    "alone negative": ([0.0, *USUAL, *[-9.0] * 3], {-9.0: 3}),
    "negative codes": ([0.0, *USUAL, *[-9.0] * 3, *[-8.0] * 3], {-9.0: 3, -8.0: 3}),
    "twice": ([*USUAL, 300.0, 300.0], {}),
    "zero": ([*[0.0] * 3, *(value + 1000 for value in USUAL)], {}),
    "negative among negatives": ([*[-9.0] * 3, -3.0, *USUAL], {}),
    "minus one beside one": ([-1.0, 1.0] * 10, {}),
    "grades": ([0.0, 1.0, 5.0] * 10, {}),
}


@pytest.mark.parametrize(("values", "found"), SENTINELS.values(), ids=SENTINELS)
def test_sentinel_counts(values, found):
    """Repeated numbers apart from all others are found, with their counts."""
    assert sentinel_counts(np.array(values)) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("body_temperature", {0.0: 2}),
        ("glucose_days", {}),
    ],
)
def test_sentinels_of_zero(name, found):
    """A 0 stands for missing only where the measurement is known never to be 0."""
    cells = [0.0, 0.0, *np.linspace(36, 39, 40)]
    candidate = column(name, cells)

    assert candidate.sentinels == found


# By sign of a name, a name and cells of a column that it is a sign of.
NAMES = {
    "sure name": "infected",
    "word of an outcome": "hospital_death",
    "usual name": "status",
    "name that asks yes or no": "icu?",
}
# By other sign, a column that it applies to.
OTHERS = {
    "two values": ("sex", ["f", "m"] * 10, {}),
    "a few values": ("stage", ["i", "ii", "iii"] * 10, {}),
    "rare value": ("state", ["a", *["b"] * 9], {}),
    "at an end of the table": ("state", ["a", "b"] * 10, {"is_at_end": True}),
    "follow-up times": ("state", ["a", "b"] * 10, {"has_follow_up": True}),
}


def outcome(name, values, **signs) -> OutcomeColumn:
    return OutcomeColumn(name, column(name, values).summary, **signs)


def test_outcome_signs_have_examples():
    """A sign that is new needs a column in this test."""
    assert [*NAMES] == [sign.name for sign in NAME_SIGNS]
    assert [*OTHERS] == [sign.name for sign in OTHER_SIGNS]


@pytest.mark.parametrize("sign", NAME_SIGNS, ids=lambda sign: sign.name)
def test_name_sign(sign):
    """The first sign of a name gives its points, and to no other name."""
    named = outcome(NAMES[sign.name], ["a", "b"] * 10)
    other = outcome("sex", ["a", "b"] * 10)

    assert named.points_of_name == sign.points
    assert not sign.applies(other)


@pytest.mark.parametrize("sign", OTHER_SIGNS, ids=lambda sign: sign.name)
def test_other_sign(sign):
    """Each sign applies to its column, and not to a column of many values."""
    name, values, signs = OTHERS[sign.name]
    texts = [str(value) for value in range(40)]
    plain = outcome("crp", texts)

    assert sign.applies(outcome(name, values, **signs))
    assert not sign.applies(plain)


def test_ranked_order():
    """The columns come by the sum of their points."""
    columns = [
        outcome("crp", [str(value) for value in range(40)]),
        outcome("sex", ["f", "m"] * 10),
        outcome("status", ["1", "2"] * 10),
        outcome("hospital_death", ["yes", "no"] * 10),
        outcome("infected", ["yes", "no"] * 10),
    ]

    names = [candidate.name for candidate in ranked(columns)]

    assert names == ["infected", "hospital_death", "status", "sex"]


def test_as_likely_close_points():
    """Two sure names are as likely; a usual one is not as likely as a sure one."""
    died = outcome("died", ["yes", "no"] * 10)
    relapse = outcome("relapse", ["yes", "no"] * 10)
    infection = outcome("infection", ["yes", "no"] * 10)

    rivals = as_likely("died", ranked([died, relapse, infection]))

    assert rivals == [relapse]


def test_likeliest_needs_name_or_lead():
    """Without a name of an outcome nothing may be as likely."""
    alone = outcome("tumor", ["a", *["b"] * 9], is_at_end=True, has_follow_up=True)
    rival = outcome("treated", ["a", *["b"] * 9], is_at_end=True)

    assert likeliest_outcome(ranked([alone])) is alone
    assert likeliest_outcome(ranked([alone, rival])) is None


def test_follow_up_strengths_finds_outcome():
    """Follow-up times differ between those with an event and the others."""
    rng = default_rng(0)
    died = rng.random(200) < 0.3
    table = {
        "days": rng.exponential(100, 200) * np.where(died, 0.2, 1),
        "died": np.where(died, "yes", "no").astype(object),
        "sex": rng.choice(["f", "m"], 200).astype(object),
    }
    summaries = {}
    for name, values in table.items():
        summaries[name] = column(name, values).summary

    strengths = follow_up_strengths(summaries, table.__getitem__)

    assert [*strengths] == ["died"]


CASES = {
    "yes and no": ({"yes": 9, "no": 90}, "yes", True),
    "one and zero": ({"1": 9, "0": 90}, "1", True),
    "mostly one": ({"1": 90, "0": 9}, "1", False),
    "one and minus one": ({"1": 85, "-1": 15}, "1", False),
    "one and two": ({"1": 15, "2": 85}, "1", False),
    "benign and malignant": ({"benign": 60, "malignant": 40}, "malignant", True),
    "words without a no": ({"icu": 15, "ward": 85}, "icu", False),
}


@pytest.mark.parametrize(("counts", "case", "is_sure"), CASES.values(), ids=CASES)
def test_is_sure_case(counts, case, is_sure):
    """A case is sure where words or 1 beside 0 say so, and the rows are the fewer."""
    assert infer_positive("state", counts) == case
    assert is_sure_case(case, counts) == is_sure


def test_role_doubts_of_label():
    """An outcome that another is as likely as, and a case of 1 beside -1, are asked."""
    columns = {
        "died": column("died", ["1", "1", "1", "-1"] * 10).summary,
        "relapse": column("relapse", ["yes", "no"] * 20).summary,
    }
    table = TableSummary(columns, {})
    guessed = Contract(label="died", positive=["1"])

    rivals = as_likely("died", outcome_candidates(table, guessed))
    outcome_doubt, case_doubt = role_doubts(table, Contract(), guessed, rivals)
    named = role_doubts(table, guessed, guessed, [])

    assert "equally likely" in outcome_doubt.words
    assert "relapse (50%)" in outcome_doubt.words
    assert "75% of all" in case_doubt.words
    assert "--positive -1" in case_doubt.remedy
    assert [*named] == []


def test_role_doubts_hostile_values():
    """Values are printed as the option takes them, in a shell; one with a comma is in
    double quotes, or it would be two.
    """
    values = ["$(touch pwned)", "no, never"]
    columns = {"died": column("died", [*values * 9, *values[:1] * 9]).summary}
    guessed = Contract(label="died", positive=values[:1])

    (doubt,) = role_doubts(
        TableSummary(columns, {}), Contract(label="died"), guessed, []
    )

    options = doubt.remedy.partition(": ")[2].removesuffix(".").split(" or ")
    taken = [names_from(shlex.split(option)[1]) for option in options]
    assert taken == [values[:1], values[1:]]
