"""A night's document as a copy may show it: its model, of all past patients together, and what was listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from screening.errors import UsageError
from screening.schemas.run import Case, RunDocument
from screening.teaching.k_anonymity import (
    LEAST,
    WITHHELD,
    listed,
    owner,
    ranks_of,
    smallest,
    suppress_small,
)
from screening.teaching.key import SiteKey

Json = dict[str, Any]
Kept = Callable[[Any], Any]
"""What of a part of a document a copy holds."""


def only(names: str, **others: object) -> Kept:
    """These keys of an object (of each object of a list) and no other, so that nothing new slips through.

    `others` are given: as they are, or made of what is stored under their name.
    """

    def kept(stored: Any) -> Any:
        if isinstance(stored, list):
            return [kept(one) for one in stored]
        own = {name: stored[name] for name in names.split() if name in stored}
        made = {name: made(stored[name]) if callable(made) else made for name, made in others.items()}
        return own | made

    return kept


def each(kept: Kept) -> Kept:
    """The same of every value of an object."""
    return lambda stored: {name: kept(one) for name, one in stored.items()}


RATES = "sensitivity specificity"
VALUES = "prevalence ppv npv nne flag_rate"
SIZES = "n_positive n_negative n_groups"
POINT = f"{RATES} {VALUES} {SIZES} threshold rule"
CHOOSERS = ("training", "screen threshold")

VALIDATION = only(
    "folds repeats grouped n_rows n_positive n_groups n_machines encoded_by",
    search=only("criterion n_candidates chosen", candidates=[], scores=[], dropped=[]),
    prevalence={},
    summary=each(only(f"{SIZES} prevalence auroc average_precision")),
    curves=each(only(f"{RATES} flag_rate ppv npv threshold")),
    points=each(only(POINT, misses=None, notes=[])),
    subgroups=each(
        only(
            "column threshold rule", edges=None, known=None,
            rows=lambda rows: of_five(only(f"{RATES} level n events few flag_rate")(rows)),
        )
    ),
    predictive=each(only("source threshold rule", rows=only(VALUES))),
    calibration=each(
        only(
            "earned log_loss misfit prevalence brier brier_skill slope decision_curve reliability",
            reason=lambda reason: reason and "see the model's own page",
        )
    ),
)  # fmt: skip

MODEL = only(
    "format_version",
    recipe=only("name title paper machine parameters", text=""),
    contract=lambda contract: {
        "cohort": only("minutes_per_review capacity prevalence coordinates")(contract.get("cohort", {})),
        "features": each(only("type unit reference normalise"))(contract.get("features", {})),
    },
    task=only("kind label positive classes watched"),
    operating_points=only(
        f"{POINT} class", misses=None, notes=[], reason=None,
        chosen_by=lambda name: name if name in CHOOSERS else "somebody",
    ),
    validation=VALIDATION,
    training=only(
        "n_rows_read n_rows_used max_rows seed", n_by_class=suppress_small, window=None, command=None,
        source={"files": [], "delimiter": None, "encoding": None, "rows": 0}, notes=[], missing={},
        features=[], profile=None, leaks=[],
    ),
    machine=only("n_support_vectors sv_share kkt_gap", passes=[]),
    versions={}, attention=[], arrays_sha256="", validation_sha256="", sha256="", id="", digest="",
)  # fmt: skip


def of_five(rows: list[Json]) -> list[Json]:
    """The rows of a table that five patients or more stand behind, by their `n`."""
    kept = suppress_small({i: row["n"] or 0 for i, row in enumerate(rows)})
    return [row for i, row in enumerate(rows) if kept.get(i)]


def five(count: int | None) -> int | None:
    """A count of five or more."""
    return None if count is None or count < LEAST else count


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _night(run: Json, key: SiteKey, ranks: Mapping[str, Callable[[float], float]]) -> Json:
    """All but the list: counts of five or more, rounded shares, ranks, and no text that a person wrote."""
    scored, night = run["counts"]["scored"], key.shifted(run["date"]) or NAME
    model = MODEL(run["model"])
    for name, rank in ranks.items():
        for part in ("curves", "points", "subgroups", "predictive"):
            if name in model["validation"][part]:
                model["validation"][part][name] = in_ranks(model["validation"][part][name], rank)
    model["operating_points"] = [in_ranks(one, ranks[one["class"]]) for one in model["operating_points"]]

    def share(value: float | None) -> float | None:
        """In whole per cents; none where fewer than five rows stand behind it."""
        return None if value is None else 0.0 if value * scored < LEAST - 0.5 else round(value, 2)

    return only(
        "format_version groups_flagged",
        run_id=NAME,
        date=night,
        model=model,
        input={"files": [], "delimiter": None, "encoding": None, "rows": scored, "notes": []},
        versions={},
        counts=_counts,
        refused=lambda refused: {reason: n for reason, n in refused.items() if n >= LEAST},
        evaluation=None,
        data=only(
            "name type unit normalised alarm", missing=share, missing_training=_rounded, psi=_rounded,
            ks=_rounded, outside=share, unseen=five,
        ),
        groups=None,
        score_counts={},
        attention=lambda reasons: [
            {"code": one["code"], "words": f"{one['code'].replace('_', ' ').capitalize()}."}
            for one in reasons
        ],
        sample=[],
        unflagged=lambda one: {"cases": five(one["cases"]) or 0},
        discoveries=None,
        subgroups=[],
        prevalence_estimate=None,
        pseudonymised=True,
        times={"started": night, "seconds": 0.0},
        sha256="",
    )(run)  # fmt: skip


def in_ranks(stored: Any, rank: Callable[[float], float]) -> Any:
    """A part of a document with every threshold of it as a rank."""
    if isinstance(stored, list):
        return [in_ranks(one, rank) for one in stored]
    if not isinstance(stored, dict):
        return stored
    ranked = {name: in_ranks(one, rank) for name, one in stored.items()}
    at = ranked.get("threshold")
    if at is not None:
        ranked["threshold"] = [rank(one) for one in at] if isinstance(at, list) else rank(at)
    if ranked.get("name") == "threshold":  # A rule, whose value is one.
        ranked["value"] = rank(ranked["value"])
    return ranked


def _counts(stored: Json) -> Json:
    """Counts of five or more; fewer refused rows are as if they had not been in the table."""
    refused = five(stored["refused"]) or 0
    return only(
        "scored flagged cases", refused=refused, read=stored["scored"] + refused,
        flagged_by_class=suppress_small, no_longer_flagged=five,
    )(stored) | suppress_small(
        {name: stored[name] for name in ("new", "pending", "ruled_out", "known") if stored[name]}
    )  # fmt: skip


NAME = "copy"


@dataclass(frozen=True)
class Copy:
    """A copy, and how well it hides.

    `smallest_group` counts the fewest patients that share what the page shows of one of them (None where it
    lists nobody), `listed` its rows, `left_out` those of the night's list that it does not have;
    `values_withheld` is the share of the listed rows' contributing values not even shown as a band.
    """

    run: RunDocument
    smallest_group: int | None
    listed: int
    left_out: int
    values_withheld: float


def deidentified(run: RunDocument, key: SiteKey) -> Copy:
    """Return a copy of a night in which nobody stands out from fewer than five.

    The key makes the pseudonyms and shifts the dates. Raises UsageError where one to four patients are
    flagged.
    """
    flagged = len({owner(case) for case in run.cases})
    if 0 < flagged < LEAST:
        raise UsageError(f"fewer than {LEAST} patients are flagged; nobody can be hidden among so few")
    cases, near = (list(listed(rows, run.model, key)) for rows in (run.cases, run.near_misses))
    lines, owners = [case for _, case in (*cases, *near)], [whose for whose, _ in (*cases, *near)]
    named = [*run.cases, *run.near_misses]
    before = sum(len(case.contributions or ()) for case in named)
    document = _night(run.to_dict(), key, ranks_of(run.model)) | {
        "cases": [case.to_dict() for _, case in cases],
        "cases_total": len(cases),
        "cases_shown": len(cases),
        "cases_explained": sum(case.contributions is not None for _, case in cases),
        "near_misses": [case.to_dict() for _, case in near],
    }
    return Copy(
        run=RunDocument.from_dict(document),
        smallest_group=smallest([repr(case.replace(id="")) for case in lines], owners),
        listed=len(lines),
        left_out=len(named) - len(lines),
        values_withheld=1 - sum(map(_n_values, lines)) / before if before else 0.0,
    )


def _n_values(case: Case) -> int:
    return sum(one.value != WITHHELD for one in case.contributions or ())
