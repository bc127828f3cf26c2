"""Before anything is trained: slips in the label, columns that know the answer, rows, folds, other models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from screening.cohort.cohort import Cohort, joined_labels, labels_of, same_label
from screening.cohort.dependence import dependence, refuse_dependent
from screening.documents.model import Approximation
from screening.documents.tables import number, table, tables
from screening.errors import CohortError, ModelError, UsageError
from screening.machines.landmarks import RARE_SHARE
from screening.recipes.building import build, may_span
from screening.recipes.loading import members_for, tells_apart
from screening.recipes.recipe import Recipe
from screening.spelling import first_of
from screening.statistics.operating_point import Rule
from screening.storage.serialization import read_document
from screening.training.leaks import before_the_outcome, leaks
from screening.validation.fold_fits import EncodedCohort
from screening.validation.folds import Study, dealt, in_hash_order, planned, sub_sample
from screening.validation.held_out import HeldOut
from screening.validation.search import Parameters, criterion
from screening.validation.task import Task, ask

# Rows that a kernel machine takes all of: where it reads the matrix row by row, and where it needs the whole.
LARGEST_EXACT, LARGEST_WHOLE = 50_000, 20_000


def laid(
    cohort: Cohort,
    recipe: Recipe,
    rule: Rule,
    params: Parameters,
    *,
    folds: int,
    repeats: int | None,
    max_rows: int | None,
    search: int | None,
    seed: int,
    independent: bool,
    at_most: int | None = None,
) -> Study:
    """Settle what a recipe is trained on; a `UsageError` where the cohort does not allow it.

    Rows that are surely of the same patients are refused but where the caller says that each is
    `independent`. Where there are more rows than the recipe takes, landmarks stand for them; with `at_most`,
    for several recipes, more rows are refused.
    """
    signs = [] if independent else dependence(cohort.source, cohort.contract)
    refuse_dependent(signs)
    cohort, late = before_the_outcome(cohort)
    several = tells_apart(recipe, cohort)
    refuse_slips(cohort, several)
    task = ask(cohort, several)
    n_positive = int((task.target(labels_of(cohort)) == 1).sum())
    largest = at_most or largest_exact(recipe, params, task, n_positive)
    too_many = at_most is None and max_rows is None and largest is not None and cohort.n_rows > largest
    params = with_landmarks(recipe, params, too_many)
    sample, rule, notes = sample_rows(
        cohort, task, rule, max_rows, seed, None if by_landmarks(params) else largest
    )
    study = planned(sample, task, folds, repeats, seed, search=search)
    found = leaks(sample, study.task)
    notes += [
        *study.notes,
        *(f"{name} is left out: it is known only after the outcome (contract)" for name in late),
    ]
    notes += [leak.said for leak in found]
    return replace(study, cohort=cohort, rule=rule, params=params, leaks=found, signs=signs, notes=notes)


def by_landmarks(params: Mapping[str, object]) -> bool:
    """Whether machines see landmarks that stand for all rows."""
    return params.get("approximation") == "landmarks"


def largest_exact(recipe: Recipe, params: Parameters, task: Task, n_positive: int) -> int | None:
    """Rows that the recipe's machine can take all of; None where it is no kernel machine."""
    if recipe.machine == "baseline":
        return None
    if recipe.machine == "blend":
        members = (member for member in members_for(recipe, task.kind, n_positive) if not may_span(member))
        sizes = [largest_exact(member, {}, task, n_positive) for member in members]
        return min((size for size in sizes if size is not None), default=None)
    return LARGEST_EXACT if build(recipe, **params).by_rows else LARGEST_WHOLE


