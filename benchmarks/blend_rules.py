"""Would another rule of weights make a better blend? Tried on members' kept scores.

    python benchmarks/member_scores.py --splits 2 --out member_scores
    python benchmarks/blend_rules.py --scores member_scores

A rule sees held-out scores alone, and is judged on the new rows of each table. Rules:
`auto`; equal weights; steeper ones by average precision; AUROC counted too; greedy
selection with replacement (Caruana et al. 2004) of members' log odds by log loss, alone
and half equal; logistic regression without negative weights and with a ridge penalty
towards equal ones, on standardised scores and on log odds; and the weights of `auto`
times exp(-100 x what a member is behind the best in AUROC), by the lower end of a
paired bootstrap interval. One-class members, which join where cases are few, are left
out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from member_scores import is_set_aside
from scipy.optimize import minimize
from scipy.special import expit

from screening.estimators.ensembles import Pooling
from screening.metrics.ranking import area_under_roc, average_precision

FEWEST_NEW_CASES = 8
N_RESAMPLES = 100
PEERS = ("catboost", "lightgbm")
CHOSEN = "the member best on held-out rows"
CASES = 30
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def weighted(
    held: np.ndarray, ill: np.ndarray, *, precision: float, area: float = 0.0
) -> np.ndarray:
    """Return weights that grow with average precision and AUROC, and with cases."""
    n_cases = ill.sum()
    steepness = n_cases / (n_cases + 30)
    points = [
        precision * average_precision(scores, ill) + area * area_under_roc(scores, ill)
        for scores in held.T
    ]
    return np.exp(steepness * np.array(points))


def greedy(
    held: np.ndarray, ill: np.ndarray, *, equal: float, rounds: int = 30
) -> np.ndarray:
    """Return how often each member is selected; `equal`: share of equal weights."""
    n_members = held.shape[1]
    counts = np.zeros(n_members)
    for n_chosen in range(rounds):
        sums = (held @ counts)[:, None] + held
        log_odds = sums / (n_chosen + 1)
        loss = np.logaddexp(0, log_odds) - ill[:, None] * log_odds
        counts[np.argmin(loss.mean(axis=0))] += 1
    return (1 - equal) * counts / rounds + equal / n_members


def ridge(held: np.ndarray, ill: np.ndarray, *, penalty: float) -> np.ndarray:
    """Return the likeliest weights >= 0, pulled towards equal ones."""
    n_members = held.shape[1]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        log_odds = held @ weights[1:] + weights[0]
        apart = weights[1:] - 1 / n_members
        value = (np.logaddexp(0, log_odds) - ill * log_odds).sum()
        residual = expit(log_odds) - ill
        pull = held.T @ residual + 2 * penalty * apart
        gradient = np.append(residual.sum(), pull)
        return float(value + penalty * np.square(apart).sum()), gradient

    bounds = [(None, None), *[(1e-9, None)] * n_members]
    start = np.append(0.0, np.full(n_members, 1 / n_members))
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[1:]


def behind_the_best(held: np.ndarray, ill: np.ndarray) -> np.ndarray:
    """Return the weights of `auto`, less where a member is surely behind the best."""
    rng = np.random.default_rng(0)
    areas = np.empty((N_RESAMPLES, held.shape[1]))
    for resample in areas:
        rows = np.concatenate(
            [rng.choice(np.flatnonzero(side), side.sum()) for side in (ill, ~ill)]
        )
        resample[:] = [area_under_roc(scores, ill[rows]) for scores in held[rows].T]
    best = np.argmax([area_under_roc(scores, ill) for scores in held.T])
    behind = np.quantile(areas[:, [best]] - areas, 0.05, axis=0)
    of_auto = weighted(held, ill, precision=15)
    return of_auto * np.exp(-100 * np.maximum(behind, 0))


# Name: rule, and whether it sees members' log odds.
RULES: dict[str, tuple[Rule, bool]] = {
    "`auto`": (partial(weighted, precision=15), False),
    "equal weights": (partial(weighted, precision=0), False),
    "average precision, twice as steep": (partial(weighted, precision=30), False),
    "the same, four times": (partial(weighted, precision=60), False),
    "average precision and AUROC": (partial(weighted, precision=15, area=30), False),
    "log odds, weights of `auto`": (partial(weighted, precision=15), True),
    "greedy selection": (partial(greedy, equal=0.0), True),
    "greedy, half equal": (partial(greedy, equal=0.5), True),
    "ridge 3, scores": (partial(ridge, penalty=3.0), False),
    "ridge 10, scores": (partial(ridge, penalty=10.0), False),
    "ridge 10, log odds": (partial(ridge, penalty=10.0), True),
    "lower end of paired intervals": (behind_the_best, False),
}


def blended(
    held: np.ndarray, ill: np.ndarray, new: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the new scores by every rule.

    Parameters
    ----------
    held, new : ndarray of shape (n_rows, n_members)
        Decisions of held-out and of new rows.
    ill : bool ndarray of shape (n_rows,)
    """
    alike = Pooling.of(held[:, :, None], None)
    alone = [
        Pooling.of(held[:, [member], None], ill[:, None])
        for member in range(held.shape[1])
    ]
    found = {}
    for name, (rule, of_log_odds) in RULES.items():
        slopes, intercepts = alike.slopes, alike.intercepts
        if of_log_odds:
            slopes = np.concatenate([each.slopes for each in alone])
            intercepts = np.concatenate([each.intercepts for each in alone])
        seen = held * slopes[:, 0] + intercepts[:, 0]
        weights = rule(seen, ill)[:, None]
        pooling = Pooling(slopes, intercepts, weights / weights.sum())
        found[name] = pooling.pooled(new[:, :, None])[:, 0]
    return found


