"""Registry of the reasons for which a model or a night needs attention.

Each reason is one `ReasonKind` below: code, sentence, remedy, and what the
documentation says of it (docs/reasons.md). Whoever finds a reason calls its kind with
the facts of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from screening.registry import LeftOut, Registry
from screening.schemas.base import Reason
from screening.schemas.history import Measure

ACCEPT_DELIVERY = (
    "If the table is correct, score the night with --accept-delivery REASON"
)
ACCEPT_OUTCOMES = "If the table is correct, enter it with --accept-delivery REASON"
CHECK_TABLE = (
    f"Check that the export is complete and from this ward. {ACCEPT_DELIVERY}."
)
CHECK_DATE = f"Check that the table and --date are tonight's. {ACCEPT_DELIVERY}."
REPORT_COUNTS = "Do not use this page. Report it with its run.json."
CHECK_NIGHT = "Check the table and the threshold."

OTHER_THRESHOLD = ("threshold", "--max-flag-rate", "SHARE", "--reason", "WHY")

# Where a reason is given.
MODEL = "model"
MODEL_AND_NIGHTS = "model, every night"
NIGHT = "night"
NIGHT_WITH_LEDGER = "night, with a ledger"
HISTORY = "`screen history`"
RUN = "`screen run`"
VALIDATION = "`screen validate`"


@dataclass(frozen=True)
class ReasonKind:
    """A kind of reason for attention; calling it makes a reason.

    Parameters
    ----------
    code : str
        A word with underscores. It never changes: programs read it.
    words : str
        Sentence for a reader, with the facts of a reason in braces; never a patient's
        value or id.
    remedy : str
        What to do, one sentence, with facts in braces.
    when : str
        Condition under which the reason is given, for the documentation.
    arises_in : str
        Where the reason arises, for the documentation.
    stops : bool
        The night is refused (exit code 3) instead of published with this reason.
    becomes_standing : bool
        On several nights in a row it becomes standing, and no longer alerts. False for
        reasons about other patients, or another table, each night.
    settled_by_table : bool
        Another table of the night may settle it. False where only the model can, such
        as by another threshold.
    is_acknowledged : bool
        A person may say that it is meant.
    model_command : tuple of str
        Command and options that settle it by the model; empty if none does.
    grows : bool
        Standing or acknowledged, it alerts again once its figure has grown by half.
    found_in : callable, optional
        Of a plug-in: takes the `RunDocument` of a night, and yields its reasons of this
        kind.
    """

    code: str
    words: str
    remedy: str
    when: str
    arises_in: str
    stops: bool = False
    becomes_standing: bool = True
    grows: bool = False
    settled_by_table: bool = True
    is_acknowledged: bool = True
    model_command: tuple[str, ...] = ()
    found_in: Callable[[Any], Iterable[Reason]] | None = None

    @property
    def is_of_table(self) -> bool:
        """True if another table of the night may end it."""
        return self.settled_by_table and self._is_of_night

    @property
    def can_be_acknowledged(self) -> bool:
        """True for a reason about data that lasts until a person answers it."""
        is_of_data = self._is_of_night or self.grows
        return self.becomes_standing and self.is_acknowledged and is_of_data

    @property
    def _is_of_night(self) -> bool:
        return self.arises_in in (NIGHT, NIGHT_WITH_LEDGER)

    def __call__(
        self,
        *,
        column: str | None = None,
        figure: float | None = None,
        threshold: float | None = None,
        **facts: object,
    ) -> Reason:
        """Return a reason of this kind.

        Parameters
        ----------
        column : str, optional
            The column it is about; a fact of the sentence too.
        figure, threshold : float, optional
            The measured value, and the bound that it crossed.
        **facts
            Values of the braces in `words` and `remedy`.
        """
        words = self.words.format(column=column, **facts)
        remedy = self.remedy.format(column=column, **facts)
        return Reason(self.code, words, column, figure, threshold, remedy or None)


# The model.
NOT_BETTER_THAN_CHANCE = ReasonKind(
    code="not_better_than_chance",
    words="The ranking{of_class} is not shown to be better than chance{estimate}.",
    remedy="Do not act on this model. Train again with more cases, other columns or "
    "another recipe.",
    when="the 95% interval of AUROC is not entirely above 0.5",
    arises_in=MODEL_AND_NIGHTS,
)
SCORE_INVERTED = ReasonKind(
    code="score_inverted",
    words="Higher scores mean fewer cases here{estimate}: worse than chance.",
    remedy='Set higher = "{higher}" under [cohort] of the contract and train again. '
    "If in doubt, ask the provider what a high score means.",
    when="the model is a score made elsewhere, and the whole interval of its AUROC is "
    "below 0.5",
    arises_in=MODEL_AND_NIGHTS,
)
TOO_FEW_CASES = ReasonKind(
    code="too_few_cases",
    words="Training and validation used only {cases}{of_class}.",
    remedy="Train again when there are more cases.",
    when="there are fewer than 30 cases",
    arises_in=MODEL_AND_NIGHTS,
)
NO_CASE = ReasonKind(
    code="no_case_seen",
    words="Sensitivity, PPV and chance{of_class} are unknown: no case has been seen.",
    remedy="Review flagged rows and the random audit. Then screen history shows the "
    "results, and screen retrain learns from the verdicts.",
    when="the model was [trained without cases](choosing.md#without-cases)",
    arises_in=MODEL_AND_NIGHTS,
)
INTERVALS_TOO_WIDE = ReasonKind(
    code="intervals_too_wide",
    words="Sensitivity{of_class} is imprecise: 95% CI {low:.0%} to {high:.0%}.",
    remedy="Train again with more cases (from more patients, if rows are grouped).",
    when="the 95% interval of sensitivity is wider than 0.3",
    arises_in=MODEL_AND_NIGHTS,
)
FLAGS_EVERYTHING = ReasonKind(
    code="flags_everything",
    words="{description}",
    remedy="Relax the rule with screen threshold, or train with {more}.",
    when="no threshold satisfies the rule, or over 95% of non-cases are flagged",
    arises_in=MODEL_AND_NIGHTS,
    model_command=OTHER_THRESHOLD,
)
OWN_CASES_NOT_FLAGGED = ReasonKind(
    code="own_cases_not_flagged",
    words="This threshold would have found none of the past cases of {label}.",
    remedy="Choose another threshold with screen threshold.",
    when="the threshold finds no past case",
    arises_in=MODEL_AND_NIGHTS,
    model_command=OTHER_THRESHOLD,
)
TO_BE_TRAINED_AGAIN = ReasonKind(
    code="to_be_trained_again",
    words="This model contains rows of an erased patient. It scores until {day} only.",
    remedy="Train it again on the current cohort.",
    when="the model contains rows of an [erased "
    "patient](runbook.md#erasing-a-patient); after the stated day it refuses to score",
    arises_in=MODEL_AND_NIGHTS,
)
NOT_FIT_FOR_USE = ReasonKind(
    code="not_fit_for_use",
    words="By its own validation, this model is not fit for use as it is.",
    remedy="Train another model, or approve this one with a reason (screen approve).",
    when="the answer to [fit for local use?](page.md#fit-for-local-use) is no, and "
    "nobody has approved the model with a reason",
    arises_in=MODEL_AND_NIGHTS,
    model_command=("approve",),
)
FLAGS_LIKE_CHANCE = ReasonKind(
    code="flags_like_chance",
    words="The PPV of flags{of_class} is not shown to be above chance: it may be as "
    "low as {low:.3g}%, at {prevalence:.3g}% prevalence.",
    remedy="",
    when="the 95% interval of PPV is not entirely above the prevalence",
    arises_in=MODEL_AND_NIGHTS,
)
ANOTHER_IS_BETTER = ReasonKind(
    code="another_is_better",
    words="{other} is better on the same folds: this method has a lower {measures}.",
    remedy="Train with {option}.",
    when="the best other method is significantly better, by over 0.01, in AUROC or in "
    "sensitivity + specificity",
    arises_in=MODEL_AND_NIGHTS,
)
NOT_COMPARED = ReasonKind(
    code="not_compared",
    words="No other method was trained on the same folds, so the performance of a "
    "simpler one is unknown.",
    remedy="Train with --beside logistic,random_forest.",
    when="no other method was trained on the same folds (affects only the answer to "
    "`Fit for local use?`)",
    arises_in=MODEL,
)
ANSWER_FIRST = ReasonKind(
    code="answer_first",
    words="{sign}; answer whether it is known at the hour of the night.",
    remedy='Write available = "before" or "after" in the contract and train again, or '
    "answer with the option --known-before of screen approve.",
    when="a column may be known only after the outcome, and nobody has "
    "[answered](page.md#what-the-ranking-rests-on) yet; the signs are its name, "
    "a time that equals another in many rows, values almost exclusively in one "
    "class, shares of missing values that differ by 40 points between classes, or a "
    "number of days or seconds that gives a time after the row's own",
    arises_in=MODEL_AND_NIGHTS,
    model_command=("approve",),
)
GUESSED = ReasonKind(
    code="guessed",
    words="Guessed, without a contract: {guess}.",
    remedy="{remedy}",
    when="training without a contract guessed something that changes the result: "
    "which numbers mean a missing value, or which of several likely choices is "
    "the outcome or the case",
    arises_in=MODEL,
)
ROWS_OF_ONE_PATIENT = ReasonKind(
    code="rows_of_one_patient",
    words="{sign}",
    remedy="{remedy}",
    when="rows seem to belong to the same patients, but no group is set "
    "([signs](howto.md#several-rows-per-patient))",
    arises_in=MODEL,
)
IDS_ARE_ROW_NUMBERS = ReasonKind(
    code="ids_are_row_numbers",
    words="{description}",
    remedy="Name the column of the patients' ids (`--id`, or `id` in the contract).",
    when="no column identifies patients, or the named column contains row numbers",
    arises_in=MODEL_AND_NIGHTS,
)

# A night's table, compared with training and with the nights before.
UNIT_CHANGED = ReasonKind(
    code="unit_changed",
    words="{column}: {description}.",
    remedy="Ask the source of the column for its unit. Convert the values, or have "
    "them sent in the old unit.",
    when="the unit of a column differs from training; if this is certain and "
    '`on_unit_change = "stop"`, the night is refused (exit code 3)',
    arises_in=NIGHT,
    becomes_standing=False,
)
NUMBER_FOR_UNKNOWN = ReasonKind(
    code="number_for_unknown",
    words="{column}: {share:.0%} of the values are {numbers}, which looks like a code "
    "for 'not known'.",
    remedy="Ask the source to leave such cells empty, or list the number in "
    "`missing_values` of the column and train again.",
    when="a number such as 999 or -9, unseen in training, is far more frequent than "
    "any other value of a column, and no change of unit explains it",
    arises_in=NIGHT,
    becomes_standing=False,
)
MISSING_MORE = ReasonKind(
    code="missing_more",
    words="{column}: {description}.",
    remedy="{remedy}",
    when="the share of missing values is over 5 percentage points higher than in "
    "training, or than in the series' own nights",
    arises_in=NIGHT,
)
UNSEEN_CATEGORY = ReasonKind(
    code="unseen_category",
    words="{column}: {description}.",
    remedy="{remedy}",
    when="more rows than expected by chance have a category that training did not see",
    arises_in=NIGHT,
)
OUTSIDE_RANGE = ReasonKind(
    code="outside_range",
    words="{column}: {description}.",
    remedy="{remedy}",
    when="at least 2% of the values are outside the training range",
    arises_in=NIGHT,
)
VALUES_DIFFER = ReasonKind(
    code="values_differ",
    words="{column}: {description}.",
    remedy="{remedy}",
    when="the distribution of a column differs from that in training by 0.1 or more",
    arises_in=NIGHT,
)
SCORES_DIFFER = ReasonKind(
    code="scores_differ",
    words="{description}",
    remedy="{remedy}",
    when="the scores as a whole differ from those held out in training: p at most "
    "0.001 ([drift](page.md#rarity))",
    arises_in=NIGHT,
)
TABLE_OF_ANOTHER_NIGHT = ReasonKind(
    code="table_of_another_night",
    words="The table is that of the night of {night}{of_series}, byte for byte.",
    remedy=CHECK_TABLE,
    when="the table has the same bytes as that of another night, in any series",
    arises_in=NIGHT_WITH_LEDGER,
    stops=True,
    becomes_standing=False,
)
PATIENTS_GONE = ReasonKind(
    code="patients_gone",
    words="{description}.",
    remedy=CHECK_TABLE,
    when="no patient of the last night is in the table, although patients usually stay",
    arises_in=NIGHT_WITH_LEDGER,
    stops=True,
    becomes_standing=False,
)
IDS_OF_ANOTHER_SHAPE = ReasonKind(
    code="ids_of_another_shape",
    words="The ids in column '{column}' have a different format from those in "
    "training ({differences}), so no patient is recognised.",
    remedy=CHECK_TABLE,
    when="ids have a different format from those in training; accepting them "
    "once is enough for a series. Without a ledger, only the loss of leading zeros is "
    "checked",
    arises_in=NIGHT_WITH_LEDGER,
    stops=True,
    becomes_standing=False,
)
IDS_REWRITTEN = ReasonKind(
    code="ids_rewritten",
    words="Column '{column}', {rows}: {share} written differently from earlier nights "
    "(leading zeros, blanks, dots or case), so the patients are not recognised.",
    remedy=f"Have the ids exported as text, as before. {ACCEPT_DELIVERY}.",
    when="an id of the last 28 nights is written differently tonight",
    arises_in=NIGHT_WITH_LEDGER,
    stops=True,
    becomes_standing=False,
)
IDS_COLLIDE = ReasonKind(
    code="ids_collide",
    words="Column '{column}', {rows}: these ids differ only in leading zeros, blanks, "
    "dots or case, so one patient may count as several.",
    remedy=f"Have each id written the same way everywhere. {ACCEPT_DELIVERY}.",
    when="ids in the table differ only in how they are written; not checked if over "
    "1% of training ids do",
    arises_in=NIGHT,
    stops=True,
    becomes_standing=False,
)
NOT_WHOLE = ReasonKind(
    code="not_whole",
    words="{description}.",
    remedy=CHECK_TABLE,
    when="from five nights on: too few rows, or too many patients who have left, "
    "given the rows, weekdays and stays of the last 28 nights; on nights two to "
    "five: far more patients have left than arrived; from the third night on: "
    "hardly any patient of the last night is present",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
LINE_END_MISSING = ReasonKind(
    code="line_end_missing",
    words="The last line has no line end{earlier}: its last cell may be cut.",
    remedy=CHECK_TABLE,
    when="the last line of a CSV file has no line end, unless the series' tables "
    "usually have none",
    arises_in=NIGHT_WITH_LEDGER,
)
ROWS_TOO_MANY = ReasonKind(
    code="rows_too_many",
    words="{description}.",
    remedy=CHECK_TABLE,
    when="there are more rows than usual, given the last nights",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
PATIENTS_UNCHANGED = ReasonKind(
    code="patients_unchanged",
    words="The patients are those of {night}: none of {n_patients} has left, and "
    "nobody is new.",
    remedy=CHECK_DATE,
    when="nobody has left, and nobody is new",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
TABLE_OF_ANOTHER_SERIES = ReasonKind(
    code="table_of_another_series",
    words="Tonight's table{of_series} is identical to this one, byte for byte: one of "
    "the two is another ward's.",
    remedy=CHECK_TABLE,
    when="another series has the same table tonight, but had other tables before",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
ROWS_TOO_OLD = ReasonKind(
    code="rows_too_old",
    words="The newest row is from {newest}, {age} days before the night (usually at "
    "most {bound}).",
    remedy=CHECK_DATE,
    when="the newest `time` is older than usual",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
ROWS_OF_DAYS_TO_COME = ReasonKind(
    code="rows_of_days_to_come",
    words="The newest row is from {newest}, which is in the future.",
    remedy=CHECK_DATE,
    when="a `time` is in the future",
    arises_in=NIGHT_WITH_LEDGER,
    becomes_standing=False,
)
FILES_UNEXPECTED = ReasonKind(
    code="files_unexpected",
    words="{n_files} of {n_expected} files arrived (files_per_night).",
    remedy=CHECK_TABLE,
    when="the number of files differs from `files_per_night` of the contract",
    arises_in=NIGHT,
    becomes_standing=False,
)
ROWS_UNEXPECTED = ReasonKind(
    code="rows_unexpected",
    words="{n_rows:,} rows arrived; {low:,} to {high:,} are expected (rows_per_night).",
    remedy=CHECK_TABLE,
    when="the number of rows is outside `rows_per_night` of the contract",
    arises_in=NIGHT,
    becomes_standing=False,
)

# A night.
PAST_REVIEW_DATE = ReasonKind(
    code="past_review_date",
    words="{description}",
    remedy="Train the model again, or review it and set review_by in the contract it "
    "is trained with.",
    when="the night is after `review_by`: by default two years after the last "
    "training row or, if rows have no time, after training",
    arises_in=NIGHT,
    settled_by_table=False,
)
TRAINED_ON_THESE_ROWS = ReasonKind(
    code="trained_on_these_rows",
    words="The model was trained on {files}, so flags and figures look too good.",
    remedy="Score other rows. The model's page has the figures to expect.",
    when="the night's table includes a file on which the model was trained",
    arises_in=NIGHT,
    becomes_standing=False,
)
COUNTS_DO_NOT_ADD_UP = ReasonKind(
    code="counts_do_not_add_up",
    words="The counts do not add up: {difference}.",
    remedy=REPORT_COUNTS,
    when="the rows scored and the rows refused do not add up to the rows read, or the "
    "states do not add up to the cases",
    arises_in=NIGHT,
    becomes_standing=False,
    settled_by_table=False,
)
ROWS_REFUSED = ReasonKind(
    code="rows_refused",
    words="{rows} refused and not scored.",
    remedy="Have the source correct them. The reasons are listed.",
    when="a row was refused",
    arises_in=NIGHT,
    becomes_standing=False,
)
VALUES_OUT_OF_BOUNDS = ReasonKind(
    code="values_out_of_bounds",
    words="Check these values: {rows} with a value that cannot be used ({columns}), "
    "scored without it and without a chance.",
    remedy="Review these patients whatever their score. Have the source check the "
    "values listed under Check these values.",
    when="a cell is [out of bounds, or text among numbers](page.md#check-these-values)",
    arises_in=NIGHT,
    becomes_standing=False,
)
SCORE_NOT_TAKEN = ReasonKind(
    code="score_not_taken",
    words="Check these values: {rows} with an out-of-bounds score, which cannot "
    "be used to choose the row of a patient or stay.",
    remedy="Have the source check the values listed under Check these values.",
    when="one row of each unit is scored (`[score]` of the contract), and a score is "
    "outside its `plausible` range or `kind`",
    arises_in=NIGHT,
    becomes_standing=False,
)
CHANNELS_UNUSABLE = ReasonKind(
    code="channels_unusable",
    words="Images of {patients} have no usable voxel in {columns} ({faults}).",
    remedy="Check whether these images were registered and exported completely. The "
    "patients are listed under Check these values.",
    when="all voxels of a patient in a channel are missing, out of bounds, or equal",
    arises_in=NIGHT,
    becomes_standing=False,
)
OVER_CAPACITY = ReasonKind(
    code="over_capacity",
    words="{reviews:,}{patients} {state}, but capacity is {capacity} a night.",
    remedy="Review from the top of the list. If this happens again, choose another "
    "threshold: screen threshold MODEL --max-flag-rate SHARE --reason WHY.",
    when="more cases wait for a review than chance explains if `capacity` is the mean "
    "(Poisson, one night in 1,000); the page mentions a smaller excess",
    arises_in=NIGHT,
    settled_by_table=False,
    is_acknowledged=False,
    model_command=OTHER_THRESHOLD,
)
FLAGS_UNEXPECTED = ReasonKind(
    code="flags_unexpected",
    words="{flagged:,} flagged, {low:,} to {high:,} expected {source}. The patients "
    "or the data may have changed.",
    remedy="Compare tonight's data with those of {others} before acting on the list.",
    when="the number of flags is outside the limits set by the series' own nights "
    "(one night in 1,000) or, until there are 20, more than 3.1 standard errors "
    "from the validation estimate",
    arises_in=NIGHT,
)
EVERYBODY_FLAGGED = ReasonKind(
    code="everybody_flagged",
    words="All {n_patients:,} patients are flagged, each for one row or more, so the "
    "list is not informative.",
    remedy="Relax the rule with screen threshold, or train and score one row per "
    "patient.",
    when="rows are grouped, and every patient (of 20 or more) has a flagged row",
    arises_in=NIGHT,
    model_command=OTHER_THRESHOLD,
)
NOBODY_FLAGGED = ReasonKind(
    code="nobody_flagged",
    words="No row was flagged{expectation}.",
    remedy=CHECK_NIGHT,
    when="no row was flagged, and chance does not explain it",
    arises_in=NIGHT,
)
QUIET_NIGHTS = ReasonKind(
    code="quiet_nights",
    words="Nobody was flagged on {n_nights} nights in a row.",
    remedy=CHECK_NIGHT,
    when="there was no case for three nights, although one was expected",
    arises_in=NIGHT_WITH_LEDGER,
)
NOT_RECOGNISABLE = ReasonKind(
    code="not_recognisable",
    words="No column identifies rows, so patients are not recognised from night to "
    "night.",
    remedy="Add an id or a group to the contract.",
    when="the contract has neither `id` nor `group`",
    arises_in=NIGHT_WITH_LEDGER,
    settled_by_table=False,
)
OVER_MEMORY = ReasonKind(
    code="over_memory",
    words="The night took {peak} MiB of memory, but claims only {claim} of the site's "
    "budget.",
    remedy="Set memory_mb = {proposal} under [series.{series}].",
    when="a night took more memory than its `memory_mb`",
    arises_in=RUN,
)

MERGES_REFUSED = ReasonKind(
    code="merges_refused",
    words="The table of merged numbers could not be used: {fault}.",
    remedy="Correct the table. Until then the ledger keeps its present merges.",
    when="the table `merged` of `[site]` cannot be read, or contains a chain or a "
    "cycle",
    arises_in=RUN,
)

# Several nights.
DRIFT_OVER_NIGHTS = ReasonKind(
    code="drift_over_nights",
    words="Overall, the {n_patients} patients of the last {nights} (each counted "
    "once) score {direction} than {others} (largest difference of shares "
    "{distance:.2f}). The patients or the measurements have changed.",
    remedy="Ask the source what has changed since. If the patients are different now, "
    "train again.",
    when="the scores of the last 14 nights differ from those of the 90 nights before "
    "or, until there are 20 of these, from those of training: p at most 0.005",
    arises_in=HISTORY,
)


_SINCE_WHEN = (
    "Ask its source what has changed since {since}: device, method, unit or coding. "
    "If the change is intended: screen status{options} --acknowledge {code} --until "
    "DATE --reason WHY."
)
COLUMN_DRIFTS = ReasonKind(
    code="column_drifts",
    words="{column}: {change} since {since}{where}.",
    remedy=_SINCE_WHEN.replace("{code}", "column_drifts"),
    when="over 3 to 28 nights, the values of a column, or the share of missing "
    "values, differ from those of the ninety nights before; tested in all series "
    "together, then in each ([how](page.md#drift-over-nights))",
    arises_in=RUN,
    grows=True,
)
SCORES_DRIFT = ReasonKind(
    code="scores_drift",
    words="Since {since}, scores have been {direction} overall than on the ninety "
    "nights before.",
    remedy=_SINCE_WHEN.replace("its source", "the ward").replace(
        "{code}", "scores_drift"
    ),
    when="over 3 to 28 nights, the scores differ from those of the series' own ninety "
    "nights before",
    arises_in=RUN,
    grows=True,
)
FLAGS_DRIFT = ReasonKind(
    code="flags_drift",
    words="{of_late:.1%} of the patients have been flagged since {since}, "
    "{before:.1%} {earlier}. The condition has become {direction}, or the "
    "measurements have changed.",
    remedy=_SINCE_WHEN.replace("its source", "the ward").replace(
        "{code}", "flags_drift"
    ),
    when="the share flagged over 3 to 28 nights differs from that in the series' "
    "preceding ninety nights, or the share over 28 nights differs from that in the "
    "first ninety nights of the series",
    arises_in=RUN,
    grows=True,
)
OUTBREAK = ReasonKind(
    code="outbreak",
    words="Outbreak: {new} new cases since {since}; the series' own nights suggest "
    "{expected:.1f} (p {p:.1g}).",
    remedy="Inform infection control or the ward's physicians, and look at these "
    "cases together.",
    when="over 1 to 14 nights, more patients are newly flagged than the series' "
    "preceding ninety nights explain",
    arises_in=RUN,
    grows=True,
)


def _out_of_control(measure: str, share: str, quantity: str, remedy: str) -> ReasonKind:
    """Return the reason for a night beyond the limits of a control chart."""
    words = f"On {{night}} {{percent:.3g}}% {share}, {{side}} the control limit of "
    return ReasonKind(
        code=f"{measure}_out_of_control",
        words=words + "{limit:.3g}%.",
        remedy=remedy,
        when=f"the share of {quantity} is outside the limits of its "
        "[control chart](page.md#control-charts)",
        arises_in=HISTORY,
    )


OUT_OF_CONTROL: dict[Measure, ReasonKind] = {
    "workload": _out_of_control(
        "workload",
        "of the rows read were flagged",
        "rows flagged",
        "Compare the patients and the table of these nights with earlier ones before "
        "changing a threshold.",
    ),
    "yield": _out_of_control(
        "yield",
        "of the reviewed cases had the condition",
        "reviewed cases with the condition",
        "Check whether different cases were reviewed than before, or different people "
        "reviewed them. Then check the model.",
    ),
    "refused": _out_of_control(
        "refused",
        "of the rows read were refused",
        "rows refused",
        "Have the source check the table. Each night's page lists the reasons.",
    ),
    "missing": _out_of_control(
        "missing",
        "of the values were missing",
        "missing values",
        "Have the source look for a column that no longer arrives. Each night's page "
        "lists the columns.",
    ),
}

# What became of the patients.
OUTCOMES_BELOW = ReasonKind(
    code="outcomes_below",
    words="{measure} by outcomes is {seen} over {nights}; the validation estimate is "
    "{promised}.",
    remedy="Check the missed cases (option --missed of `screen outcomes`), drift and "
    "delivery. Then train again.",
    when="sensitivity or PPV of rows with a known outcome is below the validation "
    "estimate by more than chance explains, however often it is checked",
    arises_in="`screen status`",
)

OUTCOMES_OF_UNKNOWN = ReasonKind(
    code="outcomes_of_unknown",
    words="{unknown} of {patients} patients in the outcome table were never scored "
    "({usual_unknown} of {usual_patients} in earlier tables). Their outcomes are lost.",
    remedy="Check whether the table identifies patients as the nights do. If it is "
    "correct, enter it with --accept-delivery REASON.",
    when="a larger share of the patients in an outcome table was never scored than in "
    "the largest earlier table, and chance does not explain it (p under 1 in 10,000)",
    arises_in="`screen status`",
)

# Another place.
PROMISE_NOT_KEPT = ReasonKind(
    code="promise_not_kept",
    words="{measure}{of_class} is {here} here; the validation estimate is {promised}.",
    remedy="Before you use the model here, check subgroups, units, and the threshold "
    "that this cohort would choose.",
    when="sensitivity, specificity, AUROC or the share of lesions found is below the "
    "validation estimate (Newcombe)",
    arises_in=VALIDATION,
)
CHANCE_MISFIT = ReasonKind(
    code="chance_misfit",
    words="Chances{of_class} {faults}.",
    remedy="Do not use the chances in this place. Ranks and thresholds may still be "
    "valid.",
    when="the interval of observed over expected cases excludes 1, or that of the "
    "calibration slope is below 1",
    arises_in=VALIDATION,
)

PLUGIN_LEFT_OUT = ReasonKind(
    code="plugin_left_out",
    words="The {member} of plug-in {plugin} is missing here: {fault}.",
    remedy="Continue without it, or install a corrected version of the plug-in.",
    when="a column, figure, reason or reader of a [plug-in](plugins.md) failed, or "
    "could not be loaded",
    arises_in=MODEL_AND_NIGHTS,
    becomes_standing=False,
)


def _shipped() -> Iterator[tuple[str, ReasonKind]]:
    """Yield the kinds above by code, in their order."""
    for value in [*globals().values()]:
        kinds = value.values() if isinstance(value, dict) else [value]
        for kind in kinds:
            if isinstance(kind, ReasonKind):
                yield kind.code, kind


def _accepted(code: str, kind: Any) -> ReasonKind:
    """Return the kind of a plug-in; TypeError or ValueError if it cannot be used."""
    if not isinstance(kind, ReasonKind):
        raise TypeError("it is not a ReasonKind")
    if kind.code != code:
        raise ValueError(f"its `code` is not {code!r}")
    if kind.found_in is None:
        raise ValueError("it has no `found_in`")
    if kind.stops:
        raise ValueError("a plug-in cannot stop a night: set `stops` to False")
    return kind


REASONS: Registry[ReasonKind] = Registry("reason", _shipped, _accepted)
"""Every kind of reason by its code, in the order of the documentation."""


def reasons_of_plugins(run: object) -> Iterator[Reason]:
    """Yield the reasons for attention that plug-ins find in the document of a run."""
    nothing: list[Reason] = []
    for code, kind in REASONS.items():
        if kind.found_in is not None:
            yield from REASONS.call(code, _found, kind, run, default=nothing)


def reasons_of_left_out(faults: Iterable[LeftOut]) -> list[Reason]:
    """Return a reason for each thing that a plug-in adds and that is left out."""
    return [PLUGIN_LEFT_OUT(**fault._asdict()) for fault in faults]


def _found(kind: ReasonKind, run: object) -> list[Reason]:
    """Return the reasons that the function of a plug-in finds; TypeError for others."""
    assert kind.found_in is not None, "only such kinds are asked"
    found = [*kind.found_in(run)]
    if any(not isinstance(each, Reason) or each.code != kind.code for each in found):
        raise TypeError("not a reason of this kind")
    return found
