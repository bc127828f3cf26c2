"""Several methods on the same folds of the same cohorts, everything tuned on training rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort, labels_of
from screening.data.reading import Reading, labelled_cohort
from screening.errors import UsageError
from screening.files import digest_of_json
from screening.io.database import Database
from screening.io.opening import Readable
from screening.metrics.intervals import percentiles
from screening.metrics.paired import (
    DRAWS,
    drawn_weights,
    false_alarms_at,
    resampled_difference,
    weighted_ranking,
    weighted_rates,
    weighted_recalls,
)
from screening.metrics.ranks import rank_entry
from screening.metrics.tally import fewest_units
from screening.model_selection.folds import Study
from screening.model_selection.held_out import (
    Progress,
    Resources,
    held_out_by,
    progress_of_parts,
    silent,
)
from screening.model_selection.judge import Judgement, differences, judge
from screening.model_selection.planning import LARGEST_WHOLE, prepare_study
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import infer_task, watchable
from screening.parallel import opened
from screening.recipes.building import list_recipes, load_recipe
from screening.recipes.recipe import FITS, Recipe, several_asked, tells_apart
from screening.report.comparison import render_comparison
from screening.schemas.base import FORMAT_VERSION, Brief, Estimate, InBrief
from screening.schemas.comparison import (
    CohortFacts,
    ComparisonDocument,
    MethodFacts,
    Settings,
)
from screening.schemas.figures import DEFAULT_RULE, MinSensitivity, Rule
from screening.store.serialization import versions, written


@dataclass(frozen=True, repr=False)
class Comparison(InBrief):
    """The outcome of `compare`.

    Parameters
    ----------
    facts : ComparisonDocument
        Settings, a table, differences and curves a cohort, ranks over cohorts.
    scores : DataFrame
        Held-out rows: cohort, recipe, fold, id, label, class, score, flagged.
    """

    facts: ComparisonDocument
    scores: pd.DataFrame

    @cached_property
    def document(self) -> dict[str, object]:
        """What `comparison.json` holds."""
        return self.facts.to_dict()

    def brief(self) -> Brief:
        return self.facts.brief()

    def summary(self) -> dict[str, object]:
        """Every figure of every method, without intervals and curves."""
        tables = {
            cohort.name: {
                method.recipe: {
                    name: figure.value for name, figure in method.figures.items()
                }
                | {
                    name: getattr(method, name)
                    for name in ("sv_share", "fit_seconds", "score_seconds")
                }
                for method in cohort.methods
            }
            for cohort in self.facts.cohorts
        }
        ranks = self.facts.ranks
        return {
            "control": self.facts.settings.control,
            "cohorts": tables,
            "ranks": None if ranks is None else ranks.to_dict(),
        }

    def table(self) -> dict[str, list[str]]:
        """A line a cohort and method: what a person reads first."""
        return {
            cohort.name: [
                f"{method.recipe:22}"
                + "  ".join(
                    f"{title} {_percent(method.figures[name].value)}"
                    for name, title in _SHOWN.items()
                )
                for method in cohort.methods
            ]
            for cohort in self.facts.cohorts
        }


_SHOWN = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "g_mean": "G-mean",
    "auroc": "AUROC",
    "specificity_at": "specificity at the asked sensitivity",
}


def _percent(share: float | None) -> str:
    return "    -" if share is None else f"{100 * share:5.1f}"


def write_comparison(
    comparison: Comparison, folder: Path, templates: Path | None
) -> None:
    """Write `comparison.json`, `scores.parquet` and `report.html`, the page by a site's own templates."""
    (folder / "comparison.json").write_bytes(written(comparison.document)[1])
    comparison.scores.to_parquet(folder / "scores.parquet", index=False)
    (folder / "report.html").write_bytes(
        render_comparison(comparison.document, templates).encode()
    )


ASKED = 0.9  # sensitivity at which specificity is shown where the rule names none
FIRST_FIGURE = {"g_mean": "g_mean", "min_sensitivity": "specificity_at"}
"""The figure that answers a rule, by which methods are ordered and ranked; AUROC for others."""


