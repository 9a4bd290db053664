"""Random valid programs with their inputs, the same for one seed and options on every machine and every version of Python.

Source: spec items 1.5 to 1.8.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vyre_driver.conformance import patterns
from vyre_driver.conformance.case import EXACT, Case
from vyre_driver.conformance.expression_maker import BOOL, F32, I32, MOVED, U32, U64, ExpressionMaker, computed_types
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.random_source import RandomSource
from vyre_driver.conformance.statement_maker import StatementMaker
from vyre_driver.conformance.tolerances import tolerance_of
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp
from vyre_driver.ir.program import ROOT_GENERATOR, Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr

_SIZES = ((1, 1, 1), (4, 1, 1), (8, 1, 1), (32, 1, 1), (33, 1, 1), (64, 1, 1), (4, 4, 1), (8, 3, 1), (2, 3, 4), (1, 5, 1))
_FLAT_SIZES = tuple(size for size in _SIZES if size[1:] == (1, 1))
_GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2))
_NARROW = (DataType.U8, DataType.I8, DataType.U16, DataType.I16, DataType.F16)
_COUNTING = (AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR)
_ORDERLESS = (AtomicOp.MIN, AtomicOp.MAX)  # of f32, whose sums depend on the order
_INEXACT = "quotients"
_NAMES = {
    U32: "words",
    I32: "signed",
    F32: "floats",
    BOOL: "flags",
    U64: "wide",
    DataType.U8: "bytes",
    DataType.I8: "signed_bytes",
    DataType.U16: "shorts",
    DataType.I16: "signed_shorts",
    DataType.I64: "signed_wide",
    DataType.F16: "halves",
}

GENERATOR_VERSION = 4
"""What a seed means; whatever changes the programs of seeds must raise it. A golden digest holds this."""


class _Buffers:
    """The buffers of a program, numbered as they come, and the inputs of those that take one."""

    def __init__(self, rng: RandomSource) -> None:
        self.declared: list[BufferDecl] = []
        self.inputs: list[NDArray[Any]] = []
        self._rng = rng

    def read(self, name: str, dtype: DataType, count: int) -> BufferDecl:
        result = BufferDecl.read(name, len(self.declared), dtype)
        return self.with_input(result.with_count(count) if self._rng.chance(50) else result, count)

    def written(self, name: str, dtype: DataType, count: int) -> BufferDecl:
        """Declare an output, which begins as zeros, or a buffer that is input and output."""
        if self._rng.chance(50):
            result = BufferDecl.output(name, len(self.declared), dtype).with_count(count)
            if any(one.is_output for one in self.declared):
                result = BufferDecl.read_write(name, len(self.declared), dtype)
                return self.with_input(result.with_count(count), count)
            self.declared.append(result)
            return result
        return self.with_input(BufferDecl.read_write(name, len(self.declared), dtype), count)

    def with_input(self, made: BufferDecl, count: int) -> BufferDecl:
        self.declared.append(made)
        self.inputs.append(patterns.array(self._rng.filler(), made.element, count))
        return made


def generate(seed: int, options: Options | None = None) -> Case:
    """Return the program of a seed (any integer) with inputs and grid; it is valid, and no invocation of it faults."""
    return made_with(RandomSource(seed), Options() if options is None else options, f"seed {seed}")


def made_with(rng: RandomSource, options: Options, name: str) -> Case:
    """Return a program made by these choices; see :func:`generate`."""
    options = replace(options, subgroups=options.subgroups and rng.chance(60))
    size, grid = rng.pick(_FLAT_SIZES if options.subgroups else _SIZES), rng.pick(_GRIDS)
    total = size[0] * size[1] * size[2] * grid[0] * grid[1] * grid[2]
    own = _own_index(size, grid)
    buffers = _Buffers(rng)
    moved = _moved(rng, options)
    readable = {
        dtype: [buffers.read(f"{_NAMES[dtype]}_in", dtype, max(1, total + rng.between(-3, 3)))]
        for dtype in (*_types(rng, options), *moved)
    }
    pushed = _pushed(rng, options, buffers)
    for one in pushed:
        readable.setdefault(one.element, []).append(one)
    outputs = {
        dtype: [buffers.written(f"{_NAMES[dtype]}_out", dtype, max(1, total + rng.between(-2, 2)))]
        for dtype in (*(_types(rng, options) or [U32]), *moved)
    }
    loaded = {dtype: list(many) for dtype, many in outputs.items()}
    expressions = ExpressionMaker(rng, options, readable, loaded, own, tuple(one for one in moved if one in MOVED))
    if options.inexact and rng.chance(40):
        outputs.setdefault(F32, []).append(buffers.written(_INEXACT, F32, total))
    counters = _counters(rng, options, buffers)
    shared = _shared(rng, options, size, moved)
    tally = _tally(rng, options)
    words = [one for one in pushed if one.element == U32]
    writer = StatementMaker(rng, options, expressions, own, outputs, shared, counters, tally, moved, words)
    x, y, _ = size
    nodes = writer.top()
    if shared:
        nodes = [ir.let("own_place", ir.lid_x() + ir.lid_y() * x + ir.lid_z() * (x * y)), *nodes]
    inside = [*shared.values(), *(one for one, _ in tally)]
    program = Program.new([*buffers.declared, *inside], size, [ir.region(ROOT_GENERATOR, *nodes)])
    inexact = {_INEXACT: tolerance_of(program)}
    return Case(name, program, tuple(buffers.inputs), grid, EXACT, tolerances=inexact, subgroup_lanes=options.subgroup_lanes)


def _own_index(size: tuple[int, int, int], grid: tuple[int, int, int]) -> Expr:
    """Return the number of an invocation in the grid, another one for each."""
    width, height = size[0] * grid[0], size[1] * grid[1]
    if height * size[2] * grid[2] == 1:
        return ir.gid_x()
    return ir.gid_x() + ir.gid_y() * width + ir.gid_z() * (width * height)


def _types(rng: RandomSource, options: Options) -> list[DataType]:
    return [one for one in computed_types(options) if rng.chance(70)]


def _moved(rng: RandomSource, options: Options) -> list[DataType]:
    """Return types that values are loaded, let, compared, cast, selected and stored of, and nothing is computed of."""
    types = [*(_NARROW if options.narrow else ()), *([DataType.I64] if options.u64 else [])]
    return [] if rng.chance(50) else [one for one in types if rng.chance(30)]


def _pushed(rng: RandomSource, options: Options, buffers: _Buffers) -> list[BufferDecl]:
    """Declare up to three push buffers of a few numbers: with the counts they are fewer than what every device takes."""
    found: list[BufferDecl] = []
    types = computed_types(options)
    for dtype in (U32, rng.pick(types), rng.pick(types)) if rng.chance(50) else ():
        name = f"pushed{len(found)}_{_NAMES[dtype]}"
        made = BufferDecl.push(name, len(buffers.declared), dtype, rng.between(1, 2))
        found.append(buffers.with_input(made, made.count))
    return found


def _counters(rng: RandomSource, options: Options, buffers: _Buffers) -> list[tuple[BufferDecl, AtomicOp]]:
    if not options.atomics or rng.chance(50):
        return []
    dtype = rng.pick((U32, I32, F32))
    result = BufferDecl.read_write("counters", len(buffers.declared), dtype).with_count(rng.between(1, 9))
    return [(buffers.with_input(result, result.count), rng.pick(_ORDERLESS if dtype == F32 else _COUNTING))]


def _tally(rng: RandomSource, options: Options) -> list[tuple[BufferDecl, AtomicOp]]:
    if not (options.atomics and options.shared) or rng.chance(70):
        return []
    dtype = rng.pick((U32, I32, F32))
    return [(BufferDecl.workgroup("tally", rng.between(1, 9), dtype), rng.pick(_ORDERLESS if dtype == F32 else _COUNTING))]


def _shared(
    rng: RandomSource, options: Options, size: tuple[int, int, int], moved: Sequence[DataType]
) -> dict[DataType, BufferDecl]:
    if not options.shared or rng.chance(50):
        return {}
    x, y, z = size
    dtype = rng.pick([*computed_types(options), *moved])
    return {dtype: BufferDecl.workgroup("shared", x * y * z, dtype)}
