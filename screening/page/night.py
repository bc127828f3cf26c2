"""The head of the page: what this is, whether it can be relied on, counts that add up, where scores lie."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from screening.documents import Reason
from screening.documents.drift import words
from screening.documents.model import ModelDocument
from screening.documents.run import Discoveries, RunDocument
from screening.page import format as shown
from screening.page.performance import promise

CHANGES = (
    ("new", "new"),
    ("ongoing", "flagged before, not judged"),
    ("reviewed", "judged not a case"),
    ("known", "known to have it"),
    ("resolved", "gone"),
)


def run_banner(run: RunDocument) -> dict[str, object]:
    """Return the banner of a run: date, model, intended use, and OK or ATTENTION with its reasons."""
    model = run.model
    return (
        {
            "title": _title(model),
            "kind": "Night of",
            "date": shown.name(run.date),
            "facts": [
                ("Model", f"{shown.name(model.recipe.title)} · {shown.name(model.id)}"),
                ("Model digest", _digest(model.digest)),
                ("Trained on", _trained_on(model)),
                ("Run", shown.name(run.run_id)),
                *([("Copy", "for teaching: every id is a pseudonym")] if run.pseudonymised else []),
            ],
            "intended_use": _use(model),
            "brief": True,
        }
        | reasons(run.attention)
        | ({} if run.pseudonymised else {"state": _state(model)})
    )


def model_banner(model: ModelDocument) -> dict[str, object]:
    """Return the banner of a trained model."""
    return {
        "title": _title(model),
        "kind": "Trained model",
        "date": "",
        "facts": [
            ("Method", shown.name(model.recipe.title)),
            ("Model digest", _digest(model.sha256)),
            ("Trained on", _trained_on(model)),
            ("State", _state(model)),
        ],
        "intended_use": _use(model),
        "brief": False,
    } | reasons(model.attention)


def _state(model: ModelDocument) -> str:
    """Whether somebody answers for the model's use."""
    approval = model.approval
    if approval is None:
        return "draft, not approved for use"
    words = f"approved for use by {shown.text(approval.by, 100)} on {shown.name(approval.date)}"
    return words if approval.reason is None else f"{words}: {shown.text(approval.reason, 300)}"


def terms(model: ModelDocument) -> dict[str, bool]:
    """Return which of its terms a page has to explain."""
    return {
        "by_group": model.validation.grouped,
        "chance": any(found.earned for found in model.validation.calibration.values()),
        "factor": any(one.get("factor") for one in model.machine.passes),
    }


def _title(model: ModelDocument) -> str:
    return shown.name(model.stated.title or f"Screening for {model.task.label}")


def _digest(value: str) -> str:
    """Return the head of a digest; the model card has the whole."""
    return f"{shown.text(value[:16])}…" if value else shown.NOT_KNOWN


def _trained_on(model: ModelDocument) -> str:
    words, window = shown.plural(model.training.n_rows_used, "row"), model.training.window
    if window:
        words += f", {shown.name(window[0])} to {shown.name(window[1])}"
    return words


def _use(model: ModelDocument) -> str:
    return shown.text(model.stated.intended_use or "Not stated in the contract.")


def reasons(attention: Sequence[Reason]) -> dict[str, object]:
    """Why the page says ATTENTION, and what can be done about it, each said once."""
    remedies = dict.fromkeys(reason.remedy for reason in attention if reason.remedy)
    return {
        "reasons": [shown.text(reason.words, 400) for reason in attention],
        "remedies": [shown.text(remedy, 400) for remedy in remedies],
    }


def _of_erased(how_many: int) -> list[str]:
    """Say that the page names fewer than it did, and counts as many."""
    if not how_many:
        return []
    was = "was" if how_many == 1 else "were"
    who = shown.plural(how_many, "patient")
    return [f"{who} named here {was} erased since; the counts stay as they were."]


def _noun(how_many: int, unit: str) -> str:
    return shown.plural(how_many, unit).split(" ", 1)[1]


def tonight(run: RunDocument, differing: int = 0) -> dict[str, object]:
    """Return the counts of the night and what to expect, given how many features differ from training."""
    model, counts = run.model, run.counts
    unit = model.unit_of_review
    differ = shown.plural(differing, "feature differs", "features differ")
    order = {point.label: i for i, point in enumerate(model.points)}
    by_class = sorted(counts.flagged_by_class.items(), key=lambda one: (order[one[0]], one[0]))
    states = {key: getattr(counts, key) for key, _ in CHANGES}
    return {
        "waiting": shown.count(run.awaited),
        "what": f"{_noun(run.awaited, 'patient' if run.groups or unit == 'row' else unit)} to look at",
        "work": "; ".join(_work(run)),
        "read": shown.count(counts.read),
        "scored": f"{shown.count(counts.scored)} {_noun(counts.scored, unit)}",
        "refused": shown.count(counts.refused),
        "flagged": shown.plural(counts.flagged, unit) if run.groups else shown.count(counts.flagged),
        "within": _in_groups(run),
        "why_refused": [
            (shown.text(reason, 300), shown.count(n)) for reason, n in sorted(run.refused.items())
        ],
        "classes": [(shown.name(label), shown.count(n)) for label, n in by_class] if model.multi else [],
        "since": f"Since {shown.name(run.since.night)}:" if run.since else "",
        "changes": [
            (words, shown.count(states[key]))
            for key, words in CHANGES
            if states[key] is not None and not (run.since and key == "resolved")
        ],
        "gone": [shown.name(name) for name in run.since.gone] if run.since else [],
        "sentences": _of_erased(run.erased)
        + [
            (f"{shown.name(point.label)}: " if model.multi else "") + said
            for point in model.points
            if (said := promise(model, point))
        ]
        + (
            [f"That was found on data like those of training; tonight {differ} notably."] if differing else []
        ),
        "data": f"{differ} notably from training" if differing else "",
    }


