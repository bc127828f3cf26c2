"""Scalar building blocks that LLVM turns into vector code, shared by the sweep and the SMO.

numba alone compiles none of these well: a float maximum keeps NaN order and so stays scalar, `math.exp` is a
call for each element, and a multiply-add may or may not be fused. With the flags and intrinsics below every
loop over rows becomes straight vector code. The fused operations are written out, so the vector body and the
scalar tail of a loop give the same bits: a row's score does not depend on where it stands in its batch.

numba keys its disk cache by the file of the compiled function alone: touch the callers after an edit here.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _maximum(typingctx, a, b):
    if a != b or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        above = builder.fcmp_ordered(">", args[0], args[1], flags=("nnan", "nsz"))
        return builder.select(above, args[0], args[1], flags=("nnan", "nsz"))

    return a(a, b), codegen


def _fused(typingctx, a, b, c):
    if not (a == b == c) or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return a(a, b, c), codegen


def _scaled(typingctx, p, rounded):
    """p * 2^n, n being the integer in the low bits of `rounded`; numba would widen the integer arithmetic."""
    if p != rounded or not isinstance(p, types.Float):
        return None
    n_bits, mantissa, float_type = (32, 23, ir.FloatType()) if p.bitwidth == 32 else (64, 52, ir.DoubleType())

    def codegen(context, builder, signature, args):
        word = ir.IntType(n_bits)
        exponent = builder.shl(builder.bitcast(args[1], word), ir.Constant(word, mantissa))
        return builder.bitcast(builder.add(builder.bitcast(args[0], word), exponent), float_type)

    return p(p, rounded), codegen


_FLUSH = 0x8040
_IS_X86 = llvm.get_default_triple().startswith("x86_64")


def _widest(typingctx):
    """Vectors as wide as the processor has them, in the function that calls this.

    LLVM takes half of that for Intel's server processors, whose first ones ran slower with the whole.
    """

    def codegen(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # `add` knows no such words
        return context.get_dummy_value()

    return types.void(), codegen


def _control(builder, name, place):
    """Store the processor's floating-point control word at a place, or load it from there."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    function = builder.module.declare_intrinsic(f"llvm.x86.sse.{name}", (), kind)
    builder.call(function, [builder.bitcast(place, pointer)])


def _flush_tiny(typingctx):
    """Numbers too small for all their digits count as 0 from here on; gives what `restore` wants back.

    Intel's processors are slow over them, and far from a narrow kernel all are such.
    """

    def codegen(context, builder, signature, args):
        word = ir.IntType(32)
        if not _IS_X86:
            return ir.Constant(word, 0)
        before, now = cgutils.alloca_once(builder, word), cgutils.alloca_once(builder, word)
        _control(builder, "stmxcsr", before)
        found = builder.load(before)
        builder.store(builder.or_(found, ir.Constant(word, _FLUSH)), now)
        _control(builder, "ldmxcsr", now)
        return found

    return types.uint32(), codegen


def _restore(typingctx, before):
    """Undo `flush_tiny`."""

    def codegen(context, builder, signature, args):
        if _IS_X86:
            place = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(args[0], place)
            _control(builder, "ldmxcsr", place)
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


widest = intrinsic(_widest)
maximum = intrinsic(_maximum)
flush_tiny = intrinsic(_flush_tiny)
restore = intrinsic(_restore)
fused = intrinsic(_fused)
scaled = intrinsic(_scaled)
