"""Nobody stands out: groups of at least five patients, bands in place of values, small counts suppressed.

The listed rows of a copy are told apart by their pseudonyms alone.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from screening.deidentify.key import SiteKey
from screening.documents.base import Estimate, Range
from screening.documents.figures import BEYOND_SCORES
from screening.documents.model import FeatureFacts, ModelDocument
from screening.documents.run import Case, Contribution

Name = TypeVar("Name", bound=Hashable)

LEAST = 5
"""Patients that must share what a copy shows of any of them; and the smallest count that it shows."""


def crowds(facts: Sequence[frozenset[Hashable]], owners: Sequence[Hashable]) -> list[list[int]]:
    """Group rows so that each group is of five patients or more, and shares as many facts as it can.

    From the top, a row takes to it the row that shares most with all of the group so far, the nearest one
    among equals, until five patients stand together; what is left over at the end joins the group with which
    it shares most (k-member clustering, Byun et al. 2007).

    `facts` say what could be shown of each row, the most suspicious first, `owners` whose row it is: rows of
    one patient hide nobody. Each row number is in one group; there is none where there are fewer than five
    patients.
    """
    left, groups, common = list(range(len(facts))), [], []
    while len({owners[i] for i in left}) >= LEAST:
        group = [left.pop(0)]
        shared = facts[group[0]]
        while len(known := {owners[i] for i in group}) < LEAST:
            others = [i for i in left if owners[i] not in known]
            best = max(others, key=lambda i: len(shared & facts[i]))
            left.remove(best)
            group.append(best)
            shared &= facts[best]
        groups.append(group)
        common.append(shared)
    for i in left if groups else ():
        best = max(range(len(groups)), key=lambda g: len(common[g] & facts[i]))
        groups[best].append(i)
        common[best] &= facts[i]
    return groups


def smallest(shown: Sequence[Hashable], owners: Sequence[Hashable]) -> int | None:
    """Count the patients behind the rarest thing shown, in a copy as it is; None where nothing is shown."""
    sharing: dict[Hashable, set[Hashable]] = {}
    for what, owner in zip(shown, owners, strict=True):
        sharing.setdefault(what, set()).add(owner)
    return min(map(len, sharing.values())) if sharing else None


def suppress_small(counts: Mapping[Name, int]) -> dict[Name, int]:
    """Leave out counts below five, and one more where the sum would give a single one away."""
    ordered = sorted(((n, name) for name, n in counts.items() if n), key=lambda pair: pair[0])
    hidden = [(n, name) for n, name in ordered if n < LEAST]
    if hidden and sum(n for n, _ in hidden) < LEAST:
        hidden = ordered[: len(hidden) + 1]
    names = {name for _, name in hidden}
    return {name: n for name, n in counts.items() if name not in names}


def share(value: float, of: int) -> float:
    """A share in whole per cents; none where fewer than five rows stand behind it."""
    return 0.0 if value * of < LEAST - 0.5 else round(value, 2)


def even_step(spread: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a fifth of a spread (> 0)."""
    power = 10.0 ** math.floor(math.log10(spread / 5))
    return next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= spread / 5 * (1 - 1e-9))


