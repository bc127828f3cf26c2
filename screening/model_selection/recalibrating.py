"""Bring a model to another site: its ranking stays, all else is fitted there."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from screening.data.cohort import Cohort
from screening.data.stream import CohortStream
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.metrics.calibration import CASES_FOR_NEW_CURVE, CASES_FOR_SLOPE
from screening.model_selection.external import read_labelled
from screening.model_selection.folds import choose_groups, split_folds
from screening.model_selection.judge import judge, refuse_too_few
from screening.model_selection.scores import validation_table
from screening.monitoring.profile import profile
from screening.report.model_attention import with_attention
from screening.schemas.figures import Rule
from screening.schemas.model import (
    OriginFacts,
    SourceFacts,
    TrainingFacts,
)
from screening.schemas.validation import OperatingPointFacts
from screening.store.model import Model

CHOSEN_BY = "screen validate --recalibrate"
# Folds by which chances are judged.
N_FOLDS = 5


def recalibrate(
    model: Model,
    cohort: Cohort | Readable,
    *,
    rule: Rule | None = None,
    label: str | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
) -> Model:
    """Recalibrate a model for another site: same ranking, all else fitted to its rows.

    Chances are fitted again as far as the number of cases allows
    (`metrics.calibration.refitted_curve`), the threshold is chosen by the rule on the
    rows of the site, and validation, p-values and the gates of nights are theirs. The
    model is a draft.

    Parameters
    ----------
    model : Model
        Of one class and the rest, its operating point of rows.
    cohort : Cohort, path, URL, Database, or a pandas, polars or Arrow table
        Rows of the site that took no part in training, with labels.
    rule : Rule, optional
        By default the model's.
    label, positive, prevalence
        As for ``validate``.

    Returns
    -------
    Model
        Not yet written; see `save_model`.

    Raises
    ------
    CohortError, UsageError
        As for ``validate``; too few cases for the rule; several classes, or lesions.
    """
    model.refuse_overdue()
    facts = model.facts
    if model.lesions is not None or facts.task.kind != "binary":
        raise UsageError(
            "only a model that separates one class from the rest, row by row, can be "
            "recalibrated; a model of several classes or of lesions must be trained in "
            "the new place"
        )
    new = read_labelled(model, cohort, label, positive)
    rows = new.rows
    groups, n_folds, _ = choose_groups(rows, new.target, N_FOLDS)
    fold = split_folds(rows, new.target, groups, n_folds, facts.training.seed)
    is_case = new.target == 1
    rows = replace(rows, label=np.where(is_case, new.task.classes[1], "no"))
    (point,) = facts.operating_points
    rule = rule or point.rule
    (name,) = new.task.watched
    n_cases = int(is_case.sum())
    refuse_too_few(name, n_cases, rule)
    held = new.scores(
        model,
        groups,
        prevalence,
        fold=fold,
        source_calibration=facts.validation.calibration,
    )
    judgement = judge(held, [rule], facts.training.seed)
    (chosen,) = judgement.operating_points
    operating_point = OperatingPointFacts(
        label=name, chosen_by=CHOSEN_BY, **vars(chosen)
    )
    origin = _origin(model, {name: _refitted(n_cases)})
    no_row = np.zeros(rows.n_rows, dtype=bool)
    document = facts.replace(
        operating_points=[operating_point],
        training=_facts_of_site(facts.training, new.read, rows, origin, n_cases),
        validation=facts.validation.replace(
            folds=n_folds, repeats=1, without_cases=None, **judgement.facts
        ),
        blend=(),
        approval=None,
        thresholds_before=(),
        origin=origin,
    )
    return replace(
        model,
        document=with_attention(document).to_dict(),
        calibration=held.calibration(judgement.thresholds),
        held_out=validation_table(held, judgement.thresholds, rows, groups, no_row),
        directory=None,
    )


def _facts_of_site(
    training: TrainingFacts,
    read: Cohort | CohortStream,
    rows: Cohort,
    origin: OriginFacts,
    n_cases: int,
) -> TrainingFacts:
    """Return what the card states about the rows of the site."""
    note = (
        f"the ranking is that of model {origin.model}, trained on {origin.n_rows} rows "
        f"elsewhere; the threshold, the chances and every figure come from "
        f"{rows.n_rows} rows of this place, {n_cases} of them cases"
    )
    n_by_class = Counter(rows.labels.tolist())
    return training.replace(
        source=SourceFacts.from_dict(read.source.to_dict()),
        n_rows_read=rows.n_rows + sum(read.refused.values()),
        n_rows_used=rows.n_rows,
        n_by_class=dict(sorted(n_by_class.items())),
        max_rows=None,
        notes=[*read.notes, note],
        profile=profile(rows.measured, rows.contract, rows.group),
    )


def _origin(model: Model, refitted: Mapping[str, str]) -> OriginFacts:
    """Return the model that learned the ranking, at this site or another one."""
    today = datetime.date.today().isoformat()
    first = model.facts.origin
    if first is not None:
        return first.replace(date=today, refitted=refitted)
    training = model.facts.training
    return OriginFacts(
        model=model.id,
        digest=model.digest,
        source=training.source,
        n_rows=training.n_rows_used,
        date=today,
        refitted=refitted,
    )


def _refitted(n_cases: int) -> str:
    """Return what of the chances is fitted to so many cases."""
    if n_cases < CASES_FOR_SLOPE:
        return "intercept"
    if n_cases < CASES_FOR_NEW_CURVE:
        return "intercept and slope, shrunk towards the model's own"
    return "a new curve"
