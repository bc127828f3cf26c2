"""Several methods on the same folds of the same cohorts, everything tuned on training rows alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.base import FORMAT_VERSION, Document, Estimate
from screening.documents.comparison import CohortFacts, ComparisonDocument, MethodFacts, Settings
from screening.documents.notebook import Brief, InBrief, comparison_brief
from screening.documents.validation import Platt, SearchFacts
from screening.errors import UsageError
from screening.files import digest_of_json
from screening.page.comparison import render_comparison
from screening.parallel import in_parallel, opened
from screening.recipes.loading import FITS, list_recipes, load_recipe, several_asked, tells_apart
from screening.recipes.recipe import Recipe
from screening.sources.database import Database
from screening.statistics.intervals import percentiles
from screening.statistics.operating_point import Rule
from screening.statistics.paired import resampled_difference
from screening.statistics.ranks import rank_entry
from screening.statistics.threshold_search import DEFAULT_RULE, alike
from screening.storage import finished
from screening.storage.serialization import canonical, versions, written
from screening.training.planning import LARGEST_WHOLE, laid
from screening.validation.folds import Study
from screening.validation.held_out import Progress, Resources, held_out_by
from screening.validation.task import ask, watchable
from screening.validation.validation import (
    Outcome,
    Validation,
    differences,
    independent_units,
    mean_curve,
    measured,
    resampled,
)


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
        return comparison_brief(self.facts)

    def summary(self) -> dict[str, object]:
        """Every figure of every method, without intervals and curves."""
        tables = {
            cohort.name: {
                method.recipe: {name: figure.value for name, figure in method.figures.items()}
                | {name: getattr(method, name) for name in ("sv_share", "fit_seconds", "score_seconds")}
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
        lines = {}
        for cohort in self.facts.cohorts:
            lines[cohort.name] = [
                f"{method.recipe:22}"
                + "  ".join(
                    f"{words} {_percent(method.figures[name].value)}" for name, words in _SHOWN.items()
                )
                for method in cohort.methods
            ]
        return lines


_SHOWN = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "g_mean": "G-mean",
    "auroc": "AUROC",
    "specificity_at": "specificity at the asked sensitivity",
}


def _percent(share: float | None) -> str:
    return "    -" if share is None else f"{100 * share:5.1f}"


def write_comparison(found: Comparison, folder: Path, templates: Path | None) -> None:
    """Write `comparison.json`, `scores.parquet` and `report.html`, the page by a site's own templates."""
    (folder / "comparison.json").write_bytes(written(found.document)[1])
    found.scores.to_parquet(folder / "scores.parquet", index=False)
    (folder / "report.html").write_bytes(render_comparison(found.document, templates).encode())


ASKED = 0.9
"""Sensitivity at which specificity is shown where the rule names none."""

FIRST_FIGURE = {"g_mean": "g_mean", "min_sensitivity": "specificity_at"}
"""The figure that answers a rule, by which methods are ordered and ranked; AUROC for others."""


class FitFacts(Document):
    """What choosing the setting and fitting the machines came to."""

    search: SearchFacts
    class_chances: Sequence[Platt]
    sv_share: float | None
    fit_seconds: float
    score_seconds: float


@dataclass(frozen=True)
class Method:
    """One recipe on one cohort: what is computed, and kept, as a whole."""

    study: Study  # the rows and folds of the cohort, and the question as this recipe answers it
    recipe: Recipe
    several: bool  # whether the class it predicts is judged too

    @cached_property
    def key(self) -> str:
        """Of everything that its held-out scores depend on."""
        study = self.study
        rows = hashlib.sha256(study.fold.tobytes() + study.sample.rows.tobytes()).hexdigest()
        made_by = [study.search, study.seed, versions(), study.task.facts().to_dict()]
        return digest_of_json(
            [_digest(study.sample), rows, *made_by, self.recipe.text, self.recipe.parameters]
        )[:24]

    @property
    def work(self) -> int:
        """About how long it takes, in no unit: kernel machines grow with the square of the rows."""
        return 1 + self.study.sample.n_rows**2 * (self.study.search or self.recipe.search.candidates) // 1000


@dataclass(frozen=True)
class Judged:
    """A method on one cohort, at thresholds by the rule."""

    method: Method
    fit: FitFacts
    outcome: Outcome