def sample_rows(
    cohort: Cohort, task: Task, rule: Rule, max_rows: int | None, seed: int, largest: int | None
) -> tuple[Cohort, Rule, list[str]]:
    """The rows to train on (no more than `largest`), and the rule with the prevalence they no longer show."""
    notes = list(cohort.notes)
    if rule.prevalence is None and cohort.contract.prevalence is not None:
        rule = replace(rule, prevalence=cohort.contract.prevalence)
    cohort = in_hash_order(cohort, seed)
    if max_rows is None or max_rows >= cohort.n_rows:
        if largest is not None and cohort.n_rows > largest:
            raise UsageError(
                f"{cohort.n_rows} rows are more than the {largest} that an exact kernel machine takes; "
                f"train on a stratified sub-sample with --max-rows {LARGEST_WHOLE // 4}"
            )
        return cohort, rule, notes
    target = task.target(labels_of(cohort))
    kept = sub_sample(target, cohort.group, max_rows, RARE_SHARE if task.kind == "binary" else 0.0, seed)
    positives, kept_positives = int((target == 1).sum()), int((target[kept] == 1).sum())
    if task.kind == "binary":
        notes.append(
            f"trained and validated on {len(kept)} of {cohort.n_rows} rows, "
            f"{kept_positives} of {positives} positive; predictive values at the table's prevalence"
        )
        if rule.prevalence is None:
            rule = replace(rule, prevalence=positives / len(target))
    else:
        notes.append(
            f"trained and validated on {len(kept)} of {cohort.n_rows} rows, every class in proportion"
        )
    return cohort.take(kept), rule, notes


FEWEST_OF_LABEL = 3
SHOWN_ROWS = 5
# Beyond so many values the column is hardly a label, and none of its values is shown.
MANY_LABELS = 20
REMEDY = "correct the cells, or say what counts with --positive, or `positive` and `negative` in the contract"
# What a keyboard adds to a word by accident; a sign such as + may be the whole difference.
LOOSE = re.compile(r"[\s_'\"`]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


def refuse_slips(cohort: Cohort, several: bool) -> None:
    """Refuse label values that too few rows have, or that one slip of the pen makes of another.

    Values that the contract or `--positive` names are meant as they stand. In a question of one class against
    the rest, two values that are both not the positive one need not be told apart.

    Raises CohortError: all such values, with their counts and the remedy.
    """
    column, contract = cohort.contract.label or "label", cohort.contract
    counts = Counter([] if cohort.label is None else filter(None, cohort.label))
    if len(counts) > MANY_LABELS:
        rare = sum(count < FEWEST_OF_LABEL for count in counts.values())
        if rare > len(counts) / 2:
            raise CohortError(
                f"column '{column}': {rare} of its {len(counts)} values stand in fewer than "
                f"{FEWEST_OF_LABEL} rows; is it the label? {REMEDY}"
            )
    positive = {label for text in contract.positive for label in joined_labels(text, [*counts])}
    named = positive | {same_label(text, [*counts]) for text in contract.negative}
    faults = [
        f"column '{column}', {_rows_of(cohort, text)}: a value that stands in {count} "
        f"row{'s' * (count > 1)} only; {REMEDY}"
        for text, count in sorted(counts.items())
        if count < FEWEST_OF_LABEL and text not in named
    ]
    faults += [
        f"column '{column}', {_rows_of(cohort, min(one, other, key=counts.__getitem__))}: a value and that "
        f"of other rows differ by a slip of the pen; {REMEDY}"
        for one, other in combinations(sorted(counts), 2)
        if alike(one, other)
        and not {one, other} <= named
        and (several or not positive or {one, other} & positive)
    ]
    if faults:
        raise CohortError(faults)


def _rows_of(cohort: Cohort, text: str) -> str:
    """The rows that have a label: a slip of the pen may be a name, so it is not shown."""
    rows = cohort.rows[labels_of(cohort) == text].tolist()
    return f"row{'s' * (len(rows) > 1)} {first_of(rows, SHOWN_ROWS)}"


def alike(one: str, other: str) -> bool:
    """Whether two labels differ in case, spaces and dots alone, or in one letter of one word.

    Numbers, grades and single letters are within one edit of each other by nature, and so is a Greek denial
    (septic, aseptic): they are told apart.
    """
    first, second = (LOOSE.sub("", text).casefold() for text in (one, other))
    if first == second:
        return bool(first)
    words, others = (re.findall(r"\w+|[^\w\s]+", text.casefold()) for text in (one, other))
    if len(words) != len(others):
        return False
    differing = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and _one_edit(*sorted(differing[0], key=len))


def _one_edit(short: str, long: str) -> bool:
    """Whether two words of letters, the shorter first, differ by one letter put in, left out or exchanged."""
    if len(short) < 3 or not (short.isalpha() and long.isalpha()) or len(long) - len(short) > 1:
        return False
    if long == f"a{short}":
        return False
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]


