"""How soon is a column that reads higher named, and how often one that does not?

    python benchmarks/column_drift.py --wards 1               # one ward of 57 beds
    python benchmarks/column_drift.py --wards 10 --repeats 40
    python benchmarks/column_drift.py --wards 10 --sites 30   # false names a quarter
    python benchmarks/column_drift.py --looks --repeats 3   # looks beside one look
    python benchmarks/column_drift.py --outbreaks --repeats 4000

Values have a standard deviation of 1 between patients (of logarithms) and .4 within.
From a night on all values are multiplied; from then on every night is looked at.
Printed as markdown: nights until the column is named, by factor; and without a change,
names a quarter of fifty columns, by the law of stays and by what the nights of all
wards have in common (`--shared`, in standard deviations between patients). Of
outbreaks: how often one of four wards is named in a quarter at rest, and in one.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from screening.monitoring.column_drift import (
    FALSE_OUTBREAKS,
    LOOKS_A_QUARTER,
    MAX_NIGHTS,
    OUTBREAK_WINDOWS,
    REFERENCE,
    WINDOWS,
    NightPatients,
    bounds,
    chance_of_new_cases,
)

BEDS = 57
N_COLUMNS = 50
LOOKED_AT = 60
QUARTER = 91
EDGES = norm.ppf(np.arange(1, 20) / 20) * np.hypot(1, 0.4)
FACTORS = (1.0, 1.1, 1.15, 1.3, 1.5)
LAWS = ("geometric", "uniform", "short and long")


class Columns(NamedTuple):
    """What columns are like.

    Parameters
    ----------
    between, within : float
        Standard deviations between patients, and of a patient from night to night.
    shared : float
        Standard deviation that a night of all wards has in common.
    fades : float
        Correlation of what is the patient's own from one night to the next.
    """

    between: float = 1.0
    within: float = 0.4
    shared: float = 0.0
    fades: float = 1.0


def stays(rng: np.random.Generator, law: str, n_nights: int) -> np.ndarray:
    """Return who lies in each bed on each night, shape (n_nights, BEDS)."""
    patients = np.empty((n_nights, BEDS), int)
    n_admitted = 0
    for bed in range(BEDS):
        first = -60
        while first < n_nights:
            length = length_of_stay(rng, law)
            patients[max(first, 0) : max(first + length, 0), bed] = n_admitted
            n_admitted += 1
            first += length
    return patients


def length_of_stay(rng: np.random.Generator, law: str) -> int:
    """Return the nights of a stay."""
    if law == "geometric":
        return int(rng.geometric(0.2))
    if law == "uniform":
        return int(rng.integers(1, 10))
    is_long = rng.random() < 0.1
    return int(rng.integers(10, 40) if is_long else rng.integers(1, 4))


def counts_of_nights(
    rng: np.random.Generator,
    patients: np.ndarray,
    columns: Columns,
    common: np.ndarray,
) -> np.ndarray:
    """Return counts by column, night and bin.

    `common`: what is added to all values, shape (n_nights, n_columns).
    """
    n_nights, n_columns = common.shape
    _, number = np.unique(patients, return_inverse=True)
    number = number.reshape(patients.shape)
    own = rng.normal(size=(number.max() + 1, n_columns)) * columns.between
    n_bins = len(EDGES) + 1
    counts = np.empty((n_columns, n_nights, n_bins))
    for night in range(n_nights):
        if columns.fades < 1:
            fresh = rng.normal(size=own.shape) * columns.between
            own = columns.fades * own + (1 - columns.fades**2) ** 0.5 * fresh
        values = own[number[night]] + common[night]
        values = values + columns.within * rng.normal(size=values.shape)
        bins = np.searchsorted(EDGES, values) + n_bins * np.arange(n_columns)
        of_night = np.bincount(bins.ravel(), minlength=n_bins * n_columns)
        counts[:, night] = of_night.reshape(n_columns, n_bins)
    return counts


class Ward(NamedTuple):
    """Who lay in a ward, and what its columns counted."""

    patients: np.ndarray
    counts: np.ndarray


def wards_of(
    rng: np.random.Generator,
    n_wards: int,
    law: str,
    columns: Columns,
    shape: tuple[int, int],
    log_factor: float = 0.0,
) -> list[Ward]:
    """Return the wards of a site; `shape`: looks after the first nights, and columns.

    All values of these looks are multiplied.
    """
    n_looks, n_columns = shape
    n_nights = MAX_NIGHTS + n_looks
    common = columns.shared * rng.normal(size=(n_nights, n_columns))
    common[MAX_NIGHTS:] += log_factor
    wards = []
    for _ in range(n_wards):
        patients = stays(rng, law, n_nights)
        wards.append(Ward(patients, counts_of_nights(rng, patients, columns, common)))
    return wards


class WardNights(NamedTuple):
    """Nights of a ward up to a look: patients, means by column, and their noise.

    Parameters
    ----------
    patients : NightPatients
    means : ndarray of shape (n_nights, n_columns)
    noise : ndarray of shape (n_columns,)
        Variance that nights have in common.
    """

    patients: NightPatients
    means: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, ward: Ward, end: int) -> WardNights:
        """Return the last nights before `end`, as `means_of_nights` has each
        column's.
        """
        first = end - MAX_NIGHTS
        sizes = np.full(MAX_NIGHTS, BEDS)
        patients = NightPatients(ward.patients[first:end].tolist(), sizes)
        counts = ward.counts[:, first:end]
        shares = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
        centred = np.cumsum(shares, axis=1) - shares / 2 - 0.5
        deviation = np.sqrt((shares * centred**2).sum(axis=1))
        sums = np.einsum("cnb,cb->nc", counts, centred)
        means = sums / BEDS / deviation
        return cls(patients, means, noise_of(means, patients.neighbours.mean()))


def noise_of(means: np.ndarray, of_patients: float) -> np.ndarray:
    """Return the variance that nights have in common, beyond their patients'."""
    apart = np.square(np.diff(means, axis=0)).mean(axis=0) / 2
    return np.maximum(apart - of_patients, 0)


