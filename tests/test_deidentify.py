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

from screening.errors import UsageError
from screening.schemas.run import RunDocument
from screening.teaching import deidentified
from screening.teaching.deidentification import LEAST, WITHHELD, at_least, crowds, suppress_small
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
    contract = folder / "contract.toml"
    screen("init", past, "--out", contract)
    text = contract.read_text(encoding="utf-8").replace("[cohort]", '[cohort]\ntitle = "Klinikum Nord"', 1)
    contract.write_text(text, encoding="utf-8")
    model, ledger = folder / "model", ("--ledger", folder / "screening.db")
    screen(
        "train", past, *QUICK, "--contract", contract, "--label", "ill", "--max-flag-rate", "0.3", "--out",
        model,
    )  # fmt: skip
    screen("threshold", model, "--max-flag-rate", "0.35", "--reason", "because Doctor Meyer said so")
    for day, seed in (("2026-03-01", 7), ("2026-03-02", 7)):
        table = patients(120, share=0.3, seed=seed).drop(columns="ill")
        tonight = written(table, folder / f"{day}-Mustermann.csv")
        same = ("--accept-delivery", "the same table again")
        screen("score", model, tonight, "--out", folder / day, "--date", day, *ledger, *same)
    return folder / "2026-03-02"


@pytest.fixture(scope="module")
def page(night, tmp_path_factory):
    target = tmp_path_factory.mktemp("copy") / "copy.html"
    answer = screen(
        "report", night, "--de-identify", key_in(target.parent / "key"), "--out", target, "--json"
    )
    return target.read_text(encoding="utf-8"), json.loads(answer.stdout)


def measured(listed: list[dict], owner_of: dict[str, str]) -> int:
    """The fewest patients behind one line of a list, read from the copy alone but for whose name is whose."""
    sharing = defaultdict(set)
    for case in listed:
        sharing[json.dumps({name: value for name, value in case.items() if name != "id"})].add(
            owner_of[case["id"]]
        )
    return min(map(len, sharing.values()))


def assert_hides(document: dict) -> None:
    run = run_of(document)
    copy = deidentified(run, KEY)
    document = copy.run.to_dict()
    owner_of = {KEY.pseudonym(case.id): case.group or case.id for case in (*run.cases, *run.near_misses)}
    listed = [*document["cases"], *document["near_misses"]]

    assert len(document["cases"]) == len(run.cases)
    assert measured(listed, owner_of) == copy.smallest_group >= LEAST


def test_on_a_night_five_patients_share_every_line(night):
    assert_hides(document_of(night))


def test_on_a_night_of_voxels_five_patients_share_every_line_not_five_voxels(tmp_path):
    past = written(voxels(), tmp_path / "past.csv")
    screen(
        "train", past, *QUICK[2:], "--recipe", "one_vs_rest", "--label", "tissue", "--group", "patient",
        "--max-flag-rate", "0.3", "--out", tmp_path / "model",
    )  # fmt: skip
    tonight = written(voxels(9, seed=5).drop(columns="tissue"), tmp_path / "t.csv")
    screen("score", tmp_path / "model", tonight, "--out", tmp_path / "run")
    run = run_of(document_of(tmp_path / "run"))

    copy = deidentified(run, KEY)

    assert copy.smallest_group >= LEAST
    assert copy.run.groups is None and copy.run.voxels is None
    assert not [case for case in copy.run.cases if case.group is not None]


def test_no_name_id_digest_date_or_text_of_the_site_is_anywhere_in_a_copy(night, page):
    document, ids = document_of(night), pd.read_parquet(night / "scores.parquet")["id"]
    digests = set(re.findall(r"\b[0-9a-f]{12,64}\b", json.dumps(document)))
    files = {file["name"] for part in (document["input"], document["model"]["training"]["source"])
             for file in part["files"]}  # fmt: skip
    dates = set(re.findall(r"20\d\d-\d\d-\d\d", json.dumps(document)))
    secrets = {*ids, *digests, *files, *dates, *CANARIES, document["run_id"], document["ledger"]["head"]}

    assert all(secrets)
    assert not [secret for secret in secrets if str(secret) in page[0]]


def test_no_exact_figure_of_a_patient_is_anywhere_in_a_copy(night, page):
    document = document_of(night)
    listed = [*document["cases"], *document["near_misses"]]
    figures = {repr(case[key]) for case in listed for key in ("score", "chance") if case.get(key) is not None}
    figures |= {one["value"] for case in listed for one in case["contributions"] or ()}
    figures |= {repr(one["change"]) for case in listed for one in case["contributions"] or ()}
    figures |= {repr(each) for curve in document["model"]["validation"]["curves"].values()
                for each in curve["threshold"]}  # fmt: skip
    # Rounded as the run's own page shows them, too.
    figures |= {f"{float(each):.4g}" for each in figures if re.fullmatch(r"-?\d+\.\d{4,}.*", each)}
    exact = {each for each in figures if len(re.sub(r"\D", "", each)) >= 4}

    # Rates of all past patients along the slider stay, and may read alike.
    shown = re.sub(r'"(sensitivity|specificity|flag_rate)":\[[^]]*\]', "", page[0])

    assert len(exact) > 100
    assert not [each for each in exact if re.search(rf"(?<![\d.]){re.escape(each)}(?!\d)", shown)]


