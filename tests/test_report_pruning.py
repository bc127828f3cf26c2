"""The removal path of pruning on the page."""

from __future__ import annotations

import pytest
from report_fixture import nosocomial_model

from screening.documents.stored import model_in
from screening.page import render_model
from screening.page.card import pruning_chart

PATH = [[12.0, 16.2, 0.25, 0.04], [6.0, 11.8, 0.5, 0.065], [22.0, 9.4, 0.8359, 0.0882]]


def model_with(path: object) -> dict:
    model = nosocomial_model()
    model["machine"]["passes"] = [{}, {"pruning_path": path}]
    return model


def test_pruned_model_shows_what_the_removals_cost():
    page = render_model(model_with(PATH))

    assert "Support vectors removed" in page
    assert "3 support vectors of the larger class removed" in page
    assert "went from 25" in page
    assert len(pruning_chart(model_in(model_with(PATH))).lines) == 2


@pytest.mark.parametrize("path", [[], None])
def test_without_a_path_there_is_no_chart(path):
    assert pruning_chart(model_in(model_with(path))) is None
    assert "Support vectors removed" not in render_model(model_with(path))
