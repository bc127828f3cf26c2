"""What a copy tells of its model: how it was made and how good it is, of all past patients together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from screening.deidentify.crowds import Ranks, ranks_of, share, step_of, told, widened
from screening.deidentify.key import SiteKey
from screening.documents.figures import OperatingPoint, PredictiveValues, Ranking, Rule
from screening.documents.model import (
    FORMAT_VERSION,
    FeatureFacts,
    MachineFacts,
    ModelDocument,
    RecipeFacts,
    SourceFacts,
    TaskFacts,
    TrainingFacts,
)
from screening.documents.run import RunModel
from screening.documents.tables import table
from screening.documents.validation import (
    Bin,
    Calibration,
    Curve,
    DecisionCurve,
    Level,
    OperatingPointFacts,
    Predictive,
    SearchFacts,
    SubgroupFacts,
    ValidationFacts,
)

T = TypeVar("T")

# What may be told, by name; whatever else a document comes to hold stays out.
COHORT = ("minutes_per_review", "capacity", "prevalence", "coordinates")
FEATURE = ("type", "unit", "reference", "normalise")
CHOOSERS = ("training", "screen threshold")
SENSITIVITY = ("sensitivity", "sensitivity_low", "sensitivity_high")
SPECIFICITY = ("specificity", "specificity_low", "specificity_high")
PREDICTIVE = (
    *("ppv", "ppv_low", "ppv_high", "npv", "npv_low", "npv_high", "nne", "nne_low", "nne_high"),
    *("flag_rate", "flag_rate_low", "flag_rate_high", "prevalence"),
)
SIZES = ("n_positive", "n_negative", "n_groups")
OF_POINT = (*SENSITIVITY, *SPECIFICITY, *PREDICTIVE, *SIZES)
AREAS = (
    *("prevalence", "auroc", "auroc_low", "auroc_high"),
    *("average_precision", "average_precision_low", "average_precision_high"),
)


def picked(kind: type[T], whole: object, names: Sequence[str], /, **others: object) -> T:
    """Make a part of a document of the named fields of another, and of what is given."""
    return kind(**{name: getattr(whole, name) for name in names}, **others)


def deidentified_model(model: ModelDocument, key: SiteKey) -> RunModel:
    """Return what may be told of a model."""
    cohort, features = model.of_contract("cohort"), model.of_contract("features")
    return RunModel(
        format_version=FORMAT_VERSION,
        recipe=picked(
            RecipeFacts, model.recipe, ("name", "title", "paper", "machine", "parameters"), text=""
        ),
        contract={
            "cohort": {name: cohort[name] for name in COHORT if name in cohort},
            "features": {
                feature: {name: stated[name] for name in FEATURE if name in stated}
                for feature, stated in ((feature, table(features, feature)) for feature in features)
            },
        },
        task=picked(TaskFacts, model.task, ("kind", "label", "positive", "classes", "watched")),
        operating_points=_operating_points(model),
        validation=_validation(model),
        training=_training(model, key),
        machine=picked(MachineFacts, model.machine, ("n_support_vectors", "sv_share", "kkt_gap"), passes=()),
        versions={},
        attention=(),
        arrays_sha256="",
        validation_sha256="",
        sha256="",
        id="",
        digest="",
    )


def facts_of(model: ModelDocument) -> Mapping[str, FeatureFacts]:
    """The features as training saw them, by name."""
    return {each.name: each for each in model.training.features}


def _rule(rule: Rule, threshold: float) -> Rule:
    value = threshold if rule.name == "threshold" else rule.value
    return picked(Rule, rule, ("name", "confidence", "prevalence"), value=value)


def _of_rule(point: OperatingPoint, ranks: Ranks) -> dict[str, Any]:
    threshold = ranks.of_threshold(point.threshold)
    return {"threshold": threshold, "rule": _rule(point.rule, threshold)}


def _operating_points(model: ModelDocument) -> list[OperatingPointFacts]:
    ranks = ranks_of(model)
    return [
        picked(
            OperatingPointFacts,
            point,
            (*OF_POINT, "label"),
            chosen_by=point.chosen_by if point.chosen_by in CHOOSERS else "somebody",
            reason=None,
            **_of_rule(point, ranks[point.label]),
            misses=None,
            notes=(),
        )
        for point in model.operating_points
    ]


def _validation(model: ModelDocument) -> ValidationFacts:
    found, ranks = model.validation, ranks_of(model)
    of_rule = {point.label: _of_rule(point, ranks[point.label]) for point in model.operating_points}
    whole = ("folds", "repeats", "grouped", "n_rows", "n_positive", "n_groups", "n_machines", "encoded_by")
    return picked(
        ValidationFacts,
        found,
        whole,
        search=picked(
            SearchFacts,
            found.search,
            ("criterion", "n_candidates", "chosen"),
            candidates=(),
            scores=(),
            dropped=(),
        ),
        summary={name: picked(Ranking, each, (*SIZES, *AREAS)) for name, each in found.summary.items()},
        curves={name: _curve(each, ranks[name]) for name, each in found.curves.items() if name in ranks},
        points={
            name: [
                picked(OperatingPoint, each, OF_POINT, **_of_rule(each, ranks[name]), misses=None, notes=())
                for each in points
            ]
            for name, points in found.points.items()
            if name in ranks
        },
        prevalence={},
        subgroups={
            name: [_subgroup(each, of_rule[name]) for each in columns]
            for name, columns in found.subgroups.items()
        },
        predictive={
            name: Predictive(
                source=each.source,
                rows=[picked(PredictiveValues, row, PREDICTIVE) for row in each.rows],
                **of_rule[name],
            )
            for name, each in found.predictive.items()
        },
        calibration={name: _calibration(each) for name, each in found.calibration.items()},
    )


def _curve(curve: Curve, ranks: Ranks) -> Curve:
    rates = (*SENSITIVITY, *SPECIFICITY, "flag_rate", "ppv", "npv")
    return picked(
        Curve,
        curve,
        rates,
        threshold=[None if each is None else ranks.of_threshold(each) for each in curve.threshold],
    )


def _subgroup(found: SubgroupFacts, of_rule: dict[str, Any]) -> SubgroupFacts:
    """The levels of a column that five patients or more stand behind."""
    sizes = {str(i): row.n or 0 for i, row in enumerate(found.rows)}
    kept = [row for i, row in enumerate(found.rows) if sizes[str(i)] and str(i) in told(sizes)]
    names = (*SENSITIVITY, *SPECIFICITY, "level", "n", "events", "few", "flag_rate")
    return SubgroupFacts(
        column=found.column, edges=None, known=None, rows=[picked(Level, row, names) for row in kept],
        **of_rule,
    )  # fmt: skip


def _calibration(found: Calibration) -> Calibration:
    curve = found.decision_curve
    return picked(
        Calibration,
        found,
        ("earned", "log_loss", "misfit", "prevalence", "brier", "brier_skill", "slope"),
        reason=None if found.earned else "see the model's own page",
        reliability=[
            picked(Bin, each, ("predicted", "observed", "low", "high", "n", "size"))
            for each in found.reliability
        ],
        decision_curve=curve and picked(DecisionCurve, curve, ("threshold", "model", "all")),
    )


def _training(model: ModelDocument, key: SiteKey) -> TrainingFacts:
    found = model.training
    window = [day for each in found.window or () if (day := key.shifted(each))]
    return picked(
        TrainingFacts,
        found,
        ("n_rows_read", "n_rows_used", "max_rows", "seed"),
        source=SourceFacts(files=(), delimiter=None, encoding=None, rows=found.n_rows_read),
        n_by_class=told(found.n_by_class),
        window=window if len(window) == 2 else None,
        command=None,
        notes=(),
        missing={name: share(each, found.n_rows_used) for name, each in found.missing.items()},
        features=[_feature(each) for each in found.features],
        profile=None,
        leaks=(),
    )


def _feature(found: FeatureFacts) -> FeatureFacts:
    step, median = step_of(found, ()), found.median
    return picked(
        FeatureFacts,
        found,
        ("name", "type", "unit", "reference"),
        seen=widened(found.seen, step),
        median=median if median is None or isinstance(median, str) else round(median / step) * step,
        description=None,
    )
