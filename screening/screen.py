"""Train, score and explain as one scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.data.reading import read_cohort
from screening.errors import (
    CohortError,
    ModelError,
    PromiseError,
    PromiseWarning,
    UsageError,
)
from screening.estimators.base import check_weights
from screening.io.frames import is_table, to_arrow
from screening.io.opening import Readable
from screening.io.queries import Database
from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.metrics.chances import log_odds_at
from screening.model_selection.train import train
from screening.model_selection.without_cases import with_states_of_labels
from screening.recipes.building import as_recipe
from screening.recipes.encoders import columns_of_points
from screening.recipes.recipe import Recipe
from screening.report import render_model
from screening.report.page import render_head
from screening.schemas.figures import DEFAULT_RULE, Rule
from screening.schemas.history import HistoryDocument
from screening.schemas.model import TaskFacts
from screening.scoring.explaining import explained_row
from screening.settings import Resources, Search, Validation
from screening.spelling import did_you_mean
from screening.store.loading import load_model
from screening.store.model import Model, save_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Table = Readable | ArrayLike

# Rows beyond which weights are hardly numbers of rows.
_MOST_ROWS = 10_000_000


class Page(str):
    """A page of HTML, which a notebook shows in a frame of its own."""

    height = 800

    def _repr_html_(self) -> str:
        page = escape(self)
        return f'<iframe srcdoc="{page}" width="100%" height="{self.height}"></iframe>'


class PageHead(Page):
    """The head of a page."""

    height = 420


def _offers_chances(screen: Screen) -> bool:
    """Return True if chances were asked for, and a fitted model has them.

    Raise ModelError with the reason if not.
    """
    if not screen.chances:
        raise ModelError(
            "predict flags rows by the rule's threshold, not by a chance of 0.5 or "
            "more; Screen(chances=True) gives chances too, and so does score_frame"
        )
    if hasattr(screen, "model_"):
        screen.model_.refuse_unearned()
    return True


def _checked_labels(y: Any, is_one_class: bool) -> np.ndarray:
    """Return labels as an array, checked as scikit-learn's classifiers do."""
    labels = column_or_1d(y, warn=True)
    labels = check_array(labels, ensure_2d=False, dtype=None, input_name="y")
    check_classification_targets(labels)
    if len(np.unique(labels)) < 2 and not is_one_class:
        raise ValueError("the labels contain 1 class; there must be at least 2 classes")
    return np.asarray(labels)


def _in_memory(table: Any, parameter: str) -> pa.Table:
    """Return a table in memory; raise UsageError for a file or database."""
    if not isinstance(table, pa.Table):
        raise UsageError(
            f"{parameter} needs a table in memory: read the file or query into a frame"
        )
    return table


def _with_groups(past: Cohort, table: Any, groups: ArrayLike) -> Cohort:
    """Return a cohort with the groups of the rows of its table, (n_table_rows,)."""
    values = column_or_1d(groups)
    check_consistent_length(_in_memory(table, "group"), values)
    return replace(past, group=values.astype(str)[past.rows - 1])


def _weights(past: Cohort, table: Any, sample_weight: ArrayLike) -> np.ndarray:
    """Return the weight of each row of a cohort, (n_rows,).

    Raise UsageError for weights of a file or database, ValueError for invalid ones.
    """
    check_consistent_length(_in_memory(table, "sample_weight"), sample_weight)
    codes, _ = pd.factorize(with_states_of_labels(past).labels)
    return check_weights(past.rows, codes, np.asarray(sample_weight)[past.rows - 1])


def _repeated(past: Cohort, weights: np.ndarray) -> Cohort:
    """Repeat each row by its weight; all its copies are in one fold."""
    if np.any(weights != np.rint(weights)):
        raise ValueError(
            "sample_weight has fractions, but it is the number of rows that a row "
            'counts for; Screen(weights="importance") takes any weight'
        )
    if weights.sum() > _MOST_ROWS:
        raise ValueError(
            f"sample_weight adds up to more than {_MOST_ROWS:,} rows; "
            'Screen(weights="importance") takes weights of any size'
        )
    rows = np.repeat(np.arange(past.n_rows), weights.astype(int))
    repeated = past.take(rows)
    if weights.max() <= 1:
        return repeated
    note = "each row counts as sample_weight equal rows"
    return replace(repeated, copy_of=rows, notes=[*past.notes, note])


