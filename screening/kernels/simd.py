"""Building blocks of the loops that LLVM vectorizes; the only module that knows LLVM.

numba alone vectorizes none of these well: a float maximum keeps the order of NaNs and
so stays scalar, `math.exp` is a call for each element, and a multiply-add may or may
not be fused. With the flags and intrinsics below every loop over rows becomes straight
vector code. Fused operations are explicit, so the vector body and the scalar tail of a
loop give the same bits: a row's score does not depend on its position in its batch.

The tiles compute the distances of four centres to a block of rows at once, written as
vector operations: a loaded number of a row serves four centres, and sums stay in
registers over all features. LLVM does not make this of a loop, since it cannot know
that sums and rows are different memory.

numba's disk cache depends on the file of the compiled function alone: after an edit
here, touch the files of the callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

NUMBA_VERSIONS = ">=0.61.2,<0.69"
"""Versions of numba whose internals this module knows, each with its own llvmlite.

It uses `numba.core.cgutils`, the lowering context of `intrinsic`, and llvmlite's sets
of function attributes. Before this range is widened, run tests/test_pairwise.py.
"""

PANEL = 32
"""Rows of a panel: they lie together in memory, feature by feature."""
CENTRES = 4
"""Centres of a tile: their distances are computed together."""


def _maximum(typingctx, a, b):
    """Return the larger of two floats; unspecified for NaN."""
    if a != b or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        above = builder.fcmp_ordered(">", args[0], args[1], flags=("nnan", "nsz"))
        return builder.select(above, args[0], args[1], flags=("nnan", "nsz"))

    return a(a, b), codegen


def _fma(typingctx, a, b, c):
    """Return a * b + c, rounded once."""
    if not (a == b == c) or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return a(a, b, c), codegen


def _add_to_exponent(typingctx, p, rounded):
    """Return p * 2^n, n the integer in the low bits of `rounded`.

    An intrinsic, since numba would widen the integer arithmetic.
    """
    if p != rounded or not isinstance(p, types.Float):
        return None
    if p.bitwidth == 32:
        word = ir.IntType(32)
        mantissa_bits = 23
        float_type = ir.FloatType()
    else:
        word = ir.IntType(64)
        mantissa_bits = 52
        float_type = ir.DoubleType()

    def codegen(context, builder, signature, args):
        integer = builder.bitcast(args[1], word)
        exponent = builder.shl(integer, ir.Constant(word, mantissa_bits))
        total = builder.add(builder.bitcast(args[0], word), exponent)
        return builder.bitcast(total, float_type)

    return p(p, rounded), codegen


# Bits of the x86 control word MXCSR: flush to zero, denormals are zero.
_FLUSH_BITS = 0x8040
_IS_X86 = llvm.get_default_triple().startswith("x86_64")


def _use_widest_vectors(typingctx):
    """Let the calling function use vectors as wide as the processor's registers.

    By default LLVM takes half of that for Intel's server processors, because the first
    of them ran slower with full width.
    """

    def codegen(context, builder, signature, args):
        # The set's own `add` rejects attributes that it does not know.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


def _call_control(builder, name, word_pointer):
    """Store the floating-point control word at a pointer, or load it from there.

    `name` is the x86 instruction, "stmxcsr" or "ldmxcsr".
    """
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    function = builder.module.declare_intrinsic(f"llvm.x86.sse.{name}", (), kind)
    builder.call(function, [builder.bitcast(word_pointer, pointer)])


def _flush_subnormals(typingctx):
    """Treat subnormal numbers as 0 from here on; return the control word before.

    Intel's processors are slow with subnormal numbers, and far from a narrow kernel
    all values are such.
    """

    def codegen(context, builder, signature, args):
        word = ir.IntType(32)
        if not _IS_X86:
            return ir.Constant(word, 0)
        old_pointer = cgutils.alloca_once(builder, word)
        new_pointer = cgutils.alloca_once(builder, word)
        _call_control(builder, "stmxcsr", old_pointer)
        old_word = builder.load(old_pointer)
        new_word = builder.or_(old_word, ir.Constant(word, _FLUSH_BITS))
        builder.store(new_word, new_pointer)
        _call_control(builder, "ldmxcsr", new_pointer)
        return old_word

    return types.uint32(), codegen


def _restore_control_word(typingctx, word):
    """Undo `flush_subnormals`, with the control word that it returned."""

    def codegen(context, builder, signature, args):
        if _IS_X86:
            pointer = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(args[0], pointer)
            _call_control(builder, "ldmxcsr", pointer)
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


use_widest_vectors = intrinsic(_use_widest_vectors)
maximum = intrinsic(_maximum)
flush_subnormals = intrinsic(_flush_subnormals)
restore_control_word = intrinsic(_restore_control_word)
fma = intrinsic(_fma)
add_to_exponent = intrinsic(_add_to_exponent)

# Registers of rows at a time: with four centres enough sums to hide the latency of an
# addition, and few enough to stay in registers.
_REGISTERS = 2


def _register_bytes() -> int:
    """Return the size of a vector register; results do not depend on it."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx") else 16


