"""Which images of which patients lie in a folder: a folder a patient, or a BIDS dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from screening.errors import UsageError
from screening.sources.nifti import SUFFIXES

MASK = "mask"
DATASET = "dataset_description.json"
# What names patient, session and space is no part of a channel's name.
WHOSE = ("sub", "ses", "space")
Files = list[tuple[str, Path]]
"""Columns and the files that hold them."""


def holds_images(folder: Path) -> bool:
    """Whether a folder is one of images: a BIDS dataset, or folders with NIfTI files in them."""
    if not folder.is_dir():
        return False
    return (folder / DATASET).is_file() or next(folder.glob("*/*.nii*"), None) is not None


def patients_in(folder: Path) -> dict[str, Files]:
    """The images of every patient, in the order of the patients' names.

    Raises
    ------
    UsageError
        There are none.
    """
    found = _of_bids(folder) if (folder / DATASET).is_file() else _of_folders(folder)
    if not found:
        raise UsageError(f"no NIfTI files of patients in {folder}")
    return found


def _of_folders(folder: Path) -> dict[str, Files]:
    """`PATIENT/CHANNEL.nii.gz`: every file is a column by its name."""
    patients = sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = {each.name: [(_stem(path), path) for path in _images(each)] for each in patients}
    return {name: files for name, files in found.items() if files}


def _of_bids(folder: Path) -> dict[str, Files]:
    """`sub-01/anat/` for channels; `derivatives/*/sub-01/anat/` for masks and label maps.

    Raises
    ------
    UsageError
        A subject has several sessions: their voxels lie in the same places.
    """
    found: dict[str, Files] = {}
    for subject in sorted(folder.glob("sub-*")):
        files = [(_channel(path), path) for path in _anatomical(subject)]
        for derived in sorted(folder.glob(f"derivatives/*/{subject.name}")):
            files += [(name, path) for path in _anatomical(derived) if (name := _map(path))]
        if files:
            found[subject.name] = files
    sessions = [{_entities(path).get("ses") for _, path in files} - {None} for files in found.values()]
    several = sum(len(each) > 1 for each in sessions)
    if several:
        raise UsageError(
            f"{several} subjects have several sessions; give a dataset with the one that is to be read"
        )
    return found


def _anatomical(subject: Path) -> Iterator[Path]:
    for place in ("anat", "ses-*/anat"):
        for folder in sorted(subject.glob(place)):
            yield from _images(folder)


def _images(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".")
    )


def _stem(path: Path) -> str:
    name = path.name
    return name[: -len(next(each for each in SUFFIXES[::-1] if name.lower().endswith(each)))]


def _entities(path: Path) -> dict[str, str]:
    """`sub-01_ce-gad_T1w` as {"sub": "01", "ce": "gad"}."""
    pairs = (part.partition("-") for part in _stem(path).split("_")[:-1])
    return {key: value for key, _, value in pairs}


def _suffix(path: Path) -> str:
    return _stem(path).rpartition("_")[2]


def _channel(path: Path) -> str:
    """`sub-01_ses-1_ce-gad_T1w` is the channel `ce-gad_T1w`."""
    kept = [f"{key}-{value}" for key, value in _entities(path).items() if key not in WHOSE]
    return "_".join([*kept, _suffix(path)])


def _map(path: Path) -> str | None:
    """`..._label-lesion_mask` is column `lesion`, `..._desc-brain_mask` the mask; None for others."""
    suffix, label = _suffix(path), _entities(path).get("label", "brain")
    if suffix == "mask":
        return MASK if label == "brain" else label
    return suffix if suffix == "dseg" else None
