"""Where a page shows sensitivity it also shows the counts behind it."""

import re

import numpy as np
import pytest
from flow_cohorts import patients

from screening import train
from screening.data.reading import starter_contract
from screening.report import render_model

SEEN = re.compile(r'<span class="soft">([\d,]+) of ([\d,]+)</span>')
N_OF_M = re.compile(r'<td class="n">([\d,]+) of ([\d,]+)</td>')


@pytest.fixture(scope="module")
def model():
    frame = patients(600)
    # One level has fewer cases than may be shown.
    frame.loc[:30, "ward"] = "hospice"
    is_case = np.arange(31) < 3
    frame.loc[:30, "ill"] = np.where(is_case, "yes", "no")
    contract, _ = starter_contract(frame, id="patient", label="ill")
    contract = contract.model_copy(update={"subgroup": ["ward"]})
    options = {
        "search": 1,
        "repeats": 1,
        "folds": 3,
        "beside": (),
    }
    return train(frame, "logistic", contract=contract, **options)


def lines_of(page: str, section: str) -> list[str]:
    """Return the lines of the tables in a section of a page."""
    start = page.index(f'<section aria-labelledby="{section}">')
    block = page[start : page.index("</section>", start)]
    return re.findall(r"<tr[^>]*>.*?</tr>", block, re.DOTALL)


def counts_of(line: str) -> list[tuple[int, int]]:
    """Return the flagged and all of each "n of m" in a line of a table."""
    pairs = N_OF_M.findall(line)
    found = []
    for n, m in pairs:
        found.append((int(n.replace(",", "")), int(m.replace(",", ""))))
    return found


def test_operating_points_counts(model):
    """The line of the threshold in use has the counts of the held-out rows."""
    flagged = model.validation["score"] >= model.thresholds[0]
    is_case = model.validation["label"] == "yes"
    n_cases = int(is_case.sum())
    lines = lines_of(render_model(model.document), "choices")
    in_use = [line for line in lines if "in use" in line]
    of_cases, of_others = counts_of(in_use[0])

    n_flagged_cases = int((flagged & is_case).sum())
    n_flagged_others = int((flagged & ~is_case).sum())
    assert of_cases == (n_flagged_cases, n_cases)
    assert of_others == (n_flagged_others, len(flagged) - n_cases)


def test_own_boundary_counts(model):
    above = model.validation["score"] > 0
    is_case = model.validation["label"] == "yes"
    lines = lines_of(render_model(model.document), "choices")
    own = [line for line in lines if "not chosen" in line]
    of_cases, of_others = counts_of(own[0])

    assert of_cases[0] == (above & is_case).sum()
    assert of_others[0] == (above & ~is_case).sum()


def test_subgroups_counts(model):
    """Each level has its own counts; those that tell a withheld number are withheld."""
    flagged = model.validation["score"] >= model.thresholds[0]
    is_case = model.validation["label"] == "yes"
    lines = lines_of(render_model(model.document), "subgroups")
    by_level = {
        level: SEEN.findall(line)
        for line in lines
        for level in ("icu", "medicine", "surgery", "hospice")
        if f"<bdi>{level}</bdi>" in line
    }

    assert by_level.pop("hospice") == []
    found, spared = zip(*by_level.values(), strict=True)
    n_found, n_cases = np.array(found, dtype=int).sum(axis=0)
    n_spared, n_others = np.array(spared, dtype=int).sum(axis=0)
    # The three cases and twenty-eight others of the last level are withheld.
    assert n_cases == is_case.sum() - 3
    assert n_others == (~is_case).sum() - 28
    assert 0 <= (flagged & is_case).sum() - n_found <= 3
    assert 0 <= (~flagged & ~is_case).sum() - n_spared <= 28
