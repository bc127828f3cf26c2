"""A site's own templates draw the page of whatever is made, and are looked at before it is made."""

import pytest
from commands import screen
from flow_cohorts import patients, written
from report_fixture import nosocomial_model, nosocomial_run

from screening import compare, read_cohort
from screening.errors import UsageError
from screening.page import comparison, page
from screening.page.drawing import check_templates, names_given
from screening.storage.model import Model
from screening.training import train as training

QUICK = ("--label", "ill", "--id", "patient", "--search", "1", "--folds", "2", "--jobs", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two tables, and templates with the hospital's name at the head of every page."""
    folder = tmp_path_factory.mktemp("place")
    written(patients(), folder / "past.csv")
    written(patients(60, seed=7), folder / "night.csv")
    (folder / "own").mkdir()
    (folder / "own" / "banner.html.j2").write_text(
        "<p>St Elsewhere</p>{% include 'shipped/banner.html.j2' %}"
    )
    (folder / "own" / "report.css").write_text("body{color:#123}")
    (folder / "own" / "compare.html.j2").write_text(
        "<p>St Elsewhere</p>{% include 'shipped/compare.html.j2' %}"
    )
    return folder


@pytest.fixture(scope="module")
def model(place):
    """A model trained with the site's templates."""
    words = ("train", place / "past.csv", "--recipe", "svm", *QUICK, "--beside", "none")
    screen(*words, "--out", place / "plain")
    screen(*words, "--out", place / "model", "--templates", place / "own")
    return place / "model"


@pytest.fixture
def broken(tmp_path):
    """Templates of which one asks for what no page is given."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "banner.html.j2").write_text("{{ hospital }}")
    return tmp_path / "broken"


def test_the_page_of_a_training_is_the_sites_and_the_model_is_the_same(place, model):
    assert "<p>St Elsewhere</p>" in (model / "report.html").read_text(encoding="utf-8")
    assert (model / "model.json").read_bytes() == (place / "plain" / "model.json").read_bytes()


def test_the_page_of_a_night_is_the_sites(place, model, tmp_path):
    screen("score", model, place / "night.csv", "--out", tmp_path / "run", "--templates", place / "own")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")

    assert "<p>St Elsewhere</p><header" in page and "<style>body{color:#123}" in page


def test_another_threshold_keeps_the_sites_page(place, model):
    words = ("threshold", place / "plain", "--g-mean", "--reason", "a test")
    screen(*words, "--templates", place / "own")

    assert "<p>St Elsewhere</p>" in (place / "plain" / "report.html").read_text(encoding="utf-8")


def test_the_page_of_a_comparison_is_the_sites(place, tmp_path):
    words = ("compare", place / "past.csv", "--recipes", "svm,logistic", *QUICK)
    screen(*words, "--out", tmp_path / "compared", "--templates", place / "own")

    assert "<p>St Elsewhere</p>" in (tmp_path / "compared" / "report.html").read_text(encoding="utf-8")


def test_a_broken_template_is_refused_before_any_work(place, model, broken, tmp_path, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("this is the work")

    monkeypatch.setattr(training, "train", never)
    monkeypatch.setattr(Model, "opened", never)
    out = ("--out", tmp_path / "out", "--templates", broken)
    past = (place / "past.csv", *QUICK)

    said = [
        screen("train", *past, "--recipe", "svm", *out, code=2).stderr,
        screen("score", model, place / "night.csv", *out, code=2).stderr,
        screen("compare", *past, "--recipes", "svm", *out, code=2).stderr,
    ]

    assert all("banner.html.j2: 'hospital' is undefined" in words for words in said)
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_a_template_that_fails_only_on_the_page_leaves_nothing_half_written(place, model, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "tonight.html.j2").write_text("{{ run.hospital }}")
    words = ("score", model, place / "night.csv", "--out", tmp_path / "run", "--templates", tmp_path / "own")

    assert "hospital" in screen(*words, code=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% if %}", "banner.html.j2 line 1"), ("{{ banner|shout }}", "shout"),
        ("{% include 'gone.j2' %}", "no template gone.j2"), (b"\xff", "utf-8"),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "banner.html.j2").write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(UsageError, match=words):
        check_templates(tmp_path, "run")


@pytest.mark.parametrize(
    "text",
    [
        "{% if tonight is defined %}{{ tonight }}{% endif %}", "{{ hospital|default('St Elsewhere') }}",
        "{% set ward = 'icu' %}{% include 'ward.j2' %}", "{% include 'gone.j2' ignore missing %}",
        "{% for number in range(3) %}{{ loop.index }}{{ number }}{% endfor %}",
        "{% macro bold(word) %}<b>{{ word }}</b>{% endmacro %}{{ bold(banner.title) }}",
    ],
)  # fmt: skip
def test_what_can_be_drawn_is_not_refused(tmp_path, text):
    (tmp_path / "banner.html.j2").write_text(text)
    (tmp_path / "ward.j2").write_text("{{ ward }}")

    check_templates(tmp_path, "model")


@pytest.fixture(scope="module")
def compared(place):
    """A comparison's document."""
    past = read_cohort(place / "past.csv", label="ill", id="patient", need_label=True)
    return compare({"past": past}, ["logistic"], folds=2, search=1, jobs=1).document


@pytest.mark.parametrize(
    ("module", "render", "kind"),
    [
        (page, "render_run", "run"),
        (page, "render_model", "model"),
        (comparison, "render_comparison", "comparison"),
    ],
)
def test_whatever_a_page_is_given_may_be_asked_for(module, render, kind, compared, monkeypatch):
    documents = {"run": nosocomial_run(), "model": nosocomial_model(), "comparison": compared}
    given: dict[str, object] = {}
    monkeypatch.setattr(module, "draw", lambda template, blocks, **_: given.update(blocks))
    getattr(module, render)(documents[kind])

    assert given
    assert set(given) <= names_given(kind)
