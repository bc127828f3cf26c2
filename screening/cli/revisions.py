"""Commands that revise a model: `screen threshold` and `approve`."""

from __future__ import annotations

import datetime
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from screening.cli import logs, options
from screening.cli.console import facts_of, print_answer
from screening.cli.model_output import write_with_page
from screening.cli.options import AsJson
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.spelling import (
    SERVER_LEDGER,
    command_line,
    joined,
    names_from,
    shown_series,
)
from screening.store.publishing import publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from screening.ledger.database import Ledger
    from screening.schemas.model import ModelDocument
    from screening.store.model_files import ModelFiles


def threshold_command(
    model: options.RewrittenModel,
    reason: Annotated[str, Option("Reason, shown on every page.", metavar="REASON")],
    *,
    rule: options.RuleOptions,
    watched: Annotated[
        str | None,
        Option("Only this watched class.", metavar="NAME", flags=("--class",)),
    ] = None,
    revision: options.RevisionOptions,
    as_json: AsJson = False,
) -> None:
    """Choose another operating point for MODEL by RULE.

    It is chosen from the held-out scores of the validation. Every figure is recomputed
    as if MODEL had been trained with RULE. The machines do not change. If a series
    already uses MODEL, give --ledger and --series. Otherwise its next night is refused
    because the model has changed.
    """
    chosen_by = rule.rule(required=True)

    from screening.model_selection.revising import change_of, set_threshold
    from screening.store.loading import restored

    def revise(files: ModelFiles) -> ModelFiles:
        before = restored(files, model)
        return set_threshold(before, chosen_by, reason, watched).files

    after = _revised(model, revise, "threshold", change_of, revision)
    if revision.ledger is None:
        _note_without_ledger(model)
    answer = {"model": str(model), "id": after.id, **facts_of(after, as_json)}
    print_answer(answer, as_json)


def approve_command(
    model: options.RewrittenModel,
    by: Annotated[str, Option("Person responsible for its use.", metavar="NAME")],
    *,
    reason: Annotated[
        str | None,
        Option(
            "Reason; required if validation does not support the model's use.",
            metavar="REASON",
        ),
    ] = None,
    known_before: Annotated[
        str | None,
        Option(
            "Columns known at the hour of the night, before the outcome.", metavar="A,B"
        ),
    ] = None,
    revision: options.RevisionOptions,
    as_json: AsJson = False,
) -> None:
    """Approve MODEL, which is a draft until then.

    The pages show who approved it, when and why. For the most important columns you
    must state whether they are known at the hour of the night, here or with available =
    "before" in the contract. Another threshold or training makes the model a draft
    again. If a series already uses MODEL, give --ledger and --series. Otherwise its
    next night is refused because the model has changed.
    """
    from screening.model_selection.approving import approval_of, approve

    columns = names_from(known_before)
    today = datetime.date.today()

    def revise(files: ModelFiles) -> ModelFiles:
        try:
            approved = approve(files.facts, by, today, reason, columns)
        except UsageError:
            _note_earlier_answers(model, files, by, columns, reason, revision)
            raise
        return files.revised(approved)

    after = _revised(model, revise, "approve", approval_of, revision)
    answer = {
        "model": str(model),
        "id": after.id,
        "approval": after.document["approval"],
        "attention": after.document["attention"],
    }
    print_answer(answer, as_json)


def _note_earlier_answers(
    model: Path,
    files: ModelFiles,
    by: str,
    columns: list[str],
    reason: str | None,
    revision: options.RevisionOptions,
) -> None:
    """List what was answered for the model that a series uses, and how to repeat it."""
    from screening.ledger.database import open_ledger
    from screening.ledger.register import answered_before
    from screening.model_selection.approving import answers_to_repeat
    from screening.schemas.model import drafts_of

    if revision.ledger is None:
        return
    earlier = None
    # A refusal makes no ledger.
    with suppress(UsageError), open_ledger(revision.ledger, read_only=True) as book:
        series = options.series_keys(book, revision.series)
        if not series and files.contract.series is not None:
            series = [files.contract.series]
        if series:
            own = {files.digest, *drafts_of(files.facts)}
            earlier = answered_before(book, series[0], own)
    answers = answers_to_repeat(files.facts, earlier) if earlier else []
    if earlier is None or not answers:
        return
    for answer in answers:
        logs.note(
            f"answered for model {earlier.sha256[:12]} on {answer.date} by "
            f"{answer.by}: {', '.join(answer.columns)}"
        )
        columns = [*columns, *answer.columns]
    known_before = joined(dict.fromkeys(columns))
    words: list[object] = ["approve", model, "--by", by, "--known-before", known_before]
    if reason is not None:
        words += ["--reason", reason]
    repeat = command_line(*words, *_ledger_words(revision))
    logs.note(f"if the same applies to this model, type {repeat}")


def _ledger_words(revision: options.RevisionOptions) -> list[str]:
    """Return the options that give a revision's ledger and series, as typed."""
    words: list[str] = []
    if revision.ledger:
        is_on_server = "://" in revision.ledger
        words += ["--ledger", SERVER_LEDGER if is_on_server else revision.ledger]
    if revision.series:
        words += ["--series", revision.series]
    return words


