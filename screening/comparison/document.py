"""What a comparison says of its cohorts and methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from screening.comparison import ranks
from screening.documents.comparison import CohortFacts, Figure, FigureRanks, MethodFacts, RankedMethod, Ranks
from screening.recipes.recipe import Recipe
from screening.statistics.intervals import percentiles
from screening.validation import paired
from screening.validation.outcome import Outcome, Truth, mean_curve, measured

RANKED = ("g_mean", "auroc", "average_precision", "specificity_at")
FIRST_FIGURE = {"g_mean": "g_mean", "min_sensitivity": "specificity_at"}


def first_figure(rule_name: str) -> str:
    """The figure that answers the caller's rule: what methods are ordered and ranked by."""
    return FIRST_FIGURE.get(rule_name, "auroc")


def cohort_entry(
    name: str,
    methods: Mapping[str, tuple[Recipe, Outcome]],
    truths: Mapping[str, Truth],
    groups: np.ndarray | None,
    *,
    asked: float,
    control: str,
    seed: int,
    notes: Sequence[str],
) -> CohortFacts:
    """Table, differences and curves of one cohort.

    `truths`: binary and multi-class recipes may see the same rows as different questions. `control`: name of
    the recipe the others are compared with.
    """
    outcomes = {key: found for key, (_, found) in methods.items()}
    draws = paired.resampled(outcomes, truths, groups, asked, seed=seed)
    estimates = {key: measured(found, truths[key], asked) for key, found in outcomes.items()}
    truth = truths[control]
    n_units = paired.independent_units(truth, groups)
    entries = []
    for key, (recipe, found) in methods.items():
        gaps = None
        if key != control:
            gaps = {
                figure: paired.difference(
                    (float(estimates[key][figure][0]), float(estimates[control][figure][0])),
                    (draws[key][figure], draws[control][figure]),
                    n_units,
                )
                for figure in estimates[key]
                if figure in estimates[control]
            } | paired.differences(found, outcomes[control], truth, groups)
        made = found.facts.made
        assert made is not None, "a method that is compared says how it was made"
        passes = [each.get("passes") for each in made.search.candidates]
        entries.append(
            MethodFacts(
                recipe=recipe.name,
                title=recipe.title,
                paper=recipe.paper,
                machine=recipe.machine,
                control=key == control,
                figures={
                    figure: _with_interval(float(value[0]), draws[key][figure], n_units)
                    for figure, value in estimates[key].items()
                }
                | dict(found.facts.figures),
                differences=gaps,
                curve=[round(float(x), 5) for x in mean_curve(found, truths[key])],
                sv_share=made.sv_share,
                fit_seconds=made.fit_seconds,
                score_seconds=made.score_seconds,
                chosen=made.search.chosen,
                n_candidates=found.n_settings,
                factor_declined=made.search.chosen.get("passes") == 0 if 0 in passes else None,
            )
        )
    return CohortFacts(
        name=name,
        n_rows=len(truth.watched),
        n_positive=int(truth.watched.any(axis=1).sum()),
        n_groups=None if groups is None else len(np.unique(groups)),
        notes=list(notes),
        methods=entries,
    )


def _with_interval(value: float, draws: np.ndarray, n_units: int) -> Figure:
    known = draws[np.isfinite(draws)]
    low, high = percentiles(known, n_units) if len(known) else (np.nan, np.nan)
    return Figure(
        value=_number(value), low=_number(min(float(low), value)), high=_number(max(float(high), value))
    )


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def rank_entry(cohorts: Sequence[CohortFacts], control: str, first: str) -> Ranks | None:
    """Friedman and Holm over several cohorts; None for fewer than two cohorts or methods."""
    names = [method.recipe for method in cohorts[0].methods]
    if len(cohorts) < 2 or len(names) < 2:
        return None
    found = {}
    for figure in RANKED:
        table = np.array(
            [[method.figures[figure].value for method in cohort.methods] for cohort in cohorts], float
        )
        test = ranks.friedman(np.nan_to_num(table, nan=0.0))
        against = ranks.against_control(np.nan_to_num(table, nan=0.0), names.index(control))
        distance = ranks.critical_difference(len(names), len(cohorts))
        found[figure] = FigureRanks(
            chi2=test.chi2,
            f=_number(test.f),
            p=test.p,
            degrees=[len(names) - 1, (len(names) - 1) * (len(cohorts) - 1)],
            critical_difference=distance,
            cliques=ranks.cliques(test.mean_ranks, distance),
            methods=[
                RankedMethod(
                    recipe=name,
                    mean_rank=float(test.mean_ranks[i]),
                    mean=float(np.nanmean(table[:, i])),
                    z=_number(float(against.z[i])),
                    p=_number(float(against.p[i])),
                    p_holm=_number(float(against.p_holm[i])),
                )
                for i, name in enumerate(names)
            ],
        )
    return Ranks(first=first, control=control, n_cohorts=len(cohorts), figures=found)
