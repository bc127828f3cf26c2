"""Copies for teaching: nobody stands out from fewer than five, and no name or exact value is in them."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import screen
from faults.desk import QUICK
from flow_cohorts import patients, voxels, written
from hypothesis import given
from hypothesis import strategies as st

from screening import MaxFlagRate, score
from screening.errors import UsageError
from screening.schemas.run import RunDocument
from screening.teaching import deidentified
from screening.teaching.deidentification import (
    LEAST,
    WITHHELD,
    at_least,
    crowds,
    suppress_small,
)
from screening.teaching.key import SiteKey

KEY = SiteKey(bytes(range(32)))
CANARIES = ("Mustermann", "Klinikum Nord", "because Doctor Meyer", "Meyer")


def key_in(place: Path, secret: bytes = bytes(range(32)), mode: int = 0o600) -> Path:
    place.write_bytes(secret)
    place.chmod(mode)
    return place


def document_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_bytes())


def run_of(document: dict) -> RunDocument:
    return RunDocument.from_dict(document, "run.json")


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """The second night of a site that wrote names wherever it could, with a ledger and verdicts."""
    folder = tmp_path_factory.mktemp("Mustermann")
    past = written(patients(200), folder / "past-Mustermann.csv")
    model, contract = folder / "model", folder / "contract.toml"
    screen("init", past, "--out", contract)
    text = contract.read_text(encoding="utf-8").replace(
        "[cohort]", '[cohort]\ntitle = "Klinikum Nord"', 1
    )
    contract.write_text(text, encoding="utf-8")
    roles = ("--contract", contract, "--label", "ill", "--max-flag-rate", "0.3")
    screen("train", past, *QUICK, *roles, "--out", model)
    screen(
        "threshold",
        model,
        "--max-flag-rate",
        "0.35",
        "--reason",
        "because Doctor Meyer said so",
    )
    for day in ("2026-03-01", "2026-03-02"):
        table = patients(120, share=0.3, seed=7).drop(columns="ill")
        tonight = written(table, folder / f"{day}-Mustermann.csv")
        words = ("--date", day, "--ledger", folder / "screening.db")
        same = ("--accept-delivery", "the same table again")
        screen("score", model, tonight, "--out", folder / day, *words, *same)
    return folder / "2026-03-02"


@pytest.fixture(scope="module")
def page(night, tmp_path_factory):
    target = tmp_path_factory.mktemp("copy") / "copy.html"
    key = key_in(target.parent / "key")
    answer = screen("report", night, "--de-identify", key, "--out", target, "--json")
    return target.read_text(encoding="utf-8"), json.loads(answer.stdout)


def test_on_a_night_five_patients_share_every_line(night):
    run = run_of(document_of(night))
    copy = deidentified(run, KEY)
    document, sharing = copy.run.to_dict(), defaultdict(set)
    owner_of = {
        KEY.pseudonym(case.id): case.group or case.id
        for case in (*run.cases, *run.near_misses)
    }
    for case in (*document["cases"], *document["near_misses"]):
        line = json.dumps({name: value for name, value in case.items() if name != "id"})
        sharing[line].add(owner_of[case["id"]])
    threshold, cases = copy.run.model.operating_points[0].threshold, copy.run.cases
    highest_below = max(case.score for case in copy.run.near_misses)

    assert len(cases) == len(run.cases)
    assert min(map(len, sharing.values())) == copy.smallest_group >= LEAST
    # Ranks keep the flagged above the threshold.
    assert 0 < threshold < 100
    assert min(case.score for case in cases) >= threshold >= highest_below


def test_on_a_night_of_voxels_five_patients_share_every_line_not_five_voxels(
    tissue, trained, tmp_path
):
    model = trained(tissue, "one_vs_rest", search=1, folds=4, rule=MaxFlagRate(0.3))
    score(model, voxels(9, seed=5).drop(columns="tissue"), tmp_path / "run")
    copy = deidentified(run_of(document_of(tmp_path / "run")), KEY)
    assert copy.smallest_group >= LEAST
    assert copy.run.groups is None and copy.run.voxels is None
    assert not [case for case in copy.run.cases if case.group is not None]


def test_no_name_id_digest_date_or_text_of_the_site_is_anywhere_in_a_copy(night, page):
    document, ids = document_of(night), pd.read_parquet(night / "scores.parquet")["id"]
    digests = set(re.findall(r"\b[0-9a-f]{12,64}\b", json.dumps(document)))
    files = {
        file["name"]
        for part in (document["input"], document["model"]["training"]["source"])
        for file in part["files"]
    }
    dates = set(re.findall(r"20\d\d-\d\d-\d\d", json.dumps(document)))
    secrets = {
        *ids,
        *digests,
        *files,
        *dates,
        *CANARIES,
        document["run_id"],
        document["ledger"]["head"],
    }
    assert all(secrets)
    assert not [secret for secret in secrets if str(secret) in page[0]]


def test_no_exact_figure_of_a_patient_is_anywhere_in_a_copy(night, page):
    document = document_of(night)
    listed = [*document["cases"], *document["near_misses"]]
    figures = {
        repr(case[key])
        for case in listed
        for key in ("score", "chance")
        if case.get(key) is not None
    }
    figures |= {one["value"] for case in listed for one in case["contributions"] or ()}
    figures |= {
        repr(one["change"]) for case in listed for one in case["contributions"] or ()
    }
    figures |= {
        repr(each)
        for curve in document["model"]["validation"]["curves"].values()
        for each in curve["threshold"]
    }
    # Rounded as the run's own page shows them, too.
    figures |= {
        f"{float(each):.4g}"
        for each in figures
        if re.fullmatch(r"-?\d+\.\d{4,}.*", each)
    }
    exact = {each for each in figures if len(re.sub(r"\D", "", each)) >= 4}

    # Rates of all past patients along the slider stay, and may read alike.
    shown = re.sub(r'"(sensitivity|specificity|flag_rate)":\[[^]]*\]', "", page[0])

    assert len(exact) > 100
    assert not [
        each
        for each in exact
        if re.search(rf"(?<![\d.]){re.escape(each)}(?!\d)", shown)
    ]


def test_what_is_shown_of_a_crowd_is_true_of_each_of_them(night):
    run = run_of(document_of(night))
    before = {KEY.pseudonym(case.id): case for case in (*run.cases, *run.near_misses)}
    told = [
        (own, one)
        for case in deidentified(run, KEY).run.cases
        for one in case.contributions
        for own in before[case.id].contributions
        if own.feature == one.feature
    ]
    bands = [(own, one) for own, one in told if " to " in one.value]
    words = [
        (own, one)
        for own, one in told
        if " to " not in one.value and one.value != WITHHELD
    ]

    assert len(bands) > 20
    for own, one in bands:
        low, high = map(float, one.value.split(" to "))
        assert low <= float(own.value) < high and own.direction == one.direction
    assert all(own.value == one.value for own, one in words)


def test_the_same_patient_has_the_same_pseudonym_under_one_key_alone(night):
    run = run_of(document_of(night))
    one, again, other = (
        deidentified(run, key).run for key in (KEY, KEY, SiteKey(bytes(range(9, 41))))
    )
    assert one == again
    assert not {case.id for case in one.cases} & {case.id for case in other.cases}
    assert one.date != other.date


def test_of_one_to_four_flagged_patients_no_copy_is_made_and_a_quiet_night_has_one(
    night,
):
    run = document_of(night)
    with pytest.raises(UsageError, match="nobody can be hidden"):
        deidentified(run_of(run | {"cases": run["cases"][: LEAST - 1]}), KEY)
    copy = deidentified(run_of(run | {"cases": [], "near_misses": []}), KEY)
    assert copy.smallest_group is None and copy.run.cases == []


@pytest.mark.parametrize(
    ("secret", "mode", "remedy"),
    [
        (b"short", 0o600, "openssl rand"),
        (b"a" * 64, 0o600, "openssl rand"),
        (b"ab" * 16, 0o600, "openssl rand"),
        (bytes(range(32)), 0o644, "chmod 600"),
    ],
)
def test_a_key_that_others_could_guess_or_read_is_refused(
    night, tmp_path, secret, mode, remedy
):
    words = (
        "--de-identify",
        key_in(tmp_path / "key", secret, mode),
        "--out",
        tmp_path / "x.html",
    )
    assert remedy in screen("report", night, *words, code=2).stderr
    assert not (tmp_path / "x.html").exists()


def test_a_copy_never_replaces_the_page_of_its_run(night, tmp_path):
    key = key_in(tmp_path / "key")
    assert "give --out" in screen("report", night, "--de-identify", key, code=2).stderr
    words = (
        "report",
        night.parent / "model",
        "--de-identify",
        key,
        "--out",
        tmp_path / "x.html",
    )
    assert "names no patient" in screen(*words, code=2).stderr


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 6), max_size=5), st.integers(0, 12)),
        max_size=60,
    )
)
def test_a_crowd_is_of_five_patients_and_every_row_is_in_one(rows):
    has = np.array([[fact in facts for fact in range(7)] for facts, _ in rows]).reshape(
        -1, 7
    )
    owners = np.array([whose for _, whose in rows], int)

    groups = crowds(has, owners)

    everybody = len(set(owners)) >= LEAST
    assert (
        sorted(i for group in groups for i in group)
        == list(range(len(rows))) * everybody
    )
    assert all(len(set(owners[group])) >= LEAST for group in groups)
    # No group could be parted again into two crowds.
    for group in groups:
        for fact in has[group].T:
            assert (
                min(len(set(owners[group[fact == side]])) for side in (True, False))
                < LEAST
            )


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 30)))
def test_no_count_under_five_is_told_nor_follows_from_the_sum(counts):
    shown = suppress_small(counts)
    hidden = {name: n for name, n in counts.items() if name not in shown}
    total, all_of_them = (
        sum(hidden.values()),
        len(hidden) == len([n for n in counts.values() if n]),
    )
    assert all(n == 0 or n >= LEAST for n in shown.values())
    assert total == 0 or total >= LEAST or all_of_them


@given(st.floats(1e-6, 1))
def test_a_shown_p_value_is_never_smaller_than_the_true_one(p):
    assert p * (1 - 1e-6) <= at_least(p) <= 1
