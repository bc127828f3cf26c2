"""Voxel runs: how much is flagged in each patient, where it clusters, and pictures of the fullest slices.

Slices are drawn as readers of images expect them: the patient's right on the left, the front above. Only
flagged voxels' coordinates and the voxels of the chosen slices are ever held in memory.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.ndimage import label as connected

from screening.contract.contract import AXES, Contract
from screening.imaging.neighbourhood import MOST_CELLS, on_grid, steps
from screening.schemas.run import Cluster, Geometry, Slice, Volume, Voxels
from screening.scoring.rows import Rows
from screening.store.model import TISSUE, tissue_of


def ramp(anchors: list[tuple[int, int, int]], steps: int) -> np.ndarray:
    """Colours between anchors in equal steps, shape (steps, 3)."""
    at, along = np.linspace(0, len(anchors) - 1, steps), np.arange(len(anchors))
    rgb = [np.interp(at, along, [anchor[i] for anchor in anchors]) for i in range(3)]
    return np.rint(np.column_stack(rgb)).astype(np.uint8)


PATIENTS_SHOWN = 12
SLICES_EACH = 3
SLICES_SHOWN = 15
MARK = "mark"
WIDEST = 192
MOST_PLANES = 65_536
GREY = ramp([(0, 0, 0), (150, 150, 150)], 64)
# Flags are lighter than any tissue, so they stand out without colour too; a colour a watched class.
FLAGS = np.array(
    [
        (255, 225, 0),
        (86, 190, 255),
        (255, 140, 200),
        (0, 225, 150),
        (255, 165, 60),
        (195, 165, 255),
        (255,) * 3,
    ],
    dtype=np.uint8,
)
HEAT = ramp(
    [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], 64
)


def pictured(
    contract: Contract,
    watched: Sequence[str],
    rows: Rows,
    geometries: Sequence[Geometry],
) -> Voxels:
    """Volumes, clusters and slices, most flagged patient first: flags over a feature, and the scores.

    `contract`: names the coordinates; the third is the slice. `watched`: the classes that voxels are flagged
    for. `rows`: of the night. `geometries`: grids of patients, whose slices are then drawn as they lie in the
    body, and whose clusters are measured.
    """
    views = {geometry.group: View.of(geometry) for geometry in geometries}
    planes: list[set[float]] = [set(), set(), set()]
    n_rows, flagged = Counter[str](), dict[str, list[np.ndarray]]()
    for name, places, values in by_patient(rows, watched, ["score", MARK]):
        for axis, coordinates in enumerate(planes):
            if len(coordinates) < MOST_PLANES:
                coordinates.update(np.unique(places[:, axis]).tolist())
        n_rows[name] += len(places)
        hit = values[MARK] > 0
        kept = np.column_stack(
            [places[hit], values["score"][hit], values[MARK][hit]]
        ).astype(np.float32)
        flagged.setdefault(name, []).append(kept)
    step = np.array([steps(np.array(sorted(coordinates))) for coordinates in planes])
    voxels = {
        name: np.concatenate(parts).astype(float) for name, parts in flagged.items()
    }
    order = sorted(voxels, key=lambda name: (-len(voxels[name]), name))
    shown = [name for name in order if len(voxels[name])][:PATIENTS_SHOWN]
    n_slices = max(1, min(SLICES_EACH, SLICES_SHOWN // max(len(shown), 1)))
    at = {
        name: fullest_slices(_seen(views.get(name), voxels[name][:, :3]), n_slices)
        for name in shown
    }
    drawn, scale = _drawn(at, step, rows, watched, views)
    patients = []
    for name in shown:
        marks, view = voxels[name][:, 4], views.get(name)
        by_class = [
            largest_clusters(
                voxels[name][marks == number, :4], step, label=of, view=view
            )
            for number, of in enumerate(watched, start=1)
        ]
        numbers = [n_clusters for n_clusters, _ in by_class if n_clusters is not None]
        clusters = [cluster for _, largest in by_class for cluster in largest]
        patients.append(
            Volume(
                group=name if contract.group else None,
                voxels=n_rows[name],
                flagged=len(voxels[name]),
                slices=drawn[name],
                n_clusters=sum(numbers) if len(numbers) == len(by_class) else None,
                clusters=sorted(clusters, key=lambda cluster: -cluster.voxels),
                anatomical=view is not None,
            )
        )
    return Voxels(
        axes=list(contract.coordinates),
        step=step.tolist(),
        patients_flagged=sum(len(part) > 0 for part in voxels.values()),
        patients=patients,
        base=(tissue_of(contract) or "") if scale else None,
        scale=scale,
        colours={
            of: "#" + bytes(_colour(number)).hex() for number, of in enumerate(watched)
        },
    )


def _colour(number: int) -> np.ndarray:
    return FLAGS[number % len(FLAGS)]


def _seen(view: View | None, places: np.ndarray) -> np.ndarray:
    """A patient's places as they are drawn."""
    return places if view is None else view.turned(places)


