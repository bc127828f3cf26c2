"""How long a test waits for what does not come."""

HUNG_SECONDS = 600
"""Whoever waits so long hangs: a loaded machine takes seconds for what takes one."""
