"""A model trained without cases: what it promises, what it says is unknown, and how
cases come to it.
"""

import re

import numpy as np
import pandas as pd
import pytest
from commands import as_json, sampled, screen, verdict_file
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from scipy import stats
from written_files import page_in

from screening import (
    MaxFlagRate,
    MinSensitivity,
    Screen,
    Validation,
    load_model,
    train,
)
from screening.data.labels import means_case
from screening.data.reading import starter_contract
from screening.errors import ScreenError, UsageError
from screening.metrics.intervals import exact_interval
from screening.metrics.rank_threshold import RankSelector
from screening.model_selection.revising import set_threshold
from screening.recipes.building import load_recipe
from screening.report import render_model
from screening.schemas.figures import NO_CASE_SEEN, Threshold
from screening.store.serialization import read_document

NAMES = ("--id", "patient")
ONCE = Validation(repeats=1)
QUICK = ("--recipe", "one_class", "--repeats", "1", "--jobs", "1")
RULE = ("--max-flag-rate", "0.1")


def selector(scores, n_cases=0, groups=None):
    """Choose by these scores; the first rows are known cases."""
    positive = np.arange(len(scores)) < n_cases
    return RankSelector.of(scores, positive, groups, 0, None, None)


def well(n_rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Return patients without the condition."""
    return patients(n_rows, share=0.0, seed=seed)


def past_with(n_cases: int) -> pd.DataFrame:
    """Return patients of whom few have the condition."""
    ill = patients(n_cases, share=1.0, seed=9)
    return pd.concat([well(), ill], ignore_index=True)


PASTS = {
    "no label": well().drop(columns="ill"),
    "one value": well(),
    "one case": past_with(1),
    "two cases": past_with(2),
}


def label_of(past: pd.DataFrame) -> dict[str, str]:
    return {"label": "ill"} if "ill" in past else {}


@pytest.fixture(scope="module")
def models():
    """Return a model of each past."""
    trained = {}
    for name, past in PASTS.items():
        trained[name] = train(
            past,
            "one_class",
            rule=MaxFlagRate(0.1),
            repeats=1,
            jobs=1,
            id="patient",
            **label_of(past),
        )
    return trained


# The threshold.


@given(
    n=st.integers(20, 400),
    rate=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**31),
)
def test_threshold_is_rank(n, rate, seed):
    """Without ties it is the ceil((1 - R)(n + 1))-th smallest score."""
    scores = default_rng(seed).normal(size=n)
    rank = int(np.ceil((1 - rate) * (n + 1) - 1e-9))

    point = selector(scores).point(MaxFlagRate(rate))

    assert point.threshold == np.sort(scores)[rank - 1]
    expected = (n + 1 - rank) / (n + 1)
    assert point["flag_rate"].value == pytest.approx(expected)
    assert point["flag_rate"].value <= rate + 1e-9


@given(
    scores=st.lists(st.integers(0, 8), min_size=20, max_size=200),
    rate=st.floats(0.05, 0.9),
)
def test_threshold_among_ties_flags_no_more(scores, rate):
    """Of equal scores at the rank none is flagged: the p-value of a flag stays at most
    R.
    """
    rows = np.array(scores, float)
    point = selector(rows).point(MaxFlagRate(rate))

    n_flagged = np.count_nonzero(np.array(scores) >= point.threshold)

    assert n_flagged <= rate * (len(scores) + 1) + 1e-9


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_share_of_new_rows_has_beta_law(rate):
    """Above the k-th smallest of n scores lies a share of Beta(n + 1 - k, k), at most R
    in the mean.
    """
    rng = default_rng(0)
    n = 150
    rank = int(np.ceil((1 - rate) * (n + 1) - 1e-9))
    shares = []
    for _ in range(1000):
        scores = rng.uniform(size=n)
        # Of uniform scores the share above a threshold is known.
        point = selector(scores).point(MaxFlagRate(rate))
        shares.append(1 - point.threshold)

    law = stats.beta(n + 1 - rank, rank)

    assert stats.kstest(shares, law.cdf).pvalue > 1e-3
    assert law.mean() <= rate


def test_interval_of_share_covers():
    """The interval of the share holds for the share of new rows in 95 % or more."""
    rng = default_rng(1)
    n_covered = 0
    for _ in range(400):
        scores = rng.uniform(size=200)
        point = selector(scores).point(MaxFlagRate(0.1))
        share = 1 - point.threshold
        n_covered += point["flag_rate"].low <= share <= point["flag_rate"].high

    assert n_covered >= 0.95 * 400


def test_rows_of_few_patients_are_worth_less():
    """Where rows come in groups, fewer rows are flagged and the interval is wider."""
    rng = default_rng(2)
    groups = np.repeat(np.arange(40), 10)
    shared = rng.normal(size=40)
    scores = shared[groups] + 0.1 * rng.normal(size=400)

    grouped = selector(scores, groups=groups).point(MaxFlagRate(0.1))
    alone = selector(scores).point(MaxFlagRate(0.1))

    assert grouped.threshold >= alone.threshold
    assert grouped["flag_rate"].value <= 0.1 + 1e-9
    assert grouped["flag_rate"].low < alone["flag_rate"].low
    assert grouped.n_groups == 40


def test_share_promised_of_new_patients():
    """In the mean over patients' own levels at most R of new rows are flagged."""
    rng = default_rng(3)
    groups = np.repeat(np.arange(60), 5)
    law = stats.norm(scale=np.sqrt(1.25))
    shares = []
    for _ in range(200):
        shared = rng.normal(size=60)
        scores = shared[groups] + 0.5 * rng.normal(size=300)
        point = selector(scores, groups=groups).point(MaxFlagRate(0.1))
        shares.append(law.sf(point.threshold))

    error = np.std(shares) / np.sqrt(200)
    assert np.mean(shares) <= 0.1 + 2 * error


@pytest.mark.parametrize(
    ("found", "n"),
    [
        (0, 1),
        (1, 1),
        (1, 2),
        (3, 4),
    ],
)
def test_sensitivity_is_of_known_cases(found, n):
    """Known cases are counted, with the interval of Clopper and Pearson, from one
    on.
    """
    cases = np.where(np.arange(n) < found, 5.0, -5.0)
    others = default_rng(0).normal(size=200)
    scores = np.concatenate([cases, others])

    point = selector(scores, n_cases=n).point(MaxFlagRate(0.05))

    exact = stats.binomtest(found, n).proportion_ci(method="exact")
    assert point["sensitivity"].value == found / n
    assert point["sensitivity"].low == pytest.approx(exact.low)
    assert point["sensitivity"].high == pytest.approx(exact.high)
    assert f"{found} of {n} known cases" in point.notes[0]
    expected = (exact.low, exact.high)
    assert exact_interval(found, n) == pytest.approx(expected)


def test_threshold_above_all_rows_is_noted():
    point = selector(np.arange(100.0)).point(Threshold(100.0))

    assert point["flag_rate"].value == 0
    assert "none of these rows is flagged" in point.notes


def test_cases_choose_no_threshold():
    """The threshold is the same whatever the scores of known cases are."""
    rows = np.sort(default_rng(0).normal(size=100))
    # Also of a case next to the row at the rank.
    near = (rows[89] + rows[90]) / 2
    thresholds = set()
    for score in (-9.0, near, 9.0):
        scores = np.append(score, rows)
        point = selector(scores, n_cases=1).point(MaxFlagRate(0.1))
        thresholds.add(point.threshold)

    assert thresholds == {rows[90]}


# The setting.


def test_contamination_is_stated_in_numbers():
    """The card has the share, and between which shares of rows without the condition
    are flagged.
    """
    model = train(
        PASTS["no label"],
        "one_class",
        rule=MaxFlagRate(0.1),
        contamination=0.04,
        repeats=1,
        jobs=1,
        id="patient",
    )

    stated = model.facts.validation.without_cases
    assert stated.contamination == 0.04
    notes = " ".join(model.facts.training.notes)
    assert "every unknown case is flagged, so are 6.25 % of rows without" in notes
    assert model.operating_points[0]["rule"]["value"] == 0.1


# Training.


@pytest.mark.parametrize("name", PASTS)
def test_trained_without_cases(name, models):
    """The share flagged is promised, the setting is the recipe's own, known cases only
    judge.
    """
    model = models[name]
    facts = model.facts
    (point,) = facts.operating_points
    labels = PASTS[name].get("ill", pd.Series(dtype=str))
    n_cases = int((labels == "yes").sum())

    assert facts.validation.without_cases is not None
    assert facts.validation.search.n_candidates == 1
    assert dict(facts.recipe.parameters) == load_recipe("one_class").parameters
    assert point.n_positive == n_cases
    assert point.n_negative == 240
    assert 0.05 < point["flag_rate"].value <= 0.1 + 0.02 * n_cases
    assert (point["sensitivity"].value is None) == (n_cases == 0)
    assert len(model.calibration) == 240


@pytest.mark.parametrize("name", ["no label", "one value"])
def test_figures_unknown_without_case(name, models):
    """Nothing that needs a case has a value, and the document says why."""
    facts = models[name].facts
    (point,) = facts.operating_points
    for figure in (point["sensitivity"], point["ppv"], point["npv"], point["nne"]):
        assert figure.value is None
    calibration = facts.validation.calibration[point.label]

    assert point.prevalence is None
    assert facts.validation.own_boundary is None
    assert facts.validation.summary[point.label]["auroc"].value is None
    assert facts.validation.search.scores == [None]
    assert any(NO_CASE_SEEN in note for note in point.notes)
    assert not calibration.earned
    assert "no case has been seen" in calibration.reason
    assert "no_case_seen" in [reason.code for reason in facts.attention]


def test_state_of_rows(models):
    """Rows without a label column are of unknown state, and it is said so."""
    states = {
        name: model.facts.validation.without_cases.state
        for name, model in models.items()
    }
    notes = " ".join(models["no label"].facts.training.notes)

    assert states.pop("no label") == "unknown"
    assert set(states.values()) == {"without the condition"}
    assert "the state of every row is unknown" in notes


def test_share_of_new_patients_is_within_interval():
    """Of new patients without the condition the share that is flagged is as
    promised.
    """
    new = well(3000, seed=99).drop(columns="ill")
    shares = []
    n_covered = 0
    for seed in range(10):
        past = well(120, seed=seed).drop(columns="ill")
        model = train(
            past,
            "one_class",
            rule=MaxFlagRate(0.1),
            repeats=1,
            jobs=1,
            id="patient",
        )
        promised = model.facts.operating_points[0]["flag_rate"]
        share = float(model.score_frame(new)["flagged"].mean())
        n_covered += promised.low <= share <= promised.high
        shares.append(share)

    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= 0.1 + 2 * error
    assert n_covered >= 9


def test_ill_patients_are_flagged_more_often(models):
    """What was never seen is found where it is unlike the past."""
    ill = patients(500, share=1.0, seed=5).drop(columns="ill")

    flagged = models["no label"].score_frame(ill)["flagged"]

    assert flagged.mean() > 0.2


def test_groups_are_never_split():
    """Rows of a patient are in one fold, also without labels."""
    past = well(300).drop(columns="ill")
    past["person"] = np.repeat(np.arange(60), 5)

    model = train(
        past,
        "one_class",
        rule=MaxFlagRate(0.1),
        repeats=1,
        jobs=1,
        id="patient",
        group="person",
    )

    folds = model.validation.groupby("group")["fold"].nunique()
    assert folds.max() == 1
    assert model.facts.operating_points[0].n_groups == 60


def test_subgroups_have_shares_of_flags():
    """Of each subgroup the share that is flagged is known, and no sensitivity."""
    past = well().drop(columns="ill")
    is_female = np.arange(240) % 2 > 0
    past["sex"] = np.where(is_female, "f", "m")
    contract, _ = starter_contract(past, id="patient")

    model = train(
        past,
        "one_class",
        rule=MaxFlagRate(0.1),
        repeats=1,
        jobs=1,
        contract=contract.model_copy(update={"subgroup": ["sex"], "label": None}),
    )

    ((facts,),) = model.facts.validation.subgroups.values()
    assert [level.level for level in facts.rows] == ["f", "m"]
    assert all(level["sensitivity"].value is None for level in facts.rows)
    shares = [level["flag_rate"].value for level in facts.rows]
    assert np.mean(shares) == pytest.approx(0.1, abs=0.01)


def test_table_with_enough_cases_is_searched():
    """With a case for every fold the search and the rule use the cases, as before."""
    model = train(
        past_with(5),
        "one_class",
        rule=MaxFlagRate(0.1),
        search=2,
        repeats=1,
        jobs=1,
        label="ill",
        id="patient",
        beside=(),
    )

    assert model.facts.validation.without_cases is None
    assert model.facts.validation.search.n_candidates == 2


@pytest.mark.parametrize(
    ("past", "changes", "words"),
    [
        (
            "no label",
            {"rule": MinSensitivity(0.9)},
            "`min_sensitivity` needs at least 2",
        ),
        ("one case", {"rule": MinSensitivity(0.5)}, "there are 1"),
        ("no label", {"contamination": 0.5}, "at least 0 and below 0.5"),
        ("no label", {"search": 4}, "`search` compares settings by cases"),
        ("no label", {"beside": ["logistic"]}, "`beside` compares methods by cases"),
        ("no label", {"rule": MaxFlagRate(0.001)}, "at least 999"),
        ("one value", {"recipe": "logistic"}, "train without cases"),
    ],
)
def test_refused(past, changes, words):
    """What needs cases says in one sentence how many, or what to do without."""
    arguments = {"recipe": "one_class", "rule": MaxFlagRate(0.1), "jobs": 1}
    table = PASTS[past]

    arguments = arguments | changes
    with pytest.raises(ScreenError, match=re.escape(words)):
        train(table, id="patient", **label_of(table), **arguments)


def test_contamination_with_cases_is_refused():
    """Where cases are known labels are taken as true."""
    with pytest.raises(UsageError, match="`contamination` needs a one-class recipe"):
        train(
            patients(),
            "one_class",
            rule=MaxFlagRate(0.1),
            contamination=0.1,
            label="ill",
            id="patient",
        )


def test_every_row_a_case_is_refused():
    """A one-class machine learns from rows without the condition."""
    with pytest.raises(UsageError, match="every row is a case"):
        train(
            patients(60, share=1.0),
            "one_class",
            rule=MaxFlagRate(0.1),
            label="ill",
            id="patient",
        )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes", True),
        ("1", True),
        ("no", False),
        ("0.0", False),
        ("sepsis", None),
    ],
)
def test_label_by_words(text, meaning):
    """Where no row of training was a case, words tell which label is one."""
    assert means_case(text) is meaning


