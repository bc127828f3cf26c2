"""Compiled loops that a night needs, called without numba: importing it takes longer than scoring 240 rows.

numba compiles such a loop once; its machine code is kept on disk, and from then on llvmlite alone loads it.
So that the code needs nothing of numba's runtime, these loops take plain pointers and allocate nothing.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from screening.keeping import find, keep
from screening.kernels.telling import tell, tell_of_no_cache

_LINE = 64  # bytes of a line of the cache
_building = threading.Lock()
# A loop may be made of what these files hold.
_SHARED = tuple(
    Path(__file__).with_name(name) for name in ("loops.py", "vector.py", "tile.py", "machine_code.py")
)


@dataclass(frozen=True)
class Loop:
    """A loop over arrays, all in C order.

    Parameters
    ----------
    module, name : str
        Where the function of pointers is; the module may import numba.
    types : str
        The type of each array it takes, as numpy names them, a space between.
    """

    module: str
    name: str
    types: str

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run the loop; other threads run meanwhile."""
        for array, wanted in zip(arrays, self._dtypes, strict=True):
            if array.dtype != wanted or not array.flags.c_contiguous:
                raise TypeError(f"{self.name} takes {self.types} in C order, got {array.dtype}")
        with _building:
            call, _ = self._loaded
        # What numba's functions take first: where to put a result, and an error; these have neither.
        unused = (ctypes.c_void_p * 2)()
        pointers = [array.ctypes.data for array in arrays]
        call(ctypes.addressof(unused), ctypes.addressof(unused) + ctypes.sizeof(ctypes.c_void_p), *pointers)

    @cached_property
    def _dtypes(self) -> Sequence[Any]:
        return [np.dtype(each) for each in self.types.split()]

    @cached_property
    def _loaded(self) -> tuple[Callable[..., int], Any]:
        """The machine code, and what keeps it where it is."""
        import llvmlite
        from llvmlite import binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
        )
        spec = find_spec(self.module)
        assert spec is not None and spec.origin is not None
        sources = [path.read_bytes() for path in (*_SHARED, Path(spec.origin))]
        here = (llvmlite.__version__, machine.triple, llvm.get_host_cpu_name(), repr(self))
        features = llvm.get_host_cpu_features().flatten()
        key = b"\0".join([*sources, *(each.encode() for each in (*here, features))])
        code = find(self.name, key)
        if code is None:
            code = self._code(machine)
            if not keep(self.name, key, code):
                tell_of_no_cache()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (len(self._dtypes) + 2))
        return kind(engine.get_function_address(self.name)), engine

    def _code(self, machine: Any) -> bytes:
        from screening.kernels.compiled import prepare

        prepare()
        from llvmlite import binding as llvm
        from numba import cfunc, from_dtype, types

        tell()
        function = getattr(importlib.import_module(self.module), self.name)
        pointers = [types.CPointer(from_dtype(each)) for each in self._dtypes]
        built = cfunc(types.void(*pointers))(function)
        text = _alone(built.inspect_llvm(), built.native_name.removeprefix("cfunc."), self.name)
        return bytes(machine.emit_object(llvm.parse_assembly(text)))


def aligned_zeros(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Zeros for a loop to work in, from the start of a line: vectors across two load at half the speed."""
    size = np.dtype(dtype).itemsize
    n = shape[0] * shape[1]
    room = np.zeros(n + _LINE // size, dtype)
    skipped = -room.ctypes.data % _LINE // size
    return room[skipped : skipped + n].reshape(shape)


def _alone(text: str, mangled: str, name: str) -> str:
    """The one function of a module, under another name, without the wrappers that report errors to Python."""
    own = re.compile(rf'^define [^\n]*@"?{re.escape(mangled)}"?\(')
    parts = re.split(r"^(?=define )|(?<=^}\n)", text, flags=re.MULTILINE)
    functions = [part for part in parts if part.startswith("define ")]
    (mine,) = [part for part in functions if own.match(part)]
    runtime = re.search(r'@"?(?:Py|NRT_|numba_|_ZN)\w*', mine.split("\n", 1)[1])
    if runtime:
        raise RuntimeError(f"{name} needs {runtime[0]} of numba's runtime")
    others = "".join(part for part in parts if not part.startswith("define "))
    return others + re.sub(rf'@"?{re.escape(mangled)}"?\(', f"@{name}(", mine, count=1)
