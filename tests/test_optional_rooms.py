"""A room of the registry can be taken out: its folder, its lines, and what it did; nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_cohorts"


@pytest.fixture(scope="module")
def without_images(tmp_path_factory):
    """A copy of the package without `imaging/` and the lines that name it; the command of the copy."""
    copy = tmp_path_factory.mktemp("copy")
    for part in ("screening", "models", "templates", "sample_cohorts", "pyproject.toml"):
        source = ROOT / part
        shutil.copytree(source, copy / part) if source.is_dir() else shutil.copy(source, copy)
    shutil.rmtree(copy / "screening" / "imaging")
    registry = copy / "screening" / "registry.py"
    lines = registry.read_text().splitlines(keepends=True)
    registry.write_text("".join(line for line in lines if "screening.imaging" not in line))

    def screen(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "screening", *map(str, words)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
        )

    return copy, screen


def test_no_other_file_names_a_room_that_can_be_taken_out(without_images):
    copy, _ = without_images
    naming = [path for path in copy.rglob("*.py") if "screening.imaging" in path.read_text(encoding="utf-8")]
    assert naming == []


def test_a_table_is_trained_scored_and_exported_without_images(without_images, tmp_path):
    """Deleting `imaging/` and its lines removes images and nothing else."""
    _, screen = without_images
    quick = ["--recipe", "logistic", "--search", 1, "--beside", "none", "--out", tmp_path / "model"]
    past, contract = SAMPLE / "nosocomial_past.csv", SAMPLE / "nosocomial.toml"
    trained = screen("train", past, "--contract", contract, *quick)
    scored = screen("score", tmp_path / "model", SAMPLE / "nosocomial_night.csv", "--out", tmp_path / "run")
    listed = screen("export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "list.csv")
    volumes = screen("export", tmp_path / "run", "--to", "nifti", "--out", tmp_path / "volumes")

    assert [one.returncode for one in (trained, scored, listed)] == [0, 0, 0], trained.stderr + scored.stderr
    assert (tmp_path / "list.csv").is_file() and (tmp_path / "run" / "report.html").is_file()
    assert volumes.returncode == 2 and "nifti" in volumes.stderr


def test_what_needs_a_room_taken_out_is_refused(without_images, tmp_path):
    """Voxels need what was taken out: exit 2, which says so, and no traceback."""
    _, screen = without_images
    table = tmp_path / "voxels.csv"
    rows = (f"P{i % 6},{i},{i % 5},0,{i % 7},{i % 2}\n" for i in range(120))
    table.write_text("patient_id,x,y,z,flair,lesion\n" + "".join(sorted(rows)))

    voxels = ["--label", "lesion", "--group", "patient_id", "--neighbourhood", 3]
    refused = screen("train", table, *voxels, "--out", tmp_path / "model")

    assert refused.returncode == 2 and "without neighbourhood" in refused.stderr
