"""Base of all documents: immutable pydantic models, read from and written as JSON.

A document that a released version wrote is read by every later version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass

from screening.errors import ModelError


def _in_order(
    limits: tuple[float | None, float | None],
) -> tuple[float | None, float | None]:
    low, high = limits
    if low is not None and high is not None and low > high:
        raise ValueError("the low end is above the high end")
    return limits


Range = Annotated[tuple[float | None, float | None], AfterValidator(_in_order)]
JsonObject = Mapping[str, object]
"""An object of JSON."""
Setting = dict[str, Any]
"""Parameters of a recipe by name: numbers, words or lists, as the recipe has them."""

FORMAT_VERSION = 1
"""Version of the formats of model, run, comparison and validation. What a released
version wrote is read by every later one."""


class Document(BaseModel):
    """A document or part of one: an immutable pydantic model without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        serialize_by_alias=True,
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )
    TITLE: ClassVar[str] = "the document"

    @classmethod
    def from_dict(cls, stored: JsonObject, title: str | None = None) -> Self:
        """Return a document from its parsed JSON; errors call it `title`.

        Raises
        ------
        ModelError
            Names the keys that are missing, unknown or of a wrong type, never a value.
        """
        try:
            return cls.model_validate(stored)
        except ValidationError as error:
            problems = []
            for problem in error.errors()[:5]:
                key = ".".join(map(str, problem["loc"]))
                problems.append(f"{key}: {problem['msg']}")
            raise ModelError(
                f"{title or cls.TITLE} is not as this version writes it: "
                f"{'; '.join(problems)}"
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the document for JSON: every key, in order of declaration."""
        return self.model_dump(mode="json")

    def replace(self, **changes: object) -> Self:
        """Copy the document with some fields changed, and validate it again."""
        return type(self)(
            **{name: getattr(self, name) for name in type(self).model_fields} | changes
        )


def check_equal_lengths(*columns: Sequence[object]) -> None:
    """Raise ValueError unless columns have the same length."""
    if len({len(column) for column in columns}) > 1:
        raise ValueError("columns of one table differ in length")


class ColumnarDocument(Document):
    """A document whose sequences are columns of one table."""

    @model_validator(mode="after")
    def _even(self) -> Self:
        check_equal_lengths(
            *(column for _, column in self if isinstance(column, Sequence))
        )
        return self


PART = ConfigDict(extra="forbid", defer_build=True)
"""Configuration of dataclasses that are made with positional arguments."""


@dataclass(frozen=True, config=PART)
class Estimate:
    """A figure with the limits of its 95 % interval; None is undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def value_and_interval(self) -> tuple[Any, Any, Any]:
        """Figure and the lower and upper limit of its interval."""
        return self.value, self.low, self.high

    def is_above(self, bound: float) -> bool:
        """Return True if the whole interval is above a bound."""
        return self.low is not None and self.low > bound

    def is_below(self, bound: float) -> bool:
        """Return True if the whole interval is below a bound."""
        return self.high is not None and self.high < bound

    @property
    def in_percent(self) -> str:
        """A share in per cent with one decimal; a dash if it is undefined."""
        return "-" if self.value is None else f"{100 * self.value:.1f} %"


UNDEFINED = Estimate()
"""A figure that a population does not have."""


class PopulationFigures(Document):
    """Figures of a population of rows by name, as `metrics.figures` has them.

    Documents add what the population is and how large. A figure that could not be
    computed is undefined.
    """

    figures: Mapping[str, Estimate] = {}

    def __getitem__(self, name: str) -> Estimate:
        """Return a figure by its name; KeyError if the document has none."""
        return self.figures[name]

    def figure(self, name: str) -> Estimate:
        """Return a figure by its name, undefined if the document has none."""
        return self.figures.get(name, UNDEFINED)


def _defined(figure: Estimate) -> Estimate:
    if figure.value is None:
        raise ValueError("a figure without a value")
    return figure


Defined = Annotated[Estimate, AfterValidator(_defined)]
"""A figure that has a value."""


@dataclass(frozen=True, config=PART)
class Reason:
    """Reason why a model or a night deserves attention.

    What page, `--json`, exit code, ledger and `status` read.

    Parameters
    ----------
    code : str
        The finding, a short word with underscores that never changes: "unit_changed",
        "capacity".
    words : str
        One sentence for a reader, without a patient's value or id.
    column : str, optional
        The column it is about.
    figure, threshold : float, optional
        What was measured, and the bound it crossed.
    remedy : str, optional
        What to do, one sentence.
    since : str, optional
        First night of the unbroken row of nights with this reason, once it is standing.
        A standing reason is shown, but no longer alerts.
    """

    code: str
    words: str
    column: str | None = None
    figure: float | None = None
    threshold: float | None = None
    remedy: str | None = None
    since: str | None = None

    @property
    def sentence(self) -> str:
        """Its words, with its first night if it is standing."""
        if self.since is None:
            return self.words
        return f"Standing since {self.since}: {self.words}"


def new_reasons(reasons: Iterable[Reason]) -> list[Reason]:
    """Return the reasons that are not standing: those to report."""
    return [reason for reason in reasons if reason.since is None]


class Brief(NamedTuple):
    """A short description of a document for a session: a sentence and a table.

    It contains nothing of a patient.
    """

    words: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def html(self) -> str:
        """Return sentence and table as HTML, every cell escaped."""
        lines = []
        for row in self.rows:
            lines.append([f"<td>{escape(cell)}</td>" for cell in row])
        if lines:
            lines.insert(0, [f"<th>{escape(head)}</th>" for head in self.heads])
        table = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
        return f"<p><b>{escape(self.words)}</b></p>" + (
            f"<table>{table}</table>" if table else ""
        )


class InBrief:
    """Mixin that shows an object by its brief.

    The object contains patients' ids and values, which must not be logged.
    """

    def brief(self) -> Brief:
        """Return the brief of the object."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.brief().words}>"

    def _repr_html_(self) -> str:
        return self.brief().html()
