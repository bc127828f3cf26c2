"""Names of columns that may hold what is known only after the outcome.

A name proves nothing: it is a reason to ask. `column_names.AFTER` has names that say it
themselves, such as a discharge; here are the shorter ones that clinical tables use.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from screening.data.column_names import BEFORE, in_words, is_after_outcome

# Beginnings of words, in lower case.
LATER_WORDS = re.compile(
    r"\b(surv(?!ey)|fu\b|f"
    r" ?up\b|lenfol|rectime|exit|disch|dod\b|death|expire|recur|relapse"
    r"|rezidiv|r[ée]cidive|recid|cens(?!us)|outcome|vital ?stat|last ?(contact|follow))"
    r"|\bdays? to\b|\btime to\b"
)
# Whole names, and names that end so: a status or event beside the outcome.
LATER_NAMES = re.compile(
    r"(.* )?(status|event|result|results|ergebnis|ereignis|estado|stato|statut"
    r"|[rdtp]?time|tstart|tstop|stop|futime|surtim|time ?\d)"
)
# Times that are measured in a patient: of clotting, of a pregnancy, of a scan.
MEASURED_TIMES = re.compile(
    r"refill|thrombin|thromboplast|clot|bleed|coag|quick|\bpt\b|\bptt\b|reaction|ejection"
    r"|relaxation|deceleration|exercise|scan|echo|repetition|bed|down|onset|door|smok"
    r"|marital|employ|working|insurance|health|performance|mental|functional|hormone"
    r"|menopaus|\ber\b|\bpr\b|her ?2|receptor|nodal|node|immun|vaccin|nutrition|test"
    r"|lab|culture|swab|pcr|x ?ray|ecg|ekg"
)

# A discharge that is present or absent is a finding, such as one of a wound; who went
# home is "discharged".
FINDINGS = frozenset({"discharge", "ausfluss", "sekret"})


def is_finding(column: str, values: np.ndarray) -> bool:
    """Return True for a finding, there or not, with the name of something later."""
    return in_words(column) in FINDINGS and pd.Series(values).nunique() <= 2


def may_be_later(column: str) -> bool:
    """Return True for a name of times, statuses and results after the start."""
    if is_after_outcome(column):
        return True
    name = in_words(column)
    if BEFORE.search(name) or MEASURED_TIMES.search(name):
        return False
    return bool(LATER_WORDS.search(name) or LATER_NAMES.fullmatch(name))
