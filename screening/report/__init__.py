"""Pages for clinicians: one self-contained HTML file each."""

from screening.report.page import draw_run, render_model, render_run

__all__ = ["draw_run", "render_model", "render_run"]
