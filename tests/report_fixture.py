"""Documents as training and scoring write them, of patients and of voxels, for tests of
the page.
"""

import copy
import hashlib
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.random import default_rng

from screening import MinSensitivity
from screening.imaging.voxels import as_base64, palette_png, ramp
from screening.metrics.calibration import calibrate
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.operating_point import RULES, choose
from screening.metrics.performance import curve, population_of
from screening.report.model_attention import with_attention
from screening.report.night_attention import attention_of_night
from screening.schemas.run import RunDocument

FEATURES: list[
    tuple[str, str, str | None, tuple[float, float] | None, float, float]
] = [
    ("age", "number", "years", None, 68, 14),
    ("temperature", "number", "°C", (36.1, 37.5), 37.1, 0.8),
    ("c_reactive_protein", "number", "mg/L", (0, 10), 60, 55),
    ("white_cell_count", "number", "10⁹/L", (4, 10), 9.5, 4),
    ("creatinine", "number", "µmol/L", (49, 90), 96, 40),
    ("albumin", "number", "g/L", (35, 50), 33, 6),
    ("days_in_icu", "number", "days", None, 3, 4),
    ("urinary_catheter_days", "number", "days", None, 4, 5),
    ("central_venous_line", "boolean", None, None, 0.3, 0),
    ("antibiotics_before", "boolean", None, None, 0.5, 0),
    ("mccabe_score", "ordinal", None, None, 0.6, 0),
    ("ward", "category", None, None, 0, 0),
]
EXTRA = [f"laboratory_value_{i:02d}" for i in range(1, 38)]
MCCABE = ["non-fatal", "ultimately fatal", "rapidly fatal"]
WARDS = ["surgery", "medicine", "ICU", "geriatrics"]