def compare(
    cohorts: Mapping[str, Cohort | Readable],
    recipes: Sequence[Recipe | str],
    *,
    rule: Rule = DEFAULT_RULE,
    folds: int = 5,
    repeats: int | None = None,
    search: int | None = None,
    seed: int = 0,
    jobs: int = -1,
    max_rows: int | None = None,
    control: str | None = None,
    independent: bool = False,
    kept: Path | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    command: str | None = None,
    **reading: Unpack[Reading],
) -> Comparison:
    """Judge methods on the same folds, each with setting and threshold chosen from its held-out scores.

    Parameters
    ----------
    cohorts : mapping from str to Cohort, path, Database, or table
        Cohorts with labels, by the names that the page gives them. What is no Cohort
        yet is read as `reading` says.
    recipes : sequence of Recipe or str
        The control is added where it is missing.
    rule : Rule
        Chooses every method's threshold from its held-out scores.
    folds : int
        Fewer where there are fewer groups, or fewer rows of the rarer class.
    repeats : int, optional
        How often the folds are dealt; by default three times where fits are cheap.
    search : int, optional
        Settings that compete on the held-out rows; each recipe's own number by default.
    seed : int
        Deals the folds and the candidates.
    jobs : int
        Threads; -1 for all cores. The figures do not depend on it.
    max_rows : int, optional
        Compare on a stratified sub-sample of this many rows a cohort.
    control : str, optional
        Recipe that the others are compared with; the plain machine ("svm", or "one_vs_rest" where several
        classes are told apart) if None.
    independent : bool
        Every row is a patient of its own, whatever the tables look like.
    kept : Path, optional
        Folder for finished folds: a comparison that was killed goes on from there.
    cluster : str, optional
        Where other processes fit the folds: ``"local:N"``, or the address of a dask scheduler. Rows
        go there over TLS. The figures do not depend on it (docs/scale.md).
    progress : callable, optional
        Called with (work done, work in all).
    command : str, optional
        The command line, to be stated on the page.
    **reading
        `label`, `id`, `group`, `contract` and the like, as `read_cohort` takes them.

    Returns
    -------
    Comparison
        Tables, differences and curves, and the held-out scores; not yet written.

    Raises
    ------
    UsageError
        No cohort, one whose rows are surely of the same patients with no group that says which, or that a
        recipe cannot be asked about; `kept` belongs to another comparison; no workers.
    RecipeError
        A recipe is unknown, or cannot be built.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import compare, read_cohort
    >>> samples = files("screening.sample_cohorts")
    >>> cohort = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> compared = compare({"ward": cohort}, ["logistic", "one_class"], control="logistic", search=1)
    >>> list(compared.summary()["cohorts"]["ward"])
    ['logistic', 'one_class']
    """
    if not cohorts:
        raise UsageError("give at least one cohort to compare on")
    read = {
        name: labelled_cohort(cohort, **reading) for name, cohort in cohorts.items()
    }
    control = control or (
        "one_vs_rest" if any(map(several_asked, read.values())) else "svm"
    )
    recipes = _methods(recipes, control)
    given: dict[str, Any] = {"rule": rule, "folds": folds, "repeats": repeats}
    given |= {"max_rows": max_rows, "search": search, "seed": seed}
    studies = {
        name: studies_of(
            prepare_study(
                cohort,
                recipes[0],
                params={},
                independent=independent,
                at_most=LARGEST_WHOLE,
                **given,
            ),
            recipes,
        )
        for name, cohort in read.items()
    }
    settings = Settings(
        **given,
        cohorts={name: _digest(cohort) for name, cohort in read.items()},
        versions=versions(),
        control=control,
        command=command,
        recipes=[recipe.name for recipe in recipes],
    )
    with opened(cluster) as workers:
        if workers is not None:
            workers.check(secret=True)
        resources = Resources(jobs, None, progress or silent, workers, kept)
        steps = progress_of_parts(resources, [1.0] * (len(studies) * len(recipes)))
        methods = {name: methods_of(recipes, of, steps) for name, of in studies.items()}
    at = rule.value if isinstance(rule, MinSensitivity) else ASKED
    entries = [
        cohort_entry(name, studies[name][0], of_cohort, at, seed)
        for name, of_cohort in methods.items()
    ]
    first = FIRST_FIGURE.get(rule.name, "auroc")
    document = ComparisonDocument(
        format_version=FORMAT_VERSION,
        settings=settings,
        asked_sensitivity=at,
        first_figure=first,
        cohorts=entries,
        ranks=rank_entry(entries, control, first),
        sha256="",
    )
    scores = (
        table
        for name, of_cohort in methods.items()
        for table in _scores(name, studies[name][0].sample, of_cohort)
    )
    return Comparison(document, pd.concat(scores, ignore_index=True))


