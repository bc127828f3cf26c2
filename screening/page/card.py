"""The data section and the model card: what went in, how it was made, what it is not good for, TRIPOD+AI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.attention import review_due
from screening.documents.model import FeatureFacts, MachineFacts, ModelDocument
from screening.documents.run import NightFeature, RunDocument, RunModel
from screening.documents.validation import SearchFacts
from screening.page import format as shown
from screening.page.charts import Axes
from screening.page.values import value_text

NOTABLE = 0.1
MANY_SETTINGS = 24
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}


def data_section(run: RunDocument) -> dict[str, Any]:
    """Return missing shares and distributions tonight against training, what differs most first."""
    rows = [(feature, _remarks(feature)) for feature in run.data]
    rows.sort(
        key=lambda row: (not row[1], -abs(row[0].missing - row[0].missing_training), -(row[0].psi or 0.0))
    )
    read = run.input
    delimiter = DELIMITERS.get(read.delimiter or "", shown.name(read.delimiter))
    return {
        "has_drift": any(feature.psi is not None for feature in run.data),
        "rows": rows,
        "normalised": any(feature.normalised for feature in run.data),
        "notable": sum(bool(remarks) for _, remarks in rows),
        "files": read.files,
        "facts": [("Delimiter", delimiter)] * bool(read.delimiter)
        + [("Encoding", shown.name(read.encoding))] * bool(read.encoding),
        "notes": [shown.text(note) for note in read.notes],
    }


def _remarks(found: NightFeature) -> list[str]:
    """What makes a feature stand out tonight."""
    differs = found.missing - found.missing_training
    remarks = ["more missing" if differs > 0 else "less missing"] if abs(differs) > NOTABLE else []
    remarks += ["shifted"] if found.alarm else []
    return remarks + ([f"{shown.count(found.unseen)} unseen"] if found.unseen else [])


def model_card(model: ModelDocument) -> dict[str, object]:
    """Return the model card; a fact that the document does not hold is left out, never made up."""
    recipe, training = model.recipe, model.training
    digests = [("model", model.digest)] if isinstance(model, RunModel) else []
    digests += [("model.json", model.sha256), ("arrays.npz", model.arrays_sha256)]
    return {
        "method": [
            ("Recipe", shown.name(recipe.name)),
            ("Title", shown.text(recipe.title, 300)),
            ("Paper", shown.text(recipe.paper or "none", 300)),
            ("Machine", shown.name(recipe.machine).replace("_", "-")),
            *_machine(model.machine),
        ],
        "parameters": [(shown.name(k), _setting(v)) for k, v in sorted(recipe.parameters.items())],
        "tuning": _tuning(model.validation.search),
        "pruning": pruning_chart(model),
        "blend": _blend(model),
        "validation": _validation(model),
        "training": _training(model),
        "files": training.source.files,
        "notes": [shown.text(note) for note in training.notes],
        "features": [_feature(model, feature) for feature in training.features],
        "limits": _limits(model),
        "completeness": completeness(model),
        "participants": participants(model),
        "versions": [(shown.name(k), shown.name(v)) for k, v in sorted(model.versions.items())],
        "digests": [(words, shown.text(value, 80)) for words, value in digests if value],
        "command": shown.text(training.command or "not recorded"),
        "recipe_text": shown.text(recipe.text, 6000),
    }


def _setting(value: object) -> str:
    if isinstance(value, float):
        return shown.minus(f"{value:.6g}")
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, (list, tuple)):
        return shown.text(", ".join(_setting(v) for v in value), 300)
    if isinstance(value, Mapping):
        return shown.text(", ".join(f"{k} {_setting(v)}" for k, v in sorted(value.items())), 300)
    return shown.text(value, 300)


def _machine(machine: MachineFacts) -> list[tuple[str, str]]:
    facts = []
    if machine.n_support_vectors is not None:
        share = machine.sv_share
        tail = "" if share is None else f" ({shown.percent(share)} of the training rows)"
        facts.append(("Support vectors", shown.count(machine.n_support_vectors) + tail))
    if machine.passes:
        facts.append(("Passes of the machine", shown.count(len(machine.passes))))
    if machine.kkt_gap is not None:
        facts.append(("Duality gap", f"{machine.kkt_gap:.2g}"))
    return facts


def _tuning(search: SearchFacts) -> list[str]:
    said = []
    if search.n_candidates > 1:
        said.append(
            f"{shown.count(search.n_candidates)} parameter settings competed on the held-out rows; criterion "
            f"{shown.name(search.criterion)}. {_price(search.n_candidates)}"
        )
        dropped = [why for why in search.dropped if why]
        if dropped:
            reasons = "; ".join(sorted(set(dropped)))
            said.append(f"{shown.plural(len(dropped), 'setting')} not considered: {shown.text(reasons)}.")
    else:
        said.append("Parameters not tuned: the recipe's defaults, and what the command line set.")
    if search.chosen:
        said.append("Chosen: " + _setting(search.chosen) + ".")
    said.append("Threshold chosen on held-out scores of the training cohort, then fixed.")
    return said


def _price(n_settings: float) -> str:
    """Say what choosing on the rows that figures are read from is worth (docs/benchmarks.md, promises)."""
    if n_settings < MANY_SETTINGS:
        return (
            "Choosing among so few flatters AUROC by about 0.005, and averaging the machines gains as much: "
            "figures are as they were seen, intervals are widened."
        )
    return "Choosing among so many flatters AUROC by about 0.006 on balance; intervals are widened for it."


def _blend(model: ModelDocument) -> dict[str, object] | None:
    """Return the members of a blend with what each does alone; None for a single method."""
    if not model.blend:
        return None
    chosen = {member.name: member.search.chosen for member in model.recipe.members}
    return {
        "said": f"The score is the mean of {shown.plural(len(model.blend), 'method')}, each standardised by "
        "its own held-out scores. Nothing is chosen between them.",
        "rows": [
            {
                "name": shown.name(member.recipe),
                "score": ", ".join(shown.fixed(member.classes[p.label].auroc, 3) for p in model.points),
                "settings": _setting(chosen[member.recipe]),
            }
            for member in model.blend
        ],
    }


def _validation(model: ModelDocument) -> list[tuple[str, str]]:
    found = model.validation
    times = f", {shown.count(found.repeats)} times" if found.repeats > 1 else ""
    whole = "; a group is never split" if found.grouped else ""
    facts = [("Cross-validation", f"{shown.count(found.folds)} folds{times}{whole}")]
    sizes = (("Rows", found.n_rows), ("Cases", found.n_positive), ("Groups", found.n_groups))
    facts += [(words, shown.count(size)) for words, size in sizes if size is not None]
    for label, ranking in sorted(found.summary.items()):
        if ranking.auroc is not None:
            ends = shown.area_interval(ranking.auroc_low, ranking.auroc_high)
            which = f" {shown.name(label)}" if model.multi else ""
            facts.append((f"AUROC{which}", f"{ranking.auroc:.2f}" + (f" ({ends})" if ends else "")))
    if found.n_machines is not None:
        facts.append(
            (
                "Model",
                f"the {shown.plural(found.n_machines, 'machine')} of the folds; a score is the mean of "
                "their decisions, and the threshold was chosen on decisions about rows not seen before",
            )
        )
        facts.append(
            (
                "p-values",
                "ranks among held-out scores of past patients without the condition: exact for one machine; "
                "for the mean of several, 4 to 6 in 100 of them come out at 0.05 or below",
            )
        )
    facts.append(("Encoder", f"learned once, without labels, from {shown.text(found.encoded_by)}"))
    return facts


def _training(model: ModelDocument) -> list[tuple[str, str]]:
    training, task = model.training, model.task
    read, used = shown.count(training.n_rows_read), shown.count(training.n_rows_used)
    facts = [("Rows", f"{read} read, {used} used")]
    if training.max_rows is not None:
        at_most = shown.count(training.max_rows)
        facts.append(("Sub-sample", f"at most {at_most} rows, drawn by class and group"))
    if training.window:
        facts.append(("Window", " to ".join(shown.name(day) for day in training.window)))
    positive = ", ".join(shown.name(value) for value in task.positive)
    facts.append(("Label", shown.name(task.label) + (f", positive: {positive}" if positive else "")))
    facts.append(("Seed", shown.name(training.seed)))
    due = review_due(model)
    facts.append(("To be reviewed by", shown.name(due) if due else "two years after its training"))
    return facts


def _feature(model: ModelDocument, found: FeatureFacts) -> dict[str, object]:
    declared = model.declared(found.name)
    normalised = declared.on_other_scale
    return {
        "name": shown.feature(found.name),
        "description": shown.text(declared.description or "", 200),
        "type": shown.name(found.type),
        "unit": shown.unit(found.unit),
        "range": "" if normalised else shown.value_range(found.reference or found.seen),
        "from_training": bool(found.seen) and not found.reference and not normalised,
        "median": "normalised" if normalised else value_text(found.median, declared),
        "missing": shown.percent(model.training.missing[found.name]),
    }


def _limits(model: ModelDocument) -> list[str]:
    limits = [
        "Decision support only: a flag is a reason to open the chart, no flag rules nothing out.",
        "Learned from one hospital's past patients; not shown to hold in another hospital or laboratory.",
        "Contributing values say what moved the score, not what caused the condition.",
        "Performance comes from cross-validation on past patients; changes of practice wear it down.",
    ]
    for point in model.points:
        ends = shown.interval(point.sensitivity_low, point.sensitivity_high)
        if ends:
            which = f" for {shown.name(point.label)}" if model.multi else ""
            limits.append(
                f"With {shown.plural(point.n_positive, 'case')}, sensitivity{which} is known to within "
                f"{ends} (95%)."
            )
    if not model.stated.subgroup:
        limits.append("Performance in subgroups (sex, age, ward) was not examined.")
    return limits


def pruning_chart(model: ModelDocument) -> Axes | None:
    """Return the chart of the last pass's removals, or None where nothing was removed."""
    passes = model.machine.passes
    steps = passes[-1].get("pruning_path") if passes else None
    if not isinstance(steps, list | tuple) or not steps:
        return None
    numbers = list(range(1, len(steps) + 1))
    accuracy, error = [step[2] for step in steps], [step[3] for step in steps]
    axes = Axes(
        name="pruning",
        title="Support vectors removed",
        description=(
            f"{shown.plural(len(steps), 'support vector')} of the larger class removed. On training rows, "
            f"the rarer class found went from {shown.percent(accuracy[0])} after the first to "
            f"{shown.percent(accuracy[-1])}, the larger class flagged from {shown.percent(error[0])} to "
            f"{shown.percent(error[-1])}."
        ),
        x=(0.0, float(len(steps))),
        y=(0.0, 1.0),
        x_label="support vectors removed",
        y_label="training rows",
        height=240,
    )
    axes.line(numbers, accuracy, "first", "rare found")
    axes.line(numbers, error, "second", "false flags")
    return axes


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
