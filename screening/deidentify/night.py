"""A night's document as a copy may show it: its model, of all past patients together, and what was listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from screening.deidentify.k_anonymity import (
    LEAST,
    WITHHELD,
    Ranks,
    alike,
    at_least,
    owner,
    ranks_of,
    share,
    smallest,
    step_of,
    suppress_small,
    widened,
)  # fmt: skip
from screening.deidentify.key import SiteKey
from screening.documents.run import Case, RunDocument
from screening.errors import UsageError

Json = dict[str, Any]

RATES = "sensitivity specificity"
VALUES = "prevalence ppv npv nne flag_rate"
SIZES = "n_positive n_negative n_groups"
AREAS = "auroc average_precision"
CHOOSERS = ("training", "screen threshold")


def only(stored: Mapping[str, Any], names: str, **others: object) -> Json:
    """These keys of an object and no other, so that nothing new slips through; and what is given."""
    return {name: stored[name] for name in names.split() if name in stored} | others


def deidentified_model(model: Json, key: SiteKey, ranks: Mapping[str, Ranks]) -> Json:
    """Return what may be shown of a run's model, as JSON like the model itself."""
    contract = model["contract"]
    return only(
        model, "format_version",
        recipe=only(model["recipe"], "name title paper machine parameters", text=""),
        contract={
            "cohort": only(
                contract.get("cohort", {}), "minutes_per_review capacity prevalence coordinates"
            ),
            "features": {
                name: only(feature, "type unit reference normalise")
                for name, feature in contract.get("features", {}).items()
            },
        },
        task=only(model["task"], "kind label positive classes watched"),
        operating_points=[_operating_point(each, ranks[each["class"]]) for each in model["operating_points"]],
        validation=_validation(model["validation"], ranks),
        training=_training(model["training"], key),
        machine=only(model["machine"], "n_support_vectors sv_share kkt_gap", passes=[]),
        versions={}, attention=[], arrays_sha256="", validation_sha256="", sha256="", id="", digest="",
    )  # fmt: skip


def _of_rule(stored: Json, ranks: Ranks) -> Json:
    """A threshold as a rank, and the rule that chose it."""
    threshold = ranks.of_threshold(stored["threshold"])
    rule = only(stored["rule"], "name value confidence prevalence")
    given = {"value": threshold} if rule["name"] == "threshold" else {}
    return {"threshold": threshold, "rule": rule | given}


def _point(stored: Json, ranks: Ranks) -> Json:
    return only(stored, f"{RATES} {VALUES} {SIZES}", misses=None, notes=[], **_of_rule(stored, ranks))


def _operating_point(stored: Json, ranks: Ranks) -> Json:
    chooser = stored["chosen_by"] if stored["chosen_by"] in CHOOSERS else "somebody"
    return _point(stored, ranks) | {"class": stored["class"], "chosen_by": chooser, "reason": None}


def _validation(stored: Json, ranks: Mapping[str, Ranks]) -> Json:
    def of_class(key: str, shown: Callable[[Any, Ranks], object]) -> Json:
        """What is shown of each watched class."""
        return {name: shown(each, ranks[name]) for name, each in stored[key].items() if name in ranks}

    return only(
        stored, "folds repeats grouped n_rows n_positive n_groups n_machines encoded_by",
        search=only(
            stored["search"], "criterion n_candidates chosen", candidates=[], scores=[], dropped=[]
        ),
        prevalence={},
        summary=of_class("summary", lambda each, _: only(each, f"{SIZES} prevalence {AREAS}")),
        curves=of_class("curves", _curve),
        points=of_class("points", lambda points, own: [_point(each, own) for each in points]),
        subgroups=of_class("subgroups", lambda columns, own: [_subgroup(each, own) for each in columns]),
        predictive=of_class("predictive", _predictive),
        calibration=of_class("calibration", lambda each, _: _calibration(each)),
    )  # fmt: skip


def _curve(stored: Json, ranks: Ranks) -> Json:
    thresholds = [each if each is None else ranks.of_threshold(each) for each in stored["threshold"]]
    return only(stored, f"{RATES} flag_rate ppv npv", threshold=thresholds)


def _predictive(stored: Json, ranks: Ranks) -> Json:
    rows = [only(row, VALUES) for row in stored["rows"]]
    return only(stored, "source", rows=rows, **_of_rule(stored, ranks))


def of_five(rows: list[Json]) -> list[Json]:
    """The rows of a table that five patients or more stand behind, by their `n`."""
    kept = suppress_small({i: row["n"] or 0 for i, row in enumerate(rows)})
    return [row for i, row in enumerate(rows) if kept.get(i)]


def _subgroup(stored: Json, ranks: Ranks) -> Json:
    rows = [only(row, f"{RATES} level n events few flag_rate") for row in of_five(stored["rows"])]
    return only(stored, "column", edges=None, known=None, rows=rows, **_of_rule(stored, ranks))


def _calibration(stored: Json) -> Json:
    curve, bins = stored.get("decision_curve"), stored.get("reliability", ())
    return only(
        stored, "earned log_loss misfit prevalence brier brier_skill slope",
        reason=None if stored["earned"] else "see the model's own page",
        reliability=[only(each, "predicted observed n size") for each in bins],
        decision_curve=curve and only(curve, "threshold model all"),
    )  # fmt: skip


def _training(stored: Json, key: SiteKey) -> Json:
    window = [day for each in stored["window"] or () if (day := key.shifted(each))]
    n = stored["n_rows_used"]
    return only(
        stored, "n_rows_read n_rows_used max_rows seed",
        source={"files": [], "delimiter": None, "encoding": None, "rows": stored["n_rows_read"]},
        n_by_class=suppress_small(stored["n_by_class"]),
        window=window if len(window) == 2 else None,
        command=None,
        notes=[],
        missing={name: share(each, n) for name, each in stored["missing"].items()},
        features=[_feature(each) for each in stored["features"]],
        profile=None,
        leaks=[],
    )  # fmt: skip


def _feature(stored: Json) -> Json:
    seen, median = stored["seen"], stored["median"]
    step = step_of(stored["reference"] or seen)
    return only(
        stored, "name type unit reference",
        seen=widened(seen, step),
        median=median if median is None or isinstance(median, str) else round(median / step) * step,
        description=None,
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
        data=[_night_feature(each, scored) for each in run["data"]],
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
    known = only(stored, "new pending ruled_out known")
    gone = stored.get("no_longer_flagged")
    return only(
        stored, "scored flagged cases",
        read=stored["scored"] + refused,
        refused=refused,
        flagged_by_class=suppress_small(stored["flagged_by_class"]),
        no_longer_flagged=gone and _five(gone),
        **suppress_small(known),
    )  # fmt: skip


def _night_feature(stored: Json, n_rows: int) -> Json:
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
