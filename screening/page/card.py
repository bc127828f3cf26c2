"""The data section and the model card: what went in, how it was made, and what it is not good for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import mapping, multi, part, points, sequence, stated
from screening.page import format as shown
from screening.page.cases import on_other_scale, value_text
from screening.page.completeness import completeness
from screening.page.pruning import pruning_chart

NOTABLE = 0.1
MANY_SETTINGS = 24
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}


def data_section(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return missing shares and distributions tonight against training, what differs most first."""
    found = [f for f in sequence(run, "data") if isinstance(f, Mapping)]
    rows = [_feature_tonight(f) for f in found]
    return {
        "has_drift": any(shown.finite(f.get("psi")) for f in found),
        "rows": sorted(rows, key=lambda r: (not r["notable"], r["order"])),
        "notable": sum(r["notable"] for r in rows),
        "files": _files(part(run, "input", "files")),
        "facts": [
            (words, DELIMITERS.get(str(part(run, "input", key)), shown.name(part(run, "input", key))))
            for key, words in (("delimiter", "Delimiter"), ("encoding", "Encoding"))
            if part(run, "input", key)
        ],
        "notes": [shown.text(n) for n in sequence(run, "input", "notes")],
    }


def _feature_tonight(found: Mapping[str, Any]) -> dict[str, Any]:
    now, before = found.get("missing"), found.get("missing_training")
    differs = now - before if shown.finite(now) and shown.finite(before) else 0.0
    remarks = ["more missing" if differs > 0 else "less missing"] if abs(differs) > NOTABLE else []
    remarks += ["shifted"] if found.get("alarm") else []
    remarks += [f"{shown.count(found['unseen'])} unseen"] if found.get("unseen") else []
    index = found.get("psi")
    return {
        "name": shown.feature(found.get("name")),
        "missing": shown.percent(now),
        "missing_training": shown.percent(before),
        "psi": f"{index:.2f}" if shown.finite(index) else shown.NOT_KNOWN,
        "ks": f"{found['ks']:.2f}" if shown.finite(found.get("ks")) else shown.NOT_KNOWN,
        "outside": shown.percent(found.get("outside")) if found.get("outside") else "",
        "normalised": bool(found.get("normalised")),
        "notable": bool(remarks),
        "remarks": remarks,
        "order": (-abs(differs), -(index if shown.finite(index) else 0.0)),
    }


def _files(files: Any) -> list[dict[str, str]]:
    known = files if isinstance(files, (list, tuple)) else []
    return [
        {
            "name": shown.name(f.get("name")),
            "sha256": shown.text(f.get("sha256") or shown.NOT_KNOWN, 80),
            "rows": shown.count(f.get("rows")) if shown.finite(f.get("rows")) else "",
        }
        for f in known
        if isinstance(f, Mapping)
    ]


