"""The page: what it says, that it adds up, and that no text of a patient's file can act in it."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from report_fixture import hostile, nosocomial_model, nosocomial_run, observed
from report_voxel_fixture import voxel_model, voxel_run

from screening.errors import ModelError
from screening.report import drawing, render_model, render_run

VOID = {"meta", "input", "path", "circle", "br", "img"}
# Elements whose end HTML lets one leave out, and what ends them.
ROWS = {"tr", "td", "th", "li"}
ENDED_BY = {"td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"}, "li": {"li"}}
PAGES: dict[str, tuple[Callable[[Any], str], Callable[[], dict[str, Any]]]] = {
    "nosocomial run": (render_run, nosocomial_run), "voxel run": (render_run, voxel_run),
    "nosocomial model": (render_model, nosocomial_model), "voxel model": (render_model, voxel_model),
}  # fmt: skip


class Outline(HTMLParser):
    """Collect the elements, their attributes, the visible text and the inlined texts of a page."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        while self.open and self.open[-1] in ENDED_BY.get(tag, ()):
            self.open.pop()
        self.open += [tag] * (tag not in VOID)

    def handle_endtag(self, tag: str) -> None:
        while tag not in ROWS and self.open[-1] in ROWS:
            self.open.pop()
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.raw[self.open[-1]] if self.open[-1:] in (["style"], ["script"]) else self.words).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=PAGES, scope="module")
def html(request):
    render, document = PAGES[request.param]
    return render(document())


def test_elements_are_nested_and_closed(html):
    assert Outline(html).open == []


