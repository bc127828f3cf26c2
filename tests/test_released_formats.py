"""What a release wrote, every later version reads: models, runs and a ledger of each,
in `tests/released`.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import as_json, screen
from numpy.testing import assert_allclose
from written_files import scores_in

from screening import load_model, score
from screening.store.serialization import read_document

RELEASES = sorted((Path(__file__).parent / "released").glob("*.zip"))
KINDS = ["blend", "calibrated", "grouped", "one_class", "several_classes", "voxels"]
LAST_NIGHT = "2026-03-02"

of_every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="session", params=RELEASES, ids=lambda path: path.stem)
def released(request, tmp_path_factory) -> Path:
    """Folder of what a release wrote, as `tests/make_released.py` has it."""
    folder = tmp_path_factory.mktemp("released")
    shutil.unpack_archive(request.param, folder)
    return folder


@of_every_kind
def test_model_of_a_release_scores_as_it_did(released, kind, tmp_path):
    """The scores and flags of a night are those that the release gave it."""
    folder = released / kind
    (night,) = (path for path in folder.iterdir() if path.is_file())
    model = load_model(folder / "model")
    score(model, night, tmp_path / "run", jobs=1)

    then = scores_in(folder / LAST_NIGHT)
    now = scores_in(tmp_path / "run")
    assert_allclose(now["score"], then["score"], rtol=1e-6)
    assert now["flagged"].tolist() == then["flagged"].tolist()


@of_every_kind
def test_run_of_a_release_is_drawn_and_exported(released, kind, tmp_path):
    """Its page is drawn again, and its flagged rows go to a spreadsheet."""
    run = shutil.copytree(released / kind / LAST_NIGHT, tmp_path / "run")

    screen("report", run)
    screen("export", run, "--to", "csv", "--out", tmp_path / "flagged.csv")

    assert (run / "report.html").stat().st_size > 10_000
    assert (
        len(pd.read_csv(tmp_path / "flagged.csv"))
        == read_document(run, "run")["counts"]["flagged"]
        > 0
    )


def test_ledger_of_a_release_verifies(released, tmp_path):
    """Its tables come out the same when they are made anew from its trail, which
    verifies.
    """
    ledger = shutil.copy(released / "ledger.db", tmp_path)

    screen("ledger", "rebuild", ledger)

    history = as_json("history", "--ledger", ledger, "--verify")
    nights = [run["night"] for run in history["runs"]]
    assert nights.count(LAST_NIGHT) == len(KINDS)
    assert history["audit"]["verified"]