def studies_of(study: Study, recipes: Sequence[Recipe]) -> list[Study]:
    """The study as each recipe answers its question, all of them by the same watched classes."""
    studies = []
    for recipe in recipes:
        task, _ = infer_task(study.sample, tells_apart(recipe, study.sample))
        target = task.target(labels_of(study.sample))
        studies.append(
            replace(study, task=watchable(task, target, study.groups, study.folds)[0])
        )
    return studies


Method = tuple[MethodFacts, Judgement]


def methods_of(
    recipes: Sequence[Recipe], studies: Sequence[Study], steps: Iterator[Resources]
) -> list[Method]:
    """Hold a cohort's rows out by every recipe, as `train` does, and choose thresholds by the rule.

    Gives what there is to say of each method but for its figures; the first is the control. The predicted
    class is judged too where every recipe tells all classes apart. RecipeError where no setting of a recipe
    can be used.
    """
    several, encoded = all(study.task.kind == "multi" for study in studies), None
    methods: list[Method] = []
    for recipe, study in zip(recipes, studies, strict=True):
        held_out = held_out_by(study, recipe, resources=next(steps), like=encoded)
        encoded, search = encoded or held_out.encoded, held_out.search
        scores = HeldOutScores.of(held_out, study)
        if not several:
            scores = replace(scores, predicted=None)
        rules = [study.rule] * len(study.task.watched)
        judgement = judge(scores, rules, study.seed, refuse=False)
        may_decline = any(setting.get("passes") == 0 for setting in search.candidates)
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
            factor_declined=search.chosen.get("passes") == 0 if may_decline else None,
        )
        methods.append((facts, judgement))
    return methods


def cohort_entry(
    name: str, study: Study, methods: Sequence[Method], at_sensitivity: float, seed: int
) -> CohortFacts:
    """Table, differences and curves of one cohort; the first method is the control."""
    judgements = [judgement for _, judgement in methods]
    draws = resampled(judgements, at_sensitivity, seed=seed)
    estimates = [
        {
            figure: float(value[0])
            for figure, value in measured(judgement, at_sensitivity).items()
        }
        for judgement in judgements
    ]
    control, watched, groups = judgements[0], judgements[0].held.watched, study.groups
    n_units = min(fewest_units(positive, groups) for positive in watched.T)
    entries = []
    for (facts, judgement), own, drawn in zip(methods, estimates, draws, strict=True):
        gaps = {
            figure: resampled_difference(
                (value, estimates[0][figure]),
                (drawn[figure], draws[0][figure]),
                n_units,
            )
            for figure, value in own.items()
            if figure in estimates[0]
        }
        figures = {
            figure: _with_interval(value, drawn[figure], n_units)
            for figure, value in own.items()
        }
        entries.append(
            facts.replace(
                figures=figures | dict(judgement.means),
                differences=None
                if facts.control
                else gaps | differences(judgement, control),
                curve=[round(float(x), 5) for x in mean_curve(judgement.held)],
            )
        )
    return CohortFacts(
        name=name,
        n_rows=len(watched),
        n_positive=int(watched.any(axis=1).sum()),
        n_groups=None if groups is None else len(np.unique(groups)),
        notes=[*study.notes, *(f"{sign.seen} {sign.remedy}" for sign in study.signs)],
        methods=entries,
    )


