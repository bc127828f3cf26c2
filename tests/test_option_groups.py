"""Options as fields of dataclasses: one field is an option, a keyword and its help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from screening import NightOptions, Resources, Search, Validation, compare, train
from screening.cli.groups import Without, with_groups
from screening.errors import UsageError
from screening.option_groups import (
    Keyword,
    Option,
    OptionGroup,
    documented,
    groups_from,
    options_of,
)
from screening.settings import DatabaseOptions, PublishOptions, as_search
from screening.site.site import SeriesPlan, Site


@documented
@dataclass(frozen=True, kw_only=True)
class Ward(OptionGroup):
    """A ward.

    Examples
    --------
    >>> 1
    """

    beds: Annotated[
        int,
        Option(
            "Beds of the ward; see --names.", metavar="N", min=1, max=99, unit="beds"
        ),
    ] = 20
    names: Annotated[
        Sequence[str],
        Option(
            "Names of rooms.", metavar="A,B", takes=str, read=lambda t: t.split(",")
        ),
    ] = ()
    is_open: Annotated[bool, Option("The ward is open.")] = False
    size: Annotated[float | None, Keyword("Area of the ward.")] = None


@dataclass(frozen=True, kw_only=True)
class House:
    """A group that has a group."""

    place: Annotated[str, Option("Where it is.")]
    ward: Annotated[Ward, Without("is_open")]


def run(command, *words):
    """Run a command with groups as typer does."""
    app = typer.Typer()
    app.command()(with_groups(command, {}))
    return CliRunner().invoke(app, words)


def keep_house(received):
    """Return a command that keeps its group."""

    def command(house: House) -> None:
        received.append(house)

    return command


def test_fields_are_options():
    """The command gets its groups back, with values as the fields have them."""
    received = []

    def command(title: str, ward: Ward) -> None:
        received.append((title, ward))

    result = run(command, "icu", "--beds", "3", "--names", "a,b", "--is-open")

    assert result.exit_code == 0, result.output
    assert received == [("icu", Ward(beds=3, names=["a", "b"], is_open=True))]


def test_defaults_are_those_of_the_fields():
    """What the command line leaves out has the default of Python."""
    received = []

    result = run(keep_house(received), "--place", "here")

    assert result.exit_code == 0, result.output
    assert received == [House(place="here", ward=Ward())]


def test_options_left_out_of_a_group():
    """A command has neither the options that it leaves out nor keywords of Python."""
    shown = run(keep_house([]), "--help").output

    assert "--beds" in shown
    assert "--is-open" not in shown
    assert "--size" not in shown


def test_required_options_come_first():
    """Whatever group has them."""
    shown = run(keep_house([]), "--help").output

    assert shown.index("--place") < shown.index("--beds")


def test_docstring_lists_the_fields():
    """With their types, units, and names of options as parameters."""
    documentation = str(Ward.__doc__)

    assert (
        "beds : int\n        Beds of the ward; see `names`. In beds." in documentation
    )
    assert "names : sequence of str\n" in documentation
    assert "size : float, optional\n" in documentation
    assert documentation.index("size :") < documentation.index("Examples")


def test_least_and_greatest_value():
    """They are the same for Python and the command line."""
    with pytest.raises(UsageError, match="`folds` must be 2 or more, not 1"):
        Validation(folds=1)
    with pytest.raises(UsageError, match="`beds` must be 99 or less, not 100"):
        Ward(beds=100)
    assert run(keep_house([]), "--place", "here", "--beds", "100").exit_code == 2


def test_words_of_the_command_line():
    """A group is written as the options that state it, without its defaults."""
    night = NightOptions(date="2026-03-01", shadow=True)

    assert [*night.words()] == ["--date", "2026-03-01", "--shadow"]
    assert [*Resources(jobs=2).words()] == ["--jobs", "2"]
    assert [*Resources().words()] == []


@pytest.mark.parametrize("jobs", [0, -2])
def test_no_number_of_cores(jobs):
    """It is refused before a command prepares processes for it."""
    with pytest.raises(UsageError, match=f"`jobs` {jobs}: give a number of cores"):
        Resources(jobs=jobs)


def test_keywords_fill_groups():
    """A keyword goes to the group that has it, over the group that was given."""
    given = Validation(folds=3, repeats=2)
    keywords = {"repeats": 1, "jobs": 4}

    groups = groups_from(keywords, (Validation, given), (Resources, None))

    assert groups == [Validation(folds=3, repeats=1), Resources(jobs=4)]


def test_unknown_keyword():
    """It is refused with the name that was meant."""
    with pytest.raises(TypeError, match=r"'fold'; did you mean 'folds'\?"):
        train("past.csv", fold=3)


def test_number_for_a_search():
    """A number is that of the settings."""
    search = Search(grid="paper")

    assert as_search(3) == Search(search=3)
    assert as_search(search) is search


@pytest.mark.parametrize(
    ("group", "table", "keys"),
    [
        (DatabaseOptions, SeriesPlan, ["table", "query"]),
        (NightOptions, SeriesPlan, ["label", "hour", "refused", "templates"]),
        (NightOptions, Site, ["hour", "time_zone"]),
        (PublishOptions, Site, ["publish", "mode", "group"]),
    ],
)
def test_keys_of_a_site_file(group, table, keys):
    """Keys of NIGHT.toml have the help of the options that mean the same."""
    options = options_of(group)
    described = options_of(table)

    assert [described[key] for key in keys] == [options[key] for key in keys]


def test_group_of_a_copy():
    """It needs the copy, on the command line as in NIGHT.toml."""
    with pytest.raises(UsageError, match="`mode` and `group` belong to the published"):
        PublishOptions(group="ward")


def test_comparison_refuses_options_of_a_training():
    """It would ignore them."""
    with pytest.raises(UsageError, match="compare takes no `beside`"):
        compare({"past": "past.csv"}, ["svm"], validation=Validation(beside=()))
