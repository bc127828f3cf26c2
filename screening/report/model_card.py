"""A model as data for others: CHAI's Applied Model Card, and HL7's reference to one.

The card follows the schema of the Coalition for Health AI, version 0.2
(https://mc.chai.org/v0.2/schema.xsd). HL7's "AI Transparency on FHIR" (1.0.0-ballot)
has no card of its own: its profile AI-ModelCard is a DocumentReference that carries
CHAI's. What only the site can know is marked "To fill in".
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import TypeAlias
from xml.etree import ElementTree

from screening.report import format as fmt
from screening.schemas.base import Estimate
from screening.schemas.model import ModelDocument

NAMESPACE = "https://mc.chai.org/v0.2/schema.xsd"
HL7 = "http://hl7.org/fhir/uv/aitransparency"
TO_FILL_IN = "To fill in"
Tree: TypeAlias = dict[str, "str | Tree | list[str] | list[Tree]"]
Metric: TypeAlias = tuple[str, dict[str, object]]


def applied_model_card(model: ModelDocument, model_id: str) -> bytes:
    """Return the card of a model as XML of CHAI's schema.

    Parameters
    ----------
    model : ModelDocument
    model_id : str
        First digits of its digest.
    """
    ElementTree.register_namespace("", NAMESPACE)
    root = ElementTree.Element(f"{{{NAMESPACE}}}AppliedModelCard")
    _fill(root, _content(model, model_id))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def document_reference(card: bytes, model_id: str, title: str) -> dict[str, object]:
    """Return a FHIR R4 DocumentReference of HL7's profile that carries a card."""
    codes = f"{HL7}/CodeSystem/AIinputsCS"
    content = {
        "contentType": "application/xml",
        "data": b64encode(card).decode(),
        "title": title,
    }
    kind = {"system": codes, "code": "AIModelCard", "display": "AI Model-Card"}
    form = {"system": codes, "code": "AImodelCardCHAIformat", "display": "CHAI Format"}
    return {
        "resourceType": "DocumentReference",
        "meta": {"profile": [f"{HL7}/StructureDefinition/AI-ModelCard"]},
        "identifier": [{"system": "urn:screening:model", "value": model_id}],
        "status": "current",
        "type": {"coding": [kind]},
        "category": [{"coding": [form]}],
        "content": [{"attachment": content}],
    }


def _fill(parent: ElementTree.Element, tree: Tree) -> None:
    """Add elements in the order of a tree; a list repeats its element."""
    for name, content in tree.items():
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            element = ElementTree.SubElement(parent, f"{{{NAMESPACE}}}{name}")
            if isinstance(part, str):
                element.text = part
            else:
                _fill(element, part)


def _content(model: ModelDocument, model_id: str) -> Tree:
    stated = model.stated
    stage = "Draft: nobody has approved it for use"
    if model.approval is not None:
        stage = f"Approved on {model.approval.date} by {model.approval.by}"
    days = model.training.window
    period = f", {days[0]} to {days[1]}" if days else ""
    watched = ", ".join(point.label for point in model.operating_points)
    return {
        "BasicInfo": {
            "ModelName": stated.title or f"{model.task.label} ({watched})",
            "ModelDeveloper": (
                f"{TO_FILL_IN}: who trained the model and answers for it."
            ),
            "DeveloperContact": f"{TO_FILL_IN}: contact.",
        },
        "ReleaseInfo": {
            "ReleaseStage": stage,
            "ReleaseDate": f"{TO_FILL_IN}: first night of use.",
            "ReleaseVersion": f"{model_id} (digest of all its files)",
            "GlobalAvailability": "Made for the site that trained it.",
            "RegulatoryApproval": "None by the program; see the site's own dossier.",
        },
        "ModelSummary": {
            "Summary": (
                f"Ranks the rows of a nightly table by suspicion of {model.task.label} "
                f"= {watched}, and flags those at or above a threshold for review by a "
                "person."
            ),
            "Keywords": {"Keyword": [model.task.label, model.recipe.name]},
        },
        "UsesAndDirections": _uses(model, period),
        "Warnings": _warnings(model),
        "TrustIngredients": _ingredients(model, period),
        "KeyMetrics": _metrics(model, period),
        "Resources": {
            "PeerReviewedPublications": model.recipe.paper,
            "PatientConsentOrDisclosure": f"{TO_FILL_IN}.",
        },
        "Bibliography": "",
    }


def _uses(model: ModelDocument, period: str) -> Tree:
    intended_use = model.stated.intended_use
    return {
        "IntendedUseAndWorkflow": (
            intended_use or f"{TO_FILL_IN}: intended use and workflow."
        ),
        "PrimaryIntendedUsers": f"{TO_FILL_IN}: who reads the list.",
        "HowToUse": (
            "A flag is a request to look at the record. It is not a diagnosis, "
            "and the absence of a flag rules nothing out."
        ),
        "TargetedPatientPopulation": (
            f"Patients like those in the {model.training.n_rows_used} rows of training"
            f"{period}. {TO_FILL_IN}: in words."
        ),
        "CautionedOutOfScopeSettings": (
            "Other places and populations, until the model is validated there. "
            f"{TO_FILL_IN}: others."
        ),
    }


def _warnings(model: ModelDocument) -> Tree:
    first = "A model misses cases and flags patients without the condition."
    reasons = [reason.words for reason in model.attention]
    return {
        "KnownRisksAndLimitations": "\n".join([first, *reasons]),
        "KnownBiasesOrEthicalConsiderations": (
            f"See the figures by subgroup under FairnessEquity. {TO_FILL_IN}: what "
            "follows from them."
        ),
        "ClinicalRiskLevel": f"{TO_FILL_IN}: depends on the intended use.",
    }


def _ingredients(model: ModelDocument, period: str) -> Tree:
    training = model.training
    counts = ", ".join(f"{n} {label}" for label, n in training.n_by_class.items())
    review = model.stated.review_by or "two years after training"
    types = sorted({feature.type for feature in training.features})
    return {
        "AISystemFacts": {
            "OutcomesAndOutputs": (
                "A score, a flag, a rank among past patients and, where the model "
                "passed the calibration check, a chance with its interval."
            ),
            "ModelType": f"{model.recipe.title} (recipe {model.recipe.name})",
            "InputDataSource": f"{TO_FILL_IN}: the systems that the table comes from.",
            "OutputAndInputDataTypes": (
                f"{len(training.features)} columns ({', '.join(types)}): "
                f"{', '.join(feature.name for feature in training.features)}."
            ),
            "DevelopmentDataCharacterization": (
                f"{training.n_rows_used} rows ({counts}) of {training.n_rows_read} "
                f"read{period}. Inclusion and exclusion: {TO_FILL_IN.lower()}."
            ),
            "BiasMitigationApproaches": (
                "Figures by subgroup, with the difference from all others; nothing is "
                "corrected by subgroup."
            ),
            "OngoingMaintenance": (
                "Every night is compared with training (units, ranges, drift, flag "
                "rate); verdicts and outcomes are compared with the validation "
                f"estimates. Review of the model: {review}."
            ),
        },
        "TransparencyInformation": {
            "FundingSource": f"{TO_FILL_IN}.",
            "StakeholdersConsulted": f"{TO_FILL_IN}.",
        },
    }


