"""Several classes under every recipe: a score, a threshold and a chance each; A+B is one class."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import screen
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score

from screening import read_cohort, train
from screening.contract.contract import Contract
from screening.errors import UsageError
from screening.estimators.base import class_log_odds
from screening.estimators.forests import RandomForest
from screening.scoring.score import score
from screening.store.loading import load_model
from screening.store.model import save_model

QUICK = {"search": 1, "repeats": 1, "folds": 3, "beside": ()}


def ward(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Three illnesses and patients without one; each column tells of one illness."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["none", "A", "B", "C+"], n, p=[0.7, 0.12, 0.1, 0.08])
    columns = {f"of_{name}": rng.normal(1.7 * (kind == name), 1.0) for name in ("A", "B", "C+")}
    return pd.DataFrame({"id": [f"p{i}" for i in range(n)], "kind": kind} | columns)


def model_of(folder, recipe: str, positive: str | list[str] | None):
    past = read_cohort(ward(), label="kind", id="id", positive=positive, need_label=True)
    return load_model(save_model(train(past, recipe, **QUICK), folder / "model"))


def test_class_log_odds_are_those_of_the_probabilities():
    """Of each class against the others, whatever number a row's logs are off by; of two, the second's."""
    logs = np.random.default_rng(0).normal(size=(20, 4)) * 30
    p = np.exp(log_softmax(logs, axis=1))

    found = class_log_odds(logs)

    sure = (p > 1e-6) & (p < 1 - 1e-6)
    assert sure.sum() > 10
    np.testing.assert_allclose(found[sure], np.log(p[sure] / (1 - p[sure])), rtol=1e-6)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(class_log_odds(logs[:, :2]), logs[:, 1] - logs[:, 0])


def test_rows_that_no_tree_gives_a_share_of_a_class_have_one_score():
    """Rounding would spread them, and folds that are all but alike would seem to lie apart."""
    x = np.random.default_rng(0).normal(size=(300, 4))
    y = np.digitize(x[:, 0], [-0.8, 0, 0.8])
    forest = RandomForest(n_estimators=50).fit(x, y)

    none = forest.predict_proba(x)[:, 3] == 0

    assert none.sum() > 20
    assert len(np.unique(forest.decision_function(x)[none, 3])) == 1


@pytest.mark.parametrize("recipe", ["auto", "random_forest", "balanced_forest", "logistic", "one_vs_rest"])
def test_each_positive_value_is_a_class_with_its_own_score_and_threshold(tmp_path, recipe):
    """Each watched class ranks its own cases, and the predicted class keeps to how common classes are."""
    model, tonight = model_of(tmp_path, recipe, ["A", "C+"]), ward(seed=1)

    scores = model.score_frame(tonight.drop(columns="kind"))

    assert model.watched == ["A", "C+"]
    assert [point["class"] for point in model.operating_points] == ["A", "C+"]
    assert set(model.facts.validation.calibration) == {"A", "C+"}
    for name, other in (("A", "C+"), ("C+", "A")):
        own = scores[f"score_{name}"]
        assert own[tonight.kind == name].median() > own[tonight.kind == other].median()
    assert accuracy_score(tonight.kind, scores["predicted"]) > (tonight.kind == "none").mean()


def test_the_predicted_class_has_the_highest_chance_and_not_the_highest_score(tmp_path):
    """A forest whose trees draw all classes alike scores rare ones high; chances know how rare they are."""
    model, tonight = model_of(tmp_path, "balanced_forest", ["A", "C+"]), ward(seed=1)
    scores = model.score_frame(tonight.drop(columns="kind"))
    columns = [f"score_{name}" for name in model.facts.task.classes]
    loudest = np.array(model.facts.task.classes)[scores[columns].to_numpy().argmax(axis=1)]

    ill, told, loud = (float(np.mean(each != "none")) for each in (tonight.kind, scores.predicted, loudest))

    assert abs(told - ill) < abs(loud - ill) - 0.05
    assert accuracy_score(tonight.kind, scores.predicted) > accuracy_score(tonight.kind, loudest)


@pytest.mark.parametrize("recipe", ["logistic", "svm", "one_vs_rest"])
def test_classes_joined_by_a_plus_are_one_class_also_when_a_labelled_night_is_scored(tmp_path, recipe):
    model, tonight = model_of(tmp_path, recipe, "A+C+"), tmp_path / "night.csv"
    ward(seed=1).to_csv(tonight, index=False)

    run = score(model, str(tonight), tmp_path / "run", label="kind")

    assert model.watched == ["A+C+"]
    seen = run.document["evaluation"]["A+C+"]
    assert seen["n_positive"] == ward(seed=1).kind.isin(["A", "C+"]).sum()


def test_a_site_runs_a_model_of_several_classes_each_with_its_threshold_and_chance(tmp_path):
    model = model_of(tmp_path, "logistic", ["A", "C+"])
    ward(60, seed=2).drop(columns="kind").to_csv(tmp_path / "2026-03-03.csv", index=False)
    paths = {"ledger": "l.db", "publish": "pages"}, {"model": "model", "cohort": "{date}.csv"}
    site, series = ("".join(f'{key} = "{tmp_path / name}"\n' for key, name in part.items()) for part in paths)
    (tmp_path / "NIGHT.toml").write_text(f"[site]\n{site}[series.ward]\n{series}")

    answer = screen("run", tmp_path / "NIGHT.toml", "--date", "2026-03-03", "--json")

    (line,), page = json.loads(answer.stdout)["series"], (tmp_path / "pages/ward/2026-03-03.html").read_text()
    own = model.score_frame(str(tmp_path / "2026-03-03.csv"))
    assert (line["status"], line["flagged"]) == ("published", own["flagged"].sum())
    for name in ("A", "C+"):
        assert f"{name}: Expected sensitivity" in page
    assert "Chance" in page


@pytest.mark.parametrize("recipe", ["svm", "one_class"])
def test_a_recipe_of_one_class_and_the_rest_refuses_two_and_says_how_to_ask(tmp_path, recipe):
    """Under others the rare are watched where none is named."""
    assert set(model_of(tmp_path, "logistic", None).watched) == {"B", "C+"}
    with pytest.raises(UsageError, match=r"A, B are to be watched.*--positive A\+B, or take a recipe .*auto"):
        model_of(tmp_path, recipe, ["A", "B"])


def test_the_past_alone_is_asked_for_the_rare_classes_of_all_rows():
    """Rare in the past alone may be another class: the temporal validation is of those that are watched."""
    rng, late = np.random.default_rng(0), np.arange(600) > 420
    shares = np.where(late[:, None], [0.5, 0.06, 0.44], [0.75, 0.2, 0.05])
    kind = np.array([rng.choice(["none", "A", "B"], p=share) for share in shares])
    table = pd.DataFrame({"kind": kind, "of_A": rng.normal(kind == "A"), "of_B": rng.normal(kind == "B")})
    table["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(600), unit="D")

    past = read_cohort(table, Contract(time="day"), label="kind", need_label=True)
    model = train(past, "logistic", **QUICK)

    assert (kind[~late] == "B").mean() < 0.5 / 3 < (kind[~late] == "A").mean()
    assert model.watched == list(model.facts.validation.forward.classes) == ["A"]
