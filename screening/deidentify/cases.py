"""The listed rows of a copy: five patients or more to every line, told apart by their pseudonyms alone."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from screening.deidentify.bands import at_least, band, step_of, told, widened
from screening.deidentify.crowds import crowds
from screening.deidentify.key import SiteKey
from screening.deidentify.ranks import Ranks
from screening.documents.model import FeatureFacts
from screening.documents.run import Case, Contribution

WITHHELD = "withheld"
CHANCE_STEP = 0.05


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

    Parameters
    ----------
    cases : sequence of Case
        The highest score first.
    features : mapping
        The features as training saw them, by name.
    ranks : mapping
        By class.
    key : SiteKey
    numbered : bool
        Whether lines have a rank; all of a group have the same.

    Yields
    ------
    str, Case
        Rows of classes with fewer than five patients are left out.
    """
    by_kind: dict[tuple[str, bool], list[int]] = {}
    for i, case in enumerate(cases):
        by_kind.setdefault((case.label, case.contributions is None), []).append(i)
    patients = {kind: len({owner(cases[i]) for i in rows}) for kind, rows in by_kind.items()}
    kept = told({repr(kind): n for kind, n in patients.items()})
    groups = []
    for kind, rows in by_kind.items():
        members = [cases[i] for i in rows] if repr(kind) in kept else []
        facts = [_facts(case, features) for case in members]
        groups += [[rows[j] for j in group] for group in crowds(facts, list(map(owner, members)))]
    place = 1
    # Within a group the order is that of the pseudonyms: the rank of a row is not told by where it stands.
    for group in sorted(groups, key=statistics.mean):
        rows = [cases[i] for i in group]
        line = _line(rows, features, ranks[rows[0].label], place if numbered else None)
        named = {key.pseudonym(case.id): owner(case) for case in rows}
        yield from ((whose, replace(line, id=name)) for name, whose in sorted(named.items()))
        place += len(group)


def _facts(case: Case, features: Mapping[str, FeatureFacts]) -> frozenset[Hashable]:
    """What could be told of a row, from coarse to fine: rows that share more of it tell more together."""
    facts: set[Hashable] = {("missing", name) for name in case.missing}
    facts |= {("state", case.state), ("discovery", case.discovery)}
    facts.add(("votes", tuple(sorted((case.votes or {}).items()))))
    for one in case.contributions or ():
        facts.add((one.feature, one.direction))
        number = _number(one)
        step = step_of(features[one.feature].usual, () if number is None else (number,))
        facts |= {
            (one.feature, width, one.value if number is None else number // (width * step))
            for width in (1, 2, 4)
        }
    return frozenset(facts)


def _line(
    rows: Sequence[Case], features: Mapping[str, FeatureFacts], ranks: Ranks, place: int | None
) -> Case:
    """What is true of all rows of a group: the same line for each of them, but for the name."""
    first = rows[0]
    lows = [each.chance_low for each in rows if each.chance_low is not None]
    highs = [each.chance_high for each in rows if each.chance_high is not None]
    chances = [each.chance for each in rows if each.chance is not None]
    return Case(
        rank=place,
        id="",
        group=None,
        row=None,
        score=statistics.median_low([ranks.of_score(each.score) for each in rows]),
        p_value=at_least(max(each.p_value for each in rows)),
        label=first.label,
        contributions=None if first.contributions is None else _contributions(rows, features, ranks),
        missing=[name for name in first.missing if all(name in each.missing for each in rows)],
        votes=first.votes if all(each.votes == first.votes for each in rows) else None,
        discovery=first.discovery if all(each.discovery == first.discovery for each in rows) else None,
        chance=_even(statistics.median(chances)) if chances else None,
        chance_low=max(_even(min(lows)) - CHANCE_STEP, 0.0) if lows else None,
        chance_high=min(_even(max(highs)) + CHANCE_STEP, 1.0) if highs else None,
        state=first.state if all(each.state == first.state for each in rows) else None,
    )


def _even(chance: float) -> float:
    return round(round(chance / CHANCE_STEP) * CHANCE_STEP, 2)


def _contributions(
    rows: Sequence[Case], features: Mapping[str, FeatureFacts], ranks: Ranks
) -> list[Contribution]:
    """Features that move all rows the same way; values in a band that holds them all."""
    shared = []
    for one in rows[0].contributions or ():
        same = [
            (case, each)
            for case in rows
            for each in case.contributions or ()
            if (each.feature, each.direction) == (one.feature, one.direction)
        ]
        if len(same) < len(rows):
            continue
        usual = features[one.feature].usual
        numbers = [number for _, each in same if (number := _number(each)) is not None]
        step = step_of(usual, numbers)
        changes = [ranks.of_change(case.score, each.change) for case, each in same]
        shared.append(
            Contribution(
                feature=one.feature,
                value=_value([each.value for _, each in same], numbers, step),
                unit=one.unit,
                usual=widened(usual, step),
                direction=one.direction,
                change=statistics.median_low(changes),
            )
        )
    return sorted(shared, key=lambda one: (-abs(one.change), one.feature))


def _value(values: Sequence[str], numbers: Sequence[float], step: float) -> str:
    if len(numbers) == len(values):
        low, high = band(numbers, step)
        return f"{low:.10g} to {high:.10g}"
    return values[0] if len(set(values)) == 1 and not numbers else WITHHELD


def _number(one: Contribution) -> float | None:
    """A measured value; None of a category, of what is missing, and of what is not finite."""
    try:
        number = float(one.value)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