def _revised(
    model: Path,
    revise: Callable[[ModelFiles], ModelFiles],
    action: str,
    change: Callable[[ModelDocument, ModelDocument], dict[str, object]],
    revision: options.RevisionOptions,
) -> ModelFiles:
    """Write the files of a model as `revise` returns them, and return these.

    With a ledger the change is entered there first: if writing the model fails, the
    ledger has an entry without a model, and never a model without an entry.
    """
    signer = options.signer_from(revision.sign)

    from screening.store.model_files import read_model_files

    if revision.ledger:
        act_as_owner(revision.ledger)
    with publish(model, "model") as folder:
        before = read_model_files(model)
        after = revise(before)
        options.say_unsigned(model, signer)
        write_with_page(after, folder, revision.templates, signer)
        if revision.ledger:
            of_ledger = change(before.facts, after.facts)
            _enter_revision(model, before, action, of_ledger, revision)
        if after.facts.approval is None and before.facts.approval is not None:
            _note_lost_approval(model, before, after, revision)
    return after


def _enter_revision(
    model: Path,
    before: ModelFiles,
    action: str,
    change: dict[str, object],
    revision: options.RevisionOptions,
) -> None:
    """Enter in the ledger that a model was rewritten."""
    from screening.ledger.database import open_ledger
    from screening.ledger.model_registry import is_of_other_models, record_revision

    assert revision.ledger is not None, "only with --ledger"
    with open_ledger(revision.ledger, make=True) as book:
        series = _series_of_revision(book, model, before, revision)
        record_revision(book, action, change, series)
        if is_of_other_models(book, before.digest, str(change["model_after"])):
            logs.note(
                "no series of the ledger is scored with this model; score a night with"
                " --shadow, then make it the champion with `screen promote`"
            )


def _series_of_revision(
    book: Ledger, model: Path, before: ModelFiles, revision: options.RevisionOptions
) -> list[str] | None:
    """Return the series that go on with a revised model; None for all it is used in.

    They are those of --series, else the one of the model's contract. Other series of
    the model are listed. A copy that no night was scored from is of no series.

    Raises
    ------
    UsageError
        If several series are scored with the model, from more than one directory, and
        --series names none of them.
    """
    from screening.ledger.model_registry import series_of_champion

    users = series_of_champion(book, before.digest)
    chosen = options.series_keys(book, revision.series)
    if users and not chosen and _is_unused_copy(book, model, before.digest, users):
        return []
    if not chosen and before.contract.series is not None:
        chosen = [before.contract.series]
    _note_users(book, model, users, chosen)
    return chosen or None


def _is_unused_copy(book: Ledger, model: Path, digest: str, users: list[str]) -> bool:
    """Return True, and say so, if series are scored from other directories alone.

    UsageError if several series are scored from this directory and from another.
    """
    from screening.ledger.register import directories_with

    in_use = directories_with(book, digest)
    others = [place for place in in_use if place != model.resolve()]
    if not others:
        return False
    shown = ", ".join(map(shown_series, users))
    if model.resolve() not in in_use:
        logs.note(
            f"no night was scored from {model}: series {shown} stays with the "
            f"model of {others[0]}. Score a night with the changed model and "
            "--shadow. Then let it replace the other one: "
            f"{_promotion(book, model, users)}"
        )
        return True
    if len(users) > 1:
        raise UsageError(
            f"series {shown} use this model, and {others[0]} contains it too; "
            f"name the series that use {model} with --series"
        )
    return False


def _note_users(book: Ledger, model: Path, users: list[str], chosen: list[str]) -> None:
    """Say which series go on with a changed model, and which do not."""
    left = [name for name in users if name not in chosen]
    if chosen and left:
        logs.note(
            f"not changed for series {', '.join(map(shown_series, left))}. If "
            "NIGHT.toml names this directory for them, their next night is refused. To "
            "change them too: "
            f"{_promotion(book, model, left)}"
        )
    elif len(users) > 1:
        shown = ", ".join(map(shown_series, users))
        logs.note(f"series {shown} continue with the changed model")


def _promotion(book: Ledger, model: Path, series: list[str]) -> str:
    """Return the command that gives series a revision of their champion."""
    from screening.ledger.location import ledger_word

    with book.reading() as connection:
        place = ledger_word(connection)
    names = ",".join(map(shown_series, series))
    words = ("promote", model, "--series", names, "--ledger", place)
    return command_line(*words, "--reason", "WHY")


def _note_without_ledger(model: Path) -> None:
    """Say that no ledger has a change of threshold, and how it is entered later."""
    series = ("--site", "NIGHT.toml", "--series", "SERIES")
    promote_it = command_line("promote", model, *series, "--reason", "WHY")
    logs.note(
        "no --ledger was given: if series use this model, their next night is refused "
        f"until they get the change: {promote_it}"
    )


def _note_lost_approval(
    model: Path,
    before: ModelFiles,
    after: ModelFiles,
    revision: options.RevisionOptions,
) -> None:
    """Say that a revised model is a draft again, and how it is approved."""
    from screening.report.verdict import approval_words

    words = ["approve", model, *approval_words(after.facts), *_ledger_words(revision)]
    approval = before.facts.approval
    assert approval is not None, "it was approved"
    logs.note(
        f"the approval of {approval.date} was for another threshold, so the model is a "
        f"draft until somebody approves it: {command_line(*words)}"
    )
