"""The method beside others: on its own folds, by its own rule; noise shows no difference."""

import pytest
from commands import screen
from flow_cohorts import patients

from screening import train
from screening.errors import RecipeError, UsageError
from screening.model_selection import train as training
from screening.model_selection.held_out import held_out_by
from screening.recipes.building import load_recipe
from screening.report import render_model
from screening.schemas.figures import Threshold
from screening.scoring.score import score
from screening.store.loading import load_model


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm", search=2, beside=["svm_weighted", "logistic"])


@pytest.fixture(scope="module")
def of_classes(tissue, trained):
    return trained(tissue, "amari_wu_multiclass", search=1, folds=4, beside=None)


def comparison_of(model):
    return model.document["validation"]["comparison"]


def section(page: str) -> str:
    """What a page says of other methods."""
    return page.partition('<section aria-labelledby="beside">')[2].partition("</section>")[0]


def test_a_method_beside_itself_differs_by_nothing(cohort, monkeypatch):
    again = load_recipe("svm").model_copy(update={"name": "the same again"})
    monkeypatch.setattr(training, "load_recipe", lambda name: again)

    comparison = comparison_of(train(cohort, load_recipe("svm"), search=3, beside=["svm"]))

    (other,) = comparison["beside"]
    gaps = other["differences"]
    assert other["figures"] == comparison["figures"]
    assert {gap["value"] for gap in gaps.values()} == {0.0}
    assert (gaps["auroc"]["low"], gaps["auroc"]["high"]) == (0.0, 0.0)
    # New rows may differ though none of these does: by about two of them.
    assert -0.01 < gaps["specificity"]["low"] < 0 < gaps["specificity"]["high"] < 0.01
    assert gaps["sensitivity"]["low"] < 0 < gaps["sensitivity"]["high"]


def test_the_figures_are_those_that_training_the_other_method_states(cohort, model, trained):
    """And the comparison changes nothing of the model."""
    other, alone = (trained(cohort, recipe, search=2).facts for recipe in ("svm_weighted", "svm"))
    beside = model.facts.validation.comparison.beside[0].figures
    (point,) = other.operating_points

    assert beside["auroc"] == pytest.approx(other.validation.summary["yes"].auroc.value, abs=1e-12)
    assert beside["specificity"] == pytest.approx(point.specificity.value, abs=1e-12)
    assert beside["sensitivity"] == pytest.approx(point.sensitivity.value, abs=1e-12)
    assert alone.validation.comparison is None
    assert alone.operating_points == model.facts.operating_points


def test_a_given_threshold_leaves_the_others_the_sensitivity_it_has(cohort, trained):
    comparison = comparison_of(trained(cohort, "svm", search=1, rule=Threshold(-0.9), beside=["logistic"]))

    assert comparison["rule"]["name"] == "min_sensitivity"
    assert comparison["beside"][0]["figures"]["sensitivity"] >= comparison["figures"]["sensitivity"] - 1e-9


def test_a_method_that_cannot_be_trained_is_listed_with_the_reason(cohort, monkeypatch):
    def refuse(study, recipe, **given):
        if recipe.name == "logistic":
            raise UsageError("too few positives")
        return held_out_by(study, recipe, **given)

    monkeypatch.setattr(training, "held_out_by", refuse)
    trained = train(cohort, "svm", search=1, beside=["logistic"])

    assert comparison_of(trained)["beside"][0]["reason"] == "too few positives"
    assert "Not compared with <bdi>logistic</bdi>: too few positives." in render_model(trained.document)


def test_several_classes_stand_beside_kernel_machines_and_baselines_by_patient(of_classes):
    comparison = comparison_of(of_classes)

    assert [other["recipe"] for other in comparison["beside"]] == ["one_vs_rest", "logistic", "random_forest"]
    assert {"auroc", "specificity", "macro_recall"} <= set(comparison["beside"][0]["differences"])
    assert "95% intervals at these thresholds, by group" in render_model(of_classes.document)


def test_a_method_that_answers_another_question_is_refused_before_training(tissue, cohort):
    with pytest.raises(UsageError, match=r"svm cannot be compared where several classes"):
        train(tissue, "one_vs_rest", beside=["svm"])
    with pytest.raises(UsageError, match=r"one_vs_rest cannot be compared where one class"):
        train(cohort, "svm", beside=["one_vs_rest"])
    with pytest.raises(RecipeError, match="no recipe 'nothing'"):
        train(cohort, "svm", beside=["nothing"])


def test_the_page_shows_figures_differences_and_words(model, tmp_path):
    """A night's says in one sentence what training compared."""
    night = score(model, patients(60, seed=5).drop(columns="ill"), tmp_path / "run")
    shown = section(render_model(model.document))
    tonight = section((night.directory / "report.html").read_text(encoding="utf-8"))

    for words in ("<bdi>svm_weighted</bdi>", "<bdi>logistic</bdi>", "this model", "sensitivity at least 90%"):
        assert words in shown
    assert len(shown) < 4000
    assert "compared with logistic, " in tonight
    assert len(tonight) < 800


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--beside", "logistic,svm_weighted"], ["logistic", "svm_weighted"]), ([], ["logistic"])],
)
def test_the_command_line_names_the_methods(table, tmp_path, words, expected):
    who = ["--label", "ill", "--id", "patient", "--recipe", "svm", "--search", "1"]
    screen("train", table, *who, "--out", tmp_path / "model", *words)

    comparison = load_model(tmp_path / "model").facts.validation.comparison
    assert [other.recipe for other in comparison.beside] == expected
