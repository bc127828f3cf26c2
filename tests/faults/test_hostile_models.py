"""A hostile model directory is refused with exit code 4, quickly, and without taking memory."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from contextlib import suppress

import pytest

from faults.amounts import LONG, attempts, counted
from faults.desk import copied
from faults.structures import VALUES, places, put, reseal_model
from screening.errors import ModelError
from screening.scoring.score import score
from screening.store.loading import load_model

SECONDS, BYTES = 5, 500 << 20


def zipped(sizes: int, level: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", level) as archive:
        archive.writestr("calibration.npy", bytes(sizes))
    return buffer.getvalue()


BOMBS = {
    "no array": ("arrays.npz", lambda: zipped(100)),
    "an empty archive": ("arrays.npz", lambda: zipped(0)),
    "no archive": ("arrays.npz", lambda: b"PK" * 1000),
    "no table": ("validation.parquet", lambda: b"PAR1" + bytes(100) + b"PAR1"),
}


def refused(folder) -> tuple[float, int]:
    """Check a cohort by a model in a process of its own; return its seconds and peak bytes."""
    code = (
        "import sys, time\nimport screening.store.loading, pandas, pyarrow.parquet\n"
        "from screening.errors import ModelError\nbegan = time.perf_counter()\n"
        "try:\n    screening.store.loading.load_model(sys.argv[1])\n    sys.exit(9)\n"
        "except ModelError:\n    pass\n"
        # Not `ru_maxrss`, which a child takes over from its parent.
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "print(time.perf_counter() - began, peak)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    seconds, kilobytes = answer.stdout.split()
    return float(seconds), int(kilobytes) << 10


@pytest.mark.parametrize("name", list(BOMBS)[:: 1 if LONG else 3])
def test_a_bomb_is_refused_in_5_seconds_and_500_megabytes(name, desk, tmp_path):
    folder = copied(desk / "model", tmp_path / "model")
    file, content = BOMBS[name]
    (folder / file).write_bytes(content())
    reseal_model(folder, json.loads((folder / "model.json").read_bytes()))

    seconds, taken = refused(folder)

    assert seconds < SECONDS
    assert taken < BYTES
    counted("bombs in a model directory", 1)


@pytest.mark.parametrize("name", ["model.json", "arrays.npz", "validation.parquet"])
@pytest.mark.parametrize("put_there", [os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p)])
def test_what_is_no_file_is_refused_and_not_waited_for(name, put_there, desk, tmp_path):
    folder = copied(desk / "model", tmp_path / "model")
    (folder / name).unlink()
    put_there(folder / name)

    with pytest.raises(ModelError):
        load_model(folder)
    counted("FIFOs, folders and devices in a model directory", 1)


@pytest.mark.parametrize(
    "path",
    [
        ("training", "profile", "features", "crp", "counts", 21),
        ("training", "profile", "features", "fever", "counts", 13),
        ("validation", "curves", "yes", "threshold", 72),
    ],
)
@pytest.mark.parametrize("value", [10**30, None])
def test_a_number_that_no_training_wrote_is_refused_before_it_is_counted_with(path, value, desk, tmp_path):
    folder = copied(desk / "model", tmp_path / "model")
    document = json.loads((folder / "model.json").read_bytes())
    reseal_model(folder, put(document, path, value))

    with suppress(ModelError):
        score(load_model(folder), desk / "tonight.csv", tmp_path / "run")


def test_any_value_at_any_place_of_a_resealed_document_is_refused_or_harmless(desk, tmp_path):
    folder = copied(desk / "model", tmp_path / "model")
    document = json.loads((folder / "model.json").read_bytes())
    spots = [path for path in places(document) if path]
    used = [path for path in spots if path[0] in ("recipe", "contract", "task", "operating_points")]

    for at in attempts("hostile values in a resealed model.json", 25, 3000):
        dice = random.Random(at)
        changed = put(document, dice.choice(used if at % 2 else spots), dice.choice(VALUES))
        reseal_model(folder, changed)
        began = time.monotonic()
        with suppress(ModelError):
            load_model(folder)
        assert time.monotonic() - began < 4 * SECONDS
