"""The page of test coverage: figures of the report, least covered functions, branches
without a test or a reason.
"""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def covered():
    """Return the names of the script."""
    return runpy.run_path(str(ROOT / "docs" / "covered.py"))


def summary(lines, statements, taken, branches):
    """Return counts as `coverage json` has them."""
    return {
        "covered_lines": lines, "num_statements": statements,
        "missing_lines": statements - lines,
        "covered_branches": taken, "num_branches": branches,
        "percent_covered": 100 * (lines + taken) / (statements + branches),
    }  # fmt: skip


def report():
    """Return the report of two files."""
    whole = {"summary": summary(30, 30, 10, 10), "missing_lines": []}
    half = {"summary": summary(10, 20, 5, 10), "missing_lines": [52, 53]}
    small = {"summary": summary(0, 2, 0, 0), "missing_lines": [9, 10]}
    return {
        "meta": {"timestamp": "2026-11-29T21:00:00", "version": "7.10"},
        "files": {
            "screening/metrics/intervals.py": {
                "summary": summary(10, 20, 5, 10),
                "functions": {"rate_interval": half, "tiny": small, "": whole},
                "missing_branches": [[52, 53], [60, -36]],
            },
            "screening/io/csv.py": {
                "summary": summary(30, 30, 10, 10),
                "functions": {"read": whole},
                "missing_branches": [[1, 2]],
            },
        },
    }


def test_coverage_page(covered):
    """The page adds up lines and branches by folder and names the places."""
    page = covered["page"](report())

    assert "Measured on 2026-11-29 with coverage.py 7.10." in page
    assert "| all | 80.0% | 75.0% |" in page
    assert "| metrics | 50.0% | 50.0% |" in page
    least = page.index("`rate_interval` | 50% | 10 |")
    assert least < page.index("| `screening/io/csv.py` | `read` | 100% | 0 |")
    assert "tiny" not in page
    untested = page.partition("Neither tested nor explained")[2]
    assert "`screening/metrics/intervals.py`, line 52 to line 53" in untested
    assert "line 60 to the end of the function, in `rate_interval`" in untested
    assert "csv" not in untested


def test_coverage_reasons(covered):
    """A line marked as not covered has its reason, file and function on the page."""
    reasons = set(covered["reasons"]())

    assert ("screening/ledger/database.py", "_flush_fully", "macOS") in reasons
    assert all(why for _, _, why in reasons)
