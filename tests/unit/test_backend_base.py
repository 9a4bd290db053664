"""What a backend is when it says nothing of itself, what it may be wished, and the one that runs nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver.backends import core_supported_ops
from vyre_driver.backends.base import Backend
from vyre_driver.backends.kompute import LOWERED_OPS
from vyre_driver.backends.null import NullBackend
from vyre_driver.backends.validate import validate_program
from vyre_driver.errors import DispatchFailed, InvalidDispatchConfig, InvalidProgram, LimitExceeded, UnsupportedFeature
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    gid_x,
    if_,
    load,
    store,
    subgroup_add,
    trap,
    u32,
)
from vyre_driver.target.config import DispatchConfig, PersistentThreadMode, SpeculationMode, check_config, check_output_bytes
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir import Node

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
