"""One suite over the folder of recipes, and what recipe files are refused for."""

import math
from pathlib import Path

import numpy as np
import pytest
from extras import recipe_params
from machines_cohort import three_clouds, two_clouds
from sklearn.model_selection import RandomizedSearchCV
from sklearn.utils.estimator_checks import check_estimator

from screening import build, load_recipe
from screening.errors import RecipeError
from screening.recipes.building import list_recipes, param_grid, read_recipe
from screening.recipes.drawing import SettingSpace
from screening.recipes.recipe import Recipe

RECIPES = list_recipes()
FOLDER = Path(__file__).parents[1] / "models"
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.name)
every_single_recipe = pytest.mark.parametrize(
    "recipe", recipe_params([r for r in RECIPES if r.machine != "blend"])
)

# Settings under which the suite's many fits are quick; what is tested does not depend
# on them.
QUICK = {
    "balanced_forest": {"n_estimators": 5},
    "boosting": {"n_rounds": 10},
    "histogram_boosting": {"n_rounds": 10},
    "random_forest": {"n_estimators": 25},
    "easy_ensemble": {"n_estimators": 2, "n_rounds": 3},
    "sv_pruning": {"n_remove": 2, "trials": 5},
    # With a larger nu some of several equal rows lie at their bound, and the factor is
    # built on the others: which ones, the solver decides.
    "one_class_conformal": {"nu": 0.1},
}
# Of rows that are equal, pruning drops one at a time: which one, its draws decide.
# A row of weight 2 is one row: a forest draws it as one, and a leaf counts it as one.
EQUIVALENCE = {"check_sample_weight_equivalence_on_dense_data"}
UNEQUAL = dict.fromkeys(
    (
        "sv_pruning",
        "random_forest",
        "balanced_forest",
        "boosting",
        "histogram_boosting",
    ),
    EQUIVALENCE,
)

PLAIN = 'name = "mine"\ntitle = "Mine"\npaper = "None"\nmachine = "two_class"\n'
ONE = PLAIN.replace("two_class", "one_class")
MULTI = PLAIN.replace("two_class", "multi_class")