def statistics(wards: list[WardNights]) -> tuple[np.ndarray, np.ndarray]:
    """Return |z| of the site and of the clearest ward, of each column, on one night.

    As `drifts` has them, the largest of all windows; all columns at once, and without
    skewness, which these values do not have.
    """
    n_columns = wards[0].means.shape[1]
    site = np.zeros(n_columns)
    alone = np.zeros(n_columns)
    for window in WINDOWS:
        contrasts = [ward.patients.contrast(window) for ward in wards]
        shares = np.array([1 / contrast.variance for contrast in contrasts])
        shares /= shares.sum()
        effect = np.zeros(n_columns)
        variance = 0.0
        weights = np.zeros(MAX_NIGHTS)
        means = np.zeros_like(wards[0].means)
        of_patients = 0.0
        for ward, contrast, share in zip(wards, contrasts, shares, strict=True):
            of_ward = contrast.weights @ ward.means
            squares = contrast.weights @ contrast.weights
            width = np.sqrt(contrast.variance + ward.noise * squares)
            alone = np.maximum(alone, np.abs(of_ward) / width)
            effect += share * of_ward
            variance += share**2 * contrast.variance
            weights += share * contrast.weights
            means += share * (ward.means - ward.means.mean(axis=0))
            of_patients += share**2 * ward.patients.neighbours.mean()
        width = np.sqrt(variance + noise_of(means, of_patients) * (weights @ weights))
        site = np.maximum(site, np.abs(effect) / width)
    return site, alone


