"""Programs through the kompute backend: the same as through the reference, every wish kept or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example

from vyre_driver import Driver, acquire
from vyre_driver.backends import DispatchConfig
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.errors import (
    InvalidProgram,
    InvalidPushConstant,
    InvalidSpecialization,
    LimitExceeded,
    UnsupportedFeature,
    VyreError,
)
from vyre_driver.ir import BufferDecl, DataType, Program, cast, gid_x, let, load, store, trap, u32, var, wid_x

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.backends.base import Backend

pytestmark = pytest.mark.device
U32, U64 = DataType.U32, DataType.U64
I = gid_x()  # noqa: E741 -- as kernels have it
X, Y, Z = BufferDecl.read("x", 0, U32), BufferDecl.output("y", 1, U32), BufferDecl.read_write("z", 2, U32)
# y gets x, z becomes 2 z + y: the second of two runs finds the first one's y.
TWICE = Program.wrapped([X, Y, Z], (4, 1, 1), [store(Z, I, load(Z, I) * 2 + load(Y, I)), store(Y, I, load(X, I))])
PART = BufferDecl.read_write("part", 0, U32).with_count(8).with_output_byte_range((4, 16))
ADDING = Program.wrapped([PART], (8, 1, 1), [store(PART, I, load(PART, I) + I)])


@pytest.fixture
def reference() -> Iterator[Backend]:
    with acquire("cpu-ref") as opened:
        yield opened


def words(*values: int) -> Any:  # noqa: ANN401 -- an array
    return np.array(values, np.uint32)


def listed(outputs: tuple[Any, ...]) -> list[Any]:
    return [(one.dtype, one.tolist()) for one in outputs]


def refused(action: Callable[[], object]) -> tuple[type[VyreError], str]:
    with pytest.raises(VyreError) as error:
        action()
    return type(error.value), error.value.problem


VALUES = np.random.default_rng(3).integers(0, 2**32, 1024, dtype=np.uint32)
CASES: dict[str, tuple[Program, list[Any], DispatchConfig]] = {
    "saxpy": (example("saxpy", 2.0), [np.arange(99, dtype=np.float32), np.ones(99, np.float32)], DispatchConfig()),
    "histogram": (example("histogram", 16), [VALUES, np.zeros(16, np.uint32)], DispatchConfig(label="counted")),
    "prefix_sum": (example("prefix_sum"), [VALUES, np.zeros(1024, np.uint32), words(0, 0, 0, 0)], DispatchConfig()),
    "iterations": (TWICE, [words(1, 2), words(0, 0), words(5, 6)], DispatchConfig(fixpoint_iterations=3)),
    "output range": (ADDING, [words(*range(8))], DispatchConfig(max_output_bytes=12)),
    "iterations on an output range": (ADDING, [words(*range(8))], DispatchConfig(fixpoint_iterations=3)),
    "workgroup": (
        Program.wrapped([Y], (4, 1, 1), [store(Y, I, wid_x())]),
        [words(*[0] * 32)],
        DispatchConfig(workgroup_override=(16, 1, 1)),
    ),
    "grid": (TWICE, [words(*[1] * 20), words(*[0] * 20), words(*[2] * 20)], DispatchConfig(grid_override=(2, 1, 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_the_reference_gives(backend: KomputeBackend, reference: Backend, name: str) -> None:
    program, inputs, config = CASES[name]
    kept = [one.copy() for one in inputs]
    wanted = listed(reference.dispatch(program, inputs, config))
    loaded = backend.load(program, config=config)
    found = [backend.dispatch(program, inputs, config), loaded.dispatch(inputs), loaded.dispatch_timed(inputs).outputs]
    assert [listed(one) for one in found] == [wanted] * 3
    assert all(np.array_equal(given, before) for given, before in zip(inputs, kept, strict=True))


def test_64_bits_run(backend: KomputeBackend, reference: Backend) -> None:
    wide = BufferDecl.output("wide", 1, U64).with_count(4)
    program = Program.wrapped([X, wide], (4, 1, 1), [store(wide, I, cast(U64, load(X, I)))])
    given = [words(2**32 - 1, 2, 3, 2**31)]
    assert listed(backend.dispatch(program, given)) == listed(reference.dispatch(program, given))


def test_it_is_the_entry_of_the_driver_itself(backend: KomputeBackend) -> None:
    assert backend.load(TWICE, config=DispatchConfig(label="x")).id == backend.driver.compile(TWICE).trace.key
    budget = DispatchConfig(ulp_budget=4)
    assert backend.load(TWICE, config=budget).id == backend.driver.compile(TWICE, None, budget).trace.key


def test_a_ulp_budget_lets_an_fma_be_the_devices_own(backend: KomputeBackend) -> None:
    a, b = np.random.default_rng(2).integers(-8, 8, (2, 64, 64)).astype(np.float32)
    (found,) = backend.dispatch(example("matmul", 64), [a, b], DispatchConfig(ulp_budget=4, grid_override=(4, 4, 1)))
    assert found.reshape(64, 64).tolist() == (a @ b).tolist()


def test_lets_of_literals_are_specialized(backend: KomputeBackend) -> None:
    program = Program.wrapped([Y], (4, 1, 1), [let("k", u32(1)), store(Y, I, var("k", U32))])
    assert backend.load(program, constants={"k": 7}).dispatch([words(0, 0)])[0].tolist() == [7, 7]
    assert refused(lambda: backend.load(program, constants={"q": 7}))[0] is InvalidSpecialization


def test_a_program_stays_on_resident_buffers(backend: KomputeBackend) -> None:
    loaded = backend.load(TWICE)
    buffers = [backend.driver.buffer(one) for one in (words(1, 2), words(0, 0), words(5, 6))]
    backend.dispatch_resident(loaded, buffers, DispatchConfig(fixpoint_iterations=3))
    assert [one.read().tolist() for one in buffers] == [[1, 2], [1, 2], [43, 54]]


def test_what_it_cannot_run_is_refused_by_name_before_anything_runs(backend: KomputeBackend) -> None:
    trapping = Program.wrapped([Y], (4, 1, 1), [trap(u32(0), "t")])
    assert refused(lambda: backend.load(trapping)) == (
        UnsupportedFeature,
        "backend 'kompute' does not run vyre.node.trap (at body[0])",
    )
    limit = backend.profile.max_workgroup_size[2]
    over = DispatchConfig(workgroup_override=(1, 1, limit + 1))
    assert refused(lambda: backend.load(TWICE, config=over))[0] is LimitExceeded
    meaningless = Program.wrapped([Y], (4, 1, 1), [store("nowhere", 0, u32(0))])
    assert refused(lambda: backend.load(meaningless))[0] is InvalidProgram
    given = [words(1), words(0), words(0)]
    assert refused(lambda: backend.load(TWICE).dispatch(given, push_constants={"n": 1}))[0] is InvalidPushConstant
    assert refused(lambda: backend.dispatch(ADDING, [words(*range(8))], DispatchConfig(max_output_bytes=11))) == (
        LimitExceeded,
        "the outputs of the dispatch have 12 bytes, and max_output_bytes is 11 bytes",
    )


def test_a_strict_driver_refuses_iterations_where_only_a_part_comes_back() -> None:
    with KomputeBackend(Driver(strict=True)) as backend:
        loaded = backend.load(ADDING)
        given, config = [words(*range(8))], DispatchConfig(fixpoint_iterations=2)
        for dispatch in (loaded.dispatch, loaded.dispatch_timed):
            assert refused(lambda dispatch=dispatch: dispatch(given, config)) == (  # type: ignore[misc]
                UnsupportedFeature,
                "a strict driver does not keep fixpoint_iterations 2: of 'part' only an output range comes back",
            )
        assert loaded.dispatch(given)[0].tolist() == [2, 4, 6]
