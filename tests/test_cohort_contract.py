"""The contract: what it accepts, what it says when it does not, and that its texts read
back.
"""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st

from screening import Validation, read_cohort, train
from screening.contract.contract import Contract, Feature
from screening.data.reading import starter_contract
from screening.errors import CohortError, UsageError

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
BOUNDS = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(
    lambda pair: tuple(sorted(pair))
)
TEXTS = st.lists(
    NAMES.map(str.strip).filter(bool),
    min_size=1,
    max_size=4,
    unique=True,
)
FEATURES = st.one_of(
    st.builds(
        Feature,
        type=st.just("number"),
        unit=st.none() | NAMES,
        reference=st.none() | BOUNDS,
        seen=st.none() | BOUNDS,
        plausible=st.none() | BOUNDS,
        missing=st.sampled_from(["impute", "indicator", "refuse"]),
        missing_values=TEXTS,
        censored=st.sampled_from(["refuse", "limit", "half"]),
    ),
    st.builds(Feature, type=st.sampled_from(["ordinal", "category"]), categories=TEXTS),
    st.builds(Feature, type=st.just("boolean"), description=st.none() | NAMES),
)
CONTRACTS = st.builds(
    Contract,
    title=st.none() | NAMES,
    features=st.dictionaries(NAMES, FEATURES, max_size=5),
    prevalence=st.none() | st.floats(0.001, 0.999),
    capacity=st.none() | st.integers(1, 1000),
    on_violation=st.sampled_from(["stop", "refuse_rows"]),
)


SAMPLES = Path(__file__).parents[1] / "sample_cohorts"


@pytest.mark.parametrize(
    ("recipe", "stated", "n_made"),
    [
        ("logistic", {"contract": SAMPLES / "nosocomial.toml", "drop": ["smoking"]}, 1),
        ("logistic", {"label": "infected", "id": "patient_id"}, 1),
        ("logistic", {"propose": True}, 1),
        ("given", {"label": "infected", "id": "patient_id", "score": "crp"}, 2),
    ],
)
def test_contract_of_a_training_is_made_once(monkeypatch, recipe, stated, n_made):
    """Options, a file and the table fill a draft, and nothing changes its contract.

    The model of a given score has one of its own, without the other features.
    """
    made = []

    def count(maker):
        def counted(*args, **keywords):
            contract = maker(*args, **keywords)
            made.append(type(contract))
            return contract

        return counted

    validate = count(Contract.model_validate.__func__)
    monkeypatch.setattr(Contract, "model_validate", classmethod(validate))
    monkeypatch.setattr(Contract, "model_copy", count(Contract.model_copy))

    table = pd.read_csv(SAMPLES / "nosocomial_past.csv", dtype=str).head(250)
    past = read_cohort(table, need_label=True, **stated)
    validation = Validation(folds=2, repeats=1, beside=[])
    train(past, recipe, validation=validation, search=1, jobs=1)

    assert made.count(Contract) == n_made


@given(CONTRACTS, st.lists(st.text(), max_size=2))
def test_contract_survives_toml_and_json(tmp_path_factory, contract, notes):
    """With the order of its features, though the keys of JSON are sorted."""
    path = tmp_path_factory.getbasetemp() / "contract.toml"
    path.write_bytes(contract.to_toml(notes).encode())
    text = json.dumps(contract.to_dict(), sort_keys=True)
    as_json = json.loads(text)
    for read in (Contract.load(path), Contract.from_dict(as_json)):
        assert read == contract
        assert list(read.features) == list(contract.features)


FAULTY = {
    "unknown feature key": (
        "[features.age]\ntype='number'\nunti='a'",
        "features.age.unti",
        "unit",
    ),
    "unknown role": ("[cohort]\nlabels='y'", "cohort.labels", "label"),
    "unknown table": ("[cohorts]\nid='a'", "cohorts", "[cohort]"),
    "unknown type": ("[features.age]\ntype='float'", "features.age.type", "number"),
    "no type": ("[features.age]\nunit='a'", "features.age.type", "required"),
    "ordinal without order": (
        "[features.a]\ntype='ordinal'",
        "features.a",
        "categories",
    ),
    "range upside down": (
        "[features.a]\ntype='number'\nseen=[2, 1]",
        "features.a",
        "lower first",
    ),
    "range of text": (
        "[features.a]\ntype='category'\nreference=[1, 2]",
        "features.a",
        "number",
    ),
    "normalise without group": (
        "[features.a]\ntype='number'\nnormalise='within_group'",
        "group",
        "[cohort]",
    ),
    "label as feature": (
        "[cohort]\nlabel='a'\n[features.a]\ntype='number'",
        "'a'",
        "remove",
    ),
    "positive and negative": (
        "[cohort]\npositive='yes'\nnegative='yes'",
        "both `positive`",
        "once",
    ),
    "two coordinates": ("[cohort]\ncoordinates=['x', 'y']", "coordinates", "three"),
    "prevalence of one": (
        "[cohort]\nprevalence=1.0",
        "cohort.prevalence",
        "less than 1",
    ),
    "fewest above most": (
        "[cohort]\nrows_per_night=[9, 8]",
        "cohort.rows_per_night",
        "lower first",
    ),
    "newer format": ("format = 2", "format 2", "format 1"),
    "no toml": ("[cohort", "contract.toml", "TOML"),
    "two at once": (
        "[features.a]\ntype='float'\n[features.b]\nc=1",
        "features.a",
        "features.b.c",
    ),
}


