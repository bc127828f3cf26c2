"""Real runs of a hostile table: ids, wards, columns and classes that try to act are shown as text."""

import json
from typing import Any

import pandas as pd
import pytest
from commands import screen
from flow_cohorts import patients, written

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
SUM = "{{7*7}}{% raw %}"
TURNED = "\u202eevil\u200b"
LONG = "A" * 9_992 + "LONGTAIL"
FEATURES = {"fever": f"fever {IMAGE}", "crp": f"{SCRIPT} {SUM}", "ward": f"ward {TURNED}\"'&"}
WARDS = {"icu": IMAGE, "medicine": SCRIPT, "surgery": f"{SUM} {TURNED} {'C' * 10_000}"}
IDS = (IMAGE, SCRIPT, SUM, f"12{TURNED}34", LONG, "\"'><b>&amp;", "\u05d0\u05d1 77", "00123")


def told(*words: object) -> dict[str, Any]:
    """What a command answers."""
    return json.loads(screen(*words, "--json").stdout)


def attacked(table: pd.DataFrame) -> pd.DataFrame:
    """A table of patients under hostile names."""
    names = [*IDS, *(f"{SUM} {i}" for i in range(len(IDS), len(table)))]
    table = table.assign(patient=names, ward=table["ward"].map(WARDS))
    table.insert(1, "B" * 9_990 + "LONGCOLUMN", table["fever"] - 36.5)
    return table.rename(columns=FEATURES | {"patient": "id <b>", "ill": "ill?</title>"})


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Model, run, one case and a page of nights, all of the same hostile table."""
    folder = tmp_path_factory.mktemp("ward")
    past = written(attacked(patients(200)), folder / "past.csv")
    tonight = patients(60, seed=3).drop(columns="ill")
    tonight.loc[: len(IDS) - 1, ["fever", "crp"]] = [38.2, 30.0]
    tonight = written(attacked(tonight), folder / f"{SUM} & night.csv")
    words = ("--label", "ill?</title>", "--id", "id <b>", "--recipe", "svm_weighted", "--jobs", 1)
    told("train", past, *words, "--search", 1, "--folds", 3, "--out", folder / "model")
    ledger = ("--ledger", folder / "l.db", "--date", "2026-03-01")
    told("score", folder / "model", tonight, "--out", folder / "run", *ledger)
    told("explain", folder / "run", IMAGE, "--out", folder / "case.html")
    told("history", "--ledger", folder / "l.db", "--out", folder / "history.html")
    return {
        "model": folder / "model" / "report.html", "run": folder / "run" / "report.html",
        "case": folder / "case.html", "history": folder / "history.html",
    }  # fmt: skip


def words_of(view: Any) -> str:
    return " ".join(view.evaluate("document.body.textContent").split())


@pytest.mark.parametrize("page", ["model", "run", "case", "history"])
def test_nothing_in_a_hostile_table_acts_on_any_page(opened, ward, page):
    view, seen = opened(ward[page].read_text(encoding="utf-8"))

    assert seen == []
    assert view.locator("img, b > script, iframe, title ~ title").count() == 0
    assert view.evaluate("document.querySelectorAll('script:not([type])').length") <= 1
    assert view.evaluate("document.documentElement.scrollWidth") <= 1100


def test_hostile_ids_wards_and_columns_are_read_as_they_were_written(opened, ward):
    view, _ = opened(ward["run"].read_text(encoding="utf-8"))
    words = words_of(view)

    assert all(text in words for text in (IMAGE, SCRIPT, "{{7*7}}{% raw %}", f"fever {IMAGE}", "00123"))
    assert "12⟨U+202E⟩evil⟨U+200B⟩34" in words
    assert "\u202e" not in words and "\u200b" not in words
    assert "NGCOLUMN (10,000 characters)" in words and "B" * 2_000 not in words
    assert "LONGTAIL (10,000 characters)" in words and "A" * 80 not in words


def test_verdicts_on_hostile_ids_are_saved_letter_by_letter_and_read_back(opened, ward, tmp_path):
    view, seen = opened(ward["run"].read_text(encoding="utf-8"))
    for fold in view.locator("#list .part > summary").all():
        fold.click()
    for place in view.locator(".list .t").all():
        place.scroll_into_view_if_needed()
        place.locator("input[value=unsure]").check()
    view.locator(".list li details > summary").first.click()
    view.locator(".list .said").first.fill("seen <here>")
    view.fill("#review-site", "ward 3")
    with view.expect_download() as download:
        view.keyboard.press("Control+s")
    download.value.save_as(tmp_path / "v.json")
    content = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    saved = {one["id"] for one in content["verdicts"]}
    run = ward["run"].parent

    assert content["site"] == "ward 3" and content["verdicts"][0]["note"] == "seen <here>"
    assert set(IDS) <= saved
    assert told("review", run, tmp_path / "v.json", "--ledger", run.parent / "l.db")["new"] == len(saved)
    assert seen == []
