"""Several methods on the same folds of the same cohorts, everything tuned on training rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.base import FORMAT_VERSION, Estimate
from screening.documents.comparison import CohortFacts, ComparisonDocument, MethodFacts, Settings
from screening.documents.figures import DEFAULT_RULE, MinSensitivity, Rule
from screening.documents.notebook import Brief, InBrief, comparison_brief
from screening.documents.validation import SearchFacts
from screening.errors import UsageError
from screening.files import digest_of_json
from screening.page.comparison import render_comparison
from screening.parallel import opened
from screening.recipes.loading import FITS, list_recipes, load_recipe, several_asked, tells_apart
from screening.recipes.recipe import Recipe
from screening.sources.database import Database
from screening.statistics.intervals import percentiles
from screening.statistics.paired import resampled_difference
from screening.statistics.ranks import rank_entry
from screening.statistics.tally import fewest_units
from screening.storage.serialization import versions, written
from screening.training.planning import LARGEST_WHOLE, laid
from screening.validation.folds import Study
from screening.validation.held_out import Progress, Resources, held_out_by, progress_of_parts, silent
from screening.validation.task import ask, watchable
from screening.validation.validation import (
    Outcome,
    Validation,
    differences,
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


@dataclass(frozen=True)
class Judged:
    """One recipe on one cohort, at thresholds by the rule; its machines are not kept."""

    recipe: Recipe
    study: Study  # the rows and folds of the cohort, and the question as this recipe answers it
    search: SearchFacts
    sv_share: float | None
    seconds: tuple[float, float]  # of fitting a machine, and of scoring a thousand rows by it
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
        Folder for finished folds: a comparison that was killed goes on from there.
    cluster : str, optional
        Where other processes fit the folds: ``"local:N"``, or the address of a dask scheduler. Rows
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
    asked: dict[str, Any] = {"rule": rule, "folds": folds, "repeats": repeats}
    asked |= {"max_rows": max_rows, "search": search, "seed": seed}
    studies = {
        name: studies_of(
            laid(cohort, recipes[0], params={}, independent=independent, at_most=LARGEST_WHOLE, **asked),
            recipes,
        )
        for name, cohort in cohorts.items()
    }
    settings = Settings(
        **asked,
        cohorts={name: _digest(cohort) for name, cohort in cohorts.items()},
        versions=versions(),
        control=control,
        command=command,
        recipes=[each.name for each in recipes],
    )
    with opened(cluster) as workers:
        if workers is not None:
            workers.check(secret=True)
        resources = Resources(jobs, None, progress or silent, workers, kept)
        steps = progress_of_parts(resources, [1.0] * (len(studies) * len(recipes)))
        judged = {name: list(judged_by(recipes, of, steps)) for name, of in studies.items()}
    at = rule.value if isinstance(rule, MinSensitivity) else ASKED
    entries = [cohort_entry(name, mine, at, seed) for name, mine in judged.items()]
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
    scores = [table for name, mine in judged.items() for table in _scores(name, mine)]
    return Comparison(document, pd.concat(scores, ignore_index=True))


def studies_of(study: Study, recipes: Sequence[Recipe]) -> list[Study]:
    """The study as each recipe answers its question, all of them by the same watched classes."""
    found = []
    for recipe in recipes:
        task, _ = ask(study.sample, tells_apart(recipe, study.sample))
        target = task.target(labels_of(study.sample))
        found.append(replace(study, task=watchable(task, target, study.groups, study.folds)[0]))
    return found


def judged_by(
    recipes: Sequence[Recipe], studies: Sequence[Study], steps: Iterator[Resources]
) -> Iterator[Judged]:
    """Hold a cohort's rows out by every recipe, as `train` does, and choose thresholds by the rule.

    The predicted class is judged too where every recipe tells all classes apart. RecipeError where no setting
    of a recipe can be used.
    """
    several, encoded = all(study.task.kind == "multi" for study in studies), None
    for recipe, study in zip(recipes, studies, strict=True):
        held_out = held_out_by(study, recipe, resources=next(steps), like=encoded)
        encoded = encoded or held_out.encoded
        validation = Validation.of(held_out, study)
        if not several:
            validation = replace(validation, predicted=None)
        classes = range(len(study.task.watched))
        points = [validation.operating_point(m, study.rule, study.seed) for m in classes]
        outcome = Outcome(validation, points)
        yield Judged(recipe, study, held_out.search, held_out.sv_share, held_out.seconds, outcome)


def cohort_entry(name: str, judged: Sequence[Judged], asked: float, seed: int) -> CohortFacts:
    """Table, differences and curves of one cohort; the first method is the control."""
    outcomes, study = [each.outcome for each in judged], judged[0].study
    draws = resampled(outcomes, asked, seed=seed)
    estimates = [measured(outcome, asked) for outcome in outcomes]
    control, watched = outcomes[0], outcomes[0].validation.watched
    n_units = min(fewest_units(positive, control.validation.groups) for positive in watched.T)
    entries = []
    for at, each in enumerate(judged):
        search, outcome, gaps = each.search, each.outcome, None
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
        passes = [setting.get("passes") for setting in search.candidates]
        entries.append(
            MethodFacts(
                recipe=each.recipe.name,
                title=each.recipe.title,
                paper=each.recipe.paper,
                machine=each.recipe.machine,
                control=not at,
                figures={
                    figure: _with_interval(float(value[0]), draws[at][figure], n_units)
                    for figure, value in estimates[at].items()
                }
                | dict(outcome.figures),
                differences=gaps,
                curve=[round(float(x), 5) for x in mean_curve(outcome.validation)],
                sv_share=each.sv_share,
                fit_seconds=each.seconds[0],
                score_seconds=each.seconds[1],
                chosen=search.chosen,
                n_candidates=search.n_candidates,
                factor_declined=search.chosen.get("passes") == 0 if 0 in passes else None,
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
        outcome, study = each.outcome, each.study
        for m, watched in enumerate(study.task.watched):
            columns: dict[str, Any] = {
                "cohort": name,
                "recipe": each.recipe.name,
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
