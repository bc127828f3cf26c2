"""Write what a release writes: a model of each kind, a night of each, and a ledger with
its nights.

    python tests/make_released.py

Run once when a version is tagged, into `released/VERSION.zip`, which is then kept for
ever. The tables are made by `flow_cohorts`, so no patient is in it; pages are left out,
for they are drawn again.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from flow_cohorts import night_of_patients, patients, voxels, written

import screening
from screening import load_model, open_ledger, read_cohort, score, train
from screening.report import render_model
from screening.store.model import save_model

RELEASED = Path(__file__).resolve().parent / "released"
NIGHTS = ("2026-03-01", "2026-03-02")
SETTINGS = {
    "search": 1,
    "folds": 3,
    "repeats": 1,
    "jobs": 1,
    "beside": (),
}


def kinds(folder: Path) -> dict[str, tuple[Path, dict[str, object], str, Path]]:
    """By kind of model its past table, the roles of its columns, its recipe, and the
    table of a night.
    """
    past = patients(160)
    tonight = night_of_patients(30, seed=7)
    stays = past.assign(stay=past.index.astype(str))
    stays["patient"] = past["patient"].str[:-1]
    one_row = {"label": "ill", "positive": "yes", "id": "patient"}
    several = {
        "label": "ward",
        "positive": ["icu", "surgery"],
        "id": "patient",
        "drop": ["ill"],
    }
    past_file = written(past, folder / "past.csv")
    night_file = written(tonight, folder / "night.csv")
    stays_file = written(stays, folder / "stays.csv")
    with_stays = tonight.assign(stay=tonight.index.astype(str))
    stays_night = written(with_stays, folder / "stays_night.csv")
    voxel_file = written(voxels(6, each=40), folder / "voxels.parquet")
    voxel_night = written(
        voxels(2, each=40, seed=5).drop(columns="tissue"),
        folder / "voxels_night.parquet",
    )
    grouped = one_row | {"id": "stay", "group": "patient"}
    images = {"label": "tissue", "positive": "lesion", "group": "patient"}
    return {
        "calibrated": (past_file, one_row, "svm_weighted", night_file),
        "grouped": (stays_file, grouped, "logistic", stays_night),
        "several_classes": (past_file, several, "one_vs_rest", night_file),
        "one_class": (past_file, one_row, "one_class", night_file),
        "blend": (past_file, one_row, "auto", night_file),
        "voxels": (voxel_file, images, "act_feature_space", voxel_night),
    }


def make(out: Path) -> None:
    """Train, save and score two nights of every kind, below `out`."""
    with (
        TemporaryDirectory() as made,
        open_ledger(out / "ledger.db", make=True) as ledger,
    ):
        for kind, (past, roles, recipe, tonight) in kinds(Path(made)).items():
            model = train(
                read_cohort(past, need_label=True, **roles), recipe, **SETTINGS
            )
            save_model(model, out / kind / "model", render_model)
            shutil.copy(tonight, out / kind)
            for night in NIGHTS:
                score(
                    load_model(out / kind / "model"),
                    tonight,
                    out / kind / night,
                    date=night,
                    ledger=ledger,
                    series=kind,
                    accept_delivery="the same table again",
                )
            shutil.rmtree(out / kind / NIGHTS[0])
    for page in out.rglob("report.html"):
        page.unlink()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        make(Path(folder))
        shutil.make_archive(str(RELEASED / screening.__version__), "zip", folder)
