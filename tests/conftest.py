"""What every test runs under."""

from __future__ import annotations

from hypothesis import settings

# Derandomised: the same tests everywhere; no deadline: a shared machine is slow now and then.
settings.register_profile("shared", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("shared")
