"""The page a clinician reads: one self-contained HTML file per model, run and
comparison."""

from screening.report.page import draw_run, render_model, render_run

__all__ = ["draw_run", "render_model", "render_run"]