def test_policy_names_the_inlined_style_and_script_by_digest_and_nothing_else(html):
    outline = Outline(html)
    policy = next(
        m["content"] for m in outline.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    )
    (style,) = outline.raw["style"]
    script = outline.raw["script"][-1]

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy == (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def test_page_refers_to_nothing_outside_itself_and_asks_not_to_be_found(html):
    outline = Outline(html)
    attributes = [a for _, a in outline.elements]
    links = [a["href"] for a in attributes if "href" in a]

    assert "http:" not in html and "https:" not in html
    assert all(link is not None and re.fullmatch(r"#[a-z]+", link) for link in links)
    assert not [a for a in attributes if {"src", "action", "style", "xlink:href"} & set(a)]
    assert not [k for a in attributes for k in a if k.startswith("on")]
    assert {"name": "robots", "content": "noindex, nofollow, noarchive"} in outline.all("meta")
    assert {"name": "referrer", "content": "no-referrer"} in outline.all("meta")


def test_every_chart_has_a_title_and_a_description_in_words(html):
    outline = Outline(html)
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    # A bar inside a line repeats what stands beside it in figures.
    charts = [chart for chart in outline.all("svg") if "role" in chart]

    assert len(charts) >= 3
    assert len(set(ids)) == len(ids)
    assert all(chart["role"] == "img" for chart in charts)
    assert all(set(str(chart["aria-labelledby"]).split()) <= set(ids) for chart in charts)


def test_page_is_small_and_says_the_same_bytes_twice(html, request):
    render, document = PAGES[request.node.callspec.params["html"]]

    assert render(document()) == html
    assert len(html.encode()) < 300_000


def test_words_that_mislead_are_explained_once(html):
    text = Outline(html).text

    assert text.count("The score is not a probability") == 1
    assert text.count("calibrated rarity") == 1
    assert text.count("Geometry, and unrelated to the p-value") == 1
    assert "Decision support: confirm by chart review" in text


@pytest.mark.parametrize("name", PAGES)
def test_hostile_text_anywhere_in_the_document_is_shown_and_never_acts(name):
    render, document = PAGES[name]
    calm, attacked = Outline(render(document())), Outline(render(hostile(document())))
    count = [sum(tag == t for tag, _ in calm.elements) for t in ("script", "img", "style", "iframe")]

    assert [
        sum(tag == t for tag, _ in attacked.elements) for t in ("script", "img", "style", "iframe")
    ] == count
    assert len(attacked.raw["script"]) == len(calm.raw["script"])
    assert attacked.raw["script"][-1] == calm.raw["script"][-1]
    assert "<img src=x onerror=alert(1)>" in attacked.text
    assert "{{7*7}}" in attacked.text
    assert "⟨U+202E⟩evil⟨U+200B⟩" in attacked.text
    assert "\u202e" not in attacked.text and "\u200b" not in attacked.text
    assert attacked.open == []


def test_ten_thousand_characters_keep_both_ends_and_say_how_long_they_were():
    run = nosocomial_run()
    run["cases"][0]["id"] = "A" * 9_000 + "B" * 1_000

    text = "".join(Outline(render_run(run)).words)

    assert "(10,000 characters)" in text
    assert "A" * 100 not in text
    assert "BBBBBBBB (10,000" in text


def test_data_for_the_script_holds_no_id_and_cannot_end_its_element():
    run = nosocomial_run()
    outline = Outline(render_run(run))
    inlined = outline.raw["script"][0]

    assert json.loads(inlined)["flagged"][json.loads(inlined)["validated"]] == run["counts"]["flagged"]
    assert not [c["id"] for c in run["cases"] if c["id"] in inlined]
    assert drawing.as_json({"x": "</script>&"}) == '{"x":"\\u003c/script\\u003e\\u0026"}'


def test_counts_of_the_night_add_up_on_the_page():
    run = nosocomial_run(refused=3)
    text = Outline(render_run(run)).text

    assert f"{run['counts']['flagged']} flagged of 240 rows scored; 243 read, 3 refused" in text
    assert f"{run['counts']['flagged']} patients to review" in text
    assert "3 × temperature outside its plausible range" in text


def test_a_night_without_a_failed_check_is_ok():
    assert "OK No check failed." in Outline(render_run(nosocomial_run(refused=0) | {"data": []})).text


def test_nothing_is_ok_above_features_that_differ():
    """The head names what the section on tonight's data finds notable."""
    text = Outline(render_run(nosocomial_run(refused=0))).text

    assert "OK No check failed." not in text
    assert re.search(r"No check failed; [0-9]+ features? differs? notably from training", text)


def test_a_cap_on_rows_says_how_many_of_how_many():
    run = nosocomial_run()
    listed = len(run["cases"])
    more = run | {"counts": run["counts"] | {"flagged": listed + 15}}

    assert f"15 more are flagged and stand in flagged.csv alone: {listed} of {listed + 15} shown" in (
        Outline(render_run(more)).text
    )
    assert "shown." not in Outline(render_run(run)).text


def test_every_flagged_row_has_its_line_and_its_boxes_and_every_near_miss_its_line():
    run = nosocomial_run()
    outline = Outline(render_run(run))
    rows = [a for a in outline.all("li") if "data-score" in a]

    assert [float(str(r["data-score"])) for r in rows if "data-flagged" not in r] == [
        c["score"] for c in run["cases"]
    ]
    assert len(rows) == len(run["cases"]) + len(run["near_misses"])
    boxes = [a for a in outline.all("div") if a.get("class") == "t"]
    assert len(boxes) == len(run["cases"]) + len(run["sample"])


def test_run_page_does_not_depend_on_when_it_was_drawn():
    run = nosocomial_run()
    later = {**run, "times": {"started": "2031-01-01T00:00:00", "seconds": 99}}

    assert render_run(later) == render_run(run)


@pytest.mark.parametrize(
    ("name", "part"),
    [("model", "validation"), ("model", "machine"), ("run", "counts"), ("run", "cases_total")],
)
def test_a_document_without_one_of_its_parts_is_refused_by_name_and_not_drawn(name, part):
    render, made = PAGES[f"nosocomial {name}"]
    document = made()
    del document[part]

    with pytest.raises(ModelError, match=rf"{name}\.json .*\b{part}\b"):
        render(document)


def test_rare_classes_come_first_and_recall_stands_with_precision():
    text = Outline(render_model(voxel_model())).text
    classes = text[text.index("Classes rare classes first") :]

    assert classes.index("G4+3") < classes.index("G4+4") < classes.index("PZ") < classes.index("CG")
    assert re.search(r"G4\+3 watched 310 1\.1% 86% 79–91% 80%", classes)


def test_observed_figures_stand_beside_the_promised_ones():
    run = nosocomial_run()
    shares = {"sensitivity": {"value": 0.875, "low": 0.69, "high": 0.96}}
    run["evaluation"] = {"yes": observed(**shares, n_positive=24, n_negative=216)}
    text = Outline(render_run(run)).text

    assert "24 cases, 216 others" in text
    assert "Sensitivity 88% 69–96% 92%" in text
