"""Training a champion's recipe again on its past cohort, on outcomes and verdicts."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.data.cohort import Cohort, concatenate
from screening.data.stream import ReadOptions, open_cohort
from screening.errors import CohortError, UsageError
from screening.ledger.labels import Judged, LastWord
from screening.metrics.groups import units_of
from screening.model_selection.judged_patients import (
    count_rewritten,
    patients_of,
    rows_in_past,
    with_merged_patients,
)
from screening.model_selection.search import Parameters
from screening.model_selection.train import train
from screening.model_selection.without_cases import (
    fills_folds,
    task_without_cases,
    with_states_of_labels,
)
from screening.recipes.building import list_recipes
from screening.recipes.encoders import score_of_rows, with_scores
from screening.schemas.figures import Rule
from screening.schemas.model import ModelDocument, TrainedOn
from screening.schemas.validation import ValidationFacts
from screening.settings import Resources, Search, Validation
from screening.spelling import filled, shown_series
from screening.store.model import Model

# Reasons why a verdict is left out.
UNSURE = "the reviewer was unsure"
DISPUTED = "two reviewers contradict each other"
KNOWN = "the patient already had the condition when reviewed"
NO_DIGEST = "the night is from before the ledger kept digests of tables"
NO_TABLE = "the night's table is not there or cannot be read"
OTHER_TABLE = "the table there is not the one that was reviewed"
NO_ROW = "no row of that table has the id"
SEVERAL_ROWS = "the patient has several rows, and the verdict does not name one"
_REASON_OF_VERDICT = {"unsure": UNSURE, "disputed": DISPUTED, "known": KNOWN}
# Digits of a file's digest in the ledger.
_DIGEST_DIGITS = 16


@dataclass(frozen=True)
class JudgedCohort:
    """The past cohort with the judged rows.

    Parameters
    ----------
    cohort : Cohort
        With labels; with groups if a patient has several rows, or the contract names
        groups.
    prevalence : float or None
        Share of positives in the past cohort, None if it had none. Judged rows have
        another one, since they were selected.
    facts : TrainedOn
    """

    cohort: Cohort
    prevalence: float | None
    facts: TrainedOn


def judged_cohort(
    champion: Model,
    past: Cohort,
    judged: Judged,
    pattern: str,
    *,
    accept_delivery: str | None = None,
) -> JudgedCohort:
    """Add the judged rows to the past cohort.

    A verdict is applied to its row in exactly the table on which it was given, by the
    digest that the ledger keeps. A patient counts once, by the last verdict.

    Parameters
    ----------
    champion : Model
    past : Cohort
        With labels, read by the champion's contract.
    judged : Judged
    pattern : str
        Path of the nights' tables, with `{date}` and optionally `{series}`.
    accept_delivery : str, optional
        Why ids of the past cohort are right that are ids of judged rows but for zeros
        in front, blanks, dots or case.

    Raises
    ------
    UsageError
        If verdicts do not say what to learn, or patients cannot be identified.
    CohortError
        Ids of the past cohort are written otherwise than those of judged rows.
    """
    contract = champion.contract
    task = champion.document["task"]
    _refuse_unusable(contract, task["kind"], pattern)
    past = with_states_of_labels(with_scores(past, [champion.recipe]))
    has_cases = task_without_cases(past) is None
    positive = _positive_labels(past, task["positive"], has_cases)
    labels = past.labels
    negatives = labels[~np.isin(labels, ["", *positive])]
    ((commonest_negative, _),) = Counter(negatives.tolist()).most_common(1)
    label_of_verdict = {"confirmed": positive[0], "ruled out": commonest_negative}
    series = shown_series(judged.series)
    left_out: Counter[str] = Counter()
    nights = {}
    usable = _usable_verdicts(judged.words, left_out)
    for night, verdicts in groupby(usable, lambda verdict: verdict.night):
        path = filled(pattern, series, night)
        night_rows = _judged_rows(
            champion, path, [*verdicts], label_of_verdict, left_out
        )
        if night_rows is not None:
            nights[night] = night_rows
    if not nights:
        raise UsageError(_nothing_to_learn(series, left_out))
    after = concatenate([*nights.values()])
    n_rewritten = count_rewritten(
        past, after, champion.facts.training, accept_delivery is not None
    )
    numbers = {*patients_of(past), *patients_of(after)}
    taken = patients_of(after)
    past = with_merged_patients(past, judged.merges, numbers)
    after = with_merged_patients(after, judged.merges, numbers)
    past_rows = rows_in_past(past, after)
    is_new = past_rows < 0
    is_case = after.labels == label_of_verdict["confirmed"]
    is_past_case = np.isin(labels[past_rows[~is_new]], positive)
    new = after.take(is_new)
    cohort = concatenate([past, new]) if new.n_rows else past
    has_repeats = len(np.unique(cohort.id)) < cohort.n_rows
    if cohort.group is None and has_repeats:
        # No fold may split a patient with several rows.
        cohort = replace(cohort, group=cohort.id)
    n_cases = int(is_case[is_new].sum())
    by_outcome = _count_outcomes(judged.words, taken[is_new])
    facts = TrainedOn(
        series=series,
        champion=champion.digest,
        first=min(nights),
        last=max(nights),
        nights=len(nights),
        confirmed=n_cases,
        ruled_out=new.n_rows - n_cases,
        already=int((~is_new).sum()),
        disagreeing=int((is_past_case != is_case[~is_new]).sum()),
        left_out=dict(sorted(left_out.items())),
        rewritten=n_rewritten,
        **by_outcome,
    )
    # Without cases the past has no prevalence, and its contract names none.
    prevalence = None
    if has_cases:
        prevalence = float(past.y(task["positive"]).mean())
    else:
        cohort = replace(cohort, contract=contract.with_roles(positive=positive))
    return JudgedCohort(cohort, prevalence, facts)


def _count_outcomes(words: Sequence[LastWord], patients: np.ndarray) -> dict[str, int]:
    """Count the outcomes among the labels of patients, by the fields of `TrainedOn`."""
    taken = set(patients)
    outcomes = [word for word in words if word.by_outcome and word.case_id in taken]
    without_event = [word for word in outcomes if word.verdict == "ruled out"]
    return {
        "by_outcome": len(outcomes),
        "flagged_without_event": sum(word.was_flagged for word in without_event),
        "contradicted": sum(word.is_contradicted for word in outcomes),
    }


def _positive_labels(
    past: Cohort, names: Sequence[str], has_cases: bool
) -> tuple[str, ...]:
    """Return the label texts of cases; without cases their names in the model."""
    if not has_cases:
        return tuple(names)
    (labels,) = past.classes_named(names).values()
    return labels


def _refuse_unusable(contract: Contract, kind: str, pattern: str) -> None:
    """Raise UsageError if verdicts cannot be applied to rows."""
    if kind != "binary":
        raise UsageError(
            "verdicts do not name the class of a case; train again with `screen train`"
        )
    if contract.id is None and contract.group is None:
        raise UsageError(
            "no column identifies the patients, so a reviewed row cannot be matched "
            "with the past cohort; add an id or a group to the contract and train "
            "again"
        )
    if "{date}" not in pattern:
        raise UsageError(
            f"`pattern` {pattern}: write {{date}} in place of the night in the "
            "tables' names",
            parameters=["pattern"],
        )


def _usable_verdicts(
    verdicts: Sequence[LastWord], left_out: Counter[str]
) -> list[LastWord]:
    """Return the verdicts to learn from; count the others by reason."""
    usable = []
    for verdict in verdicts:
        reason = _REASON_OF_VERDICT.get(verdict.verdict)
        if reason is None and not verdict.table:
            reason = NO_DIGEST
        if reason is None:
            usable.append(verdict)
        else:
            left_out[reason] += 1
    return usable


def _nothing_to_learn(series: str, left_out: Counter[str]) -> str:
    """Return why no verdict can be learned from."""
    message = f"series {series} has no verdict to learn from"
    reasons = [
        f"{count} left out: {reason}" for reason, count in sorted(left_out.items())
    ]
    return f"{message} ({'; '.join(reasons)})" if reasons else message


def retrained(
    champion: Model,
    judged: JudgedCohort,
    *,
    review_by: datetime.date | None = None,
    resources: Resources | None = None,
    command: str | None = None,
) -> Model:
    """Train the champion's recipe by its rule and contract on a judged cohort.

    It has as many settings, folds and repeats as the champion, and is compared with
    the same other methods. The model is not yet written; `training.verdicts` of its
    document says what it learned from.

    Parameters
    ----------
    champion : Model
    judged : JudgedCohort
    review_by : date, optional
        Day by which the new model must be reviewed.
    resources, command
        As for ``train``.
    """
    validation = champion.facts.validation
    training = champion.facts.training
    rule, rule_note = _rule_of_champion(champion, judged.prevalence)
    contract = judged.cohort.contract.model_copy(update={"review_by": review_by})
    notes = [*judged.cohort.notes, *summary_sentences(judged.facts), rule_note]
    due = champion.contract.review_by
    if due is not None and review_by is None:
        notes.append(
            f"the champion was to be reviewed by {due}; review this model within two "
            "years of its training"
        )
    beside, lost = _methods_compared(validation)
    notes += lost
    model = train(
        replace(judged.cohort, contract=contract, notes=notes),
        champion.recipe,
        rule=rule,
        validation=Validation(
            independent=True,  # or the champion would not be
            folds=validation.folds,
            repeats=validation.repeats,
            max_rows=training.max_rows,
            seed=training.seed,
            beside=beside,
            contamination=_contamination(champion.facts, judged.cohort),
        ),
        search=Search(
            search=_n_settings(validation),
            grid=validation.search.grid,
            params=_fixed_parameters(champion.facts, champion.recipe.parameters),
        ),
        resources=resources,
        command=command,
    )
    learned = model.facts.training.replace(verdicts=judged.facts)
    document = model.facts.replace(training=learned)
    return replace(model, document=document.to_dict())


def summary_sentences(facts: TrainedOn) -> list[str]:
    """Return in words what was learned from verdicts, and what was not."""
    notes = []
    rows = (
        f"trained again on the past cohort and on {facts.taken} judged rows of "
        f"{facts.nights} nights of {facts.series} ({facts.confirmed} with the "
        "condition)"
    )
    n_by_verdict = facts.taken - facts.by_outcome
    selected = (
        "they were flagged or drawn for the random audit, so held-out figures "
        "favour cases that the previous model flagged"
    )
    if not facts.by_outcome:
        notes.append(f"{rows}; {selected}")
    else:
        notes.append(
            f"{rows}; {facts.by_outcome} labels come from outcomes rather than "
            "verdicts, whether or not the row was flagged"
        )
        notes.append(
            "if a patient has an outcome and a verdict, the outcome is used; "
            f"{facts.contradicted} verdicts differ"
        )
        notes.append(
            f"{facts.flagged_without_event} rows were flagged and had no event. If "
            "treatment prevented the event, the new model learns not to flag such "
            "patients"
        )
        if n_by_verdict:
            notes.append(
                f"for {n_by_verdict} rows the outcome is not known yet, so the label is"
                f" a verdict; {selected}"
            )
    if facts.already:
        notes.append(
            f"{facts.already} reviewed rows are also in the past cohort and count "
            f"once, by its label; on {facts.disagreeing} the verdict differs"
        )
    if facts.rewritten:
        notes.append(
            f"the ids of {facts.rewritten} rows of the past cohort equal those of "
            "reviewed rows except for leading zeros, blanks, dots or case; they were "
            "accepted as other patients"
        )
    for reason, count in facts.left_out.items():
        notes.append(f"{count} verdicts left out: {reason}")
    return notes


def _judged_rows(
    champion: Model,
    path: str,
    verdicts: Sequence[LastWord],
    label_of_verdict: Mapping[str, str],
    left_out: Counter[str],
) -> Cohort | None:
    """Return the rows of a night's table with labels by its verdicts.

    None if there are none. Verdicts that are left out are counted by reason.
    """
    try:
        # Read as when it was scored: a category unknown in training is not an error.
        contract = champion.contract
        score_of = score_of_rows(champion.recipe, contract)
        stream = open_cohort(path, contract, options=ReadOptions(score_of=score_of))
        digests = [file.sha256[:_DIGEST_DIGITS] for file in stream.source.files]
        digest = ",".join(digests)
        usable = [verdict for verdict in verdicts if verdict.table == digest]
        left_out.update([OTHER_TABLE] * (len(verdicts) - len(usable)))
        if not usable:
            return None
        night = concatenate(list(stream))
    except (UsageError, CohortError):
        left_out.update([NO_TABLE] * len(verdicts))
        return None
    return _label_rows(night, usable, label_of_verdict, left_out)


def _label_rows(
    night: Cohort,
    verdicts: Sequence[LastWord],
    label_of_verdict: Mapping[str, str],
    left_out: Counter[str],
) -> Cohort | None:
    """Return the judged rows of a night with labels; None if there are none."""
    patients = patients_of(night)
    n_rows_of = Counter(patients.tolist())
    label_of_patient = {}
    for verdict in verdicts:
        n_rows = n_rows_of[verdict.case_id]
        if n_rows == 1:
            label_of_patient[verdict.case_id] = label_of_verdict[verdict.verdict]
        else:
            # Of a patient with several rows a verdict is about none in particular.
            left_out[SEVERAL_ROWS if n_rows else NO_ROW] += 1
    is_judged = pd.Index(patients).isin(label_of_patient)
    rows = night.take(is_judged)
    if not rows.n_rows:
        return None
    ids = rows.id
    if not night.contract.id:
        ids = np.array([f"{verdicts[0].night} {name}" for name in rows.id], object)
    labels = [label_of_patient[name] for name in patients_of(rows)]
    label = np.array(labels, object)
    return replace(rows, id=ids, label=label, display=None)


def _rule_of_champion(champion: Model, prevalence: float | None) -> tuple[Rule, str]:
    """Return the champion's rule with a prevalence, and a note about that.

    It is that given for the champion, or that of the past cohort. If that had no case
    the prevalence is unknown, and the share of cases after the verdicts is used.
    """
    rule = champion.facts.operating_points[0].rule
    given = rule.prevalence or champion.contract.prevalence
    origin = "given for the champion" if given else "of the past cohort"
    used = given or prevalence
    if used is None:
        note = (
            "the past cohort had no case, so predictive values and workload use "
            "the share of cases in it and the judged rows together. Judged rows "
            "were selected: give a prevalence with screen threshold once it is "
            "known"
        )
        return rule, note
    note = f"predictive values and workload use the prevalence {origin}, {used:.3g}"
    return replace(rule, prevalence=used), note


def _contamination(champion: ModelDocument, cohort: Cohort) -> float | None:
    """Return the stated share of unknown cases; None once cases can be folded."""
    validation = champion.validation
    if validation.without_cases is None:
        return None
    is_case = cohort.y(champion.task.positive) == 1
    if fills_folds(cohort, units_of(is_case, cohort.group), validation.folds):
        return None
    return validation.without_cases.contamination


def _methods_compared(validation: ValidationFacts) -> tuple[list[str], list[str]]:
    """Return the methods that a champion was compared with, and notes on those lost.

    A recipe that was read from a file is known by its name alone.
    """
    if validation.comparison is None:
        return [], []
    installed = {recipe.name for recipe in list_recipes()}
    methods = []
    notes = []
    for other in validation.comparison.beside:
        if other.recipe in installed:
            methods.append(other.recipe)
        else:
            notes.append(
                f"the champion was compared with {other.recipe}; this model is not, "
                "because that recipe is not installed"
            )
    return methods, notes


def _n_settings(validation: ValidationFacts) -> int | None:
    """Return how many settings compete; the recipe's own number after none could."""
    if validation.without_cases is not None:
        return None
    search = validation.search
    # A model of an earlier version says only how many were tried.
    asked = search.n_candidates if search.asked is None else search.asked
    return asked or None


def _fixed_parameters(
    model: ModelDocument, defaults: Mapping[str, object]
) -> Parameters:
    """Return parameters that the caller fixed: those equal in all tried settings.

    Where there were no cases the recipe's `defaults` are not fixed.
    """
    searches = [member.search for member in model.recipe.members]
    if not searches:
        searches = [model.validation.search]
    settings: list[Mapping[str, object]] = []
    for search in searches:
        settings.extend(search.candidates)
    fixed = dict(settings[0])
    for setting in settings[1:]:
        for name, value in settings[0].items():
            if setting.get(name) != value:
                fixed.pop(name, None)
    if model.validation.without_cases is None:
        return fixed
    return {name: value for name, value in fixed.items() if value != defaults.get(name)}
