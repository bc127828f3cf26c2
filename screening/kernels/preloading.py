"""Load numba's compiler in a server of processes, and freeze the server's objects.

The server imports this module last. No thread may run in it.
"""

from __future__ import annotations

import gc

from numba.core.registry import cpu_target

# Each process would load it with the first call of a loop.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
# The garbage collector of a process would write to every object, and so copy the memory
# that it shares with the server.
gc.freeze()
