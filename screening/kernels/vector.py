"""Scalar building blocks that LLVM turns into vector code, shared by the sweep and the SMO.

numba alone compiles none of these well: a float maximum keeps NaN order and so stays scalar, `math.exp` is a
call for each element, and a multiply-add may or may not be fused. With the flags and intrinsics below every
loop over rows becomes straight vector code. The fused operations are written out, so the vector body and the
scalar tail of a loop give the same bits: a row's score does not depend on where it stands in its batch.

numba keys its disk cache by the file of the compiled function alone: touch the callers after an edit here.
"""

from __future__ import annotations

import llvmlite.ir as ir
from numba import types
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


maximum = intrinsic(_maximum)
fused = intrinsic(_fused)
scaled = intrinsic(_scaled)

LOG2_E = 1.4426950408889634