def at_least(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, 1 at most: a p-value that is nobody's own."""
    return min(even_step(5 * value), 1.0) if value > 0 else 0.0


def step_of(learned: Range | None, values: Sequence[float] = ()) -> float:
    """The step of a feature's bands: a fifth of its range, or of the values' span if that is more."""
    low, high = learned or (None, None)
    spans = [high - low] if low is not None and high is not None else []
    spans.append(max(values, default=0.0) - min(values, default=0.0))
    return even_step(max(spans) or max(map(abs, values), default=0.0) or 1.0)


def band(values: Sequence[float], step: float) -> tuple[float, float]:
    """Return the ends of the band in which all values lie: multiples of the step, and nobody's own."""
    low = math.floor(min(values) / step)
    return low * step, (math.floor(max(values) / step) + 1) * step


def widened(seen: Range | None, step: float) -> Range | None:
    """A range learned from patients with its ends moved outwards to multiples of a step."""
    if seen is None:
        return None
    low, high = seen
    return (
        None if low is None else math.floor(low / step) * step,
        None if high is None else math.ceil(high / step) * step,
    )


WITHHELD = "withheld"
CHANCE_STEP = 0.05
# Values within so many steps of a band are taken for near each other.
NEAR_STEPS = 4
MOST_WORDS = 3


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


def owner(case: Case) -> str:
    """Whose row it is."""
    return case.id if case.group is None else case.group


def alike(
    cases: Sequence[Case],
    features: Mapping[str, FeatureFacts],
    ranks: Mapping[str, Ranks],
    key: SiteKey,
    numbered: bool,
) -> Iterator[tuple[str, Case]]:
    """Yield what a copy shows of the listed rows, each with whose row it was.

    `cases` come with the highest score first. Where lines are `numbered` all of a group have the same rank.
    Rows of classes with fewer than five patients are left out.
    """
    by_kind: dict[tuple[str, bool], list[Case]] = {}
    for case in cases:
        by_kind.setdefault((case.label, case.contributions is None), []).append(case)
    patients = {kind: len({owner(case) for case in rows}) for kind, rows in by_kind.items()}
    words = _common_words(cases)
    groups: list[tuple[Case, list[Case]]] = []
    for kind in suppress_small(patients):
        rows = by_kind[kind]
        for group in crowds([_facts(case, features) for case in rows], list(map(owner, rows))):
            crowd = [rows[i] for i in group]
            groups.append((_line(crowd, features, words, ranks[crowd[0].label]), crowd))
    place = 1
    for line, crowd in sorted(groups, key=lambda pair: -pair[0].score):
        # In the order of the pseudonyms: where a row stands does not tell its rank.
        named = {key.pseudonym(case.id): owner(case) for case in crowd}
        for name, whose in sorted(named.items()):
            yield whose, line.replace(id=name, rank=place if numbered else None)
        place += len(crowd)


def _facts(case: Case, features: Mapping[str, FeatureFacts]) -> frozenset[Hashable]:
    """What moves a row's score which way, and roughly how its values lie: by this rows are put together."""
    facts: set[Hashable] = set()
    for one in case.contributions or ():
        number = _number(one)
        known = features[one.feature]
        step = step_of(known.reference or known.seen, [] if number is None else [number])
        near = one.value if number is None else number // (NEAR_STEPS * step)
        facts |= {(one.feature, one.direction), (one.feature, one.direction, near)}
    return frozenset(facts)


def _common_words(cases: Sequence[Case]) -> frozenset[tuple[str, str]]:
    """Categories, by feature, that five patients of the list have: no other is told."""
    owners: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        for one in case.contributions or ():
            owners.setdefault((one.feature, one.value), set()).add(owner(case))
    return frozenset(word for word, having in owners.items() if len(having) >= LEAST)


def _line(
    rows: Sequence[Case],
    features: Mapping[str, FeatureFacts],
    words: frozenset[tuple[str, str]],
    ranks: Ranks,
) -> Case:
    """What is true of all rows of a group: the same line for each of them, but for the name."""
    first = rows[0]
    common = {
        name: getattr(first, name)
        for name in ("votes", "discovery", "state")
        if all(getattr(each, name) == getattr(first, name) for each in rows)
    }
    return Case(
        id="",
        group=None,
        row=None,
        score=statistics.median_low([ranks.of_score(each.score) for each in rows]),
        p_value=Estimate(at_least(max(each.p_value.ends[0] for each in rows))),
        label=first.label,
        contributions=None if first.contributions is None else _contributions(rows, features, words, ranks),
        missing=[name for name in first.missing if all(name in each.missing for each in rows)],
        chance=_chance([each.chance.ends for each in rows if each.chance is not None]),
        **common,
    )


def _chance(ends: Sequence[tuple[float, float, float]]) -> Estimate | None:
    """The middle of the rows' chances, and ends that hold all of theirs."""
    if not ends:
        return None
    chances, lows, highs = zip(*ends, strict=True)
    low, high = _even(min(lows)) - CHANCE_STEP, _even(max(highs)) + CHANCE_STEP
    return Estimate(_even(statistics.median(chances)), max(low, 0.0), min(high, 1.0))


def _even(chance: float) -> float:
    return round(round(chance / CHANCE_STEP) * CHANCE_STEP, 2)


def _contributions(
    rows: Sequence[Case],
    features: Mapping[str, FeatureFacts],
    words: frozenset[tuple[str, str]],
    ranks: Ranks,
) -> list[Contribution]:
    """Features that move all rows the same way; values in a band that holds them all."""
    own = [{(one.feature, one.direction): one for one in case.contributions or ()} for case in rows]
    shared = []
    for feature, direction in own[0]:
        same = [known[feature, direction] for known in own if (feature, direction) in known]
        if len(same) < len(rows):
            continue
        ranges = features[feature]
        numbers = [number for each in same if (number := _number(each)) is not None]
        step = step_of(ranges.reference or ranges.seen, numbers)
        low, high = band(numbers, step) if len(numbers) == len(same) else (None, None)
        changes = [ranks.of_change(case.score, one.change) for case, one in zip(rows, same, strict=True)]
        shared.append(
            Contribution(
                feature=feature,
                value=_either(same, words) if low is None else f"{low:.10g} to {high:.10g}",
                unit=same[0].unit,
                direction=direction,
                change=statistics.median_low(changes),
                reference=ranges.reference,
                seen=widened(ranges.seen, step),
            )
        )
    return sorted(shared, key=lambda one: (-abs(one.change), one.feature))


def _either(found: Sequence[Contribution], words: frozenset[tuple[str, str]]) -> str:
    """The categories of a group, where they are few and each is common."""
    values = sorted({each.value for each in found})
    common = all((found[0].feature, value) in words for value in values)
    return " or ".join(values) if common and len(values) <= MOST_WORDS else WITHHELD


def _number(one: Contribution) -> float | None:
    """A measured value; None of a category, of what is missing, and of what is not finite."""
    try:
        number = float(one.value)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
