"""Which items of TRIPOD+AI the page and the model's record answer, and which someone has still to write.

After Collins et al., TRIPOD+AI statement, BMJ 2024;385:e078378. Items about a study's text (ethics, funding,
interpretation) are listed as what they are: not for a program to answer.
"""

from __future__ import annotations

from screening.documents.model import ModelDocument
from screening.page import format as shown

ANSWERED, PARTLY, OPEN = "stated", "partly", "not stated"


def completeness(model: ModelDocument) -> list[dict[str, str]]:
    """Return one row an item: number, what is asked, whether it is answered, and where or what is missing."""
    stated, training, validation = model.stated, model.training, model.validation
    features = training.features
    described = sum(bool(feature.description or feature.unit) for feature in features)
    earned = any(found.earned for found in validation.calibration.values())
    later = validation.forward is not None and validation.forward.classes
    used, subgroups = model.operating_points, any(validation.subgroups.values())
    return [
        _row("1", "Title", stated.title, "Banner", "title in the contract"),
        _row("3, 4", "Context, target population, purpose", stated.intended_use, "Banner",
             "intended_use in the contract"),
        _row("5a", "Sources of data", training.source.files, "Provenance", "files"),
        _row("5b", "Dates of the data", training.window, "Banner, Training cohort",
             "time in the contract"),
        _row("6", "Setting, eligibility, treatments", False, "", "whoever knows how the table was drawn"),
        _row("7", "Data preparation", features, "Training cohort, Features", "features"),
        _row("8", "Outcome", model.task.label, "Training cohort: label", "label",
             "who judged it, and how, the table does not say"),
        _row("9", "Predictors, with units", features, "Features", "features",
             "" if described == len(features) else f"{described} of {len(features)} have a unit or text"),
        _row("10", "Sample size", used, "Operating point, Limits", "counts"),
        _row("11", "Missing data", training.missing, "Features, Data", "missing shares"),
        _row("12a", "Use of the data; test on later patients", later,
             "Validation, The test of time", "time in the contract, and enough later cases"),
        _row("12b, 12c", "Predictors' handling, model, tuning, validation", model.recipe,
             "Method, What was tuned on what, Recipe", "recipe"),
        _row("12d, 23b", "Heterogeneity between subgroups", subgroups, "Subgroups",
             "subgroup in the contract"),
        _row("12e, 23a", "Performance, with intervals", used, "Operating point, Trade-off",
             "operating points"),
        _row("12e, 23a", "Calibration", validation.calibration, "Probability", "training again",
             "" if earned else "a score that is not a probability"),
        _row("12f, 24", "Model updating", False, "", "the hospital: when to train again, who decides"),
        _row("13", "Class imbalance", used, "What a flag means here", "operating points"),
        _row("14", "Fairness", subgroups, "Subgroups", "subgroup in the contract",
             "what follows from the figures is for people to judge"),
        _row("15", "Model output", used, "How to read the figures, Probability", "operating points"),
        _row("16", "Training against use", training.profile, "Data, each night",
             "training again"),
        _row("17, 18", "Ethics, funding, protocol, registration", False, "", "the hospital"),
        _row("19", "Patient and public involvement", False, "", "the hospital"),
        _row("20a", "Flow of participants, with and without the outcome", used, "Participants", "counts"),
        _row("20b", "Characteristics of participants", features, "Features, Participants", "features",
             "setting and treatments the table does not say"),
        _row("20c", "Training against evaluation data", later, "Participants, The test of time",
             "time in the contract, and enough later cases"),
        _row("21", "Participants and outcome events in each analysis", used, "Participants", "counts"),
        _row("22", "Full model", model.arrays_sha256, "Provenance: model directory", "arrays"),
        _row("25, 26", "Interpretation and limits", True, "Limits", "",
             "limits only; the interpretation is for people to write"),
        _row("27", "Usability", features, "Features, Data, Flagged cases", "features"),
    ]  # fmt: skip


def participants(model: ModelDocument) -> list[dict[str, str]]:
    """Return the participants and outcome events of each analysis (TRIPOD+AI items 20 and 21)."""
    training, found = model.training, model.validation
    used, groups = training.n_rows_used, found.n_groups
    rows = [
        _analysis("Read from the table", training.n_rows_read),
        _analysis("Left out (no label, or a sub-sample was drawn)", training.n_rows_read - used),
    ]
    for point in model.points:
        which = f": {shown.name(point.label)}" if model.multi else ""
        size = point.n_positive + point.n_negative
        words = f"Development, and held out in {shown.count(found.folds)} folds{which}"
        rows.append(_analysis(words, size, point.n_positive, groups))
        later = (found.forward.classes or {}).get(point.label) if found.forward else None
        if found.forward and later:
            rows.append(
                _analysis(
                    f"Test of time, trained before {shown.name(found.forward.cut)}", found.forward.n_past
                )
            )
            rows.append(
                _analysis(
                    f"Test of time, tested from that day on{which}",
                    later.n_positive + later.n_negative,
                    later.n_positive,
                )
            )
        for column in found.subgroups.get(point.label, ()):
            rows += [
                _analysis(
                    f"{shown.feature(column.column)}: {shown.name(level.level or 'missing')}{which}",
                    level.n,
                    level.events,
                )
                for level in column.rows
            ]
    return rows


def _analysis(
    words: str, size: int | None, events: int | None = None, groups: int | None = None
) -> dict[str, str]:
    share = events / size if size and events is not None else None
    return {
        "analysis": words,
        "rows": shown.count(size),
        "groups": shown.count(groups),
        "events": shown.count(events),
        "share": shown.percent(share),
    }


def _row(item: str, asked: str, answer: object, where: str, needs: str, but: str = "") -> dict[str, str]:
    status = (PARTLY if but else ANSWERED) if answer else OPEN
    note = but if answer else f"needs {needs}"
    return {"item": item, "asked": asked, "status": status, "where": where if answer else "", "note": note}
