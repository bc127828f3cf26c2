"""De-identified copies of a night, for teaching: what a copy shows of one patient it shows of five."""

from screening.teaching.key import site_key
from screening.teaching.night import Copy, deidentified

__all__ = ["Copy", "deidentified", "site_key"]
