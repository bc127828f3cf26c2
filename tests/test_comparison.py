"""Methods compared, as a study and beside a model: the same folds, honest thresholds,
paired differences.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from compared_methods import QUICK, cohort, outcome, table
from flow_cohorts import night_of_patients
from fold_machines import held_out_by
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from patient_visits import named
from scipy.stats import friedmanchisquare
from sklearn.metrics import roc_auc_score
from written_files import names_in, page_in

from screening import (
    Threshold,
    load_model,
    load_recipe,
    read_cohort,
    score,
    train,
)
from screening.errors import RecipeError, UsageError
from screening.metrics.figures import FIGURES
from screening.metrics.paired import drawn_weights, recall_difference
from screening.metrics.ranks import (
    against_control,
    cliques,
    friedman,
    holm,
    nemenyi_difference,
    rank_entry,
)
from screening.model_selection import compare as comparison
from screening.model_selection import fits
from screening.model_selection.compare import ComparedAt, figures_of_method
from screening.model_selection.folds import split_study
from screening.model_selection.held_out import plan_method
from screening.model_selection.judge import method_differences
from screening.model_selection.task import infer_task
from screening.report import render_model
from screening.report.comparison import best_methods, render_comparison
from screening.schemas.base import UNDEFINED
from screening.settings import Validation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cohorts")
    table(90, 0).to_csv(place / "one.csv", index=False)
    table(80, 1).to_csv(place / "two.csv", index=False)
    table(90, 2, classes=3).to_csv(place / "three.csv", index=False)
    return place


@pytest.fixture(scope="module")
def compared(folder):
    cohorts = {"one": cohort(folder, "one"), "two": cohort(folder, "two")}
    return comparison.compare(cohorts, ["logistic", "one_class"], **QUICK)


def test_every_row_is_tested_once_by_every_method_on_the_same_folds(compared):
    """The plain machine with a tuned threshold is always the control; several cohorts
    give ranks.
    """
    counts = compared.scores.groupby(["cohort", "recipe", "id"]).size()
    dealt = compared.scores.pivot_table(
        index=["cohort", "id"], columns="recipe", values="fold"
    )
    ranks = compared.document["ranks"]

    assert set(counts) == {1}
    assert set(compared.scores["recipe"]) == {"svm", "logistic", "one_class"}
    assert (dealt.nunique(axis=1) == 1).all()
    for one in compared.document["cohorts"]:
        methods = one["methods"]
        controls = [method["recipe"] for method in methods if method["control"]]
        assert controls == ["svm"]
        assert [bool(method["differences"]) for method in one["methods"]] == [
            False,
            True,
            True,
        ]
    assert ranks["first"] == "g_mean"
    assert sum(
        method["mean_rank"] for method in ranks["figures"]["auroc"]["methods"]
    ) == pytest.approx(6)


def test_direction_of_a_figure_decides_ranks_and_the_best_method(compared, monkeypatch):
    """Where lower is better ranks are turned round, and the lowest method is best."""
    cohorts = compared.facts.cohorts
    ranks = rank_entry(cohorts, "svm", "g_mean").figures["g_mean"]
    turned = replace(FIGURES["g_mean"], better="lower")
    monkeypatch.setitem(FIGURES._filled(), "g_mean", turned)

    turned_ranks = rank_entry(cohorts, "svm", "g_mean").figures["g_mean"]

    for method, other in zip(ranks.methods, turned_ranks.methods, strict=True):
        assert method.mean_rank + other.mean_rank == pytest.approx(4)
        assert method.mean == other.mean
    sentences = best_methods(compared.facts)
    for one in cohorts:
        worst = min(one.methods, key=lambda method: method.figures["g_mean"].value)
        assert f"{worst.recipe} is " in sentences[one.name]


def test_the_score_of_a_held_out_row_does_not_depend_on_its_label(folder):
    # Flip every label of the first fold: with one setting, its scores must stay as they
    # were.
    whole = cohort(folder, "one")
    recipe = load_recipe("svm")
    task = infer_task(whole, False)[0]
    study = replace(
        split_study(
            whole, task.target(whole.labels), task, Validation(folds=3, repeats=1)
        ),
        n_settings=1,
    )
    held_out = study.fold[0] == 0
    other_label = np.where(whole.label == "yes", "no", "yes")
    flipped = np.where(held_out, other_label, whole.label)
    other = replace(whole, label=flipped.astype(object))
    of_first = held_out_by(study, recipe)
    target = task.target(other.labels)
    of_second = held_out_by(replace(study, sample=other, target=target), recipe)
    first = of_first.decisions[0]
    second = of_second.decisions[0]

    assert_array_equal(first[held_out], second[held_out])
    assert not np.allclose(first[~held_out], second[~held_out])


def test_a_stopped_comparison_goes_on_from_its_finished_folds(folder, tmp_path):
    """What was finished serves again to the bit; a damaged file is of no use, and
    machines lie in private.
    """
    whole = {"one": cohort(folder, "one")}
    kept = tmp_path / "kept"
    kept.mkdir()
    steps: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        steps.append((done, total))
        if done / total > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        comparison.compare(whole, ["logistic"], **QUICK, kept=kept, progress=stop)
    finished = {path: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    damaged, *others = finished
    damaged.write_bytes(damaged.read_bytes()[:-30])
    again = comparison.compare(whole, ["logistic"], **QUICK, kept=kept)

    assert 3 <= len(finished) < len([*kept.iterdir()])
    assert [path.stat().st_mtime_ns for path in others] == [
        finished[path] for path in others
    ]
    modes = {oct(path.stat().st_mode)[-3:] for path in kept.iterdir()}
    assert modes == {"600"}
    assert_frame_equal(
        again.scores, comparison.compare(whole, ["logistic"], **QUICK).scores
    )


def test_all_means_every_method_that_fits_the_classes(folder):
    pytest.importorskip("lightgbm")
    two_classes = {"one": cohort(folder, "one")}
    three_classes = {"three": cohort(folder, "three")}
    binary = comparison.expand_all(["all"], two_classes)
    several = comparison.expand_all(["all", "auto"], three_classes)
    assert {"svm", "one_class", "boosting", "logistic"} <= set(binary)
    assert {"one_vs_rest", "boosting", "logistic", "auto"} <= set(several)
    assert not {"svm", "one_class"} & set(several)
    assert "one_vs_rest" not in binary


def test_compare_dependent_rows():
    """Rows that are surely of the same patients are compared only when somebody says
    they are not.

    A comparison asks about hidden patients as training does.
    """
    visits = {"visits": read_cohort(named(), label="ill", need_label=True)}
    with pytest.raises(UsageError, match="`independent`"):
        comparison.compare(visits, ["logistic"], **QUICK)
    found = comparison.compare(
        visits,
        ["logistic"],
        control="logistic",
        independent=True,
        **QUICK,
    )
    assert len(found.document["cohorts"][0]["methods"]) == 1


def test_the_command_writes_a_table_a_page_and_one_json_object(folder, tmp_path):
    words = ["compare", folder / "one.csv", "--label", "case", "--id", "number"]
    words += [
        "--recipes",
        "logistic",
        "--folds",
        "3",
        "--search",
        "1",
        "--g-mean",
        "--out",
        tmp_path / "out",
    ]
    answer = as_json(*words)
    files = {"comparison.json", "scores.parquet", "report.html"}

    assert set(answer["cohorts"]["one"]) == {"svm", "logistic"}
    written = names_in(tmp_path / "out")
    assert written == files
    assert not (tmp_path / ".out.fits").exists()
    screen("report", tmp_path / "out", "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (
        tmp_path / "out" / "report.html"
    ).read_bytes()


def test_compare_joined_classes(folder):
    """With joined classes every method and the control have one end point.

    Also a method that tells all classes apart; each figure is that of the end point all
    share.
    """
    whole = cohort(folder, "three", positive="yes+perhaps")
    methods = ["one_vs_rest", "logistic"]
    mixed = comparison.compare({"three": whole}, methods, **QUICK)
    is_case = mixed.scores["label"] != "no"
    ill = mixed.scores.assign(ill=is_case)
    labels = ill.pivot_table(index="id", columns="recipe", values="ill", aggfunc=list)
    facts = mixed.document["cohorts"][0]

    assert set(mixed.scores["class"]) == {"yes+perhaps"}
    assert list(labels.columns) == ["logistic", "one_vs_rest", "svm"]
    n_labels = labels.map(tuple).nunique(axis=1)
    assert (n_labels == 1).all()
    for method in facts["methods"]:
        rows = ill[ill["recipe"] == method["recipe"]]
        figures = method["figures"]
        assert facts["n_positive"] == rows["ill"].sum()
        assert figures["auroc"]["value"] == pytest.approx(
            roc_auc_score(rows["ill"], rows["score"])
        )
        hit = rows["flagged"][rows["ill"]].mean()
        false = rows["flagged"][~rows["ill"]].mean()
        assert figures["sensitivity"]["value"] == pytest.approx(hit, abs=0.03)
        assert figures["specificity"]["value"] == pytest.approx(1 - false)
        ratio = figures["positive_likelihood_ratio"]
        assert ratio["value"] == pytest.approx(hit / false)
        assert ratio["low"] < ratio["value"] < ratio["high"]


def test_two_positive_classes_are_judged_one_by_one_under_every_recipe(folder):
    """Kernel machines of several classes stand beside baselines; two-class ones are
    refused.
    """
    whole = cohort(folder, "three", positive=["yes", "perhaps"])
    found = comparison.compare(
        {"three": whole}, ["one_vs_one", "logistic", "random_forest"], **QUICK
    )

    assert set(found.scores["recipe"]) == {
        "one_vs_rest",
        "one_vs_one",
        "logistic",
        "random_forest",
    }
    assert set(found.scores["class"]) == {"yes", "perhaps"}
    (facts,) = found.document["cohorts"]
    for method in facts["methods"]:
        assert method["figures"]["macro_recall"]["value"] > 1 / 3
    with pytest.raises(
        UsageError, match=r"`positive` yes\+perhaps, or choose a recipe .*auto"
    ):
        comparison.compare({"three": whole}, ["svm"], **QUICK)


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm", search=2, beside=["svm_weighted", "logistic"])


def comparison_of(model):
    return model.document["validation"]["comparison"]


def section(page: str) -> str:
    return page.partition('<section aria-labelledby="beside">')[2].partition(
        "</section>"
    )[0]


def test_a_method_beside_itself_differs_by_nothing(cohort, monkeypatch):
    again = load_recipe("svm").model_copy(update={"name": "the same again"})
    monkeypatch.setattr(fits, "load_recipe", lambda name: again)
    comparison = comparison_of(
        train(cohort, load_recipe("svm"), search=3, beside=["svm"])
    )

    (other,) = comparison["beside"]
    gaps = other["differences"]
    assert other["figures"] == comparison["figures"]
    assert {gap["value"] for gap in gaps.values()} == {0.0}
    assert gaps["auroc"]["low"] == 0.0
    assert gaps["auroc"]["high"] == 0.0
    # New rows may differ though none of these does: by about two of them.
    specificity = gaps["specificity"]
    sensitivity = gaps["sensitivity"]
    assert -0.01 < specificity["low"] < 0 < specificity["high"] < 0.01
    assert sensitivity["low"] < 0 < sensitivity["high"]


def test_the_figures_are_those_that_training_the_other_method_states(
    cohort, model, trained
):
    """And the comparison changes nothing of the model."""
    other = trained(cohort, "svm_weighted", search=2).facts
    alone = trained(cohort, "svm", search=2).facts
    beside = model.facts.validation.comparison.beside[0]
    (point,) = other.operating_points

    assert beside["auroc"].value == pytest.approx(
        other.validation.summary["yes"]["auroc"].value, abs=1e-12
    )
    specificity = point["specificity"].value
    sensitivity = point["sensitivity"].value
    assert beside["specificity"].value == pytest.approx(specificity, abs=1e-12)
    assert beside["sensitivity"].value == pytest.approx(sensitivity, abs=1e-12)
    assert alone.validation.comparison is None
    assert alone.operating_points == model.facts.operating_points


def test_a_method_that_cannot_be_trained_is_listed_with_the_reason(cohort, monkeypatch):
    def refuse(study, recipe, *given):
        if recipe.name == "logistic":
            raise UsageError("too few positives")
        return plan_method(study, recipe, *given)

    monkeypatch.setattr(fits, "plan_method", refuse)
    trained = train(cohort, "svm", search=1, beside=["logistic"])

    assert comparison_of(trained)["beside"][0]["reason"] == "too few positives"
    assert "Not compared with <bdi>logistic</bdi>: too few positives." in render_model(
        trained.document
    )


def test_compare_several_classes(tissue, cohort, trained):
    """Several classes stand beside kernel machines and baselines by patient.

    A given threshold leaves the others the sensitivity it has.
    """
    classes = trained(tissue, "amari_wu_multiclass", search=1, folds=4, beside=None)
    svm = trained(
        cohort,
        "svm",
        search=1,
        rule=Threshold(-0.9),
        beside=["logistic"],
    )
    given = comparison_of(svm)
    comparison = comparison_of(classes)

    assert [other["recipe"] for other in comparison["beside"]] == [
        "one_vs_rest",
        "logistic",
        "random_forest",
    ]
    assert {"auroc", "specificity", "macro_recall"} <= set(
        comparison["beside"][0]["differences"]
    )
    assert "95% intervals at these thresholds, by group" in render_model(
        classes.document
    )
    assert given["rule"]["name"] == "min_sensitivity"
    assert (
        given["beside"][0]["figures"]["sensitivity"]["value"]
        >= given["figures"]["sensitivity"]["value"] - 1e-9
    )


def test_compare_unfit_method(tissue, cohort):
    """A method that answers another question is refused before training."""
    with pytest.raises(UsageError, match=r"svm cannot separate several classes"):
        train(tissue, "one_vs_rest", beside=["svm"])
    with pytest.raises(UsageError, match=r"one_vs_rest cannot separate one class"):
        train(cohort, "svm", beside=["one_vs_rest"])
    with pytest.raises(RecipeError, match="no recipe 'nothing'"):
        train(cohort, "svm", beside=["nothing"])


def test_the_page_shows_figures_differences_and_words(model, tmp_path):
    """A night's says in one sentence what training compared."""
    night = score(model, night_of_patients(60, seed=5), tmp_path / "run")
    shown = section(render_model(model.document))
    tonight = section(page_in(night.directory))

    for words in (
        "<bdi>svm_weighted</bdi>",
        "<bdi>logistic</bdi>",
        "this model",
        "sensitivity at least 90%",
    ):
        assert words in shown
    assert len(shown) < 4000
    assert "compared with logistic, " in tonight
    assert len(tonight) < 800


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--beside", "logistic,svm_weighted"], ["logistic", "svm_weighted"]),
        ([], ["logistic"]),
    ],
)
def test_the_command_line_names_the_methods(table, tmp_path, words, expected):
    who = ["--label", "ill", "--id", "patient", "--recipe", "svm", "--search", "1"]
    screen("train", table, *who, "--out", tmp_path / "model", *words)
    comparison = load_model(tmp_path / "model").facts.validation.comparison
    assert [other.recipe for other in comparison.beside] == expected


