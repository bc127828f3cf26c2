"""Which instant a time is: zone, hour of the night, windows; asked by every table."""
