"""A run of images as volumes again: flags and scores of each patient on the grid the voxels came from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from screening.errors import ModelError, UsageError
from screening.imaging.images import library
from screening.imaging.voxels import MARK, by_patient
from screening.schemas.run import Geometry
from screening.scoring.rows import FlaggedRows, Rows
from screening.store.publishing import publish

MILLIMETRES = "mm"
# What a name must not hold that is to become that of a file.
NO_NAME = ("", ".", "..")


@dataclass(frozen=True)
class PatientMaps:
    """What a run says of one patient's voxels."""

    geometry: Geometry
    flags: np.ndarray  # Number of the watched class that a voxel is flagged for, from 1 on; 0 unflagged.
    scores: np.ndarray  # NaN where no voxel was scored.

    @property
    def affine(self) -> np.ndarray:
        """From voxel numbers to millimetres, RAS+, shape (4, 4)."""
        return np.array(self.geometry.affine)


def maps_of(flagged: FlaggedRows) -> Iterator[PatientMaps]:
    """The maps of every patient of a run, one at a time.

    Raises UsageError: the run was scored from a table, or images that state no place: an affine is never
    invented.
    Raises ModelError: a voxel lies outside its patient's grid.
    """
    grids = {geometry.group: geometry for geometry in flagged.run.geometries}
    if not grids:
        raise UsageError(
            "this run has no reference geometry: it was scored from a table, or from images that state none; "
            "score the folder of images"
        )
    rows, watched = (
        Rows(flagged.directory / "scores.parquet"),
        flagged.run.model.task.watched,
    )
    for name, parts in groupby(
        by_patient(rows, watched, ["score", MARK]), key=itemgetter(0)
    ):
        if name not in grids:
            raise UsageError(
                f"{len({*grids})} patients have a reference geometry and others have none; "
                "score those whose images state their place in space"
            )
        maps = PatientMaps(
            grids[name],
            np.zeros(grids[name].shape, np.uint8),
            np.full(grids[name].shape, np.nan, np.float32),
        )
        for _, places, values in parts:
            at = np.rint(places).astype(np.int64)
            if (at < 0).any() or (at >= maps.flags.shape).any():
                raise ModelError(
                    "a voxel of scores.parquet lies outside the grid that run.json states"
                )
            maps.flags[tuple(at.T)], maps.scores[tuple(at.T)] = (
                values[MARK],
                values["score"],
            )
        yield maps


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """`PATIENT_flags.nii.gz` and `PATIENT_scores.nii.gz` of all patients in a directory; as `maps_of`."""
    write_volumes(out, flagged, _images(flagged))


def _images(flagged: FlaggedRows) -> Iterator[tuple[str, bytes]]:
    nibabel = library()
    for maps in maps_of(flagged):
        name = file_name(maps.geometry.group)
        for what, values in (("flags", maps.flags), ("scores", maps.scores)):
            image = nibabel.Nifti1Image(values, maps.affine)
            image.header.set_xyzt_units(MILLIMETRES)
            yield f"{name}_{what}.nii.gz", gzip.compress(image.to_bytes(), mtime=0)


def write_volumes(
    out: Path, flagged: FlaggedRows, volumes: Iterator[tuple[str, bytes]]
) -> None:
    """Write a directory of volumes, and `volumes.json`: their run, their model, and the classes by number."""
    run, names = flagged.run, []
    with publish(out, "volumes") as folder:
        for name, content in volumes:
            (folder / name).write_bytes(content)
            names.append(name)
        facts = {
            "run_id": run.run_id,
            "date": run.date,
            "model": run.model.id,
            "files": names,
            "classes": {
                str(number): name
                for number, name in enumerate(run.model.task.watched, start=1)
            },
        }
        (folder / "volumes.json").write_text(
            json.dumps(facts, indent=1) + "\n", encoding="utf-8"
        )


def file_name(patient: str) -> str:
    """A patient's name as the name of a file, which it was part of when the images were read.

    Raises ModelError: it would name another place.
    """
    if patient in NO_NAME or "/" in patient or "\\" in patient or "\0" in patient:
        raise ModelError("run.json names a patient by what can be no file's name")
    return patient
