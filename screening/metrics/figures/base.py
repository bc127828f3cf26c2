"""A figure as one entry, and the function that evaluates a population of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from screening.metrics.judged_rows import JudgedRows
from screening.metrics.paired import ResampledRows
from screening.registry import Registry
from screening.schemas.base import UNDEFINED, Estimate

Need = Literal[
    "rows",
    "cases",
    "others",
    "flagged",
    "unflagged",
    "chance",
    "chance_at_threshold",
]
Form = Literal["share", "area", "ratio", "benefit"]
Table = Literal[
    "subgroups",  # each level of a subgroup (`metrics/subgroups.py`)
    "night",  # those of a level of a subgroup that the page of a night shows
    "outcomes",  # nights of a month with known outcomes (`metrics/outcomes.py`)
    "nights",  # all those nights together
    "observed",  # labelled rows of a night or of another place (`performance`)
    "own_boundary",  # held-out rows, flagged at the machine's own boundary
    "point",  # an operating point: its own rates, and `figure_of_rates`
    "ranking",  # held-out rows, whatever the threshold
    "promise",  # `screen train` prints it, and `screen validate` compares with it
    "side_by_side",  # one row for each of several models
    "beside",  # a model's page: other methods on the same held-out rows
    "parts",  # members of a blend alone
    "compared",  # `screen compare`: one row for each method
    "ranked",  # figures by which `screen compare` ranks methods
]


@dataclass(frozen=True)
class Rates:
    """What is expected of new rows at a threshold.

    Parameters
    ----------
    sensitivity, specificity : Estimate
    prevalence : Estimate
        Where the model is used; undefined if unknown.
    chance_at_threshold : float, optional
        Calibrated, between 0 and 1.
    """

    sensitivity: Estimate
    specificity: Estimate
    prevalence: Estimate = UNDEFINED
    chance_at_threshold: float | None = None


Value = TypeVar("Value", Estimate, np.ndarray)

Compute = Callable[[JudgedRows], Estimate]
OfRates = Callable[[Rates], Estimate]
Paired = Callable[[JudgedRows, JudgedRows], Estimate]
Resampled = Callable[[ResampledRows], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class BetweenMethods:
    """How the figure of a method is compared with that of another on the same rows.

    `screen compare` shows the paired difference where there is one, and otherwise the
    difference of bootstrap samples.

    Parameters
    ----------
    paired : callable, optional
        Returns the figure of a method minus that of another, with its interval.
    resampled : callable, optional
        Returns the figure in each of several bootstrap samples, (n_draws,).
    """

    paired: Paired | None = None
    resampled: Resampled | None = None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a population of rows.

    Parameters
    ----------
    name : str
        Key in documents.
    title : str
        Head of its column.
    help : str
        What it is, one sentence for a reader of a page.
    form : {"share", "area", "ratio", "benefit"}
        How it is written: in per cent, with two decimals, or with three. Only a
        "benefit" may be negative.
    better : {"higher", "lower"} or None
        Which values are better; None where neither is.
    needs : frozenset of Need
        What the population must have: enough rows, cases, others, flagged or unflagged
        rows, a chance of every row, or a calibrated chance at the threshold.
    tables : frozenset of Table
        Where it is computed and shown.
    order : int
        Columns of a table are sorted by it.
    compute : callable
        Returns the figure, with its 95 % interval, from `JudgedRows`.
    between_methods : BetweenMethods
        Formulas for the comparison of methods.
    of_rates : callable, optional
        Returns the figure from the rates at an operating point, if it needs only these.
    """

    name: str
    title: str
    help: str
    form: Form
    better: Literal["higher", "lower"] | None
    needs: frozenset[Need]
    tables: frozenset[Table]
    order: int
    compute: Compute
    between_methods: BetweenMethods = BetweenMethods()
    of_rates: OfRates | None = None

    def __post_init__(self) -> None:
        unknown = self.tables - {*get_args(Table)}
        if unknown:
            raise ValueError(f"there is no table {', '.join(sorted(unknown))}")
        formulas = self.between_methods
        if self.tables & {"beside", "parts"} and formulas.paired is None:
            raise ValueError("a figure of `beside` or `parts` needs a paired formula")
        if "compared" in self.tables and formulas == BetweenMethods():
            raise ValueError("a figure of `compared` needs a formula between methods")