def test_what_is_shown_of_a_crowd_is_true_of_each_of_them(night):
    run = run_of(document_of(night))
    before = {KEY.pseudonym(case.id): case for case in (*run.cases, *run.near_misses)}

    copy = deidentified(run, KEY).run
    told = [(before[case.id], one) for case in copy.cases for one in case.contributions]
    bands = [(case, one) for case, one in told if " to " in one.value]

    assert len(bands) > 20
    for case, one in bands:
        low, high = map(float, one.value.split(" to "))
        own = next(each for each in case.contributions if each.feature == one.feature)
        assert low <= float(own.value) < high and own.direction == one.direction
    words = [(case, one) for case, one in told if one not in [b for _, b in bands] and one.value != WITHHELD]
    for case, one in words:
        own = next(each for each in case.contributions if each.feature == one.feature)
        assert own.value == one.value


def test_ranks_keep_the_flagged_above_the_threshold(night):
    copy = deidentified(run_of(document_of(night)), KEY).run
    threshold = copy.model.operating_points[0].threshold
    assert 0 < threshold < 100
    assert min(case.score for case in copy.cases) >= threshold >= max(case.score for case in copy.near_misses)


def test_the_same_patient_has_the_same_pseudonym_under_one_key_alone(night):
    run = run_of(document_of(night))
    one, again, other = (deidentified(run, key).run for key in (KEY, KEY, SiteKey(bytes(range(9, 41)))))
    assert one == again
    assert not {case.id for case in one.cases} & {case.id for case in other.cases}
    assert one.date != other.date


def test_of_one_to_four_flagged_patients_no_copy_is_made(night):
    run = document_of(night)
    few = run | {"cases": run["cases"][: LEAST - 1]}
    with pytest.raises(UsageError, match="nobody can be hidden"):
        deidentified(run_of(few), KEY)


def test_a_quiet_night_has_a_copy(night):
    copy = deidentified(run_of(document_of(night) | {"cases": [], "near_misses": []}), KEY)
    assert copy.smallest_group is None and copy.run.cases == []


@pytest.mark.parametrize(
    ("secret", "mode", "remedy"),
    [(b"short", 0o600, "openssl rand"), (b"a" * 64, 0o600, "openssl rand"),
     (b"ab" * 16, 0o600, "openssl rand"), (bytes(range(32)), 0o644, "chmod 600")],
)  # fmt: skip
def test_a_key_that_others_could_guess_or_read_is_refused(night, tmp_path, secret, mode, remedy):
    key = key_in(tmp_path / "key", secret, mode)
    assert (
        remedy in screen("report", night, "--de-identify", key, "--out", tmp_path / "x.html", code=2).stderr
    )
    assert not (tmp_path / "x.html").exists()


def test_a_copy_never_replaces_the_page_of_its_run(night, tmp_path):
    key = key_in(tmp_path / "key")
    assert "give --out" in screen("report", night, "--de-identify", key, code=2).stderr
    words = ("report", night.parent / "model", "--de-identify", key, "--out", tmp_path / "x.html")
    assert "names no patient" in screen(*words, code=2).stderr


@given(st.lists(st.tuples(st.sets(st.integers(0, 6), max_size=5), st.integers(0, 12)), max_size=60))
def test_a_crowd_is_of_five_patients_and_every_row_is_in_one(rows):
    has = np.array([[fact in facts for fact in range(7)] for facts, _ in rows]).reshape(-1, 7)
    owners = np.array([whose for _, whose in rows], int)

    groups = crowds(has, owners)

    everybody = len(set(owners)) >= LEAST
    assert sorted(i for group in groups for i in group) == list(range(len(rows))) * everybody
    assert all(len(set(owners[group])) >= LEAST for group in groups)
    # No group could be parted again into two crowds.
    for group in groups:
        for fact in has[group].T:
            assert min(len(set(owners[group[fact == side]])) for side in (True, False)) < LEAST


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 30)))
def test_no_count_under_five_is_told_nor_follows_from_the_sum(counts):
    shown = suppress_small(counts)
    hidden = {name: n for name, n in counts.items() if name not in shown}

    assert all(n == 0 or n >= LEAST for n in shown.values())
    assert (
        sum(hidden.values()) == 0
        or sum(hidden.values()) >= LEAST
        or len(hidden) == len([n for n in counts.values() if n])
    )


@given(st.floats(1e-6, 1))
def test_a_shown_p_value_is_never_smaller_than_the_true_one(p):
    assert p * (1 - 1e-6) <= at_least(p) <= 1
