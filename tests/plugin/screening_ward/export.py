"""The flagged patients as a list for the pager."""

from screening.store.publishing import write_whole


def write_list(flagged, *, out):
    """Write the id of each flagged row on a line."""
    ids = flagged.rows["id"].to_pylist()
    write_whole(out, "".join(f"{row_id}\n" for row_id in ids).encode())