def _drawn(
    at: Mapping[str, list[float]],
    step: np.ndarray,
    rows: Rows,
    watched: Sequence[str],
    views: Mapping[str, View],
) -> tuple[dict[str, list[Slice]], list[float] | None]:
    """Each patient's chosen slices, and the ends of all their scores."""
    wanted: dict[tuple[str, float], list[np.ndarray]] = {
        (name, plane): [] for name, planes in at.items() for plane in planes
    }
    for name, places, values in by_patient(rows, watched, [TISSUE, "score", MARK]):
        turned = _seen(views.get(name), places)
        # Compared as they were gathered, in single precision.
        depth = turned[:, 2].astype(np.float32).astype(float)
        for plane in at.get(name, ()):
            here = depth == plane
            wanted[name, plane].append(
                np.column_stack(
                    [turned[here, :2], *(column[here] for column in values.values())]
                )
            )
    every = np.concatenate(
        [part for parts in wanted.values() for part in parts] or [np.zeros((0, 5))]
    )
    if not len(every):
        return {name: [] for name in at}, None
    # Colours follow ranks: a few extreme scores would leave all others one colour.
    ranked = np.quantile(every[:, 3], np.arange(1, len(HEAT)) / len(HEAT))
    palette = np.array(
        [(0, 0, 0), *GREY, *(_colour(number) for number in range(len(watched)))]
    )
    drawn = {
        name: [
            _slice(
                plane,
                np.concatenate(wanted[name, plane]),
                step[:2],
                ranked,
                palette,
                views.get(name),
            )
            for plane in planes
        ]
        for name, planes in at.items()
    }
    return drawn, [float(every[:, 3].min()), float(every[:, 3].max())]


def by_patient(
    rows: Rows, watched: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[str, np.ndarray, dict[str, np.ndarray]]]:
    """Rows of one patient: its name, places of shape (n, 3), and other columns; some have several parts.

    `MARK` among the columns is the number of the class that a row is flagged for, from 1 on, 0 unflagged.
    """
    columns_read = [
        name for name in ("group", *AXES, *columns) if name in rows.schema.names
    ]
    for batch in rows.batches([*columns_read, "flagged", "class"]):
        values = {
            name: batch[name].to_numpy(zero_copy_only=False) for name in columns_read
        }
        classes = pc.index_in(batch["class"], pa.array(watched)).to_numpy(
            zero_copy_only=False
        )
        values[MARK] = np.where(
            batch["flagged"].to_numpy(zero_copy_only=False), classes + 1, 0
        )
        of = values.get("group", np.full(batch.num_rows, ""))
        names, first, place = np.unique(of, return_index=True, return_inverse=True)
        for number in np.argsort(first):
            own = place == number
            others = {
                column: values[column][own] if column in values else np.zeros(own.sum())
                for column in columns
            }
            yield (
                str(names[number]),
                np.column_stack([values[axis][own] for axis in AXES]),
                others,
            )


def _slice(
    at: float,
    part: np.ndarray,
    step: np.ndarray,
    ranked: np.ndarray,
    palette: np.ndarray,
    view: View | None,
) -> Slice:
    """Overlay and heat map of one slice; `part` has columns x, y, tissue, score, mark."""
    if view is None:
        place = on_grid(
            np.column_stack([part[:, :2], np.zeros(len(part))]), np.append(step, 1.0)
        )[:, :2]
    else:
        # The patient's right on the left, and the front above.
        place = (part[:, :2].max(axis=0) - part[:, :2]).astype(np.int64)
    # Coarser where a slice is wider than a page needs: the highest score, and any flag, of each block.
    place //= max(1, int(np.ceil((place.max() + 1) / WIDEST)))
    width, height = place.max(axis=0) + 1
    overlay, heat = np.zeros((2, height, width), dtype=np.uint8)
    here = place[:, 1], place[:, 0]
    np.maximum.at(
        heat,
        here,
        1 + np.searchsorted(ranked, part[:, 3], side="right").astype(np.uint8),
    )
    finite = part[np.isfinite(part[:, 2]), 2]
    low, high = np.quantile(finite, [0.01, 0.99]) if finite.size else (0.0, 1.0)
    np.maximum.at(
        overlay, here, 1 + _level(np.nan_to_num(part[:, 2], nan=low), low, high)
    )
    hit = part[:, 4] > 0
    np.maximum.at(
        overlay,
        (here[0][hit], here[1][hit]),
        (len(GREY) + part[hit, 4]).astype(np.uint8),
    )
    nothing = np.zeros((1, 3), dtype=np.uint8)
    return Slice(
        at=at,
        voxels=len(part),
        flagged=int(hit.sum()),
        width=int(width),
        height=int(height),
        overlay=as_base64(palette_png(overlay, palette)),
        heat=as_base64(palette_png(heat, np.concatenate([nothing, HEAT]))),
        aspect=1.0 if view is None else view.aspect,
    )


