"""A model is a draft until somebody takes responsibility for it, and every figure of
its page is of one rule.
"""

import datetime
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from approvals import approved
from commands import KNOWN_BEFORE, LOGISTIC, WHO, as_json, screen
from faults.amounts import LONG
from flow_cohorts import night_of_patients, patients, written
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal
from written_files import page_in, read_json

from screening import (
    MaxFlagRate,
    MinSensitivity,
    load_model,
    read_cohort,
    save_model,
    train,
)
from screening.contract.contract import Contract
from screening.errors import UsageError
from screening.ledger.model_registry import revisions_by_document
from screening.model_selection.approving import answers_to_repeat
from screening.model_selection.revising import set_threshold
from screening.report import render_model
from screening.schemas.base import Reason
from screening.schemas.figures import Rule
from screening.schemas.model import KnownBefore, Leak
from screening.store.model import Model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("approval")
    table = patients()
    shuffled = default_rng(5).permutation(table["ill"])
    chance = table.assign(ill=shuffled)
    written(night_of_patients(40, seed=9), place / "night.csv")
    for name, past in (("good", table), ("poor", chance)):
        past = written(past, place / f"{name}.csv")
        options = (*LOGISTIC, "--beside", "svm")
        screen("train", past, *WHO, *options, "--out", place / name)
    return place


def night_of(
    folder,
    model: str,
    out: str,
    *words: object,
    day: int = 1,
    code: int = 0,
) -> dict:
    known = ["--out", folder / out, "--date", f"2026-03-0{day}", "--strict", *words]
    screen("score", folder / model, folder / "night.csv", *known, code=code)
    return read_json(folder / out / "run.json")


def codes(document: dict) -> set[str]:
    return {reason["code"] for reason in document["attention"]}


def test_a_draft_says_so_on_its_nights_and_that_alone_is_no_attention(folder):
    """The head of a page says draft, until it says who approved the model and when."""
    night = night_of(folder, "good", "draft")
    assert not codes(night) & {"not_fit_for_use", "flags_like_chance"}
    assert "draft, not approved for use" in page_in(folder / "draft")
    told = as_json("approve", folder / "good", "--by", "Dr. <A> Weber", *KNOWN_BEFORE)
    page = render_model(load_model(folder / "good").sealed)
    assert told["approval"]["by"] == "Dr. <A> Weber"
    assert told["approval"]["date"] in page
    assert "approved for use by Dr. &lt;A&gt; Weber" in page
    assert "draft" not in page


def test_history_model_state(folder, tmp_path):
    """The page of history begins a series with who approved its model, or with none."""
    shutil.copytree(folder / "poor", tmp_path / "model")
    ledger = ["--ledger", f"sqlite:///{tmp_path / 'nights.db'}", "--series", "ward"]
    pages = []
    for day, reason in enumerate((None, "it is a test"), start=1):
        if reason is not None:
            known = [*KNOWN_BEFORE, "--reason", reason, *ledger[:2]]
            screen("approve", tmp_path / "model", "--by", "A. Weber", *known)
        night = ["--date", f"2026-03-0{day}", "--out", tmp_path / str(day)]
        table = written(night_of_patients(40, seed=day), tmp_path / "n.csv")
        screen("score", tmp_path / "model", table, *night, *ledger)
        screen("history", *ledger, "--out", tmp_path / "history.html")
        pages.append((tmp_path / "history.html").read_text(encoding="utf-8"))

    today = datetime.date.today().isoformat()
    assert "NOT APPROVED" in pages[0]
    assert "Fit for use? No: do not use it as it is." in pages[0]
    assert "NOT APPROVED" not in pages[1]
    words = f"approved for use by A. Weber on {today}: it is a test"
    assert f"Model of the last night <bdi>{words}</bdi>." in " ".join(pages[1].split())
    assert "Fit for use? No: do not use it as it is." in pages[1]
    # The approval is an event, and no other phase of the control charts.
    assert "approved by <bdi>A. Weber</bdi>" in pages[1]
    assert "approved by" not in pages[0]
    answer = as_json("history", *ledger)
    assert [each["by"] for each in answer["approvals"]] == ["A. Weber"]
    control = answer["series"][0]["control"]
    assert control
    began = {phase["began"] for chart in control for phase in chart["phases"]}
    assert began == {"first night"}


