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

# Of what is known only after the outcome: English, German, French, Spanish, Italian; accents as people type
# them and as they leave them away.
AFTER = re.compile(
    r"follow ?up|fu ?time|nachbeobacht|suivi|seguimiento|seguimento"
    r"|\bsurv(ival)? ?(time|months?|days?|years?|weeks?)|\b(os|pfs|dfs|rfs|efs) (time|months?|days?|m|d)\b"
    r"|(ü|ue)berleb|survie|supervivencia|sopravviv"
    r"|\btime (to|until) (event|death|relapse|progression|failure|recurrence)"
    r"|\b(days?|months?|years?|tage|jours|d[ií]as|giorni) (to|until|till|bis|jusqu|hasta|al|alla) "
    r"|\blos\b|length of (hospital )?stay|liegedauer|verweildauer|dur[ée]e (de|du) s[ée]jour"
    r"|duraci[oó]n de (la )?estancia|d[ií]as de estancia|durata (della )?degenza|giorni di degenza"
    r"|discharg|entlass|\bsortie\b|\balta (hospitalaria|m[ée]dica)|\b(fecha|d[ií]a|motivo|tipo) (de )?alta\b"
    r"|dimission|\bdeath|\bdied\b|deceased|exitus|verstorben|gestorben|todes|\btod\b|d[ée]c[èe]s|fallec|defunci|muerte"
    r"|\bmorte\b|decesso|autops|censor|zensiert|censur"
)
WHENEVER = re.compile(
    r"time|zeit|temps|tiempo|tempo|duration|dauer|dur[ée]e|duraci[oó]n|durata|t?stop|days?|weeks?|months?"
)
# Known before all the same: an earlier stay, a parent's death, what a wound discharges.
BEFORE = re.compile(
    r"prior|prev|past|hist|family|mother|father|parent|sibling|\blast\b|since|before|vorher|fr[uü]her|anamnes|famili"
    r"|ant[ée]c[ée]d|anterior|precedent|nasal|wound|nipple|vagin|\beyes?\b|\bears?\b|purulent|urethr|risk|predict"
)
PARTS = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])|[\W_]+")


def is_called(column: str, *roles: str) -> bool:
    """Whether a column is called as those of one of these roles are.

    >>> is_called("CaseID", "row"), is_called("case no", "patient"), is_called("Patient-ID", "patient")
    (True, False, True)
    """
    words = " ".join(WORDS.findall(column)).lower()
    return any(re.fullmatch(ROLES[role], words) for role in roles)


def is_after_outcome(column: str, or_any_time: bool = False) -> bool:
    """Whether a column is called as what is known only after the outcome, or, if asked, as any time at all.

    >>> is_after_outcome("FollowUpDays"), is_after_outcome("time"), is_after_outcome("time", or_any_time=True)
    (True, False, True)
    """
    words = " ".join(filter(None, PARTS.split(column))).lower()
    after = AFTER.search(words) or (or_any_time and WHENEVER.fullmatch(words))
    return bool(after) and not BEFORE.search(words)