def _weighted(past: Cohort, weights: np.ndarray) -> Cohort:
    """Return the rows of a weight > 0, with weights of mean 1."""
    # A weight may vanish beside others; the classes are then asked for once more.
    codes, _ = pd.factorize(with_states_of_labels(past).labels)
    weights = check_weights(past.rows, codes, weights / weights.max())
    counted = np.flatnonzero(weights > 0)
    weights = weights[counted]
    note = (
        "rows are weighted while machines are fitted (sample_weight); thresholds and "
        "figures count every row once"
    )
    return replace(
        past.take(counted),
        weight=weights / weights.mean(),
        notes=[*past.notes, note],
    )


def _values_without_case(task: TaskFacts, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the label of rows without the condition as given, and that of a case.

    Of numbers the case is 1, of booleans True; of texts it has the task's name.
    """
    labels = set(values.values())
    if len(labels) != 1:
        return {}
    (label,) = labels
    negative, case = task.classes
    is_number = isinstance(label, bool | np.bool_ | int | float | np.number)
    return {negative: label, case: type(label)(1) if is_number else case}


class Screen(ClassifierMixin, BaseEstimator):
    """A model of a past cohort with its threshold, as a scikit-learn classifier.

    `fit` encodes, searches and validates on folds, and chooses a threshold. It does
    what `screen train` does and has the same model. A model that `screen train` refuses
    because it would not keep its promise gives a `PromiseWarning` here; it can be used
    but not saved.

    Parameters
    ----------
    recipe : str, Recipe or classifier
        A method by its name, the path of a recipe file, or a recipe; ``auto`` is a
        blend. A classifier of scikit-learn, or yours, is cloned and fitted on every
        fold, and learns from encoded rows (imputed, one-hot encoded, centred and
        scaled). Its model is judged like any other, and is not stored.
    rule : Rule, optional
        How the threshold is chosen: `MinSensitivity` (0.9 by default), `MaxFlagRate`,
        `MissCost`, `GMean` or `Threshold`.
    validation : Validation, optional
        Folds, repeats, seed, and the methods to compare with on the same folds.
    search : Search or int, optional
        The fixed parameters of the recipe, and how many settings of the others compete
        on the held-out rows; a number is that of the settings, 1 for no search. By
        default it is the recipe's own.
    cv : int, splitter, or iterable of (train, test), optional
        Number of folds, in place of `validation.folds`; or folds of your own, with each
        row in one test set.
    weights : {"frequency", "importance"}
        Meaning of `sample_weight`: the number of equal rows that a row represents, in
        whole numbers, or how much a row counts while machines are fitted.
    chances : bool
        Offer `predict_proba`. It need not agree with `predict`, which flags by the
        rule's threshold and not from a chance of 0.5 on.
    resources : Resources, optional
        Cores, memory and workers; the result does not depend on them.

    Attributes
    ----------
    model_ : Model
        As `train` returns it.
    classes_ : ndarray
        The labels, sorted; for a model of one class against several others, that one
        and "negative". A model that saw no case has the label of its rows and that of a
        case: 1, True or "case"; without labels "case" and "negative".
    positive_ : object
        The label that is flagged; of several classes, those.
    threshold_ : float or ndarray
        Scores from here on are flagged; of several classes, one each.
    notes_ : list of str
        How the table was read, and what was guessed and dropped.
    refused_ : str or None
        Why `screen train` refuses this model.
    n_features_in_ : int
        Columns that the model uses.
    feature_names_in_ : ndarray of str
        Their names, where the columns have any.

    Examples
    --------
    >>> import pandas as pd
    >>> from importlib.resources import files
    >>> from screening import MinSensitivity, Screen, Validation
    >>> samples = files("screening.sample_cohorts")
    >>> past = pd.read_csv(samples / "nosocomial_past.csv", dtype={"patient_id": str})
    >>> rule = MinSensitivity(0.9)
    >>> alone = Validation(beside=())
    >>> screen = Screen("logistic", rule=rule, search=1, validation=alone)
    >>> screen = screen.fit(past, "infected", id="patient_id", drop="admission_date")
    >>> night = samples / "nosocomial_night.csv"
    >>> tonight = pd.read_csv(night, dtype={"patient_id": str})
    >>> sorted(set(screen.predict(tonight).tolist()))
    ['no', 'yes']
    """

    def __init__(
        self,
        recipe: str | Recipe | ClassifierMixin = "auto",
        *,
        rule: Rule | None = None,
        validation: Validation | None = None,
        search: Search | int | None = None,
        cv: Any = None,
        weights: Literal["frequency", "importance"] = "frequency",
        chances: bool = False,
        resources: Resources | None = None,
    ) -> None:
        self.recipe = recipe
        self.rule = rule
        self.validation = validation
        self.search = search
        self.cv = cv
        self.weights = weights
        self.chances = chances
        self.resources = resources

    def fit(
        self,
        X: Table,
        y: str | ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        positive: str | Sequence[str] | None = None,
        id: str | None = None,
        group: str | ArrayLike | None = None,
        drop: str | Sequence[str] = (),
        contract: Contract | str | Path | None = None,
    ) -> Self:
        """Train on a table of past rows.

        Roles that are not named are guessed as `screen train` does; a `UserWarning`
        states each guess of a column, and each guess that may well be wrong.

        Parameters
        ----------
        X : DataFrame, another table, path, or array of shape (n_rows, n_features)
            One row per patient, with missing values, texts and dates as they are; an
            array contains numbers.
        y : str or array-like, shape (n_rows,), optional
            The column of X with the labels, or the labels. A one-class recipe with
            `MaxFlagRate` needs none: every row is then of unknown state.
        sample_weight : array-like, shape (n_rows,), optional
            Of each row of a table in memory, see `weights`; rows of weight 0 are left
            out. By default a row of weight 3 is three equal rows, everywhere, and all
            three are in one fold. Importance weights are only used to fit machines:
            thresholds and figures count every row once.
        positive : str or sequence of str, optional
            Label of a case; by default the one that means "yes", or the rarer of two.
        id : str, optional
            Column of X that names a row.
        group : str or array-like, shape (n_rows,), optional
            Column of X that names what must not be split over folds, such as the
            patient; or its values for the rows of a table in memory.
        drop : str or sequence of str
            Columns to leave out.
        contract : Contract or path, optional
            What the columns contain, as written by `screen init`.

        Returns
        -------
        Screen
            Itself, fitted.
        """
        recipe = as_recipe(self.recipe)
        validation = self._validation()
        is_one_class = recipe.machine == "one_class"
        table, column, labels = self._past(X, y, is_one_class)
        group_column = group if isinstance(group, str) else None
        groups = None if isinstance(group, str) else group
        past = read_cohort(
            table,
            contract,
            label=column,
            positive=positive,
            id=id,
            group=group_column,
            drop=drop,
            need_label=True,
            label_optional=is_one_class,
            keep=columns_of_points(recipe),
            propose=True,
            independent=validation.independent or groups is not None,
        )
        if groups is not None:
            past = _with_groups(past, table, groups)
        past = self._held_out_by_cv(past, table, labels, groups)
        if sample_weight is not None:
            past = self._counted(past, _weights(past, table, sample_weight))
        # Of labels in an array, as everywhere in scikit-learn, 1 is the case.
        is_array = labels is not None and not isinstance(y, str)
        for guess in past.guesses:
            warnings.warn(guess, UserWarning, stacklevel=2)
        for doubt in past.doubts:
            if not is_array or doubt.column != column:
                warnings.warn(doubt.words, UserWarning, stacklevel=2)
        model = self._train(past, recipe, validation)
        values = {}
        if labels is not None:
            values = dict(zip(past.labels, labels[past.rows - 1], strict=True))
        self._take(model, values)
        if not hasattr(self, "n_features_in_") or hasattr(self, "feature_names_in_"):
            names = list(model.contract.features)
            self.feature_names_in_ = np.array(names, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        return self

    def _validation(self) -> Validation:
        """Return how rows are held out, with the number of folds of `cv`."""
        validation = self.validation or Validation()
        if isinstance(self.cv, Integral):
            return replace(validation, folds=int(self.cv))
        return validation

    def _train(self, past: Cohort, recipe: Recipe, validation: Validation) -> Model:
        """Train a model; warn if `train` refuses it."""
        train_on = partial(
            train,
            recipe=recipe,
            rule=self.rule or DEFAULT_RULE,
            validation=validation,
            search=self.search,
            resources=self.resources,
        )
        self.refused_ = None
        try:
            return train_on(past)
        except PromiseError as refusal:
            self.refused_ = str(refusal)
        warnings.warn(self.refused_, PromiseWarning, stacklevel=3)
        note = f"`screen train` refuses this model: {self.refused_}"
        return train_on(replace(past, notes=[*past.notes, note]), refuse=False)

    def _counted(self, past: Cohort, weights: np.ndarray) -> Cohort:
        """Return a cohort whose rows count by their weights, (n_rows,)."""
        match self.weights:
            case "frequency":
                return _repeated(past, weights)
            case "importance":
                return _weighted(past, weights)
        raise UsageError(
            f'weights must be "frequency" or "importance", got {self.weights!r}'
        )

    def _held_out_by_cv(
        self,
        past: Cohort,
        table: Any,
        labels: np.ndarray | None,
        groups: ArrayLike | None,
    ) -> Cohort:
        """Return a cohort with the folds of `cv`, if they are the caller's.

        Parameters
        ----------
        past : Cohort
        table : Table or other source
            It was read from.
        labels : ndarray of shape (n_table_rows,), optional
        groups : array-like, shape (n_table_rows,), optional
            By default those of the cohort's own column.
        """
        if self.cv is None or isinstance(self.cv, Integral):
            return past
        n_rows = len(_in_memory(table, "cv"))
        target = np.zeros(n_rows, int)
        if labels is not None:
            target, _ = pd.factorize(labels, sort=True)
        if groups is None and past.contract.group is not None:
            groups = table[past.contract.group].to_pandas()
        if groups is not None:
            groups, _ = pd.factorize(np.asarray(groups), sort=True)
        splitter = check_cv(self.cv, target, classifier=True)
        splits = splitter.split(np.zeros((n_rows, 1)), target, groups)
        times_out = np.zeros(n_rows, int)
        fold = np.zeros(n_rows, int)
        for number, (_, test) in enumerate(splits):
            times_out[test] += 1
            fold[test] = number
        if np.any(times_out != 1):
            raise ValueError("cv must hold every row out once, as KFold does")
        return replace(past, fold=fold[past.rows - 1])

    def _past(
        self, X: Any, y: Any, is_one_class: bool
    ) -> tuple[Any, str | None, np.ndarray | None]:
        """Return the past as a table, its label column, and the labels as given.

        The labels are None for a file or database, which is not read here, and without
        a label, which a one-class recipe alone can do without.
        """
        if y is None:
            if not is_one_class:
                raise ValueError(
                    "requires y to be passed, but the target y is None; only a "
                    "one-class recipe learns without labels"
                )
            return self._table(X, learns=True), None, None
        if isinstance(X, str | Path | Database):
            if not isinstance(y, str):
                raise UsageError(
                    "the labels of a file or database are one of its columns; give "
                    "the column's name as y"
                )
            return X, y, None
        if isinstance(y, str):
            table = self._table(X, learns=True, label=y)
            if y not in table.column_names:
                hint = did_you_mean(y, table.column_names)
                raise CohortError(f"table: missing column '{y}'{hint}")
            return table, y, table[y].to_numpy()
        labels = _checked_labels(y, is_one_class)
        column = str(getattr(y, "name", None) or "label")
        table = self._table(X, learns=True, label=column)
        check_consistent_length(table, labels)
        if column in table.column_names:
            table = table.drop_columns(column)
        cells = pa.array(labels, from_pandas=True)
        return table.append_column(column, cells), column, labels

    def _take(self, model: Model, values: Mapping[str, Any]) -> None:
        """Keep a model, with the values of its label texts."""
        task = model.facts.task
        if task.kind == "multi":
            labels = list(task.classes)
        else:
            labels = list(model.facts.training.n_by_class)
        if task.kind == "binary" and task.watched[0] not in labels:
            labels = list(task.classes)
            values = _values_without_case(task, values)
        elif task.kind == "binary" and len(labels) > 2:
            labels = list(task.classes)
            values = {}
        self.model_ = model
        self.texts_ = sorted(labels, key=lambda text: values.get(text, text))
        self.classes_ = np.array([values.get(text, text) for text in self.texts_])
        watched = [values.get(text, text) for text in model.watched]
        is_binary = task.kind == "binary"
        self.positive_ = watched[0] if is_binary else watched
        self.threshold_ = model.thresholds[0] if is_binary else model.thresholds
        self.notes_ = [*model.facts.training.notes]

    def _table(self, X: Any, learns: bool = False, label: str | None = None) -> Any:
        """Convert X to an Arrow table; a path is returned unchanged.

        An array's columns get the names that `fit` saw. `learns`: these names are set,
        without the label's.
        """
        if isinstance(X, str | Path | Database):
            return X
        named = not isinstance(X, pd.DataFrame) or all(
            isinstance(name, str) for name in X
        )
        if is_table(X) and named:
            table = to_arrow(X)
            if learns:
                names = [name for name in table.column_names if name != label]
                self.feature_names_in_ = np.array(names, dtype=object)
                self.n_features_in_ = len(names)
            return table
        numbers = validate_data(self, X, reset=learns, ensure_all_finite="allow-nan")
        numbered = [f"x{position}" for position in range(numbers.shape[1])]
        names = getattr(self, "feature_names_in_", numbered)
        return to_arrow(pd.DataFrame(numbers, columns=names))

    def score_frame(self, X: Table) -> pd.DataFrame:
        """Score rows; return a frame with one row for each row of X that has a score.

        Parameters
        ----------
        X : array or table, shape (n_rows, n_features)
            Has the columns that `fit` had; it needs no labels.

        Returns
        -------
        DataFrame
            `id`, `score` (higher is worse), `p_value`, `flagged`, and `chance` if the
            model passed the calibration check; with the index of X, if it has one.
        """
        check_is_fitted(self)
        scored, positions = self.model_.score_rows(self._table(X))
        if isinstance(X, pd.DataFrame):
            scored.index = X.index[positions]
        return scored

    def _scored(self, X: Table) -> pd.DataFrame:
        """Return the frame of `score_frame`; raise UsageError if a row has no score."""
        check_is_fitted(self)
        table = self._table(X)
        rows = self.model_.score_frame(table)
        if isinstance(table, pa.Table) and len(rows) < len(table):
            raise UsageError(
                f"{len(table) - len(rows)} of {len(table)} rows break the contract and "
                "have no score; score_frame leaves them out"
            )
        return rows

    def predict(self, X: Table) -> np.ndarray:
        """Return the label of each row, (n_rows,); a flagged row is positive."""
        rows = self._scored(X)
        if "predicted" in rows:
            predicted = pd.Index(rows["predicted"])
            codes = pd.Index(self.texts_).get_indexer(predicted)
        else:
            codes = np.where(rows["flagged"], self._case, 1 - self._case)
        return self.classes_[codes]

    @property
    def _case(self) -> int:
        """Index of the positive class of two."""
        return self.texts_.index(self.model_.watched[0])

    def decision_function(self, X: Table) -> np.ndarray:
        """Return the distance of each score to the threshold, (n_rows,).

        It is positive towards the second of `classes_`. With several classes, it is the
        log odds of each, (n_rows, n_classes); `predict` takes the largest.
        """
        rows = self._scored(X)
        if "predicted" in rows:
            chances = self.model_.facts.validation.class_chances or {}
            log_odds = [
                log_odds_at(rows[f"score_{text}"].to_numpy(), chances[text])
                for text in self.texts_
            ]
            return np.column_stack(log_odds)
        above = rows["score"].to_numpy() - self.model_.thresholds[0]
        return above if self._case else -above

    @available_if(_offers_chances)
    def predict_proba(self, X: Table) -> np.ndarray:
        """Return calibrated chances, (n_rows, 2), in the order of `classes_`.

        NaN where every row is flagged. The method exists only if the model passed the
        calibration check; otherwise the AttributeError has the reason.
        """
        chance = self._scored(X)["chance"].to_numpy(float)
        columns = [1 - chance, chance]
        if not self._case:
            columns.reverse()
        return np.column_stack(columns)

    @property
    def held_out_(self) -> pd.DataFrame:
        """Columns `id, group, fold, label, score` of every past row.

        Each is scored by machines that had not seen it.
        """
        check_is_fitted(self)
        return self.model_.validation

    def explain(self, X: Table, row: str) -> pd.DataFrame:
        """Explain the score of a row: its change by each value instead of the median.

        Parameters
        ----------
        X : DataFrame, another table, path, or array of shape (n_rows, n_features)
            The table that the row is of.
        row : str
            Its id, or the id of a group: then its row with the highest score; "1" is
            the first where rows have no id.

        Returns
        -------
        DataFrame
            `feature`, `value`, `change` (above 0 raises the score), and more; the
            largest change first.
        """
        check_is_fitted(self)
        stream = self.model_.opened(self._table(X))
        case = explained_row(self.model_, stream, row)
        return pd.DataFrame(case["contributions"])

    def report(self) -> Page:
        """Return the HTML page of the model, which a notebook shows."""
        check_is_fitted(self)
        return Page(render_model(self.model_.sealed))

    def plot(
        self,
        kind: str = "trade_off",
        X: Table | None = None,
        row: str | None = None,
        *,
        ledger: str | Path | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a picture with matplotlib (extra `plots`).

        Parameters
        ----------
        kind : {"trade_off", "roc", "calibration", "contributions", "history"}
            What of.
        X : DataFrame or another table, optional
            Of contributions: the table of the row.
        row : str, optional
            Of contributions: the row's id.
        ledger : str or Path, optional
            Of history: the ledger of the nights.
        ax : Axes, optional
            Where to draw; on axes of its own by default.

        Returns
        -------
        Axes
            With the picture.
        """
        check_is_fitted(self)
        try:
            from screening import plots
        except ImportError:
            raise UsageError(
                'plots need matplotlib: pip install "screening[plots]"'
            ) from None
        ax = plots.axes() if ax is None else ax
        match kind:
            case "contributions":
                if X is None or row is None:
                    raise UsageError(
                        'contributions belong to a row; call plot("contributions", '
                        "table, id)"
                    )
                return plots.contributions(self.explain(X, row), ax)
            case "history":
                if ledger is None:
                    raise UsageError(
                        "a plot of the history needs a ledger:"
                        ' plot("history", ledger="screening.db")'
                    )
                with open_ledger(ledger, read_only=True) as book:
                    return plots.history(HistoryDocument.from_dict(history(book)), ax)
        if kind not in plots.OF_MODEL:
            raise UsageError(
                f"plot {kind!r} does not exist; choose from {', '.join(plots.KINDS)}"
            )
        draw = plots.OF_MODEL[kind]
        return draw(self.model_.facts, self.model_.watched[0], ax)

    def save(self, directory: str | Path) -> Path:
        """Write the model directory, with its page, as `screen train` does.

        It contains rows of patients.

        The directory is absent, empty, or an earlier model's, which is replaced. Raise
        PromiseError for a model that `screen train` refuses.
        """
        check_is_fitted(self)
        if self.refused_ is not None:
            raise PromiseError(self.refused_)
        return save_model(self.model_, directory, render_model)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a fitted Screen from the directory of `save` or `screen train`."""
        model = load_model(directory)
        facts = model.facts
        screen = cls(
            model.recipe,
            rule=facts.operating_points[0].rule,
            validation=Validation(
                folds=facts.validation.folds, seed=facts.training.seed
            ),
        )
        screen.refused_ = None
        screen._take(model, {})
        return screen

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        """Return the head of the page of a fitted model, else the repr, as HTML."""
        if not hasattr(self, "model_"):
            return f"<pre>{escape(repr(self))}</pre>"
        return PageHead(render_head(self.model_.sealed))._repr_html_()
