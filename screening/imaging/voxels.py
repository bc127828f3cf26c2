"""Runs on voxels: flagged volume of each patient, clusters, and pictures of slices.

Slices are drawn as readers of images expect them: the patient's right on the left, the
front above. Only the coordinates of flagged voxels and the voxels of the chosen slices
are kept in memory.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.ndimage import label as connected

from screening.contract.contract import AXES, Contract
from screening.imaging.neighbourhood import MAX_CELLS, grid_index, grid_step
from screening.schemas.run import Geometry, Slice, Volume, VoxelCluster, Voxels
from screening.scoring.rows import Rows
from screening.store.model import TISSUE, tissue_of


def ramp(anchors: list[tuple[int, int, int]], n_colours: int) -> np.ndarray:
    """Return colours interpolated between anchors, uint8 of shape (n_colours, 3)."""
    positions = np.linspace(0, len(anchors) - 1, n_colours)
    anchor_positions = np.arange(len(anchors))
    channels = []
    for channel in range(3):
        levels = [anchor[channel] for anchor in anchors]
        channels.append(np.interp(positions, anchor_positions, levels))
    return np.rint(np.column_stack(channels)).astype(np.uint8)


MARK = "mark"
"""Column of ``by_patient``: number of the class that a voxel is flagged for, or 0."""

# Patients whose slices are drawn.
_MAX_PATIENTS = 12
# Slices per patient.
_MAX_SLICES_PER_PATIENT = 3
# Slices of all patients.
_MAX_SLICES = 15
# Clusters per patient and class.
_MAX_CLUSTERS = 3
# Pixels along a side of a picture.
_MAX_PIXELS = 192
# Distinct coordinates along an axis that are kept to find its step.
_MAX_PLANES = 65_536
# Levels of the grey and heat colours.
_LEVELS = 64
_GREY = ramp([(0, 0, 0), (150, 150, 150)], _LEVELS)
# A colour per watched class, lighter than any tissue so that flags stand out without
# colour too.
_FLAG_COLOURS = np.array(
    [
        (255, 225, 0),
        (86, 190, 255),
        (255, 140, 200),
        (0, 225, 150),
        (255, 165, 60),
        (195, 165, 255),
        (255, 255, 255),
    ],
    dtype=np.uint8,
)
_HEAT = ramp(
    [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)],
    _LEVELS,
)


def pictured(
    contract: Contract,
    watched: Sequence[str],
    rows: Rows,
    geometries: Sequence[Geometry],
) -> Voxels:
    """Return volumes, clusters and slices of a night, most flagged patient first.

    A slice has two pictures: flags over a feature, and the scores.

    Parameters
    ----------
    contract : Contract
        Names the coordinates; the third is the slice.
    watched : sequence of str
        Classes that voxels are flagged for.
    rows : Rows
        Of the night.
    geometries : sequence of Geometry
        Grids of patients: their slices are drawn as they lie in the body, and their
        clusters are measured in millimetres.
    """
    views = {geometry.group: View.of(geometry) for geometry in geometries}
    flagged, step = _flagged_voxels(rows, watched)
    order = sorted(flagged, key=lambda name: (-flagged[name].n_flagged, name))
    with_flags = [name for name in order if flagged[name].n_flagged]
    drawn = with_flags[:_MAX_PATIENTS]
    n_slices = min(_MAX_SLICES_PER_PATIENT, _MAX_SLICES // max(len(drawn), 1))
    planes = {}
    for name in drawn:
        positions = _as_drawn(views.get(name), flagged[name].voxels[:, :3])
        planes[name] = fullest_slices(positions, max(1, n_slices))
    slices, scale = _draw_slices(planes, step, rows, watched, views)
    patients = []
    for name in drawn:
        group = name if contract.group else None
        patients.append(
            _volume(
                group,
                flagged[name],
                slices[name],
                step,
                watched,
                views.get(name),
            )
        )
    colours = {}
    for number, class_name in enumerate(watched):
        colours[class_name] = "#" + bytes(_flag_colour(number)).hex()
    base = None
    if scale:
        base = tissue_of(contract) or ""
    return Voxels(
        axes=list(contract.coordinates),
        step=step.tolist(),
        patients_flagged=len(with_flags),
        patients=patients,
        base=base,
        scale=scale,
        colours=colours,
    )


@dataclass
class _PatientVoxels:
    """Voxels of one patient.

    Parameters
    ----------
    n_rows : int
        Number of all voxels.
    parts : list of ndarray of shape (n, 5)
        Coordinates, score and mark of flagged voxels.
    """

    n_rows: int = 0
    parts: list[np.ndarray] = field(default_factory=list)

    @property
    def voxels(self) -> np.ndarray:
        """Coordinates, score and mark of all flagged voxels, (n_flagged, 5)."""
        return np.concatenate(self.parts).astype(float)

    @property
    def n_flagged(self) -> int:
        """Number of flagged voxels."""
        return sum(map(len, self.parts))


def _flagged_voxels(
    rows: Rows, watched: Sequence[str]
) -> tuple[dict[str, _PatientVoxels], np.ndarray]:
    """Return the flagged voxels of each patient, and the grid step of each axis."""
    coordinates: list[set[float]] = [set(), set(), set()]
    patients: dict[str, _PatientVoxels] = {}
    for name, positions, values in by_patient(rows, watched, ["score", MARK]):
        for axis, distinct in enumerate(coordinates):
            if len(distinct) < _MAX_PLANES:
                distinct.update(np.unique(positions[:, axis]).tolist())
        voxels = np.column_stack([positions, values["score"], values[MARK]])
        flagged = voxels[values[MARK] > 0]
        patient = patients.setdefault(name, _PatientVoxels())
        patient.n_rows += len(positions)
        patient.parts.append(flagged.astype(np.float32))
    steps = [grid_step(np.array(sorted(distinct))) for distinct in coordinates]
    return patients, np.array(steps)


def _volume(
    group: str | None,
    patient: _PatientVoxels,
    slices: list[Slice],
    step: np.ndarray,
    watched: Sequence[str],
    view: View | None,
) -> Volume:
    """Return one patient's flagged volume, with the largest clusters of all classes."""
    voxels = patient.voxels
    clusters: list[VoxelCluster] = []
    n_clusters: int | None = 0
    for number, class_name in enumerate(watched, start=1):
        of_class = voxels[voxels[:, 4] == number, :4]
        n_of_class, largest = largest_clusters(
            of_class, step, label=class_name, view=view
        )
        clusters += largest
        if n_of_class is None or n_clusters is None:
            n_clusters = None
        else:
            n_clusters += n_of_class
    return Volume(
        group=group,
        voxels=patient.n_rows,
        flagged=len(voxels),
        slices=slices,
        n_clusters=n_clusters,
        clusters=sorted(clusters, key=lambda cluster: -cluster.voxels),
        anatomical=view is not None,
    )


