"""De-identified copies of a night, for teaching: what a copy shows of one patient it shows of five."""

from screening.deidentify.key import site_key
from screening.deidentify.night import Copy, deidentified

__all__ = ["Copy", "deidentified", "site_key"]