def estimate(value: Any = None, low: Any = None, high: Any = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


@cache
def validated(
    seed: int,
    n: int,
    cases: int,
    shift: float,
) -> dict[str, Any]:
    """What validation says of normal scores, those of the cases by `shift` higher."""
    y = np.arange(n) < cases
    scores = default_rng(seed).normal(0, 0.4, n) + shift * y
    chosen = choose(scores, y, MinSensitivity(0.9))
    return {
        "point": chosen.to_dict(),
        "curve": curve(scores, y).to_dict(),
        "summary": population_of(
            EvaluatedRows(scores, y, np.inf, n_settings=1), "summary"
        ).to_dict(),
        "points": [choose(scores, y, rule).to_dict() for rule in RULES],
    }


def validation(
    seed: int,
    n: int,
    cases: int,
    label: str,
    shift: float,
) -> dict[str, Any]:
    part = copy.deepcopy(validated(seed, n, cases, shift))
    part["point"] |= {
        "class": label,
        "chosen_by": "training",
        "reason": None,
    }
    return part


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def table(name: str, rows: int) -> dict[str, Any]:
    file = {
        "name": name,
        "sha256": digest(name),
        "bytes": 80 * rows,
        "rows": rows,
    }
    return {
        "files": [file],
        "delimiter": ",",
        "encoding": "utf-8",
        "rows": rows,
    }


def nosocomial_model(n: int = 683, cases: int = 75) -> dict[str, Any]:
    part = validation(0, n, cases, "yes", 0.75)
    names = [f[0] for f in FEATURES] + EXTRA
    declared = {}
    listed = []
    for name, kind, unit, usual, centre, spread in FEATURES:
        facts = {"type": kind, "unit": unit, "reference": usual}
        declared[name] = facts | {
            "categories": {"mccabe_score": MCCABE, "ward": WARDS}.get(name)
        }
        seen = (centre, centre + spread) if spread else None
        more = {"name": name, "seen": seen, "median": centre}
        listed.append(facts | more | {"description": None})
    extra = {
        "type": "number",
        "unit": "mmol/L",
        "reference": None,
        "description": None,
        "seen": (1.5, 4.25),
        "median": 2.875,
    }
    listed += [extra | {"name": name} for name in EXTRA]
    return {
        "format_version": 1,
        "recipe": {
            "name": "one_class_conformal",
            "title": "One-class SVM with a conformal kernel",
            "paper": "Cohen, Hilario, Pellegrini and Geissbuhler 2004, eq. 15",
            "machine": "one_class",
            "text": 'name = "one_class_conformal"\n[parameters]\nnu = 0.2\npasses = 1\n',
            "parameters": {
                "nu": 0.2,
                "gamma": 0.0123456789,
                "passes": 1,
                "factor": "margin density",
            },
        },
        "contract": {
            "format": 1,
            "cohort": {
                "id": "patient",
                "group": None,
                "label": "infected",
                "title": "Nosocomial infection surveillance",
                "intended_use": "Nightly list of in-patients whose charts should be opened first.",
                "minutes_per_review": 6.0,
                "capacity": 90,
                "prevalence": None,
                "coordinates": [],
                "subgroup": [],
            },
            "features": declared,
        },
        "task": {
            "kind": "binary",
            "label": "infected",
            "positive": ["yes"],
            "classes": ["no", "yes"],
            "watched": ["yes"],
        },
        "operating_points": [part["point"]],
        "validation": {
            "folds": 5,
            "repeats": 1,
            "grouped": False,
            "n_rows": n,
            "n_positive": cases,
            "n_groups": None,
            "n_machines": 5,
            "encoded_by": "negatives",
            "search": {
                "criterion": "auroc",
                "n_candidates": 8,
                "candidates": [{"nu": 0.2, "gamma": 0.0123 * i} for i in range(1, 9)],
                "chosen": {"nu": 0.2, "gamma": 0.0123},
                "scores": [0.8] * 8,
                "dropped": [None] * 8,
            },
            "summary": {"yes": part["summary"]},
            "curves": {"yes": part["curve"]},
            "points": {"yes": part["points"]},
            "prevalence": {
                "yes": {
                    "value": cases / n,
                    "low": 0.09,
                    "high": 0.14,
                }
            },
            "subgroups": {},
            "predictive": {},
            "calibration": {},
        },
        "training": {
            "source": table("nosocomial_past.csv", n),
            "n_rows_read": n,
            "n_rows_used": n,
            "n_by_class": {"no": n - cases, "yes": cases},
            "max_rows": None,
            "window": ["2023-01-01", "2024-12-31"],
            "seed": 0,
            "command": "screen train nosocomial_past.csv --label infected --out model",
            "notes": ["delimiter ',' and encoding utf-8 detected"],
            "missing": {name: 0.02 for name in names},
            "features": listed,
            "profile": None,
            "leaks": [],
        },
        "machine": {
            "n_support_vectors": 142,
            "sv_share": 0.234,
            "passes": [{}, {"factor": [{"tau": 2.5}]}],
            "kkt_gap": 3.2e-4,
        },
        "versions": {"screening": "0.1.0", "numpy": "2.1.0", "python": "3.11"},
        "attention": [],
        "arrays_sha256": digest("arrays"),
        "validation_sha256": digest("validation"),
        "sha256": digest("model"),
    }


def contributions(rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    n_told = int(rng.integers(3, 6))
    for i in rng.choice(len(FEATURES), size=n_told, replace=False):
        name, kind, unit, usual, centre, spread = FEATURES[i]
        value = {
            "number": f"{abs(rng.normal(centre + 1.5 * spread, spread)):.1f}",
            "boolean": "yes",
            "ordinal": MCCABE[rng.integers(0, 3)],
            "category": str(rng.choice(WARDS)),
        }[kind]
        size = float(rng.gamma(2, 0.08))
        change = size if rng.random() < 0.85 else -size
        facts = {
            "feature": name,
            "value": value,
            "unit": unit,
            "reference": usual,
            "change": change,
        }
        direction = "raises" if change > 0 else "lowers"
        rows.append(facts | {"direction": direction})
    return sorted(rows, key=lambda c: -abs(c["change"]))


def nosocomial_run(n: int = 240, refused: int = 3) -> dict[str, Any]:
    """Return a run.json of about n rows with about a third flagged."""
    rng = default_rng(1)
    model = nosocomial_model()
    threshold = model["operating_points"][0]["threshold"]
    noise = rng.normal(0, 0.4, n)
    is_case = rng.random(n) < 0.2
    scores = np.sort(noise + 0.75 * is_case)[::-1]
    flagged = int((scores >= threshold).sum())
    near = int((scores >= threshold - 0.06).sum())

    def case(i: int) -> dict[str, Any]:
        rarity = np.exp(-3 * (scores[i] + 0.5))
        rarer = max(1, int(609 * rarity))
        return {
            "id": f"{100234 + 7 * i:08d}",
            "group": None,
            "row": 1 + (37 * i) % n,
            "score": float(scores[i]),
            "p_value": estimate(rarer / 609),
            "class": "yes",
            "contributions": contributions(rng),
            "missing": ["albumin"] if i % 9 == 0 else [],
            "chance": None,
        }

    missing = dict.fromkeys(model["training"]["missing"], 0.021)
    missing["albumin"] = 0.31
    return {
        "format_version": 1,
        "run_id": "20250311-5f3a9c",
        "date": "2025-03-11",
        "times": {"started": "x", "seconds": 1.2},
        "model": {"id": "5f3a9c1e22b0", "digest": digest("directory"), **model},
        "input": table("night_2025-03-11.csv", n)
        | {"notes": ["3 rows refused: see reasons"]},
        "versions": {"screening": "0.1.0"},
        "counts": {
            "read": n + refused,
            "scored": n,
            "refused": refused,
            "flagged": flagged,
            "flagged_by_class": {"yes": flagged},
        },
        "refused": {"temperature outside its plausible range": refused}
        if refused
        else {},
        "evaluation": None,
        "attention": [],
        "data": [
            {
                "name": name,
                "type": "number",
                "unit": None,
                "missing": share,
                "missing_training": 0.02,
            }
            for name, share in missing.items()
        ],
        "groups": None,
        "score_counts": {
            "yes": {
                "thresholds": scores[::-1].tolist(),
                "counts": list(range(n, 0, -1)),
            }
        },
        "cases": [{"rank": i + 1, **case(i)} for i in range(flagged)],
        "cases_total": flagged,
        "cases_shown": flagged,
        "cases_explained": flagged,
        "sample": [],
        "unflagged": {"cases": n - flagged},
        "drift": None,
        "discoveries": None,
        "subgroups": [],
        "prevalence_estimate": None,
        "voxels": None,
        "sha256": digest("run"),
        "near_misses": [case(i) for i in range(flagged, near)],
    }


CLASSES = ["CG", "PZ", "stroma", "PIN", "G3+3", "G3+4", "atrophy", "G4+4", "G4+3"]


def voxel_model() -> dict[str, Any]:
    rng = default_rng(2)
    model = nosocomial_model()
    shares = np.array([9000, 7000, 5200, 2600, 1500, 900, 700, 420, 310])
    parts = {
        "G4+3": validation(90, 6000, 90, "G4+3", 0.9),
        "G4+4": validation(140, 6000, 140, "G4+4", 0.9),
    }
    chances = [0.3] + [0.7 / 8] * 8
    right = np.diag((0.85 * shares).astype(int))
    counts = rng.multinomial(30, chances, size=9) + right
    model["recipe"].update(
        name="shao_weighted",
        title="Adaptive multi-class SVM, class-weighted",
        machine="multi_class",
    )
    model["contract"]["cohort"].update(
        title="Prostate MRI voxels",
        group="patient",
        coordinates=["x", "y", "z"],
        label="class",
        capacity=None,
        minutes_per_review=None,
        intended_use="Draw a second reader's eye to regions; not a diagnosis.",
    )
    channels = {"T2W": 310.0, "ADC": 1150.0, "C_grade": 2.4}
    facts = {"type": "number", "unit": None}
    model["contract"]["features"] = dict.fromkeys(channels, facts)
    more = facts | {"reference": None, "description": None}
    model["training"] |= {
        "features": [
            more | {"name": c, "seen": [0.6 * m, 1.4 * m], "median": m}
            for c, m in channels.items()
        ],
        "missing": dict.fromkeys(channels, 0.0),
        "max_rows": 20000,
    }
    model["task"] = model["task"] | {
        "kind": "multi",
        "label": "class",
        "positive": [],
        "classes": CLASSES,
        "watched": list(parts),
    }
    points = [part["point"] for part in parts.values()]
    model["operating_points"] = [point | {"n_groups": 21} for point in points]
    model["validation"].update(
        grouped=True,
        n_groups=21,
        n_rows=27630,
        summary={c: p["summary"] for c, p in parts.items()},
        curves={c: p["curve"] for c, p in parts.items()},
        points={c: p["points"] for c, p in parts.items()},
        confusion={"classes": CLASSES, "counts": counts.tolist()},
        per_class=[
            {
                "class": c,
                "n": int(n),
                "recall": estimate(0.86, 0.79, 0.91),
                "precision": 0.8,
            }
            for c, n in zip(CLASSES, shares, strict=True)
        ],
    )
    return model


def voxel_run() -> dict[str, Any]:
    run = nosocomial_run(refused=0)
    model = voxel_model()
    rng = default_rng(3)
    t = np.linspace(-1.2, 2.0, 300).tolist()
    counts = np.linspace(4200, 0, 300).astype(int)
    grid = {"thresholds": t, "counts": counts.tolist()}
    run["model"] = {
        "id": "77aa01",
        "digest": digest("voxels"),
        **model,
    }
    run["counts"] = {
        "read": 4200,
        "scored": 4200,
        "refused": 0,
        "flagged": 95,
        "flagged_by_class": {"G4+3": 41, "G4+4": 54},
    }
    run["groups"] = [
        {
            "group": f"P{i:02d}",
            "rows": 1400,
            "flagged": n,
            "by_class": {"G4+3": n},
            "top_score": 1.7 - i / 10,
            "p_value": {"value": 0.1},
            "discovery": False,
        }
        for i, n in ((22, 61), (24, 34), (23, 0))
    ]
    channel = {
        "type": "number",
        "unit": None,
        "missing": 0.0,
        "missing_training": 0.0,
    }
    run["data"] = [channel | {"name": name} for name in ("T2W", "ADC")]
    classes = [point["class"] for point in model["operating_points"]]
    run["score_counts"] = dict.fromkeys(classes, grid)
    seen = {"ADC": 700.0, "T2W": 310.0, "C_grade": 4.0}
    run["cases"] = [
        {
            "rank": i + 1,
            "id": f"P22-{i:05d}",
            "group": "P22" if i % 3 else "P24",
            "row": i + 1,
            "score": 1.7 - i / 90,
            "p_value": {"value": 0.045},
            "class": "G4+3" if i % 2 else "G4+4",
            "missing": [],
            "chance": None,
            "contributions": [
                {
                    "feature": c,
                    "value": f"{rng.normal(m, 0.2 * m):.6g}",
                    "unit": None,
                    "seen": [0.6 * m, 1.4 * m],
                    "change": 0.4,
                    "direction": "raises",
                }
                for c, m in seen.items()
            ],
        }
        for i in range(80)
    ]
    return run | {
        "cases_explained": 80,
        "unflagged": {"cases": 1},
        "cases_total": 95,
        "cases_shown": 80,
        "near_misses": [],
    }


def judged(document: dict[str, Any]) -> dict[str, Any]:
    """The run with what deserves attention in it, as scoring decides it."""
    run = RunDocument.from_dict(document)
    run = run.replace(model=with_attention(run.model))
    return document | {
        "attention": [vars(reason) for reason in attention_of_night(run)]
    }


def observed(**known: Any) -> dict[str, Any]:
    names = (
        "sensitivity",
        "specificity",
        "ppv",
        "npv",
        "nne",
        "flag_rate",
        "auroc",
        "average_precision",
    )
    counts = dict.fromkeys(
        ("true_positive", "false_negative", "false_positive", "true_negative"), 0
    )
    figures = {name: known.pop(name, estimate()) for name in names}
    facts = {"threshold": 0.1, "prevalence": 0.1, "n_groups": None}
    return counts | facts | known | {"figures": figures}


HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>{{7*7}}{% raw %}\u202eevil\u200b\"'&"

# Words of the tool's own, and dates: no text of a patient's file can stand there.
KEPT = frozenset(
    {
        "kind",
        "type",
        "direction",
        "digest",
        "sha256",
        "class",
        "watched",
        "rule",
        "date",
        "window",
        "verdict",
    }
)


def hostile(document: Any, keep: frozenset[str] = KEPT) -> Any:
    """Return the document with every text in it (but for `keep`) followed by a hostile
    one.
    """
    if isinstance(document, dict):
        changed = {
            key: value if key in keep else hostile(value, keep)
            for key, value in document.items()
        }
        if isinstance(document.get("missing"), dict):
            changed["missing"] = {
                name + HOSTILE: share for name, share in document["missing"].items()
            }
        return changed
    if isinstance(document, (list, tuple)):
        return [hostile(v, keep) for v in document]
    if isinstance(document, str):
        return document + HOSTILE
    return copy.copy(document)


def with_lines(n: int = 12, rows: int = 240) -> dict[str, Any]:
    """A night whose last `n` flagged have no reasons: they are listed on a line
    each.
    """
    run = nosocomial_run(rows)
    for case in run["cases"][-n:]:
        del case["contributions"]
    return run


def appraised(model: dict[str, Any], label: str = "yes") -> dict[str, Any]:
    """A model document with every block that training can add."""
    rng = default_rng(0)
    positive = rng.random(1500) < 0.2
    rates = {
        "sensitivity": estimate(0.9, 0.75, 0.97),
        "specificity": estimate(0.6, 0.5, 0.7),
    }
    level = {
        "level": "female",
        "n": 300,
        "events": 31,
        "few": [],
        "figures": rates | {"flag_rate": estimate(0.45, None, None)},
    }
    few = level | dict.fromkeys(("level", "n", "events"))
    few |= {"few": ["n", "events", "sensitivity", "flag_rate"]}
    prevalences = [
        {
            "prevalence": p,
            "figures": {
                "ppv": estimate(2 * p, p, 3 * p),
                "npv": estimate(0.98, 0.95, 0.99),
                "nne": estimate(0.5 / p, 0.4 / p, 0.6 / p),
                "flag_rate": estimate(0.3, 0.2, 0.4),
            },
        }
        for p in (0.05, 0.1, 0.2)
    ]
    (point,) = model["operating_points"]
    of_rule = {name: point[name] for name in ("rule", "threshold")}
    sex = of_rule | {
        "column": "sex",
        "edges": None,
        "known": ["female"],
        "rows": [level, few],
    }
    scores = rng.normal(size=1500) + 1.5 * positive
    model["validation"] |= {
        "subgroups": {label: [sex]},
        "predictive": {label: of_rule | {"source": "given", "rows": prevalences}},
        "calibration": {
            label: calibrate(scores, positive, rng.integers(0, 5, 1500), 0.2).to_dict()
        },
        "forward": {
            "cut": "2025-09-01",
            "n_past": 480,
            "n_later": 203,
            "reason": None,
            "classes": {
                label: {
                    "rule": point["rule"],
                    "threshold": 0.1,
                    "n_positive": 20,
                    "n_negative": 183,
                    "figures": {
                        "sensitivity": estimate(0.84, 0.6, 0.95),
                        "specificity": estimate(),
                        "auroc": estimate(),
                    },
                }
            },
        },
    }
    return model


def appraised_run() -> dict[str, Any]:
    run = nosocomial_run()
    appraised(run["model"])
    pixels = np.ones((2, 3), np.uint8)
    palette = ramp([(0, 0, 0), (9, 9, 9)], 3)
    picture = as_base64(palette_png(pixels, palette))
    slices = [
        {
            "at": 4.0,
            "voxels": 6,
            "flagged": 2,
            "width": 3,
            "height": 2,
            "overlay": picture,
            "heat": picture,
        }
    ]
    cluster = {
        "centre": [1, 2, 4],
        "low": [1, 2, 4],
        "high": [1, 2, 4],
        "label": "yes",
        "millimetres": None,
        "voxels": 2,
        "top_score": 0.7,
    }
    patient = {
        "group": "P1",
        "voxels": 900,
        "flagged": 2,
        "n_clusters": 1,
        "clusters": [cluster],
    }
    patient["slices"] = slices
    run |= {
        "discoveries": {
            "q": 0.1,
            "per": "row",
            "n_screened": 240,
            "n_calibration": 608,
            "p_cut": 0.003,
            "found": 7,
            "flagged": 80,
            "warning": "608 negatives resolve p-values to 0.0016",
        },
        "drift": {
            "unit": "row",
            "known": [15] * 20,
            "counted": [9] * 20,
            "distance": 0.02,
            "p": 0.8,
        },
        "subgroups": [
            {"column": "sex", "level": "female", "n": 99, "flag_rate": 0.4},
            {"column": "sex", "level": None, "n": None, "flag_rate": None},
            {"column": "sex", "level": "other", "n": 12, "flag_rate": 0.5},
        ],
        "prevalence_estimate": {"value": 0.12, "low": 0.02, "high": 0.22},
        "voxels": {
            "axes": ["x", "y", "z"],
            "step": [1, 1, 3.5],
            "base": "ADC",
            "scale": [-1, 2],
            "colours": {"yes": "#ffe100"},
            "patients_flagged": 1,
            "patients": [patient],
        },
    }
    run["data"][0] |= {
        "psi": 0.41,
        "ks": 0.2,
        "outside": 0.02,
        "unseen": 0,
        "alarm": True,
        "normalised": False,
    }
    run["cases"][0] |= {"discovery": True, "chance": estimate(0.34)}
    return run


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The document with other values at these places, the steps to each joined by
    `__`.
    """
    for place, value in changes.items():
        inner = document
        (*path, last) = place.split("__")
        for step in path:
            inner = inner[int(step) if step.isdigit() else step]
        inner[last] = value
    return document


# Elements without an end, those whose end HTML lets one leave out, and what ends them.
VOID = {"meta", "input", "path", "circle", "br", "img"}
ROWS = {"tr", "td", "th", "li"}
ENDED_BY = {
    "td": {"td", "th"},
    "th": {"td", "th"},
    "tr": {"td", "th", "tr"},
    "li": {"li"},
}


class Outline(HTMLParser):
    """Collect the elements, their attributes, the visible text and the inlined texts of
    a page.
    """

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        words = " ".join(self.words)
        self.text = " ".join(words.split())

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
        (
            self.raw[self.open[-1]]
            if self.open[-1:] in (["style"], ["script"])
            else self.words
        ).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