def test_temporal_validation_compares_share_flagged():
    """Later rows that differ from the past are flagged more often than promised."""
    rng = default_rng(0)
    numbers = rng.normal(size=(300, 3))
    past = pd.DataFrame(numbers, columns=["a", "b", "c"])
    past.loc[210:, "a"] += 4.0
    days = pd.date_range("2025-01-01", periods=300)
    past["admitted"] = days.strftime("%Y-%m-%d")

    model = train(
        past,
        "one_class",
        rule=MaxFlagRate(0.1),
        repeats=1,
        jobs=1,
        time="admitted",
    )

    forward = model.facts.validation.forward
    (later,) = forward.classes.values()
    assert forward.n_past == 210
    assert forward.n_later == 90
    assert later.n_positive == 0
    assert later["sensitivity"].value is None
    assert later["specificity"].high < 0.5
    assert model.facts.operating_points[0]["specificity"].value > 0.88
    assert "Rows not flagged" in render_model(model.document)
    revised = set_threshold(model, MaxFlagRate(0.2), "more capacity")
    (later,) = revised.facts.validation.forward.classes.values()
    assert later.rule == MaxFlagRate(0.2)


# Python.


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (None, ["negative", "case"]),
        (np.zeros(120, int), [0, 1]),
        (np.zeros(120, bool), [False, True]),
        (np.full(120, "healthy"), ["healthy", "case"]),
    ],
)
def test_screen_fits_without_cases(y, classes):
    """The classifier learns from rows alone, and flags what is unlike them.

    Its classes are values of y, as those of scikit-learn's classifiers.
    """
    x = default_rng(0).normal(size=(120, 3))
    classifier = Screen(
        "one_class", rule=MaxFlagRate(0.1), validation=ONCE, chances=True
    )

    classifier.fit(x, y)

    assert classifier.classes_.tolist() == sorted(classes)
    assert classifier.positive_ == classes[1]
    far = np.full((1, 3), 9.0)
    middle = np.zeros((1, 3))
    assert classifier.predict(far).tolist() == [classes[1]]
    assert classifier.predict(middle).tolist() == [classes[0]]
    assert not hasattr(classifier, "predict_proba")