def rows_for(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    return three_clouds(60) if recipe.machine == "multi_class" else two_clouds(60)


@every_recipe
def test_recipe_name_and_grid(recipe):
    """Recipe is named as its file and every value of its search builds."""
    assert (FOLDER / f"{recipe.name}.toml").read_text(encoding="utf-8") == recipe.text
    assert load_recipe(recipe.name) == read_recipe(recipe.text)
    for text in (recipe.title, recipe.paper, recipe.about):
        assert text
    for grid in (recipe.search.grid, recipe.search.paper):
        for name, values in grid.items():
            for value in values:
                build(recipe, **recipe.resolved(**{name: value}))


@every_single_recipe
def test_recipe_builds_a_scikit_learn_estimator(recipe):
    settings = QUICK.get(recipe.name, {})
    machine = build(recipe.name, **settings)
    results = check_estimator(machine, on_fail=None, on_skip=None)
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    assert failed <= UNEQUAL.get(recipe.name, set())


@every_single_recipe
def test_settings_drawn(recipe):
    """The default is first, none repeats, all decline the factor, the seed decides."""
    settings = SettingSpace(recipe, seed=4).plain(12)
    names = set(settings[0])
    passes = {setting["passes"] for setting in settings if "passes" in setting}
    default = settings[0] | {
        name: recipe.parameters[name] for name in names if name == "passes"
    }

    assert settings == SettingSpace(recipe, seed=4).plain(12)
    assert default == {name: recipe.parameters[name] for name in names}
    repeated = [s for i, s in enumerate(settings) if s in settings[:i]]
    assert repeated == []
    assert {frozenset(setting) for setting in settings} == {frozenset(names)}
    first = SettingSpace(recipe, seed=4).plain(1)
    assert first == settings[:1]
    assert passes == set([0] * ("passes" in recipe.search.grid))


RESCALED = [recipe for recipe in RECIPES if recipe.factor]


def plain_twin(recipe):
    """Return the shipped recipe of the same machine and kernel without a factor."""
    names = {
        ("two_class", "gaussian"): "svm",
        ("two_class", "laplacian"): "svm_laplacian",
        ("multi_class", "gaussian"): "one_vs_rest",
        ("multi_class", "laplacian"): "one_vs_rest_laplacian",
        ("one_class", "gaussian"): "one_class",
    }
    key = (recipe.machine, recipe.kernel["type"])
    name = names.get(key)
    return None if name is None else load_recipe(name)


def of_names(setting: dict, names: set[str]) -> dict:
    return {name: setting[name] for name in names}


@pytest.mark.parametrize("recipe", RESCALED, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_settings_same_as_plain(recipe, seed):
    """A rescaled recipe tries the C, gamma, nu and cost of its plain machine."""
    twin = plain_twin(recipe)
    if twin is None:
        pytest.skip("no plain recipe of this machine and kernel")
    shared = set(recipe.search.grid) & {"C", "nu", "gamma", "cost_ratio"}
    grids = []
    for each in (recipe, twin):
        grids.append({name: each.search.grid[name] for name in shared})
    if grids[0] != grids[1]:
        pytest.skip("its grid is another one")
    drawn = []
    for each in (recipe, twin):
        settings = SettingSpace(each, seed).plain(24)
        drawn.append([of_names(setting, shared) for setting in settings])
    # Recipes of one class have defaults of their own.
    defaults = [settings[0] for settings in drawn]
    sequences = []
    for settings in drawn:
        searched = [setting for setting in settings if setting not in defaults]
        sequences.append(searched[:22])

    assert shared
    assert len(drawn[0]) == len(drawn[1]) == 24
    assert sequences[0] == sequences[1]
    if recipe.machine != "one_class":
        assert drawn[0] == drawn[1]


@pytest.mark.parametrize("recipe", RESCALED, ids=lambda recipe: recipe.name)
def test_settings_with_factor(recipe):
    """The factor is tried on the best settings, its default parameters first."""
    space = SettingSpace(recipe)
    plain = space.plain(8)
    best = [plain[-1], plain[0]]

    settings = space.with_factor(best, plain, 4)

    machine = set(recipe.search.grid) & {"C", "nu", "gamma", "cost_ratio", "kernel"}
    bases = [of_names(base, machine) for base in best]
    assert 2 <= len(settings) <= 4
    assert all(setting["passes"] > 0 for setting in settings)
    for setting in settings:
        assert of_names(setting, machine) in bases
    for setting, base in zip(settings, bases, strict=False):
        assert setting == space.default | base
    assert [s for s in settings if s in plain] == []


def test_settings_fixed_parameter():
    """What the caller fixed is in every setting; fixed passes keep the factor."""
    fixed = {"passes": 1, "C": 5.0, "n_landmarks": 50}
    space = SettingSpace(load_recipe("williams"), fixed=fixed)
    settings = space.plain(24)
    settings += space.with_factor(settings[:2], settings, 12)

    assert len(settings) == 5 + 6
    assert all(setting | fixed == setting for setting in settings)


def test_settings_of_paper():
    """The paper's grid is tried whole, without the recipe's default."""
    space = SettingSpace(load_recipe("shao_local"), paper=True)
    settings = space.plain(space.n_plain)

    assert len(settings) == 9 * 8
    sigmas = {setting["sigma"] for setting in settings}
    assert sigmas == set(space.grid["sigma"])
    assert {frozenset(setting) for setting in settings} == {
        frozenset({"C", "sigma", "Q"})
    }
    assert SettingSpace(load_recipe("logistic"), paper=True).grid["class_weight"]


def test_sigma_goes_wherever_gamma_does():
    by_sigma = build("svm", sigma=2.0)
    by_both = build("svm", gamma="scale", sigma=2.0)
    resolved = load_recipe("svm").resolved(sigma=2.0)
    assert by_sigma.kernel.gamma == pytest.approx(1 / 8)
    assert by_both.kernel.gamma == pytest.approx(1 / 8)
    assert resolved == {"C": 1.0, "sigma": 2.0}
    with pytest.raises(RecipeError, match="not both"):
        build("svm", gamma=0.5, sigma=2.0)
    with pytest.raises(RecipeError, match="sigma needs the kernel gaussian"):
        build("one_class", kernel="laplacian", sigma=0.5)


NUMBERS = [
    ("svm", "gamma"),
    ("svm", "sigma"),
    ("svm", "C"),
    ("one_class", "nu"),
    ("williams", "passes"),
    ("sv_pruning", "inner_trials"),
    ("svm_weighted", "cost_ratio"),
    ("amari_wu", "width"),
    ("svm", "n_landmarks"),
    ("logistic", "C"),
    ("random_forest", "n_estimators"),
    ("boosting", "learning_rate"),
    ("easy_ensemble", "n_rounds"),
    ("shao_local", "Q"),
    ("williams", "k"),
    ("wu_amari", "M"),
    ("sv_pruning", "n_remove"),
    ("e_smote_svm", "k"),
    ("e_smote_svm", "seed"),
]
SLIPS = [math.inf, math.nan, 1e30, -1.0, 10**400, "1e30"]


@pytest.mark.parametrize("value", SLIPS, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize(("recipe", "name"), NUMBERS)
def test_numbers_no_machine_is_trained_with_are_refused_by_name(recipe, name, value):
    with pytest.raises(RecipeError, match=rf"recipe {recipe}: {name} must be"):
        build(recipe, **{name: value})


@pytest.mark.parametrize(
    ("recipe", "name", "value"),
    [
        ("liu_he", "empty", "far"),
        ("amari_wu", "h", "two"),
        ("act_feature_space", "distance", "both"),
        ("act_feature_space", "norm", 3),
        ("sv_pruning", "rule", "best"),
        ("svm", "approximation", "fourier"),
        ("logistic", "class_weight", "much"),
        ("logistic", "approximation", "landmarks"),
        ("one_class", "kernel", "cubic"),
    ],
)
def test_words_that_are_none_of_a_parameters_are_refused_by_name(recipe, name, value):
    with pytest.raises(RecipeError, match=name):
        build(recipe, **{name: value})


@pytest.mark.parametrize("text", ["inf", '"scale*1e30"', '"scale*-1"'])
def test_a_recipe_file_with_such_a_number_is_refused_by_name(text):
    for table in (
        f"[parameters]\ngamma = {text}",
        f"[kernel]\ntype = 'gaussian'\ngamma = {text}",
        f"[parameters]\ngamma = 'scale'\n[search.grid]\ngamma = ['scale', {text}]",
    ):
        with pytest.raises(RecipeError, match=r"mine\.toml.*gamma must be"):
            read_recipe(PLAIN + table, "mine.toml")


def test_grid_value_never_works(tmp_path):
    """A value of the search that can never work is refused by its place.

    The search would leave it out without a word; one that works beside another value
    stays.
    """
    text = (
        PLAIN
        + "[parameters]\ngamma = 'scale'\n[search.grid]\ngamma = ['scale', 'auto']"
    )
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(
        RecipeError, match=r"mine\.toml: search\.grid\.gamma: gamma must be .*'auto'"
    ):
        load_recipe(file)

    both = "[factor]\ntype = 'bumps'\n[parameters]\npasses = 1\napproximation = 'none'\n[search.grid]\n"
    file.write_text(
        PLAIN + both + "passes = [0, 1]\napproximation = ['none', 'nystroem']",
        encoding="utf-8",
    )
    assert load_recipe(file).search.grid["approximation"] == ["none", "nystroem"]
    # A model holds its recipe as it was: this one was trained by the defaults.
    assert read_recipe(text).search.grid["gamma"] == ["scale", "auto"]


def test_unknown_recipe_or_parameter_is_refused_with_the_list(tmp_path):
    with pytest.raises(RecipeError, match="one_class_conformal"):
        load_recipe("no_such_recipe")
    with pytest.raises(RecipeError, match=r"absent\.toml"):
        load_recipe(tmp_path / "absent.toml")
    for recipe in RECIPES:
        for name in [*recipe.parameters][:1]:
            with pytest.raises(RecipeError, match=name):
                build(recipe, no_such_parameter=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN + "paramters = 1", ("did you mean 'parameters'",)),
        (PLAIN + "[search]\ncandidate = 3", ("did you mean 'candidates'",)),
        ("name = ", ("TOML",)),
        ("name = 'x'", ("title", "paper", "machine")),
        (PLAIN.replace("two_class", "three_class"), ("three_class", "multi_class")),
        (PLAIN + "[kernel]\ntype = 'sigmoid'", ("sigmoid", "laplacian")),
        (PLAIN + "[factor]\ntype = 'magic'", ("magic", "margin_density")),
        (PLAIN + "[factor]\ntype = 'margin_density'\nkappa = 1", ("kappa", "n")),
        (PLAIN + "[factor]\ntype = 'class_decay'", ("class_decay", "two_class")),
        (ONE + "[factor]\ntype = 'adaptive_bumps'", ("adaptive_bumps", "one_class")),
        (
            MULTI + "scheme = 'crammer_singer'\n[factor]\ntype = 'margin_decay'",
            ("crammer_singer",),
        ),
        (
            MULTI + "scheme = 'one_vs_one'\n[parameters]\ncost_ratio = 3.0",
            ("cost_ratio", "one_vs_one"),
        ),
        (PLAIN + "[parameters]\ngamma = 'scale*'", ("gamma must be",)),
        (PLAIN + "[parameters]\ngamma = 'auto'", ("gamma must be",)),
        (PLAIN + "[parameters]\ngamma = true", ("gamma must be",)),
        (PLAIN + "[remedy.prayer]", ("prayer", "unequal_costs")),
        (PLAIN + "[parameters]\nnu = 0.1", ("nu", "gamma")),
        (PLAIN + "[parameters]\npasses = 1", ("passes", "factor")),
        (
            PLAIN + "[factor]\ntype = 'bumps'\n[parameters]\nstop = 'test'",
            ("stop", "inner"),
        ),
        (PLAIN + "[parameters]\nC = 1\n[search.grid]\nC = 1", ("C", "list")),
        (ONE + "[remedy.unequal_costs]", ("unequal_costs", "one_class")),
        (
            PLAIN.replace("two_class", "baseline") + "baseline = 'oracle'",
            ("oracle", "logistic"),
        ),
        (
            PLAIN.replace("two_class", "baseline") + "baseline = 'one_class'",
            ("one_class", "logistic"),
        ),
    ],
)
def test_recipe_that_cannot_work_is_refused_naming_what_and_where(text, words):
    with pytest.raises(RecipeError) as caught:
        read_recipe(text, "mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml")
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([], "members"),
        (["nope"], "nope"),
        (["auto"], "blend cannot have"),
        (["easy_ensemble"], "cannot be"),
        (["svm", "svm"], "once"),
    ],
)
def test_members_of_a_blend_that_cannot_work_are_refused(members, word):
    """And parameters, which belong to its members."""
    with pytest.raises(RecipeError, match=word):
        read_recipe(PLAIN.replace("two_class", "blend") + f"members = {members}")
    with pytest.raises(RecipeError, match="parameters belong to its members"):
        build("auto", C=3.0)