def test_net_benefits_of_methods_are_at_the_chance_of_the_control():
    """Their difference is paired; its value is that of their own figures."""
    rng = default_rng(2)
    y = rng.random(400) < 0.3
    control = outcome(rng.normal(size=400) + 2 * y, y, threshold=1.0)
    method = outcome(rng.normal(size=400) + y, y, threshold=0.0)
    chance = control.chance_at_threshold(0)
    at = ComparedAt(0.9, [chance])

    own = figures_of_method(method, at)["net_benefit"][0]
    of_control = figures_of_method(control, at)["net_benefit"][0]
    gaps = method_differences(method, control, "compare", [chance])

    flagged = method.flagged[:, 0]
    by_hand = (flagged & y).mean() - (flagged & ~y).mean() * chance / (1 - chance)
    assert own == pytest.approx(by_hand)
    assert gaps["net_benefit"].value == pytest.approx(own - of_control)
    assert gaps["net_benefit"].low < gaps["net_benefit"].value
    without = method_differences(method, control, "compare")
    assert without["net_benefit"] == UNDEFINED
    assert without["auroc"] == gaps["auroc"]


def test_weights_count_as_copies_of_rows():
    rng = default_rng(1)
    y = rng.random(40) < 0.4
    scores = rng.normal(size=40) + y
    weights = rng.integers(0, 3, size=(1, 40))
    copies = np.repeat(np.arange(40), weights[0])
    of_rows = outcome(scores, y)
    at = ComparedAt(0.9, [0.3])
    weighted = figures_of_method(of_rows, at, weights.astype(float))
    of_copies = outcome(scores[copies], y[copies])
    copied = figures_of_method(of_copies, at)

    assert weighted.keys() == copied.keys()
    for name, value in weighted.items():
        expected = copied[name][0]
        assert value[0] == pytest.approx(expected), name


