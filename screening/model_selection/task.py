"""The question that a model answers: one positive class, or several watched classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.data.labels import (
    BLANK_IS,
    are_outcomes,
    label_of_blank,
    means_case,
    rare_classes,
    same_label,
)
from screening.errors import CohortError, UsageError
from screening.schemas.model import ModelDocument, TaskFacts
from screening.spelling import first_of, quoted_list

NAMED_ROWS = 5
"""Row numbers that an error lists."""


class Task(TaskFacts):
    """The question of a cohort's label column, as `model.json` states it."""

    @property
    def n_outputs(self) -> int:
        """Columns of decisions: one per class, or one for the positive class."""
        return 1 if self.kind == "binary" else len(self.classes)

    @property
    def watched_codes(self) -> list[int]:
        """Codes that `target` gives the watched classes."""
        if self.kind == "binary":
            return [1]
        return [self.classes.index(name) for name in self.watched]

    @property
    def watched_columns(self) -> list[int]:
        """Columns of decisions that belong to the watched classes."""
        return [0] if self.kind == "binary" else self.watched_codes

    @property
    def score_columns(self) -> list[str]:
        """Columns of `validation.parquet` with the scores of the watched classes."""
        if self.kind == "binary":
            return ["score"]
        return [f"score_{name}" for name in self.watched]

    def target(self, label: np.ndarray) -> np.ndarray:
        """Return labels as codes, shape (n_rows,).

        They are 0 and 1 for a binary task, the position in `classes` otherwise.
        CohortError if a row's label is not one of a multi-class model's classes.
        """
        joined = self.joined or {}
        labels_of_classes = [joined.get(name, (name,)) for name in self.classes]
        if self.kind == "binary":
            return np.isin(label, labels_of_classes[1]).astype(np.int64)
        code_of = {}
        for code, labels in enumerate(labels_of_classes):
            for text in labels:
                code_of[text] = code
        codes = np.array([code_of.get(text, -1) for text in label], dtype=np.int64)
        unknown = np.flatnonzero(codes < 0)[:NAMED_ROWS]
        if len(unknown):
            rows = ", ".join(str(row + 1) for row in unknown)
            raise CohortError(
                f"column {self.label}, rows {rows}: the model was not trained on this "
                f"class; known classes: {', '.join(self.classes)}"
            )
        return codes

    def is_watched(self, label: np.ndarray) -> np.ndarray:
        """Return the mask of rows of each watched class, (n_rows, n_watched)."""
        return self.target(label)[:, None] == np.asarray(self.watched_codes)

    @classmethod
    def of(cls, facts: TaskFacts) -> Task:
        """Return the task of a model's document."""
        return cls(**dict(facts))


def known_labels(
    facts: ModelDocument, contract: Contract, rows: Cohort, remedy: str
) -> np.ndarray:
    """Return labels of rows as training wrote them (1 for 1.0), shape (n_rows,).

    "" if a row has none.

    Parameters
    ----------
    facts : ModelDocument
    contract : Contract
    rows : Cohort
    remedy : str
        Ends the message of the error; it may name the parameter `positive`.

    Raises
    ------
    CohortError
        If a label did not occur in training: a case with another spelling would count
        as none. So would a label that means missing.
    """
    refuse_no_outcome(facts, contract, rows)
    labels = list(dict.fromkeys([*facts.training.n_by_class, *contract.negative]))
    texts, text_of_row = np.unique(rows.labels, return_inverse=True)
    # If training had no label column, or no case, words such as "yes" decide.
    by_words = contract.label is None or facts.validation.without_cases is not None
    written = []
    is_unknown_text = []
    for text in texts.tolist():
        label = text and same_label(text, labels)
        if label is None and text == BLANK_IS and contract.unlabelled == "no":
            label = _label_of_blank(facts.task, contract)
        if label is None and by_words:
            label = _label_by_words(text, facts.task)
        written.append(label or text)
        is_unknown_text.append(label is None)
    is_unknown = np.array(is_unknown_text)[text_of_row]
    # A sub-sample may not contain every label that is not the positive one.
    if is_unknown.any() and facts.training.max_rows is None:
        numbers = rows.rows[is_unknown].tolist()
        raise CohortError(
            f"column '{facts.task.label}', rows {first_of(numbers, NAMED_ROWS)}: the "
            f"model was not trained on this label; known: {', '.join(labels)}; "
            f"{remedy}",
            parameters=["positive"],
        )
    return np.array(written)[text_of_row]


def _label_of_blank(task: TaskFacts, contract: Contract) -> str | None:
    """Return the label of rows with a blank one; None where training had none such."""
    if task.kind == "binary":
        return BLANK_IS
    label = label_of_blank(task.classes, contract)
    return label if label in task.classes else None


