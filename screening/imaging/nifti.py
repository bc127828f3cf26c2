"""Export of a run of images as NIfTI: flags and scores on the grid of the images."""

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
from screening.imaging.images import nibabel_module
from screening.imaging.voxels import MARK, by_patient
from screening.schemas.run import Geometry
from screening.scoring.exporting import FlaggedRows
from screening.scoring.rows import Rows
from screening.store.publishing import publish

_MILLIMETRES = "mm"
# Patients' names that would name another folder.
_NOT_A_NAME = ("", ".", "..")


@dataclass(frozen=True)
class PatientMaps:
    """Flags and scores of one patient's voxels.

    Parameters
    ----------
    geometry : Geometry
    flags : uint8 ndarray of the grid's shape
        Number of the watched class that a voxel is flagged for, from 1; 0 unflagged.
    scores : float32 ndarray of the grid's shape
        NaN where no voxel was scored.
    """

    geometry: Geometry
    flags: np.ndarray
    scores: np.ndarray

    @classmethod
    def empty(cls, geometry: Geometry) -> PatientMaps:
        """Return maps of a grid without a scored voxel."""
        return cls(
            geometry,
            np.zeros(geometry.shape, np.uint8),
            np.full(geometry.shape, np.nan, np.float32),
        )

    @property
    def affine(self) -> np.ndarray:
        """Affine from voxel numbers to millimetres, RAS+, (4, 4)."""
        return np.array(self.geometry.affine)

    def add(self, positions: np.ndarray, marks: np.ndarray, scores: np.ndarray) -> None:
        """Set the flags and scores of some voxels.

        Parameters
        ----------
        positions : ndarray of shape (n, 3)
            Voxel numbers. ModelError if one lies outside the grid.
        marks, scores : ndarray of shape (n,)
        """
        index = np.rint(positions).astype(np.int64)
        is_outside = (index < 0) | (index >= self.flags.shape)
        if is_outside.any():
            raise ModelError(
                "a voxel of scores.parquet lies outside the grid that run.json states"
            )
        at = tuple(index.T)
        self.flags[at] = marks
        self.scores[at] = scores


def maps_of(flagged: FlaggedRows) -> Iterator[PatientMaps]:
    """Yield the maps of each patient of a run, one at a time.

    Raises
    ------
    UsageError
        If the run was scored from a table, or from images that state no position in
        space: an affine is never invented.
    ModelError
        If a voxel lies outside its patient's grid.
    """
    grids = {geometry.group: geometry for geometry in flagged.run.geometries}
    if not grids:
        raise UsageError(
            "this run has no reference geometry: it was scored from a table, or from "
            "images without one; score the folder of images"
        )
    rows = Rows(flagged.directory / "scores.parquet")
    watched = flagged.run.model.task.watched
    parts_by_patient = groupby(
        by_patient(rows, watched, ["score", MARK]), key=itemgetter(0)
    )
    for name, parts in parts_by_patient:
        if name not in grids:
            raise UsageError(
                f"{len({*grids})} patients have a reference geometry and others have "
                "none; score only images that have a reference geometry"
            )
        maps = PatientMaps.empty(grids[name])
        for _, positions, values in parts:
            maps.add(positions, values[MARK], values["score"])
        yield maps


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """Write `PATIENT_flags.nii.gz` and `PATIENT_scores.nii.gz` of all patients.

    `out` is the directory. Errors as for ``maps_of``.
    """
    write_volumes(out, flagged, _images(flagged))


def _images(flagged: FlaggedRows) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file."""
    nibabel = nibabel_module()
    for maps in maps_of(flagged):
        name = file_name(maps.geometry.group)
        for kind, values in (("flags", maps.flags), ("scores", maps.scores)):
            image = nibabel.Nifti1Image(values, maps.affine)
            image.header.set_xyzt_units(_MILLIMETRES)
            yield f"{name}_{kind}.nii.gz", gzip.compress(image.to_bytes(), mtime=0)


def write_volumes(
    out: Path, flagged: FlaggedRows, volumes: Iterator[tuple[str, bytes]]
) -> None:
    """Write a directory of volumes, with `volumes.json` about run, model and classes.

    Parameters
    ----------
    out : Path
        Directory.
    flagged : FlaggedRows
    volumes : iterator of (str, bytes)
        Name and content of each file.
    """
    run = flagged.run
    names = []
    with publish(out, "volumes") as folder:
        for name, content in volumes:
            (folder / name).write_bytes(content)
            names.append(name)
        classes = {
            str(number): watched
            for number, watched in enumerate(run.model.task.watched, start=1)
        }
        facts = {
            "run_id": run.run_id,
            "date": run.date,
            "model": run.model.id,
            "files": names,
            "classes": classes,
        }
        text = json.dumps(facts, indent=1) + "\n"
        (folder / "volumes.json").write_text(text, encoding="utf-8")


def file_name(patient: str) -> str:
    """Return a patient's name if it can be part of a file name, as it was when read.

    ModelError if it would name another folder.
    """
    if patient in _NOT_A_NAME or "/" in patient or "\\" in patient or "\0" in patient:
        raise ModelError(
            "run.json contains a patient's id that cannot be the name of a file"
        )
    return patient