def judged(file: Path) -> list[dict[str, object]]:
    """Return AUROC and average precision of rules, members and peers, in percent."""
    kept = np.load(file)
    members = kept["members"]
    used = [not name.startswith("one_class") for name in members]
    held, new = kept["held_out"][:, used], kept["new"][:, used]
    ill = kept["new_target"]
    if ill.sum() < FEWEST_NEW_CASES:
        return []
    methods = blended(held, kept["target"], new)
    for name, scores in zip(members[used], new.T, strict=True):
        methods[f"member {name}"] = scores
    best = np.argmax([area_under_roc(scores, kept["target"]) for scores in held.T])
    methods[CHOSEN] = new[:, best]
    for name in PEERS:
        methods[name] = kept[f"peer/{name}"]
    return [
        {
            "table": file.stem.rpartition("-")[0],
            "method": method,
            "auroc": 100 * area_under_roc(scores, ill),
            "average_precision": 100 * average_precision(scores, ill),
            "cases": ill.sum(),
            "variance": 100**2 * variance(scores, methods["`auto`"], ill),
        }
        for method, scores in methods.items()
    ]


def variance(scores: np.ndarray, others: np.ndarray, ill: np.ndarray) -> float:
    """Return the bootstrap variance of the difference of AUROC of two methods."""
    rng = np.random.default_rng(0)
    classes = [np.flatnonzero(ill), np.flatnonzero(~ill)]
    differences = []
    for _ in range(N_RESAMPLES):
        drawn = np.concatenate([rng.choice(rows, len(rows)) for rows in classes])
        areas = [area_under_roc(each[drawn], ill[drawn]) for each in (scores, others)]
        differences.append(areas[0] - areas[1])
    return float(np.var(differences))


def behind(rows: pd.DataFrame) -> str:
    """Return on how many tables with enough new cases `auto` is behind, in words."""
    tables = rows.groupby(["table", "method"]).agg(
        auroc=("auroc", "mean"),
        average_precision=("average_precision", "mean"),
        cases=("cases", "mean"),
        variance=("variance", lambda each: each.mean() / len(each)),
    )
    table = tables.unstack("method")
    table = table[table["cases"]["`auto`"] >= CASES]
    area, precision = table["auroc"], table["average_precision"]
    own, own_precision = area["`auto`"], precision["`auto`"]
    members = [name for name in area if name.startswith("member ")]
    best = area[members].idxmax(axis=1)
    gap = area[members].max(axis=1) - own
    errors = np.sqrt([table["variance"].at[name, best[name]] for name in table.index])
    is_behind = gap > 0.5
    words = [
        f"{len(table)} tables with {CASES} new cases; over 0.5 AUROC behind the member "
        f"that is best there {is_behind.sum()}",
        f"beyond 1.96 standard errors {(is_behind & (gap > 1.96 * errors)).sum()}",
        f"behind {CHOSEN} {(area[CHOSEN] - own > 0.5).sum()}",
    ]
    for peer in PEERS:
        is_ahead = (area[peer] - own > 1) | (precision[peer] - own_precision > 2)
        words.append(f"{peer} ahead by 1 AUROC or 2 average precision {is_ahead.sum()}")
    return "; ".join(words)


def summarised(rows: pd.DataFrame) -> str:
    """Return each method minus `auto` as a Markdown table; means of tables."""
    means = rows.groupby(["table", "method"]).mean().unstack("method")
    areas, precisions = means["auroc"], means["average_precision"]
    members = [name for name in areas if name.startswith("member ")]
    best = areas[members].max(axis=1)
    lines = [
        "| minus `auto` | AUROC | average precision | furthest behind | tables over 0.5 "
        "AUROC behind their best member |",
        "|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(rows["method"]):
        cells = [method]
        for figure in (areas, precisions):
            gap = figure[method] - figure["`auto`"]
            cells.append(f"{gap.mean():+.2f} ± {gap.sem():.2f}")
        worst = [
            (figure[method] - figure["`auto`"]).min() for figure in (areas, precisions)
        ]
        cells.append("{:+.1f}; {:+.1f}".format(*worst))
        cells.append(f"{(areas[method] < best - 0.5).sum()} of {len(areas)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for the tables in use, and one for those set aside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scores", type=Path, default=Path("member_scores"))
    asked = parser.parse_args()
    rows = pd.DataFrame(
        [row for file in sorted(asked.scores.glob("*.npz")) for row in judged(file)]
    )
    if rows.empty:
        print("skipped: no scores; run member_scores.py first")
        return
    aside = rows["table"].map(is_set_aside)
    for title, part in (("In use", rows[~aside]), ("Set aside", rows[aside])):
        if len(part):
            print(f"\n{title}\n\n{summarised(part)}")
    print(f"\n{behind(rows)}")


if __name__ == "__main__":
    main()