def refuse_no_outcome(facts: ModelDocument, contract: Contract, rows: Cohort) -> None:
    """Raise CohortError for labels that state no outcome, which would count as none."""
    joined = chain.from_iterable((facts.task.joined or {}).values())
    known = {*facts.training.n_by_class, *contract.negative, *facts.task.classes}
    known.update(joined)
    is_outcome = are_outcomes(rows.labels, contract, known)
    if not is_outcome.all():
        numbers = rows.rows[~is_outcome].tolist()
        raise CohortError(
            f"column '{facts.task.label}', rows "
            f"{first_of(numbers, NAMED_ROWS, len(numbers))}: the label usually means "
            "missing, or `leave_out` of the contract names it; leave these rows out, "
            "or correct the cells"
        )


def _label_by_words(text: str, task: TaskFacts) -> str | None:
    """Return the class of a text such as "yes" or "no"; None if it means neither.

    The name of the class to find is understood too.
    """
    negative, case = task.classes
    is_case = text == case or means_case(text)
    if is_case is None:
        return None
    return case if is_case else negative


def refuse_unlabelled(label: np.ndarray, column: str) -> None:
    """Raise CohortError if a row has no label: it would count as a negative."""
    n_unlabelled = int((label == "").sum())
    if n_unlabelled:
        raise CohortError(
            f"column '{column}': {n_unlabelled} of {len(label)} rows have no label; "
            "fill the label column, or leave these rows out"
        )


def _refuse_one_label(cohort: Cohort, column: str) -> None:
    """Raise CohortError unless every row has a label, and there are two labels."""
    if cohort.label is not None:
        refuse_unlabelled(cohort.label, column)
    if len(cohort.classes) < 2:
        raise _one_label_error(cohort, column)


def infer_task(cohort: Cohort, several: bool) -> tuple[Task, list[str]]:
    """Infer the task from a cohort's label column and its contract.

    Parameters
    ----------
    cohort : Cohort
    several : bool
        The recipe separates several classes. The contract's positive values are then
        the watched classes; without them the rare classes are watched.

    Returns
    -------
    task : Task
    notes : list of str
        What was guessed.

    Raises
    ------
    UsageError
        If there is only one class, a positive value does not occur, or there are
        several positive classes for a recipe that separates one from the rest.
    CohortError
        If a row has no label.
    """
    column = cohort.contract.label or "label"
    _refuse_one_label(cohort, column)
    positives: dict[str, tuple[str, ...]] = {}
    if cohort.contract.positive or len(cohort.classes) == 2 or not several:
        positives = cohort.positives
    rest = _other_classes(cohort.classes, positives, column)
    if several:
        watched = list(positives) or rare_classes(cohort.n_by_label, cohort.contract)
        classes = sorted([*positives, *rest])
        guess = "watched classes taken to be the rare ones:"
    else:
        _refuse_several_positives(positives)
        watched = list(positives)
        classes = ["negative", *positives]
        guess = "positive class taken to be"
    kind = "multi" if several else "binary"
    joined = {name: labels for name, labels in positives.items() if len(labels) > 1}
    task = Task(
        kind=kind,
        label=column,
        positive=list(positives),
        classes=classes,
        watched=watched,
        joined=joined or None,
    )
    if cohort.contract.positive:
        return task, []
    return task, [f"{guess} {', '.join(watched)} (change this with `positive`)"]


def _one_label_error(cohort: Cohort, column: str) -> UsageError:
    """Return the error of a table with one label in all rows."""
    left_out = ", ".join(cohort.contract.leave_out)
    if left_out:
        return UsageError(
            f"column {column}: `leave_out` {left_out} leaves rows of one label only; "
            "leave out other labels instead",
            parameters=["leave_out"],
        )
    return UsageError(
        f"column {column}: every row has the same label; is it the outcome? Name its "
        "column with `label`, or train without cases: `recipe` one_class with "
        "`max_flag_rate` 0.05",
        parameters=["label", "recipe", "max_flag_rate"],
    )


def _refuse_several_positives(positives: Mapping[str, tuple[str, ...]]) -> None:
    """Raise UsageError for several watched classes: one is separated from the rest."""
    if len(positives) > 1:
        joint = quoted_list(["+".join(positives)])
        raise UsageError(
            f"{', '.join(positives)} are to be watched, but this recipe separates one "
            f"class from the rest; join them with `positive` {joint}, "
            "or choose a recipe that scores each class (auto, random_forest, "
            "logistic, one_vs_rest, ...)",
            parameters=["positive"],
        )


def _other_classes(
    classes: Sequence[str], positives: Mapping[str, tuple[str, ...]], column: str
) -> list[str]:
    """Return the classes that no positive one contains; UsageError if none is left."""
    named: set[str] = set()
    for labels in positives.values():
        named.update(labels)
    rest = [name for name in classes if name not in named]
    if not rest:
        raise UsageError(
            f"column {column}: `positive` names every class; leave one out"
        )
    return rest
