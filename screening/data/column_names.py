"""Roles of columns by their names."""

from __future__ import annotations

import re

WORDS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")
PATIENT = "patient|pat|subject|person|proband"
IDENTIFIED = (
    "patient|pat|case|fall|subject|encounter|visit|stay|admission|accession|dossier"
    "|séjour"
)
# Keys of patients in one word, as in tables of trials.
PATIENT_KEY = "patid|patientid|ptid|subjid|subjectid|usubjid|pidnum"
NUMBER = "nr|nbr|no|num|number|nummer|id"
# Words at the end of a name that say that digits are a code.
CODE = "codes?|icd|atc|ops|drg|cpt|loinc|snomed|kode|codice|código"
KEY = f"id|mrn|pid|uid|uuid|identifier|key|fallnummer|patientennummer|{PATIENT_KEY}"
# Patterns of a whole name, in lower-case words.
ROLES = {
    # MRN, patient_id, CaseID, Fallnummer, visit no; in French the number comes first,
    # as in N° dossier.
    "row": (
        rf"(.* )?({KEY})|({IDENTIFIED})( .*)? ({NUMBER})"
        r"|(n|numéro)( .*)? (dossier|séjour|patient)"
    ),
    # Several rows of one patient share it: alone, or before "id" or "no".
    "patient": (
        rf"({PATIENT})(( .*)? ({NUMBER}|{KEY}))?"
        rf"|group|mrn|pid|patientennummer|{PATIENT_KEY}"
    ),
    # Beds, rooms and wards, which one patient leaves to the next.
    "place": (
        r"(.* )?(bed|room|ward|unit|floor|bett|zimmer|station|lit|chambre|cama"
        r"|sala|habitación|letto|stanza|reparto)( .*)?"
    ),
    # Also in compound words: Aufnahmedatum, birthdate.
    "date": r"(.* )?(\S*(date|datum)|dt|fecha|data|admission|admitted|aufnahme)",
    # A point in time that may be counted in seconds; not the name of a duration.
    "time stamp": (
        r"(.* )?(timestamp|time stamp|datetime|date time|dttm|dtm|epoch"
        r"|zeitpunkt|zeitstempel|horodatage|marca de tiempo)|.* at|ts"
    ),
    # Also in one word, and of a duration.
    "word of time": (
        r"(.* )?\S*(time|date|datum|zeit|stamp|heure|hora|ora|fecha|data|dttm|dtm)"
        r"( (utc|unix|s|sec|seconds))?|(.* )?(at|ts|epoch|unix)"
    ),
    # The digits of a code are not a quantity.
    "code": rf"(.* )?({CODE}|diag|diagnosis|dx|specialty|fachabteilung)( \d+)*",
    # A word that says so, whatever else the name has.
    "stated code": rf"(.* )?({CODE}|id)( \d+)*",
    # A quantity, though the name has a thing in it: days in hospital, age at diagnosis.
    "quantity": (
        r"(.* )?(ages?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|time|since"
        r"|duration|los|counts?|doses?|rates?|levels?"
        r"|alter|dauer|anzahl|dosis|stunden|tage|wochen|monate|jahre"
        r"|âge|durée|nombre|heures|jours|semaines|mois|années"
        r"|edad|duración|horas|días|semanas|meses|años"
        r"|età|durata|ore|giorni|settimane|mesi|anni)( .*)?"
        r"|(number|num|nbr|número de|numero di) .*"
    ),
    # A place that one patient leaves to the next.
    "bed": (
        r"(?!.*\b(emergency|operating|recovery)\b)(.* )?(bed|room|cubicle|bett|zimmer"
        r"|lit|chambre|cama|habitación|letto|stanza)"
        r"( (no|nr|nbr|num|number|nummer|id|code|name|label))?"
    ),
    # Codes of diagnoses, also with a point, as 401.9.
    "diagnosis code": r"(.* )?(icd|diag|diagnosis|dx|diagnose)( .*)?",
    # Things that are numbered: 3 is another department, and not more than 2.
    "thing": (
        r"(.* )?(dept|department|(eth)?race(th)?|groups?|grp|ethnic|ethnicity"
        r"|ethnic group|payer|payor"
        r"|insurance|insurer|marital|marital status|civil status|country|nation"
        r"|nationality|religion|language|region|province|county|hospital|clinic|centre"
        r"|center|site|inst|institute|institution|service|occupation|profession"
        r"|arms?|cause|cluster|district|method|outcome|shape|status|stratum|type|village"
        r"|abteilung|familienstand|kostenträger|herkunft|land|konfession|beruf"
        r"|pays|ethnie|situation familiale|raza|etnia|estado civil|país|aseguradora"
        r"|reparto|stato civile|paese)"
        r"( (code|id|no|nr|number|group|cat|category|categorical))?"
    ),
    # Names and addresses of people, and those who treat them.
    "person": (
        r"(.* )?(first|last|middle|maiden|given|family|full|patient|mother"
        r"|father|sur|nick) ?names?"
        r"|names?|(.* )?(surname|firstname|lastname|forename|initials?|address|street"
        r"|(post|zip|postal) ?code|zip|(tele|mobile ?|cell ?)?phone( no|"
        r" number)?|mobile"
        r"|e ?mail|e mail address|email address"
        r"|vorname|nachname|familienname|geburtsname|initialen|adresse|anschrift|straße"
        r"|strasse|plz|postleitzahl|telefon|handy"
        r"|nom|prénom|rue|code postal|téléphone|courriel"
        r"|nombres?|apellidos?|dirección|calle|código postal|teléfono|correo"
        r"|nome|cognome|indirizzo|via|cap|telefono)"
        r"|((attending|treating|referring|admitting) )?(clinician|physician|doctor"
        r"|surgeon|consultant|arzt|ärztin|médecin|médico|medico)("
        r" (name|id|no|nr|code))?"
    ),
    # The row's own date, unless it is an "other time".
    "time": (
        r"(.* )?(date|dt|time|admission|admitted|timestamp|datetime|datum|aufnahme"
        r"|aufnahmedatum|fecha|data)|(admitted|sampled|recorded|created) at|ts"
    ),
    # A word of an outcome, among others: in-hospital death, readmitted_30d. Not an
    # earlier outcome.
    "outcome": (
        r"(?!.*\b(history|prior|previous|past|family|cause|risk|score|time"
        r"|admission)\b)(.* )?(outcome|event|death|died|dead|deceased|mortality"
        r"|survived?|survival|alive|infected|infection|sepsis|septic"
        r"|readmitted|readmission|recurrence|recurred|relapse|relapsed|complication"
        r"|label|target|diseased|progression"
        r"|verstorben|gestorben|rezidiv|überlebt|décès|décédé|récidive|fallecid[oa]"
        r"|muerte|recaída|decedut[oa]|recidiva|óbito)( .*)?"
    ),
    # An outcome whose "yes" is not a case.
    "well": (
        r"(.* )?(survived?|survival|survivor|alive|healthy|cured|recovered|benign"
        r"|improved|gesund|lebt|überlebt)( .*)?"
    ),
    "other time": r"(.* )?(birth|death|discharge|review|follow|fu|end)( .*)?",
    "comment": r"(.* )?(comments?|remarks?|notes?|kommentar|bemerkung(en)?|remarque)",
}
# Names of columns that number the rows.
INDEX_NAME = re.compile(
    r"#|index|unnamed: ?\d+|__index_level_\d+__|id|record|row[_. ]?names?"
    r"|obs|observation|sl[_. ]*no\.?|s[_. ]?no\.?"
    r"|((row|line|record|sample|lfd|lauf|seq|serial|sr?)[_. ]*)?"
    r"(nr|no|num|number|nummer|numéro|número)\.?"
    r"|row|(row|line|record|sample)[ _]?id",
    re.IGNORECASE,
)
# Names of columns that answer yes or no: death_flag, relapse (y/n), icu?, cens.
YES_NO = re.compile(
    r"cens.*|.*(\?|[ _]flag|[ _(]y(es)?[/_]?n(o)?\)?|[ _(](0/1|1/0)\)?)", re.IGNORECASE
)
# Whole names that an outcome has, and hardly anything else.
SURE_OUTCOMES = frozenset(
    "label outcome target infected diseased died death dead deceased mortality survived"
    " survive alive relapse relapsed recurrence recurred readmitted sepsis septic"
    " verstorben gestorben tod rezidiv ergebnis décès récidive resultado fallecido"
    " muerte deceduto recidiva óbito".split()
)
# Whole names of many an outcome, and of other columns too.
USUAL_OUTCOMES = frozenset(
    "class event case disease ill diagnosis infection positive result status y klasse "
    "diagnose stroke malignant fail failed failure improved response resp complication "
    "delta censored censor cens default premature fstat fustat".split()
)

