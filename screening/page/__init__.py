"""The page a clinician reads: one self-contained HTML file per model, run and comparison."""

from screening.page.comparison import render_comparison
from screening.page.page import render_model, render_run

__all__ = ["render_comparison", "render_model", "render_run"]
