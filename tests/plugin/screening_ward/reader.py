"""Tables of one JSON object a line."""

import json
from itertools import islice

import pyarrow as pa

from screening.io.readers import TableFile


class JsonLines(TableFile):
    """A table of one JSON object a line, whose keys are the columns."""

    kind = "NDJSON"
    suffixes = (".ndjson",)
    magic = b"{"

    def read_header(self):
        """Read the names of the columns in the first line."""
        with self.path.open(encoding="utf-8") as lines:
            self.header = list(json.loads(next(lines)))
        self.note = self.kind

    def read(self, wanted, batch_rows):
        """Yield the rows in batches; cells are texts, as in a CSV file."""
        with self.path.open(encoding="utf-8") as lines:
            while batch := [json.loads(line) for line in islice(lines, batch_rows)]:
                columns = [
                    pa.array([cell(row, name) for row in batch], pa.string())
                    for name in wanted
                ]
                yield pa.record_batch(columns, wanted)


def cell(row, name):
    """Return a cell as text; None if the object has no such key."""
    return None if row.get(name) is None else str(row[name])