def test_another_threshold_makes_a_draft_of_an_approved_model(folder, tmp_path):
    """An approval is of one operating point; none is taken for granted, and a refusal
    makes no ledger.
    """
    screen("approve", folder / "good", "--by", "A. Weber", *KNOWN_BEFORE)
    refused = screen("threshold", folder / "good", "--reason", "x", code=2)
    screen("threshold", folder / "good", "--g-mean", "--reason", "balance")
    screen(
        "approve", folder / "good", "--by", " ", "--ledger", tmp_path / "new.db", code=2
    )
    assert "--max-flag-rate" in refused.stderr
    assert load_model(folder / "good").facts.approval is None
    assert not (tmp_path / "new.db").exists()


def test_approval_unfit_model(folder):
    """A model that is not fit needs a reason and is attention every night until then.

    The verdict of a model's page reaches nights, exit code and approval.
    """
    night = night_of(folder, "poor", "before", code=5)
    assert {"not_fit_for_use", "flags_like_chance"} <= codes(night)
    assert {"not_fit_for_use", "flags_like_chance"} <= codes(
        load_model(folder / "poor").document
    )
    refused = screen(
        "approve", folder / "poor", "--by", "A. Weber", *KNOWN_BEFORE, code=2
    )
    assert "--reason" in refused.stderr
    assert "not fit for use" in refused.stderr
    screen(
        "approve",
        folder / "poor",
        "--by",
        "A. Weber",
        *KNOWN_BEFORE,
        "--reason",
        "for a study",
    )
    assert not codes(night_of(folder, "poor", "after", code=5)) & {
        "not_fit_for_use",
        "flags_like_chance",
    }


def test_approval_trail_entry(folder):
    """An approval is an entry of the trail and the approved model goes on as champion.

    A series' nights go on with the approved model, and the trail says who approved it.
    """
    where = ("--ledger", folder / "l.db", "--series", "ward-1")
    night_of(folder, "good", "first", *where)
    screen("approve", folder / "good", "--by", "A. Weber", *KNOWN_BEFORE, *where)
    night_of(
        folder,
        "good",
        "second",
        *where,
        "--accept-delivery",
        "one table for both nights",
        day=2,
    )
    screen("history", "--ledger", folder / "l.db", "--verify")


def test_answers_of_the_model_before_are_proposed(folder, tmp_path):
    """A refusal lists what was answered for the series' model, and takes nothing over;
    the printed command approves.
    """
    past = folder / "good.csv"
    screen("train", past, *WHO, *LOGISTIC, "--out", tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "next")
    where = ("--ledger", tmp_path / "l.db", "--series", "ward-1")
    night = ("--out", tmp_path / "run", "--date", "2026-03-01", *where)
    screen("score", tmp_path / "first", folder / "night.csv", *night)
    known = (*KNOWN_BEFORE, "--reason", "trial")
    screen("approve", tmp_path / "first", "--by", "A. Weber", *known, *where)

    words = ("--by", "B. Meier", "--reason", "trial", *where)
    refused = screen("approve", tmp_path / "next", *words, code=2).stderr

    first = load_model(tmp_path / "first").sealed["sha256"]
    today = datetime.date.today().isoformat()
    assert f"answered for model {first[:12]} on {today} by A. Weber: " in refused
    assert load_model(tmp_path / "next").facts.approval is None
    repeat = refused.partition("applies to this model, type ")[2].splitlines()[0]
    screen(*shlex.split(repeat)[1:])
    assert load_model(tmp_path / "next").facts.approval.by == "B. Meier"


@pytest.mark.parametrize("change", ["none", "stronger", "missing", "sign", "moved"])
def test_a_column_that_changed_is_not_proposed(folder, change):
    """Nor one that ranks better, is missing more often, or has another median."""
    model = load_model(folder / "poor").facts.replace(known_before=[])
    training = model.training
    name = model.unanswered[0][0]
    answer = KnownBefore(columns=[name], by="A. Weber", date="2026-03-01")
    earlier = model.replace(known_before=[answer])
    if change == "stronger":
        blocks = [
            block.replace(alone=block.alone + 0.1) for block in training.reliance.blocks
        ]
        training = training.replace(reliance=training.reliance.replace(blocks=blocks))
    elif change == "missing":
        training = training.replace(missing={**training.missing, name: 0.5})
    elif change == "moved":
        features = [each.replace(median=1e6) for each in training.features]
        training = training.replace(features=features)
    elif change == "sign":
        leak = Leak(code="named_after", column=name, figure=None, said="by its name")
        training = training.replace(leaks=[leak])

    proposed = answers_to_repeat(model.replace(training=training), earlier)

    assert proposed == ([answer] if change == "none" else [])


