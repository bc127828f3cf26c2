"""Every rule of inference by name: a column that it applies to, and what it says."""

import numpy as np
import pyarrow as pa
import pytest

from screening.contract.contract import Contract, Feature
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
from screening.data.role_rules import OUTCOME_SIGNS, RoleColumns, outcome_candidates
from screening.data.sentinels import sentinel_counts
from screening.data.summary import ColumnSummary

DROP_RULES = [*DROP_ANY, *DROP_NUMBERS, *DROP_TEXTS]


def column(name, values) -> Candidate:
    summary = ColumnSummary()
    cells = values if isinstance(values, pa.Array) else pa.array(values)
    summary.add(cells, ".")
    return Candidate(name, summary)


# By rule, the name and the cells of a column that it drops.
DROPPED = {
    "unreadable": ("scan", pa.array([b"", b""], pa.binary())),
    "empty": ("crp", pa.array([None, ""], pa.string())),
    "dates": ("seen", ["2024-01-31", "2024-02-01", "soon"]),
    "constant": ("ward", ["icu", "icu"]),
    "row_index": ("value", np.random.default_rng(0).permutation(60)),
    "day_numbers": ("admission_date", 44_931 + np.arange(0, 180, 3)),
    "id_number": ("patient_id", np.arange(0, 90, 3)),
    "mixed_texts": (
        "finding",
        [*map(str, np.arange(200) / 8), *(f"text of {i}" for i in range(60))],
    ),
    "id_text": ("patient_id", [f"P{i}-x" for i in range(30)]),
    "measured": ("weight", [f"{i} kg" for i in range(30)]),
    "free_text": ("remark", [f"seen by {i}" for i in range(30)]),
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
    "categories": ("ward", ["icu", "medicine"] * 10),
}


@pytest.mark.parametrize(("name", "values"), KEPT.values(), ids=KEPT)
def test_drop_rule_keeps(name, values):
    """A column of values is a feature, and no rule drops it."""
    assert drop_rule(column(name, values)) is None


# By rule, the cells of a column, and the table of the feature in the contract.
TYPED = {
    "ticked": (["x", None, "x"], {"type": "boolean", "missing": "no"}),
    "yes_no": (["Yes", "no"] * 10, {"type": "boolean", "missing": "impute"}),
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
    "yes_no_unanswered": (
        ["yes", "no", "NA"] * 10,
        {"type": "boolean", "missing": "impute", "missing_values": ["NA"]},
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
    "missing_texts": ["1.5", "2.5", "3.5", "NA"] * 10,
    "missing_numbers": [999.9, 999.9, 999.9, *range(20, 60)],
    "ticked": ["x", None, "x"],
    "censored": ["1.5", "2.5", "3.5", "<0.5"] * 10,
}


def test_review_rules_have_examples():
    """A rule that is new needs a column in this test."""
    assert [*REVIEWED] == [rule.name for rule in REVIEW_RULES]


@pytest.mark.parametrize("rule", REVIEW_RULES, ids=lambda rule: rule.name)
def test_review_rule(rule):
    """Each rule applies to its column, and none to a plain one."""
    candidate = column("value", REVIEWED[rule.name])
    plain = column("value", np.linspace(0, 1, 60))

    assert rule.applies(candidate.summary, infer_feature(candidate))
    assert rule.remark(candidate.summary)
    assert not rule.applies(plain.summary, infer_feature(plain))


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

    remark = rule.remark(candidate.summary)

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


# By sign, the name and the cells of a column that it takes for the outcome.
OUTCOMES = {
    "label of two values": ("infected", ["yes", "no"] * 10),
    "outcome of two values": ("hospital_death", ["yes", "no"] * 10),
    "label of several values": ("class", ["a", "b", "c"] * 10),
    "name that asks yes or no": ("stroke?", ["a", "b"] * 10),
    "rare value of two": ("state", ["a", *["b"] * 9]),
    "two values": ("sex", ["f", "m"] * 10),
    "label of many values": ("status", [str(i) for i in range(40)]),
}


def test_outcome_signs_have_examples():
    """A sign that is new needs a column in this test."""
    assert [*OUTCOMES] == [sign.name for sign in OUTCOME_SIGNS]


def test_outcome_candidates_order():
    """Columns come by their surest sign; by name only those whose name says so."""
    columns = {
        name: column(name, values).summary
        for name, values in reversed(OUTCOMES.values())
    }
    table = RoleColumns(columns, {})
    names = [name for name, _ in OUTCOMES.values()]

    assert outcome_candidates(table, Contract()) == names
    assert outcome_candidates(table, Contract(), by_name=True) == names[:3]
