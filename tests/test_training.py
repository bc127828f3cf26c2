"""From a labelled table to a model, of one class or several: what is tuned on what, and
what came later.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, logit
from sklearn.metrics import accuracy_score
from written_files import page_in

from screening import load_model, read_cohort, save_model, score, train
from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.estimators.base import class_log_odds
from screening.estimators.forests import RandomForest
from screening.model_selection.temporal_validation import split_by_time


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm", search=4)


def test_every_row_is_held_out_once_and_again_in_every_repeat(model, cohort, trained):
    """Calibration holds the negatives alone; nothing depends on the number of
    threads.
    """
    columns = {"id", "held", "fold", "label", "score", "trained:score"}
    once = trained(cohort, "svm", search=1, repeats=1)
    twice = trained(cohort, "svm", search=1, repeats=2)
    is_negative = model.validation["label"] == "no"
    negatives = model.validation.loc[is_negative, "score"]

    assert (
        sorted(model.validation["id"])
        == sorted(once.validation["id"])
        == sorted(cohort.id)
    )
    assert set(once.validation.columns) == columns
    by_repeat = {"score@0", "score@1", "score@2"}
    assert set(model.validation.columns) == columns | by_repeat
    n_machines = [len(each.ensemble.machines) for each in (once, twice, model)]
    assert n_machines == [5, 10, 15]
    assert np.array_equal(twice.validation["score@0"], once.validation["score"])
    assert np.array_equal(model.calibration, np.sort(negatives))
    in_parallel = trained(cohort, "svm", search=4, jobs=2)
    assert in_parallel.digest == model.digest


def test_a_sub_sample_is_stated_and_keeps_the_prevalence_of_the_table(cohort, trained):
    """A parameter that the caller fixes is not searched; a one-class recipe learns from
    negatives alone.
    """
    part = trained(cohort, "svm", search=1, max_rows=150).document
    fixed = trained(cohort, "svm", search=5, params={"C": 0.5}).document
    alone = trained(cohort, "one_class", search=1)
    others = cohort.take(cohort.label == "no")
    encoded = alone.encoder.transform(others.values)
    negatives = {row.tobytes() for row in encoded}
    vectors = alone.ensemble.union[0]
    learned = {row.tobytes() for row in vectors}

    assert "trained and validated on 150 of 240 rows" in " ".join(
        part["training"]["notes"]
    )
    assert part["operating_points"][0]["prevalence"] == pytest.approx(
        (cohort.label == "yes").mean()
    )
    candidates = fixed["validation"]["search"]["candidates"]
    assert {choice["C"] for choice in candidates} == {0.5}
    assert fixed["recipe"]["parameters"]["C"] == 0.5
    assert learned
    assert learned <= negatives


@pytest.mark.parametrize(
    ("recipe", "machines"),
    [
        ("svm", 15),
        ("logistic", 15),
        ("balanced_forest", 5),
        ("williams", 5),
    ],
)
def test_repeats_by_default(cohort, recipe, machines, trained):
    """Folds are dealt again where nobody asks only if the machines average to one."""
    document = trained(cohort, recipe, search=1).document

    assert document["validation"]["n_machines"] == machines


def test_labels_that_cannot_be_trained_on_are_refused(tissue):
    """A row without a label is not taken for one without the condition."""
    table = patients()
    night = read_cohort(table.drop(columns="ill"), id="patient")
    table.loc[:9, "ill"] = None
    past = read_cohort(table, label="ill", id="patient")

    with pytest.raises(UsageError, match="`positive`"):
        train(tissue, "svm", beside=())
    with pytest.raises(UsageError, match="`label`"):
        train(night, "svm", beside=())
    with pytest.raises(
        CohortError, match=rf"column 'ill': 10 of {len(table)} rows have no label"
    ):
        train(past, "logistic", search=1, beside=())


def test_a_column_that_holds_nothing_has_no_range_and_ends_no_training(tmp_path):
    table = patients().assign(lactate=np.nan)
    whole = read_cohort(
        table.drop(columns="lactate"), label="ill", id="patient"
    ).contract.to_dict()
    features = whole["features"] | {"lactate": {"type": "number"}}
    contract = Contract.from_dict(
        whole | {"features": features, "feature_order": [*features]}
    )
    past = read_cohort(table, contract)
    model = train(past, "logistic", search=1, beside=())
    loaded = load_model(save_model(model, tmp_path / "model"))
    facts = loaded.facts.training.features

    (lactate,) = [each for each in facts if each.name == "lactate"]
    assert lactate.reference is lactate.seen is None


ROLES = {
    "id": "patient",
    "label": "ill",
    "time": "day",
    "subgroup": ["sex"],
    "capacity": 10,
    "minutes_per_review": 4,
}
KINDS = {"fever": "number", "crp": "number", "ward": "category"}
SETTINGS = {"search": 1, "beside": ()}


@pytest.fixture(scope="module")
def rows():
    table = patients(300, 0.25)
    is_third = np.arange(300) % 3 == 0
    table["sex"] = np.where(is_third, "f", "m")
    days = pd.date_range("2025-01-01", periods=300, freq="D")
    table["day"] = days.strftime("%Y-%m-%d")
    features = {name: {"type": kind} for name, kind in KINDS.items()}
    return read_cohort(
        table,
        Contract.from_dict({"cohort": ROLES, "features": features}),
        need_label=True,
    )


@pytest.fixture(scope="module")
def dated(rows):
    return train(rows, "svm_weighted", **SETTINGS)


def test_split_by_time_groups(rows):
    """The past ends before what came after and no group stands on both sides.

    Rows without a date belong to the past.
    """
    names = [f"g{i % 40}" for i in range(300)]
    groups = np.array(names, dtype=object)
    time = rows.time.copy()
    time[-5:] = np.datetime64("NaT", "ns")
    past, later, cut = split_by_time(rows)
    grouped_past, grouped_later, _ = split_by_time(rows, groups)
    undated_past, undated_later, _ = split_by_time(replace(rows, time=time))

    cut_day = np.datetime64(cut)
    last_of_past = rows.time[past].max()
    assert last_of_past < cut_day <= rows.time[later].min()
    assert len(past) == 210
    assert len(past) + len(later) == 300
    assert len(undated_past) + len(undated_later) == 300
    assert not set(groups[grouped_past]) & set(groups[grouped_later])
    assert set(range(295, 300)) <= set(undated_past)


def test_temporal_validation_recorded(dated, rows):
    """Training records the test of time and learns nothing from what came after.

    Too few later cases are a stated reason.
    """
    is_earlier = np.arange(300) < 210
    fever = np.where(is_earlier, rows.values["fever"], 30.0)
    label = np.where(is_earlier, rows.label, "no")
    changed = (
        replace(rows, values={**rows.values, "fever": fever}),
        replace(rows, label=label.astype(object)),
    )
    forward = dated.facts.validation.forward
    validations = []
    for cohort in changed:
        model = train(cohort, "svm_weighted", **SETTINGS)
        validations.append(model.facts.validation.forward)
    other, few = validations
    own = forward.classes["yes"]
    others = other.classes["yes"]

    assert forward.cut == "2025-07-30"
    assert forward.n_past == 210
    assert forward.n_later == 90
    assert forward.reason is None
    assert own.n_positive + own.n_negative == 90
    assert others.threshold == own.threshold
    assert others["sensitivity"] != own["sensitivity"]
    assert "has 0 cases, but 5 are needed" in few.reason


def test_a_night_and_its_page_show_all_of_it(dated, tmp_path):
    sexes = ["f", None] + ["m"] * 78
    night = patients(80, seed=7).assign(day="2026-01-31", sex=sexes)
    run = score(dated, night, tmp_path / "run", date="2026-01-31")
    page = page_in(run.directory)
    subgroups = run.document["subgroups"]
    levels = {row["level"]: row["n"] for row in subgroups}

    assert levels == {"f": None, "m": 78, None: None}
    assert (
        run.document["prevalence_estimate"]["low"]
        <= run.document["prevalence_estimate"]["value"]
    )
    for words in (
        "Subgroups",
        "suppressed",
        "What a flag means here",
        "Temporal validation",
        "2025-07-30",
        "Capacity is 10 reviews a night",
        "TRIPOD+AI",
        "Drift tonight",
    ):
        assert words in page


QUICK = {
    "search": 1,
    "repeats": 1,
    "folds": 3,
    "beside": (),
}


def ward(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Three illnesses and patients without one; each column tells of one illness."""
    rng = default_rng(seed)
    kind = rng.choice(["none", "A", "B", "C+"], n, p=[0.7, 0.12, 0.1, 0.08])
    ids = [f"p{i}" for i in range(n)]
    table = pd.DataFrame({"id": ids, "kind": kind})
    for name in ("A", "B", "C+"):
        mean = 1.7 * (kind == name)
        table[f"of_{name}"] = rng.normal(mean, 1.0)
    return table