def refuse_other_model(directory: Path, recipe: Recipe, cohort: Cohort) -> None:
    """Refuse a directory whose model was made by another recipe, or of other files or another label.

    The same training again, with other settings or an edited contract, may replace its own model.

    Raises UsageError: it holds such a model, or one that cannot be read.
    """
    if not (directory / "model.json").exists():
        return
    remedy = "give another --out, or --force to replace it"
    try:
        document = read_document(directory, "model")
        earlier = tables(table(table(document, "training"), "source"), "files")
        same = {
            "recipe": table(document, "recipe")["text"] == recipe.text,
            "cohort": [file["sha256"] for file in earlier] == [file.sha256 for file in cohort.source.files],
            "label": table(document, "task")["label"] == (cohort.contract.label or "label"),
        }
    except (ModelError, KeyError, TypeError):
        raise UsageError(f"{directory} holds a model that cannot be read; {remedy}") from None
    others = [what for what, agrees in same.items() if not agrees]
    if others:
        raise UsageError(f"{directory} holds a model of another {' and '.join(others)}; {remedy}")


# Rows of the sub-sample; half of them are trained on, and of that half a fifth are the landmarks.
SUB_SAMPLE = 10_000
_FEWER = 5


def with_landmarks(recipe: Recipe, params: Parameters, too_many: bool) -> Parameters:
    """The caller's parameters, landmarks among them where rows are too many for all."""
    every = recipe.every.values() if recipe.machine == "blend" else [recipe]
    if too_many and any("approximation" in each.names for each in every):
        return {"approximation": "landmarks"} | params
    return params


def cost_of_landmarks(study: Study, held_out: HeldOut) -> Approximation:
    """AUROC on held-out rows of a sub-sample, trained exactly and on a fifth of the rows as landmarks.

    `held_out` has the chosen setting, the approximation in it; of a blend the first member that has one
    counts. Groups are never on both sides.
    """
    parts = held_out.parts or (held_out,)
    one = next(part for part in parts if "approximation" in part.recipe.names)
    recipe, settings = one.recipe, dict(one.search.chosen)
    sample, task, target = study.sample, study.task, study.target
    rows = sub_sample(target, study.groups, min(SUB_SAMPLE, sample.n_rows), RARE_SHARE, study.seed)
    some, inside = sample.take(rows), None if study.groups is None else study.groups[rows]
    encoded = EncodedCohort.of(some, recipe, task, inside)
    test = dealt(some, target[rows], inside, 2, study.seed) == 0
    learned = encoded.learnable(np.flatnonzero(~test))
    few = max(len(learned) // _FEWER, 2)
    tried = [settings | {"approximation": name, "n_landmarks": few} for name in ("none", "landmarks")]
    _, decided = encoded.tried(np.flatnonzero(~test), tried, encoded.x[test])
    auroc = {
        str(each["approximation"]): criterion("auroc", decisions, encoded.target[test])
        for decisions, each in zip(decided, tried, strict=True)
    }
    exact, landmarks = auroc["none"], auroc["landmarks"]
    # Where the recipe names none, the machine's own number holds.
    wanted = int(number(settings.get("n_landmarks", build(recipe, **settings).n_landmarks)))
    two_classes = recipe.machine != "one_class" and len(task.classes) == 2
    weighed = ", the rarer class weighed up to a fifth" if two_classes else ""
    return Approximation(
        method="landmarks",
        n_landmarks=wanted,
        n_rows=sample.n_rows,
        n_train=int((~test).sum()),
        n_test=int(test.sum()),
        auroc_exact=float(exact),
        auroc_landmarks=float(landmarks),
        note=(
            f"approximate: trained on {wanted} landmarks that stand for {sample.n_rows} rows{weighed}; "
            f"on {int(test.sum())} held-out rows of a sub-sample AUROC was {landmarks:.3f} with {few} "
            f"landmarks and {exact:.3f} with exact training on {int((~test).sum())} rows"
        ),
    )
