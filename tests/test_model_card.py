"""A model's card as data: CHAI's XML in the order of its schema, and HL7's document."""

import base64
import json
from xml.etree import ElementTree

import pytest
from commands import as_json, screen
from flow_cohorts import patients
from written_files import read_json

from screening import MaxFlagRate, load_model, train
from screening.contract.contract import Contract
from screening.report.model_card import NAMESPACE
from screening.store.model import save_model

# Elements that https://mc.chai.org/v0.2/schema.xsd requires, in its order.
METRIC = [
    *("MetricGoal", "Results", "Interpretation", "TestType"),
    *("TestingDataDescription", "ValidationProcessAndJustification"),
]
REQUIRED = {
    "AppliedModelCard": [
        *("BasicInfo", "ReleaseInfo", "ModelSummary", "UsesAndDirections"),
        *("Warnings", "TrustIngredients", "KeyMetrics", "Resources", "Bibliography"),
    ],
    "BasicInfo": ["ModelName", "ModelDeveloper", "DeveloperContact"],
    "ReleaseInfo": [
        *("ReleaseStage", "ReleaseDate", "ReleaseVersion", "GlobalAvailability")
    ],
    "ModelSummary": ["Summary", "Keywords"],
    "UsesAndDirections": [
        *("IntendedUseAndWorkflow", "PrimaryIntendedUsers", "HowToUse"),
        *("TargetedPatientPopulation", "CautionedOutOfScopeSettings"),
    ],
    "Warnings": [
        *("KnownRisksAndLimitations", "KnownBiasesOrEthicalConsiderations"),
        "ClinicalRiskLevel",
    ],
    "TrustIngredients": ["AISystemFacts", "TransparencyInformation"],
    "AISystemFacts": [
        *("OutcomesAndOutputs", "ModelType", "InputDataSource"),
        *("OutputAndInputDataTypes", "DevelopmentDataCharacterization"),
        *("BiasMitigationApproaches", "OngoingMaintenance"),
    ],
    "TransparencyInformation": ["FundingSource", "StakeholdersConsulted"],
    "KeyMetrics": [
        *("UsefulnessUsabilityEfficacy", "FairnessEquity", "SafetyReliability")
    ],
    "UsefulnessUsabilityEfficacy": METRIC,
    "FairnessEquity": METRIC,
    "SafetyReliability": METRIC,
    "MetricResult": ["Label", "ValueJson"],
    "Resources": ["PeerReviewedPublications", "PatientConsentOrDisclosure"],
}
# The schema has these too, and they may be missing.
OPTIONAL = {"ReleaseInfo": ["RegulatoryApproval"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    contract = Contract(
        label="ill",
        id="patient",
        subgroup=["ward"],
        intended_use="Find <the> ill & few",
    )
    past = patients(300, share=0.2, seed=1)
    quick = {
        "search": 1,
        "beside": (),
        "jobs": 1,
        "rule": MaxFlagRate(0.3),
    }
    trained = train(past, "logistic", contract=contract, **quick)
    return save_model(trained, tmp_path_factory.mktemp("card") / "model")


def name_of(element):
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def test_card_has_the_elements_of_the_schema_in_order(model, tmp_path):
    screen("export", model, "--to", "model-card", "--out", tmp_path / "card.xml")

    root = ElementTree.parse(tmp_path / "card.xml").getroot()
    for element in root.iter():
        assert element.tag.startswith(f"{{{NAMESPACE}}}")
        allowed = OPTIONAL.get(name_of(element), [])
        children = [name_of(child) for child in element]
        needed = REQUIRED.get(name_of(element))
        if needed is not None:
            assert [name for name in children if name not in allowed] == needed
        elif children:
            # Keywords and results repeat one element.
            assert len(set(children)) == 1


def test_card_has_the_figures_of_the_model(model, tmp_path):
    screen("export", model, "--to", "model-card", "--out", tmp_path / "card.xml")

    root = ElementTree.parse(tmp_path / "card.xml").getroot()
    values = {}
    for result in root.iter(f"{{{NAMESPACE}}}MetricResult"):
        label, value = (child.text for child in result)
        values[label] = json.loads(value)
    facts = load_model(model).facts
    (point,) = facts.operating_points
    sensitivity = values["Sensitivity, yes"]
    assert sensitivity["kind"] == "estimate_ci"
    assert sensitivity["estimate"] == pytest.approx(100 * point["sensitivity"].value)
    assert sensitivity["lower"] == pytest.approx(100 * point["sensitivity"].low)
    intercept = facts.validation.calibration["yes"].intercept
    assert values["Calibration intercept, yes"]["estimate"] == intercept.value
    assert "Sensitivity, ward icu, yes" in values
    text = root.find(f".//{{{NAMESPACE}}}IntendedUseAndWorkflow").text
    assert text == "Find <the> ill & few"
    stage = root.find(f".//{{{NAMESPACE}}}ReleaseStage").text
    assert stage.startswith("Draft")


def test_hl7_document_carries_the_card(model, tmp_path):
    resources = pytest.importorskip("fhir.resources.R4B.documentreference")
    for name in ("card.xml", "card.json"):
        screen("export", model, "--to", "model-card", "--out", tmp_path / name)

    document = read_json(tmp_path / "card.json")
    resources.DocumentReference.model_validate(document)
    attachment = document["content"][0]["attachment"]
    card = base64.b64decode(attachment["data"])
    assert card == (tmp_path / "card.xml").read_bytes()
    assert attachment["contentType"] == "application/xml"
    (coding,) = document["type"]["coding"]
    assert coding["code"] == "AIModelCard"
    (coding,) = document["category"][0]["coding"]
    assert coding["code"] == "AImodelCardCHAIformat"


def test_card_is_not_replaced_unasked(model, tmp_path):
    out = tmp_path / "card.xml"
    words = ("export", model, "--to", "model-card", "--out")
    answer = as_json(*words, out)

    assert "FILE.xml" in screen(*words, tmp_path / "card.txt", code=2).stderr
    assert "--force" in screen(*words, out, code=2).stderr
    assert as_json(*words, out, "--force") == answer
