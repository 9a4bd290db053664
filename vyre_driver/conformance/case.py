"""One question to a backend: a program, what goes in, and how close the answer has to be.

Source: spec item 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vyre_driver.ir import builders as ir
from vyre_driver.ir.arithmetic import Unary
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node


class RunProgram(Protocol):
    """What stands for a backend: it runs a program once and returns its outputs in the order of their bindings.

    ``inputs`` come in the order of the bindings, ``grid`` is in workgroups, ``element_counts`` has the elements of outputs
    whose count is left to run time. What the backend cannot run it refuses with UnsupportedFeature.
    """

    def __call__(
        self,
        program: Program,
        inputs: Sequence[NDArray[Any]],
        *,
        grid: tuple[int, int, int],
        element_counts: Mapping[str, int],
    ) -> Sequence[NDArray[Any]]:
        """Run it."""
        ...


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an f32 may be from the reference: so many steps of its last place, or so far on the number line."""

    ulps: int = 0
    absolute: float = 0.0


EXACT = Tolerance()
ELEMENTARY = Tolerance(4)  # spec item 8: elementary arithmetic
TRANSCENDENTAL = Tolerance(128)  # spec item 8: the functions that IEEE 754 leaves to the implementation


@dataclass(frozen=True, slots=True)
class Case:
    """A program with its inputs (in the order of the bindings) and its grid in workgroups.

    ``tolerance`` is for f32, ``tolerances`` for outputs of these names in its place. ``subgroup_lanes`` is how many the
    reference gives a subgroup.
    """

    name: str
    program: Program
    inputs: tuple[NDArray[Any], ...]
    grid: tuple[int, int, int]
    tolerance: Tolerance = ELEMENTARY
    element_counts: Mapping[str, int] = field(default_factory=dict)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    subgroup_lanes: int = 32


def case_of(
    name: str,
    buffers: Sequence[BufferDecl],
    body: Sequence[Node],
    *inputs: NDArray[Any],
    size: tuple[int, int, int] = (8, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
) -> Case:
    """Return the case of a program with this body and workgroup size, whose answer has to be exact."""
    return Case(name, Program.wrapped(buffers, size, body), inputs, grid, EXACT)


def output(count: int, binding: int = 0, dtype: DataType = DataType.U32) -> BufferDecl:
    """Return the buffer ``out``."""
    return BufferDecl.output("out", binding, dtype).with_count(count)


def case_of_each(
    name: str,
    given: Mapping[str, tuple[BufferDecl, NDArray[Any]]],
    dtype: DataType,
    terms: Sequence[Expr],
    limit: Expr | None = None,
) -> Case:
    """Return the case of terms of this type, of each element of arrays of one length.

    In a term, elements are variables of the names of ``given``. Invocations from ``limit`` on, by default the length, do
    nothing.
    """
    buffers = [buffer for buffer, _ in given.values()]
    arrays = [array for _, array in given.values()]
    count, i = len(arrays[0]), ir.gid_x()
    out = output(count * len(terms), len(buffers), dtype)
    lets = [ir.let(variable, ir.load(buffer, i)) for variable, buffer in zip(given, buffers, strict=True)]
    stores = [ir.store(out, i * len(terms) + place, term) for place, term in enumerate(terms)]
    body = [ir.if_(i < (count if limit is None else limit), [*lets, *stores])]
    return case_of(name, [*buffers, out], body, *arrays, size=(32, 1, 1), grid=(-(-count // 32), 1, 1))


def elementwise(  # noqa: PLR0913 -- the parts of a case
    name: str,
    types: Sequence[DataType],
    arrays: Sequence[NDArray[Any]],
    make: Callable[..., Expr],
    result: DataType,
    *,
    tolerance: Tolerance = EXACT,
) -> Case:
    """Return the case of one expression for each element; ``make`` takes what stands there in each input."""
    count = len(arrays[0])
    inputs = [BufferDecl.read(f"in{place}", place, one) for place, one in enumerate(types)]
    out = BufferDecl.output("out", len(inputs), result).with_count(count)
    i = ir.gid_x()
    body = [ir.if_(i < ir.buf_len(out), [ir.store(out, i, make(*[ir.load(one, i) for one in inputs]))])]
    program = Program.wrapped([*inputs, out], (32, 1, 1), body)
    return Case(name, program, tuple(arrays), (-(-count // 32), 1, 1), tolerance)


_ANGLES = Tolerance(128, 2.0**-11)
_INHERITED = Tolerance(4096, 2.0**-11)
# How far from the reference an f32 may be, by what it was computed with. What is not named here is exact: sums, differences,
# products, quotients, roots, min, max, fma, rounding, casts, and the functions of the library, which are made of these.
# Source: spec item 8 (4 and 128 steps); the Vulkan specification, "Precision of GLSL.std.450 instructions": absolute errors of
# sine and cosine in [-pi, pi] and of the logarithm near 1, and what tangents, arcs and hyperbolic functions inherit from these.
TOLERANCES: dict[UnOp, Tolerance] = {
    UnOp.SIN: _ANGLES,
    UnOp.COS: _ANGLES,
    UnOp.TAN: _INHERITED,
    UnOp.ACOS: _INHERITED,
    UnOp.ASIN: _INHERITED,
    UnOp.ATAN: _INHERITED,
    UnOp.LOG: Tolerance(128, 2.0**-21),
    UnOp.LOG2: Tolerance(128, 2.0**-21),
    UnOp.EXP: TRANSCENDENTAL,
    UnOp.EXP2: TRANSCENDENTAL,
    UnOp.SINH: Tolerance(128, 2.0**-20),
    UnOp.COSH: TRANSCENDENTAL,
    UnOp.TANH: Tolerance(128, 2.0**-20),
}

# Between which numbers the functions are asked, where their tolerance does not hold everywhere or their value is huge.
RANGES: dict[UnOp, tuple[float, float]] = {
    UnOp.SIN: (-3.0, 3.0),
    UnOp.COS: (-3.0, 3.0),
    UnOp.TAN: (-1.25, 1.25),
    UnOp.ACOS: (-1.0, 1.0),
    UnOp.ASIN: (-1.0, 1.0),
    UnOp.ATAN: (-1e4, 1e4),
    UnOp.LOG: (2.0**-20, 1e30),
    UnOp.LOG2: (2.0**-20, 1e30),
    UnOp.EXP: (-20.0, 20.0),
    UnOp.EXP2: (-20.0, 20.0),
    UnOp.SINH: (-3.0, 3.0),
    UnOp.COSH: (-3.0, 3.0),
    UnOp.TANH: (-8.0, 8.0),
    UnOp.SQRT: (0.25, 1e30),
    UnOp.INVERSE_SQRT: (0.25, 1e30),
    UnOp.RECIPROCAL: (0.25, 1e30),
}


def tolerance_of(program: Program) -> Tolerance:
    """Return the widest tolerance of all that a program computes of f32."""
    found = EXACT
    for term in terms_within(*program.entry):
        if isinstance(term, Unary) and term.dtype == DataType.F32 and term.op in TOLERANCES:
            other = TOLERANCES[term.op]
            found = Tolerance(max(found.ulps, other.ulps), max(found.absolute, other.absolute))
    return found
