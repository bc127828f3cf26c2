"""A night's document as a copy may show it: what it says of one listed patient it says of five.

What a person wrote is left out, and so is all that one patient could be known by: its model is of all past
patients together, and of a listed row everything is suppressed or banded until five patients share it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from screening.errors import ModelError, UsageError
from screening.schemas.base import Estimate
from screening.schemas.figures import BEYOND_SCORES
from screening.schemas.model import FeatureFacts, ModelDocument
from screening.schemas.run import Case, Contribution, RunDocument
from screening.teaching.key import SiteKey

Name = TypeVar("Name", bound=Hashable)
Fact = tuple[str, str, str]
"""A feature, which way it moves a score, and the band or category of its value, or that it is withheld."""

LEAST = 5
"""Patients that must share what a copy shows of any of them; and the smallest count that it shows."""

WITHHELD = "withheld"
BANDS = (1, 4)
"""Widths of a value's bands, in steps of its feature: the finest that all of a group lie in is shown."""
CHANCE_STEP = 0.05


def crowds(has: np.ndarray, owners: np.ndarray) -> list[np.ndarray]:
    """Part rows into groups of five patients or more that share as many facts as they can.

    From the top down (Mondrian, LeFevre et al. 2006): of all facts that five patients or more of a group have
    and five or more have not, that one parts it whose halves share most; where there is none the group stays.

    Parameters
    ----------
    has : bool array, shape (n_rows, n_facts)
        What could be shown of each row.
    owners : int array, shape (n_rows,)
        Whose row it is: rows of one patient hide nobody.
    """
    waiting, groups = [np.arange(len(has))], []
    while waiting:
        rows = waiting.pop()
        common, halves = -1, []
        for fact in np.flatnonzero(has[rows].any(axis=0) & ~has[rows].all(axis=0)):
            parted = [rows[has[rows, fact] == side] for side in (True, False)]
            if min(len(set(owners[half])) for half in parted) < LEAST:
                continue
            shared = sum(
                len(half) * int(has[half].all(axis=0).sum()) for half in parted
            )
            if shared > common:
                common, halves = shared, parted
        waiting += halves
        groups += [] if halves else [rows]
    return [rows for rows in groups if len(set(owners[rows])) >= LEAST]


def smallest(shown: Sequence[Hashable], owners: Sequence[Hashable]) -> int | None:
    """Count the patients behind the rarest thing shown, in a copy as it is; None where nothing is shown."""
    sharing: dict[Hashable, set[Hashable]] = {}
    for what, owner in zip(shown, owners, strict=True):
        sharing.setdefault(what, set()).add(owner)
    return min(map(len, sharing.values())) if sharing else None


def suppress_small(counts: Mapping[Name, int]) -> dict[Name, int]:
    """Leave out counts below five, and one more where the sum would give a single one away."""
    ordered = sorted(
        ((n, name) for name, n in counts.items() if n), key=lambda pair: pair[0]
    )
    hidden = [(n, name) for n, name in ordered if n < LEAST]
    if hidden and sum(n for n, _ in hidden) < LEAST:
        hidden = ordered[: len(hidden) + 1]
    names = {name for _, name in hidden}
    return {name: n for name, n in counts.items() if name not in names}


def even_step(spread: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a fifth of a spread (> 0)."""
    power = 10.0 ** math.floor(math.log10(spread / 5))
    return next(
        power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= spread / 5 * (1 - 1e-9)
    )


def at_least(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, 1 at most: a p-value that is nobody's own."""
    return min(even_step(5 * value), 1.0) if value > 0 else 0.0


def ranks_of(model: ModelDocument) -> dict[str, Callable[[float], float]]:
    """Where a threshold lies among those of its class's curve, from 0 (below all) to 100, by watched class.

    A threshold beyond all scores stands for none, and stays.
    """

    def of_class(label: str) -> Callable[[float], float]:
        curve = model.validation.curves.get(label)
        knots = sorted(
            {t for t in (curve.threshold if curve else ()) if abs(t) < BEYOND_SCORES}
        ) or [0.0]
        places = np.linspace(0, 100, len(knots))
        return lambda t: (
            t
            if abs(t) >= BEYOND_SCORES
            else round(float(np.interp(t, knots, places)), 1)
        )

    return {point.label: of_class(point.label) for point in model.operating_points}


def owner(case: Case) -> str:
    """Whose row it is."""
    return case.id if case.group is None else case.group


def listed(
    cases: Sequence[Case], model: ModelDocument, key: SiteKey
) -> Iterator[tuple[str, Case]]:
    """Yield what a copy shows of the listed rows, each with whose row it was, the highest group first.

    Rows of classes with fewer than five patients are left out.
    """
    kinds: dict[tuple[str, bool], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.label, case.contributions is None), []).append(case)
    groups = []
    features = {one.name: one for one in model.training.features}
    if not features.keys() >= {
        one.feature for case in cases for one in case.contributions or ()
    }:
        raise ModelError(
            "run.json explains cases by contributions of what is no feature of its model"
        )
    for kind in suppress_small(
        {kind: len(set(map(owner, rows))) for kind, rows in kinds.items()}
    ):
        rows = kinds[kind]
        facts = [_facts(case, features) for case in rows]
        every = list(dict.fromkeys(fact for of_row in facts for fact in of_row))
        has = np.array(
            [[fact in of_row for fact in every] for of_row in facts]
        ).reshape(len(rows), -1)
        numbers = np.unique(list(map(owner, rows)), return_inverse=True)[1]
        for group in crowds(has, numbers):
            common = [every[fact] for fact in np.flatnonzero(has[group].all(axis=0))]
            groups.append(([rows[i] for i in group], common))
    ranked = [(_line(rows, common, features, model), rows) for rows, common in groups]
    for line, rows in sorted(ranked, key=lambda pair: -pair[0].score):
        # In the order of the pseudonyms: where a row stands does not tell its rank.
        named = {key.pseudonym(case.id): owner(case) for case in rows}
        for name, whose in sorted(named.items()):
            yield whose, line.replace(id=name)


