"""The reference interpreter behind the interface of all backends: every wish kept or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver import acquire
from vyre_driver.backends import (
    DispatchConfig,
    PersistentThreadMode,
    SpeculationMode,
    backend_dispatches,
    backend_precedence,
    core_supported_ops,
    rank_backends,
)
from vyre_driver.backends.reference import interpret
from vyre_driver.backends.reference.backend import ReferenceBackend
from vyre_driver.errors import (
    DispatchFailed,
    InvalidInput,
    InvalidPushConstant,
    InvalidSpecialization,
    LimitExceeded,
    Trapped,
    UnsupportedFeature,
)
from vyre_driver.identity import dispatch_policy_digest
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    LitF32,
    Program,
    atomic_add,
    gid_x,
    if_,
    let,
    load,
    store,
    subgroup_add,
    trap,
    u32,
    var,
)
from vyre_driver.ir.nodes import Resume

if TYPE_CHECKING:
    from collections.abc import Iterator

U32 = DataType.U32
X, OUT = BufferDecl.read("x", 0, U32), BufferDecl.output("y", 1, U32)
BOTH = BufferDecl.read_write("z", 2, U32)
I = gid_x()  # noqa: E741 -- as kernels have it


@pytest.fixture
def backend() -> Iterator[ReferenceBackend]:
    with acquire("cpu-ref") as opened:
        assert isinstance(opened, ReferenceBackend)
        yield opened


def words(*values: int) -> Any:  # noqa: ANN401 -- an array
    return np.array(values, np.uint32)


def doubled() -> Program:
    """y gets x, z becomes 2 z + y."""
    return Program.wrapped(
        [X, OUT, BOTH], (4, 1, 1), [store(BOTH, I, load(BOTH, I) * 2 + load(OUT, I)), store(OUT, I, load(X, I))]
    )


def test_it_is_had_by_name_and_never_taken_without() -> None:
    rows = {one.id: one.verdict for one in rank_backends(allow_software=True)}
    assert rows["cpu-ref"] == "left out: a reference oracle is acquired by name only"
    assert (backend_dispatches("cpu-ref"), backend_precedence("cpu-ref")) == (True, 900)


def test_it_says_what_it_interprets(backend: ReferenceBackend) -> None:
    assert backend.supported_ops - core_supported_ops() == {"vyre.node.trap", "vyre.node.async_store"}
    assert core_supported_ops() - backend.supported_ops == {"vyre.node.indirect_dispatch"}
    profile = backend.profile
    assert (profile.backend, profile.subgroup_size, profile.max_shared_memory_bytes, profile.supports_device_timestamps) == (
        "cpu-ref",
        32,
        64 << 20,
        False,
    )


def test_outputs_come_in_the_order_of_their_bindings_and_nothing_given_is_written_to(backend: ReferenceBackend) -> None:
    given = [words(1, 2, 3), words(9, 9, 9), words(5, 6, 7)]
    outputs = backend.load(doubled()).dispatch(given)
    assert [one.tolist() for one in (*outputs, *given)] == [[1, 2, 3], [10, 12, 14], [1, 2, 3], [9, 9, 9], [5, 6, 7]]
    assert backend.metrics() == {"dispatched": 1}


def test_a_program_runs_over_its_own_buffers_as_often_as_is_wished(backend: ReferenceBackend) -> None:
    """What a run left in an output is there for the next one, as on a device."""
    found = backend.dispatch(doubled(), [words(1, 2), words(0, 0), words(5, 6)], DispatchConfig(fixpoint_iterations=3))
    assert [one.tolist() for one in found] == [[1, 2], [43, 54]]


def test_what_one_run_wrote_is_no_clash_with_what_the_next_one_reads() -> None:
    """The first run writes y, the second reads what another invocation wrote there."""
    turns = BufferDecl.read_write("turns", 0, U32)
    other = if_(load(turns, I) < 2, [store(OUT, I, I)], [store(BOTH, I, load(OUT, u32(3) - I))])
    program = Program.wrapped([turns, OUT, BOTH], (4, 1, 1), [store(turns, I, load(turns, I) + 1), other])
    found = interpret(program, [words(0, 0, 0, 0)] * 3, iterations=2)
    assert (found.outputs[2].tolist(), found.order_mattered) == ([3, 2, 1, 0], False)
    assert refusal(lambda: interpret(program, [words(0)] * 3, iterations=0))[::2] == (
        InvalidInput,
        "a program runs 0 times. Fix: give a number from 1 on.",
    )


def test_workgroup_and_grid_are_overridden(backend: ReferenceBackend) -> None:
    program = Program.wrapped([OUT], (4, 1, 1), [store(OUT, I, u32(1))])
    runs = [
        DispatchConfig(grid_override=(2, 1, 1)),
        DispatchConfig(workgroup_override=(3, 1, 1), grid_override=(2, 1, 1)),
        DispatchConfig(ulp_budget=4, label="named"),
    ]
    found = [int(backend.dispatch(program, [words(*[0] * 20)], config)[0].sum()) for config in runs]
    assert found == [8, 6, 20]


def test_lets_of_literals_are_specialized_by_name(backend: ReferenceBackend) -> None:
    program = Program.wrapped([OUT], (4, 1, 1), [let("k", u32(1)), store(OUT, I, var("k", U32))])
    assert backend.load(program, constants={"k": 7}).dispatch([words(0, 0)])[0].tolist() == [7, 7]
    assert refusal(lambda: backend.dispatch(program, [words(0)], constants={"q": 7}))[0] is InvalidSpecialization


def test_only_the_output_range_counts_against_max_output_bytes(backend: ReferenceBackend) -> None:
    part = BufferDecl.output("y", 0, U32).with_count(8).with_output_byte_range((4, 12))
    program = Program.wrapped([part], (8, 1, 1), [store(part, I, I)])
    assert backend.dispatch(program, [], DispatchConfig(max_output_bytes=8))[0].tolist() == [1, 2]
    assert refusal(lambda: backend.dispatch(program, [], DispatchConfig(max_output_bytes=7))) == (
        LimitExceeded,
        2104,
        (
            "the outputs of the dispatch have 8 bytes, and max_output_bytes is 7 bytes. "
            "Fix: raise max_output_bytes, or dispatch the work in parts."
        ),
    )


@pytest.mark.parametrize(
    "config",
    [
        DispatchConfig(profile="fast"),
        DispatchConfig(timeout=1.0),
        DispatchConfig(cooperative=True),
        DispatchConfig(speculation=SpeculationMode.FORCE),
        DispatchConfig(persistent_thread=PersistentThreadMode.FORCE),
    ],
    ids=["profile", "timeout", "cooperative", "speculation", "persistent"],
)
def test_what_it_cannot_do_is_refused_before_anything_runs(backend: ReferenceBackend, config: DispatchConfig) -> None:
    assert refusal(lambda: backend.dispatch(doubled(), [], config))[0] is UnsupportedFeature
    assert backend.metrics() == {"dispatched": 0}


def test_anything_but_a_program_and_push_constants_are_refused(backend: ReferenceBackend) -> None:
    assert refusal(lambda: backend.dispatch("saxpy", [])) == (
        UnsupportedFeature,
        1002,
        "backend 'cpu-ref' has no way to run something of type str. Fix: give a Program.",
    )
    assert refusal(lambda: backend.dispatch(doubled(), [], push_constants={"n": 1}))[0] is InvalidPushConstant


def test_nodes_that_it_does_not_interpret_are_named_and_those_of_subgroups_and_traps_run(backend: ReferenceBackend) -> None:
    resumes = Program.wrapped([OUT], (4, 1, 1), [Resume("t")])
    assert refusal(lambda: backend.dispatch(resumes, [words(0)]))[2].startswith(
        "backend 'cpu-ref' does not run vyre.node.resume (at body[0])."
    )
    summed = Program.wrapped([OUT], (40, 1, 1), [store(OUT, I, subgroup_add(u32(1)))])
    assert set(backend.dispatch(summed, [words(*[0] * 40)])[0].tolist()) == {32, 8}
    trapped = Program.wrapped([OUT], (4, 1, 1), [trap(u32(3), "t")])
    assert refusal(lambda: backend.dispatch(trapped, [words(0)]))[0] is Trapped


def test_a_closed_one_raises_and_a_second_close_does_nothing(backend: ReferenceBackend) -> None:
    backend.close()
    backend.close()
    assert refusal(lambda: backend.dispatch(doubled(), [])) == (
        DispatchFailed,
        1005,
        "the reference interpreter is closed. Fix: acquire it again.",
    )


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        (DispatchConfig(), 3),
        (DispatchConfig(dispatch_elements=0), 3),
        (DispatchConfig(dispatch_elements=13), 4),
        (DispatchConfig(dispatch_elements=1), 3),
        (DispatchConfig(dispatch_elements=100, dispatch_grid=(1, 1, 1)), 1),
        (DispatchConfig(dispatch_grid=(5, 1, 1), grid_override=(2, 1, 1)), 2),
    ],
)
def test_a_dispatch_covers_the_elements_or_the_grid_that_is_asked_for(
    backend: ReferenceBackend, config: DispatchConfig, groups: int
) -> None:
    total = BufferDecl.read_write("total", 0, U32)
    out = BufferDecl.output("y", 1, U32).with_count(12)
    counting = Program.wrapped([total, out], (4, 1, 1), [let("before", atomic_add(total, 0, 1)), store(out, I, u32(1))])
    counted, _ = backend.dispatch(counting, [words(0)], config)
    assert counted.tolist() == [groups * 4]


def test_no_key_and_no_policy_sees_what_only_the_reference_reads() -> None:
    asked = DispatchConfig(dispatch_elements=5, dispatch_grid=(2, 1, 1))
    assert dispatch_policy_digest(asked) == dispatch_policy_digest(DispatchConfig())


@pytest.mark.parametrize(
    ("bits", "upstreams"),
    [(0x7FC0_0001, 0x7FC0_0000), (0xFFFF_FFFF, 0x7FC0_0000), (0x8000_0001, 0x8000_0000), (1, 0), (0x3F80_0000, 0x3F80_0000)],
)
def test_a_literal_keeps_its_bits_unless_upstreams_oracle_is_asked_for(bits: int, upstreams: int) -> None:
    out = BufferDecl.output("y", 0, DataType.F32).with_count(1)
    storing = Program.wrapped([out], (1, 1, 1), [store(out, 0, LitF32(bits))])
    for version, expected in ((None, bits), ("0.7", upstreams)):
        (found,) = interpret(storing, [], upstream=version).outputs
        assert found.view(np.uint32).tolist() == [expected]
    with pytest.raises(InvalidInput, match=r"upstream '0\.8' is not known here"):
        interpret(storing, [], upstream="0.8")
