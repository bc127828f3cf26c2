"""A figure as one entry, and the functions that evaluate entries.

`figure` makes a function of evaluated rows an entry, and `figures_in` chooses those of
a table. `evaluate` computes entries of evaluated rows; `evaluate_rates`,
`evaluate_differences` and `evaluate_samples` compute one kind of their further
`Formulas`.

Evaluated rows are a population: all held-out rows, those of a subgroup
(`EvaluatedRows.take`), a labelled night, or the nights of a month (`metrics.outcomes`).
A figure is undefined where a population has nothing of what the figure `needs`, and
withheld where it has fewer units of it than `min_units`, which only subgroups state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, Protocol, TypeVar, get_args

import numpy as np

from screening.metrics.evaluated_rows import EvaluatedRows, Need
from screening.metrics.paired import ResampledRows
from screening.registry import Registry
from screening.schemas.base import UNDEFINED, Estimate

Table = Literal[
    # A model's page, and that of a validation, which shows most tables of it.
    "operating_point",  # list of the threshold's figures
    "summary",  # `summary` of the document: held-out rows, whatever the threshold
    "subgroups",  # levels of columns, and cells of two
    "own_boundary",  # the machine's own boundary; also on the page of `screen compare`
    "baselines",  # comparison with other methods on the same folds
    "members",  # members of a blend: alone, and what each adds
    "temporal_validation",  # a model of the past on what came after
    "promise",  # `screen train` prints it; validations show what is observed beside it
    "validate_differences",  # `screen validate`: observed minus promised
    "side_by_side",  # `screen report` of several models: a row for each
    # The page of `screen compare`.
    "compare",  # a row for each method, and differences from the control
    "compare_charts",  # charts of these differences
    "compare_ranks",  # tests of the methods' ranks over several cohorts
    "compare_own_ranks",  # the same at the machines' own boundaries
    "compare_factors",  # what the factor of a kernel adds
    # Nights.
    "night_subgroups",  # a night's page: past figures of each level of a subgroup
    "labelled_night",  # `screen score --label`: rows that came with their labels
    "outcomes_by_month",  # outcomes in the ledger (`screen outcomes`), of each month
    "outcomes_overall",  # these and those by month, of all nights together
]
"""Where figures are shown, by page or command."""

# Formula that a table needs besides the function itself.
_NEEDED_FORMULAS: Mapping[Table, str] = {
    "operating_point": "of_rates",
    "own_boundary": "of_samples",
    "baselines": "difference",
    "members": "difference",
    "compare": "of_samples",
    "compare_factors": "difference",
}
# Tables that show values of another one, one of these.
_SHOWN_FROM: Mapping[Table, tuple[Table, ...]] = {
    "promise": ("operating_point", "summary"),
    "validate_differences": ("operating_point", "summary"),
    "temporal_validation": ("operating_point", "summary"),
    "side_by_side": ("operating_point", "summary"),
    "night_subgroups": ("subgroups",),
    "compare_charts": ("compare",),
    "compare_ranks": ("compare",),
    "compare_own_ranks": ("own_boundary",),
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the values of a figure are written.

    Parameters
    ----------
    percent : {"everywhere", "compare", "nowhere"}
        Where values are in per cent, and differences in points: "compare" is the page
        of `screen compare`.
    decimals : int
        Of values that are not in per cent.
    signed : bool
        Values may be negative: subgroups have no ratio of two.
    per_hundred : str, optional
        Unit of a hundred times a difference, on charts of what is not in per cent; None
        for charts of the differences themselves.
    """

    percent: Literal["everywhere", "compare", "nowhere"] = "nowhere"
    decimals: int = 2
    signed: bool = False
    per_hundred: str | None = None

    def __post_init__(self) -> None:
        if self.signed and self.percent != "nowhere":
            raise ValueError("what is in per cent cannot be `signed`")


SHARE = Form(percent="everywhere")
AREA = Form(percent="compare")
NUMBER = Form()


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

    def has(self, need: Need) -> bool:
        """Return True if a figure's need is met: the rate of a class, or a chance."""
        needs: Mapping[Need, bool] = {
            "cases": self.sensitivity.value is not None,
            "others": self.specificity.value is not None,
            "chance": False,
            "chance_at_threshold": self.chance_at_threshold is not None,
        }
        return needs.get(need, True)


def complement(rate: Estimate) -> Estimate:
    """Return 1 minus a rate; undefined unless it has an interval."""
    if rate.value is None or rate.low is None or rate.high is None:
        return UNDEFINED
    return Estimate(1 - rate.value, 1 - rate.high, 1 - rate.low)


class Evaluated(Protocol):
    """What a figure is computed of: `EvaluatedRows`, `ResampledRows` or `Rates`."""

    def has(self, need: Need) -> bool:
        """Return True if it has what a figure needs."""
        ...


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
        compare` shows it, with its difference where there is no `difference`.
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
    form : Form
        How it is written, such as `SHARE`, `AREA` or `NUMBER`.
    better : {"higher", "lower"} or None
        Which values are better; None where neither is.
    needs : frozenset of Need
        What the population must have; else the figure is undefined. It is withheld
        where there are fewer of the rows that it needs than may be shown.
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
        for table in sorted(self.tables):
            formula = _NEEDED_FORMULAS.get(table)
            if formula and getattr(self.formulas, formula) is None:
                raise ValueError(f"a figure of `{table}` needs `{formula}`")
            sources = _SHOWN_FROM.get(table, self.tables)
            if self.tables.isdisjoint(sources):
                either = "` or `".join(sources)
                raise ValueError(f"a figure of `{table}` must be in `{either}` too")


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

    A figure is undefined if it is withheld, or the rows do not have what it needs.
    """
    return {
        each.name: _value(each, each.compute, rows, undefined=UNDEFINED)
        for each in figures
    }


def evaluate_rates(rates: Rates, figures: Iterable[Figure]) -> dict[str, Estimate]:
    """Evaluate the figures that need only the rates at an operating point, by name."""
    return {
        each.name: _value(each, each.formulas.of_rates, rates, undefined=UNDEFINED)
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
        each.name: _value(
            each, each.formulas.difference, first, second, undefined=UNDEFINED
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
        each.name: _value(each, each.formulas.of_samples, rows, undefined=undefined)
        for each in figures
        if each.formulas.of_samples is not None
    }


def withheld(rows: EvaluatedRows, figures: Iterable[Figure]) -> list[str]:
    """Return the names of the figures that too few rows, or patients, are behind."""
    return [each.name for each in figures if not all(map(rows.may_show, each.needs))]


def _value(
    entry: Figure,
    formula: Callable[..., Value],
    *populations: Evaluated,
    undefined: Value,
) -> Value:
    """Compute a formula of a figure of populations that have what it needs.

    That of a plug-in is undefined where it fails, or returns another type.
    """
    for population in populations:
        if not all(map(population.has, entry.needs)):
            return undefined

    def checked() -> Value:
        found = formula(*populations)
        if not isinstance(found, type(undefined)):
            raise TypeError(f"not of type {type(undefined).__name__}")
        return found

    return FIGURES.call(entry.name, checked, default=undefined)


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