def test_a_factor_on_e_smote_is_a_recipe_a_user_can_write(tmp_path):
    """One's own recipe file is read by its path."""
    text = (
        PLAIN
        + "[factor]\ntype = 'margin_decay'\n[remedy.e_smote]\n[remedy.unequal_costs]\n"
        "[parameters]\npasses = 2\nC = 2.0\ngamma = 0.5\n'factor.k' = 0.5\n'remedy.e_smote.k' = 3\n"
    )
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    estimator = build(tmp_path / "mine.toml", passes=1, gamma=0.25)
    fitted = estimator.fit(*two_clouds(60))

    assert estimator.C == 2.0
    assert estimator.kernel.gamma == 0.25
    assert estimator.factor.k == 0.5
    assert estimator.remedies[0].k == 3
    assert len(fitted.passes_) == 2
    with pytest.raises(RecipeError, match="ambiguous"):
        read_recipe(text.replace("'factor.k'", "k"))


def test_candidates_are_only_settings_whose_parts_go_together():
    """A recipe may leave its kernel to the search."""
    text = load_recipe("one_class_conformal").text
    text = text.replace(
        "[search.grid]", '[search.grid]\nkernel = ["gaussian", "laplacian"]'
    )
    recipe = read_recipe(
        text.replace("[parameters]", '[parameters]\nkernel = "gaussian"')
    )
    free = SettingSpace(load_recipe("one_class")).plain(24)
    candidates = SettingSpace(recipe).plain(50)

    assert {one["kernel"] for one in free} == {"gaussian", "laplacian"}
    assert build("one_class", kernel="laplacian").kernel.name == "laplacian"
    with pytest.raises(
        RecipeError, match="margin_density needs a kernel of gaussian, not laplacian"
    ):
        build(recipe, kernel="laplacian")
    assert {one["kernel"] for one in candidates} == {"gaussian"}
    assert len(candidates) == 50


@pytest.mark.parametrize("name", ["svm_weighted", "one_class", "act_feature_space"])
def test_the_search_of_a_recipe_can_be_handed_to_scikit_learn(name):
    recipe = load_recipe(name)
    x, y = rows_for(recipe)
    grid = {key: values[:2] for key, values in param_grid(name).items()}
    found = RandomizedSearchCV(
        build(name),
        grid,
        n_iter=3,
        cv=3,
        scoring="average_precision",
        random_state=0,
        error_score="raise",
    ).fit(x, y)
    assert set(found.best_params_) == set(grid)
