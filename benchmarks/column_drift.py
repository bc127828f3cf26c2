"""How soon is a column that reads higher named, and how often one that does not?

    python benchmarks/column_drift.py --looks     # looks of a quarter beside one look
    python benchmarks/column_drift.py --wards 1   # one ward of 57 beds
    python benchmarks/column_drift.py --wards 10
    python benchmarks/column_drift.py --wards 10 --sites 40   # false names a quarter

A fifth of the patients leaves every night; logarithms of values have a standard
deviation of 1 between patients and .4 within. From a night on all values are
multiplied; from then on every night is looked at. Printed as markdown: nights until the
column is named, by factor; and without a change, names a quarter of fifty columns.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import norm

from screening.monitoring.column_drift import (
    FALSE_NAMES_OF_SITE,
    FALSE_NAMES_OF_WARDS,
    REFERENCE,
    WINDOWS,
    SeriesNights,
    Width,
    bound,
    difference,
    stratified,
    width_of,
)

BEDS = 57
LEAVE = 0.2
WITHIN = 0.4
N_COLUMNS = 50
LOOKED_AT = 60
BEFORE = REFERENCE + max(WINDOWS)
EDGES = norm.ppf(np.arange(1, 20) / 20) * np.hypot(1, WITHIN)
FACTORS = (1.0, 1.1, 1.15, 1.3, 1.5)


def stays(rng: np.random.Generator, n_nights: int) -> np.ndarray:
    """Return who lies in each bed on each night, shape (n_nights, BEDS)."""
    is_new = rng.random((n_nights, BEDS)) < LEAVE
    is_new[0] = True
    bed = np.arange(BEDS) * n_nights
    return np.cumsum(is_new, axis=0) + bed


def bins_of_nights(
    rng: np.random.Generator, patients: np.ndarray, n_columns: int, log_factor: float
) -> np.ndarray:
    """Return counts by column, night and bin; the last nights are multiplied."""
    n_nights = len(patients)
    _, number = np.unique(patients, return_inverse=True)
    number = number.reshape(patients.shape)
    counts = np.empty((n_columns, n_nights, len(EDGES) + 1))
    for column in range(n_columns):
        values = rng.normal(size=number.max() + 1)[number]
        values = values + WITHIN * rng.normal(size=values.shape)
        values[-LOOKED_AT:] += log_factor
        bins = np.searchsorted(EDGES, values)
        for night in range(n_nights):
            counts[column, night] = np.bincount(bins[night], minlength=len(EDGES) + 1)
    return counts


def largest_z(
    rng: np.random.Generator, n_wards: int, n_columns: int, log_factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return |z| of the site and of the clearest ward, (n_columns, LOOKED_AT) each."""
    n_nights = BEFORE + LOOKED_AT
    wards = []
    for _ in range(n_wards):
        patients = stays(rng, n_nights)
        counts = bins_of_nights(rng, patients, n_columns, log_factor)
        wards.append((patients, counts))
    site = np.zeros((n_columns, LOOKED_AT))
    alone = np.zeros((n_columns, LOOKED_AT))
    for look in range(LOOKED_AT):
        end = BEFORE + look + 1
        for window in WINDOWS:
            of_wards = []
            for patients, counts in wards:
                first = end - window - REFERENCE
                width = _width(patients[first:end], window)
                of_wards.append(
                    [
                        difference(counts[column, first:end], window, width)
                        for column in range(n_columns)
                    ]
                )
            for column, differences in enumerate(zip(*of_wards, strict=True)):
                joint = stratified(differences).z
                clearest = max(each.z for each in differences)
                site[column, look] = max(site[column, look], joint)
                alone[column, look] = max(alone[column, look], clearest)
    return site, alone


def _width(patients: np.ndarray, window: int) -> Width:
    """Return the width of a difference over these nights."""
    nights = SeriesNights((), {}, patients, np.full(len(patients), BEDS))
    return width_of(nights, window, len(patients))