def _call_vector_intrinsic(builder, name, values):
    """Call an LLVM intrinsic, such as "fma", on vectors of one type."""
    kind = values[0].type
    full_name = f"llvm.{name}.v{kind.count}{kind.element.intrinsic_name}"
    function_type = ir.FunctionType(kind, [kind] * len(values))
    function = cgutils.get_or_insert_function(builder.module, function_type, full_name)
    return builder.call(function, values)


def _add_squares(builder, total, differences):
    """Return total plus the squares of four differences, the last one first."""
    for difference in reversed(differences):
        total = _call_vector_intrinsic(builder, "fma", [difference, difference, total])
    return total


def _add_absolutes(builder, total, differences):
    """Return total plus the absolute values of four differences, added in pairs."""
    absolute = []
    for difference in differences:
        absolute.append(_call_vector_intrinsic(builder, "fabs", [difference]))
    first_pair = builder.fadd(absolute[0], absolute[1])
    second_pair = builder.fadd(absolute[2], absolute[3])
    return builder.fadd(total, builder.fadd(first_pair, second_pair))


AddDistances = Callable[[Any, Any, list[Any]], Any]
"""add_distances(builder, total, differences): adds four features to a sum."""


@dataclass(frozen=True)
class _VectorCode:
    """Emits loads, stores and loops over vectors of one type.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    vector : llvmlite.ir.VectorType
    word : llvmlite.ir.IntType
        Type of indices.
    align : int
        Alignment of an element, in bytes.
    add_distances : callable
        Adds four differences to a sum, as for ``_tile``.
    """

    builder: Any
    vector: Any
    word: Any
    align: int
    add_distances: AddDistances

    def sum_of(self, value, offset: int):
        """Return an index plus a constant."""
        return self.builder.add(value, self.word(offset))

    def element(self, array, row, width, column):
        """Return the pointer to array[row, column] of an array with `width` columns."""
        offset = self.builder.add(self.builder.mul(row, width), column)
        return self.builder.gep(array.data, [offset])

    def registers(self, array, row, width, column) -> Iterator[Any]:
        """Yield pointers to the vectors of a row that begin at a column."""
        for v in range(_REGISTERS):
            start = self.sum_of(column, v * self.vector.count)
            pointer = self.element(array, row, width, start)
            yield self.builder.bitcast(pointer, self.vector.as_pointer())

    def load(self, pointer):
        """Return the vector at an address that is aligned as its elements are."""
        return self.builder.load(pointer, align=self.align)

    def broadcast(self, pointer):
        """Return a vector whose elements all equal the number at a pointer."""
        lane_type = ir.IntType(32)
        mask = ir.VectorType(lane_type, self.vector.count)
        first_lane = ir.Constant(mask, [0] * self.vector.count)
        undefined = ir.Constant(self.vector, ir.Undefined)
        number = self.builder.load(pointer)
        single = self.builder.insert_element(undefined, number, lane_type(0))
        return self.builder.shuffle_vector(single, undefined, first_lane)

    def add_to_sums(self, registers, features, coordinates) -> None:
        """Add the distances of rows to one centre, over four features, to its sums.

        `features` are loaded vectors, [feature][register]; `coordinates` the centre's,
        broadcast.
        """
        for v, pointer in enumerate(registers):
            differences = []
            for vectors, coordinate in zip(features, coordinates, strict=True):
                differences.append(self.builder.fsub(vectors[v], coordinate))
            total = self.builder.load(pointer)
            total = self.add_distances(self.builder, total, differences)
            self.builder.store(total, pointer)

    def copy(self, sources, targets) -> None:
        """Copy vectors from aligned memory to memory aligned as their elements are."""
        for source, target in zip(sources, targets, strict=True):
            self.builder.store(self.builder.load(source), target, align=self.align)

    def loop(self, stop, step: int):
        """Open a loop over range(0, stop, step), as a context manager."""
        return cgutils.for_range_slice(
            self.builder, self.word(0), stop, self.word(step)
        )


