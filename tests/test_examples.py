"""The scripts of the example gallery run, and their figures show what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
MOST_LINES = 40


@pytest.fixture
def run():
    """Return a function that runs a script and returns its names."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")

    def run_script(name: str) -> dict[str, object]:
        names = runpy.run_path(str(EXAMPLES / name))
        assert pyplot.get_fignums() == [1]
        return names

    yield run_script
    pyplot.close("all")


def test_examples_are_short():
    """There are eight scripts of less than forty lines, each run by a test here."""
    tested = Path(__file__).read_text(encoding="utf-8")

    scripts = sorted(EXAMPLES.glob("*.py"))

    assert len(scripts) == 8
    for script in scripts:
        assert len(script.read_text(encoding="utf-8").splitlines()) < MOST_LINES
        assert f'run("{script.name}")' in tested


def test_first_screen(run):
    """The line in the figure is the threshold of the model."""
    names = run("1_first_screen.py")

    *_, line = names["ax"].lines
    assert line.get_xdata()[0] == names["screen"].threshold_


def test_factor_in_the_plane(run):
    """The factor is larger where the classes meet, and moves the boundary."""
    names = run("2_factor_in_the_plane.py")

    rows = names["x"]
    in_margin = np.abs(names["plain"].decision_function(rows)) < 1
    factor = names["rescaled"].factor_at(rows)[:, 0]
    assert factor[in_margin].mean() > factor[~in_margin].mean()
    before = names["plain"].decision_function(names["points"])
    after = names["rescaled"].decision_function(names["points"])
    assert 0 < np.mean((before > 0) != (after > 0)) < 0.1
    assert len(names["ax"].lines) == 2


def test_promise_on_held_out_patients(run):
    """A dot for each promise; none falls short of the interval of its promise."""
    names = run("3_promise_on_held_out_patients.py")

    lines = names["ax"].lines
    dots = [line.get_ydata()[0] for line in lines if line.get_marker() == "o"]
    lowest = [bar.get_segments()[0][:, 1].min() for bar in names["ax"].collections]
    assert len(dots) == 3
    assert (np.array(dots) >= lowest).all()


def test_one_class_without_a_case(run):
    """More of the infected are flagged than of the others, at about the asked rate."""
    names = run("4_one_class_without_a_case.py")

    flagged = names["scores"] >= names["screen"].threshold_
    infected = names["night"]["infected"] == "yes"
    assert flagged[infected].mean() > 2 * flagged[~infected].mean()
    assert flagged.mean() == pytest.approx(0.1, abs=0.05)
    bars = [patch.get_height() for patch in names["ax"].patches]
    assert sum(bars) == len(flagged)


def test_voxels(run):
    """The flagged voxels of the slice are those with the highest scores."""
    names = run("5_voxels.py")

    score, flagged = (ax.images[0].get_array() for ax in names["axes"])
    is_flagged = flagged.filled(0) == 1
    assert 0 < is_flagged.sum() < flagged.count()
    assert score[is_flagged].min() > score[~is_flagged].max()


def test_vendors_score(run):
    """The threshold finds the promised share of cases; the vendor's scores are kept."""
    names = run("6_vendors_score.py")

    model = names["model"]
    rows = model.validation.set_index("id")
    past = names["past"].set_index("patient")
    (point,) = model.facts.operating_points
    assert_allclose(rows["score"], past.loc[rows.index, "early_warning"])
    assert point["sensitivity"].value >= 0.9
    assert (rows["score"][rows["label"] == "yes"] >= point.threshold).mean() >= 0.9


def test_month_of_a_site(run):
    """Thirty nights are drawn, and some flags are of patients flagged before."""
    names = run("7_month_of_a_site.py")

    bars = names["ax"].patches
    handles, labels = names["ax"].get_legend_handles_labels()
    heights = {
        label: sum(bar.get_height() for bar in handle)
        for label, handle in zip(labels, handles, strict=True)
    }
    assert len({round(bar.get_x(), 3) for bar in bars}) == 30
    assert heights["new"] > 0
    assert heights["pending"] > heights["new"]


def test_plug_in(run):
    """A dot for no factor and for each height; the best height beats none."""
    names = run("8_plug_in.py")

    (line,) = names["ax"].lines
    none, *with_factor = line.get_ydata()
    assert line.get_xdata().tolist() == [0.0, *names["heights"]]
    assert max(with_factor) > none
