"""The listed rows of a copy: five patients or more to every line, told apart by their pseudonyms alone."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence

from screening.deidentify.k_anonymity import LEAST, at_least, band, crowds, step_of, suppress_small, widened
from screening.deidentify.key import SiteKey
from screening.deidentify.model import Ranks
from screening.documents.base import Estimate
from screening.documents.model import FeatureFacts
from screening.documents.run import Case, Contribution

WITHHELD = "withheld"
CHANCE_STEP = 0.05
# Values within so many steps of a band are taken for near each other.
NEAR_STEPS = 4
MOST_WORDS = 3


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