def compare(
    cohorts: Mapping[str, Cohort],
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
) -> Comparison:
    """Judge methods on the same folds, each with setting and threshold chosen from its held-out scores.

    Parameters
    ----------
    cohorts : mapping from str to Cohort
        Cohorts with labels, by the names that the tables give them.
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
        Folder for finished methods: a comparison that was killed goes on from there.
    cluster : str, optional
        Where other processes judge the methods: ``"local:N"``, or the address of a dask scheduler. Rows
        go there over TLS. The figures do not depend on it (docs/scale.md).
    progress : callable, optional
        Called with (work done, work in all).
    command : str, optional
        The command line, to be stated on the page.

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
    control = control or ("one_vs_rest" if any(map(several_asked, cohorts.values())) else "svm")
    recipes = _methods(recipes, control)
    plan = partial(
        laid, recipe=recipes[0], rule=rule, params={}, folds=folds, repeats=repeats, max_rows=max_rows,
        search=search, seed=seed, independent=independent, at_most=LARGEST_WHOLE,
    )  # fmt: skip
    methods = {name: methods_of(plan(cohort), recipes) for name, cohort in cohorts.items()}
    settings = Settings(
        rule=rule,
        folds=folds,
        repeats=repeats,
        search=search,
        seed=seed,
        max_rows=max_rows,
        cohorts={name: _digest(cohort) for name, cohort in cohorts.items()},
        versions=versions(),
        control=control,
        command=command,
        recipes=[each.name for each in recipes],
    )
    with opened(cluster) as workers:
        every = [method for mine in methods.values() for method in mine]
        made = work_through(every, Resources(jobs, None, progress, workers, kept))
    judged = {name: [at_thresholds(each, made[each.key]) for each in mine] for name, mine in methods.items()}
    asked = rule.value if rule.name == "min_sensitivity" and rule.value is not None else ASKED
    entries = [cohort_entry(name, mine, asked, seed) for name, mine in judged.items()]
    first = FIRST_FIGURE.get(rule.name, "auroc")
    document = ComparisonDocument(
        format_version=FORMAT_VERSION,
        settings=settings,
        asked_sensitivity=asked,
        first_figure=first,
        cohorts=entries,
        ranks=rank_entry(entries, control, first),
        sha256="",
    )
    scores = [table for name, mine in judged.items() for table in _scores(name, mine)]
    return Comparison(document, pd.concat(scores, ignore_index=True))


def methods_of(study: Study, recipes: Sequence[Recipe]) -> list[Method]:
    """Every recipe on a cohort, all judged on the same watched classes.

    The predicted class is judged too where every recipe tells all classes apart.
    """
    asked = [tells_apart(recipe, study.sample) for recipe in recipes]
    studies = {}
    for several in set(asked):
        task = ask(study.sample, several)
        own = watchable(task, task.target(labels_of(study.sample)), study.groups, study.folds)
        studies[several] = replace(study, task=own)
    return [
        Method(studies[several], recipe, all(asked)) for several, recipe in zip(asked, recipes, strict=True)
    ]


def held_out(key: str, study: Study, recipe: Recipe) -> tuple[str, dict[str, np.ndarray]]:
    """Every row held out by a method, its setting chosen as `train` chooses it, and which method it was.

    Raises RecipeError: no setting of the method can be used.
    """
    found = held_out_by(study, recipe, resources=Resources(jobs=1))
    fit_seconds, score_seconds = found.seconds
    facts = FitFacts(
        search=found.search, class_chances=found.class_chances, sv_share=found.sv_share,
        fit_seconds=fit_seconds, score_seconds=score_seconds,
    )  # fmt: skip
    arrays = {"decisions": found.decisions, "facts": np.frombuffer(canonical(facts.to_dict()), np.uint8)}
    copies = alike(found.encoded.x)
    return key, arrays if copies is None else arrays | {"alike": copies}


def work_through(methods: Sequence[Method], resources: Resources) -> dict[str, dict[str, np.ndarray]]:
    """Every method's held-out decisions by its key: what is kept is read, the rest computed and kept."""
    kept = resources.kept
    if kept is not None:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        finished.sweep_place(kept, {f"{each.key}.npz" for each in methods})
    places = {} if kept is None else {each.key: kept / f"{each.key}.npz" for each in methods}
    made = {key: arrays for key, place in places.items() if (arrays := finished.take(place))}
    work = {each.key: each.work for each in methods}
    progress = resources.progress or (lambda done, total: None)
    progress(sum(work[key] for key in made), sum(work.values()))
    waiting = [each for each in methods if each.key not in made]
    studies = {id(each.study): each.study for each in waiting}
    if resources.cluster is not None:
        resources.cluster.check(secret=True)
        studies = {key: study.to_travel() for key, study in studies.items()}
    given = [(each.key, studies[id(each.study)], each.recipe) for each in waiting]
    results = in_parallel(
        held_out, given, jobs=resources.jobs, cluster=resources.cluster, shared=[*studies.values()],
        ordered=False,
    )  # fmt: skip
    for key, arrays in results:
        if places:
            finished.keep(places[key], arrays)
        made[key] = arrays
        progress(sum(work[key] for key in made), sum(work.values()))
    return made


def at_thresholds(method: Method, made: Mapping[str, np.ndarray]) -> Judged:
    """A method's thresholds by the rule, from what `work_through` made of it."""
    study, fit = method.study, FitFacts.from_dict(json.loads(made["facts"].tobytes()), "a kept method")
    validation = Validation.of_decisions(
        made["decisions"].astype(float), study.task, study.target, study.groups, fit.class_chances,
        fold=study.fold[0], n_settings=fit.search.n_candidates, alike=made.get("alike"),
    )  # fmt: skip
    if not method.several:
        validation = replace(validation, predicted=None, target=None)
    points = validation.operating_points([study.rule] * len(study.task.watched), study.seed)
    return Judged(method, fit, Outcome(validation, points))