def measured(
    method: Judgement, at_sensitivity: float, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort, over the rows of all folds together, (n_draws,) each.

    Several watched classes are averaged. `at_sensitivity` is where `specificity_at` is read from
    the ROC curve; `weights` (n_draws, n_rows) say how often each row counts in each draw. NaN where a draw
    holds no positive or no negative row.
    """
    held = method.held
    w = np.ones((1, len(held.fold))) if weights is None else weights
    by_class = []
    for m, positive in enumerate(held.watched.T):
        sensitivity, specificity, g_mean = weighted_rates(
            method.flagged[:, m], positive, w
        )
        rates = {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "g_mean": g_mean,
            "min_sensitivity": np.minimum(sensitivity, specificity),
        }
        if held.own is not None:
            rates["own_g_mean"] = weighted_rates(held.own[:, m], positive, w)[2]
        by_class.append(
            rates | weighted_ranking(held.scores[:, m], positive, w, at_sensitivity)
        )
    means = {
        name: np.mean([figures[name] for figures in by_class], axis=0)
        for name in by_class[0]
    }
    if held.predicted is not None:
        means |= weighted_recalls(held.target, held.predicted, w)
    return means


def resampled(
    methods: Sequence[Judgement],
    at_sensitivity: float,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[dict[str, np.ndarray]]:
    """Figures of every method, (draws,) each, in the same bootstrap samples of groups (or rows).

    The fitted models are kept: the spread is that of new rows, not of training on another cohort.
    """
    held = methods[0].held
    parts = [
        [measured(method, at_sensitivity, weights) for method in methods]
        for weights in drawn_weights(len(held.fold), held.groups, seed, draws)
    ]
    return [
        {
            name: np.concatenate([part[m][name] for part in parts])
            for name in parts[0][m]
        }
        for m in range(len(methods))
    ]


def mean_curve(held: HeldOutScores) -> np.ndarray:
    """1 - specificity at sensitivities of 0, 0.01, ... 1, averaged over watched classes; shape (101,)."""
    grid, pairs = (
        np.linspace(0.0, 1.0, 101),
        zip(held.scores.T, held.watched.T, strict=True),
    )
    return np.mean(
        [false_alarms_at(scores, positive, grid) for scores, positive in pairs], axis=0
    )


def _with_interval(value: float, draws: np.ndarray, n_units: int) -> Estimate:
    finite = draws[np.isfinite(draws)]
    if not np.isfinite(value) or not len(finite):
        return Estimate(value if np.isfinite(value) else None)
    low, high = percentiles(finite, n_units)
    return Estimate(value, min(float(low), value), max(float(high), value))


def comparable(names: Sequence[str], cohorts: Mapping[str, Cohort]) -> list[str]:
    """Recipe names of a command line: `all` stands for every method that fits the cohorts, `auto` apart."""
    machines = FITS["multi" if any(map(several_asked, cohorts.values())) else "binary"]
    recipes: list[str] = []
    for name in names:
        shipped = list_recipes()
        fitting = [
            one.name for one in shipped if one.machine in machines and not one.lacks
        ]
        recipes += fitting if name == "all" else [name]
    return list(dict.fromkeys(recipes))


def named(sources: Sequence[str | Database]) -> dict[str, str | Database]:
    """A short name for each cohort: its file's stem or its table, numbered where two share one."""
    cohorts: dict[str, str | Database] = {}
    for source in sources:
        name = source.name if isinstance(source, Database) else source
        stem = Path(name).stem or name
        n_alike = sum(name == stem or name.startswith(f"{stem} ") for name in cohorts)
        cohorts[f"{stem} {n_alike + 1}" if n_alike else stem] = source
    return cohorts


def _methods(recipes: Sequence[Recipe | str], control: str) -> list[Recipe]:
    """The recipes, the control first."""
    loaded = [
        load_recipe(recipe) if isinstance(recipe, str) else recipe for recipe in recipes
    ]
    named = {recipe.name: recipe for recipe in loaded}
    if len(named) < len(loaded):
        raise UsageError(
            "two of the recipes have the same name; a comparison needs each once"
        )
    first = named.pop(control, None) or load_recipe(control)
    return [first, *named.values()]


def _scores(
    name: str, sample: Cohort, methods: Sequence[Method]
) -> Iterator[pd.DataFrame]:
    for facts, judgement in methods:
        held = judgement.held
        for m, watched in enumerate(held.task.watched):
            columns: dict[str, Any] = {
                "cohort": name,
                "recipe": facts.recipe,
                "fold": held.fold,
                "id": sample.id,
                "label": labels_of(sample),
                "class": watched,
                "score": held.scores[:, m],
                "flagged": judgement.flagged[:, m],
            }
            yield pd.DataFrame(columns)


def _digest(cohort: Cohort) -> str:
    """SHA-256 of everything the rows come from."""
    return digest_of_json(
        [cohort.source.to_dict(), cohort.contract.to_dict(), cohort.n_rows]
    )
