"""Draw the page of a model or of a run: one HTML file that needs nothing else and sends nothing anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from screening.report import (
    card,
    cases,
    chances,
    forward,
    night,
    performance,
    rarity,
    review,
    subgroups,
    tradeoff,
    voxels,
)
from screening.report import format as shown
from screening.report.document import mapping, multi, unit_of_review


def render_model(document: Mapping[str, Any]) -> str:
    """Return the page of a trained model.

    Parameters
    ----------
    document : mapping
        The parsed ``model.json``.

    Returns
    -------
    str
        HTML; the same document always gives the same text.
    """
    places = performance.score_places(document, [])
    banner = night.model_banner(document)
    identity = str(document.get("digest") or document.get("sha256") or "not recorded")
    return _draw(
        "model.html.j2",
        footer=f"model {shown.text(identity, 80)}",
        banner=banner,
        **_shared(document, None, places),
    )


def render_run(document: Mapping[str, Any]) -> str:
    """Return the page of one night.

    Parameters
    ----------
    document : mapping
        The parsed ``run.json``. Its ``times`` are not shown, so that a repeated run gives the same page.

    Returns
    -------
    str
        HTML; the same document always gives the same text.
    """
    model = mapping(document, "model")
    places = performance.score_places(model, cases.scores(document))
    operating = performance.operating_points(model, places)
    return _draw(
        "run.html.j2",
        footer=f"run {shown.name(document.get('run_id'))}{review.trail(document)}",
        banner=night.run_banner(document),
        tonight=night.tonight(document, operating),
        flagged=cases.flagged(document, places),
        groups=cases.groups(document, places),
        review=review.form(document),
        evaluation=performance.evaluation(document),
        inputs=card.data_section(document),
        rarity=rarity.rarity(document),
        voxels=voxels.voxels(document, places),
        **_shared(model, document, places),
    )


def _shared(model: Mapping[str, Any], run: Mapping[str, Any] | None, places: int) -> dict[str, Any]:
    return {
        "operating": performance.operating_points(model, places),
        "panels": tradeoff.panels(model, run, places),
        "choices": performance.choices(model, places),
        "per_class": performance.per_class(model),
        "confusion": performance.confusion(model),
        "predictive": chances.predictive(model, run),
        "workload": chances.workload(model, run),
        "calibration": chances.calibration(model),
        "subgroups": subgroups.subgroups(model, run),
        "forward": forward.forward(model),
        "card": card.model_card(model),
        "lead": run is None,
        "multi": multi(model),
        "unit": unit_of_review(model),
    }


def _draw(template: str, *, footer: str, banner: dict[str, Any], **blocks: Any) -> str:
    environment = _environment()
    style = _inlined("report.css") + _page_footer(footer)
    script = _inlined("report.js") + _inlined("review.js")
    # The fence that holds even if an escape were forgotten: nothing but these two texts may style or run.
    pictures = "img-src data:; " if (blocks.get("voxels") or {}).get("pictures") else ""
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        f"{pictures}base-uri 'none'; form-action 'none'"
    )
    return environment.get_template(template).render(
        policy=policy, style=Markup(style), script=Markup(script), footer=footer, banner=banner, **blocks
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("screening.templates", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["json"] = as_json
    return environment


def _visible(value: Any) -> Any:
    """Spell out invisible characters in whatever a template writes, in case a block forgot to."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else shown.text(value, 10**6)


def as_json(value: Any) -> Markup:
    """Return `value` as JSON that cannot end the script element it stands in."""
    written = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@lru_cache(maxsize=8)
def _inlined(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _page_footer(footer: str) -> str:
    """Return the rule that prints `footer` on every sheet; all but letters and digits go as CSS escapes."""
    text = "".join(
        c if c.isascii() and c.isalnum() else f"\\{ord(c):06x}" for c in f"Confidential · {footer}"
    )
    return f'@media print{{@page{{@bottom-left{{content:"{text}"}}}}}}\n'


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
