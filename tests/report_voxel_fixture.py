"""Documents of a multi-class voxel model and of a grouped run, for tests of the page."""

from typing import Any

import numpy as np
from report_fixture import digest, estimate, nosocomial_model, nosocomial_run, validation

CLASSES = ["CG", "PZ", "stroma", "PIN", "G3+3", "G3+4", "atrophy", "G4+4", "G4+3"]


def voxel_model() -> dict[str, Any]:
    """Return a model.json of a multi-class voxel model with two watched classes."""
    rng, model = np.random.default_rng(2), nosocomial_model()
    shares = np.array([9000, 7000, 5200, 2600, 1500, 900, 700, 420, 310])
    parts = {c: validation(n, 6000, n, c, 0.9) for c, n in (("G4+3", 90), ("G4+4", 140))}
    counts = rng.multinomial(30, [0.3] + [0.7 / 8] * 8, size=9) + np.diag((0.85 * shares).astype(int))
    model["recipe"].update(
        name="shao_weighted", title="Adaptive multi-class SVM, class-weighted", machine="multi_class"
    )
    model["contract"]["cohort"].update(
        title="Prostate MRI voxels", group="patient", coordinates=["x", "y", "z"], label="class",
        capacity=None, minutes_per_review=None,
        intended_use="Draw a second reader's eye to regions; not a diagnosis.",
    )  # fmt: skip
    channels = {"T2W": 310.0, "ADC": 1150.0, "C_grade": 2.4}
    facts = {"type": "number", "unit": None}
    model["contract"]["features"] = dict.fromkeys(channels, facts)
    more = facts | {"reference": None, "description": None}
    model["training"] |= {
        "features": [
            more | {"name": c, "seen": [0.6 * m, 1.4 * m], "median": m} for c, m in channels.items()
        ],
        "missing": dict.fromkeys(channels, 0.0), "max_rows": 20000,
    }  # fmt: skip
    model["task"] = model["task"] | {
        "kind": "multi", "label": "class", "positive": [], "classes": CLASSES, "watched": list(parts),
    }  # fmt: skip
    model["operating_points"] = [{**p["point"], "n_groups": 21} for p in parts.values()]
    model["validation"].update(
        grouped=True, n_groups=21, n_rows=27630, summary={c: p["summary"] for c, p in parts.items()},
        curves={c: p["curve"] for c, p in parts.items()}, points={c: p["points"] for c, p in parts.items()},
        confusion={"classes": CLASSES, "counts": counts.tolist()},
        per_class=[
            {"class": c, "n": int(n), "recall": estimate(0.86, 0.79, 0.91), "precision": 0.8}
            for c, n in zip(CLASSES, shares, strict=True)
        ],
    )  # fmt: skip
    return model


def voxel_run() -> dict[str, Any]:
    run, model, rng = nosocomial_run(refused=0), voxel_model(), np.random.default_rng(3)
    t = np.linspace(-1.2, 2.0, 300).tolist()
    grid = {"thresholds": t, "counts": np.linspace(4200, 0, 300).astype(int).tolist()}
    run["model"] = {"id": "77aa01", "digest": digest("voxels"), **model}
    run["counts"] = {
        "read": 4200, "scored": 4200, "refused": 0, "flagged": 95,
        "flagged_by_class": {"G4+3": 41, "G4+4": 54},
    }  # fmt: skip
    run["groups"] = [
        {
            "group": f"P{i:02d}", "rows": 1400, "flagged": n, "by_class": {"G4+3": n},
            "top_score": 1.7 - i / 10, "p_value": {"value": 0.1}, "discovery": False,
        }
        for i, n in ((22, 61), (24, 34), (23, 0))
    ]  # fmt: skip
    channel = {"type": "number", "unit": None, "missing": 0.0, "missing_training": 0.0}
    run["data"] = [channel | {"name": name} for name in ("T2W", "ADC")]
    run["score_counts"] = {point["class"]: grid for point in model["operating_points"]}
    seen = {"ADC": 700.0, "T2W": 310.0, "C_grade": 4.0}
    run["cases"] = [
        {
            "rank": i + 1, "id": f"P22-{i:05d}", "group": "P22" if i % 3 else "P24", "row": i + 1,
            "score": 1.7 - i / 90, "p_value": {"value": 0.045}, "class": "G4+3" if i % 2 else "G4+4",
            "missing": [], "chance": None,
            "contributions": [
                {
                    "feature": c, "value": f"{rng.normal(m, 0.2 * m):.6g}", "unit": None,
                    "seen": [0.6 * m, 1.4 * m], "change": 0.4, "direction": "raises",
                }
                for c, m in seen.items()
            ],
        }
        for i in range(80)
    ]  # fmt: skip
    return run | {
        "cases_explained": 80, "unflagged": {"cases": 1}, "cases_total": 95, "cases_shown": 80,
        "near_misses": [],
    }  # fmt: skip