def _shipped() -> Iterator[tuple[str, Figure]]:
    """Yield the figures in the modules of this folder: being there is enough."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        members = vars(import_module(f"{package}.{module.name}"))
        for figure in members.values():
            if isinstance(figure, Figure):
                yield figure.name, figure


def _accepted(name: str, figure: Any) -> Figure:
    """Return the figure of a plug-in, which is undefined where it fails."""
    if not isinstance(figure, Figure):
        raise TypeError("it is not a function decorated with `figure(...)`")
    if figure.name != name:
        raise ValueError(f"its function is not called {name!r}")
    if "point" in figure.tables and figure.of_rates is None:
        raise ValueError("a figure of `point` is made by `figure_of_rates(...)`")
    compute = partial(_computed, figure.compute)
    call = partial(FIGURES.call, name, compute, default=UNDEFINED)
    return replace(figure, compute=call)


def _computed(compute: Compute, rows: JudgedRows) -> Estimate:
    """Return a figure; TypeError if it is not an Estimate."""
    found = compute(rows)
    if not isinstance(found, Estimate):
        raise TypeError("not an Estimate")
    return found


FIGURES: Registry[Figure] = Registry("figure", _shipped, _accepted)
"""Every figure by its name."""


def figure(
    *,
    title: str,
    help: str,
    form: Form,
    order: int,
    better: Literal["higher", "lower"] | None = "higher",
    needs: Iterable[Need] = ("cases", "others"),
    tables: Iterable[Table] = (),
    between_methods: BetweenMethods = BetweenMethods(),
) -> Callable[[Compute], Figure]:
    """Make a function from judged rows to an estimate the figure of its name.

    Parameters as for ``Figure``.
    """

    def entry(compute: Compute) -> Figure:
        return Figure(
            name=compute.__name__,
            title=title,
            help=help,
            form=form,
            better=better,
            needs=frozenset(needs),
            tables=frozenset(tables),
            order=order,
            compute=compute,
            between_methods=between_methods,
        )

    return entry


def figure_of_rates(
    of_rows: Compute | None = None, **declared: Any
) -> Callable[[OfRates], Figure]:
    """Make a function of the rates at a threshold the figure of its name.

    An operating point has such a figure too.

    Parameters
    ----------
    of_rows : callable, optional
        Returns the figure from `JudgedRows`; by default it is that of their sensitivity
        and specificity.
    **declared
        As for ``figure``.
    """

    def entry(of_rates: OfRates) -> Figure:
        @wraps(of_rates)
        def compute(rows: JudgedRows) -> Estimate:
            if of_rows is not None:
                return of_rows(rows)
            return of_rates(Rates(rows.sensitivity, rows.specificity))

        return replace(figure(**declared)(compute), of_rates=of_rates)

    return entry


def figures_in(table: Table) -> list[Figure]:
    """Return the figures of a table in the order of its columns."""
    shown = [figure for figure in FIGURES.values() if table in figure.tables]
    return sorted(shown, key=lambda figure: figure.order)


def evaluate(rows: JudgedRows, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Evaluate figures of a population of rows: by name, each with its 95 % interval.

    A figure is undefined where the population has too little of what it needs.
    """
    found = {}
    for figure in figures:
        enough = not unmet_needs(rows, figure)
        found[figure.name] = figure.compute(rows) if enough else UNDEFINED
    return found


def evaluate_rates(rates: Rates, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Evaluate the figures that need only the rates at an operating point, by name."""
    formulas = {each.name: each.of_rates for each in figures}
    return _evaluate_formulas(formulas, rates, default=UNDEFINED)


def evaluate_differences(
    first: JudgedRows, second: JudgedRows, figures: Iterable[Figure]
) -> dict[str, Estimate]:
    """Evaluate figures of a first method minus those of a second, on the same rows.

    A figure without a formula for it is left out.
    """
    formulas = {each.name: each.between_methods.paired for each in figures}
    return _evaluate_formulas(formulas, first, second, default=UNDEFINED)


def evaluate_samples(
    rows: ResampledRows, figures: Iterable[Figure]
) -> dict[str, np.ndarray]:
    """Evaluate figures of bootstrap samples, by name, (n_draws,) each.

    A figure that is not computed of samples is left out.
    """
    formulas = {each.name: each.between_methods.resampled for each in figures}
    undefined = np.full(len(rows.weights), np.nan)
    return _evaluate_formulas(formulas, rows, default=undefined)


def _evaluate_formulas(
    formulas: Mapping[str, Callable[..., Value] | None], *rows: object, default: Value
) -> dict[str, Value]:
    """Evaluate formulas by name; those of plug-ins give `default` where they fail."""
    return {
        name: FIGURES.call(name, formula, *rows, default=default)
        for name, formula in formulas.items()
        if formula is not None
    }


def gain(name: str, difference: Estimate) -> Estimate:
    """Return a difference with the sign by which above 0 is better.

    Undefined for a figure without a better direction. Measures that are not in
    `FIGURES`, such as a mean recall, are better the higher they are.

    Parameters
    ----------
    name : str
        Figure, or other measure.
    difference : Estimate
        Of two populations or methods, or of one from 0.
    """
    figure = FIGURES.get(name)
    if figure is None or figure.better == "higher":
        return difference
    if figure.better is None:
        return UNDEFINED
    value, low, high = difference.value_and_interval
    turned = [None if end is None else -end for end in (value, high, low)]
    return Estimate(*turned)


def unmet_needs(rows: JudgedRows, figure: Figure) -> frozenset[Need]:
    """Return what a figure needs and a population has too little of."""
    missing: set[Need] = set()
    for need in figure.needs:
        if need == "chance":
            is_there = rows.chance is not None
        elif need == "chance_at_threshold":
            is_there = rows.chance_at_threshold is not None
        else:
            is_there = rows.units[need] >= rows.min_units
        if not is_there:
            missing.add(need)
    return frozenset(missing)
