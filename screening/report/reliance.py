"""The columns that a ranking rests on, and declarations that they are known in time."""

from __future__ import annotations

from screening.report import format as fmt
from screening.schemas.model import ColumnBlock, ModelDocument, group_with
from screening.spelling import first_of

# Numbers of blocks that are left out, as shown on the page.
SHOWN = (1, 3, 5)
MAX_COLUMNS = 3


def _block_words(block: ColumnBlock) -> str:
    """Return the columns of a block, the first few by name."""
    return first_of([fmt.name(name) for name in block.columns], MAX_COLUMNS)


def _answered_words(model: ModelDocument, name: str) -> str:
    """Return a column, with those that are answered because they are the same."""
    first, *others = group_with(name, model.training.same_measurements)
    if name != first or not others:
        return fmt.name(name)
    same = ", ".join(map(fmt.name, others))
    return f"{fmt.name(name)} (and {same}, the same measurement)"


def reliance_words(model: ModelDocument) -> list[str]:
    """Return what the ranking depends on, and the answers; empty if unknown."""
    sentences = []
    reliance = model.training.reliance
    if reliance is not None:
        of_class = fmt.of_class(model, reliance.label)
        parts = [f"AUROC {reliance.whole:.2f}"]
        for n_blocks in SHOWN:
            if n_blocks > len(reliance.without):
                continue
            blocks = map(_block_words, reliance.blocks[:n_blocks])
            area = reliance.without[n_blocks - 1]
            parts.append(f"{area:.2f} without {' + '.join(blocks)}")
        sentences.append(
            f"What the ranking{of_class} rests on: {reliance.recipe} without tuning, "
            f"on the same folds, has {'; '.join(parts)}."
        )
    for answer in model.known_before:
        columns = ", ".join(_answered_words(model, name) for name in answer.columns)
        sentences.append(
            f"Known at the hour of the night, according to {fmt.name(answer.by)} on "
            f"{fmt.name(answer.date)}: {columns}."
        )
    return sentences
