"""`screen promote` and `retire`: the champion of a series, and its end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import agreement, print_answer
from screening.cli.options import (
    AsJson,
    LedgerHere,
    ModelFolder,
    PromotedSeries,
    series_keys,
)
from screening.cli.users import open_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.spelling import shown_series

if TYPE_CHECKING:
    from screening.ledger.database import Ledger
    from screening.schemas.history import NightsBeside
    from screening.store.model import Model


def promote_command(
    model: ModelFolder,
    reason: Annotated[str, Option("Reason, kept in the trail.", metavar="REASON")],
    ledger: LedgerHere = "screening.db",
    series: PromotedSeries = None,
    site: Annotated[
        Path | None,
        Option(
            "Also name MODEL in this file, and use its ledger.", metavar="NIGHT.toml"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make MODEL the champion of a series from the next night on.

    The trail records the reason, and a comparison of MODEL's nights in shadow with the
    champion's. If MODEL is the champion with another threshold or approval, as the
    trail or MODEL itself records, it needs no night in shadow.
    """
    from screening.ledger.nights import series_by
    from screening.model_selection.approving import refuse_draft
    from screening.schemas.history import Question
    from screening.site.champion import name_champion, refuse_unwritable
    from screening.site.site import read_network
    from screening.store.loading import load_model

    loaded = load_model(model)
    network = None if site is None else read_network(site, ledger)
    if network is not None:
        ledger = network.ledger
    with open_as_owner(ledger) as book:
        name = loaded.contract.series
        question = Question.of(loaded.facts)
        keys = series_keys(book, series) or [series_by(name, question)]
        promotions = [_Promotion.of(book, key, loaded) for key in keys]
        if not all(promotion.is_revision for promotion in promotions):
            refuse_draft(loaded.facts, model)
        if network is not None:
            for key in keys:
                refuse_unwritable(network, key, model)
        for promotion in promotions:
            entry = promotion.enter(book, loaded, reason)
    lines = []
    for key in keys:
        if network is None:
            lines.append(_line_to_write(model, shown_series(key)))
        else:
            line = name_champion(network, key, model)
            lines.append(f"{network.file.name} has {line} under [series.{key}]")
    evidence = promotions[0].evidence
    answer = {
        "series": ", ".join(map(shown_series, keys)),
        "champion": loaded.id,
        "entry": entry,
        "next": "; ".join(lines),
    }
    if evidence is not None:
        answer["beside"] = evidence.to_dict() if as_json else agreement(evidence)
    print_answer(answer, as_json)


@dataclass(frozen=True)
class _Promotion:
    """A model that becomes the champion of a series.

    Parameters
    ----------
    series : str
    evidence : NightsBeside or None
        Its nights in shadow beside the champion's; None for a revision without one.
    """

    series: str
    evidence: NightsBeside | None

    @property
    def is_revision(self) -> bool:
        """True if the champion only gets another threshold or approval."""
        return self.evidence is None

    @classmethod
    def of(cls, book: Ledger, series: str, model: Model) -> _Promotion:
        """Compare a model with the champion; UsageError if it cannot be promoted."""
        from screening.ledger.history import compare_nights
        from screening.ledger.model_registry import champions, is_revision
        from screening.schemas.model import drafts_of

        try:
            drafts = drafts_of(model.facts)
            evidence = compare_nights(book, series, model.digest, drafts)
        except UsageError:
            with book.reading() as connection:
                champion = champions(connection).get(series)
                is_revised = is_revision(connection, champion, model.facts)
            if not is_revised and champion != model.digest:
                raise
            return cls(series, None)
        return cls(series, evidence)

    def enter(self, book: Ledger, model: Model, reason: str) -> int:
        """Enter the promotion; return the number of its entry."""
        from screening.ledger.model_registry import follow_revisions, promote
        from screening.schemas.model import drafts_of

        if self.evidence is None:
            return follow_revisions(book, self.series, model.facts, reason).number
        drafts = drafts_of(model.facts)
        return promote(
            book, self.series, model.digest, reason, self.evidence, drafts
        ).number


def _line_to_write(model: Path, series: str) -> str:
    """Return what NIGHT.toml must say of a series before its next night."""
    from screening.site.champion import model_line

    return (
        f"in NIGHT.toml write {model_line(model)} under [series.{json.dumps(series)}], "
        "and take the model out of shadow, or give --site NIGHT.toml; until then the "
        "next night is refused"
    )


def retire_command(
    series: Annotated[
        str,
        typer.Argument(metavar="SERIES", help="Series; `screen status` lists all."),
    ],
    reason: Annotated[str, Option("Reason, kept in the trail.", metavar="REASON")],
    ledger: LedgerHere = "screening.db",
    as_json: AsJson = False,
) -> None:
    """Close SERIES, so that `screen status` no longer expects it.

    Its nights and history are kept. A later published night reopens it.
    """
    from screening.ledger.model_registry import retire

    with open_as_owner(ledger) as book:
        head = retire(book, series, reason)
    print_answer({"retired": series, "entry": head.number}, as_json)
