"""A site's own templates draw the page of whatever is made, and are looked at before it
is made.
"""

import pytest
from commands import screen
from flow_cohorts import patients, written
from written_files import names_in, page_in

from screening.errors import UsageError
from screening.model_selection import train as training
from screening.report.drawing import environment_of
from screening.report.page import PAGES, check_templates
from screening.store.model import Model

QUICK = (
    "--label",
    "ill",
    "--id",
    "patient",
    "--search",
    "1",
    "--folds",
    "2",
    "--jobs",
    "1",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two tables, and templates with the hospital's name at the head of every page."""
    folder = tmp_path_factory.mktemp("place")
    written(patients(), folder / "past.csv")
    written(patients(60, seed=7), folder / "night.csv")
    (folder / "own").mkdir()
    for page in ("banner", "compare"):
        text = f"<p>St Elsewhere</p>{{% include 'shipped/{page}.html.j2' %}}"
        (folder / "own" / f"{page}.html.j2").write_text(text)
    (folder / "own" / "report.css").write_text("body{color:#123}")
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
    (tmp_path / "broken" / "page.html.j2").write_text("{{ hospital }}")
    return tmp_path / "broken"


def test_the_page_of_a_training_is_the_sites_and_the_model_is_the_same(place, model):
    assert "<p>St Elsewhere</p>" in page_in(model)
    assert (model / "model.json").read_bytes() == (
        place / "plain" / "model.json"
    ).read_bytes()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("score", "model", "night.csv", "--out", "run"), "run"),
        (("threshold", "plain", "--g-mean", "--reason", "a test"), "plain"),
        (
            (
                "compare",
                "past.csv",
                "--recipes",
                "svm,logistic",
                *QUICK,
                "--out",
                "compared",
            ),
            "compared",
        ),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("model")
def test_every_page_is_the_sites(place, monkeypatch, words, page):
    monkeypatch.chdir(place)
    screen(*words, "--templates", "own")
    assert "<p>St Elsewhere</p>" in page_in(place / page)


def test_broken_template_is_refused_before_any_work(
    place, model, broken, tmp_path, monkeypatch
):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("this is the work")

    monkeypatch.setattr(training, "train", never)
    monkeypatch.setattr(Model, "opened", never)
    out = ("--out", tmp_path / "out", "--templates", broken)
    past = (place / "past.csv", *QUICK)
    night = ("score", model, place / "night.csv", *out)
    compared = ("compare", *past, "--recipes", "svm", *out)
    trained = ("train", *past, "--recipe", "svm", *out)
    for words in (trained, night, compared):
        assert (
            "page.html.j2 line 1: 'hospital' is undefined"
            in screen(*words, code=2).stderr
        )
    # A field that no night has.
    (broken / "page.html.j2").unlink()
    (broken / "tonight.html.j2").write_text("<p>\n{{ run.hospital }}")
    assert "tonight.html.j2 line 2: " in screen(*night, code=2).stderr
    assert names_in(tmp_path) == {"broken"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% if %}", "banner.html.j2 line 1"),
        ("{{ banner|shout }}", "shout"),
        ("{% include 'gone.j2' %}", "no template gone.j2"),
        (b"\xff", "utf-8"),
    ],
)
def test_what_cannot_be_compiled_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "banner.html.j2").write_bytes(
        text if isinstance(text, bytes) else text.encode()
    )
    with pytest.raises(UsageError, match=words):
        check_templates(tmp_path, "run")


@pytest.mark.parametrize(
    "text",
    [
        "{% if tonight is defined %}{{ tonight }}{% endif %}",
        "{{ hospital|default('St Elsewhere') }}",
        "{% set ward = 'icu' %}{% include 'ward.j2' %}",
        "{% include 'gone.j2' ignore missing %}",
        "{% for number in range(3) %}{{ loop.index }}{{ number }}{% endfor %}",
        "{% macro bold(word) %}<b>{{ word }}</b>{% endmacro %}{{ bold(banner.title) }}",
    ],
)
def test_what_can_be_drawn_is_not_refused(tmp_path, text):
    (tmp_path / "banner.html.j2").write_text(text)
    (tmp_path / "ward.j2").write_text("{{ ward }}")
    check_templates(tmp_path, "model")


@pytest.mark.parametrize("kind", PAGES)
def test_shipped_templates(tmp_path, kind):
    """The shipped templates draw every sample and each page is the site's."""
    check_templates(tmp_path, kind)
    (tmp_path / "page.html.j2").write_text("{{ nowhere }}")
    with pytest.raises(
        UsageError, match=r"page\.html\.j2 line 1: 'nowhere' is undefined"
    ):
        check_templates(tmp_path, kind)


def test_layout_of_templates_is_not_written(tmp_path):
    """Nothing stands between cells, a space between words; <pre> is left as it is."""
    template = """<table>
  <tr>
    <th>Rows</th>
    <td class="n">
      {{ rows }}
    </td>
  </tr>
</table>
<p>
  Two
  words
</p>
<pre>
  as  {{ rows }}
  it is</pre>
"""
    (tmp_path / "a.j2").write_text(template)

    page = environment_of(tmp_path).get_template("a.j2").render(rows=5)

    assert page == (
        '<table>\n<tr><th>Rows</th><td class="n">5</td></tr>\n</table>\n'
        "<p> Two words\n</p>\n<pre>\n  as  5\n  it is</pre>\n"
    )
