"""Comparing several methods on the same folds of the same cohorts.

Everything is tuned on training rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from screening.cluster import open_cluster
from screening.data.cohort import Cohort
from screening.errors import UsageError
from screening.files import digest_of_json
from screening.io.opening import Readable
from screening.io.queries import Database
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures import evaluate_differences, evaluate_samples, figures_in
from screening.metrics.groups import fewest_units
from screening.metrics.paired import (
    DRAWS,
    ResampledRows,
    drawn_weights,
    false_alarms_at,
    recall_difference,
    weighted_recalls,
    with_resampled_interval,
)
from screening.metrics.ranks import rank_entry
from screening.model_selection.folds import Study, drop_rare_classes
from screening.model_selection.held_out import (
    FactorContrast,
    HeldOutDecisions,
    encode,
    plan_method,
)
from screening.model_selection.judge import (
    Judgement,
    judge,
    means_over_classes,
    method_differences,
)
from screening.model_selection.plans import (
    Plan,
    raise_errors,
    run_plan,
    side_by_side,
    split_progress,
)
from screening.model_selection.preparing import (
    LARGEST_WHOLE,
    prepare_study,
    read_labelled_cohort,
)
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import Task, infer_task
from screening.option_groups import groups_from
from screening.recipes.building import as_recipe, list_recipes, load_recipe
from screening.recipes.encoders import with_scores
from screening.recipes.recipe import FITS, Recipe, separates_classes, several_asked
from screening.report.comparison import render_comparison, titles_of
from screening.schemas.base import FORMAT_VERSION, Brief, InBrief
from screening.schemas.comparison import (
    CohortFacts,
    ComparisonDocument,
    FactorFacts,
    MethodFacts,
    Settings,
)
from screening.schemas.figures import (
    DEFAULT_RULE,
    MinSensitivity,
    Rule,
)
from screening.settings import Resources, Search, TableOptions, Validation, as_search
from screening.store.serialization import versions, written

# Sensitivity at which specificity is shown if the rule names none.
_DEFAULT_SENSITIVITY = 0.9
# Figure that answers a rule, by which methods are ordered and ranked; AUROC for others.
_FIRST_FIGURE = {"g_mean": "g_mean", "min_sensitivity": "specificity_at"}
# Facts of a method in the summary, besides its figures.
_SUMMARY_FACTS = ("sv_share", "fit_seconds", "score_seconds", "factor_declined")


@dataclass(frozen=True, repr=False)
class Comparison(InBrief):
    """The outcome of `compare`.

    Parameters
    ----------
    facts : ComparisonDocument
        Settings; a table, differences and curves per cohort; ranks over cohorts.
    scores : DataFrame
        Held-out rows: cohort, recipe, fold, id, label, class, score, flagged.
    """

    facts: ComparisonDocument
    scores: pd.DataFrame

    @cached_property
    def document(self) -> dict[str, object]:
        """Content of `comparison.json`."""
        return self.facts.to_dict()

    def brief(self) -> Brief:
        """Return a line for each cohort and method."""
        titles = self._titles()
        rows: list[tuple[str, ...]] = []
        for cohort in self.facts.cohorts:
            for method in cohort.methods:
                figures = [method.figures[name].in_percent for name in titles]
                rows.append((cohort.name, method.recipe, *figures))
        heads = ("cohort", "recipe", *titles.values())
        return Brief("Held-out rows, the same folds for every method", heads, rows)

    def _titles(self) -> dict[str, str]:
        """Return names and titles of the figures that a line shows."""
        titles = titles_of(self.facts)
        names = [figure.name for figure in figures_in("baselines")]
        names.append(self.facts.first_figure)
        return {name: titles[name] for name in names}

    def summary(self) -> dict[str, object]:
        """Return every figure of every method, without intervals and curves."""
        tables: dict[str, dict[str, dict[str, object]]] = {}
        for cohort in self.facts.cohorts:
            tables[cohort.name] = {}
            for method in cohort.methods:
                row: dict[str, object] = {
                    name: figure.value for name, figure in method.figures.items()
                }
                for name in _SUMMARY_FACTS:
                    row[name] = getattr(method, name)
                tables[cohort.name][method.recipe] = row
        ranks = self.facts.ranks
        return {
            "control": self.facts.settings.control,
            "cohorts": tables,
            "ranks": None if ranks is None else ranks.to_dict(),
        }

    def table(self) -> dict[str, list[str]]:
        """Return a line of text per cohort and method."""
        titles = self._titles()
        lines = {}
        for cohort in self.facts.cohorts:
            lines[cohort.name] = [
                _table_line(method, titles) for method in cohort.methods
            ]
        return lines


def _table_line(method: MethodFacts, titles: Mapping[str, str]) -> str:
    """Return the figures of a method as one line of text."""
    figures = [
        f"{title} {_percent(method.figures[name].value)}"
        for name, title in titles.items()
    ]
    if method.declined_words:
        figures.append(method.declined_words)
    return f"{method.recipe:22}" + "  ".join(figures)


def _percent(share: float | None) -> str:
    return "    -" if share is None else f"{100 * share:5.1f}"


def write_comparison(
    comparison: Comparison, folder: Path, templates: Path | None
) -> None:
    """Write `comparison.json`, `scores.parquet` and `report.html`.

    `templates` are a site's own, for the page.
    """
    (folder / "comparison.json").write_bytes(written(comparison.document)[1])
    comparison.scores.to_parquet(folder / "scores.parquet", index=False)
    page = render_comparison(comparison.document, templates)
    (folder / "report.html").write_bytes(page.encode())


def compare(
    cohorts: Mapping[str, Cohort | Readable],
    recipes: Sequence[Recipe | str],
    *,
    rule: Rule = DEFAULT_RULE,
    validation: Validation | None = None,
    search: Search | int | None = None,
    control: str | None = None,
    resources: Resources | None = None,
    command: str | None = None,
    **settings: Any,
) -> Comparison:
    """Judge methods on the same folds, each with its own setting and threshold.

    Both are chosen from its held-out scores.

    Parameters
    ----------
    cohorts : mapping from str to Cohort, path, Database, or table
        Cohorts with labels, by the names that the page gives them.
    recipes : sequence of Recipe or str
        The control is added if it is missing.
    rule : Rule
        Chooses every method's threshold from its held-out scores.
    validation : Validation, optional
        Folds, repeats, seed and rows.
    search : Search or int, optional
        How many settings compete on the held-out rows, as a number or with their grid;
        by default each recipe's number, with several classes as many as a budget of
        work allows. A factor is tried in half as many settings again.
    control : str, optional
        Recipe that the others are compared with; by default the plain machine ("svm",
        or "one_vs_rest" if several classes are separated).
    resources : Resources, optional
        Cores and workers; the figures do not depend on them. Rows are sent to workers
        over TLS (docs/scale.md).
    command : str, optional
        The command line, to be stated on the page.
    **settings
        Fields of these groups by their names, and those of `TableOptions` for cohorts
        that are not read yet.

    Returns
    -------
    Comparison
        Tables, differences and curves, and the held-out scores; not yet written.

    Raises
    ------
    UsageError
        If there are no cohorts, a cohort with several rows of the same patients has no
        group, a recipe cannot answer a cohort's question, `kept` belongs to another
        comparison, or there are no workers.
    RecipeError
        If a recipe is unknown, or cannot be built.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import compare, read_cohort
    >>> samples = files("screening.sample_cohorts")
    >>> ward = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> methods = ["logistic", "one_class"]
    >>> compared = compare({"ward": ward}, methods, control="logistic", search=1)
    >>> list(compared.summary()["cohorts"]["ward"])
    ['logistic', 'one_class']
    """
    if not cohorts:
        raise UsageError("give at least one cohort to compare on")
    validation, tuning, resources, table = groups_from(
        settings,
        (Validation, validation),
        (Search, as_search(search)),
        (Resources, resources),
        (TableOptions, None),
    )
    validation.refuse_stated("beside", "lesions", "contamination", by="compare")
    tuning.refuse_stated("params", by="compare")
    loaded = list(map(as_recipe, recipes))
    read = {
        name: read_labelled_cohort(cohort, loaded, table)
        for name, cohort in cohorts.items()
    }
    if not control:
        control = "one_vs_rest" if _are_multi_class(read) else "svm"
    recipes = _with_control(loaded, control)
    read = {name: with_scores(cohort, recipes) for name, cohort in read.items()}
    studies = {
        name: _prepare_studies(name, cohort, recipes, rule, validation, tuning)
        for name, cohort in read.items()
    }
    facts = Settings(
        rule=rule,
        folds=validation.folds,
        repeats=validation.repeats,
        search=tuning.search,
        grid=tuning.grid,
        seed=validation.seed,
        max_rows=validation.max_rows,
        cohorts={name: _digest_of_cohort(cohort) for name, cohort in read.items()},
        versions=versions(),
        control=control,
        command=command,
        recipes=[recipe.name for recipe in recipes],
    )
    with open_cluster(resources.cluster) as workers:
        methods = _judge_cohorts(recipes, studies, replace(resources, cluster=workers))
    tables: list[pd.DataFrame] = []
    for name, cohort_methods in methods.items():
        sample = studies[name][0].sample
        tables.extend(_score_tables(name, sample, cohort_methods))
    document = _comparison_document(facts, studies, methods)
    return Comparison(document, pd.concat(tables, ignore_index=True))


def _are_multi_class(cohorts: Mapping[str, Cohort]) -> bool:
    """Return True if several classes of some cohort are to be separated."""
    return any(several_asked(cohort) for cohort in cohorts.values())


def _prepare_studies(
    name: str,
    cohort: Cohort,
    recipes: Sequence[Recipe],
    rule: Rule,
    validation: Validation,
    search: Search,
) -> list[Study]:
    """Return the study of each recipe on one cohort, all with the same watched classes.

    Parameters
    ----------
    name : str
        Of the cohort.
    cohort : Cohort
    recipes : sequence of Recipe
        The first is the control.
    rule : Rule
    validation : Validation
    search : Search

    Raises
    ------
    UsageError
        If there are too few cases for every fold.
    """
    study = prepare_study(
        cohort, recipes[0], rule, validation, search, at_most=LARGEST_WHOLE
    )
    if study.without_cases is not None:
        raise UsageError(
            f"{name}: there are too few cases for every fold, so methods cannot be "
            "compared"
        )
    studies = []
    for recipe in recipes:
        task, _ = infer_task(study.sample, separates_classes(recipe, study.sample))
        target = task.target(study.sample.labels)
        task, _ = drop_rare_classes(task, target, study.groups, study.folds)
        studies.append(replace(study, task=task, target=target))
    return studies


_Method = tuple[MethodFacts, Judgement]


def _judge_cohorts(
    recipes: Sequence[Recipe],
    studies: Mapping[str, Sequence[Study]],
    resources: Resources,
) -> dict[str, list[_Method]]:
    """Hold out and judge every recipe on every cohort, one cohort after the other."""
    if resources.workers is not None:
        resources.workers.check(secret=True)
    methods = {}
    steps = split_progress(resources.progress, [1.0] * len(studies))
    for (name, cohort_studies), step in zip(studies.items(), steps, strict=True):
        plan = _plan_methods(recipes, cohort_studies)
        held_out = run_plan(plan, replace(resources, progress=step))
        methods[name] = _judge_methods(recipes, cohort_studies, held_out)
    return methods


def _plan_methods(
    recipes: Sequence[Recipe], studies: Sequence[Study]
) -> Plan[list[HeldOutDecisions]]:
    """Plan all recipes on one cohort side by side.

    RecipeError or UsageError if no setting of a recipe can be used.
    """
    encoded = encode(studies[0], recipes[0])
    plans = [
        plan_method(study, recipe, encoded)
        for recipe, study in zip(recipes, studies, strict=True)
    ]
    outcomes = yield from side_by_side(plans)
    return raise_errors(outcomes)


def _judge_methods(
    recipes: Sequence[Recipe],
    studies: Sequence[Study],
    held_out_by_all: Sequence[HeldOutDecisions],
) -> list[_Method]:
    """Choose thresholds by the rule for every recipe.

    Predicted classes are judged too if every recipe separates all classes.

    Returns
    -------
    list of (MethodFacts, Judgement)
        Facts without figures; the first is the control.
    """
    several = all(study.task.kind == "multi" for study in studies)
    methods: list[_Method] = []
    for recipe, study, held_out in zip(recipes, studies, held_out_by_all, strict=True):
        search = held_out.search
        scores = HeldOutScores.of(held_out, study)
        if not several:
            scores = replace(scores, predicted=None)
        rules = [study.rule] * len(study.task.watched)
        judgement = judge(scores, rules, study.validation.seed, refuse=False)
        factor_declined = None
        if any(setting.get("passes") == 0 for setting in search.candidates):
            factor_declined = search.chosen.get("passes") == 0
        factor = None
        if held_out.factor is not None:
            factor = _test_factor(held_out.factor, study.task, search.n_candidates)
        facts = MethodFacts(
            recipe=recipe.name,
            title=recipe.title,
            paper=recipe.paper,
            machine=recipe.machine,
            control=not methods,
            sv_share=held_out.sv_share,
            fit_seconds=held_out.seconds[0],
            score_seconds=held_out.seconds[1],
            chosen=search.chosen,
            n_candidates=search.n_candidates,
            factor_declined=factor_declined,
            factor=factor,
        )
        methods.append((facts, judgement))
    return methods


def _test_factor(contrast: FactorContrast, task: Task, n_settings: int) -> FactorFacts:
    """Test what a factor adds to the same machine at the same setting.

    Parameters
    ----------
    contrast : FactorContrast
    task : Task
    n_settings : int
        Settings that competed.
    """
    target = contrast.target
    by_class = []
    codes = zip(task.watched_columns, task.watched_codes, strict=True)
    for column, code in codes:
        rows = EvaluatedRows(
            contrast.decisions[:, column],
            target == code,
            np.inf,
            contrast.groups,
            n_settings=n_settings,
        )
        without = replace(rows, scores=contrast.without[:, column])
        by_class.append(
            evaluate_differences(rows, without, figures_in("compare_factors"))
        )
    gaps = means_over_classes(by_class)
    if task.kind == "multi":
        gaps["macro_recall"] = recall_difference(
            contrast.decisions.argmax(axis=1) == target,
            contrast.without.argmax(axis=1) == target,
            target,
            contrast.groups,
        )
    return FactorFacts(setting=contrast.setting, differences=gaps)


def _comparison_document(
    settings: Settings,
    studies: Mapping[str, Sequence[Study]],
    methods: Mapping[str, Sequence[_Method]],
) -> ComparisonDocument:
    """Return the figures of all methods on all cohorts, and their ranks."""
    rule = settings.rule
    at_sensitivity = _DEFAULT_SENSITIVITY
    if isinstance(rule, MinSensitivity):
        at_sensitivity = rule.value
    entries = []
    for name, cohort_methods in methods.items():
        study = studies[name][0]
        entries.append(_cohort_facts(name, study, cohort_methods, at_sensitivity))
    first = _FIRST_FIGURE.get(rule.name, "auroc")
    return ComparisonDocument(
        format_version=FORMAT_VERSION,
        settings=settings,
        asked_sensitivity=at_sensitivity,
        first_figure=first,
        cohorts=entries,
        ranks=rank_entry(entries, settings.control, first),
        sha256="",
    )


def _cohort_facts(
    name: str,
    study: Study,
    methods: Sequence[_Method],
    at_sensitivity: float,
) -> CohortFacts:
    """Return table, differences and curves of one cohort.

    The first method is the control.
    """
    judgements = [judgement for _, judgement in methods]
    control = judgements[0]
    chances = [control.chance_at_threshold(m) for m in range(len(control.points))]
    at = ComparedAt(at_sensitivity, chances)
    draws = _resampled_figures(judgements, at, study.validation.seed)
    control_values = figures_of_method(control, at)
    watched = control.held.watched
    groups = study.groups
    n_units = min(fewest_units(positive, groups) for positive in watched.T)
    entries = []
    for (facts, judgement), method_draws in zip(methods, draws, strict=True):
        values = figures_of_method(judgement, at)
        with_intervals = {}
        gaps = {}
        for figure, (value,) in values.items():
            drawn = method_draws[figure]
            with_intervals[figure] = with_resampled_interval(value, drawn, n_units)
            if figure in control_values:
                (control_value,) = control_values[figure]
                gaps[figure] = with_resampled_interval(
                    value - control_value, drawn - draws[0][figure], n_units
                )
        differences = None
        if not facts.control:
            differences = gaps | method_differences(
                judgement, control, "compare", chances
            )
        counts = {
            name: judgement.rows(m).two_by_two
            for m, name in enumerate(judgement.held.task.watched)
        }
        entry = facts.replace(
            figures=with_intervals | dict(judgement.means),
            counts=counts,
            differences=differences,
            curve=_mean_roc_curve(judgement.held),
        )
        entries.append(entry)
    signs = [f"{sign.seen} {sign.remedy}" for sign in study.signs]
    n_groups = None if groups is None else len(np.unique(groups))
    return CohortFacts(
        name=name,
        n_rows=len(watched),
        n_positive=int(watched.any(axis=1).sum()),
        n_groups=n_groups,
        notes=[*study.notes, *signs],
        methods=entries,
    )


@dataclass(frozen=True)
class ComparedAt:
    """Where all methods on a cohort are compared.

    Parameters
    ----------
    sensitivity : float
        Where `specificity_at` is read from the ROC curve.
    chances_at_threshold : sequence of float or None
        Calibrated chance at the control's threshold, by watched class: one exchange
        rate for the net benefit of all methods.
    """

    sensitivity: float
    chances_at_threshold: Sequence[float | None]


def figures_of_method(
    method: Judgement, at: ComparedAt, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return figures of one method on one cohort, over the rows of all folds together.

    Several watched classes are averaged.

    Parameters
    ----------
    method : Judgement
    at : ComparedAt
    weights : ndarray of shape (n_draws, n_rows), optional
        How often each row counts in each draw.

    Returns
    -------
    dict of str to ndarray of shape (n_draws,)
        NaN where a draw has no positive or no negative rows.
    """
    held = method.held
    if weights is None:
        weights = np.ones((1, len(held.fold)))
    by_class = []
    for m, positive in enumerate(held.watched.T):
        rows = ResampledRows(
            held.scores[:, m],
            positive,
            method.flagged[:, m],
            weights,
            at.chances_at_threshold[m],
        )
        figures = evaluate_samples(rows, figures_in("compare"))
        figures["specificity_at"] = rows.specificity_at(at.sensitivity)
        if held.at_own_boundary is not None:
            rows = replace(rows, flagged=held.at_own_boundary[:, m])
            own = evaluate_samples(rows, figures_in("own_boundary"))
            figures |= {f"own_{name}": figure for name, figure in own.items()}
        by_class.append(figures)
    means = {}
    for name in by_class[0]:
        means[name] = np.mean([figures[name] for figures in by_class], axis=0)
    if held.predicted is not None:
        means |= weighted_recalls(held.target, held.predicted, weights)
    return means