# Parts of names of values known only after the outcome: English, German, French,
# Spanish, Italian; with accents and without, as people type them.
AFTER = re.compile(
    r"follow ?up|fu ?time|nachbeobacht|suivi|seguimiento|seguimento"
    r"|\bsurv(ival)? ?(time|months?|days?|years?|weeks?)"
    r"|\b(os|pfs|dfs|rfs|efs) (time|months?|days?|m|d)\b"
    r"|(ü|ue)berleb|survie|supervivencia|sopravviv"
    r"|\btime (to|until) (event|death|relapse|progression|failure|recurrence)"
    r"|\b(days?|months?|years?|tage|jours|d[ií]as|giorni) "
    r"(to|until|till|bis|jusqu|hasta|al|alla) "
    r"|\blos\b|length of (hospital )?stay|liegedauer|verweildauer"
    r"|dur[ée]e (de|du) s[ée]jour|duraci[oó]n de (la )?estancia|d[ií]as de estancia"
    r"|durata (della )?degenza|giorni di degenza"
    r"|discharg|entlass|\bsortie\b|\balta (hospitalaria|m[ée]dica)"
    r"|\b(fecha|d[ií]a|motivo|tipo) (de )?alta\b|dimission"
    r"|\bdeath|\bdied\b|deceased|exitus|verstorben|gestorben|todes|\btod\b"
    r"|d[ée]c[èe]s|fallec|defunci|muerte|\bmorte\b|decesso|autops"
    r"|censor|zensiert|censur"
)
# Whole names of any time or duration.
ANY_TIME = re.compile(
    r"time|zeit|temps|tiempo|tempo|duration|dauer|dur[ée]e|duraci[oó]n|durata"
    r"|t?stop|days?|weeks?|months?"
)
# Parts of names that AFTER matches although the value is known before the outcome: an
# earlier stay, a parent's death, the discharge of a wound.
BEFORE = re.compile(
    r"prior|prev|past|hist|family|mother|father|parent|sibling|\blast\b|since|before"
    r"|vorher|fr[uü]her|anamnes|famili|ant[ée]c[ée]d|anterior|precedent"
    r"|nasal|wound|nipple|vagin|\beyes?\b|\bears?\b|purulent|urethr|risk|predict"
)
# Beginnings of words, in lower case, in the shorter names that clinical tables have for
# what is known only after the outcome. A name proves nothing: it is a reason to ask.
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