def _flag_colour(number: int) -> np.ndarray:
    return _FLAG_COLOURS[number % len(_FLAG_COLOURS)]


def _as_drawn(view: View | None, positions: np.ndarray) -> np.ndarray:
    """Return a patient's positions (n, 3) as they are drawn."""
    return positions if view is None else view.turned(positions)


def _draw_slices(
    planes: Mapping[str, list[float]],
    step: np.ndarray,
    rows: Rows,
    watched: Sequence[str],
    views: Mapping[str, View],
) -> tuple[dict[str, list[Slice]], list[float] | None]:
    """Draw each patient's chosen slices; also return the range of all their scores.

    Parameters
    ----------
    planes : dict of str to list of float
        Third coordinates of each patient's slices.
    step : ndarray of shape (3,)
    rows, watched
        As for ``pictured``.
    views : dict of str to View
        By patient.
    """
    voxels_of = _voxels_of_slices(planes, rows, watched, views)
    scores = np.concatenate([[], *[voxels[:, 3] for voxels in voxels_of.values()]])
    if not len(scores):
        return {name: [] for name in planes}, None
    # Colours follow ranks: with a few extreme scores all others would have one colour.
    ranks = np.arange(1, len(_HEAT)) / len(_HEAT)
    heat_edges = np.quantile(scores, ranks)
    flag_colours = [_flag_colour(number) for number in range(len(watched))]
    palette = np.array([(0, 0, 0), *_GREY, *flag_colours])
    slices: dict[str, list[Slice]] = {}
    for name, patient_planes in planes.items():
        slices[name] = [
            _draw_slice(
                plane,
                voxels_of[name, plane],
                step[:2],
                heat_edges,
                palette,
                views.get(name),
            )
            for plane in patient_planes
        ]
    return slices, [float(scores.min()), float(scores.max())]