@pytest.mark.parametrize(
    ("text", "place", "remedy"), FAULTY.values(), ids=FAULTY.keys()
)
def test_a_faulty_contract_is_refused_naming_key_and_remedy(
    tmp_path, text, place, remedy
):
    path = tmp_path / "contract.toml"
    path.write_text(text)
    with pytest.raises(CohortError) as refused:
        Contract.load(path)
    assert place in str(refused.value)
    assert remedy in str(refused.value)


def test_contract_many_unknown_keys(tmp_path):
    """Twenty faults are named and the others are counted."""
    path = tmp_path / "contract.toml"
    lines = [f"k{number} = 1" for number in range(3000)]
    path.write_text("\n".join(["[cohort]", *lines]))

    with pytest.raises(CohortError) as refused:
        Contract.load(path)

    *named, last = refused.value.violations
    assert len(named) == 20
    assert last == f"{path.name}: and 2,980 more"


def test_contract_keys_of_cohort_pasted_at_the_end(tmp_path):
    """Keys of [cohort] below a feature are one fault, which tells where they belong."""
    path = tmp_path / "contract.toml"
    features = "[features.age]\ntype = 'number'\n[features.sex]\ntype = 'boolean'\n"
    path.write_text(features + "series = 'ward-7'\ndisplay = ['bed']\ncapacity = 40\n")

    with pytest.raises(CohortError) as refused:
        Contract.load(path)

    first, *rest = str(refused.value).splitlines()
    (line,) = rest or [first]
    assert "[features.sex] has `series`, `display`, `capacity`" in line
    assert "above the first [features...] table" in line


@pytest.mark.parametrize(
    ("feature", "value", "text"),
    [
        (Feature(type="number"), 37.50000001, "37.5"),
        (Feature(type="number"), float("nan"), "missing"),
        (Feature(type="boolean"), 1.0, "yes"),
        (Feature(type="boolean"), 0.0, "no"),
        (Feature(type="ordinal", categories=["low", "high"]), 1.0, "high"),
        (Feature(type="category"), "ICU", "ICU"),
        (Feature(type="category"), None, "missing"),
    ],
)
def test_a_typed_value_is_shown_as_a_reader_would_write_it(feature, value, text):
    assert feature.format_value(value) == text


DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """Text of a starter contract."""
    path = written(patients(), tmp_path_factory.mktemp("starter") / "past.csv")
    contract, notes = starter_contract(path)
    return contract.to_toml(notes)


def test_the_reference_is_the_one_the_types_give():
    made = runpy.run_path(str(DOCS / "contract.py"))["reference"]()
    assert made == (DOCS / "contract.md").read_text("utf-8")


def test_every_key_has_a_meaning():
    fields = [*Contract.model_fields.items(), *Feature.model_fields.items()]
    undescribed = [name for name, field in fields if not field.description]
    assert undescribed == []


def test_starter_contract_order(starter):
    """A starter contract has the roles on top then features and notes last."""
    lines = starter.splitlines()
    is_feature = [line.startswith("[features.") for line in lines]
    top = lines[: is_feature.index(True)]
    assert len(top) <= 30
    keys = [line.split(" = ")[0] for line in top]
    assert {"id", "label", "positive", "# capacity", "# display"} <= {*keys}
    comments = [line.split("# ")[-1] for line in lines if "# " in line]
    assert len({*comments}) == len(comments)
    assert "# - guessed role id: patient" in lines[-12:]


def test_a_key_of_the_cohort_may_be_set_by_taking_its_mark_away(starter):
    freed = re.sub(r"^# (\w+ = )", r"\1", starter, flags=re.MULTILINE)
    assert {"title", "series", "display", "capacity"} <= set(
        tomllib.loads(freed)["cohort"]
    )
    Contract.from_dict(tomllib.loads(freed))


def test_a_code_is_shown_with_the_words_of_the_sites_own_dictionary(tmp_path):
    (tmp_path / "icd.csv").write_text(
        'code,words\nI50,Heart failure\nK35,"Appendicitis, acute"\n'
    )
    place = tmp_path / "cohort.toml"
    place.write_text('[features.diag]\ntype = "category"\nlabels = "icd.csv"\n')

    feature = Contract.load(place).features["diag"]

    shown = {
        "I50": "I50 Heart failure",
        "K35": "K35 Appendicitis, acute",
        "Z00": "Z00",
        None: "missing",
    }
    assert {code: feature.format_value(code) for code in shown} == shown
    again = Contract.from_dict(Contract.load(place).to_dict())
    assert again.features["diag"].format_value("I50") == "I50 Heart failure"
    (tmp_path / "icd.csv").unlink()
    with pytest.raises(UsageError, match="icd"):
        Contract.load(place)
