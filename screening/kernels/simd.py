"""Building blocks of the loops that LLVM turns into vector code; nothing else here knows LLVM.

numba alone compiles none of these well: a float maximum keeps NaN order and so stays scalar, `math.exp` is a
call for each element, and a multiply-add may or may not be fused. With the flags and intrinsics below every
loop over rows becomes straight vector code. The fused operations are written out, so the vector body and the
scalar tail of a loop give the same bits: a row's score does not depend on where it stands in its batch.

The tiles measure the distances of four centres to a block of rows at once, written out as vectors: a number
of a row then serves four centres, and sums stay in registers over all features. LLVM makes no such thing of
a loop, not knowing that sums and rows are different memory.

numba keys its disk cache by the file of the compiled function alone: touch the callers after an edit here.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PANEL = 32
"""Rows of a block that lie together, feature by feature."""
CENTRES = 4
"""Of which a tile takes the distances at once."""


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
    n_bits, mantissa, float_type = (
        (32, 23, ir.FloatType()) if p.bitwidth == 32 else (64, 52, ir.DoubleType())
    )

    def codegen(context, builder, signature, args):
        word = ir.IntType(n_bits)
        exponent = builder.shl(
            builder.bitcast(args[1], word), ir.Constant(word, mantissa)
        )
        return builder.bitcast(
            builder.add(builder.bitcast(args[0], word), exponent), float_type
        )

    return p(p, rounded), codegen


_FLUSH = 0x8040
_IS_X86 = llvm.get_default_triple().startswith("x86_64")


def _widest(typingctx):
    """Vectors as wide as the processor has them, in the function that calls this.

    LLVM takes half of that for Intel's server processors, whose first ones ran slower with the whole.
    """

    def codegen(context, builder, signature, args):
        set.add(
            builder.function.attributes, '"prefer-vector-width"="512"'
        )  # `add` knows no such words
        return context.get_dummy_value()

    return types.void(), codegen


def _control(builder, name, pointed):
    """Store the processor's floating-point control word at a place, or load it from there."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    function = builder.module.declare_intrinsic(f"llvm.x86.sse.{name}", (), kind)
    builder.call(function, [builder.bitcast(pointed, pointer)])


def _flush_tiny(typingctx):
    """Numbers too small for all their digits count as 0 from here on; gives what `restore` wants back.

    Intel's processors are slow over them, and far from a narrow kernel all are such.
    """

    def codegen(context, builder, signature, args):
        word = ir.IntType(32)
        if not _IS_X86:
            return ir.Constant(word, 0)
        before, now = (
            cgutils.alloca_once(builder, word),
            cgutils.alloca_once(builder, word),
        )
        _control(builder, "stmxcsr", before)
        word_before = builder.load(before)
        builder.store(builder.or_(word_before, ir.Constant(word, _FLUSH)), now)
        _control(builder, "ldmxcsr", now)
        return word_before

    return types.uint32(), codegen


def _restore(typingctx, before):
    """Undo `flush_tiny`."""

    def codegen(context, builder, signature, args):
        if _IS_X86:
            word_at = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(args[0], word_at)
            _control(builder, "ldmxcsr", word_at)
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


widest = intrinsic(_widest)
maximum = intrinsic(_maximum)
flush_tiny = intrinsic(_flush_tiny)
restore = intrinsic(_restore)
fused = intrinsic(_fused)
scaled = intrinsic(_scaled)

# Registers of rows at a time: with four centres, sums enough to hide how long one takes, few enough to fit.
_REGISTERS = 2


def _register() -> int:
    """Bytes of a register; the result does not depend on it."""
    has = llvm.get_host_cpu_features()
    return 64 if has.get("avx512f") else 32 if has.get("avx") else 16


def _called(builder, name, values):
    kind = values[0].type
    full = f"llvm.{name}.v{kind.count}{kind.element.intrinsic_name}"
    wanted = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(
        cgutils.get_or_insert_function(builder.module, wanted, full), values
    )


