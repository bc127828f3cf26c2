"""What every test runs under, past cohorts, the places a ledger may lie in, and a
browser.
"""

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import ledger_places
import pytest
from browser_pages import browser, opened  # noqa: F401  (fixtures)
from commands import LOGISTIC, WHO, screen
from extras import missing_packages
from faults.amounts import LONG
from flow_cohorts import night_of_patients, patients, voxels, written
from hypothesis import settings

from screening import (
    MinSensitivity,
    Threshold,
    open_ledger,
    read_cohort,
    save_model,
    train,
)
from screening.data.cohort import Cohort
from screening.ledger.database import Ledger
from screening.report import render_model
from screening.store.model import Model

# Derandomised: the same tests everywhere; no deadline: a shared machine is slow now and
# then. A third of the usual examples keeps the suite within a quarter of an hour; `make
# faults` tries all.
EXAMPLES = 100 if LONG else 30
settings.register_profile(
    "shared",
    deadline=None,
    derandomize=True,
    print_blob=True,
    max_examples=EXAMPLES,
)
settings.load_profile("shared")

_numbers = count()

# A file system in memory, as Linux has it, and the bytes that must be free there.
MEMORY = Path("/dev/shm")
ROOM_NEEDED = 4 << 30


def _takes_files(folder: Path) -> bool:
    """Return whether tests can write and start their files in a folder."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return False
    starts_programs = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return starts_programs and shutil.disk_usage(folder).free > ROOM_NEEDED


def pytest_configure(config: pytest.Config) -> None:
    """Write temporary files in memory where there is room, unless TMPDIR names a place.

    Each commit to a ledger waits for the disk several times: 18 ms on one disk, 0.4 ms
    in memory. What is tested of that is the calls, not the disk.
    """
    if "TMPDIR" not in os.environ and _takes_files(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: no worker then ends minutes after the others."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_collection_finish() -> None:
    """Collect garbage more seldom, and never look for it in what was collected and
    imported until now.

    Full collections that walk through all of that take a sixth of the suite's time.
    """
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the packages without which tests were skipped."""
    if missing := missing_packages():
        terminalreporter.write_line(
            f"not installed, so that tests were skipped: {', '.join(missing)}"
        )


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(patients(), tmp_path_factory.mktemp("past") / "past.csv")


@pytest.fixture(scope="session")
def cohort(table: Path) -> Cohort:
    return read_cohort(table, label="ill", id="patient", need_label=True)


@pytest.fixture(scope="session")
def tissue(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    path = written(voxels(), tmp_path_factory.mktemp("past") / "past.parquet")
    return read_cohort(path, label="tissue", group="patient", need_label=True)


@pytest.fixture(scope="session")
def trained() -> Callable[..., Model]:
    """What `train` gives, which the same rows, recipe and settings are given once in a
    run.
    """
    models: dict[str, tuple[Cohort, Model]] = {}

    def train_once(rows: Cohort, recipe: object = "auto", **settings: object) -> Model:
        key = repr((id(rows), recipe, sorted(settings.items())))
        if key not in models:
            # The rows are held too, for a number of theirs might else be given to
            # others.
            models[key] = rows, train(rows, recipe, **{"beside": ()} | settings)
        return models[key][1]

    return train_once


@pytest.fixture(scope="session")
def tissue_model(tissue: Cohort, trained: Callable[..., Model]) -> Model:
    """Three classes of voxels, of which the rare one is watched."""
    return trained(tissue, "one_vs_rest", search=1, folds=4)


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models that deserve attention for several reasons or for none, and nights that
    do.
    """
    folder = tmp_path_factory.mktemp("judged")
    past = patients(600, seed=3)
    shuffled = past["ill"].sample(frac=1, random_state=4)
    noise = past.assign(ill=shuffled.to_numpy())
    rules = {
        "good": MinSensitivity(0.8),
        "blind": MinSensitivity(0.8),
        "mute": Threshold(50.0),
    }
    quick = {"search": 1, "jobs": 1, "beside": ()}
    for name, rule in rules.items():
        table = {"blind": noise}.get(name, past)
        roles = {"label": "ill", "id": "patient"}
        model = train(
            table,
            "logistic",
            repeats=1,
            rule=rule,
            **roles,
            **quick,
        )
        save_model(model, folder / name, render_model)
    tissue = train(
        voxels(),
        "one_vs_rest",
        folds=4,
        label="tissue",
        group="patient",
        **quick,
    )
    save_model(tissue, folder / "tissue", render_model)
    night = night_of_patients(240, seed=7)
    written(night, folder / "night.csv")
    is_ward = night.index > 14
    of_annex = night.assign(ward=night["ward"].where(is_ward, "annex"))
    written(of_annex, folder / "annex.csv")
    unlabelled = voxels(3, seed=5).drop(columns="tissue")
    written(unlabelled, folder / "voxels.parquet")
    return folder


@pytest.fixture(scope="session")
def logistic_model(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a model that a command trained on past patients; it flags three in
    ten.
    """
    out = tmp_path_factory.mktemp("models") / "logistic"
    screen(
        "train",
        table,
        *WHO,
        "--positive",
        "yes",
        *LOGISTIC,
        "--max-flag-rate",
        "0.3",
        "--out",
        out,
    )
    return out


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Directory of the socket of a PostgreSQL server that lives as long as the
    tests.
    """
    if not ledger_places.BINARIES:
        pytest.skip(ledger_places.ABSENT)
    pytest.importorskip("psycopg")
    yield from ledger_places.server()


@pytest.fixture(scope="session")
def new_place(request: pytest.FixtureRequest, tmp_path_factory) -> Callable[[str], str]:
    """Gives the path or URL of a ledger of a kind, "sqlite" or "postgresql", that is
    not there yet.
    """

    def of_kind(kind: str) -> str:
        if kind == "sqlite":
            return str(tmp_path_factory.mktemp("ledger") / "screening.db")
        return ledger_places.schema(
            request.getfixturevalue("postgres"), f"ledger{next(_numbers)}"
        )

    return of_kind


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, new_place) -> str:
    """Path or URL of a ledger that is not there yet, once of each kind."""
    return new_place(request.param)


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    """A new ledger, once of each kind."""
    with open_ledger(place, make=True) as book:
        yield book