def _voxels_of_slices(
    planes: Mapping[str, list[float]],
    rows: Rows,
    watched: Sequence[str],
    views: Mapping[str, View],
) -> dict[tuple[str, float], np.ndarray]:
    """Return x, y, tissue, score and mark of the voxels of each (patient, plane)."""
    parts: dict[tuple[str, float], list[np.ndarray]] = {}
    for name, patient_planes in planes.items():
        for plane in patient_planes:
            parts[name, plane] = []
    for name, positions, values in by_patient(rows, watched, [TISSUE, "score", MARK]):
        drawn = _as_drawn(views.get(name), positions)
        # Rounded to single precision, as the planes were chosen.
        depth = drawn[:, 2].astype(np.float32).astype(float)
        voxels = np.column_stack([drawn[:, :2], *values.values()])
        for plane in planes.get(name, ()):
            in_plane = depth == plane
            parts[name, plane].append(voxels[in_plane])
    return {key: np.concatenate(blocks) for key, blocks in parts.items()}


def by_patient(
    rows: Rows, watched: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[str, np.ndarray, dict[str, np.ndarray]]]:
    """Yield the rows of one patient at a time; some patients have several parts.

    Parameters
    ----------
    rows : Rows
    watched : sequence of str
    columns : sequence of str
        Columns to read, and `MARK`: the number of the class that a row is flagged for,
        from 1, or 0. Missing columns are 0.

    Yields
    ------
    name : str
    positions : ndarray of shape (n, 3)
    values : dict of str to ndarray of shape (n,)
    """
    candidates = ("group", *AXES, *columns)
    stored = [name for name in candidates if name in rows.schema.names]
    for batch in rows.batches([*stored, "flagged", "class"]):
        values = {name: _to_numpy(batch[name]) for name in stored}
        class_number = _to_numpy(pc.index_in(batch["class"], pa.array(watched)))
        is_flagged = _to_numpy(batch["flagged"])
        values[MARK] = np.where(is_flagged, class_number + 1, 0)
        group = values.get("group", np.full(batch.num_rows, ""))
        names, first, number_of_row = np.unique(
            group, return_index=True, return_inverse=True
        )
        for number in np.argsort(first):
            is_patient = number_of_row == number
            patient_values = {}
            for column in columns:
                if column in values:
                    patient_values[column] = values[column][is_patient]
                else:
                    patient_values[column] = np.zeros(is_patient.sum())
            positions = np.column_stack([values[axis][is_patient] for axis in AXES])
            yield str(names[number]), positions, patient_values


def _to_numpy(column: pa.Array) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False)


