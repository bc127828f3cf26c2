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


def judged_cohort(champion: Model, past: Cohort, judged: Judged, pattern: str) -> JudgedCohort:
    """Put the judged rows beside the past cohort, which has labels and was read by the champion's contract.

    A verdict stands for its row in the very table it was given on, by the digest that the ledger keeps: those
    of `pattern`, with `{date}` and, where it helps, `{series}`. A patient counts once, by the last word.
    UsageError where verdicts do not say what to learn, or nobody can tell whose rows they are of.
    """
    contract, task = champion.contract, champion.document["task"]
    if task["kind"] != "binary":
        raise UsageError("a verdict does not say which class a case is of; train again with `screen train`")
    if contract.id is None and contract.group is None:
        raise UsageError(
            "no column names the patients, so a judged row cannot be told from one of the past cohort; "
            "give the contract an id or a group and train again"
        )
    if "{date}" not in pattern:
        raise UsageError(f"--nights {pattern}: write {{date}} where the night stands in the tables' names")
    (positive,) = past.positives(task["positive"]).values()
    negative = Counter(text for text in labels_of(past) if text and text not in positive)
    words = {CASE: positive[0], NO_CASE: negative.most_common(1)[0][0]}
    left_out: Counter[str] = Counter()
    told = [word for word in judged.words if not _unusable(word, left_out)]
    shown = shown_series(judged.series)
    nights = {
        night: _rows(contract, filled(pattern, shown, night), [*mine], words, left_out)
        for night, mine in groupby(told, lambda word: word.night)
    }
    found = {night: rows for night, rows in nights.items() if rows is not None}
    if not found:
        why = "; ".join(f"{count} left out: {reason}" for reason, count in sorted(left_out.items()))
        raise UsageError(f"series {shown} has no verdict to learn from" + (f" ({why})" if why else ""))
    after = joined([*found.values()])
    again = pd.Index(_names(after)).isin(_names(past))
    known = dict(zip(_names(past), labels_of(past), strict=True))
    disagreeing = sum(
        (known[name] in positive) != (label == words[CASE])
        for name, label in zip(_names(after)[again], labels_of(after)[again], strict=True)
    )
    new = after.take(~again)
    cohort = joined([past, new]) if new.n_rows else past
    if cohort.group is None and len(np.unique(cohort.id)) < cohort.n_rows:
        cohort = replace(cohort, group=cohort.id)  # No fold may split a patient of several rows.
    cases = int((labels_of(new) == words[CASE]).sum())
    facts = TrainedOn(
        series=shown,
        champion=champion.digest,
        first=min(found),
        last=max(found),
        nights=len(found),
        confirmed=cases,
        ruled_out=new.n_rows - cases,
        already=int(again.sum()),
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
    said = [*judged.cohort.notes, *sentences(judged.facts), source]
    if champion.contract.review_by is not None and review_by is None:
        due = champion.contract.review_by
        said.append(f"the champion was to be reviewed by {due}; this model is two years after training")
    model = train(
        replace(judged.cohort, contract=contract, notes=said),
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
    said = [
        f"trained again on the past cohort and on {facts.taken} judged rows of {facts.nights} nights of "
        f"{facts.series} ({facts.confirmed} with the condition); they were flagged or drawn, so figures "
        "of held-out rows lean towards cases that the model before found"
    ]
    if facts.already:
        said.append(
            f"{facts.already} judged rows stand in the past cohort too and count once, by its label; on "
            f"{facts.disagreeing} the verdict says something else"
        )
    return said + [f"{count} verdicts left out: {why}" for why, count in facts.left_out.items()]


def _unusable(word: LastWord, left_out: Counter[str]) -> bool:
    reason = {"unsure": UNSURE, "disputed": DISPUTED, "known": KNOWN}.get(word.verdict) or (
        "" if word.table else NO_DIGEST
    )
    left_out.update([reason] if reason else [])
    return bool(reason)


def _rows(
    contract: Contract, place: str, said: Sequence[LastWord], words: Mapping[str, str], left_out: Counter[str]
) -> Cohort | None:
    """The judged rows of a night, labelled; None where there are none to be had."""
    try:
        # Read as it was when it was scored, so that a category unknown in training refuses nothing.
        stream = open_cohort(place, contract)
        table = ",".join(file.sha256[:16] for file in stream.source.files)
        mine = [word for word in said if word.table == table]
        left_out.update([OTHER_TABLE] * (len(said) - len(mine)))
        night = joined(list(stream)) if mine else None
    except (UsageError, CohortError):
        left_out.update([NO_TABLE] * len(said))
        return None
    if night is None:
        return None
    # Of a patient with several rows a verdict says nothing of any one of them, whichever it is.
    names, counts = np.unique(_patients(night), return_counts=True)
    rows = dict(zip(names, counts, strict=True))
    left_out.update([NO_ROW] * sum(word.case_id not in rows for word in mine))
    left_out.update([SEVERAL_ROWS] * sum(rows.get(word.case_id, 0) > 1 for word in mine))
    labels = {word.case_id: words[word.verdict] for word in mine if rows.get(word.case_id) == 1}
    chosen = night.take(pd.Index(_patients(night)).isin(labels))
    if not chosen.n_rows:
        return None
    ids = chosen.id if contract.id else np.array([f"{said[0].night} {name}" for name in chosen.id], object)
    label = np.array([labels[name] for name in _patients(chosen)], object)
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
    known = rule.prevalence or champion.contract.prevalence
    whose = "given for the champion" if known else "of the past cohort"
    words = f"predictive values and workload are at the prevalence {whose}, {known or prevalence:.3g}"
    return replace(rule, prevalence=known or prevalence), words


def _fixed(model: ModelDocument) -> Parameters:
    """Parameters that whoever trained the champion fixed: the same in every setting that competed."""
    searches = [member.search for member in model.recipe.members] or [model.validation.search]
    every = [one for each in searches for one in each.candidates]
    return {name: value for name, value in every[0].items() if all(one.get(name) == value for one in every)}
