"""Backends by their interface: what one is that says nothing of itself, the one that runs nothing, and the reference."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
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
from vyre_driver.backends.base import Backend
from vyre_driver.backends.kompute import LOWERED_OPS
from vyre_driver.backends.null import NullBackend
from vyre_driver.backends.reference import interpret
from vyre_driver.backends.reference.backend import ReferenceBackend
from vyre_driver.backends.validate import validate_program
from vyre_driver.errors import (
    DispatchFailed,
    InvalidDispatchConfig,
    InvalidInput,
    InvalidProgram,
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
from vyre_driver.target.config import check_config, check_output_bytes
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.ir import Node


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


BUFFERS = [BufferDecl.read("x", 0, DataType.U32).with_count(8), BufferDecl.output("y", 1, DataType.U32).with_count(8)]
ALLOWED = ", and the device allows {}"
PROFILE = DeviceProfile(
    "toy", max_workgroup_size=(64, 64, 4), max_invocations_per_workgroup=128, max_storage_buffer_binding_size=2**20
)


class Toy(Backend):
    """A backend with no more than it must have."""

    id = "toy"
    said: tuple[Any, ...] = ()

    def dispatch(self, artifact: object, inputs: Sequence[object], config: object = None, **named: object) -> tuple[Any, ...]:
        self.said = (artifact, inputs, config, named)
        return (np.ones(2, np.uint32),)


class Sized(Toy):
    """One with limits."""

    told = PROFILE
    ops = core_supported_ops()

    @property
    def profile(self) -> DeviceProfile:
        return self.told

    @property
    def supported_ops(self) -> frozenset[str]:
        return self.ops

    @property
    def max_grid(self) -> tuple[int, int, int]:
        return (10, 20, 0)


def program(*nodes: Node, size: tuple[int, int, int] = (8, 1, 1)) -> Program:
    return Program.wrapped(BUFFERS, size, nodes or [store("y", gid_x(), load("x", gid_x()))])


def test_a_backend_that_says_nothing_can_nothing() -> None:
    toy = Toy()
    capabilities = {name: getattr(toy, name) for name in dir(Backend) if name.startswith(("supports_", "is_", "device_lost"))}
    assert capabilities == {
        "supports_speculation": False,
        "supports_persistent_threads": False,
        "supports_grid_sync": False,
        "supports_subgroup_sizes": False,
        "supports_resident_buffers": False,
        "supports_async_compute": False,
        "is_distributed": False,
        "device_lost": False,
    }
    assert (toy.version, toy.profile, toy.supported_ops, toy.max_grid, toy.metrics()) == (
        "unspecified",
        DeviceProfile.conservative("toy"),
        core_supported_ops(),
        (1, 1, 1),
        {},
    )


def test_what_kompute_says_it_runs_is_what_the_emitter_has_a_lowering_for() -> None:
    from vyre_driver.lowering.emit.entry import Statements

    parts = SimpleNamespace(memory=None, variables=None)
    handlers = Statements(None, parts, {})._handlers  # type: ignore[arg-type]  # noqa: SLF001 -- the emitter's own table
    assert {one for one in LOWERED_OPS if one.startswith("vyre.node.")} == {node.op_id for node in handlers}
    assert core_supported_ops() > LOWERED_OPS


def test_the_core_operations_are_upstreams_21_without_traps_and_collectives() -> None:
    ops = core_supported_ops()
    assert (len(ops), {"vyre.node.trap", "vyre.node.all_reduce", "vyre.node.async_store"} & ops) == (21, set())


@pytest.mark.parametrize(
    ("call", "feature"),
    [
        (lambda toy: toy.allocate_resident(4), "allocation of resident buffers"),
        (lambda toy: toy.upload_resident(None, b""), "upload to resident buffers"),
        (lambda toy: toy.download_resident(None), "download of resident buffers"),
        (lambda toy: toy.free_resident(None), "freeing of resident buffers"),
        (lambda toy: toy.dispatch_resident(toy.load(None), []), "dispatch on resident buffers"),
    ],
)
def test_what_it_has_not_is_refused_by_name(call: Callable[[Backend], object], feature: str) -> None:
    assert refusal(lambda: call(Toy())) == (
        UnsupportedFeature,
        1002,
        f"backend 'toy' has no {feature}. Fix: choose a backend that has it.",
    )


def test_what_is_loaded_by_default_passes_everything_on() -> None:
    with Toy() as toy:
        loaded = toy.load("artifact", constants={"s": 1}, config=DispatchConfig(label="loaded"))
        outputs = loaded.dispatch([b"x"], push_constants={"p": 2})
        first = toy.said
        timed = loaded.dispatch_timed([], DispatchConfig())
    assert (loaded.id, outputs[0].tolist(), first) == (
        "toy:passthrough",
        [1, 1],
        ("artifact", [b"x"], DispatchConfig(label="loaded"), {"constants": {"s": 1}, "push_constants": {"p": 2}}),
    )
    # Upstream cannot tell a configuration that is all defaults from none.
    assert (toy.said[2], timed.enqueue_ns, timed.wait_ns, timed.device_ns) == (DispatchConfig(), None, None, None)
    assert timed.wall_ns >= 0


@pytest.mark.parametrize(
    ("config", "feature", "fix"),
    [
        (DispatchConfig(profile="fast"), "profile 'fast' of a dispatch", "leave profile out"),
        (DispatchConfig(speculation=SpeculationMode.FORCE), "speculation", "let speculation be AUTO or DISABLE"),
        (
            DispatchConfig(persistent_thread=PersistentThreadMode.FORCE),
            "persistent_thread",
            "let persistent_thread be AUTO or DISABLE",
        ),
        (
            DispatchConfig(cooperative=True),
            "cooperative dispatch",
            "leave cooperative out, and dispatch once for each part between two waits",
        ),
        (DispatchConfig(subgroup_size=32), "subgroup_size", "leave subgroup_size out"),
    ],
)
def test_a_wish_that_cannot_be_kept_is_refused_by_name(config: DispatchConfig, feature: str, fix: str) -> None:
    text = f"backend 'toy' has no {feature}. Fix: {fix}."
    assert refusal(lambda: check_config(Toy(), config)) == (UnsupportedFeature, 1002, text)


def test_wishes_that_can_be_kept_are_kept() -> None:
    check_config(
        Sized(),
        DispatchConfig(
            ulp_budget=4,
            timeout=1.0,
            label="x",
            max_output_bytes=0,
            workgroup_override=(64, 2, 1),
            grid_override=(10, 20, 2**32 - 1),
            fixpoint_iterations=9,
            speculation=SpeculationMode.DISABLE,
            persistent_thread=PersistentThreadMode.DISABLE,
        ),
    )


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            DispatchConfig(workgroup_override=(65, 1, 1)),
            "workgroup_override has 65 invocations along x" + ALLOWED.format(64),
        ),
        (DispatchConfig(workgroup_override=(1, 1, 5)), "workgroup_override has 5 invocations along z" + ALLOWED.format(4)),
        (DispatchConfig(workgroup_override=(64, 3, 1)), "workgroup_override has 192 invocations" + ALLOWED.format(128)),
        (DispatchConfig(grid_override=(1, 21, 1)), "grid_override has 21 workgroups along y" + ALLOWED.format(20)),
    ],
)
def test_an_override_over_a_limit_is_refused_with_both_numbers(config: DispatchConfig, problem: str) -> None:
    kind, code, message = refusal(lambda: check_config(Sized(), config))
    assert (kind, code, message.partition(". Fix:")[0]) == (LimitExceeded, 2104, problem)


def test_something_else_is_no_configuration() -> None:
    text = "the configuration of a dispatch is of type dict. Fix: pass a DispatchConfig."
    assert refusal(lambda: check_config(Toy(), {})) == (InvalidDispatchConfig, 2106, text)  # type: ignore[arg-type]


def test_outputs_may_reach_max_output_bytes_and_not_pass_it() -> None:
    check_output_bytes(DispatchConfig(), 2**60)
    check_output_bytes(DispatchConfig(max_output_bytes=8), 8)
    assert refusal(lambda: check_output_bytes(DispatchConfig(max_output_bytes=8), 9)) == (
        LimitExceeded,
        2104,
        (
            "the outputs of the dispatch have 9 bytes, and max_output_bytes is 8 bytes. "
            "Fix: raise max_output_bytes, or dispatch the work in parts."
        ),
    )


def test_a_program_is_admitted_as_it_is_or_with_its_overridden_workgroup() -> None:
    given = program()
    assert (
        validate_program(Sized(), given, DispatchConfig()),
        validate_program(Sized(), given, DispatchConfig(workgroup_override=(4, 2, 1))),
    ) == (
        given,
        given.with_workgroup_size((4, 2, 1)),
    )


def test_a_program_that_means_nothing_is_refused_before_anything_else_is_asked() -> None:
    kind, _, message = refusal(
        lambda: validate_program(Sized(), program(trap(u32(0), "t"), store("z", 0, u32(0))), DispatchConfig())
    )
    assert (kind, "'z'" in message) == (InvalidProgram, True)


def test_operations_at_every_depth_that_the_backend_does_not_run_are_named_with_their_places() -> None:
    given = program(if_(gid_x() < u32(1), [if_(gid_x() < u32(2), [trap(u32(0), "t")])]))
    kind, code, message = refusal(lambda: validate_program(Sized(), given, DispatchConfig()))
    assert (kind, code, message) == (
        UnsupportedFeature,
        1002,
        (
            "backend 'toy' does not run vyre.node.trap (at body[0].then[0].then[0]). "
            "Fix: choose a backend whose supported_ops has them."
        ),
    )


def test_what_the_device_lacks_is_refused() -> None:
    kind, _, message = refusal(
        lambda: validate_program(Sized(), program(store("y", 0, subgroup_add(u32(1)))), DispatchConfig())
    )
    assert (kind, "the device has no subgroup operations" in message) == (InvalidProgram, True)


def test_a_declared_workgroup_over_the_limit_is_refused_and_an_override_saves_it() -> None:
    given = program(size=(256, 1, 1))
    assert (
        "256 invocations along x, and the device allows 64"
        in refusal(lambda: validate_program(Sized(), given, DispatchConfig()))[2]
    )
    assert validate_program(Sized(), given, DispatchConfig(workgroup_override=(64, 1, 1))).workgroup_size == (64, 1, 1)


def test_a_program_that_was_admitted_is_asked_about_again_for_a_weaker_device_with_the_same_id() -> None:
    given, strong, weak = program(size=(64, 1, 1)), Sized(), Sized()
    weak.told = replace(PROFILE, max_workgroup_size=(32, 32, 1))
    validate_program(strong, given, DispatchConfig())
    assert "the device allows 32" in refusal(lambda: validate_program(weak, given, DispatchConfig()))[2]
    fewer = Sized()
    fewer.ops = core_supported_ops() - {"vyre.node.store"}
    assert "does not run vyre.node.store" in refusal(lambda: validate_program(fewer, given, DispatchConfig()))[2]


def test_a_program_that_was_admitted_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = program()
    validate_program(Sized(), given, DispatchConfig())
    monkeypatch.setattr("vyre_driver.backends.validate.validate", None)
    monkeypatch.setattr("vyre_driver.backends.validate.NodeWalk", None)
    assert validate_program(Sized(), given, DispatchConfig()) is given


def test_what_a_program_remembers_is_bounded() -> None:
    given = program()
    for size in range(1, 65):
        for rows in (1, 2):
            validate_program(Sized(), given, DispatchConfig(workgroup_override=(size, rows, 1)))
    from vyre_driver.backends.validate import program_memo

    assert len(program_memo(given)) == 64


def test_the_null_backend_checks_and_returns_zeros_of_the_right_sizes() -> None:
    with NullBackend() as null:
        outputs = null.dispatch(program(), [np.arange(8, dtype=np.uint32)])
        assert ([(one.dtype, one.tolist()) for one in outputs], null.metrics()) == ([(np.uint32, [0] * 8)], {"dispatched": 1})
        assert null.dispatch("anything", []) == ()
        assert refusal(lambda: null.dispatch(program(), []))[0] is InvalidProgram
        assert refusal(lambda: null.dispatch(program(), [bytes(32)], DispatchConfig(max_output_bytes=31)))[0] is LimitExceeded
        assert null.dispatched == 2
    assert refusal(lambda: null.dispatch(program(), [])) == (
        DispatchFailed,
        1005,
        "the null backend is closed. Fix: acquire it again.",
    )