def _facts(case: Case, features: Mapping[str, FeatureFacts]) -> list[Fact]:
    """What could be said of a row's contributing values: which way they move the score, and their bands."""
    facts: list[Fact] = []
    for one in case.contributions or ():
        facts.append((one.feature, one.direction, WITHHELD))
        number = _number(one.value)
        step = _step(features[one.feature], number or 0.0)
        bands = (
            [one.value]
            if number is None
            else [_band(number, width * step) for width in BANDS]
        )
        facts += [(one.feature, one.direction, band) for band in bands[::-1]]
    return facts


def _line(
    rows: Sequence[Case],
    common: Sequence[Fact],
    features: Mapping[str, FeatureFacts],
    model: ModelDocument,
) -> Case:
    """What is true of all rows of a group: the same line for each of them, but for the name."""
    first, rank = rows[0], ranks_of(model)[rows[0].label]
    origin = (
        next(p.threshold for p in model.points if p.label == first.label)
        if model.by_excess
        else None
    )

    def above(score: float) -> float:
        return rank(score) if origin is None else rank(origin + score) - rank(origin)

    changes: dict[str, list[float]] = {}
    for case in rows:
        for one in case.contributions or ():
            changes.setdefault(one.feature, []).append(
                above(case.score) - above(case.score - one.change)
            )
    chances = [
        case.chance.ends
        for case in rows
        if case.chance and None not in case.chance.ends
    ]
    values = [
        Contribution(
            feature=name,
            value=value,
            unit=features[name].unit,
            direction=direction,
            change=round(statistics.median_low(changes[name]), 1),
            reference=features[name].reference,
        )
        # The finest band of a feature comes last.
        for name, (direction, value) in {
            name: (way, value) for name, way, value in common
        }.items()
    ]
    return Case(
        id="",
        group=None,
        row=None,
        score=round(statistics.median_low([above(case.score) for case in rows]), 1),
        p_value=Estimate(at_least(max(case.p_value.ends[0] for case in rows))),
        label=first.label,
        contributions=None
        if first.contributions is None
        else sorted(values, key=lambda one: (-abs(one.change), one.feature)),
        missing=[
            name for name in first.missing if all(name in case.missing for case in rows)
        ],
        chance=_chance(chances) if chances else None,
        **{
            name: getattr(first, name)
            for name in ("votes", "discovery", "state")
            if all(getattr(case, name) == getattr(first, name) for case in rows)
        },
    )


def _chance(ends: Sequence[tuple[float, float, float]]) -> Estimate:
    """The middle one of the rows' chances, in steps, and a band that holds their intervals."""
    middle = CHANCE_STEP * round(
        statistics.median_low([chance for chance, *_ in ends]) / CHANCE_STEP
    )
    low = CHANCE_STEP * math.floor(min(low for _, low, _ in ends) / CHANCE_STEP)
    high = CHANCE_STEP * math.ceil(max(high for *_, high in ends) / CHANCE_STEP)
    return Estimate(round(middle, 2), round(low, 2), round(min(high, 1.0), 2))


def _step(known: FeatureFacts, value: float) -> float:
    """The step of a feature's bands: a fifth of its range, or of the value where it has none."""
    low, high = known.reference or known.seen or (None, None)
    span = 0.0 if low is None or high is None else high - low
    return even_step(span or abs(value) or 1.0)


def _band(value: float, step: float) -> str:
    low = step * math.floor(value / step)
    return f"{low:.10g} to {low + step:.10g}"


