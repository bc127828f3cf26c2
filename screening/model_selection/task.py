"""What a model is asked to find: one positive class, or several watched classes among many."""

from __future__ import annotations

import numpy as np

from screening.contract.contract import Contract
from screening.data.cohort import Cohort, labels_of
from screening.data.labels import same_label
from screening.errors import CohortError, UsageError
from screening.metrics.tally import units_of
from screening.schemas.model import ModelDocument, TaskFacts
from screening.spelling import first_of


class Task(TaskFacts):
    """The question a cohort's label column asks: `model.json` states it as it is."""

    @property
    def n_outputs(self) -> int:
        """Columns of decisions: one a class, or one that tells the positive class from the rest."""
        return 1 if self.kind == "binary" else len(self.classes)

    @property
    def watched_codes(self) -> list[int]:
        """What `target` calls the watched classes."""
        return (
            [1]
            if self.kind == "binary"
            else [self.classes.index(name) for name in self.watched]
        )

    @property
    def watched_columns(self) -> list[int]:
        """Columns of decisions that belong to the watched classes."""
        return [0] if self.kind == "binary" else self.watched_codes

    @property
    def score_columns(self) -> list[str]:
        """What `validation.parquet` calls the scores of the watched classes."""
        return (
            ["score"]
            if self.kind == "binary"
            else [f"score_{name}" for name in self.watched]
        )

    def target(self, label: np.ndarray) -> np.ndarray:
        """Label text to integers, shape (n_rows,): 0 / 1 for binary, the position in `classes` otherwise.

        CohortError where a row's label is not one of a multi-class model's classes.
        """
        labels = [(self.joined or {}).get(name, (name,)) for name in self.classes]
        if self.kind == "binary":
            return np.isin(label, labels[1]).astype(np.int64)
        position = {text: code for code, texts in enumerate(labels) for text in texts}
        codes = np.array([position.get(text, -1) for text in label], dtype=np.int64)
        if (codes < 0).any():
            rows = ", ".join(str(row + 1) for row in np.flatnonzero(codes < 0)[:5])
            raise CohortError(
                f"column {self.label}: rows {rows} have a class the model was not trained on; "
                f"known classes: {', '.join(self.classes)}"
            )
        return codes

    def is_watched(self, label: np.ndarray) -> np.ndarray:
        """Whether each row belongs to each watched class, shape (n_rows, n_watched), boolean."""
        return self.target(label)[:, None] == np.asarray(self.watched_codes)

    @classmethod
    def of(cls, facts: TaskFacts) -> Task:
        """What a model's document states."""
        return cls(**dict(facts))


NAMED_ROWS = 5


def known_labels(
    facts: ModelDocument, contract: Contract, rows: Cohort, remedy: str
) -> np.ndarray:
    """The labels of rows as training wrote them (1 for 1.0), "" where there is none; shape (n_rows,).

    Raises CohortError: a label that training never met: as a case that is spelled otherwise, it would count
    as none.
    """
    labels = list(dict.fromkeys([*facts.training.n_by_class, *contract.negative]))
    texts, numbers_of = np.unique(labels_of(rows), return_inverse=True)
    meant = [text and same_label(text, labels) for text in texts.tolist()]
    strange = np.array([name is None for name in meant])[numbers_of]
    # A sub-sample need not have met every label that is not the positive one.
    if strange.any() and facts.training.max_rows is None:
        numbers = rows.rows[strange].tolist()
        raise CohortError(
            f"column '{facts.task.label}', rows {first_of(numbers, NAMED_ROWS)}: "
            f"a label the model was not trained on; known: {', '.join(labels)}; {remedy}"
        )
    return np.array(
        [
            text if name is None else name
            for text, name in zip(texts, meant, strict=True)
        ]
    )[numbers_of]


def refuse_unlabelled(label: np.ndarray, column: str) -> None:
    """CohortError where a row has no label: it would count as one without the condition."""
    if untold := int((label == "").sum()):
        raise CohortError(
            f"column '{column}': {untold} of {len(label)} rows have no label; "
            "fill the label column, or leave these rows out"
        )


def infer_task(cohort: Cohort, several: bool) -> tuple[Task, list[str]]:
    """Turn a cohort's label column, and what its contract says of it, into a Task; and what was guessed.

    Where `several` classes are told apart rather than one from the rest, the contract's positive values name
    the classes to watch; without them the rare classes are watched. UsageError where there is no label
    column, one class only, a positive value that does not occur, or another number of positive classes than
    one for a recipe that tells one from the rest; CohortError where a row has no label.
    """
    classes, column = cohort.classes, cohort.contract.label or "label"
    if cohort.label is not None:
        refuse_unlabelled(cohort.label, column)
    if len(classes) < 2:
        raise UsageError(
            f"column {column}: every row has the same label; is it the outcome? Name its column with --label"
        )
    positives = (
        cohort.positives()
        if cohort.contract.positive or len(classes) == 2 or not several
        else {}
    )
    rest = [
        name
        for name in classes
        if not any(name in labels for labels in positives.values())
    ]
    if not rest:
        raise UsageError(
            f"column {column}: every class is named positive; leave one out"
        )
    if len(positives) > 1 and not several:
        raise UsageError(
            f"{', '.join(positives)} are to be watched, and this recipe tells one class from the rest: join "
            f"them with --positive {'+'.join(positives)}, or take a recipe that gives each its own score "
            "(auto, random_forest, logistic, one_vs_rest, ...)"
        )
    watched = list(positives)
    if not watched:
        # Those holding less than half of an even share, or the rarest one.
        counts = {name: np.count_nonzero(cohort.label == name) for name in classes}
        by_size = sorted(classes, key=lambda name: counts[name])
        even = cohort.n_rows / len(classes)
        watched = [name for name in by_size if counts[name] < even / 2] or by_size[:1]
    task = Task(
        kind="multi" if several else "binary",
        label=column,
        positive=list(positives),
        classes=sorted([*positives, *rest]) if several else ["negative", *positives],
        watched=watched,
        joined={name: labels for name, labels in positives.items() if len(labels) > 1}
        or None,
    )
    if cohort.contract.positive:
        return task, []
    what = (
        "watched classes taken to be the rare ones"
        if several
        else "positive class taken to be"
    )
    return task, [
        f"{what}{':' * several} {', '.join(watched)} (say otherwise with --positive)"
    ]


def watchable(
    task: Task, target: np.ndarray, groups: np.ndarray | None, folds: int
) -> tuple[Task, list[str]]:
    """The task without watched classes that nobody named and too few groups (or rows) hold; a note of them.

    A class held by fewer groups than there are folds has no operating point worth a promise: the only
    threshold that keeps one flags everything. Classes the caller named stay watched.
    """
    if task.kind == "binary" or task.positive:
        return task, []
    codes = zip(task.watched, task.watched_codes, strict=True)
    holders = {name: units_of(target == code, groups) for name, code in codes}
    kept = [name for name in task.watched if holders[name] >= folds]
    if not kept or kept == task.watched:
        return task, []
    what = "rows" if groups is None else "groups"
    left = ", ".join(
        f"{name} ({holders[name]} {what})" for name in task.watched if name not in kept
    )
    note = f"not watched, too few for {folds} folds: {left} (insist with --positive)"
    return task.replace(watched=kept), [note]
