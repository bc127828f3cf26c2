"""Multi-class methods: D (n_z, k) at rows z after training on x, codes 0 ... k - 1."""

from itertools import combinations

import numpy as np

from independent import factors, two_class
from independent.duals import box, crammer_singer, gaussian, laplacian, squared


def _machines(kernel, gamma, x, codes, C, factor=None):
    return [
        two_class.Pass(kernel, gamma, x, np.where(codes == m, 1.0, -1.0), C, factor)
        for m in range(codes.max() + 1)
    ]


def _decisions(machines, z):
    return np.column_stack([machine.decision(z) for machine in machines])


def one_vs_rest(x, codes, z, C, gamma):
    return _decisions(_machines(gaussian, gamma, x, codes, C), z)


def each_alone(method, x, codes, z, **given):
    """A two-class method against the rest, one c a machine."""
    return np.column_stack([method(x, codes == m, z, **given) for m in range(codes.max() + 1)])


def wu_amari_all_vectors(x, codes, z, C, gamma, M=3, kernel=laplacian):
    """As each_alone(wu_amari), no support vector dropped."""
    columns = []
    for first in _machines(kernel, gamma, x, codes, C):
        vectors = x[first.rows]

        def factor(at, vectors=vectors):
            return factors.local_width(at, vectors, M)

        columns.append(two_class.Pass(kernel, gamma, x, first.signs, C, factor).decision(z))
    return np.column_stack(columns)


def shao(x, codes, z, C, gamma, Q=None, empty="zero"):
    """Eq. 16-19 (Q None) or eq. 21; one c for all second-stage machines."""
    machines = _machines(gaussian, gamma, x, codes, C)
    weights = factors.class_weights(codes, len(machines))
    largest = np.sqrt(squared(x, x).max())

    def rates(at):
        columns = []
        for m, machine in enumerate(machines):
            distances = 2 - 2 * gaussian(at, x[machine.rows], gamma)
            if Q is None:
                columns.append(weights[m] * distances.mean(axis=1))
                continue
            foreign = distances[:, codes[machine.rows] != m]
            near = foreign < Q * largest * weights[m]
            fallback = np.zeros(len(at)) if empty == "zero" else foreign.min(axis=1)
            means = (foreign * near).sum(axis=1) / np.maximum(near.sum(axis=1), 1)
            columns.append(np.where(near.any(axis=1), means, fallback))
        return np.column_stack(columns)

    def factor(at):
        return factors.class_decay(_decisions(machines, at), rates(at))

    return _decisions(_machines(gaussian, gamma, x, codes, C, factor), z)


def one_vs_one(x, codes, z, C, gamma):
    """Votes plus the sum of margins squashed below a third."""
    k = codes.max() + 1
    votes, margins = np.zeros((len(z), k)), np.zeros((len(z), k))
    for a, b in combinations(range(k), 2):
        rows = np.isin(codes, (a, b))
        f = two_class.svm(x[rows], codes[rows] == a, z, C, gamma)
        margins[:, a] += f
        margins[:, b] -= f
        votes[:, a] += f > 0
        votes[:, b] += f <= 0
    return votes + margins / (3 * (np.abs(margins) + 1))


def crammer_singer_machine(x, codes, z, C, gamma):
    return gaussian(z, x, gamma) @ crammer_singer(gaussian(x, x, gamma), codes, codes.max() + 1, C)


def simplified(x, codes, z, C, gamma):
    """He et al. 2012."""
    k = codes.max() + 1
    gram = gaussian(x, x, gamma)
    same = codes[:, None] == codes
    alphas = box(np.where(same, gram * k / (k - 1), -gram * k / (k - 1) ** 2), C)
    own = np.eye(k)[codes]
    return gaussian(z, x, gamma) @ (alphas[:, None] * (own - (1 - own) / (k - 1)))
