"""`comparison.json`: several methods on the same folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.documents.figures import Rule
from screening.documents.shape import Setting, document
from screening.documents.validation import Difference


@document
class Figure:
    """A figure with its 95 % interval; None is undefined."""

    value: float | None
    low: float | None
    high: float | None


@document
class MethodFacts:
    """One method on one cohort; `differences` are to the control, None for the control itself."""

    recipe: str
    title: str
    paper: str
    machine: str
    control: bool
    figures: Mapping[str, Figure]
    differences: Mapping[str, Difference] | None
    curve: Sequence[float]
    sv_share: float | None
    fit_seconds: float | None
    score_seconds: float | None
    chosen: Setting
    n_candidates: int
    factor_declined: bool | None


@document
class CohortFacts:
    """One cohort with its methods."""

    name: str
    n_rows: int
    n_positive: int
    n_groups: int | None
    notes: Sequence[str]
    methods: Sequence[MethodFacts]


@document
class RankedMethod:
    """A method's mean rank over cohorts, and Holm's test against the control."""

    recipe: str
    mean_rank: float
    mean: float | None
    z: float | None
    p: float | None
    p_holm: float | None


@document
class FigureRanks:
    """Friedman's test of one figure over cohorts (Demsar 2006)."""

    chi2: float
    f: float | None
    p: float
    degrees: Sequence[int]
    critical_difference: float
    cliques: Sequence[Sequence[float]]
    methods: Sequence[RankedMethod]


@document
class Ranks:
    """Ranks over the cohorts, by figure."""

    first: str
    control: str
    n_cohorts: int
    figures: Mapping[str, FigureRanks]


@document
class Settings:
    """What the comparison was asked to do."""

    rule: Rule
    folds: int
    repeats: int | None
    search: int | None
    seed: int
    max_rows: int | None
    cohorts: Mapping[str, str]
    versions: Mapping[str, str]
    control: str
    command: str | None
    recipes: Sequence[str]


@document
class ComparisonDocument:
    """Everything that a comparison states."""

    format_version: int
    settings: Settings
    asked_sensitivity: float
    first_figure: str
    cohorts: Sequence[CohortFacts]
    ranks: Ranks | None
    sha256: str