def model_of(folder, recipe: str, positive: str | list[str] | None):
    past = read_cohort(
        ward(),
        label="kind",
        id="id",
        positive=positive,
        need_label=True,
    )
    model = train(past, recipe, **QUICK)
    return load_model(save_model(model, folder / "model"))


def test_class_log_odds_are_those_of_the_probabilities():
    """Of each class against the others, whatever number a row's logs are off by; of
    two, the second's.
    """
    logs = default_rng(0).normal(size=(20, 4)) * 30
    p = np.exp(log_softmax(logs, axis=1))
    found = class_log_odds(logs)

    sure = (p > 1e-6) & (p < 1 - 1e-6)
    assert sure.sum() > 10
    expected = logit(p[sure])
    assert_allclose(found[sure], expected, rtol=1e-6)
    assert np.isfinite(found).all()
    of_two = logs[:, :2]
    difference = logs[:, 1] - logs[:, 0]
    assert_array_equal(class_log_odds(of_two), difference)


def test_rows_that_no_tree_gives_a_share_of_a_class_have_one_score():
    """Rounding would spread them, and folds that are all but alike would seem to lie
    apart.
    """
    x = default_rng(0).normal(size=(300, 4))
    y = np.digitize(x[:, 0], [-0.8, 0, 0.8])
    forest = RandomForest(n_estimators=50).fit(x, y)
    none = forest.predict_proba(x)[:, 3] == 0
    assert none.sum() > 20
    decisions = forest.decision_function(x)[none, 3]
    assert len(np.unique(decisions)) == 1