def largest(wards: list[Ward]) -> tuple[np.ndarray, np.ndarray]:
    """Return |z| of the site and of the clearest ward, (n_looks, n_columns) each."""
    n_nights = wards[0].counts.shape[1]
    site = []
    alone = []
    for end in range(MAX_NIGHTS + 1, n_nights + 1):
        of_site, of_ward = statistics([WardNights.of(ward, end) for ward in wards])
        site.append(of_site)
        alone.append(of_ward)
    return np.array(site), np.array(alone)


def bounds_of(n_wards: int) -> tuple[float, float]:
    """Return the bounds of the site and of each ward."""
    n_shared = N_COLUMNS if n_wards > 1 else 0
    return bounds(n_shared, N_COLUMNS * n_wards)


def table(n_wards: int, repeats: int, law: str, columns: Columns) -> None:
    """Print nights until a column is named."""
    site_limit, limit = bounds_of(n_wards)
    print(f"{n_wards} wards; named beyond {site_limit:.2f} (site), {limit:.2f} (ward)")
    heads = "| read times | named by | 14 nights, % | 28 nights, % | 60 nights, % | median |"
    print(heads, "|---" * 6 + "|", sep="\n")
    for factor in FACTORS:
        rng = np.random.default_rng([n_wards, round(100 * factor)])
        named = {"a ward": [], "the site": []}
        # The columns of a site share its patients: few of each of several sites.
        for _ in range(repeats // 10):
            wards = wards_of(
                rng, n_wards, law, columns, (LOOKED_AT, 10), float(np.log(factor))
            )
            site, alone = largest(wards)
            named["a ward"].append(alone > limit)
            named["the site"].append(site > site_limit)
        if n_wards == 1:
            del named["the site"]
        for name, parts in named.items():
            is_named = np.hstack(parts)
            first = np.where(is_named.any(axis=0), is_named.argmax(axis=0) + 1, 999)
            shares = [100 * (first <= nights).mean() for nights in (14, 28, 60)]
            median = np.median(first)
            shown = "-" if median > LOOKED_AT else f"{median:.0f}"
            cells = " | ".join(f"{share:.0f}" for share in shares)
            print(f"| {factor} | {name} | {cells} | {shown} |", flush=True)


def at_rest(n_wards: int, n_sites: int, law: str, columns: Columns) -> None:
    """Print the names of fifty columns of sites where nothing changes, a quarter."""
    site_limit, limit = bounds_of(n_wards)
    n_names = {"site": 0, "wards": 0}
    largest_z = {"site": 0.0, "wards": 0.0}
    for seed in range(n_sites):
        rng = np.random.default_rng([seed, n_wards])
        wards = wards_of(rng, n_wards, law, columns, (LOOKED_AT, N_COLUMNS))
        site, alone = largest(wards)
        if n_wards > 1:
            n_names["site"] += int((site > site_limit).any(axis=0).sum())
            largest_z["site"] = max(largest_z["site"], float(site.max()))
        n_names["wards"] += int((alone > limit).any(axis=0).sum())
        largest_z["wards"] = max(largest_z["wards"], float(alone.max()))
    quarters = n_sites * LOOKED_AT / QUARTER
    total = sum(n_names.values())
    print(
        f"{n_sites} sites of {n_wards} wards at rest, stays {law}, {columns}, "
        f"{quarters:.0f} quarters: {n_names} columns named, "
        f"{total / quarters:.2f} a quarter; largest z {largest_z}",
        flush=True,
    )


def looks(repeats: int) -> None:
    """Print how much more often one of a quarter's looks is beyond a bound than one."""
    limits = (3, 3.5, 3.75, 4)
    heads = " | ".join(str(limit) for limit in limits)
    print(f"| stays | columns | {heads} | names a quarter |")
    print("|---" * (len(limits) + 3) + "|")
    _, limit_of_ward = bounds_of(1)
    kinds = [
        Columns(),
        Columns(within=0.0),
        Columns(within=0.0, fades=0.9),
        Columns(between=0.5, within=1.0),
        Columns(shared=0.1),
        Columns(shared=0.2),
    ]
    for law in LAWS:
        for columns in kinds:
            parts = []
            for seed in range(repeats):
                rng = np.random.default_rng([seed, 3])
                wards = wards_of(rng, 1, law, columns, (QUARTER, 300))
                parts.append(largest(wards)[1].max(axis=0))
            z = np.concatenate(parts)
            ratios = [(z > limit).mean() / (2 * norm.sf(limit)) for limit in limits]
            cells = " | ".join(f"{ratio:.0f}" for ratio in ratios)
            names = N_COLUMNS * (z > limit_of_ward).mean()
            shown = ", ".join(
                f"{key} {value:g}" for key, value in columns._asdict().items()
            )
            print(f"| {law} | {shown} | {cells} | {names:.2f} |", flush=True)


def new_cases(
    rng: np.random.Generator, rate: float, dispersion: float, shape: tuple[int, int]
) -> np.ndarray:
    """Return counts of nights; `dispersion`: their variance over their mean."""
    if dispersion == 1:
        return rng.poisson(rate, shape)
    return rng.negative_binomial(rate / (dispersion - 1), 1 / dispersion, shape)


def is_named(counts: np.ndarray, n_looks: int, n_wards: int) -> np.ndarray:
    """Return which wards are named on one of the last nights; counts by ward."""
    smallest = np.ones(len(counts))
    for end in range(counts.shape[1] - n_looks + 1, counts.shape[1] + 1):
        for window in OUTBREAK_WINDOWS:
            start = end - window
            before = counts[:, start - REFERENCE : start]
            n_new = counts[:, start:end].sum(axis=1)
            smallest = np.minimum(smallest, chance_of_new_cases(before, n_new, window))
    return smallest < FALSE_OUTBREAKS / (n_wards * LOOKS_A_QUARTER)


def outbreaks(repeats: int) -> None:
    """Print per cent of wards named in a quarter at rest, and in outbreaks."""
    kinds = [(factor, nights) for factor in (2, 3) for nights in (4, 7, 14)]
    heads = " | ".join(f"x {factor}, {nights} nights" for factor, nights in kinds)
    print(f"| new cases a night | variance over mean | at rest | {heads} |")
    print("|---" * (len(kinds) + 3) + "|")
    n_wards = 4
    n_before = REFERENCE + max(OUTBREAK_WINDOWS)
    for rate, dispersion in [(1, 1), (3, 1), (3, 1.5), (3, 2), (6, 1), (6, 1.5)]:
        rng = np.random.default_rng([rate, round(10 * dispersion)])
        counts = new_cases(rng, rate, dispersion, (repeats, n_before + QUARTER))
        cells = [f"{100 * is_named(counts, QUARTER, n_wards).mean():.2f}"]
        for factor, nights in kinds:
            shape = (repeats // 4, n_before + nights)
            counts = new_cases(rng, rate, dispersion, shape)
            more = new_cases(rng, rate * (factor - 1), dispersion, shape)
            counts[:, n_before:] += more[:, n_before:]
            cells.append(f"{100 * is_named(counts, nights, n_wards).mean():.0f}")
        print(f"| {rate} | {dispersion:g} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--outbreaks", action="store_true")
    parser.add_argument("--sites", type=int, help="sites where nothing changes")
    parser.add_argument("--wards", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--stays", choices=LAWS, default="geometric")
    parser.add_argument("--shared", type=float, default=0.0)
    parser.add_argument("--within", type=float, default=0.4)
    options = parser.parse_args()
    columns = Columns(within=options.within, shared=options.shared)
    if options.looks:
        looks(options.repeats)
    elif options.outbreaks:
        outbreaks(options.repeats)
    elif options.sites:
        at_rest(options.wards, options.sites, options.stays, columns)
    else:
        table(options.wards, options.repeats, options.stays, columns)


if __name__ == "__main__":
    main()