def cohort_entry(name: str, judged: Sequence[Judged], asked: float, seed: int) -> CohortFacts:
    """Table, differences and curves of one cohort; the first method is the control."""
    outcomes, study = [each.outcome for each in judged], judged[0].method.study
    draws = resampled(outcomes, asked, seed=seed)
    estimates = [measured(outcome, asked) for outcome in outcomes]
    control, watched = outcomes[0], outcomes[0].validation.watched
    n_units = independent_units(control.validation)
    entries = []
    for at, each in enumerate(judged):
        recipe, fit, outcome, gaps = each.method.recipe, each.fit, each.outcome, None
        if at:
            gaps = {
                figure: resampled_difference(
                    (float(value[0]), float(estimates[0][figure][0])),
                    (draws[at][figure], draws[0][figure]),
                    n_units,
                )
                for figure, value in estimates[at].items()
                if figure in estimates[0]
            } | differences(outcome, control)
        passes = [setting.get("passes") for setting in fit.search.candidates]
        entries.append(
            MethodFacts(
                recipe=recipe.name,
                title=recipe.title,
                paper=recipe.paper,
                machine=recipe.machine,
                control=not at,
                figures={
                    figure: _with_interval(float(value[0]), draws[at][figure], n_units)
                    for figure, value in estimates[at].items()
                }
                | dict(outcome.figures),
                differences=gaps,
                curve=[round(float(x), 5) for x in mean_curve(outcome.validation)],
                sv_share=fit.sv_share,
                fit_seconds=fit.fit_seconds,
                score_seconds=fit.score_seconds,
                chosen=fit.search.chosen,
                n_candidates=fit.search.n_candidates,
                factor_declined=fit.search.chosen.get("passes") == 0 if 0 in passes else None,
            )
        )
    groups = control.validation.groups
    return CohortFacts(
        name=name,
        n_rows=len(watched),
        n_positive=int(watched.any(axis=1).sum()),
        n_groups=None if groups is None else len(np.unique(groups)),
        notes=[*study.notes, *(f"{sign.seen} {sign.remedy}" for sign in study.signs)],
        methods=entries,
    )


def _with_interval(value: float, draws: np.ndarray, n_units: int) -> Estimate:
    known = draws[np.isfinite(draws)]
    if not np.isfinite(value) or not len(known):
        return Estimate(value if np.isfinite(value) else None)
    low, high = percentiles(known, n_units)
    return Estimate(value, min(float(low), value), max(float(high), value))


def comparable(names: Sequence[str], cohorts: Mapping[str, Cohort]) -> list[str]:
    """Recipe names of a command line: `all` stands for every method that fits the cohorts, `auto` apart."""
    machines = FITS["multi" if any(map(several_asked, cohorts.values())) else "binary"]
    found: list[str] = []
    for name in names:
        every = [each.name for each in list_recipes() if each.machine in machines and not each.lacks]
        found += every if name == "all" else [name]
    return list(dict.fromkeys(found))


def named(sources: Sequence[str | Database]) -> dict[str, str | Database]:
    """A short name for each cohort: its file's stem or its table, numbered where two share one."""
    found: dict[str, str | Database] = {}
    for source in sources:
        name = source.name if isinstance(source, Database) else source
        stem = Path(name).stem or name
        again = sum(name == stem or name.startswith(f"{stem} ") for name in found)
        found[f"{stem} {again + 1}" if again else stem] = source
    return found


def _methods(recipes: Sequence[Recipe | str], control: str) -> list[Recipe]:
    """The recipes, the control first."""
    loaded = [load_recipe(recipe) if isinstance(recipe, str) else recipe for recipe in recipes]
    named = {recipe.name: recipe for recipe in loaded}
    if len(named) < len(loaded):
        raise UsageError("two of the recipes have the same name; a comparison needs each once")
    first = named.pop(control, None) or load_recipe(control)
    return [first, *named.values()]


def _scores(name: str, judged: Sequence[Judged]) -> Iterator[pd.DataFrame]:
    for each in judged:
        outcome, study = each.outcome, each.method.study
        for m, watched in enumerate(study.task.watched):
            columns: dict[str, Any] = {
                "cohort": name,
                "recipe": each.method.recipe.name,
                "fold": outcome.validation.fold,
                "id": study.sample.id,
                "label": labels_of(study.sample),
                "class": watched,
                "score": outcome.validation.scores[:, m],
                "flagged": outcome.flagged[:, m],
            }
            yield pd.DataFrame(columns)


def _digest(cohort: Cohort) -> str:
    """SHA-256 of everything the rows come from."""
    told = [cohort.source.to_dict(), cohort.contract.to_dict(), cohort.n_rows]
    return digest_of_json(told)