@pytest.mark.parametrize("n_groups", [400, 60])
def test_a_difference_of_recalls_is_as_wide_as_its_bootstrap(n_groups):
    """A sum of what each row (or group) adds; the rows of a class are as many as they
    are.
    """
    rng = default_rng(5)
    target = rng.choice(3, 400, p=[0.6, 0.3, 0.1])
    groups = np.arange(400) % n_groups
    right, others = rng.random((2, 400)) < np.array([[0.8], [0.6]])
    equal_shares = np.full(n_groups, 1 / n_groups)
    weights = rng.multinomial(n_groups, equal_shares, 2000)[:, groups]
    classes = [weights * (target == m) for m in range(3)]
    difference = right * 1.0 - others
    of_classes = [own @ difference / own.sum(axis=1) for own in classes]
    gaps = np.mean(of_classes, axis=0)
    found = recall_difference(right, others, target, groups)

    low, high = np.quantile(gaps, [0.025, 0.975])
    assert found.value == pytest.approx(gaps.mean(), abs=0.01)
    width = found.high - found.low
    assert width == pytest.approx(high - low, rel=0.15)


def test_rows_of_a_patient_are_drawn_together():
    groups = np.array(["b", "a", "b", "c", "a"])
    weights = np.concatenate([*drawn_weights(5, groups, seed=0, draws=50)])

    assert weights.shape == (50, 5)
    assert_array_equal(weights[:, 0], weights[:, 2])
    assert_array_equal(weights[:, 1], weights[:, 4])
    # As many patients as there are.
    assert_array_equal(weights[:, [0, 1, 3]].sum(axis=1), np.full(50, 3))