def _draw_slice(
    plane: float,
    voxels: np.ndarray,
    step: np.ndarray,
    heat_edges: np.ndarray,
    palette: np.ndarray,
    view: View | None,
) -> Slice:
    """Draw the overlay and heat map of one slice.

    Parameters
    ----------
    plane : float
        Third coordinate of the slice.
    voxels : ndarray of shape (n, 5)
        x, y, tissue, score and mark.
    step : ndarray of shape (2,)
        Grid step along x and y.
    heat_edges : ndarray
        Scores between the colours of the heat map.
    palette : ndarray of shape (n_colours, 3)
        Of the overlay: transparent, grey levels, a colour per watched class.
    view : View or None
    """
    in_plane = voxels[:, :2]
    if view is None:
        flat = np.column_stack([in_plane, np.zeros(len(voxels))])
        pixel = grid_index(flat, np.append(step, 1.0))[:, :2]
    else:
        # The patient's right on the left, and the front above.
        from_right = in_plane.max(axis=0) - in_plane
        pixel = from_right.astype(np.int64)
    # A large slice is drawn in blocks: the highest score, and any flag, of each block.
    n_pixels = int(pixel.max()) + 1
    pixel //= math.ceil(n_pixels / _MAX_PIXELS)
    width, height = pixel.max(axis=0) + 1
    overlay, heat = np.zeros((2, height, width), dtype=np.uint8)
    y = pixel[:, 1]
    x = pixel[:, 0]
    heat_level = np.searchsorted(heat_edges, voxels[:, 3], side="right")
    grey_level = _grey_level(voxels[:, 2])
    np.maximum.at(heat, (y, x), 1 + heat_level.astype(np.uint8))
    np.maximum.at(overlay, (y, x), 1 + grey_level)
    hit = voxels[:, 4] > 0
    flag_level = (len(_GREY) + voxels[hit, 4]).astype(np.uint8)
    np.maximum.at(overlay, (y[hit], x[hit]), flag_level)
    transparent = np.zeros((1, 3), dtype=np.uint8)
    heat_palette = np.concatenate([transparent, _HEAT])
    aspect = 1.0 if view is None else view.aspect
    return Slice(
        at=plane,
        voxels=len(voxels),
        flagged=int(hit.sum()),
        width=int(width),
        height=int(height),
        overlay=as_base64(palette_png(overlay, palette)),
        heat=as_base64(palette_png(heat, heat_palette)),
        aspect=aspect,
    )


def _grey_level(tissue: np.ndarray) -> np.ndarray:
    """Return the grey level of each voxel, 0 to 63; extreme values are clipped."""
    finite = tissue[np.isfinite(tissue)]
    low = 0.0
    high = 1.0
    if finite.size:
        low, high = np.quantile(finite, [0.01, 0.99])
    values = np.nan_to_num(tissue, nan=low)
    share = np.full(len(values), 0.5)
    if high > low:
        share = (values - low) / (high - low)
    largest = _LEVELS - 1
    level = np.clip(np.rint(share * largest), 0, largest)
    return level.astype(np.uint8)


@dataclass(frozen=True)
class View:
    """Transform from a patient's voxel numbers to the canonical grid.

    Its axes are right, front, above.

    Parameters
    ----------
    to_canonical : ndarray of shape (4, 4)
    spacing : ndarray of shape (3,)
        Millimetres between voxels along the canonical axes.
    """

    to_canonical: np.ndarray
    spacing: np.ndarray

    @classmethod
    def of(cls, geometry: Geometry) -> View:
        """Return the transform that nibabel's `as_closest_canonical` uses."""
        from nibabel.affines import voxel_sizes
        from nibabel.orientations import inv_ornt_aff, io_orientation

        affine = np.array(geometry.affine)
        to_file = inv_ornt_aff(io_orientation(affine), geometry.shape)
        from_file = np.rint(np.linalg.inv(to_file))
        return cls(from_file, voxel_sizes(affine @ to_file))

    def turned(self, positions: np.ndarray) -> np.ndarray:
        """Return voxel numbers of the file as those of the canonical grid, (n, 3)."""
        rotation = self.to_canonical[:3, :3]
        return np.asarray(positions @ rotation.T + self.to_canonical[:3, 3])

    def extent(self, positions: np.ndarray) -> np.ndarray:
        """Return the size of a set of voxels (n, 3) in millimetres, shape (3,).

        From right to left, front to back, top to bottom.
        """
        n_voxels = np.ptp(self.turned(positions), axis=0) + 1
        return np.asarray(n_voxels * self.spacing)

    @property
    def aspect(self) -> float:
        """Height of a pixel of an axial slice divided by its width."""
        return float(self.spacing[1] / self.spacing[0])


