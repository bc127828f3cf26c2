"""The page a clinician reads: one self-contained HTML file per model and per run."""

from screening.report.page import render_model, render_run

__all__ = ["render_model", "render_run"]
