"""Write the sample cohorts: `python sample_cohorts/make.py [--out DIR]`. Same seeds,
same bytes.
"""

import argparse
from pathlib import Path

import nosocomial
import numpy as np
import prostate
import pyarrow as pa
import pyarrow.parquet as pq

NOSOCOMIAL_SEED, PROSTATE_SEED = 7, 2


def make(out):
    """Write the six tables into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    past, night = nosocomial.cohorts(np.random.default_rng(NOSOCOMIAL_SEED))
    _write_csv(past, out / "nosocomial_past.csv")
    _write_csv(night, out / "nosocomial_night_labelled.csv")
    _write_csv(night.drop(columns="infected"), out / "nosocomial_night.csv")
    past, new = prostate.cohorts(np.random.default_rng(PROSTATE_SEED))
    _write_parquet(past, out / "prostate_past.parquet")
    _write_parquet(new, out / "prostate_new_labelled.parquet")
    _write_parquet(new.drop(columns="gleason"), out / "prostate_new.parquet")


def _write_csv(table, path):
    # %g leaves 64 as 64 where a missing cell has made the column floating point.
    path.write_bytes(
        table.to_csv(index=False, float_format="%g", lineterminator="\n").encode()
    )


def _write_parquet(table, path):
    # Without pandas' own metadata, which names its version, the bytes depend on pyarrow
    # alone.
    columns = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(
        None
    )
    pq.write_table(columns, path, compression="zstd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="folder to write into"
    )
    make(parser.parse_args().out)