def in_words(column: str) -> str:
    """Return a column's name in lower-case words: "case id" for CaseID."""
    return " ".join(WORDS.findall(column)).lower()


def is_called(column: str, *roles: str) -> bool:
    """Return True for a name typical of one of these roles, as "CaseID" is of a row."""
    name = in_words(column)
    return any(re.fullmatch(ROLES[role], name) for role in roles)


def names_codes(column: str) -> bool:
    """Return True for a name typical of whole numbers that are not quantities."""
    if is_called(column, "stated code"):
        return True
    is_code = is_called(column, "row", "code", "thing", "diagnosis code")
    return is_code and not is_called(column, "quantity")


def is_after_outcome(column: str, or_any_time: bool = False) -> bool:
    """Return True for a name typical of values that are known only after the outcome.

    Parameters
    ----------
    column : str
    or_any_time : bool
        Accept the names of any time or duration too.
    """
    name = in_words(column)
    is_time = or_any_time and ANY_TIME.fullmatch(name)
    return bool(is_time or AFTER.search(name)) and not BEFORE.search(name)


def may_be_later(column: str) -> bool:
    """Return True for a name of times, statuses and results after the start."""
    if is_after_outcome(column):
        return True
    name = in_words(column)
    if BEFORE.search(name) or MEASURED_TIMES.search(name):
        return False
    return bool(LATER_WORDS.search(name) or LATER_NAMES.fullmatch(name))