def test_screen_with_weights_and_without_cases():
    """Rows of weight 0 are left out, also where rows have no labels."""
    rng = default_rng(0)
    x = rng.normal(size=(120, 3))
    weight = rng.integers(0, 2, 120)
    classifier = Screen("one_class", rule=MaxFlagRate(0.1), validation=ONCE)

    classifier.fit(x, sample_weight=weight)

    (point,) = classifier.model_.facts.operating_points
    assert point.n_negative == np.count_nonzero(weight)


def test_screen_of_another_recipe_needs_labels():
    """Only a one-class recipe learns without labels."""
    with pytest.raises(ValueError, match="requires y to be passed"):
        Screen("logistic").fit(np.zeros((20, 2)))


# Commands.


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Return a folder with a model without a case and two nights, one with labels."""
    folder = tmp_path_factory.mktemp("ward")
    past = written(PASTS["no label"], folder / "past.csv")
    screen("train", past, *NAMES, *QUICK, *RULE, "--out", folder / "m")
    (folder / "in").mkdir()
    for day, label in ((1, ()), (2, ("--label", "ill"))):
        night = f"2026-03-{day:02d}"
        table = patients(80, share=0.3, seed=day)
        place = written(table, folder / "in" / f"{night}.csv")
        screen(
            "score",
            folder / "m",
            place,
            *label,
            "--out",
            folder / night,
            "--date",
            night,
            "--ledger",
            folder / "l.db",
            "--series",
            "ward-7",
        )
    return folder


def live_figures(folder) -> str:
    """Return what the history says in words."""
    return screen("history", "--ledger", folder / "l.db", "--series", "ward-7").stdout


def test_commands_say_what_is_unknown(ward):
    """Terminal, model's page and night's page say what is unknown, and what is
    promised.
    """
    again = screen(
        "train", ward / "past.csv", *NAMES, *QUICK, *RULE, "--out", ward / "again"
    )
    model_page = page_in(ward / "m")
    night_page = page_in(ward / "2026-03-01")

    assert f"sensitivity   {NO_CASE_SEEN}" in again.stdout
    assert "of rows like those of training" in again.stdout
    for page in (model_page, night_page):
        assert "Sensitivity, PPV and chance are unknown: no case has been seen" in page
        assert "rows of unknown state like those of training, about" in page
    assert "None %" not in model_page + night_page
    assert "case_seen" in str(read_document(ward / "2026-03-01", "run")["attention"])


def test_labelled_night_is_evaluated(ward):
    """A night with labels has figures, by labels that no row of training had."""
    run = read_document(ward / "2026-03-02", "run")

    observed = run["evaluation"]["case"]

    assert observed["n_positive"] > 10
    assert observed["figures"]["sensitivity"]["value"] is not None


def test_history_fills_in_what_was_unknown(ward):
    """Labels and verdicts tell sensitivity and PPV night by night; retraining has cases
    then.
    """
    before = live_figures(ward)
    run = read_document(ward / "2026-03-01", "run")
    table = pd.read_csv(ward / "in" / "2026-03-01.csv", dtype={"patient": str})
    ill = set(table["patient"][table["ill"] == "yes"])
    of_cases = [case["id"] for case in run["cases"]]
    names = [*of_cases, *sampled(run)]
    entries = [
        {"id": name, "verdict": "confirmed" if name in ill else "ruled out"}
        for name in names
    ]

    screen(
        "review",
        ward / "2026-03-01",
        verdict_file(ward / "2026-03-01", entries),
        "--ledger",
        ward / "l.db",
    )
    after = live_figures(ward)
    answer = as_json(
        "retrain",
        "ward-7",
        ward / "m",
        ward / "past.csv",
        "--nights",
        ward / "in" / "{date}.csv",
        "--ledger",
        ward / "l.db",
        "--out",
        ward / "next",
        "--jobs",
        "1",
    )
    model = load_model(ward / "next")

    assert "PPV of all flagged since 2026-03-01" in before
    assert "random audit has been judged" in before
    assert "labels of 1 night: sensitivity" in before
    assert re.search(r"PPV of all flagged since 2026-03-01 with model \w+ \d+%", after)
    assert answer["verdicts"]["confirmed"] == len(ill.intersection(names))
    n_found = len(ill.intersection(names))
    (point,) = model.facts.operating_points
    assert point.n_positive == n_found
    assert model.facts.training.n_by_class["unknown"] >= 240


def test_threshold_by_cases_is_refused_and_by_flags_chosen(ward, tmp_path):
    """Another share of flags can be chosen from the held-out scores; a rule of cases
    cannot.
    """
    screen(
        "train", ward / "past.csv", *NAMES, *QUICK, *RULE, "--out", tmp_path / "model"
    )
    anew = ("threshold", tmp_path / "model", "--reason", "capacity")

    refused = screen(*anew, "--miss-cost", "20", code=2)
    screen(*anew, "--max-flag-rate", "0.2")
    point = read_document(tmp_path / "model", "model")["operating_points"][0]

    assert "--miss-cost needs at least 5 cases, and there are 0" in refused.stderr
    assert 0.15 < point["figures"]["flag_rate"]["value"] <= 0.2
    assert point["figures"]["sensitivity"]["value"] is None


def test_threshold_by_hand(models):
    """A threshold given by hand has the share of rows that reach it."""
    scores = models["no label"].held_out["score"]

    threshold = float(np.quantile(scores, 0.7))
    point = selector(scores).point(Threshold(threshold))

    assert point["flag_rate"].value == pytest.approx(0.3, abs=0.01)


def test_validate_without_cases(ward, tmp_path):
    """On labelled patients everything is observed; what was promised is unknown or a
    share.
    """
    elsewhere = patients(200, share=0.3, seed=6)
    place = written(elsewhere, tmp_path / "other.csv")

    answer = as_json(
        "validate", ward / "m", place, "--label", "ill", "--out", tmp_path / "v"
    )

    promise = answer["classes"]["case"]["promise"]["figures"]
    (point,) = answer["operating_points"]
    assert promise["sensitivity"]["value"] is None
    assert promise["specificity"]["value"] > 0.85
    assert point["figures"]["sensitivity"]["value"] is not None


def test_compare_needs_cases(tmp_path):
    """Methods are compared by cases."""
    place = written(past_with(2), tmp_path / "past.csv")

    refused = screen(
        "compare",
        place,
        "--label",
        "ill",
        "--positive",
        "yes",
        *NAMES,
        "--recipes",
        "one_class",
        "--control",
        "one_class",
        *RULE,
        "--out",
        tmp_path / "c",
        code=2,
    )

    assert "methods cannot be compared" in refused.stderr


def test_no_unsure_outcome_is_guessed(tmp_path):
    """Without --label only a column of a sure name is taken for the outcome."""
    stroke = np.where(np.arange(240) % 9, "no", "yes")
    with_stroke = PASTS["no label"].assign(stroke=stroke)
    place = written(with_stroke, tmp_path / "past.csv")

    screen("train", place, *NAMES, *QUICK, *RULE, "--out", tmp_path / "m")

    document = read_document(tmp_path / "m", "model")
    assert document["validation"]["without_cases"]["state"] == "unknown"
    assert "stroke" in document["contract"]["features"]


def test_another_flag_rate_restates_contamination():
    """A new threshold says what it means, and keeps what so few rows can promise."""
    past = well(150, seed=3).drop(columns="ill")
    rule = MaxFlagRate(0.05)
    model = train(
        past,
        "one_class",
        rule=rule,
        contamination=0.02,
        repeats=1,
        jobs=1,
        id="patient",
    )

    changed = set_threshold(model, MaxFlagRate(0.1), "more beds")

    before = " ".join(model.facts.training.notes)
    after = " ".join(changed.facts.training.notes)
    assert "3.06 % of rows" in before
    assert "8.16 % of rows" in after
    assert "3.06 %" not in after
    with pytest.raises(UsageError, match="too few to promise a flag rate"):
        set_threshold(model, MaxFlagRate(0.001), "fewer beds")


def test_outcomes_without_chances(ward):
    """Flags are judged by what became of the patients; no chance was promised."""
    table = patients(80, share=0.3, seed=2)
    ill = table["patient"][table["ill"] == "yes"]
    lines = [f"{name},2026-03-03\n" for name in ill]
    (ward / "events.csv").write_text("patient,when\n" + "".join(lines))

    answer = as_json(
        *("outcomes", ward / "events.csv", "--ledger", ward / "l.db"),
        *("--series", "ward-7", "--id", "patient", "--time", "when"),
        *("--within", "3d", "--as-of", "2026-03-20"),
    )

    figures = answer["figures"]["figures"]
    assert figures["sensitivity"]["value"] > 0.3
    assert figures["observed_expected"]["value"] is None