def table(n_wards: int, repeats: int) -> None:
    """Print nights until a column is named, and false names."""
    n_tests = N_COLUMNS * n_wards
    limit = bound(n_tests, FALSE_NAMES_OF_WARDS)
    site_limit = bound(N_COLUMNS, FALSE_NAMES_OF_SITE)
    print(f"{n_wards} wards; named beyond {site_limit:.2f} (site), {limit:.2f} (ward)")
    heads = "| read times | named by | 14 nights, % | 28 nights, % | 60 nights, % | median |"
    print(heads, "|---" * 6 + "|", sep="\n")
    for factor in FACTORS:
        rng = np.random.default_rng([n_wards, round(100 * factor)])
        site, alone = largest_z(rng, n_wards, repeats, float(np.log(factor)))
        rows = [("a ward", alone > limit)]
        if n_wards > 1:
            rows.append(("the site", site > site_limit))
        for name, is_named in rows:
            first = np.where(is_named.any(axis=1), is_named.argmax(axis=1) + 1, 999)
            shares = [100 * (first <= nights).mean() for nights in (14, 28, 60)]
            median = np.median(first)
            shown = "-" if median > LOOKED_AT else f"{median:.0f}"
            cells = " | ".join(f"{share:.0f}" for share in shares)
            print(f"| {factor} | {name} | {cells} | {shown} |", flush=True)


def at_rest(n_wards: int, n_sites: int) -> None:
    """Print the names of fifty columns of sites where nothing changes, a quarter."""
    limit = bound(N_COLUMNS * n_wards, FALSE_NAMES_OF_WARDS)
    site_limit = bound(N_COLUMNS, FALSE_NAMES_OF_SITE)
    n_names = 0
    largest = 0.0
    for seed in range(n_sites):
        rng = np.random.default_rng([seed, n_wards])
        site, alone = largest_z(rng, n_wards, N_COLUMNS, 0.0)
        n_names += int((site > site_limit).any(axis=1).sum())
        n_names += int((alone > limit).any(axis=1).sum())
        largest = max(largest, float(site.max()), float(alone.max()))
    quarters = n_sites * LOOKED_AT / 91
    print(
        f"{n_sites} sites of {n_wards} wards at rest, {quarters:.0f} quarters: "
        f"{n_names} columns named, {n_names / quarters:.2f} a quarter; largest z "
        f"{largest:.2f}"
    )


def looks(paths: int = 20_000) -> None:
    """Print how much more often one of a quarter's looks is beyond a bound than one."""
    quarter = 91
    print("| share that stays | 2.5 | 3 | 3.5 | 4 |", "|---" * 5 + "|", sep="\n")
    for stay in (0.3, 0.7, 0.85, 0.93):
        rng = np.random.default_rng(0)
        n_nights = BEFORE + quarter
        level = np.empty((paths, n_nights))
        level[:, 0] = rng.normal(size=paths)
        for night in range(1, n_nights):
            fresh = rng.normal(size=paths)
            level[:, night] = stay * level[:, night - 1] + (1 - stay**2) ** 0.5 * fresh
        sums = np.cumsum(level, axis=1)
        ends = np.arange(n_nights - quarter, n_nights)
        largest = np.zeros(paths)
        for window in WINDOWS:
            recent = (sums[:, ends] - sums[:, ends - window]) / window
            start = ends - window
            before = (
                sums[:, start] - sums[:, np.maximum(start - REFERENCE, 0)]
            ) / REFERENCE
            z = np.abs(recent - before) / (recent - before).std()
            largest = np.maximum(largest, z.max(axis=1))
        ratios = [
            (largest > limit).mean() / (2 * norm.sf(limit))
            for limit in (2.5, 3, 3.5, 4)
        ]
        print(f"| {stay} |", " | ".join(f"{ratio:.0f}" for ratio in ratios), "|")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--sites", type=int, help="sites where nothing changes")
    parser.add_argument("--wards", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    if options.looks:
        looks()
    elif options.sites:
        at_rest(options.wards, options.sites)
    else:
        table(options.wards, options.repeats)


if __name__ == "__main__":
    main()
