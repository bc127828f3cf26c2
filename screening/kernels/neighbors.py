"""Support vectors near a row by feature-space distance.

Only sum, number and smallest of the distances are returned. ``neighbors`` stores those
of a block of rows at a time, ``neighbors_in`` those of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.pairwise import (
    RadialKernel,
    distance_code,
    exp2_of_product,
    fill_panels,
    padded,
    rate_of,
    tile_distances,
)
from screening.kernels.simd import (
    CENTRES,
    PANEL,
    flush_subnormals,
    maximum,
    restore_control_word,
    use_widest_vectors,
)
from screening.threads import run_in_threads

# Rows that a loop takes at a time.
_BLOCK = 128
# Rows are padded to a multiple of this: a remainder of single rows would take longer.
_LANES = 32
# Rows that a thread takes at a time.
_TASK = 4096
# Rows of the workspace of `_summarize`, (7, block).
_N_BUFFERS = 7


@dataclass(frozen=True)
class Neighbors:
    """Summary of the centres of one label that are near each of n rows.

    Parameters
    ----------
    total : ndarray of shape (n_radii, n)
        Sum of their squared distances under K~.
    count : ndarray of float, shape (n_radii, n)
    nearest : ndarray of shape (n,)
        Smallest squared distance to a centre of the label, within the radius or not;
        infinite without such a centre.
    """

    total: np.ndarray
    count: np.ndarray
    nearest: np.ndarray

    @classmethod
    def empty(cls, n_radii: int, n: int) -> Neighbors:
        """Return uninitialized arrays for so many radii and rows."""
        total, count = np.empty((2, n_radii, n))
        return cls(total, count, np.empty(n))


def neighbors(
    kernel: RadialKernel,
    x: np.ndarray,
    centres: np.ndarray,
    c_x: np.ndarray,
    c_centres: np.ndarray,
    centre_labels: np.ndarray,
    labels: np.ndarray,
    radii: Sequence[float] | None,
) -> Neighbors:
    """Summarize the centres of one label that are near each row of x under K~.

    Parameters
    ----------
    kernel : RadialKernel
    x : ndarray of shape (n, n_features)
    centres : ndarray of shape (m, n_features)
    c_x, c_centres : ndarray of shape (n,), (m,)
        c of K~ = c(x) c(z) K(x, z).
    centre_labels : ndarray of shape (m,)
        +1 or -1.
    labels : ndarray of shape (n,)
        Label of the centres that count for each row, +1 or -1.
    radii : sequence of float or None
        Squared; a centre at the radius itself does not count. None for one radius per
        row: the mean of the squared distances of its nearest and farthest centre of any
        label.
    """
    rows = np.ascontiguousarray(x, float)
    padded_centres = padded(centres, np.float64)
    kind = distance_code(kernel.norm)
    arguments = _contiguous(c_x, c_centres, centre_labels, labels, _as_array(radii))
    neighbors = Neighbors.empty(len(arguments[-1]), len(rows))

    def task(first: int) -> None:
        _neighbors_of_rows(
            rows,
            first,
            min(first + _TASK, len(rows)),
            padded_centres,
            kind,
            rate_of(kernel),
            *arguments,
            neighbors.total,
            neighbors.count,
            neighbors.nearest,
        )

    run_in_threads(task, range(0, len(rows), _TASK))
    return neighbors


def neighbors_in(
    matrix: np.ndarray,
    centres: np.ndarray,
    rows: np.ndarray,
    c_x: np.ndarray,
    c_centres: np.ndarray,
    centre_labels: np.ndarray,
    labels: np.ndarray,
    radii: Sequence[float] | None,
) -> Neighbors:
    """Summarize near centres as ``neighbors`` does, from a kernel matrix.

    Parameters
    ----------
    matrix : ndarray of shape (n_basis, n_x)
        Kernel values K of a kernel with K(x, x) = 1.
    centres, rows : int ndarray of shape (m,), (n,)
        Indices of the centres among its rows, and of the rows among its columns.
    c_x, c_centres, centre_labels, labels, radii
        As for ``neighbors``.
    """
    arguments = _contiguous(c_x, c_centres, centre_labels, labels, _as_array(radii))
    neighbors = Neighbors.empty(len(arguments[-1]), len(rows))
    _neighbors_from_matrix(
        matrix,
        centres.view(np.uint64),
        rows.view(np.uint64),
        *arguments,
        neighbors.total,
        neighbors.count,
        neighbors.nearest,
    )
    return neighbors


def _as_array(radii: Sequence[float] | None) -> np.ndarray:
    """Return the radii for the loops; NaN means one radius per row."""
    if radii is None:
        radii = [np.nan]
    return np.array(radii, float)


def _contiguous(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(values, float) for values in arrays)


@njit(inline="always")
def _to_squared_distances(row, c_centre, c_x):
    """Replace the kernels of rows to one centre by squared distances under K~."""
    square = c_centre * c_centre
    twice = 2.0 * c_centre
    for t in range(c_x.size):
        row[t] = maximum(c_x[t] * c_x[t] + square - twice * c_x[t] * row[t], 0.0)


@njit(inline="always")
def _update_range(row, lowest, highest):
    for t in range(row.size):
        lowest[t] = -maximum(-lowest[t], -row[t])
        highest[t] = maximum(highest[t], row[t])


@njit(inline="always")
def _select_label(row, centre_label, label, lowest, highest):
    """Set the distance of a centre of the other label to infinity; update the range."""
    for t in range(row.size):
        wanted = centre_label * label[t] > 0.0
        wanted_distance = row[t] if wanted else -np.inf
        highest[t] = maximum(highest[t], wanted_distance)
        row[t] = row[t] if wanted else np.inf
        lowest[t] = -maximum(-lowest[t], -row[t])


@njit(inline="always")
def _add_within(row, limit, total, count):
    for t in range(row.size):
        inside = row[t] < limit[t]
        total[t] += row[t] if inside else 0.0
        count[t] += 1.0 if inside else 0.0


@njit(inline="always")
def _summarize(
    distances, centre_labels, labels, radii, workspace, total, count, nearest
):
    """Store sum and number for each radius, and the smallest distance, of a block.

    ``distances`` (centres, rows padded to whole lanes) gets infinities where a centre
    is not of the row's label; ``workspace`` is (7, at least as many rows).
    """
    n_lanes = distances.shape[1]
    width = labels.size
    label = workspace[0, :n_lanes]
    limit = workspace[1, :n_lanes]
    middle = workspace[2, :n_lanes]
    lowest = workspace[3, :n_lanes]
    highest = workspace[4, :n_lanes]
    sums = workspace[5, :n_lanes]
    counts = workspace[6, :n_lanes]
    workspace[:] = 0.0
    lowest[:] = np.inf
    highest[:] = -np.inf
    label[:width] = labels
    if np.isnan(radii).any():
        for i in range(centre_labels.size):
            _update_range(distances[i], lowest, highest)
        middle[:] = (lowest + highest) / 2.0
        lowest[:] = np.inf
        highest[:] = -np.inf
    for i in range(centre_labels.size):
        _select_label(distances[i], centre_labels[i], label, lowest, highest)
    nearest[:] = lowest[:width]
    closest = lowest.min()
    farthest = highest.max()
    for q in range(radii.size):
        radius = radii[q]
        previous = radii[max(q - 1, 0)]
        # Two radii that are both below or both above all distances find the same.
        below_all = max(radius, previous) <= closest
        above_all = min(radius, previous) > farthest
        if q == 0 or not (below_all or above_all):
            sums[:] = 0.0
            counts[:] = 0.0
            if np.isnan(radius):
                limit[:] = middle
            else:
                limit[:] = radius
            for i in range(centre_labels.size):
                _add_within(distances[i], limit, sums, counts)
        total[q] = sums[:width]
        count[q] = counts[:width]


@njit(nogil=True, cache=True)
def _neighbors_of_rows(
    x,
    start,
    stop,
    centres,
    kind,
    rate,
    c_x,
    c_centres,
    centre_labels,
    labels,
    radii,
    total,
    count,
    nearest,
):
    """Store the summary of the near centres of rows start .. stop - 1 of x.

    A radius that is NaN is the mean of the row's nearest and farthest centre, of any
    label. One lane is one row, so a row's result does not depend on its batch.
    """
    use_widest_vectors()
    control_word = flush_subnormals()
    panels = np.zeros((_BLOCK // PANEL, centres.shape[1], PANEL))
    distances = np.zeros((len(centres), _BLOCK))
    workspace = np.empty((_N_BUFFERS, _BLOCK))
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        fill_panels(x, first, last - first, panels)
        for i in range(0, c_centres.size, CENTRES):
            tile_distances(panels, centres, i, kind, distances[i : i + CENTRES])
        for i in range(c_centres.size):
            row = distances[i, : last - first]
            for t in range(row.size):
                row[t] = exp2_of_product(row[t], rate)
            _to_squared_distances(row, c_centres[i], c_x[first:last])
        n_lanes = -(-(last - first) // _LANES) * _LANES
        _summarize(
            distances[:, :n_lanes],
            centre_labels,
            labels[first:last],
            radii,
            workspace,
            total[:, first:last],
            count[:, first:last],
            nearest[first:last],
        )
    restore_control_word(control_word)


@njit(nogil=True, cache=True)
def _neighbors_from_matrix(
    matrix,
    centres,
    rows,
    c_x,
    c_centres,
    centre_labels,
    labels,
    radii,
    total,
    count,
    nearest,
):
    """Store the summary of near centres, from a kernel matrix.

    `centres` are indices of its rows, `rows` of its columns.
    """
    use_widest_vectors()
    control_word = flush_subnormals()
    distances = np.zeros((c_centres.size, -(-rows.size // _LANES) * _LANES))
    for i in range(c_centres.size):
        row = distances[i, : rows.size]
        kernels = matrix[centres[i]]
        for t in range(rows.size):
            row[t] = kernels[rows[t]]
        _to_squared_distances(row, c_centres[i], c_x)
    workspace = np.empty((_N_BUFFERS, _BLOCK))
    for first in range(0, labels.size, _BLOCK):
        last = min(first + _BLOCK, labels.size)
        _summarize(
            distances[:, first : min(first + _BLOCK, distances.shape[1])],
            centre_labels,
            labels[first:last],
            radii,
            workspace,
            total[:, first:last],
            count[:, first:last],
            nearest[first:last],
        )
    restore_control_word(control_word)
