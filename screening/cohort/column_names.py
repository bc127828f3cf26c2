"""What a column's name says of its role, by its words: whose row it is, when, where, and what came of it."""

from __future__ import annotations

import re

WORDS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")
PATIENT = "patient|pat|subject|person|proband"
WHOSE = "patient|pat|case|fall|subject|encounter|visit|stay|admission|accession|dossier|séjour"
NUMBER = "nr|nbr|no|num|number|nummer|id"
KEY = "id|mrn|pid|uid|uuid|identifier|key|fallnummer|patientennummer"
# In all words of a name, small and parted by spaces.
ROLES = {
    # MRN, patient_id, CaseID, Fallnummer, visit no; in French the number comes first: N° dossier.
    "row": rf"(.* )?({KEY})|({WHOSE})( .*)? ({NUMBER})|(n|numéro)( .*)? (dossier|séjour|patient)",
    # What several rows of one patient share: alone, or before "id" or "no".
    "patient": rf"({PATIENT})(( .*)? ({NUMBER}|{KEY}))?|group|mrn|pid|patientid|patientennummer|subjectid",
    # Beds, rooms and wards, which one patient leaves to the next.
    "place": r"(.* )?(bed|room|ward|unit|floor|bett|zimmer|station|lit|chambre|cama|sala|habitación|letto"
    r"|stanza|reparto)( .*)?",
    # Also in compound words: Aufnahmedatum, birthdate.
    "date": r"(.* )?(\S*(date|datum)|fecha|data|admission|admitted|aufnahme)",
    # The digits of what is coded are no quantity.
    "code": r"(.* )?(codes?|icd|atc|ops|drg|cpt|loinc|snomed|diag|diagnosis|dx|specialty|fachabteilung|kode"
    r"|codice|código)( \d+)*",
    # The row's own date, where it is not one of these.
    "time": r"(.* )?(date|time|admission|admitted|timestamp|datum|aufnahme|aufnahmedatum|fecha|data)",
    # A word of an outcome, among others: in-hospital death, readmitted_30d; not what was so before.
    "outcome": r"(?!.*\b(history|prior|previous|past|family|cause|risk|score)\b)(.* )?"
    r"(outcome|event|death|died|dead|deceased|mortality|survived|survival|alive|infected|infection|sepsis|septic"
    r"|readmitted|readmission|recurrence|recurred|relapse|relapsed|complication|label|target|diseased)( .*)?",
    # Whose "yes" is no case.
    "well": r"(.* )?(survived|survival|survivor|alive|healthy|cured|recovered|benign|gesund|lebt)( .*)?",
    "other time": r"(.* )?(birth|death|discharge|review|follow)( .*)?",
}
# How a column is called that says where a row stands.
INDEX_NAME = re.compile(
    r"#|index|unnamed: ?\d+|__index_level_\d+__|id|record"
    r"|((row|line|record|sample|lfd|lauf|seq|serial|sr?)[_. ]*)?(nr|no|num|number|nummer|numéro|número)\.?"
    r"|row|(row|line|record|sample)[ _]?id",
    re.IGNORECASE,
)
# How a column is written that answers yes or no: death_flag, relapse (y/n), icu?, cens
YES_NO = re.compile(r"cens.*|.*(\?|[ _]flag|[ _(]y(es)?[/_]?n(o)?\)?|[ _(](0/1|1/0)\)?)", re.IGNORECASE)
# By which an outcome and a row's date are looked for, the surest first.
LABELS = (
    "label", "outcome", "target", "class", "infected", "infection", "event", "case", "diseased", "disease",
    "ill", "diagnosis", "sepsis", "septic", "died", "death", "dead", "mortality", "positive", "result",
    "readmitted", "status", "y", "klasse", "diagnose", "ergebnis", "verstorben", "gestorben", "resultado",
)  # fmt: skip
TIMES = (
    "date", "time", "admission_date", "admission", "admitted", "timestamp", "datum", "aufnahme",
    "aufnahmedatum", "fecha", "data",
)  # fmt: skip


def is_called(column: str, *roles: str) -> bool:
    """Whether a column is called as those of one of these roles are.

    >>> is_called("CaseID", "row"), is_called("case no", "patient"), is_called("Patient-ID", "patient")
    (True, False, True)
    """
    words = " ".join(WORDS.findall(column)).lower()
    return any(re.fullmatch(ROLES[role], words) for role in roles)
