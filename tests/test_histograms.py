"""A column of tonight beside training, as the page of a night draws it."""

import re

import numpy as np
import pandas as pd
import pytest
from gated_tables import CONTRACT, gated
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import Outline, nosocomial_run

from screening.monitoring.profile import number_profile
from screening.report import render_run
from screening.report.histograms import FLOOR, WIDTH, FeatureLine, data_section
from screening.schemas.run import RunDocument
from screening.scoring.reference_distribution import among_past

DECLARED = {
    "fever": {"type": "number", "unit": "degC"},
    "crp": {"type": "number"},
    "ward": {"type": "category"},
}


def night_of(past: pd.DataFrame, tonight: pd.DataFrame) -> RunDocument:
    """A night's document whose gates counted `tonight` beside a training on `past`."""
    gates = gated(tonight, past)
    document = nosocomial_run()
    document["model"]["contract"]["features"] |= DECLARED
    document["model"]["training"]["profile"] = gates.past.to_dict()
    document["data"] = [
        {"name": name, "type": "number", "unit": None}
        | {"missing": 0.0, "missing_training": 0.0}
        | gates.facts()[name].to_dict()
        for name in CONTRACT.features
    ]
    return RunDocument.from_dict(document)


def line_of(run: RunDocument, name: str) -> FeatureLine:
    """The line of a feature on the page of a night."""
    lines = data_section(run)["rows"]
    return next(line for line in lines if line.feature.name == name)


def table_of(crp: list[float], ward: list[str] | None = None) -> pd.DataFrame:
    """A table of these values."""
    wards = ward or ["icu"] * len(crp)
    return pd.DataFrame({"fever": 37.0, "crp": crp, "ward": wards})


def area(path: str) -> float:
    """The area between an outline of upright and level lines and the floor."""
    widths = [int(width) for width in re.findall(r"h(-?\d+)", path)]
    heights = np.cumsum([int(up) for up in re.findall(r"v(-?\d+)", path)])
    return float(np.dot(widths, -heights))


def test_histogram_of_the_same_night():
    """A night that is training's table has training's outline."""
    values = np.random.default_rng(0).gamma(2, 30, 500).tolist()
    run = night_of(table_of(values), table_of(values))
    drawn = line_of(run, "crp").histogram
    assert drawn.past == drawn.tonight


def test_histogram_of_whole_numbers():
    """A whole number is the middle of its bar: days 0 to 3, a quarter each."""
    run = night_of(table_of([0, 1, 2, 3] * 20), table_of([0] * 10))
    drawn = line_of(run, "crp").histogram
    assert [tick.text for tick in drawn.ticks] == ["0", "1", "2", "3"]
    bars = np.linspace(10, WIDTH - 10, 5)
    middles = (bars[:-1] + bars[1:]) / 2
    assert [tick.at for tick in drawn.ticks] == pytest.approx(middles.tolist())
    # All of tonight is in the first bar, four times as high as each of training.
    assert drawn.tonight == "M10 66v-64h60v64h60v0h60v0h60V66Z"
    assert drawn.past == "M10 66v-16h60v0h60v0h60v0h60V66Z"


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80),
)
def test_histogram_of_any_numbers(past, tonight):
    """Both outlines are within the picture, from left to right, whatever the values."""
    run = night_of(table_of(past), table_of(tonight))
    drawn = line_of(run, "crp").histogram
    for path in (drawn.past, drawn.tonight):
        widths = [int(width) for width in re.findall(r"h(-?\d+)", path)]
        tops = FLOOR + np.cumsum([int(up) for up in re.findall(r"v(-?\d+)", path)])
        assert path.startswith(f"M10 {FLOOR}v")
        assert min(widths) >= 0
        assert sum(widths) == WIDTH - 20
        assert 2 <= min(tops) <= max(tops) <= FLOOR


def test_areas_of_a_histogram():
    """The areas of training and of tonight are equal."""
    rng = np.random.default_rng(1)
    past = rng.normal(50, 12, 400).tolist()
    run = night_of(table_of(past), table_of(rng.normal(60, 5, 90).tolist()))
    drawn = line_of(run, "crp").histogram
    assert area(drawn.past) == pytest.approx(area(drawn.tonight), rel=0.02)


def test_value_among_none():
    """A column that had no value in training says nothing of tonight's."""
    assert among_past(number_profile(np.array([np.nan])), 5.0) == (None, None)


def test_histogram_without_values():
    """Without a value tonight or in training there is nothing to draw."""
    none = table_of([np.nan] * 4)
    some = table_of([1.0, 2.0])
    for past, tonight in ((none, some), (some, none)):
        run = night_of(past, tonight)
        assert line_of(run, "crp").histogram is None


def test_shares_of_categories():
    """Categories of fewer than five training rows are among the others, by no name."""
    wards = ["icu"] * 12 + ["surgery"] * 6 + ["annex"] * 2
    past = table_of([1.0] * 20, wards)
    tonight = table_of([1.0] * 10, ["icu"] * 4 + ["annex"] * 1 + ["tent"] * 5)
    run = night_of(past, tonight)
    shares = line_of(run, "ward").shares
    assert [(share.name, share.past, share.tonight) for share in shares] == [
        ("icu", 0.6, 0.4),
        ("surgery", 0.3, 0.0),
        ("all others", pytest.approx(0.1), pytest.approx(0.1)),
        ("never seen in training", 0.0, 0.5),
    ]


def test_shares_of_ordinals_and_of_yes_and_no():
    """An ordinal's positions and the numbers of yes and no stand as their words."""
    document = nosocomial_run()
    model = document["model"]
    model["contract"]["features"] |= {
        "wound": {"type": "ordinal", "categories": ["clean", "contaminated"]},
        "icu": {"type": "boolean"},
    }
    counts = {"counts": {"0": 30, "1": 10}, "more": 0}
    profiles = {"wound": counts, "icu": counts}
    model["training"]["profile"] = {"n_rows": 40, "n_units": 40, "features": profiles}
    document["data"] = [
        {"name": name, "type": "text", "unit": None, "counts": [1, 3]}
        | {"missing": 0.0, "missing_training": 0.0}
        for name in profiles
    ]
    run = RunDocument.from_dict(document)
    names = [
        [share.name for share in line_of(run, feature).shares]
        for feature in ("wound", "icu")
    ]
    assert names == [["clean", "contaminated"], ["no", "yes"]]


def test_page_opens_the_distribution_of_a_feature():
    """The name of each feature that was counted opens its picture."""
    past = table_of([*range(40)], ["icu", "surgery"] * 20)
    page = render_run(night_of(past, past).to_dict())
    outline = Outline(page)
    opened = [
        one for one in outline.all("details") if one.get("class") == "distribution"
    ]
    assert len(opened) == 3
    assert page.count("Per cent tonight (in training)") == 2
