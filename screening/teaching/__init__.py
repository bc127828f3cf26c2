"""De-identified copies of a night, for teaching: what a copy shows of one patient it shows of five."""

from screening.teaching.deidentification import Copy, deidentified
from screening.teaching.key import site_key

__all__ = ["Copy", "deidentified", "site_key"]
