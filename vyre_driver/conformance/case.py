"""One question to a backend: a program, what goes in, and how close the answer has to be.

Source: spec item 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

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