def _in_groups(run: RunDocument) -> str:
    """Say in how many patients the flagged rows lie: patients, not rows, are reviewed."""
    if not run.groups:
        return ""
    whole = len(run.groups) if run.groups_total is None else run.groups_total
    return f"in {shown.count(run.to_review)} of {shown.plural(whole, 'patient')}"


def _work(run: RunDocument) -> list[str]:
    """What the reviews that wait take, beside what a night has room for."""
    stated, said = run.model.stated, []
    if run.awaited != run.to_review:
        said.append(f"{shown.count(run.to_review)} flagged, the others judged before")
    if stated.minutes_per_review is not None:
        said.append(f"about {_time(stated.minutes_per_review * run.awaited)}")
    if stated.capacity is not None:
        said.append(f"capacity {shown.plural(stated.capacity, 'review')} a night")
    return said


def _time(minutes: float) -> str:
    return shown.plural(minutes, "minute") if minutes < 120 else f"{shown.ratio(minutes / 60)} hours"


WIDTH, HEIGHT = 720, 74
FLOOR = 70
STEP = 6
HIGHEST = 10
"""Dots on top of each other at most; on a larger night each stands for several."""


def strip(run: RunDocument) -> dict[str, object] | None:
    """Return every score of a night as dots on a canvas; None where no score was counted for it."""
    scale = run.scale
    if scale is None or not sum(scale.tonight):
        return None
    least = 0.0 if run.model.by_excess else run.model.points[0].threshold
    across = WIDTH / (scale.high - scale.low)
    counts, flagged = list(scale.tonight), _flagged(scale.tonight, run.to_review)
    each = -(-max(counts) // HIGHEST)
    one = "patient" if run.groups or run.model.unit_of_review == "row" else run.model.unit_of_review
    n_past = sum(scale.past_cases)
    room = run.stopping
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "rest": _dots([n - hit for n, hit in zip(counts, flagged, strict=True)], flagged, each),
        "flagged": _dots(flagged, [0] * len(counts), each),
        "past": _behind(scale.past_cases),
        "threshold": _inside((least - scale.low) * across),
        "room": _inside((room.score - scale.low) * across) if room else None,
        "each": f"one dot {one}" if each == 1 else f"one dot up to {shown.plural(each, one)}",
        "past_cases": shown.count(n_past),
        "said": f"From low to high scores: {shown.count(sum(counts) - sum(flagged))} below the threshold, "
        f"{shown.count(sum(flagged))} at or above it. Behind them {shown.plural(n_past, 'past case')}.",
    }


def _flagged(counts: Sequence[int], total: int) -> list[int]:
    """How many of each step are flagged: the highest, so many as there are."""
    found, left = [0] * len(counts), total
    for place in reversed(range(len(counts))):
        found[place] = min(counts[place], left)
        left -= found[place]
    return found


def _dots(counts: Sequence[int], below: Sequence[int], each: int) -> Markup:
    """A column of dots a step: one line of no length but its dashes, which costs a few letters."""
    wide = WIDTH / len(counts)
    drawn = []
    for place, (n, under) in enumerate(zip(counts, below, strict=True)):
        if n:
            dots, base = -(-n // each), FLOOR - STEP * -(-under // each) - STEP / 2
            drawn.append(f"M{(place + 0.5) * wide:.0f} {base:g}v-{STEP * (dots - 1) + 0.1:g}")
    return Markup("".join(drawn))


def _behind(counts: Sequence[int]) -> Markup:
    """The past cases as an area, three steps together: they are few."""
    near = [sum(counts[max(i - 2, 0) : i + 3]) for i in range(len(counts))]
    tallest, wide = max(near) or 1, WIDTH / len(counts)
    steps = "".join(
        f"L{(i + 0.5) * wide:.0f} {FLOOR - 0.9 * FLOOR * n / tallest:.0f}" for i, n in enumerate(near)
    )
    return Markup(f"M0 {FLOOR}{steps}L{WIDTH} {FLOOR}Z")


def _inside(x: float) -> float | None:
    return round(x, 1) if 0 <= x <= WIDTH else None


def rarity(run: RunDocument) -> dict[str, object] | None:
    """Return the sentences on false discoveries and on drift; None for a run that holds neither."""
    found = run.discoveries
    if not found and not run.drift:
        return None
    sentences = [_discovered(found)] if found else []
    if found and found.warning and not found.found:
        sentences.append(f"Too coarse to tell: {shown.text(found.warning)}.")
    return {"sentences": sentences, "drift": words(run.drift)}


def _discovered(found: Discoveries) -> str:
    screened = shown.plural(found.n_screened, "patient" if found.per == "group" else "row")
    rate = shown.percent(found.q)
    head = f"Of {screened} screened, some look rare by chance alone."
    if not found.found:
        return (
            f"{head} None is rare enough to be reported at a false discovery rate of {rate} "
            "(Benjamini-Hochberg)."
        )
    count = shown.plural(found.found, "is", "are")
    return (
        f"{head} {count} rare even so: p at most {shown.p_value(found.p_cut)}, where no more than "
        f"about {rate} of those reported are expected to be false (Benjamini-Hochberg). They are marked FDR. "
        "The mark is a note on rarity; the list follows the threshold "
        f"({shown.count(found.flagged)} flagged)."
    )