def _number(value: str) -> float | None:
    """A measured value; None of a category, of what is missing, and of what is not finite."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


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
        made = {
            name: made(stored[name]) if callable(made) else made
            for name, made in others.items()
        }
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
            "column threshold rule",
            edges=None,
            known=None,
            rows=lambda rows: of_five(
                only(f"{RATES} level n events few flag_rate")(rows)
            ),
        )
    ),
    predictive=each(only("source threshold rule", rows=only(VALUES))),
    calibration=each(
        only(
            "earned log_loss misfit prevalence brier brier_skill slope decision_curve reliability",
            reason=lambda reason: reason and "see the model's own page",
        )
    ),
)

MODEL = only(
    "format_version",
    recipe=only("name title paper machine parameters", text=""),
    contract=lambda contract: {
        "cohort": only("minutes_per_review capacity prevalence coordinates")(
            contract.get("cohort", {})
        ),
        "features": each(only("type unit reference normalise"))(
            contract.get("features", {})
        ),
    },
    task=only("kind label positive classes watched"),
    operating_points=only(
        f"{POINT} class",
        misses=None,
        notes=[],
        reason=None,
        chosen_by=lambda name: name if name in CHOOSERS else "somebody",
    ),
    validation=VALIDATION,
    training=only(
        "n_rows_read n_rows_used max_rows seed",
        n_by_class=suppress_small,
        window=None,
        command=None,
        source={"files": [], "delimiter": None, "encoding": None, "rows": 0},
        notes=[],
        missing={},
        features=[],
        profile=None,
        leaks=[],
    ),
    machine=only("n_support_vectors sv_share kkt_gap", passes=[]),
    versions={},
    attention=[],
    arrays_sha256="",
    validation_sha256="",
    sha256="",
    id="",
    digest="",
)


def of_five(rows: list[Json]) -> list[Json]:
    """The rows of a table that five patients or more stand behind, by their `n`."""
    kept = suppress_small({i: row["n"] or 0 for i, row in enumerate(rows)})
    return [row for i, row in enumerate(rows) if kept.get(i)]


def five(count: int | None) -> int | None:
    """A count of five or more."""
    return None if count is None or count < LEAST else count


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _night(
    run: Json, key: SiteKey, ranks: Mapping[str, Callable[[float], float]]
) -> Json:
    """All but the list: counts of five or more, rounded shares, ranks, and no text that a person wrote."""
    scored, night = run["counts"]["scored"], key.shifted(run["date"]) or NAME
    model = MODEL(run["model"])
    for name, rank in ranks.items():
        for part in ("curves", "points", "subgroups", "predictive"):
            if name in model["validation"][part]:
                model["validation"][part][name] = in_ranks(
                    model["validation"][part][name], rank
                )
    model["operating_points"] = [
        in_ranks(one, ranks[one["class"]]) for one in model["operating_points"]
    ]

    def share(value: float | None) -> float | None:
        """In whole per cents; none where fewer than five rows stand behind it."""
        return (
            None
            if value is None
            else 0.0
            if value * scored < LEAST - 0.5
            else round(value, 2)
        )

    return only(
        "format_version groups_flagged",
        run_id=NAME,
        date=night,
        model=model,
        input={
            "files": [],
            "delimiter": None,
            "encoding": None,
            "rows": scored,
            "notes": [],
        },
        versions={},
        counts=_counts,
        refused=lambda refused: {
            reason: n for reason, n in refused.items() if n >= LEAST
        },
        evaluation=None,
        data=only(
            "name type unit normalised alarm",
            missing=share,
            missing_training=_rounded,
            psi=_rounded,
            ks=_rounded,
            outside=share,
            unseen=five,
        ),
        groups=None,
        score_counts={},
        attention=lambda reasons: [
            {
                "code": one["code"],
                "words": f"{one['code'].replace('_', ' ').capitalize()}.",
            }
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
    )(run)


def in_ranks(stored: Any, rank: Callable[[float], float]) -> Any:
    """A part of a document with every threshold of it as a rank."""
    if isinstance(stored, list):
        return [in_ranks(one, rank) for one in stored]
    if not isinstance(stored, dict):
        return stored
    ranked = {name: in_ranks(one, rank) for name, one in stored.items()}
    at = ranked.get("threshold")
    if at is not None:
        ranked["threshold"] = (
            [rank(one) for one in at] if isinstance(at, list) else rank(at)
        )
    if ranked.get("name") == "threshold":  # A rule, whose value is one.
        ranked["value"] = rank(ranked["value"])
    return ranked


def _counts(stored: Json) -> Json:
    """Counts of five or more; fewer refused rows are as if they had not been in the table."""
    refused = five(stored["refused"]) or 0
    return only(
        "scored flagged cases",
        refused=refused,
        read=stored["scored"] + refused,
        flagged_by_class=suppress_small,
        no_longer_flagged=five,
    )(stored) | suppress_small(
        {
            name: stored[name]
            for name in ("new", "pending", "ruled_out", "known")
            if stored[name]
        }
    )


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
        raise UsageError(
            f"fewer than {LEAST} patients are flagged; nobody can be hidden among so few"
        )
    cases, near = (
        list(listed(rows, run.model, key)) for rows in (run.cases, run.near_misses)
    )
    lines, owners = (
        [case for _, case in (*cases, *near)],
        [whose for whose, _ in (*cases, *near)],
    )
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
