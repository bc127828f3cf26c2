"""What a copy shows of its model: how it was made and how good it is, of all past patients together."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from screening.deidentify.k_anonymity import share, step_of, suppress_small, widened
from screening.deidentify.key import SiteKey
from screening.documents.figures import BEYOND_SCORES
from screening.documents.model import ModelDocument


@dataclass(frozen=True)
class Ranks:
    """Where a score lies among the thresholds of a class's curve, from 0 (below all) to 100 (above all).

    `knots` ascend; between two of them the rank is a straight line. `origin` is what a stored score is
    counted from: the class's threshold where several classes are watched.
    """

    knots: Sequence[float]
    origin: float | None = None

    def of_threshold(self, value: float) -> float:
        """The rank of a threshold; one beyond all scores stands for none, and stays."""
        if abs(value) >= BEYOND_SCORES:
            return value
        right = bisect.bisect_left(self.knots, value)
        if right in (0, len(self.knots)):
            return 0.0 if right == 0 else 100.0
        low, high = self.knots[right - 1], self.knots[right]
        return round(100 * (right - 1 + (value - low) / (high - low)) / (len(self.knots) - 1), 1)

    def of_score(self, score: float) -> float:
        """The rank of a stored score, counted from the rank of what the score is counted from."""
        return round(self._above(score), 1)

    def of_change(self, score: float, change: float) -> float:
        """How many ranks a change of the score is worth."""
        return round(self._above(score) - self._above(score - change), 1)

    def _above(self, score: float) -> float:
        if self.origin is None:
            return self.of_threshold(score)
        return self.of_threshold(self.origin + score) - self.of_threshold(self.origin)


def ranks_of(model: ModelDocument) -> Mapping[str, Ranks]:
    """The ranks of each watched class."""
    ranks = {}
    for point in model.operating_points:
        curve = model.validation.curves.get(point.label)
        knots = {each for each in (curve.threshold if curve else ()) if each is not None}
        finite = sorted(each for each in knots if math.isfinite(each) and abs(each) < BEYOND_SCORES)
        ranks[point.label] = Ranks(finite, point.threshold if model.by_excess else None)
    return ranks


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