def largest_clusters(
    voxels: np.ndarray, step: np.ndarray, label: str = "", view: View | None = None
) -> tuple[int | None, list[VoxelCluster]]:
    """Return the number of connected clusters of flagged voxels, and the largest.

    Voxels that share a face, an edge or a corner are connected.

    Parameters
    ----------
    voxels : ndarray of shape (n, 4)
        Coordinates and scores of one patient's voxels that are flagged for one class.
    step : ndarray of shape (3,)
        Grid step along each axis.
    label : str
        The class.
    view : View, optional
        How the voxels lie in the body, if it is known.

    Returns
    -------
    n_clusters : int or None
        None if the coordinates span too many cells to be searched.
    clusters : list of VoxelCluster
        Largest first, 3 at most.
    """
    coordinates = voxels[:, :3]
    index = grid_index(coordinates, step)
    if not len(index):
        return 0, []
    shape = index.max(axis=0) + 1
    if np.prod(shape.astype(float)) > MAX_CELLS:
        return None, []
    grid = np.zeros(shape, dtype=bool)
    grid[tuple(index.T)] = True
    touching = np.ones((3, 3, 3), dtype=bool)
    labelled, n_clusters = connected(grid, structure=touching)
    number_of_voxel = labelled[tuple(index.T)]
    sizes = np.bincount(number_of_voxel, minlength=n_clusters + 1)[1:]
    largest = np.argsort(-sizes, kind="stable")[:_MAX_CLUSTERS] + 1
    clusters = []
    for number in largest:
        is_member = number_of_voxel == number
        positions = coordinates[is_member]
        millimetres = None
        if view is not None:
            millimetres = view.extent(positions).tolist()
        clusters.append(
            VoxelCluster(
                voxels=len(positions),
                label=label,
                centre=positions.mean(axis=0).tolist(),
                low=positions.min(axis=0).tolist(),
                high=positions.max(axis=0).tolist(),
                millimetres=millimetres,
                top_score=float(voxels[is_member, 3].max()),
            )
        )
    return int(n_clusters), clusters


def fullest_slices(coordinates: np.ndarray, n_slices: int) -> list[float]:
    """Return the third coordinates of the slices with most voxels, ascending."""
    planes, counts = np.unique(coordinates[:, 2], return_counts=True)
    fullest = np.argsort(-counts, kind="stable")[:n_slices]
    return sorted(planes[fullest].tolist())


# An imaging library would be one more dependency to keep safe, and a palette image of a
# few colours takes few lines.
def palette_png(pixels: np.ndarray, palette: np.ndarray) -> bytes:
    """Encode a picture of palette colours as PNG (8 bit, colour type 3).

    The same picture gives the same bytes.

    Parameters
    ----------
    pixels : uint8 ndarray of shape (height, width)
        Positions in the palette; position 0 is transparent.
    palette : ndarray of shape (n_colours, 3)
        At most 256 colours: red, green, blue.

    Raises
    ------
    ValueError
        If the arrays have other shapes or types, or a colour is missing.
    """
    if pixels.ndim != 2 or pixels.dtype != np.uint8 or not pixels.size:
        raise ValueError(
            "pixels must be uint8 of shape (height, width), "
            f"got {pixels.dtype} {pixels.shape}"
        )
    is_palette = palette.ndim == 2 and palette.shape[1] == 3
    if not is_palette or not int(pixels.max()) < len(palette) <= 256:
        raise ValueError(f"palette {palette.shape} has no colour {pixels.max()}")
    height, width = pixels.shape
    # Every line begins with its filter: 0 for none.
    lines = np.zeros((height, width + 1), dtype=np.uint8)
    lines[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [
        b"\x89PNG\r\n\x1a\n",
        _png_chunk(b"IHDR", header),
        _png_chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
        _png_chunk(b"tRNS", b"\x00"),
        _png_chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        _png_chunk(b"IEND", b""),
    ]
    return b"".join(chunks)


def as_base64(picture: bytes) -> str:
    """Return a picture in base64, as run.json stores it."""
    return base64.b64encode(picture).decode("ascii")


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file, with its length and checksum."""
    length = struct.pack(">I", len(content))
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return length + kind + content + checksum
