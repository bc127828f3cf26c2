"""This tool's recipes, by `read_cohort` and `train` as a user would call them."""

from __future__ import annotations

import pandas as pd
from promises.answers import ASKED, Answer, NoAnswer, Past

from screening import MinSensitivity, read_cohort, train
from screening.errors import ScreenError

LABEL, PATIENT = "case_of_the_table", "patient_of_the_table"


def by_recipe(recipe: str, past: Past, new: pd.DataFrame) -> Answer:
    """Train a recipe with the default rule and flag new rows.

    Raises
    ------
    NoAnswer
        If `train` or `score_frame` refuses the table.
    """
    labels = pd.Series(past.case).map({0: "no", 1: "yes"})
    frame = past.rows.assign(**{LABEL: labels})
    roles = {"label": LABEL, "positive": "yes"}
    if past.table.group is not None:
        frame[PATIENT] = past.table.group
        roles["group"] = PATIENT
        new = new.assign(**{PATIENT: range(len(new))})
    try:
        cohort = read_cohort(
            frame, need_label=True, independent=past.table.group is None, **roles
        )
        model = train(
            cohort,
            recipe,
            rule=MinSensitivity(ASKED),
            beside=(),
            forward=False,
            jobs=1,
            seed=past.seed,
            independent=past.table.group is None,
        )
        scored = model.score_frame(new)
    except ScreenError as error:
        raise NoAnswer(str(error).splitlines()[0]) from error
    # A row that is refused has no score, and nobody is told to look at it.
    flagged = scored["flagged"].reindex(new.index, fill_value=False)
    return Answer(
        flagged.to_numpy(dtype=bool), model.facts.operating_points[0]["sensitivity"]
    )
