"""Small brains with lesions: as folders of NIfTI files, as a BIDS dataset, and as the
table of the voxels.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng

nibabel = pytest.importorskip("nibabel")

SHAPE = (9, 8, 7)
# Voxels of 2 x 2 x 3 mm, left first: x runs against RAS, as scanners often write it.
AFFINE = np.array(
    [
        [-2.0, 0, 0, 10],
        [0, 2.0, 0, -8],
        [0, 0, 3.0, 5],
        [0, 0, 0, 1],
    ]
)


def brain(
    seed: int,
    shape: tuple[int, int, int] = SHAPE,
    n_lesions: int = 2,
    classes: int = 1,
) -> dict[str, np.ndarray]:
    """Channels, mask and lesions of one patient; a lesion is a block of 2 x 2 x 2,
    brighter by its class.
    """
    rng = default_rng(seed)
    mask = np.zeros(shape, dtype=np.uint8)
    mask[1:-1, 1:-1, 1:-1] = 1
    lesion = np.zeros(shape, dtype=np.uint8)
    for number in range(n_lesions):
        x, y, z = (int(rng.integers(1, side - 2)) for side in shape)
        lesion[x : x + 2, y : y + 2, z : z + 2] = 1 + number % classes
    lesion *= mask
    noise = rng.normal(100, 10, shape)
    flair = noise + 40 * lesion + rng.normal(0, 5)
    t1 = rng.normal(60, 8, shape) - 10 * lesion
    return {
        "flair": flair.astype(np.float32),
        "t1": t1.astype(np.float32),
        "mask": mask,
        "lesion": lesion,
    }


def brains(n: int, seed: int = 0, **kept: object) -> dict[str, dict[str, np.ndarray]]:
    patients = {}
    for number in range(n):
        volumes = brain(100 * seed + number, **kept)  # type: ignore[arg-type]
        patients[f"P{seed}{number}"] = volumes
    return patients


def save(path: Path, values: np.ndarray, affine: np.ndarray | None = AFFINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, affine), path)
    return path


def folder_of(
    patients: dict[str, dict[str, np.ndarray]],
    folder: Path,
    affine: np.ndarray = AFFINE,
) -> Path:
    """A folder a patient, a file a channel."""
    for name, volumes in patients.items():
        for column, values in volumes.items():
            save(folder / name / f"{column}.nii.gz", values, affine)
    return folder


def bids_of(patients: dict[str, dict[str, np.ndarray]], folder: Path) -> Path:
    """A BIDS dataset with the masks and label maps among its derivatives."""
    folder.mkdir(parents=True)
    (folder / "dataset_description.json").write_text(
        json.dumps({"Name": "x", "BIDSVersion": "1.9.0"})
    )
    for name, volumes in patients.items():
        for raw, suffix in (("flair", "FLAIR"), ("t1", "T1w")):
            save(
                folder / f"sub-{name}" / "anat" / f"sub-{name}_{suffix}.nii.gz",
                volumes[raw],
            )
        derived = folder / "derivatives" / "lesions" / f"sub-{name}" / "anat"
        save(derived / f"sub-{name}_desc-brain_mask.nii.gz", volumes["mask"])
        save(derived / f"sub-{name}_label-lesion_mask.nii.gz", volumes["lesion"])
    return folder


def nnunet_of(patients: dict[str, dict[str, np.ndarray]], folder: Path) -> Path:
    """An nnU-Net dataset of cases to train on, and its first case to score."""
    names = {"channel_names": {"0": "flair", "1": "t1"}}
    for name, volumes in patients.items():
        # There is no mask: what lies outside is 0.
        inside = volumes["mask"] != 0
        for number, channel in enumerate(names["channel_names"].values()):
            image = f"{name}_{number:04d}.nii.gz"
            save(folder / "imagesTr" / image, volumes[channel] * inside)
        save(folder / "labelsTr" / f"{name}.nii.gz", volumes["lesion"])
    (folder / "dataset.json").write_text(json.dumps(names))
    return folder


def table_of(patients: dict[str, dict[str, np.ndarray]]) -> pd.DataFrame:
    """The voxels of the masks, x running fastest."""
    tables = []
    for name, volumes in patients.items():
        z, y, x = np.nonzero(volumes["mask"].T)
        voxels = pd.DataFrame(
            {
                "patient_id": name,
                "x": x,
                "y": y,
                "z": z,
            }
        )
        for key, values in volumes.items():
            if key != "mask":
                voxels[key] = values[x, y, z]
        tables.append(voxels)
    return pd.concat(tables, ignore_index=True)
