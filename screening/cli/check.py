"""`screen check`: a table checked by its contract, without a score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli import options
from screening.cli.console import ATTENTION, print_answer
from screening.errors import CohortError, UsageError
from screening.option_groups import Option
from screening.registry import plugin_faults
from screening.settings import ContractFile, DatabaseOptions
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from screening.contract.contract import Contract
    from screening.data.stream import ReadOptions
    from screening.monitoring.drift import Gates


def check_command(
    cohort: options.CohortPlace,
    *,
    database: DatabaseOptions,
    contract: ContractFile = None,
    model: Annotated[
        Path | None,
        Option("Use the contract of this model directory.", metavar="MODEL"),
    ] = None,
    as_of: Annotated[
        str | None,
        Option(
            "With NIGHT.toml as COHORT: make the tables of this past night again, "
            "and compare them with those scored.",
            metavar="DATE",
        ),
    ] = None,
    series: options.SeriesAsked = None,
    as_json: options.AsJson = False,
) -> None:
    """Check COHORT against a contract; list violations by row.

    Values are never listed. With --model, also compare the values with those of
    training. Different units are a violation. Different distributions and out-of-bounds
    values give a note.

    With --as-of, COHORT is a site's NIGHT.toml. The spec or query of each series must
    give the same rows as on that night. Otherwise the exit code is 5, and the output
    names the number of new and missing rows and the columns that changed.
    """
    if as_of is not None:
        _check_as_of(Path(cohort), as_of, series, as_json)
        return
    from screening.data.reading import check_cohort

    if (model is None) == (contract is None):
        raise UsageError("give either --contract FILE or --model DIR")
    expected = contract
    gates = reading = None
    if model is not None:
        expected, gates, reading = _training_of(model)
    violations, notes = check_cohort(
        options.source_of(cohort, database), expected, options=reading
    )
    attention = gates.attention() if gates and not violations else []
    notes += map(str, plugin_faults())
    answer = {"violations": violations, "notes": notes}
    if as_json:
        reasons = list(map(vars, attention))
        print_answer(answer | {"attention": reasons}, as_json)
    if violations:
        raise CohortError(violations)
    if not as_json:
        answer["notes"] += [reason.words for reason in attention]
        print_answer(answer, as_json)


def _check_as_of(file: Path, night: str, series: str | None, as_json: bool) -> None:
    """Compare the tables of a past night, made again; exit 5 if one is another."""
    from screening.site.as_of import as_of_words, table_as_of
    from screening.site.site import read_network

    network = read_network(file, needs_ledger=False)
    names = [name for name in network.series if series in (None, name)]
    if not names:
        hint = did_you_mean(str(series), network.series)
        raise UsageError(f"{file.name} has no series '{series}'{hint}")
    found = [table_as_of(network, name, night) for name in names]
    if as_json:
        print_answer({"nights": [line.to_dict() for line in found]}, as_json)
    else:
        print_answer({"nights": as_of_words(found)}, as_json)
    if not all(line.same for line in found):
        raise typer.Exit(ATTENTION)


def _training_of(model: Path) -> tuple[Contract, Gates | None, ReadOptions]:
    """Return a model's contract, its gates, and how it reads a table."""
    from screening.contract.contract import Contract
    from screening.data.out_of_bounds import bounds_of_columns
    from screening.data.stream import ReadOptions
    from screening.monitoring.drift import Gates
    from screening.schemas.model import ModelDocument
    from screening.store.serialization import read_document

    document = read_document(model, "model")
    contract = Contract.from_dict(document["contract"])
    facts = ModelDocument.from_dict(document)
    past = facts.training.profile
    gates = None
    reading = ReadOptions(bounds=bounds_of_columns(contract, past), to_score=True)
    if past is not None:
        gates = Gates(past, contract)
        reading = replace(reading, observers=[gates])
    # Without them, no estimator is imported: that takes longer than the check.
    if facts.plugins:
        from screening.recipes.plugins import refuse_missing_plugins

        refuse_missing_plugins(document, model / "model.json")
    if contract.per_unit is not None:
        from screening.recipes.building import read_recipe
        from screening.recipes.encoders import score_of_rows

        recipe = read_recipe(document["recipe"]["text"])
        score_of = score_of_rows(recipe, contract)
        reading = replace(reading, score_of=score_of)
    return contract, gates, reading