def _level(values: np.ndarray, low: float, high: float) -> np.ndarray:
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    return np.clip(np.rint(share * 63), 0, 63).astype(np.uint8)


@dataclass(frozen=True)
class View:
    """How a patient's voxel numbers become those of the canonical grid (right, front, above)."""

    to_canonical: np.ndarray  # Shape (4, 4).
    spacing: (
        np.ndarray
    )  # Shape (3,): millimetres between voxels along the canonical axes.

    @classmethod
    def of(cls, geometry: Geometry) -> View:
        """As nibabel's `as_closest_canonical` turns an image of this grid."""
        from nibabel.affines import voxel_sizes
        from nibabel.orientations import inv_ornt_aff, io_orientation

        affine = np.array(geometry.affine)
        to_file = inv_ornt_aff(io_orientation(affine), geometry.shape)
        return cls(np.rint(np.linalg.inv(to_file)), voxel_sizes(affine @ to_file))

    def turned(self, places: np.ndarray) -> np.ndarray:
        """Voxel numbers (n, 3) of the file as those of the canonical grid."""
        return np.asarray(
            places @ self.to_canonical[:3, :3].T + self.to_canonical[:3, 3]
        )

    def extent(self, places: np.ndarray) -> np.ndarray:
        """Millimetres that voxels (n, 3) reach across: right to left, front to back, top to bottom."""
        return np.asarray((np.ptp(self.turned(places), axis=0) + 1) * self.spacing)

    @property
    def aspect(self) -> float:
        """Height of a pixel of an axial slice over its width."""
        return float(self.spacing[1] / self.spacing[0])


LARGEST = 3


def largest_clusters(
    voxels: np.ndarray, step: np.ndarray, label: str = "", view: View | None = None
) -> tuple[int | None, list[Cluster]]:
    """Connected clusters of flagged voxels, faces, edges and corners counting as contact, the largest first.

    `voxels`, shape (n, 4): coordinates and scores of one patient's voxels that are flagged for one class.
    `step`, shape (3,): grid distance along each axis.
    `label`: the class. `view`: how the voxels lie in the body, where that is known.
    `n_clusters`: None where the coordinates span too many cells to be looked through.
    `clusters`: at most 3.
    """
    coordinates, scores = voxels[:, :3], voxels[:, 3]
    place = on_grid(coordinates, step)
    if not len(place):
        return 0, []
    shape = place.max(axis=0) + 1
    if np.prod(shape.astype(float)) > MOST_CELLS:
        return None, []
    grid = np.zeros(shape, dtype=bool)
    grid[tuple(place.T)] = True
    labelled, n_clusters = connected(grid, structure=np.ones((3, 3, 3), dtype=bool))
    member = labelled[tuple(place.T)]
    sizes = np.bincount(member, minlength=n_clusters + 1)[1:]
    described = []
    for number in np.argsort(-sizes, kind="stable")[:LARGEST] + 1:
        own = coordinates[member == number]
        described.append(
            Cluster(
                voxels=len(own),
                label=label,
                centre=own.mean(axis=0).tolist(),
                low=own.min(axis=0).tolist(),
                high=own.max(axis=0).tolist(),
                millimetres=None if view is None else view.extent(own).tolist(),
                top_score=float(scores[member == number].max()),
            )
        )
    return int(n_clusters), described


def fullest_slices(coordinates: np.ndarray, most: int) -> list[float]:
    """The third coordinates of the slices with most flagged voxels, in the order of the axis."""
    planes, counts = np.unique(coordinates[:, 2], return_counts=True)
    return sorted(planes[np.argsort(-counts, kind="stable")[:most]].tolist())


# An imaging library would be one more dependency to keep safe: a palette of a few colours takes a screenful.
def palette_png(pixels: np.ndarray, palette: np.ndarray) -> bytes:
    """Encode a picture of palette colours as PNG (8 bit, colour type 3).

    `pixels`, shape (height, width): positions in the palette; position 0 is drawn transparent.
    `palette`, shape (n_colours, 3): at most 256 colours, red, green, blue.
    The same picture gives the same bytes.
    """
    if pixels.ndim != 2 or pixels.dtype != np.uint8 or not pixels.size:
        raise ValueError(
            f"pixels must be uint8 of shape (height, width), got {pixels.dtype} {pixels.shape}"
        )
    if (
        palette.ndim != 2
        or palette.shape[1] != 3
        or not int(pixels.max()) < len(palette) <= 256
    ):
        raise ValueError(f"palette {palette.shape} does not hold colour {pixels.max()}")
    height, width = pixels.shape
    # Every line begins with its filter, 0: none.
    lines = np.zeros((height, width + 1), dtype=np.uint8)
    lines[:, 1:] = pixels
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def as_base64(picture: bytes) -> str:
    """A picture in base64, as run.json keeps it."""
    return base64.b64encode(picture).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )
