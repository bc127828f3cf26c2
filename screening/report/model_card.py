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

from screening.report.drawing import environment_of
from screening.schemas.base import Estimate
from screening.schemas.model import ModelDocument

NAMESPACE = "https://mc.chai.org/v0.2/schema.xsd"
HL7 = "http://hl7.org/fhir/uv/aitransparency"
Metric: TypeAlias = tuple[str, dict[str, object]]


def applied_model_card(model: ModelDocument, model_id: str) -> bytes:
    """Return the card of a model as XML of CHAI's schema.

    Parameters
    ----------
    model : ModelDocument
    model_id : str
        First digits of its digest.
    """
    card = environment_of().get_template("applied_model_card.xml.j2")
    text = card.render(
        model=model,
        model_id=model_id,
        namespace=NAMESPACE,
        performance=_results(_performance(model)),
        fairness=_results(_fairness(model)),
        reliability=_results(_reliability(model)),
    )
    ElementTree.register_namespace("", NAMESPACE)
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.text = (element.text or "").strip()
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


def _results(metrics: Iterator[Metric]) -> list[tuple[str, str]]:
    """Return labels of figures, each with the figure as JSON."""
    results = [(label, json.dumps(value)) for label, value in metrics]
    # The schema asks for one at least.
    return results or [("Known figures", json.dumps(_single(0)))]


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