def model_card(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model card; a fact that the document does not hold is left out, never made up."""
    recipe, training = mapping(model, "recipe"), mapping(model, "training")
    return {
        "method": [
            ("Recipe", shown.name(recipe.get("name"))),
            ("Title", shown.text(recipe.get("title") or shown.NOT_KNOWN, 300)),
            ("Paper", shown.text(recipe.get("paper") or "none", 300)),
            ("Machine", shown.name(recipe.get("machine")).replace("_", "-")),
            *_machine(model),
        ],
        "parameters": [
            (shown.name(k), _setting(v)) for k, v in sorted(mapping(recipe, "parameters").items())
        ],
        "tuning": _tuning(model),
        "pruning": pruning_chart(model),
        "blend": _blend(model),
        "validation": _validation(model),
        "training": _training(model),
        "files": _files(part(training, "source", "files") or training.get("source")),
        "notes": [shown.text(n) for n in sequence(training, "notes")],
        "features": [_feature(model, f) for f in sequence(training, "features") if isinstance(f, Mapping)],
        "limits": _limits(model),
        "completeness": completeness(model),
        "versions": [(shown.name(k), shown.name(v)) for k, v in sorted(mapping(model, "versions").items())],
        "digests": [
            (words, shown.text(model[key], 80))
            for key, words in (("digest", "model"), ("sha256", "model.json"), ("arrays_sha256", "arrays.npz"))
            if model.get(key)
        ],
        "command": shown.text(training.get("command") or "not recorded"),
        "recipe_text": shown.text(recipe.get("text") or "", 6000),
    }


def _setting(value: Any) -> str:
    if isinstance(value, float):
        return shown.minus(f"{value:.6g}")
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, (list, tuple)):
        return shown.text(", ".join(_setting(v) for v in value), 300)
    if isinstance(value, Mapping):
        return shown.text(", ".join(f"{k} {_setting(v)}" for k, v in sorted(value.items())), 300)
    return shown.text(value, 300)


def _machine(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    machine, facts = mapping(model, "machine"), []
    if shown.finite(machine.get("n_support_vectors")):
        share = machine.get("sv_share")
        tail = f" ({shown.percent(share)} of the training rows)" if shown.finite(share) else ""
        facts.append(("Support vectors", shown.count(machine["n_support_vectors"]) + tail))
    if sequence(machine, "passes"):
        facts.append(("Passes of the machine", shown.count(len(sequence(machine, "passes")))))
    if shown.finite(machine.get("kkt_gap")):
        facts.append(("Duality gap", f"{machine['kkt_gap']:.2g}"))
    return facts


def _tuning(model: Mapping[str, Any]) -> list[str]:
    search = mapping(model, "validation", "search")
    tried = search.get("n_candidates", search.get("candidates"))
    how_many = len(tried) if isinstance(tried, (list, tuple)) else tried
    said = []
    if shown.finite(how_many) and how_many > 1:
        said.append(
            f"{shown.count(how_many)} parameter settings competed on the held-out rows; criterion "
            f"{shown.name(search.get('criterion'))}. {_price(how_many)}"
        )
        dropped = [str(why) for why in sequence(search, "dropped") if why]
        if dropped:
            reasons = "; ".join(sorted(set(dropped)))
            said.append(f"{shown.plural(len(dropped), 'setting')} not considered: {shown.text(reasons)}.")
    else:
        said.append("Parameters not tuned: the recipe's defaults, and what the command line set.")
    chosen = mapping(search, "chosen")
    if chosen:
        said.append("Chosen: " + _setting(chosen) + ".")
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


def _blend(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members of a blend with what each does alone; None for a single method."""
    members = [row for row in sequence(model, "blend") if isinstance(row, Mapping)]
    if not members:
        return None
    stored = {
        row.get("name"): row for row in sequence(model, "recipe", "members") if isinstance(row, Mapping)
    }
    watched = [str(p.get("class")) for p in points(model)]
    return {
        "said": f"The score is the mean of {shown.plural(len(members), 'method')}, each standardised by its "
        "own held-out scores. Nothing is chosen between them.",
        "rows": [
            {
                "name": shown.name(row.get("recipe")),
                "score": ", ".join(shown.fixed(part(row, "classes", name, "auroc"), 3) for name in watched),
                "settings": _setting(mapping(stored.get(row.get("recipe"), {}), "search", "chosen")),
            }
            for row in members
        ],
    }


def _validation(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    found, facts = mapping(model, "validation"), []
    if shown.finite(found.get("folds")):
        repeats = found.get("repeats")
        times = f", {shown.count(repeats)} times" if shown.finite(repeats) and repeats > 1 else ""
        whole = "; a group is never split" if found.get("grouped") else ""
        facts.append(("Cross-validation", f"{shown.count(found['folds'])} folds{times}{whole}"))
    for key, words in (("n_rows", "Rows"), ("n_positive", "Cases"), ("n_groups", "Groups")):
        if shown.finite(found.get(key)):
            facts.append((words, shown.count(found[key])))
    for label, summary in sorted(mapping(found, "summary").items()):
        if isinstance(summary, Mapping) and shown.finite(summary.get("auroc")):
            low, high = summary.get("auroc_low"), summary.get("auroc_high")
            tail = f" ({low:.2f}–{high:.2f})" if shown.finite(low) and shown.finite(high) else ""
            which = f" {shown.name(label)}" if multi(model) else ""
            facts.append((f"AUROC{which}", f"{summary['auroc']:.2f}{tail}"))
    if shown.finite(found.get("n_machines")):
        facts.append(
            (
                "Model",
                f"the {shown.plural(found['n_machines'], 'machine')} of the folds; a score is the mean of "
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
    if found.get("encoded_by"):
        facts.append(("Encoder", f"learned once, without labels, from {shown.text(found['encoded_by'])}"))
    return facts


def _training(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    training = mapping(model, "training")
    read, used = training.get("n_rows_read"), training.get("n_rows_used")
    facts = [("Rows", f"{shown.count(read)} read, {shown.count(used)} used")]
    if shown.finite(training.get("max_rows")):
        facts.append(
            ("Sub-sample", f"at most {shown.count(training['max_rows'])} rows, drawn by class and group")
        )
    if len(sequence(training, "window")) == 2:
        facts.append(("Window", " to ".join(shown.name(w) for w in training["window"])))
    label = part(model, "task", "label")
    if label is not None:
        positive = ", ".join(shown.name(p) for p in sequence(model, "task", "positive"))
        facts.append(("Label", shown.name(label) + (f", positive: {positive}" if positive else "")))
    if training.get("seed") is not None:
        facts.append(("Seed", shown.name(training["seed"])))
    return facts


def _feature(model: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    declared = mapping(model, "contract", "features", str(found.get("name")))
    share = part(model, "training", "missing", str(found.get("name")))
    said = part(declared, "description")
    median, normalised = found.get("median"), on_other_scale(declared)
    return {
        "name": shown.feature(found.get("name")),
        "description": shown.text(said, 200) if said else "",
        "type": shown.name(found.get("type")),
        "unit": shown.unit(found.get("unit")),
        "usual": "" if normalised else shown.usual(found.get("usual")),
        "from_training": bool(found.get("usual")) and not declared.get("usual") and not normalised,
        "median": "normalised" if normalised else value_text(median, declared),
        "missing": shown.percent(share),
    }


def _limits(model: Mapping[str, Any]) -> list[str]:
    limits = [
        "Decision support only: a flag is a reason to open the chart, no flag rules nothing out.",
        "Learned from one hospital's past patients; not shown to hold in another hospital or laboratory.",
        "Contributing values say what moved the score, not what caused the condition.",
        "Performance comes from cross-validation on past patients; changes of practice wear it down.",
    ]
    for point in points(model):
        cases, low, high = (point.get(k) for k in ("n_positive", "sensitivity_low", "sensitivity_high"))
        if shown.finite(cases) and shown.finite(low) and shown.finite(high):
            which = f" for {shown.name(point.get('class'))}" if multi(model) else ""
            limits.append(
                f"With {shown.plural(cases, 'case')}, sensitivity{which} is known to within "
                f"{shown.interval(low, high)} (95%)."
            )
    if not sequence(model, "contract", "cohort", "subgroup") and not stated(model, "subgroup"):
        limits.append("Performance in subgroups (sex, age, ward) was not examined.")
    return limits
