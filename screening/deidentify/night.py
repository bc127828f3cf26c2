"""A night's document as a copy may show it, put together of what may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from screening.deidentify.cases import WITHHELD, alike, owner
from screening.deidentify.k_anonymity import LEAST, at_least, share, smallest, suppress_small
from screening.deidentify.key import SiteKey
from screening.deidentify.model import Json, Ranks, deidentified_model, of_five, only, ranks_of
from screening.documents.run import Case, RunDocument
from screening.errors import UsageError

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
    features, ranks = {each.name: each for each in run.model.training.features}, ranks_of(run.model)
    cases = list(alike(run.cases, features, ranks, key, numbered=True))
    near = list(alike(run.near_misses, features, ranks, key, numbered=False))
    lines, owners = [case for _, case in (*cases, *near)], [whose for whose, _ in (*cases, *near)]
    listed = [*run.cases, *run.near_misses]
    before = sum(len(case.contributions or ()) for case in listed)
    document = _night(run.to_dict(), key, ranks) | {
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
        left_out=len(listed) - len(lines),
        values_withheld=1 - sum(map(_n_values, lines)) / before if before else 0.0,
    )


def _n_values(case: Case) -> int:
    return sum(one.value != WITHHELD for one in case.contributions or ())


def _night(run: Json, key: SiteKey, ranks: Mapping[str, Ranks]) -> Json:
    """All but the list: counts of five or more, rounded shares, ranks, and no text that a person wrote."""
    scored, night = run["counts"]["scored"], key.shifted(run["date"]) or NAME
    columns: dict[str, list[Json]] = {}
    for row in run["subgroups"]:
        columns.setdefault(row["column"], []).append(row)
    return only(
        run, "format_version groups_flagged",
        run_id=NAME,
        date=night,
        model=deidentified_model(run["model"], key, ranks),
        input={"files": [], "delimiter": None, "encoding": None, "rows": scored, "notes": []},
        versions={},
        counts=_counts(run["counts"]),
        refused={reason: n for reason, n in run["refused"].items() if n >= LEAST},
        evaluation=None,
        data=[_feature(each, scored) for each in run["data"]],
        groups=None,
        score_counts={
            name: _reaching(each, ranks[name]) for name, each in run["score_counts"].items() if name in ranks
        },
        attention=[
            {"code": each["code"], "words": f"{each['code'].replace('_', ' ').capitalize()}."}
            for each in run["attention"]
        ],
        sample=[],
        unflagged={"cases": _five(run["unflagged"]["cases"]) or 0},
        discoveries=_discoveries(run["discoveries"]),
        subgroups=[
            only(row, "column level n", flag_rate=_rounded(row["flag_rate"]))
            for rows in columns.values() for row in of_five(rows)
        ],
        prevalence_estimate=run["prevalence_estimate"]
        and {name: round(each, 3) for name, each in run["prevalence_estimate"].items()},
        pseudonymised=True,
        times={"started": night, "seconds": 0.0},
        sha256="",
    )  # fmt: skip


def _five(count: int | None) -> int | None:
    return None if count is None or count < LEAST else count


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _counts(stored: Json) -> Json:
    """Counts of five or more; fewer refused rows are as if they had not been in the table."""
    refused = _five(stored["refused"]) or 0
    known = only(stored, "new ongoing reviewed known")
    resolved = stored.get("resolved")
    return only(
        stored, "scored flagged cases",
        read=stored["scored"] + refused,
        refused=refused,
        flagged_by_class=suppress_small(stored["flagged_by_class"]),
        resolved=resolved and _five(resolved),
        **suppress_small(known),
    )  # fmt: skip


def _feature(stored: Json, n_rows: int) -> Json:
    outside = stored.get("outside")
    return only(
        stored, "name type unit normalised alarm",
        missing=share(stored["missing"], n_rows),
        missing_training=_rounded(stored["missing_training"]),
        psi=_rounded(stored.get("psi")),
        ks=_rounded(stored.get("ks")),
        outside=None if outside is None else share(outside, n_rows),
        unseen=_five(stored.get("unseen")),
    )  # fmt: skip


def _reaching(stored: Json, ranks: Ranks) -> Json:
    """How many rows reach each rank, where at least five lie between one rank and the next."""
    kept: list[tuple[float | None, int]] = []
    for threshold, count in zip(stored["thresholds"], stored["counts"], strict=True):
        if not kept or abs(count - kept[-1][1]) >= LEAST:
            kept.append((None if threshold is None else ranks.of_threshold(threshold), count))
    return {"thresholds": [threshold for threshold, _ in kept], "counts": [count for _, count in kept]}


def _discoveries(stored: Json | None) -> Json | None:
    """What remains rare among many, unless it is one to four."""
    if stored is None or 0 < stored["found"] < LEAST:
        return None
    cut = stored["p_cut"]
    return only(
        stored, "q per n_screened n_calibration found flagged",
        p_cut=None if cut is None else at_least(cut), warning=None,
    )  # fmt: skip