@pytest.mark.parametrize(
    "recipe", ["auto", "random_forest", "balanced_forest", "logistic", "one_vs_rest"]
)
def test_positive_value_is_a_class(tmp_path, recipe):
    """Each positive value is a class with its own score and threshold.

    Each watched class ranks its own cases, and the predicted class keeps to how common
    classes are.
    """
    model = model_of(tmp_path, recipe, ["A", "C+"])
    tonight = ward(seed=1)
    scores = model.score_frame(tonight.drop(columns="kind"))

    assert model.watched == ["A", "C+"]
    classes = [point["class"] for point in model.operating_points]
    assert classes == ["A", "C+"]
    assert set(model.facts.validation.calibration) == {"A", "C+"}
    for name, other in (("A", "C+"), ("C+", "A")):
        own = scores[f"score_{name}"]
        is_own = tonight.kind == name
        is_other = tonight.kind == other
        assert own[is_own].median() > own[is_other].median()
    accuracy = accuracy_score(tonight.kind, scores["predicted"])
    share_none = (tonight.kind == "none").mean()
    # Classes guessed without regard to how common they are lose far more by it.
    assert accuracy > share_none - 0.03


def test_predicted_class_highest_chance(tmp_path):
    """The predicted class has the highest chance and not the highest score.

    A forest whose trees draw all classes alike scores rare ones high; chances know how
    rare they are.
    """
    model = model_of(tmp_path, "balanced_forest", ["A", "C+"])
    tonight = ward(seed=1)
    scores = model.score_frame(tonight.drop(columns="kind"))
    columns = [f"score_{name}" for name in model.facts.task.classes]
    loudest = np.array(model.facts.task.classes)[
        scores[columns].to_numpy().argmax(axis=1)
    ]
    ill = float(np.mean(tonight.kind != "none"))
    told = float(np.mean(scores.predicted != "none"))
    loud = float(np.mean(loudest != "none"))
    assert abs(told - ill) < abs(loud - ill) - 0.05
    assert accuracy_score(tonight.kind, scores.predicted) > accuracy_score(
        tonight.kind, loudest
    )


@pytest.mark.parametrize("recipe", ["logistic", "svm", "one_vs_rest"])
def test_joined_classes_labelled_night(tmp_path, recipe):
    """Classes joined by a plus are one class also when a labelled night is scored."""
    model = model_of(tmp_path, recipe, "A+C+")
    tonight = tmp_path / "night.csv"
    ward(seed=1).to_csv(tonight, index=False)
    run = score(model, str(tonight), tmp_path / "run", label="kind")
    assert model.watched == ["A+C+"]
    seen = run.document["evaluation"]["A+C+"]
    is_positive = ward(seed=1).kind.isin(["A", "C+"])
    assert seen["n_positive"] == is_positive.sum()


@pytest.mark.parametrize("recipe", ["svm", "one_class"])
def test_recipe_refuses_two_classes(tmp_path, recipe):
    """A recipe of one class and the rest refuses two and says how to ask.

    Under others the rare are watched where none is named.
    """
    model = model_of(tmp_path, "logistic", None)
    assert set(model.watched) == {"B", "C+"}
    with pytest.raises(
        UsageError,
        match=r"A, B are to be watched.*`positive` A\+B, or choose a recipe .*auto",
    ):
        model_of(tmp_path, recipe, ["A", "B"])


def test_the_past_alone_is_asked_for_the_rare_classes_of_all_rows():
    """Rare in the past alone may be another class: the temporal validation is of those
    that are watched.
    """
    rng = default_rng(0)
    late = np.arange(600) > 420
    kind = []
    for is_late in late:
        shares = [0.5, 0.06, 0.44] if is_late else [0.75, 0.2, 0.05]
        kind.append(rng.choice(["none", "A", "B"], p=shares))
    kind = np.array(kind)
    table = pd.DataFrame(
        {
            "kind": kind,
            "of_A": rng.normal(kind == "A"),
            "of_B": rng.normal(kind == "B"),
        }
    )
    table["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(
        np.arange(600), unit="D"
    )
    contract = Contract(time="day")
    past = read_cohort(table, contract, label="kind", need_label=True)
    model = train(past, "logistic", **QUICK)

    is_b = kind == "B"
    is_a = kind == "A"
    assert is_b[~late].mean() < 0.5 / 3 < is_a[~late].mean()
    assert model.watched == ["A"]
    assert list(model.facts.validation.forward.classes) == ["A"]
