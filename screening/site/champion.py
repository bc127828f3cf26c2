"""Which model NIGHT.toml names for a series, and the line that names another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from screening.errors import ScreenError, UsageError
from screening.files import read_bounded
from screening.ledger.database import Ledger
from screening.ledger.model_registry import champions, is_revision
from screening.report.verdict import approval_words
from screening.schemas.history import SeriesNight
from screening.schemas.model import ModelDocument
from screening.site.site import MAX_BYTES, Network
from screening.spelling import SERVER_LEDGER, command_line, series_name
from screening.store.publishing import write_whole
from screening.store.serialization import read_model

# Models beside that of a series, among which a new champion is looked for.
MAX_BESIDE = 200


def model_line(model: Path) -> str:
    """Return the line of NIGHT.toml that names a model by its absolute path."""
    return _line(_escaped(str(model.resolve())))


def name_champion(network: Network, series: str, model: Path) -> str:
    """Write in NIGHT.toml that a series is scored with a model; return the line.

    Comments and other keys stay. The model is taken out of the shadows of the series.
    A file that names it already is not written.

    Raises
    ------
    UsageError
        If the file has no such series or cannot be written.
    """
    plan = network.series[series]
    is_shadow = any(path.resolve() == model.resolve() for path in plan.shadow)
    if plan.model.resolve() == model.resolve() and not is_shadow:
        return model_line(model)
    content = read_bounded(network.file, MAX_BYTES, UsageError).decode()
    try:
        document = tomlkit.parse(content)
    except TOMLKitError as error:
        raise UsageError(f"{network.file.name} cannot be edited: {error}") from None
    section = _section(document, series)
    place = _place_like(str(section["model"]), network.folder, model)
    section["model"] = place
    if is_shadow:
        listed = section["shadow"]
        for number in reversed(range(len(plan.shadow))):
            if plan.shadow[number].resolve() == model.resolve():
                del listed[number]
    write_whole(network.file, tomlkit.dumps(document).encode())
    return _line(place)


def refuse_unwritable(network: Network, series: str, model: Path) -> None:
    """Raise UsageError with the line to write if NIGHT.toml cannot be written."""
    if series not in network.series:
        known = ", ".join(network.series)
        raise UsageError(
            f"{network.file.name} has no series {series}; its series are {known}"
        )
    is_writable = os.access(network.file, os.W_OK)
    if not (is_writable and os.access(network.folder, os.W_OK)):
        raise UsageError(
            f"this user cannot write {network.file}; leave out --site, give --ledger, "
            f"and write {model_line(model)} under [series.{series}] yourself"
        )


def with_promotions(
    ledger: Ledger, network: Network, lines: Sequence[SeriesNight]
) -> list[SeriesNight]:
    """Return failed nights with the command that ends a mistake about the champion.

    It comes first: the night is refused for as long as its model is not the champion.
    """
    if not any(line.status == "failed" for line in lines):
        return list(lines)
    commands = _promotions(ledger, network)
    with_commands = []
    for line in lines:
        command = commands.get(line.series)
        if line.status == "failed" and not line.shadow and command is not None:
            line = line.replace(remedies=[command, *line.remedies])
        with_commands.append(line)
    return with_commands


def _promotions(ledger: Ledger, network: Network) -> dict[str, str]:
    """Return by series the command that makes its model, or another, the champion."""
    commands: dict[str, str] = {}
    with ledger.reading() as connection:
        by_series = champions(connection)
        revised: dict[Path, list[str]] = {}
        for series, plan in network.series.items():
            champion = by_series.get(series)
            model = _document_of(plan.model)
            if champion is None or model is None or model.sha256 == champion:
                continue
            if is_revision(connection, champion, model):
                revised.setdefault(plan.model, []).append(series)
            for folder in (*plan.shadow, *_beside(plan.model)):
                document = _document_of(folder)
                if document is not None and document.sha256 == champion:
                    commands[series] = _command(network, folder, [series])
                    break
    for folder, names in revised.items():
        commands |= dict.fromkeys(names, _command(network, folder, names))
    return commands


def model_command(network: Network, series: str, words: Sequence[str]) -> str:
    """Return a command that changes the model of a series, for all that read it.

    Parameters
    ----------
    network : Network
    series : str
    words : sequence of str
        The command and its options.
    """
    model = network.series[series].model
    names = [name for name, plan in network.series.items() if plan.model == model]
    place = SERVER_LEDGER if "://" in network.ledger else network.ledger
    where = ("--ledger", place, "--series", ",".join(names))
    options = list(words[1:])
    document = _document_of(model)
    if words[0] == "approve" and document is not None:
        options = approval_words(document)
    return command_line(words[0], model, *options, *where)


def _command(network: Network, model: Path, names: Sequence[str]) -> str:
    """Return the command that makes a model the champion of series of a site."""
    words = ("promote", model, "--site", network.file, "--series", ",".join(names))
    return command_line(*words, "--reason", "WHY")


def _beside(model: Path) -> list[Path]:
    """Return the other models in the folder of a model, where a challenger may lie."""
    # Hidden folders are those of a writer that was killed.
    found = sorted(model.parent.glob("[!.]*/model.json"))
    folders = [path.parent for path in islice(found, MAX_BESIDE)]
    return [folder for folder in folders if folder != model]


def _document_of(model: Path) -> ModelDocument | None:
    """Return the document of a model; None if it cannot be read."""
    try:
        return read_model(model)
    except ScreenError:
        return None


def _section(document: Mapping[str, Any], series: str) -> Any:
    """Return the table of a series, by its name in the form in which it is stored."""
    sections = document["series"]
    for name in sections:
        if series_name(name) == series:
            return sections[name]
    raise UsageError(f"the table [series.{series}] does not exist")


def _place_like(written: str, folder: Path, model: Path) -> str:
    """Return a model's path, relative to the file if the one before was and it can."""
    target = model.resolve()
    is_relative = not Path(written).is_absolute() and written[:1] not in ("~", "$")
    if is_relative and target.is_relative_to(folder.resolve()):
        relative = target.relative_to(folder.resolve()).as_posix()
        if not relative.startswith("~"):
            return _escaped(relative)
    return _escaped(str(target))


def _escaped(place: str) -> str:
    """Return a path as the file has it, where `$NAME` is a variable."""
    return place.replace("$", "$$")


def _line(place: str) -> str:
    return f"model = {tomlkit.item(place).as_string()}"
