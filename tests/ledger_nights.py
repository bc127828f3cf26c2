"""Made nights of wards, entered in a ledger."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.random import default_rng

from screening.ledger.entries import Night
from screening.ledger.nights import open_night, series_by
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.metrics.control import inner_edges, score_cells
from screening.schemas.history import Question
from screening.schemas.run import ScoreCounts

QUESTION = {
    "label": "infected",
    "positive": ["yes"],
    "id": "patient",
    "group": None,
}


FACTS = {
    "run_id": "r",
    "model": "m" * 64,
    "recipe": "svm",
    "thresholds": {"yes": 0.5},
    "title": None,
    "minutes_per_review": 10.0,
    "capacity": None,
    "read": 10,
    "scored": 10,
    "refused": 0,
    "flagged": 2,
    "unflagged": {"cases": 8},
    "drift": None,
    "question": QUESTION,
}


@dataclass(frozen=True)
class FlaggedNight:
    """A night as it is entered, with its cases."""

    night: Night
    flagged: tuple[str, ...]
    sampled: tuple[str, ...]


def night(
    day: int,
    flagged: Iterable[str],
    sampled: Iterable[str] = (),
    /,
    **figures,
) -> FlaggedNight:
    """A night, days counted from January on, on which single letters are flagged."""
    new_year = datetime.date(2025, 12, 31)
    date = str(new_year + datetime.timedelta(days=day))
    facts = FACTS | {"key": f"key of {date}", "night": date} | figures
    question = Question.from_dict(facts["question"])
    series = series_by(facts.get("series"), question)
    entered = Night.from_dict(facts | {"series": series})
    return FlaggedNight(entered, tuple(flagged), tuple(sampled))


def enter(ledger, one: FlaggedNight, attention=(), **how) -> SimpleNamespace:
    """Enter a night, or find it; what the ledger says of it."""
    with open_night(ledger, one.night, one.flagged, **how) as tonight:
        if not tonight.is_entered:
            tonight.enter(attention, one.sampled)
        cases = tonight.known(one.flagged)
        return SimpleNamespace(**vars(tonight), cases=cases)


def verdicts_of(words: dict[str, str]) -> list[Verdict]:
    """Verdicts by patient."""
    return [Verdict(name, word) for name, word in words.items()]


def states(entered) -> dict[str, str]:
    return {name: case.state for name, case in entered.cases.items()}


def of_ward(
    name: str,
    day: int,
    flagged: str,
    model: str = "m",
    sampled=(),
    /,
    **other,
) -> FlaggedNight:
    """A night of a ward; every ward asks the same question."""
    return night(
        day,
        flagged,
        sampled,
        key=f"{name} {model} {day}",
        model=model * 64,
        series=name,
        **other,
    )


PATIENTS = 60


STAY = 5


NIGHTS = 30


def simulate(
    ledger,
    nights: int = NIGHTS,
    first: int = 0,
    drifts_from: int = 99,
    seed: int = 0,
    **more,
) -> dict[str, set[str]]:
    """Nights of a ward: every patient stays five nights, three in twenty are ill, all
    are judged.
    """
    rng = default_rng(seed)
    is_case = np.arange(400) % 20 < 3
    past = default_rng(1).normal(size=400) + 2.0 * is_case
    edges = inner_edges(past)
    cells = score_cells(past, edges)
    known = tuple(np.bincount(cells).tolist())
    truth: dict[str, set[str]] = {
        "found": set(),
        "judged": set(),
        "missed": set(),
    }
    for number in range(first, first + nights):
        numbers = number // STAY * PATIENTS + np.arange(PATIENTS)
        names = [f"P{patient:05d}" for patient in numbers]
        ill = {name for name in names if int(name[1:]) % 20 < 3}
        shift = 0.8 if number >= drifts_from else 0.0
        is_ill = np.array([name in ill for name in names])
        noise = rng.normal(size=PATIENTS)
        scores = noise + 2.0 * is_ill + shift
        flagged = []
        for name, score in zip(names, scores, strict=True):
            if score >= 1.5:
                flagged.append(name)
        rest = sorted(set(names) - set(flagged))
        places = rng.choice(len(rest), 5, replace=False)
        sampled = [rest[i] for i in places]
        cell = score_cells(scores, edges)
        counted = np.bincount(cell, minlength=len(known))
        counts = {
            "known": known,
            "counted": counted,
            "who": tuple(int(name[1:]) for name in names),
            "cell": tuple(cell.tolist()),
        }
        drift = ScoreCounts(unit="row", distance=0.1, p=0.4, **counts)
        figures = {
            "read": PATIENTS,
            "scored": PATIENTS,
            "flagged": len(flagged),
            "capacity": 12,
        }
        figures["unflagged"] = {"cases": len(rest)}
        figures["drift"] = drift.to_dict()
        date = f"2026-01-{number + 1:02d}"
        one = night(number + 1, flagged, sampled, key=date, **figures | more)
        enter(ledger, one, force=True)
        said = [
            Verdict(name, "confirmed" if name in ill else "ruled out")
            for name in [*flagged, *sampled]
        ]
        record_verdicts(ledger, date, said)
        truth["found"] |= ill & set(flagged)
        truth["judged"] |= set(flagged)
        truth["missed"] |= {f"{date} {name}" for name in ill - set(flagged)}
    return truth