# Demšar (2006), table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
TABLES = arrays(
    float,
    st.tuples(st.integers(3, 8), st.integers(3, 6)),
    elements=st.floats(0, 1, width=16),
)


def test_the_worked_example_of_the_literature_comes_out():
    """A clique joins ranks within the critical difference only."""
    found = friedman(DEMSAR)
    ranks = against_control(DEMSAR, control=0)

    mean_ranks = [3.143, 2.000, 2.893, 1.964]
    assert found.mean_ranks == pytest.approx(mean_ranks, abs=0.001)
    # The paper's 9.28 and 3.69 are without the correction for ties, which makes both a
    # little larger.
    assert 9.28 <= found.chi2 <= 10.3
    assert 3.69 <= found.f <= 4.2
    assert found.p < 0.05
    assert nemenyi_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    assert np.isnan(ranks.p[0])
    assert ranks.z[1:] == pytest.approx([2.342, 0.512, 2.416], abs=0.01)
    assert ranks.p[1:] == pytest.approx([0.019, 0.607, 0.016], abs=0.002)
    assert ranks.p_holm[1:] == pytest.approx([0.047, 0.607, 0.047], abs=0.01)
    alike = cliques(np.array([1.0, 1.8, 2.5, 4.0]), 1.0)
    assert alike == [(1.0, 1.8), (1.8, 2.5)]


