"""The document of a trained model: what went in, what was chosen on what, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.estimators.ensembles import FoldEnsemble
from screening.identity.shapes import trained_shape
from screening.metrics.table_one import table_one
from screening.model_selection.factor_map import factor_map
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions
from screening.model_selection.judge import Judgement
from screening.model_selection.preparing import by_landmarks, cost_of_landmarks
from screening.model_selection.scores import ScoredMethod
from screening.monitoring.profile import profile
from screening.recipes.encoders import RowEncoder
from screening.recipes.plugins import plugins_needed
from screening.schemas.base import FORMAT_VERSION
from screening.schemas.model import (
    Approximation,
    ColumnByOutcome,
    FeatureFacts,
    MachineFacts,
    MemberFacts,
    ModelDocument,
    RecipeFacts,
    SourceFacts,
    TrainingFacts,
)
from screening.schemas.validation import OperatingPointFacts, ValidationFacts
from screening.store.serialization import versions


def describe_table(study: Study) -> dict[str, Any]:
    """Return the fields of `TrainingFacts` that do not depend on the method."""
    cohort = study.cohort
    missing = {
        name: float(pd.isna(values).mean()) for name, values in cohort.values.items()
    }
    return {
        "missing": missing,
        "ids": trained_shape(cohort.id) if cohort.contract.id else None,
        "group_ids": None if cohort.group is None else trained_shape(cohort.group),
        "profile": profile(cohort.measured, cohort.contract, cohort.group),
        "table_one": _table_one(study),
    }


def model_document(
    study: Study,
    held_out: HeldOutDecisions,
    scored: ScoredMethod,
    judgement: Judgement,
    table: dict[str, Any],
    command: str | None,
) -> ModelDocument:
    """Return the document of a model after its rows were held out and judged.

    Reasons for attention are added later, and digests when it is written.

    Parameters
    ----------
    study : Study
    held_out : HeldOutDecisions
    scored : ScoredMethod
    judgement : Judgement
    table : dict
        As ``describe_table`` returns it.
    command : str, optional
        The command line.
    """
    task = study.task
    approximation = None
    # Their cost is a difference of AUROC.
    if by_landmarks(study.params) and study.target.any():
        approximation = cost_of_landmarks(study, held_out)
    members = [
        MemberFacts(
            search=member.search,
            machines=_machine_facts(member),
            **_method_facts(member),
        )
        for member in held_out.members
    ]
    points = [
        OperatingPointFacts(
            label=name, chosen_by="training", lesions=scored.lesions, **vars(point)
        )
        for name, point in zip(task.watched, judgement.operating_points, strict=True)
    ]
    class_chances = dict(zip(task.classes, held_out.class_chances, strict=False))
    encoded_by = "negatives" if held_out.one_class else "all rows"
    others = table | {"reliance": scored.reliance, "importance": scored.importance}
    return ModelDocument(
        recipe=RecipeFacts(
            paper=held_out.recipe.paper,
            members=members or (),
            **_method_facts(held_out),
        ),
        contract=study.cohort.contract.to_dict(),
        task=task,
        operating_points=points,
        validation=ValidationFacts(
            folds=study.folds,
            repeats=len(held_out.fold),
            n_machines=len(held_out.ensemble.machines),
            encoded_by=encoded_by,
            search=held_out.search,
            class_chances=class_chances or None,
            without_cases=study.without_cases,
            **judgement.facts,
        ),
        training=_training_facts(study, held_out, approximation, command, others),
        machine=_machine_facts(held_out).replace(
            factor_map=factor_map(study, held_out)
        ),
        versions=versions(),
        plugins=plugins_needed(held_out.recipe),
        blend=judgement.members or (),
        attention=(),
        arrays_sha256="",
        validation_sha256="",
        format_version=FORMAT_VERSION,
        sha256="",
    )


def _method_facts(held_out: HeldOutDecisions) -> dict[str, Any]:
    """Return what is needed to build the machines of a model or a member again."""
    recipe = held_out.recipe
    return {
        "name": recipe.name,
        "title": recipe.title,
        "machine": recipe.machine,
        "text": recipe.text,
        "parameters": recipe.stated_parameters | dict(held_out.search.chosen),
    }


def _training_facts(
    study: Study,
    held_out: HeldOutDecisions,
    approximation: Approximation | None,
    command: str | None,
    others: Mapping[str, Any],
) -> TrainingFacts:
    """Return what the card states about the training; `others` are further fields."""
    cohort = study.cohort
    sample = study.sample
    notes = [*study.notes, *held_out.notes]
    if approximation:
        notes.append(approximation.note)
    on_log_scale = held_out.encoder.on_log_scale
    if on_log_scale:
        names = ", ".join(on_log_scale)
        notes.append(f"on a log scale, being positive and skewed: {names}")
    n_by_class = Counter(sample.labels.tolist())
    return TrainingFacts(
        source=SourceFacts.from_dict(cohort.source.to_dict()),
        n_rows_read=cohort.n_rows + sum(cohort.refused.values()),
        n_rows_used=sample.n_rows,
        n_by_class=dict(sorted(n_by_class.items())),
        max_rows=study.validation.max_rows,
        window=_training_days(cohort),
        seed=study.validation.seed,
        command=command,
        notes=notes,
        features=_feature_facts(sample, held_out.encoder),
        leaks=study.leaks,
        same_measurements=study.same_measurements,
        approximation=approximation,
        **others,
    )


def _table_one(study: Study) -> list[ColumnByOutcome]:
    """Return the columns by outcome; empty where no case has been seen."""
    sample = study.sample
    is_case = np.any(study.watched, axis=1)
    if not is_case.any() or is_case.all():
        return []
    contract = sample.contract
    return table_one(
        sample.measured, contract.features, is_case, smallest=contract.suppress
    )


def _feature_facts(sample: Cohort, encoder: RowEncoder) -> list[FeatureFacts]:
    """Return unit, ranges and median of each feature."""
    facts = []
    for name, feature in sample.contract.features.items():
        seen = feature.seen
        values = sample.values[name]
        if seen is None and feature.type == "number" and not pd.isna(values).all():
            low, high = np.nanquantile(values, [0.05, 0.95])
            seen = (float(low), float(high))
        median = encoder.medians[name]
        if not isinstance(median, str | None) and not np.isfinite(median):
            median = None
        facts.append(
            FeatureFacts(
                name=name,
                type=feature.type,
                unit=feature.unit,
                reference=feature.reference,
                seen=seen,
                median=median,
                description=feature.description,
            )
        )
    return facts


def _machine_facts(held_out: HeldOutDecisions) -> MachineFacts:
    """Return size and KKT gap of the machines, and the passes of the first one.

    A baseline has none of these.
    """
    ensemble = held_out.ensemble
    if not isinstance(ensemble, FoldEnsemble) or not ensemble.kernel_machines:
        return MachineFacts(
            n_support_vectors=None, sv_share=None, passes=(), kkt_gap=None
        )
    machines = ensemble.kernel_machines
    rows, _ = ensemble.union
    return MachineFacts(
        n_support_vectors=len(rows),
        sv_share=held_out.sv_share,
        passes=machines[0].passes_,
        kkt_gap=float(max(np.max(machine.kkt_gap_) for machine in machines)),
    )


def _training_days(cohort: Cohort) -> list[str] | None:
    """Return the first and last day of the training rows, None without times."""
    if cohort.days is None:
        return None
    days = cohort.days[~np.isnat(cohort.days)]
    return [str(days.min()), str(days.max())] if len(days) else None