def _squared(builder, total, apart):
    for difference in reversed(apart):
        total = _called(builder, "fma", [difference, difference, total])
    return total


def _absolute(builder, total, apart):
    a, b, c, d = (_called(builder, "fabs", [difference]) for difference in apart)
    return builder.fadd(total, builder.fadd(builder.fadd(a, b), builder.fadd(c, d)))


def _tile(added):
    """The intrinsic that adds to the sums what four differences at a time say."""

    def tile(typingctx, panels, centres, i, acc):
        if not (
            isinstance(panels, types.Array)
            and panels.dtype == centres.dtype == acc.dtype
        ):
            return None
        bits = panels.dtype.bitwidth
        number = ir.FloatType() if bits == 32 else ir.DoubleType()
        lanes = min(_register() * 8 // bits, PANEL // _REGISTERS)
        vector = ir.VectorType(number, lanes)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)

        def codegen(context, builder, signature, args):
            rows, centre, out = (
                context.make_array(kind)(context, builder, array)
                for kind, array in zip(
                    (panels, centres, acc), (args[0], args[1], args[3]), strict=True
                )
            )
            n_panels, n_padded, _ = cgutils.unpack_tuple(builder, rows.shape)
            word = n_padded.type
            begin = context.cast(builder, args[2], i, types.intp)
            sums = [
                [cgutils.alloca_once(builder, vector) for _ in range(_REGISTERS)]
                for _ in range(CENTRES)
            ]

            def element_at(array, row, width, column):
                return builder.gep(
                    array.data, [builder.add(builder.mul(row, width), column)]
                )

            def vectors(array, row, width, column):
                """Places of the registers from there on."""
                for v in range(_REGISTERS):
                    at = element_at(
                        array, row, width, builder.add(column, word(v * lanes))
                    )
                    yield builder.bitcast(at, vector.as_pointer())

            def spread(at):
                nothing = ir.Constant(vector, ir.Undefined)
                one = builder.insert_element(
                    nothing, builder.load(at), ir.IntType(32)(0)
                )
                return builder.shuffle_vector(one, nothing, everywhere)

            def loop(stop, step):
                return cgutils.for_range_slice(builder, word(0), stop, word(step))

            block = builder.mul(n_panels, word(PANEL))
            with (
                loop(n_panels, 1) as (panel, _),
                loop(word(PANEL), lanes * _REGISTERS) as (lane, _),
            ):
                for total in sums:
                    for at in total:
                        builder.store(ir.Constant(vector, [0.0] * lanes), at)
                first = builder.mul(panel, n_padded)
                with loop(n_padded, 4) as (k, _):
                    read = [
                        [
                            builder.load(at, align=bits // 8)
                            for at in vectors(
                                rows,
                                builder.add(first, builder.add(k, word(j))),
                                word(PANEL),
                                lane,
                            )
                        ]
                        for j in range(4)
                    ]
                    for c, total in enumerate(sums):
                        here = builder.add(begin, word(c))
                        middle = [
                            spread(
                                element_at(
                                    centre, here, n_padded, builder.add(k, word(j))
                                )
                            )
                            for j in range(4)
                        ]
                        for v, at in enumerate(total):
                            apart = [
                                builder.fsub(read[j][v], middle[j]) for j in range(4)
                            ]
                            builder.store(added(builder, builder.load(at), apart), at)
                column = builder.add(builder.mul(panel, word(PANEL)), lane)
                for c, total in enumerate(sums):
                    for at, to in zip(
                        total, vectors(out, word(c), block, column), strict=True
                    ):
                        builder.store(builder.load(at), to, align=bits // 8)
            return context.get_dummy_value()

        return types.void(panels, centres, i, acc), codegen

    return intrinsic(tile)


squared_tile, absolute_tile = _tile(_squared), _tile(_absolute)
"""tile(panels, centres, i, acc): distances of rows to the centres i .. i + 3, into acc (4, block).

``panels`` (block / PANEL, features, PANEL) hold the rows, centres are (n, features), features a multiple of
four, all in C order. Features are summed four by four, of squares the last of four first.
"""
