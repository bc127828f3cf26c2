"""What a column's name says of its role, and what it holds, gathered batch by batch in bounded memory."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.io.arrow_types import is_numeric, is_text, to_floats, to_texts
from screening.io.number_formats import (
    DATE,
    LED_BY_ZERO,
    MARKS,
    parse_number,
    parse_plain_numbers,
    parse_time,
    trim,
)
from screening.monitoring.drift import SampledValues

MOST_TEXTS = 1000
MOST_COUNTED = 20
MOST_SAMPLED = 1 << 15
OTHER = r"^\d{1,2}[-/.]"
# Numbers that questionnaires and laboratories write for "not known": -1, -9, 99, -999, 8888.
REPEATED = (float(digit * n) for digit in "789" for n in range(2, 16))
CODES = frozenset((-1.0, -7.0, -8.0, -9.0)).union(*((code, -code) for code in REPEATED))
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
    "outcome": r"(?!.*\b(history|prior|previous|past|family|cause|risk|score|admission)\b)(.* )?"
    r"(outcome|event|death|died|dead|deceased|mortality|survived|survival|alive|infected|infection|sepsis|septic"
    r"|diagnosis|readmitted|readmission|recurrence|recurred|relapse|relapsed|complication|label|target"
    r"|diseased)( .*)?",
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
YES_NO = re.compile(
    r"cens.*|.*(\?|[ _]flag|[ _(]y(es)?[/_]?n(o)?\)?|[ _(](0/1|1/0)\)?)", re.IGNORECASE
)
# By which an outcome is looked for, the surest first.
LABELS = (
    "label",
    "outcome",
    "target",
    "class",
    "infected",
    "infection",
    "event",
    "case",
    "diseased",
    "disease",
    "ill",
    "diagnosis",
    "sepsis",
    "septic",
    "died",
    "death",
    "dead",
    "mortality",
    "positive",
    "result",
    "readmitted",
    "status",
    "y",
    "klasse",
    "diagnose",
    "ergebnis",
    "verstorben",
    "gestorben",
    "resultado",
)

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


def _in_words(column: str) -> str:
    """A column's name as small words, parted by spaces: CaseID is "case id"."""
    return " ".join(WORDS.findall(column)).lower()


def is_called(column: str, *roles: str) -> bool:
    """Whether a column is called as those of one of these roles are, such as "CaseID" as a row is."""
    return any(re.fullmatch(ROLES[role], _in_words(column)) for role in roles)


def is_after_outcome(column: str, or_any_time: bool = False) -> bool:
    """Whether a column is called as what is known only after the outcome, or, if asked, as any time."""
    name = _in_words(column)
    after = AFTER.search(name) or (or_any_time and WHENEVER.fullmatch(name))
    return bool(after) and not BEFORE.search(name)