def _metrics(model: ModelDocument, period: str) -> Tree:
    validation = model.validation
    data = (
        f"{validation.n_rows} rows{period}, each scored by machines that had not"
        " seen it"
    )
    folds = f"{validation.folds} folds, {validation.repeats} times"
    temporal = ""
    if validation.forward is not None and validation.forward.classes:
        temporal = (
            f"; also trained before {validation.forward.cut} and tested on "
            f"{validation.forward.n_later} later rows"
        )
    common = {
        "TestType": f"Cross-validation, {folds}{temporal}",
        "TestingDataDescription": data,
        "ValidationProcessAndJustification": (
            "One matrix of held-out scores. The threshold is a rank among them; where "
            "rows are grouped, intervals are by patient (docs/benchmarks.md)."
        ),
    }
    at_rule = "; ".join(
        f"{point.label}: {fmt.rule(point.rule)}" for point in model.operating_points
    )
    return {
        "UsefulnessUsabilityEfficacy": {
            "MetricGoal": at_rule,
            "Results": _results(_performance(model)),
            "Interpretation": "Estimates for new patients like these, 95% intervals.",
            **common,
        },
        "FairnessEquity": {
            "MetricGoal": "Differences between subgroups",
            "Results": _results(_fairness(model)),
            "Interpretation": f"{TO_FILL_IN}: some of many subgroups differ by chance.",
            **common,
        },
        "SafetyReliability": {
            "MetricGoal": "Calibrated chances, manageable workload",
            "Results": _results(_reliability(model)),
            "Interpretation": "Slope 1 and intercept 0 are ideal.",
            **common,
        },
    }


def _results(metrics: Iterator[Metric]) -> Tree:
    results: list[Tree] = [
        {"Label": label, "ValueJson": json.dumps(value)} for label, value in metrics
    ]
    if not results:
        # The schema asks for one at least.
        results = [{"Label": "Known figures", "ValueJson": json.dumps(_single(0))}]
    return {"MetricResult": results}


def _single(value: float) -> dict[str, object]:
    return {"kind": "single", "value": value}


def _estimated(
    label: str, figure: Estimate | None, factor: int = 1
) -> Iterator[Metric]:
    """Yield a labelled figure as CHAI's cards have it; nothing if it is unknown."""
    if figure is None or figure.value is None:
        return
    unit = {"unit": "%"} if factor == 100 else {}
    value = factor * figure.value
    if figure.low is None or figure.high is None:
        yield label, _single(value) | unit
        return
    interval = {
        "kind": "estimate_ci",
        "estimate": value,
        "lower": factor * figure.low,
        "upper": factor * figure.high,
        "level": 95,
    }
    yield label, interval | unit


def _performance(model: ModelDocument) -> Iterator[Metric]:
    for point in model.operating_points:
        shares = {
            "Sensitivity": point["sensitivity"],
            "Specificity": point["specificity"],
            "PPV": point["ppv"],
            "NPV": point["npv"],
            "Flag rate": point["flag_rate"],
        }
        for name, share in shares.items():
            yield from _estimated(f"{name}, {point.label}", share, 100)
        ranking = model.validation.summary.get(point.label)
        if ranking is not None:
            yield from _estimated(f"AUROC, {point.label}", ranking["auroc"])


def _fairness(model: ModelDocument) -> Iterator[Metric]:
    for label, columns in model.validation.subgroups.items():
        for column in columns:
            for level in column.rows:
                name = f"{column.column} {level.level or 'missing'}, {label}"
                yield from _estimated(f"Sensitivity, {name}", level["sensitivity"], 100)
                yield from _estimated(f"Specificity, {name}", level["specificity"], 100)
                for figure, gap in level.to_the_rest.items():
                    yield from _estimated(
                        f"{figure} minus that of all others, {name}", gap
                    )


def _reliability(model: ModelDocument) -> Iterator[Metric]:
    for label, calibration in model.validation.calibration.items():
        figures = {
            "Calibration slope": calibration.slope,
            "Calibration intercept": calibration.intercept,
        }
        for name, figure in figures.items():
            yield from _estimated(f"{name}, {label}", figure)
    forward = model.validation.forward
    if forward is None or forward.classes is None:
        return
    for label, later in forward.classes.items():
        yield from _estimated(
            f"Sensitivity in the later period, {label}", later["sensitivity"], 100
        )
        yield from _estimated(
            f"Observed over expected cases in the later period, {label}",
            later.observed_expected,
        )