FIRST = MinSensitivity(0.8)
OTHER = MaxFlagRate(0.25)


def ward(n: int = 240, seed: int = 3) -> pd.DataFrame:
    rng = default_rng(seed)
    ill = rng.random(n) < 0.3
    return pd.DataFrame(
        {
            "row": [f"r{i:04d}" for i in range(n)],
            "who": [f"p{i // 2:04d}" for i in range(n)],
            "crp": rng.normal(1.5 * ill, 1.0).round(3),
            "age": rng.normal(60, 12, n).round(),
            "sex": rng.choice(["f", "m"], n),
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n), unit="D"),
            "ill": np.where(ill, "yes", "no"),
            "kind": np.where(
                ill, rng.choice(["a", "b"], n), rng.choice(["none", "well"], n)
            ),
        }
    )


# Recipe and other methods; label, group and the values of the condition.
CASES = {
    "two_class": ("svm_weighted", ["logistic"], "ill", None, None),
    "grouped": ("logistic", ["svm"], "ill", "who", None),
    "one_class": ("one_class", ["logistic"], "ill", None, None),
    "joined": ("logistic", ["random_forest"], "kind", None, ["a+b", "well"]),
    "blended": ("auto", ["svm", "logistic"], "ill", None, None),
    "multi_class": ("one_vs_rest", ["one_vs_one"], "kind", None, ["a", "b"]),
    "blended_classes": ("auto", ["logistic"], "kind", None, ["a", "b"]),
}
# Classes and blends are in a case each before; `make faults` tries them together too.
CASES_TRIED = [*CASES] if LONG else [*CASES][:5]


def trained(case: str, rule: Rule, tmp_path) -> Model:
    """A model of a made ward, with subgroups, dates and other methods beside it, as it
    is stored.

    Fits do not depend on the rule: a second training takes those of the first.
    """
    recipe, beside, label, group, positive = CASES[case]
    declared = {"time": "day", "subgroup": ["sex"]}
    contract = Contract.from_dict({"cohort": declared})
    roles = {"label": label, "group": group, "positive": positive, "id": "row"}
    drop = [*{"who", "ill", "kind"} - {label, group}]
    cohort = read_cohort(ward(), contract, need_label=True, drop=drop, **roles)
    model = train(
        cohort,
        recipe,
        rule=rule,
        folds=3,
        search=1,
        beside=beside,
        seed=1,
        jobs=1,
        kept=tmp_path,
    )
    return load_model(save_model(model, tmp_path / rule.name))


def told(model: Model) -> dict[str, object]:
    points = []
    for point in model.facts.operating_points:
        points.append(point.replace(chosen_by="", reason=None))
    same = model.facts.replace(
        operating_points=points,
        thresholds_before=(),
        arrays_sha256="",
        validation_sha256="",
        sha256="",
    )
    return same.to_dict()


def test_approval_column_with_comma(tmp_path):
    """A refusal names columns as the option takes them."""
    table = patients().rename(columns={"crp": "CRP, serum", "fever": "T (°C)"})
    past = written(table, tmp_path / "past.csv")
    screen("train", past, *WHO, *LOGISTIC, "--out", tmp_path / "m")
    refused = screen("approve", tmp_path / "m", "--by", "Dr. Weber", code=2)
    named = refused.stderr.partition("hour of the night: ")[2].partition(". If they")[0]

    known = ("--known-before", named.replace(";", ","), "--reason", "it is known")
    screen("approve", tmp_path / "m", "--by", "Dr. Weber", *known)

    assert '"CRP, serum"' in named
    (answer,) = load_model(tmp_path / "m").facts.known_before
    assert set(answer.columns) >= {"CRP, serum", "T (°C)"}