class ColumnSummary:
    """Counts of a column's kinds of cells, its distinct texts up to a limit, and a sample of its numbers."""

    def __init__(self) -> None:
        self.rows = self.present = self.numbers = self.dates = 0
        self.unreadable = self.native = self.native_boolean = (
            self.day_or_month_first
        ) = False
        self.zero_led = False  # digits behind a zero, as codes are written
        self.faults: Counter[str] = (
            Counter()
        )  # of cells that are no numbers, as `parse_number` names them
        self.missing_codes, self.odd_texts = set[str](), set[str]()
        self.date_orders = {"dmy", "mdy"}
        self.whole = True
        self.low, self.high = np.inf, -np.inf
        self.counts: Counter[str] = Counter()  # rows of each text, where they are few
        self._texts = pa.array([], pa.string())
        self._sample = SampledValues(MOST_SAMPLED)

    @property
    def odd(self) -> int:
        """Cells that are neither number, nor censored, nor a usual code for "missing"."""
        return self.faults["not_number"] + self.faults["infinite"]

    def missing_share(self, coded: bool) -> float:
        """The share of rows without a value; or also of those that say so in a text or a far number."""
        unknown = float(self.rows - self.present)
        if coded and self._sample.values.size:
            far = np.isin(self._sample.values, self.far_codes).mean()
            unknown += (
                self.faults["missing_code"] + self.odd + float(far) * self.numbers
            )
        return unknown / self.rows if self.rows else 0.0

    @property
    def texts(self) -> set[str]:
        return {*self._texts.to_pylist()}

    @property
    def n_texts(self) -> int:
        return len(self._texts)

    @property
    def constant(self) -> bool:
        return self.n_texts <= 1 if not self.native else self.low == self.high

    @property
    def ticked(self) -> bool:
        """Whether cells hold a tick or nothing."""
        few = 0 < self.present < self.rows and self.n_texts <= 2 * len(MARKS)
        return few and {text.lower() for text in self.texts} <= MARKS

    def usual_range(self) -> tuple[float, float] | None:
        """The 1st and 99th percentile but for far codes, as finely as a hundredth of what lies between."""
        numbers = self._sample.values[~np.isin(self._sample.values, self.far_codes)]
        if not numbers.size:
            return None
        low, high = np.percentile(numbers, [1, 99])
        digits = 2 - math.floor(math.log10(high - low)) if high > low else 6
        return round(float(low), digits), round(float(high), digits)

    @cached_property
    def far_codes(self) -> list[float]:
        """Numbers such as -99 that occur more than once, farther from all others than those lie apart."""
        values = self._sample.values
        # What lies farthest out is a code then; most columns have none and need not be sorted.
        if not values.size or CODES.isdisjoint((values.min(), values.max())):
            return []
        like_codes = np.isin(values, [*CODES])
        codes, counts = np.unique(values[like_codes], return_counts=True)
        others = np.unique(values[~like_codes])
        if others.size < 2:
            return []
        reach = others[-1] - others[0]
        far = (codes < others[0] - reach) | (codes > others[-1] + reach)
        return codes[far & (counts > 1)].tolist()  # type: ignore[no-any-return]

    @property
    def on_grid(self) -> bool:
        """Whether every cell is a number, whole or shared with other rows, as where a voxel lies is."""
        values = self._sample.values
        return self.numbers == self.rows and (
            self.whole or 2 * np.unique(values).size <= values.size
        )

    def add(self, cells: pa.Array, decimal: str) -> None:
        self.rows += len(cells)
        dated = pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type)
        # Texts of numbers take their time, and of many more than are kept none is needed.
        column = (
            None if self.n_texts > MOST_TEXTS and is_numeric(cells) else to_texts(cells)
        )
        if is_numeric(cells):
            self.native = True
            numbers = to_floats(cells)
            self.present += int(np.count_nonzero(~np.isnan(numbers)))
            self._add_numbers(numbers)
            if column is not None:
                self._add_texts(column.drop_null())
        elif dated:
            self.present += len(cells) - cells.null_count
            self.dates += len(cells) - cells.null_count
        elif column is None or pa.types.is_temporal(cells.type):
            self.unreadable = True
        else:
            self.native_boolean = self.native_boolean or not is_text(cells)
            stripped = trim(column)
            self._add_cells(
                stripped.filter(pc.fill_null(pc.not_equal(stripped, ""), False)),
                decimal,
            )

    def _add_cells(self, given: pa.Array, decimal: str) -> None:
        self.present += len(given)
        self.zero_led = self.zero_led or any_like(self._add_texts(given), LED_BY_ZERO)
        numbers = parse_plain_numbers(given, decimal)
        if numbers is not None:
            return self._add_numbers(numbers)
        dates = given.filter(pc.match_substring_regex(given, DATE))
        if len(dates):
            self.dates += len(dates)
            days = pc.unique(dates).to_pylist()
            self.date_orders = {
                order
                for order in self.date_orders
                if all(parse_time(day, order) for day in days)
            }
            self.day_or_month_first = self.day_or_month_first or any_like(dates, OTHER)
        mixed: list[float] = []
        for text, count in _counted(given).items():
            number = parse_number(text, decimal)
            if isinstance(number, float):
                mixed += [number] * count
                continue
            self.faults[number] += count
            kept = self.missing_codes if number == "missing_code" else self.odd_texts
            if (
                number in ("missing_code", "not_number", "infinite")
                and len(kept) <= MOST_TEXTS
            ):
                kept.add(text)
        return self._add_numbers(np.array(mixed, dtype=np.float64))

    def _add_numbers(self, values: np.ndarray) -> None:
        values = values[np.isfinite(values)]
        if not values.size:
            return
        self.numbers += values.size
        self.whole = self.whole and bool(np.all(values == np.rint(values)))
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )
        self._sample.add(values)

    def _add_texts(self, given: pa.Array) -> pa.Array:
        """Take in texts; returns the distinct ones."""
        distinct = pc.unique(given)
        if self.n_texts <= MOST_TEXTS:
            some = distinct.slice(0, MOST_TEXTS + 1).cast(pa.string())
            self._texts = pc.unique(pa.concat_arrays([self._texts, some]))
        if len(distinct) <= MOST_COUNTED >= self.n_texts:
            self.counts.update(_counted(given))
        return distinct


def _counted(given: pa.Array) -> dict[str, int]:
    return {
        entry["values"]: entry["counts"] for entry in given.value_counts().to_pylist()
    }


def any_like(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
