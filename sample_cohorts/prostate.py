"""The synthetic prostate: patients on small voxel grids, nine tissue classes in
connected regions.

A region's signal is its class mean, a patient's own departure from it, a smooth texture
and voxel noise; T2W and ADC then pass through a gain and an offset of the scanner and
patient, so that only values taken within a patient compare. C-grade is a computed grade
on a fixed scale and is left alone.
"""

import numpy as np
import pandas as pd
from scipy import ndimage

OTHER = "OtherProstate"
# Class: mean of (T2W, ADC, C-grade); the first two in units of healthy tissue's spread,
# the third in grades.
MEANS = {
    OTHER: (0.0, 0.0, 0.6),
    "Atrophy": (-1.9, -0.3, 1.1),
    "PIN": (-0.9, -1.5, 1.7),
    "EPE": (1.4, -1.6, 2.4),
    "G3": (-0.7, -2.6, 2.9),
    "G3+4": (-1.6, -3.5, 3.4),
    "G4+3": (-2.2, -4.1, 3.9),
    "G4": (-3.2, -4.3, 4.2),
    "G4+5": (-3.4, -5.4, 5.0),
}
CLASSES = list(MEANS)
# Mean size of a region in voxels, in the order regions are grown: a tumour grows beside
# the one before it.
SIZES = {
    "G3": 34,
    "G3+4": 30,
    "G4+3": 13,
    "G4": 24,
    "G4+5": 10,
    "EPE": 16,
    "PIN": 24,
    "Atrophy": 34,
}
# How many of the 21 past patients have each class; the rest of a prostate is
# OtherProstate.
PAST_PATIENTS = {
    "G3": 15,
    "G3+4": 14,
    "G4+3": 8,
    "G4": 11,
    "G4+5": 3,
    "EPE": 10,
    "PIN": 15,
    "Atrophy": 17,
}
VOXEL_NOISE, TEXTURE, PATIENT_NOISE = 0.45, 0.35, 0.18
GRADE_SHARE = 0.55
N_PAST, NEW_PATIENTS = (
    21,
    [
        ["G3", "G3+4", "G4+3", "PIN", "Atrophy"],
        ["G3", "EPE", "PIN", "Atrophy"],
        ["G3+4", "G4+3", "G4", "Atrophy"],
    ],
)


def cohorts(rng):
    """Return the voxels of the 21 past patients and of the three new ones, labelled."""
    past = [[] for _ in range(N_PAST)]
    for name, count in PAST_PATIENTS.items():
        # Mixed patterns occur with their pure neighbours, so higher grades go to the
        # same patients.
        weight = np.array([1.0 + 1.5 * ("G" in name and len(has) > 0) for has in past])
        for patient in rng.choice(
            N_PAST, size=count, replace=False, p=weight / weight.sum()
        ):
            past[patient].append(name)
    numbers = rng.permutation(np.arange(1, 100))
    voxels = [
        _patient(rng, f"P{n:03d}", has)
        for n, has in zip(numbers, past + NEW_PATIENTS, strict=False)
    ]
    return (
        pd.concat(voxels[:N_PAST], ignore_index=True),
        pd.concat(voxels[N_PAST:], ignore_index=True),
    )


def _patient(rng, name, regions):
    tissue = _tissue(rng, regions)
    z, y, x = np.nonzero(tissue >= 0)  # rows ordered z, y, x, as a scanner writes them
    label = tissue[z, y, x]
    signal = np.array(list(MEANS.values()))[label]
    spread = np.array([1.0, 1.0, GRADE_SHARE])
    departure = PATIENT_NOISE * rng.normal(size=(len(CLASSES), 3))
    texture = [
        ndimage.gaussian_filter(rng.normal(size=tissue.shape), 1.0)[z, y, x]
        for _ in range(3)
    ]
    texture = np.stack([t / t.std() for t in texture], axis=1)
    signal = signal + spread * (
        departure[label]
        + TEXTURE * texture
        + VOXEL_NOISE * rng.normal(size=signal.shape)
    )
    t2w = (420 + 90 * rng.normal()) + 75 * np.exp(0.25 * rng.normal()) * signal[:, 0]
    adc = (1550 + 110 * rng.normal()) + 150 * np.exp(0.12 * rng.normal()) * signal[:, 1]
    return pd.DataFrame(
        {
            "patient": name,
            "x": x.astype(np.int16),
            "y": y.astype(np.int16),
            "z": z.astype(np.int16),
            "t2w": np.round(np.clip(t2w, 1, None), 1),
            "adc": np.round(np.clip(adc, 100, None), 1),
            "c_grade": np.round(np.clip(signal[:, 2], 0, 6), 2),
            "gleason": np.array(CLASSES, dtype=object)[label],
        }
    )


def _tissue(rng, regions):
    """Return a grid of class numbers, -1 outside an ellipsoid; every region is one
    face-connected piece.
    """
    axes = np.array([3.3, 4.1, 5.0]) * (1 + 0.06 * rng.normal(size=3))
    centre = np.ceil(axes)
    grid = np.indices((2 * centre + 1).astype(int)).transpose(1, 2, 3, 0)
    inside = (np.square((grid - centre) / axes)).sum(axis=-1) <= 1
    tissue = np.where(inside, 0, -1)
    last = None
    for name in (n for n in SIZES if n in regions):
        free = tissue == 0
        near = (
            ndimage.binary_dilation(tissue == last) & free
            if last is not None and "G" in name
            else free
        )
        # A seed wants room: deep in the largest free piece, or beside the tumour before
        # it.
        room = ndimage.gaussian_filter(free.astype(float), 1.2) * (
            near if near.any() else free
        )
        size = max(5, round(SIZES[name] * np.exp(0.25 * rng.normal())))
        seed = rng.choice(room.size, p=(room**4 / (room**4).sum()).ravel())
        grown = _grow(rng, free, np.unravel_index(seed, room.shape), size)
        tissue[grown] = CLASSES.index(name)
        last = CLASSES.index(name)
        _fill_holes(tissue)
    return tissue


def _grow(rng, free, seed, size):
    """Grow a compact region from seed through free voxels, one voxel a time."""
    grown = np.zeros(free.shape, dtype=bool)
    grown[seed] = True
    faces = ndimage.generate_binary_structure(3, 1).astype(float)
    for _ in range(size - 1):
        neighbours = ndimage.convolve(grown.astype(float), faces, mode="constant") * (
            free & ~grown
        )
        if not neighbours.any():
            break
        chance = neighbours**3
        grown.ravel()[rng.choice(chance.size, p=(chance / chance.sum()).ravel())] = True
    return grown


def _fill_holes(tissue):
    """Give pockets of other tissue that a region cut off to the class that surrounds
    them.
    """
    pieces, n_pieces = ndimage.label(tissue == 0)
    sizes = np.bincount(pieces.ravel())[1:]
    for piece in range(1, n_pieces + 1):
        if sizes[piece - 1] == sizes.max():
            continue
        pocket = pieces == piece
        around = tissue[ndimage.binary_dilation(pocket) & ~pocket]
        tissue[pocket] = np.bincount(around[around > 0]).argmax()
