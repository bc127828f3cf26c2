"""Several methods on the same folds of the same cohorts, everything tuned on training rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from screening.cohort.cohort import Cohort, labels_of
from screening.comparison.document import cohort_entry, first_figure, rank_entry
from screening.comparison.plan import Checkpoints, Unit, common_ground, judged_on, units_of, work_through
from screening.documents.comparison import ComparisonDocument, Settings
from screening.documents.model import FORMAT_VERSION
from screening.documents.notebook import Brief, InBrief, comparison_brief
from screening.documents.shape import plain
from screening.errors import UsageError
from screening.files import digest_of_json
from screening.page.comparison import render_comparison
from screening.parallel import opened
from screening.recipes.loading import list_recipes, load_recipe
from screening.recipes.recipe import Recipe
from screening.sources.database import Database
from screening.statistics.operating_point import Rule
from screening.storage.serialization import versions, written
from screening.training.train import DEFAULT_RULE
from screening.validation.held_out import Progress
from screening.validation.outcome import Outcome, truth_of


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
        return plain(self.facts)

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
            "ranks": None if ranks is None else plain(ranks),
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


METHODS = ("control", "command", "recipes")
"""Settings that no kept number depends on: each method has a file of its own."""

ASKED = 0.9
"""Sensitivity at which specificity is shown where the rule names none."""


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
        No cohort, a cohort that a recipe cannot be asked about, or `kept` belongs to another comparison; no
        workers.
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
    control = control or _plain_machine(recipes, cohorts)
    methods = _methods(recipes, control)
    grounds = [
        common_ground(name, cohort, methods[0], rule, folds, repeats, max_rows, seed)
        for name, cohort in cohorts.items()
    ]
    plan = [unit for place, ground in enumerate(grounds) for unit in units_of(ground, place, methods, search)]
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
        recipes=[each.name for each in methods],
    )
    decide = {key: value for key, value in plain(settings).items() if key not in METHODS}
    with opened(cluster) as workers:
        outcomes = work_through(
            plan,
            seed=seed,
            jobs=jobs,
            cluster=workers,
            checkpoints=None if kept is None else Checkpoints(kept, decide),
            progress=progress,
        )
    asked = rule.value if rule.name == "min_sensitivity" and rule.value is not None else ASKED
    entries = []
    for ground in grounds:
        mine = [unit for unit in plan if unit.ground is ground]
        of_recipe = {unit.recipe.name: outcomes[unit.key] for unit in mine}
        entries.append(
            cohort_entry(
                ground.name,
                {recipe.name: (recipe, of_recipe[recipe.name]) for recipe in methods},
                {unit.recipe.name: truth_of(ground.sample, unit.end_point) for unit in mine},
                ground.groups,
                asked=asked,
                control=control,
                seed=seed,
                notes=[*ground.notes, *judged_on(mine)],
            )
        )
    first = first_figure(rule.name)
    found = ComparisonDocument(
        format_version=FORMAT_VERSION,
        settings=settings,
        asked_sensitivity=asked,
        first_figure=first,
        cohorts=entries,
        ranks=rank_entry(entries, control, first),
        sha256="",
    )
    return Comparison(found, _scores(plan, outcomes))


def comparable(names: Sequence[str], cohorts: Mapping[str, Cohort]) -> list[str]:
    """Recipe names of a command line: `all` stands for every method that fits the cohorts, `auto` apart."""
    several = any(_has_several_classes(cohort) for cohort in cohorts.values())
    machines = {"multi_class"} if several else {"one_class", "two_class", "baseline"}
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


def _has_several_classes(cohort: Cohort) -> bool:
    return len(cohort.classes) > 2 and not cohort.contract.positive


def _plain_machine(recipes: Sequence[Recipe | str], cohorts: Mapping[str, Cohort]) -> str:
    """The control where none is named: one that the methods can be compared with class by class."""
    if any(_has_several_classes(cohort) for cohort in cohorts.values()):
        return "one_vs_rest"
    asked = [load_recipe(each) if isinstance(each, str) else each for each in recipes]
    named = any(len(cohort.contract.positive) > 1 for cohort in cohorts.values())
    return "one_vs_rest" if named and all(each.machine == "multi_class" for each in asked) else "svm"


def _methods(recipes: Sequence[Recipe | str], control: str) -> list[Recipe]:
    """The recipes, the control first."""
    loaded = [load_recipe(recipe) if isinstance(recipe, str) else recipe for recipe in recipes]
    named = {recipe.name: recipe for recipe in loaded}
    if len(named) < len(loaded):
        raise UsageError("two of the recipes have the same name; a comparison needs each once")
    first = named.pop(control, None) or load_recipe(control)
    return [first, *named.values()]


def _scores(plan: Sequence[Unit], outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    tables = []
    for unit in plan:
        outcome, sample = outcomes[unit.key], unit.ground.sample
        for m, name in enumerate(unit.end_point.watched):
            table = {
                "cohort": unit.ground.name,
                "recipe": unit.recipe.name,
                "fold": outcome.fold,
                "id": sample.id[outcome.rows],
                "label": labels_of(sample)[outcome.rows],
                "class": name,
                "score": outcome.scores[:, m],
                "flagged": outcome.flagged[:, m],
            }
            tables.append(pd.DataFrame(table))
    return pd.concat(tables, ignore_index=True)


def _digest(cohort: Cohort) -> str:
    """SHA-256 of everything the rows come from."""
    told = [cohort.source.to_dict(), cohort.contract.to_dict(), cohort.n_rows]
    return digest_of_json(told)
