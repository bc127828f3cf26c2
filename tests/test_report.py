"""The page as a file: whole, fenced in, the same bytes twice, of bounded size; no text
of a file can act.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from numpy.random import default_rng
from report_fixture import (
    KEPT,
    Outline,
    appraised,
    appraised_run,
    changed,
    hostile,
    nosocomial_model,
    nosocomial_run,
    voxel_model,
    voxel_run,
)

from screening import MaxFlagRate, score, train
from screening.errors import ModelError
from screening.report import drawing, render_model, render_run
from screening.scoring.night_totals import CASES_EXPLAINED, CASES_SHOWN

PAGES: dict[str, tuple[Callable[[Any], str], Callable[[], dict[str, Any]]]] = {
    "run": (render_run, nosocomial_run),
    "voxel run": (render_run, voxel_run),
    "model": (render_model, nosocomial_model),
    "voxel model": (render_model, voxel_model),
    "run with every block": (render_run, appraised_run),
    "model with every block": (render_model, lambda: appraised(nosocomial_model())),
}
NO_TEXTS = frozenset(
    {*KEPT, "overlay", "heat", "method", "log_loss", "predictive", "per", "unit"}
)


@pytest.fixture(params=PAGES, scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def html(name):
    render, document = PAGES[name]
    return render(document())


def test_page_content_policy(html, name):
    """Policy names the inlined style and script by digest and nothing else.

    Pictures are allowed only where there are any, and only from within.
    """
    outline = Outline(html)
    (style,) = outline.raw["style"]
    script = outline.raw["script"][-1]
    metas = {
        meta.get("http-equiv"): meta["content"]
        for meta in outline.all("meta")
        if "content" in meta
    }
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (style, script)
    ]

    assert metas["Content-Security-Policy"] == (
        f"default-src 'none'; style-src {digests[0]}; script-src {digests[1]}; "
        + "img-src data:; " * (name == "run with every block")
        + "base-uri 'none'; form-action 'none'"
    )


def test_page_self_contained(html):
    """Page refers to nothing outside itself and asks not to be found."""
    outline = Outline(html)
    attributes = [a for _, a in outline.elements]
    links = [a["href"] for a in attributes if "href" in a]

    assert outline.open == []
    assert "http:" not in html
    assert "https:" not in html
    for link in links:
        assert link is not None
        assert re.fullmatch(r"#[a-z]+", link)
    forbidden = {"action", "style", "xlink:href"}
    for given in attributes:
        assert not forbidden & set(given)
        assert not [name for name in given if name.startswith("on")]
    sources = [str(given["src"]) for given in attributes if "src" in given]
    for source in sources:
        assert source.startswith("data:image/png")
    for meta, content in (
        ("robots", "noindex, nofollow, noarchive"),
        ("referrer", "no-referrer"),
    ):
        assert {"name": meta, "content": content} in outline.all("meta")


def test_page_is_small_and_says_the_same_bytes_twice(html, name):
    """Whenever it is drawn; words that mislead are explained once."""
    render, made = PAGES[name]
    later = (
        {"times": {"started": "2031-01-01T00:00:00", "seconds": 99}}
        if "run" in name
        else {}
    )
    text = Outline(html).text

    assert render(made() | later) == html
    assert len(html.encode()) < 300_000
    assert text.count("The score is not a probability") == 1
    assert text.count("calibrated rarity") == 1
    assert text.count("A geometric term, unrelated to the p-value") == 1
    assert "Decision support: confirm by chart review" in text


def test_hostile_text_anywhere_in_the_document_is_shown_and_never_acts(html, name):
    render, document = PAGES[name]
    calm = Outline(html)
    attacked = Outline(render(hostile(document(), NO_TEXTS)))
    tags = ("script", "img", "style", "iframe", "table", "tr")

    assert [len(attacked.all(tag)) for tag in tags] == [
        len(calm.all(tag)) for tag in tags
    ]
    scripts = attacked.raw["script"]
    assert len(scripts) == len(calm.raw["script"])
    assert scripts[-1] == calm.raw["script"][-1]
    assert "<img src=x onerror=alert(1)>" in attacked.text
    assert "{{7*7}}" in attacked.text
    assert "⟨U+202E⟩evil⟨U+200B⟩" in attacked.text
    assert "\u202e" not in attacked.text
    assert "\u200b" not in attacked.text
    assert attacked.open == []


def test_data_for_the_script_holds_no_id_and_cannot_end_its_element():
    run = nosocomial_run()
    inlined = Outline(render_run(run)).raw["script"][0]
    counts = json.loads(inlined)
    assert counts["flagged"][counts["validated"]] == run["counts"]["flagged"]
    for case in run["cases"]:
        assert case["id"] not in inlined
    assert (
        drawing.as_json({"x": "</script>&"}) == '{"x":"\\u003c/script\\u003e\\u0026"}'
    )


def test_page_line_of_each_row():
    """Every flagged row has its line and its boxes and every near miss its line.

    With the document's reasons; ten thousand characters keep both ends and say how long
    they were.
    """
    run = changed(nosocomial_run(), cases__0__id="A" * 9_000 + "B" * 1_000)
    page = render_run(run)
    outline = Outline(page)
    rows = [a for a in outline.all("li") if "data-score" in a]
    scores = [
        float(str(row["data-score"])) for row in rows if "data-flagged" not in row
    ]
    boxes = [a for a in outline.all("div") if a.get("class") == "t"]

    assert scores == [case["score"] for case in run["cases"]]
    n_cases = len(run["cases"])
    assert len(rows) == n_cases + len(run["near_misses"])
    assert len(boxes) == n_cases + len(run["sample"])
    for case in run["cases"][1:]:
        line = page[page.index(f"<bdi>{case['id']}</bdi>") :][:6000].split(
            "<li class=c"
        )[0]
        for one in case["contributions"]:
            assert one["feature"].replace("_", " ") in line
            assert f"{one['change']:+.3f}".replace("-", "−") in line
    text = "".join(outline.words)
    assert "BBBBBBBB (10,000 characters)" in text
    assert "A" * 100 not in text


def test_page_scale_of_own_class():
    """Rows ranked by excess are marked on the scale of their own class."""
    # Patients are not rows of one class, so only a run without them is marked line by
    # line.
    no_groups = {"groups": None, "groups_total": None, "groups_flagged": None}
    run = voxel_run() | no_groups
    page = render_run(run)
    thresholds = {
        point["class"]: point["threshold"] for point in run["model"]["operating_points"]
    }
    shown = re.findall(r'data-score="([^"]+)"', page)
    scores = [float(score) for score in shown]
    assert scores == [
        case["score"] + thresholds[case["class"]] for case in run["cases"]
    ]
    assert "furthest above the threshold first" in page


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model", "validation"),
        ("model", "machine"),
        ("run", "counts"),
        ("run", "cases_total"),
    ],
)
def test_page_incomplete_document(name, part):
    """A document without one of its parts is refused by name and not drawn.

    Blocks of validation may be empty.
    """
    render, made = PAGES[name]
    document = made()
    del document[part]
    blocks = {
        "subgroups": {},
        "predictive": {},
        "calibration": {},
        "forward": None,
    }
    empty = {f"model__validation__{block}": value for block, value in blocks.items()}

    with pytest.raises(ModelError, match=rf"{name}\.json .*\b{part}\b"):
        render(document)
    assert render_run(changed(appraised_run(), **empty)).endswith("</html>\n")


COHORTS = Path(str(files("screening.sample_cohorts")))


@pytest.fixture(scope="module")
def model():
    # Of the rows it learned from it flags fewer, and still more than half: more than
    # get a line each.
    quick = {
        "search": 1,
        "folds": 3,
        "rule": MaxFlagRate(0.7),
        # A wide kernel: a narrow one knows the rows it learned from, and flags few.
        "params": {"gamma": "scale", "nu": 0.1},
        "forward": False,
        "beside": (),
    }
    past = COHORTS / "nosocomial_past.csv"
    contract = COHORTS / "nosocomial.toml"
    return train(
        past, "one_class_conformal", contract=contract, label="infected", **quick
    )


@pytest.fixture(scope="module")
def nights(model, tmp_path_factory):
    """Runs of 683 and of 10,000 patients, drawn with replacement from the past and
    named anew.
    """
    folder = tmp_path_factory.mktemp("nights")
    past = pd.read_csv(
        COHORTS / "nosocomial_past.csv", dtype=str, keep_default_na=False
    )
    runs = {}
    for n in (683, 10_000):
        drawn = default_rng(n).integers(0, len(past), n)
        night = past.iloc[drawn].drop(columns="infected")
        ids = [f"{i:08d}" for i in range(n)]
        # Rows that agree in everything would be listed as possibly one patient.
        noise = default_rng(n).uniform(0, 0.01, n)
        rates = pd.to_numeric(night["heart_rate_max"]) + noise
        night = night.assign(patient_id=ids, heart_rate_max=rates.round(6))
        path = folder / f"{n}.csv"
        night.to_csv(path, index=False)
        runs[n] = score(model, path, folder / str(n), date="2026-03-01")
    return runs


def test_size_of_a_page(nights):
    """The first hundred have reasons, all up to the cap a line; the page of a ward is
    under 440 kilobytes.
    """
    ward = nights[683].document
    run = nights[10000].document
    sizes = [
        (nights[rows].directory / "report.html").stat().st_size
        for rows in (683, 10_000)
    ]
    page = render_run(run)
    cases = run["cases"]
    explained = [case for case in cases if case["contributions"] is not None]
    folds = page.count("<details><summary><span class=f><i class=r>")

    assert ward["counts"]["flagged"] > 300
    assert run["counts"]["flagged"] > CASES_SHOWN
    assert sizes[0] < 440_000
    assert sizes[1] < 1_500_000
    ranks = [case["rank"] for case in run["cases"]]
    assert ranks == list(range(1, CASES_SHOWN + 1))
    assert len(explained) == run["cases_explained"] == CASES_EXPLAINED
    assert folds == CASES_EXPLAINED
    assert page.count("<div class=t></div>") == CASES_SHOWN + len(run["sample"])
    assert f"5,000 of {run['cases_total']:,} shown" in page
