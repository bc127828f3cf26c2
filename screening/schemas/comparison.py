"""Documents `comparison.json` and `validation.json`.

The first compares methods on the same folds, the second tries a model on another
cohort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Self

from pydantic import model_validator

from screening.schemas.base import (
    FORMAT_VERSION,
    Document,
    Estimate,
    Reason,
    Setting,
)
from screening.schemas.figures import (
    AtPrevalence,
    GridName,
    LabelledCounts,
    OfRule,
    OperatingPoint,
    StoredRule,
)
from screening.schemas.model import ModelDocument, SourceFacts
from screening.schemas.run import RunModel
from screening.schemas.validation import (
    Figures,
    LesionFacts,
    OperatingPointFacts,
)

MACHINE_PARAMETERS = ("C", "nu", "gamma", "sigma", "cost_ratio", "kernel")
"""Parameters of a kernel machine that its factor has no part in."""


class FactorFacts(Document):
    """A factor tested against no factor, at the same setting of the machine.

    `setting` is the chosen one, or the best one with the factor if it was declined.
    `differences` are figures with the factor minus those without, by name.
    """

    setting: Setting
    differences: Mapping[str, Estimate]


class MethodFacts(Document):
    """A method on a cohort; `differences` are from the control, None for itself.

    `counts` are of the held-out rows at the method's threshold, by watched class.
    """

    recipe: str
    title: str
    paper: str
    machine: str
    control: bool
    figures: Mapping[str, Estimate] = {}
    counts: Mapping[str, LabelledCounts] = {}
    differences: Mapping[str, Estimate] | None = None
    curve: Sequence[float] = ()
    sv_share: float | None
    fit_seconds: float | None
    score_seconds: float | None
    chosen: Setting
    n_candidates: int
    factor_declined: bool | None
    factor: FactorFacts | None = None

    @property
    def declined_words(self) -> str:
        """Table entry of a declined factor; empty for a fitted one."""
        if not self.factor_declined:
            return ""
        names = [name for name in MACHINE_PARAMETERS if name in self.chosen]
        values = ", ".join([f"{name} = {self.chosen[name]}" for name in names])
        return f"plain at {values}: the factor was declined"


class CohortFacts(Document):
    """One cohort with its methods."""

    name: str
    n_rows: int
    n_positive: int
    n_groups: int | None
    notes: Sequence[str]
    methods: Sequence[MethodFacts]


class RankedMethod(Document):
    """A method's mean rank over cohorts, and Holm's test against the control."""

    recipe: str
    mean_rank: float
    mean: float | None
    z: float | None
    p: float | None
    p_holm: float | None


class FigureRanks(Document):
    """Friedman's test of one figure over cohorts (Demsar 2006)."""

    chi2: float
    f: float | None
    p: float
    degrees: Sequence[int]
    critical_difference: float
    cliques: Sequence[Sequence[float]]
    methods: Sequence[RankedMethod]


class Ranks(Document):
    """Ranks over the cohorts, by figure."""

    first: str
    control: str
    n_cohorts: int
    figures: Mapping[str, FigureRanks]


class Settings(Document):
    """Settings of a comparison."""

    rule: StoredRule
    folds: int
    repeats: int | None
    search: int | None
    grid: GridName = "recipe"
    seed: int
    max_rows: int | None
    cohorts: Mapping[str, str]
    versions: Mapping[str, str]
    control: str
    command: str | None
    recipes: Sequence[str]


class ComparisonDocument(Document):
    """The document of a comparison, `comparison.json`."""

    TITLE: ClassVar[str] = "comparison.json"

    format_version: int = FORMAT_VERSION
    settings: Settings
    asked_sensitivity: float
    first_figure: str
    cohorts: Sequence[CohortFacts]
    ranks: Ranks | None
    sha256: str = ""


class Promise(AtPrevalence, OfRule):
    """Validation estimates of a model.

    Those that depend on prevalence are at that of the new place.
    """

    lesions: LesionFacts | None = None


class ClassElsewhere(Document):
    """A watched class on another cohort.

    `differences` are observed minus estimated in validation (`lesions`: of the share
    found). `local` is the operating point that the model's rule chooses from this
    cohort's scores; if it is None, `local_reason` says why.
    """

    promise: Promise
    differences: Mapping[str, Estimate]
    local: OperatingPoint | None
    local_reason: str | None = None


SHARES = {"sensitivity": "sensitivity", "specificity": "specificity", "ppv": "PPV"}


class ExternalValidation(Document):
    """The document of a model tried on another cohort, `validation.json`.

    `classes` and `figures` are of the watched classes with cases in the cohort.
    `operating_points` are the model's thresholds with what they did here. `prevalence`
    is the stated one of this place, otherwise the cohort's share of cases.
    """

    TITLE: ClassVar[str] = "validation.json"

    model: RunModel
    source: SourceFacts
    label: str
    positive: Sequence[str]
    prevalence: float | None = None
    n_refused: int
    notes: Sequence[str]
    operating_points: Sequence[OperatingPointFacts]
    figures: Figures
    classes: Mapping[str, ClassElsewhere]
    attention: Sequence[Reason]
    command: str | None
    versions: Mapping[str, str]
    format_version: int
    sha256: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        # A model's document refuses figures of another rule or threshold than its
        # points'.
        assert self.here is not None
        for point in self.operating_points:
            if self.classes[point.label].promise.threshold != point.threshold:
                raise ValueError(
                    f"classes: the promised figures of {point.label} belong to another "
                    "threshold"
                )
        return self

    @cached_property
    def here(self) -> ModelDocument:
        """The model with the figures of this cohort in place of its own."""
        figures = {name: getattr(self.figures, name) for name in Figures.model_fields}
        own = self.model.validation.replace(
            forward=None, comparison=None, without_cases=None, **figures
        )
        return self.model.replace(
            operating_points=self.operating_points, validation=own, blend=()
        )

    def lines(self) -> list[str]:
        """Return estimate and observation of each class on a line."""
        lines = []
        for point in self.operating_points:
            facts = self.classes[point.label]
            figures = []
            for name, title in SHARES.items():
                seen = point[name].in_percent
                expected = facts.promise[name].in_percent
                figures.append(f"{title} {seen} (validation estimate {expected})")
            if point.lesions is not None:
                found = point.lesions.sensitivity.in_percent
                figures.append(f"lesions found {found}")
            line = f"{point.label}: {', '.join(figures)}"
            if facts.local is not None:
                line += f"; its rule would choose {facts.local.threshold:.4g} here"
            lines.append(line)
        return lines
