"""A figure as one entry, and the functions that evaluate entries.

`figure` makes a function of evaluated rows an entry, and `figures_in` chooses those of
a table. `evaluate` computes entries of evaluated rows; `evaluate_rates`,
`evaluate_differences` and `evaluate_samples` compute one kind of their further
`Formulas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows, Need
from screening.metrics.paired import ResampledRows
from screening.registry import Registry
from screening.schemas.base import UNDEFINED, Estimate

Form = Literal["share", "area", "ratio", "benefit"]
Table = Literal[
    "subgroups",  # each level of a subgroup (`metrics/subgroups.py`)
    "night",  # those of a level of a subgroup that the page of a night shows
    "outcomes",  # nights of a month with known outcomes (`metrics/outcomes.py`)
    "nights",  # all those nights together
    "observed",  # labelled rows of a night or of another place (`performance`)
    "own_boundary",  # held-out rows, flagged at the machine's own boundary
    "point",  # an operating point: by `of_rates`, others by `metrics.operating_point`
    "ranking",  # held-out rows, whatever the threshold
    "promise",  # `screen train` prints it, and `screen validate` compares with it
    "side_by_side",  # one row for each of several models
    "baselines",  # a model's page: other methods on the same held-out rows
    "members",  # members of a blend alone
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

Compute = Callable[[EvaluatedRows], Estimate]
OfRates = Callable[[Rates], Estimate]
Difference = Callable[[EvaluatedRows, EvaluatedRows], Estimate]
OfSamples = Callable[[ResampledRows], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """Formulas of a figure for tables of other things than one population of rows.

    Parameters
    ----------
    of_rates : callable, optional
        Returns the figure from `Rates`, for an operating point.
    difference : callable, optional
        Returns the figure of a method minus that of another on the same rows, with its
        interval.
    of_samples : callable, optional
        Returns the figure in each of several bootstrap samples, (n_draws,). `screen
        compare` shows the difference of these where there is no `difference`.
    """

    of_rates: OfRates | None = None
    difference: Difference | None = None
    of_samples: OfSamples | None = None


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
        The decorated function: the figure of `EvaluatedRows`, with its 95 % interval.
    formulas : Formulas
        The figure of an operating point, and of two methods.
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
    formulas: Formulas = Formulas()

    def __post_init__(self) -> None:
        unknown = self.tables - {*get_args(Table)}
        if unknown:
            raise ValueError(f"there is no table {', '.join(sorted(unknown))}")
        formulas = self.formulas
        if self.tables & {"baselines", "members"} and formulas.difference is None:
            raise ValueError(
                "a figure of `baselines` or `members` needs a `difference`"
            )
        if "compared" in self.tables and not (
            formulas.difference or formulas.of_samples
        ):
            raise ValueError(
                "a figure of `compared` needs a `difference` or `of_samples`"
            )


def _shipped() -> Iterator[tuple[str, Figure]]:
    """Yield the figures in the modules of this folder: being there is enough."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        for member in vars(import_module(f"{package}.{module.name}")).values():
            if isinstance(member, Figure):
                yield member.name, member


def _accepted(name: str, member: Any) -> Figure:
    """Return the figure of a plug-in; TypeError or ValueError if it cannot be used."""
    if not isinstance(member, Figure):
        raise TypeError("it is not a function decorated with `figure(...)`")
    if member.name != name:
        raise ValueError(f"its function is not called {name!r}")
    if "point" in member.tables and member.formulas.of_rates is None:
        raise ValueError("a figure of `point` needs `of_rates`")
    return member


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
    formulas: Formulas = Formulas(),
) -> Callable[[Compute], Figure]:
    """Make a function from evaluated rows to an estimate the figure of its name.

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
            formulas=formulas,
        )

    return entry


def figures_in(table: Table) -> list[Figure]:
    """Return the figures of a table in the order of its columns."""
    shown = [figure for figure in FIGURES.values() if table in figure.tables]
    return sorted(shown, key=lambda figure: figure.order)


def evaluate(rows: EvaluatedRows, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Evaluate figures of a population of rows: by name, each with its 95 % interval.

    A figure is undefined where the rows do not have what it needs: so figures of too
    few patients are withheld.
    """
    found = {}
    for each in figures:
        found[each.name] = UNDEFINED
        if all(map(rows.has, each.needs)):
            found[each.name] = _call(each, each.compute, rows, failed=UNDEFINED)
    return found


def evaluate_rates(rates: Rates, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Evaluate the figures that need only the rates at an operating point, by name."""
    return {
        each.name: _call(each, each.formulas.of_rates, rates, failed=UNDEFINED)
        for each in figures
        if each.formulas.of_rates is not None
    }


def evaluate_differences(
    first: EvaluatedRows, second: EvaluatedRows, figures: Iterable[Figure]
) -> dict[str, Estimate]:
    """Evaluate figures of a first method minus those of a second, on the same rows.

    A figure without a formula for it is left out.
    """
    return {
        each.name: _call(
            each, each.formulas.difference, first, second, failed=UNDEFINED
        )
        for each in figures
        if each.formulas.difference is not None
    }


def evaluate_samples(
    rows: ResampledRows, figures: Iterable[Figure]
) -> dict[str, np.ndarray]:
    """Evaluate figures of bootstrap samples, by name, (n_draws,) each.

    A figure that is not computed of samples is left out.
    """
    undefined = np.full(len(rows.weights), np.nan)
    return {
        each.name: _call(each, each.formulas.of_samples, rows, failed=undefined)
        for each in figures
        if each.formulas.of_samples is not None
    }


def _call(
    entry: Figure, formula: Callable[..., Value], *arguments: object, failed: Value
) -> Value:
    """Compute a formula of a figure; that of a plug-in is `failed` where it fails.

    It also fails if it returns another type.
    """

    def checked() -> Value:
        found = formula(*arguments)
        if not isinstance(found, type(failed)):
            raise TypeError(f"not of type {type(failed).__name__}")
        return found

    return FIGURES.call(entry.name, checked, default=failed)


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
