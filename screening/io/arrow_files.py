"""Arrow and Feather files: the header, and the rows batch by batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from screening.io.readers import Batches

MAGIC = b"ARROW1"


def opened(path: Path, head: bytes) -> tuple[list[str], None] | None:
    """The names of the columns."""
    if not head.startswith(MAGIC):
        return None
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
        return list(file.schema.names), None


def batches(path: Path, name: str, form: None, wanted: list[str], batch_rows: int) -> Batches:
    """Yield the wanted columns of all rows, in order."""
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            batch.validate(full=True)
            yield batch.select(wanted)