def has_three_values(table: np.ndarray) -> bool:
    distinct = np.unique(np.round(table, 9))
    return len(distinct) > 2


@given(TABLES.filter(has_three_values))
def test_friedman_agrees_with_scipy(figures):
    expected = friedmanchisquare(*np.round(figures, 9).T).statistic
    assert friedman(figures).chi2 == pytest.approx(
        expected if np.isfinite(expected) else 0.0, abs=1e-8
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_raw_value_and_bonferroni(p):
    """It steps down and never decreases."""
    adjusted = holm(p)
    assert (adjusted >= np.asarray(p)).all()
    bonferroni = np.minimum(1, np.asarray(p) * len(p))
    assert (adjusted <= bonferroni).all()
    worked = holm([0.01, 0.04, 0.03, 0.005])
    assert worked == pytest.approx([0.03, 0.06, 0.06, 0.02])


FACTORS = ["svm", "williams", "amari_wu"]


@pytest.fixture(scope="module")
def rescaled(folder):
    """Return a comparison of two factors with the plain machine, two cohorts."""
    cohorts = {"one": cohort(folder, "one"), "two": cohort(folder, "two")}
    return comparison.compare(cohorts, FACTORS, **QUICK | {"search": 6})


def test_compare_same_settings(rescaled):
    """Rescaled recipes try the settings of the plain machine, then their factor."""
    for facts in rescaled.facts.cohorts:
        numbers = {method.recipe: method.n_candidates for method in facts.methods}
        assert numbers == {"svm": 6, "williams": 9, "amari_wu": 9}


def test_compare_declined_factor(rescaled):
    """A method that declined its factor is the plain machine, and its row says so."""
    declined = 0
    for facts in rescaled.facts.cohorts:
        plain = facts.methods[0]
        for method in facts.methods[1:]:
            assert method.factor is not None
            setting = method.factor.setting
            machine = {name: setting[name] for name in ("C", "gamma")}
            if method.factor_declined:
                declined += 1
                chosen = {name: method.chosen[name] for name in ("C", "gamma")}
                assert chosen == dict(plain.chosen)
                assert method.figures["auroc"].value == plain.figures["auroc"].value
                assert f"plain at C = {chosen['C']}" in method.declined_words
                assert method.factor.differences["auroc"].value <= 0
            else:
                assert method.declined_words == ""
                assert machine.items() <= method.chosen.items()
                assert method.factor.differences["auroc"].value > 0
    lines = [line for lines in rescaled.table().values() for line in lines]
    n_lines = sum("the factor was declined" in line for line in lines)
    assert n_lines == declined


def test_factor_contrast_same_machine(folder):
    """The contrast's decisions differ by the factor alone, and by nothing else."""
    whole = cohort(folder, "one")
    task = infer_task(whole, False)[0]
    study = replace(
        split_study(
            whole, task.target(whole.labels), task, Validation(folds=3, repeats=1)
        ),
        n_settings=4,
    )
    held_out = held_out_by(study, load_recipe("williams"))
    contrast = held_out.factor
    assert contrast is not None
    machine = {name: contrast.setting[name] for name in ("C", "gamma")}
    alone = replace(study, n_settings=1, params=machine)

    plain = held_out_by(alone, load_recipe("svm"))
    with_factor = replace(alone, params=contrast.setting)
    rescaled_alone = held_out_by(with_factor, load_recipe("williams"))

    assert contrast.setting["passes"] == 1
    assert_allclose(contrast.without, plain.decisions[0], atol=0.02)
    assert_allclose(contrast.decisions, rescaled_alone.decisions[0], atol=0.02)


def test_own_boundary_without_threshold(rescaled):
    """Figures of the machines' own boundary do not depend on the rule, and are
    ranked.
    """
    facts = rescaled.facts.cohorts[0]
    scores = rescaled.scores
    is_of_cohort = scores["cohort"] == "one"
    is_plain = is_of_cohort & (scores["recipe"] == "svm")
    flagged = scores["score"][is_plain] > 0
    ill = scores["label"][is_plain] == "yes"
    figures = facts.methods[0].figures
    ranks = rescaled.facts.ranks
    assert ranks is not None

    sensitivity = flagged[ill].mean()
    specificity = 1 - flagged[~ill].mean()
    least = min(sensitivity, specificity)
    accuracy = np.mean(flagged == ill)
    assert figures["own_accuracy"].value == pytest.approx(accuracy)
    assert figures["own_sensitivity"].value == pytest.approx(sensitivity)
    assert figures["own_specificity"].value == pytest.approx(specificity)
    assert figures["own_min_sensitivity"].value == pytest.approx(least)
    assert {"own_accuracy", "own_g_mean", "own_min_sensitivity"} <= set(ranks.figures)


def test_compare_counts(rescaled):
    """Flagged and unflagged rows are counted by label, on the page too."""
    scores = rescaled.scores
    for cohort_facts in rescaled.facts.cohorts:
        for method in cohort_facts.methods:
            is_method = scores["recipe"] == method.recipe
            rows = scores[is_method & (scores["cohort"] == cohort_facts.name)]
            table = pd.crosstab(rows["flagged"], rows["label"] == "yes")
            counts = method.counts["yes"]
            assert counts.true_positive == table.loc[True, True]
            assert counts.false_positive == table.loc[True, False]
            assert counts.false_negative == table.loc[False, True]
            assert counts.true_negative == table.loc[False, False]
    page = render_comparison(rescaled.document)
    assert page.count("Counts at each method’s threshold") == 2


def test_train_own_boundary(folder):
    """A model's document has its own boundary, which another threshold keeps."""
    model = train(
        cohort(folder, "one"),
        "logistic",
        search=1,
        repeats=1,
        folds=3,
        beside=(),
    )
    own = model.facts.validation.own_boundary
    assert own is not None
    table = model.validation
    flagged = table["score"] > 0

    assert own["yes"]["accuracy"].value == pytest.approx(
        np.mean(flagged == (table["label"] == "yes"))
    )
    assert "own boundary" in render_model(model.document)


def test_compare_grid_of_paper(folder):
    """Each recipe tries all of its paper's grid; one without such a grid its own."""
    methods = ["svm", "wu_amari", "logistic"]
    options = QUICK | {"search": None, "grid": "paper", "repeats": 1}

    cohorts = {"one": cohort(folder, "one")}
    compared = comparison.compare(cohorts, methods, **options)

    (facts,) = compared.facts.cohorts
    by_recipe = {method.recipe: method for method in facts.methods}
    paper = load_recipe("svm").search.paper
    assert by_recipe["svm"].n_candidates == 7 * 7
    assert by_recipe["svm"].chosen["C"] in paper["C"]
    assert by_recipe["svm"].chosen["gamma"] in paper["gamma"]
    assert by_recipe["wu_amari"].n_candidates == 6 * 5
    assert by_recipe["wu_amari"].factor_declined is None
    assert by_recipe["logistic"].n_candidates == 6
    assert compared.facts.settings.grid == "paper"