def _resampled_figures(
    methods: Sequence[Judgement], at: ComparedAt, seed: int
) -> list[dict[str, np.ndarray]]:
    """Return figures of every method in the same bootstrap samples of groups, or rows.

    The fitted models are kept: the spread is that of new rows, not of training on
    another cohort. Values are (n_draws,).
    """
    held = methods[0].held
    parts: list[list[dict[str, np.ndarray]]] = [[] for _ in methods]
    for weights in drawn_weights(len(held.fold), held.groups, seed, DRAWS):
        for method, method_parts in zip(methods, parts, strict=True):
            figures = figures_of_method(method, at, weights)
            method_parts.append(figures)
    return list(map(_join_draws, parts))


def _join_draws(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the draws of each figure, which come in parts, in one array."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _mean_roc_curve(held: HeldOutScores) -> list[float]:
    """Return 1 - specificity at sensitivities of 0, 0.01, ... 1: 101 numbers.

    Averaged over watched classes.
    """
    sensitivities = np.linspace(0.0, 1.0, 101)
    curves = [
        false_alarms_at(scores, positive, sensitivities)
        for scores, positive in zip(held.scores.T, held.watched.T, strict=True)
    ]
    return [round(float(share), 5) for share in np.mean(curves, axis=0)]


def expand_all(names: Sequence[str], cohorts: Mapping[str, Cohort]) -> list[str]:
    """Replace `all` in recipe names by every method that fits the cohorts.

    `auto` is not among them.
    """
    machines = FITS["multi" if _are_multi_class(cohorts) else "binary"]
    recipes: list[str] = []
    for name in names:
        if name != "all":
            recipes.append(name)
            continue
        for recipe in list_recipes():
            if recipe.machine in machines and not recipe.missing_requirement:
                recipes.append(recipe.name)
    return list(dict.fromkeys(recipes))


def name_sources(sources: Sequence[str | Database]) -> dict[str, str | Database]:
    """Return a short name for each cohort: its file's stem, or its table.

    They are numbered if several have the same.
    """
    cohorts: dict[str, str | Database] = {}
    for source in sources:
        name = source.name if isinstance(source, Database) else source
        stem = Path(name).stem or name
        n_same = sum(
            earlier == stem or earlier.startswith(f"{stem} ") for earlier in cohorts
        )
        cohorts[f"{stem} {n_same + 1}" if n_same else stem] = source
    return cohorts


def _with_control(recipes: Sequence[Recipe], control: str) -> list[Recipe]:
    """Return the recipes, the control first."""
    by_name = {recipe.name: recipe for recipe in recipes}
    if len(by_name) < len(recipes):
        raise UsageError("two of the recipes have the same name; name each once")
    first = by_name.pop(control, None) or load_recipe(control)
    return [first, *by_name.values()]


def _score_tables(
    name: str, sample: Cohort, methods: Sequence[_Method]
) -> Iterator[pd.DataFrame]:
    """Yield the held-out scores of each method and watched class."""
    for facts, judgement in methods:
        held = judgement.held
        for m, watched in enumerate(held.task.watched):
            columns: dict[str, Any] = {
                "cohort": name,
                "recipe": facts.recipe,
                "fold": held.fold,
                "id": sample.id,
                "label": sample.labels,
                "class": watched,
                "score": held.scores[:, m],
                "flagged": judgement.flagged[:, m],
            }
            yield pd.DataFrame(columns)


def _digest_of_cohort(cohort: Cohort) -> str:
    """Return the SHA-256 of everything the rows come from."""
    return digest_of_json(
        [cohort.source.to_dict(), cohort.contract.to_dict(), cohort.n_rows]
    )