def test_revisions_by_document(logistic_model, tmp_path):
    """A model's document names every model that it was, in the order of its thresholds
    and approvals; a trail that has none of them can follow.
    """
    folder = tmp_path / "m"
    shutil.copytree(logistic_model, folder)
    known = ("--known-before", "fever,crp,ward", "--by", "Dr. Weber")
    words = {
        "approve": [*known, "--reason", "it is known"],
        "threshold": ["--max-flag-rate", "0.2", "--reason", "fewer flags"],
    }
    digests = [load_model(folder).digest]
    commands = ["approve", "threshold", "approve", "threshold"]
    for command in commands:
        screen(command, folder, *words[command])
        digests.append(load_model(folder).digest)
    model = load_model(folder).facts

    for first, digest in enumerate(digests[:-1]):
        revisions = revisions_by_document(model, digest)
        assert [each.KIND for each in revisions] == commands[first:]
        assert [each.model_before for each in revisions] == digests[first:-1]
        assert [each.model_after for each in revisions] == digests[first + 1 :]
    assert revisions_by_document(model, "0" * 64) == []
    assert revisions_by_document(model, digests[-1]) == []


@pytest.mark.repeated
@pytest.mark.parametrize("case", CASES_TRIED)
def test_threshold_gives_every_number_of_a_training_with_that_rule(case, tmp_path):
    """`screen threshold` leaves no figure of the rule before."""
    first = trained(case, FIRST, tmp_path)
    other = trained(case, OTHER, tmp_path)
    rechosen = set_threshold(first, OTHER, "fewer reviews")
    assert told(rechosen) != told(first)
    assert told(rechosen) == told(other)
    assert_array_equal(rechosen.calibration, other.calibration)
    assert_frame_equal(rechosen.validation, other.validation)


def test_a_document_with_figures_of_two_rules_is_refused(tmp_path):
    """And a rule that only flagging everybody keeps; what was said of the rows stands
    after a revision.
    """
    model = trained("grouped", FIRST, tmp_path)
    other = trained("grouped", OTHER, tmp_path)
    first = model.facts.validation
    of_other = other.facts.validation
    reason = Reason("rows_of_one_patient", "Rows repeat age and sex.")
    warned = replace(
        model,
        document=model.facts.replace(
            attention=[*model.facts.attention, reason]
        ).to_dict(),
    )
    names = list(model.contract.features)
    day = datetime.date(2026, 3, 1)
    answered = approved(warned, "X", day, "trial", names)

    for changed in ({"subgroups": of_other.subgroups}, {"forward": of_other.forward}):
        with pytest.raises(ValueError, match="to another"):
            model.facts.replace(validation=first.replace(**changed))
    with pytest.raises(UsageError, match="too few to promise"):
        set_threshold(model, MinSensitivity(0.999), "safety")
    for revised in (set_threshold(warned, OTHER, "why"), answered):
        assert reason in revised.facts.attention


def test_train_over_champion(folder, tmp_path):
    """The champion of a series is not replaced where the ledger is given."""
    model = tmp_path / "model"
    ledger = ["--ledger", tmp_path / "screening.db"]
    again = ["train", folder / "good.csv", *WHO, *LOGISTIC, "--out", model, *ledger]
    screen(*again)
    night = written(patients(60, seed=7), tmp_path / "night.csv")
    out = ["--series", "ward-7", "--out", tmp_path / "run"]
    screen("score", model, night, *out, *ledger)

    refused = screen(*again, code=2)

    assert "is the champion of series ward-7; give another --out" in refused.stderr


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (
            ["approve", "--by", "Dr. Weber", *KNOWN_BEFORE],
            "contains a model that was approved on ",
        ),
        (
            ["threshold", "--max-flag-rate", "0.2", "--reason", "capacity"],
            "contains a model that had its threshold changed",
        ),
    ],
    ids=["approved", "threshold"],
)
def test_train_over_model_in_use(folder, tmp_path, decide, words):
    """A model that somebody decided on is not replaced, not even with --force."""
    model = tmp_path / "model"
    shutil.copytree(folder / "good", model)
    screen(decide[0], model, *decide[1:])
    before = (model / "model.json").read_bytes()

    again = ["train", folder / "good.csv", *WHO, *LOGISTIC, "--out", model, "--force"]
    refused = screen(*again, code=2).stderr

    assert words in refused
    assert "give another --out" in refused
    assert (model / "model.json").read_bytes() == before
