"""A model is a draft until somebody answers for it; its pages say who, its nights that it is not fit."""

import json

import numpy as np
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening.report import render_model
from screening.store.loading import load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, table = tmp_path_factory.mktemp("approval"), patients()
    chance = table.assign(ill=np.random.default_rng(5).permutation(table["ill"]))
    written(patients(40, seed=9).drop(columns="ill"), place / "night.csv")
    who, quick = ["--label", "ill", "--id", "patient"], ["--recipe", "logistic", "--search", 1]
    for name, past in (("good", table), ("poor", chance)):
        past = written(past, place / f"{name}.csv")
        screen("train", past, *who, *quick, "--beside", "svm", "--out", place / name)
    return place


def night_of(folder, model: str, out: str, *words: object, day: int = 1, code: int = 0) -> dict:
    known = ["--out", folder / out, "--date", f"2026-03-0{day}", "--strict", *words]
    screen("score", folder / model, folder / "night.csv", *known, code=code)
    return json.loads((folder / out / "run.json").read_text(encoding="utf-8"))


def codes(document: dict) -> set[str]:
    return {reason["code"] for reason in document["attention"]}


def test_a_draft_says_so_on_its_nights_and_that_alone_is_no_attention(folder):
    """The head of a page says draft, until it says who approved the model and when."""
    night = night_of(folder, "good", "draft")
    assert not codes(night) & {"not_fit_for_use", "flags_like_chance"}
    assert "draft, not approved for use" in (folder / "draft" / "report.html").read_text(encoding="utf-8")
    told = json.loads(screen("approve", folder / "good", "--by", "Dr. <A> Weber", "--json").stdout)

    page = render_model(load_model(folder / "good").sealed)
    assert told["approval"]["by"] == "Dr. <A> Weber" and told["approval"]["date"] in page
    assert "approved for use by Dr. &lt;A&gt; Weber" in page and "draft" not in page


def test_another_threshold_makes_a_draft_of_an_approved_model(folder, tmp_path):
    """An approval is of one operating point; none is taken for granted, and a refusal makes no ledger."""
    screen("approve", folder / "good", "--by", "A. Weber")
    refused = screen("threshold", folder / "good", "--reason", "x", code=2)
    screen("threshold", folder / "good", "--g-mean", "--reason", "balance")
    screen("approve", folder / "good", "--by", " ", "--ledger", tmp_path / "new.db", code=2)

    assert "--max-flag-rate" in refused.stderr
    assert load_model(folder / "good").facts.approval is None
    assert not (tmp_path / "new.db").exists()


def test_a_model_that_is_not_fit_needs_a_reason_and_is_attention_every_night_until_then(folder):
    """The verdict of a model's page reaches nights, exit code and approval."""
    night = night_of(folder, "poor", "before", code=5)
    assert {"not_fit_for_use", "flags_like_chance"} <= codes(night)
    assert {"not_fit_for_use", "flags_like_chance"} <= codes(load_model(folder / "poor").document)
    refused = screen("approve", folder / "poor", "--by", "A. Weber", code=2)
    assert "--reason" in refused.stderr and "not fit for use" in refused.stderr

    screen("approve", folder / "poor", "--by", "A. Weber", "--reason", "for a study")
    assert not codes(night_of(folder, "poor", "after", code=5)) & {"not_fit_for_use", "flags_like_chance"}


def test_an_approval_is_an_entry_of_the_trail_and_the_approved_model_goes_on_as_champion(folder):
    """A series' nights go on with the approved model, and the trail says who approved it."""
    where = ("--ledger", folder / "l.db", "--series", "ward-1")
    night_of(folder, "good", "first", *where)
    screen("approve", folder / "good", "--by", "A. Weber", *where)
    night_of(folder, "good", "second", *where, "--accept-delivery", "one table for both nights", day=2)
    screen("history", "--ledger", folder / "l.db", "--verify")
