"""Arrow and Feather files: the header, and the rows batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from screening.errors import CohortError
from screening.sources.readers import Block, whole_block

MAGIC = b"ARROW1"


def opened(path: Path, head: bytes) -> tuple[list[str], None] | None:
    """The names of the columns."""
    if not head.startswith(MAGIC):
        return None
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            return list(file.schema.names), None
    except MemoryError:
        raise
    except (pa.ArrowException, OSError):
        raise CohortError(f"{path.name}: the Arrow file is damaged or cut short; export it again") from None


def blocks(path: Path, name: str, form: None, wanted: list[str], batch_rows: int) -> Iterator[Block]:
    """Yield the wanted columns of all rows, in order."""
    first = 1
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                for start in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(start, batch_rows)
                    cells = {column: part.column(column) for column in wanted}
                    yield whole_block(cells, part.num_rows, first)
                    first += part.num_rows
    except MemoryError:
        raise
    except (pa.ArrowException, OSError):
        raise CohortError(
            f"{name}: the Arrow file is damaged behind row {first - 1}, or holds texts that are not UTF-8; "
            "export it again"
        ) from None