def _tile(add_distances: AddDistances):
    """Return the intrinsic that computes distances of rows to four centres.

    `add_distances(builder, total, differences)` adds four features to a sum.
    """

    def tile(typingctx, panels, centres, i, acc):
        is_array = isinstance(panels, types.Array)
        if not (is_array and panels.dtype == centres.dtype == acc.dtype):
            return None
        bits = panels.dtype.bitwidth
        number = ir.FloatType() if bits == 32 else ir.DoubleType()
        n_lanes = min(_register_bytes() * 8 // bits, PANEL // _REGISTERS)
        vector = ir.VectorType(number, n_lanes)
        zeros = ir.Constant(vector, [0.0] * n_lanes)

        def codegen(context, builder, signature, args):
            rows = context.make_array(panels)(context, builder, args[0])
            centre = context.make_array(centres)(context, builder, args[1])
            out = context.make_array(acc)(context, builder, args[3])
            n_panels, n_padded, _ = cgutils.unpack_tuple(builder, rows.shape)
            word = n_padded.type
            code = _VectorCode(builder, vector, word, bits // 8, add_distances)
            first_centre = context.cast(builder, args[2], i, types.intp)
            sums = []
            for _ in range(CENTRES):
                sums.append(
                    [cgutils.alloca_once(builder, vector) for _ in range(_REGISTERS)]
                )
            n_columns = builder.mul(n_panels, word(PANEL))
            with (
                code.loop(n_panels, 1) as (panel, _),
                code.loop(word(PANEL), n_lanes * _REGISTERS) as (lane, _),
            ):
                for pointer in chain.from_iterable(sums):
                    builder.store(zeros, pointer)
                first_feature = builder.mul(panel, n_padded)
                with code.loop(n_padded, 4) as (k, _):
                    features = []
                    for j in range(4):
                        row = builder.add(first_feature, code.sum_of(k, j))
                        pointers = code.registers(rows, row, word(PANEL), lane)
                        features.append([code.load(pointer) for pointer in pointers])
                    for c, registers in enumerate(sums):
                        row = code.sum_of(first_centre, c)
                        coordinates = []
                        for j in range(4):
                            column = code.sum_of(k, j)
                            pointer = code.element(centre, row, n_padded, column)
                            coordinates.append(code.broadcast(pointer))
                        code.add_to_sums(registers, features, coordinates)
                column = builder.add(builder.mul(panel, word(PANEL)), lane)
                for c, registers in enumerate(sums):
                    targets = code.registers(out, word(c), n_columns, column)
                    code.copy(registers, targets)
            return context.get_dummy_value()

        return types.void(panels, centres, i, acc), codegen

    return intrinsic(tile)


squared_tile = _tile(_add_squares)
"""squared_tile(panels, centres, i, acc): squared distances of rows to centres.

They are those to the centres i .. i + 3, stored in acc (4, block). ``panels`` (block /
PANEL, features, PANEL) contain the rows, centres are (n, features), features a multiple
of four, all in C order. Features are summed four by four, the last of four first.
"""
absolute_tile = _tile(_add_absolutes)
"""absolute_tile(panels, centres, i, acc): the same with city-block distances."""
