"""The champion's method again, on its past cohort and on what reviewers said of its nights."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.data.cohort import Cohort, joined, labels_of
from screening.data.stream import open_cohort
from screening.errors import CohortError, UsageError
from screening.ledger.model_registry import Judged, LastWord
from screening.model_selection.held_out import Progress
from screening.model_selection.search import Parameters
from screening.model_selection.train import train
from screening.schemas.figures import Rule
from screening.schemas.model import ModelDocument, TrainedOn
from screening.spelling import filled, shown_series
from screening.store.model import Model

UNSURE = "the reviewer was unsure"
DISPUTED = "two reviewers contradict each other"
KNOWN = "had the condition already when it was judged"
NO_DIGEST = "the night is from before the ledger kept digests of tables"
NO_TABLE = "the night's table is not there or cannot be read"
OTHER_TABLE = "another table lies there than was judged"
NO_ROW = "no row of that table has the id"
SEVERAL_ROWS = "the patient has several rows, and the verdict does not say which"
CASE, NO_CASE = "confirmed", "ruled out"


@dataclass(frozen=True)
class JudgedCohort:
    """The past cohort with the judged rows, and what they are."""

    # With labels; where a patient has rows from several sources, or the contract names groups, with groups.
    cohort: Cohort
    # Share of positives in the past cohort: among judged rows it is another, for they were chosen.
    prevalence: float
    facts: TrainedOn


def judged_cohort(
    champion: Model, past: Cohort, judged: Judged, pattern: str
) -> JudgedCohort:
    """Put the judged rows beside the past cohort, which has labels and was read by the champion's contract.

    A verdict stands for its row in the very table it was given on, by the digest that the ledger keeps: those
    of `pattern`, with `{date}` and, where it helps, `{series}`. A patient counts once, by the last word.
    UsageError where verdicts do not say what to learn, or nobody can tell whose rows they are of.
    """
    contract, task = champion.contract, champion.document["task"]
    if task["kind"] != "binary":
        raise UsageError(
            "a verdict does not say which class a case is of; train again with `screen train`"
        )
    if contract.id is None and contract.group is None:
        raise UsageError(
            "no column names the patients, so a judged row cannot be told from one of the past cohort; "
            "give the contract an id or a group and train again"
        )
    if "{date}" not in pattern:
        raise UsageError(
            f"--nights {pattern}: write {{date}} where the night stands in the tables' names"
        )
    (positive,) = past.positives(task["positive"]).values()
    negative = Counter(
        text for text in labels_of(past) if text and text not in positive
    )
    labels = {CASE: positive[0], NO_CASE: negative.most_common(1)[0][0]}
    left_out: Counter[str] = Counter()
    usable = [word for word in judged.words if not _unusable(word, left_out)]
    series = shown_series(judged.series)
    nights = {
        night: rows
        for night, of_night in groupby(usable, lambda word: word.night)
        if (
            rows := _rows(
                contract, filled(pattern, series, night), [*of_night], labels, left_out
            )
        )
    }
    if not nights:
        why = "; ".join(
            f"{count} left out: {reason}" for reason, count in sorted(left_out.items())
        )
        raise UsageError(
            f"series {series} has no verdict to learn from"
            + (f" ({why})" if why else "")
        )
    after = joined([*nights.values()])
    in_past = pd.Index(_names(after)).isin(_names(past))
    past_labels = dict(zip(_names(past), labels_of(past), strict=True))
    disagreeing = sum(
        (past_labels[name] in positive) != (label == labels[CASE])
        for name, label in zip(
            _names(after)[in_past], labels_of(after)[in_past], strict=True
        )
    )
    new = after.take(~in_past)
    cohort = joined([past, new]) if new.n_rows else past
    if cohort.group is None and len(np.unique(cohort.id)) < cohort.n_rows:
        cohort = replace(
            cohort, group=cohort.id
        )  # No fold may split a patient of several rows.
    cases = int((labels_of(new) == labels[CASE]).sum())
    facts = TrainedOn(
        series=series,
        champion=champion.digest,
        first=min(nights),
        last=max(nights),
        nights=len(nights),
        confirmed=cases,
        ruled_out=new.n_rows - cases,
        already=int(in_past.sum()),
        disagreeing=disagreeing,
        left_out=dict(sorted(left_out.items())),
    )
    return JudgedCohort(cohort, float(past.y(task["positive"]).mean()), facts)


def retrained(
    champion: Model,
    judged: JudgedCohort,
    *,
    review_by: datetime.date | None = None,
    jobs: int = -1,
    memory: int | None = None,
    progress: Progress | None = None,
    command: str | None = None,
) -> Model:
    """Train the champion's recipe by its rule and contract, with as many settings, folds and repeats.

    The model is not yet written; `training.verdicts` of its document says what it learned from.
    """
    stated, training = champion.facts.validation, champion.facts.training
    rule, source = _rule(champion, judged.prevalence)
    contract = judged.cohort.contract.model_copy(update={"review_by": review_by})
    notes = [*judged.cohort.notes, *sentences(judged.facts), source]
    if champion.contract.review_by is not None and review_by is None:
        due = champion.contract.review_by
        notes.append(
            f"the champion was to be reviewed by {due}; this model is two years after training"
        )
    model = train(
        replace(judged.cohort, contract=contract, notes=notes),
        champion.recipe,
        rule=rule,
        folds=stated.folds,
        repeats=stated.repeats,
        search=stated.search.n_candidates,
        params=_fixed(champion.facts),
        max_rows=training.max_rows,
        seed=training.seed,
        jobs=jobs,
        memory=memory,
        progress=progress,
        command=command,
        beside=None if stated.comparison else (),
        independent=True,  # or the champion would not be
    )
    learned = model.facts.training.replace(verdicts=judged.facts)
    return replace(model, document=model.facts.replace(training=learned).to_dict())


def sentences(facts: TrainedOn) -> list[str]:
    """What was learned from verdicts, and what was not, in words."""
    notes = [
        f"trained again on the past cohort and on {facts.taken} judged rows of {facts.nights} nights of "
        f"{facts.series} ({facts.confirmed} with the condition); they were flagged or drawn, so figures "
        "of held-out rows lean towards cases that the model before flagged"
    ]
    if facts.already:
        notes.append(
            f"{facts.already} judged rows stand in the past cohort too and count once, by its label; on "
            f"{facts.disagreeing} the verdict says something else"
        )
    return notes + [
        f"{count} verdicts left out: {why}" for why, count in facts.left_out.items()
    ]


def _unusable(word: LastWord, left_out: Counter[str]) -> bool:
    reason = {"unsure": UNSURE, "disputed": DISPUTED, "known": KNOWN}.get(
        word.verdict
    ) or ("" if word.table else NO_DIGEST)
    left_out.update([reason] if reason else [])
    return bool(reason)


def _rows(
    contract: Contract,
    table: str,
    verdicts: Sequence[LastWord],
    labels: Mapping[str, str],
    left_out: Counter[str],
) -> Cohort | None:
    """The judged rows of a night, labelled; None where there are none to be had."""
    try:
        # Read as it was when it was scored, so that a category unknown in training refuses nothing.
        stream = open_cohort(table, contract)
        digest = ",".join(file.sha256[:16] for file in stream.source.files)
        own = [word for word in verdicts if word.table == digest]
        left_out.update([OTHER_TABLE] * (len(verdicts) - len(own)))
        if not own:
            return None
        night = joined(list(stream))
    except (UsageError, CohortError):
        left_out.update([NO_TABLE] * len(verdicts))
        return None
    # Of a patient with several rows a verdict says nothing of any one of them, whichever it is.
    names, counts = np.unique(_patients(night), return_counts=True)
    rows = dict(zip(names, counts, strict=True))
    left_out.update([NO_ROW] * sum(word.case_id not in rows for word in own))
    left_out.update([SEVERAL_ROWS] * sum(rows.get(word.case_id, 0) > 1 for word in own))
    by_case = {
        word.case_id: labels[word.verdict]
        for word in own
        if rows.get(word.case_id) == 1
    }
    chosen = night.take(pd.Index(_patients(night)).isin(by_case))
    if not chosen.n_rows:
        return None
    ids = (
        chosen.id
        if contract.id
        else np.array([f"{own[0].night} {name}" for name in chosen.id], object)
    )
    label = np.array([by_case[name] for name in _patients(chosen)], object)
    return replace(chosen, id=ids, label=label, display=None)


def _patients(cohort: Cohort) -> np.ndarray:
    """By what the ledger knows a row's patient."""
    return cohort.id if cohort.group is None else cohort.group


def _names(cohort: Cohort) -> np.ndarray:
    """What tells one row from every other: whose it is and all its values, shape (n_rows,)."""
    table = cohort.features.assign(**{"": _patients(cohort)})
    return pd.util.hash_pandas_object(table, index=False).to_numpy()


def _rule(champion: Model, prevalence: float) -> tuple[Rule, str]:
    """The champion's rule; where nobody gave a prevalence, at that of the past cohort, and that is said."""
    rule = champion.facts.operating_points[0].rule
    given = rule.prevalence or champion.contract.prevalence
    whose = "given for the champion" if given else "of the past cohort"
    note = f"predictive values and workload are at the prevalence {whose}, {given or prevalence:.3g}"
    return replace(rule, prevalence=given or prevalence), note


def _fixed(model: ModelDocument) -> Parameters:
    """Parameters that whoever trained the champion fixed: the same in every setting that competed."""
    searches = [member.search for member in model.recipe.members] or [
        model.validation.search
    ]
    settings = [setting for search in searches for setting in search.candidates]
    first = settings[0].items()
    return {
        name: value
        for name, value in first
        if all(own.get(name) == value for own in settings)
    }
