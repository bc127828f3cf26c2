"""A model directory that a command writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from screening.cli import options
from screening.cli.options import AsJson
from screening.option_groups import Option
from screening.settings import Templates, out_option

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from screening.store.model_files import ModelFiles


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """The model directory to write."""

    out: Annotated[
        Path,
        out_option(
            "Model directory to write.",
            metavar="DIR",
        ),
    ]
    force: Annotated[
        bool,
        Option(
            "Replace an existing model even if its recipe, cohort or label differs.",
            panel="Output",
        ),
    ] = False
    ledger: options.LedgerMaybe = None
    sign: options.Sign = None
    templates: Templates = None
    as_json: AsJson = False


def write_with_page(
    files: ModelFiles,
    folder: Path,
    templates: Path | None,
    signer: Ed25519PrivateKey | None,
) -> None:
    """Write a model's files with its page."""
    from screening.report import render_model
    from screening.store.model_files import write_model_files

    write_model_files(files, folder, partial(render_model, templates=templates), signer)
