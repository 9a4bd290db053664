"""How the floats and the bounds of a program are lowered, as its configuration says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from literals import device
from spirv_machine import decoded

from vyre_driver.autotune.target import program_space, program_target
from vyre_driver.errors import InvalidDispatchConfig, UnsupportedFeature
from vyre_driver.identity.keys import policy_fields
from vyre_driver.ir import BufferDecl, DataType, Program, atomic_add, buf_len, f32, fma, gid_x, if_, let, load, store
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed
from vyre_driver.lowering.emit.target import STRICT_VERSION, LoweringTarget
from vyre_driver.lowering.program import prepare, target_for
from vyre_driver.spirv.opcodes import Decoration, Ins, Op
from vyre_driver.target.config import DispatchConfig, ProgramConfig, check_supported_fields
from vyre_driver.target.profile import capabilities_of

if TYPE_CHECKING:
    from conftest import Lower

F32, U32 = DataType.F32, DataType.U32
X, Y = BufferDecl.read("x", 0, F32), BufferDecl.read_write("y", 1, F32)
SHARED, PUSHED = BufferDecl.workgroup("shared", 8, F32), BufferDecl.push("pushed", 2, F32, 4)
I = gid_x()  # noqa: E741 -- as kernels have it
ROBUST = frozenset({"robustBufferAccess"})


def decided(config: DispatchConfig | None) -> tuple[bool, bool, bool]:
    """Whether floats are strict, whether a product and a sum are joined, whether indices are checked."""
    found = target_for(device(float_controls=frozenset()), ROBUST, config)
    return found.strict, found.contracts, found.checks


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        (None, (True, False, True)),
        (DispatchConfig(ulp_budget=1), (False, False, True)),
        (ProgramConfig(), (True, False, True)),
        (ProgramConfig(ulp_budget=1), (False, False, True)),
        (ProgramConfig(floats="exact"), (True, False, True)),
        (ProgramConfig(floats="exact", ulp_budget=1), (True, False, True)),
        (ProgramConfig(floats="device"), (False, False, True)),
        (ProgramConfig(floats="fast"), (False, True, True)),
        (ProgramConfig(bounds="robust"), (True, False, False)),
        (ProgramConfig(floats="fast", bounds="robust"), (False, True, False)),
    ],
)
def test_a_configuration_decides_how_a_program_is_lowered(
    config: DispatchConfig | None, modes: tuple[bool, bool, bool]
) -> None:
    assert decided(config) == modes


def test_upstreams_policy_does_not_know_of_it() -> None:
    plain, more = DispatchConfig(ulp_budget=1), ProgramConfig(ulp_budget=1, floats="fast", bounds="robust")
    assert (policy_fields(more), plain == more) == (policy_fields(plain), False)
    assert replace(more, workgroup_override=(1, 1, 1)).floats == "fast"


def test_it_stands_in_the_key_under_names_that_tell() -> None:
    found = [LoweringTarget(contracts=one, checks=not one).options() for one in (False, True)]
    same = {"strict": STRICT_VERSION, "fuses": 1, "divides": 0, "fences": 1, "hides": 0}
    assert found == [{**same, "contracts": 0, "checks": 1}, {**same, "contracts": 1, "checks": 0}]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"floats": "quick"},
            "floats of the dispatch is 'quick', which is none of 'exact', 'device', 'fast'. Fix: give one of them.",
        ),
        ({"bounds": None}, "bounds of the dispatch is None, which is none of 'checked', 'robust'. Fix: give one of them."),
        ({"bounds": True}, "bounds of the dispatch is True, which is none of 'checked', 'robust'. Fix: give one of them."),
    ],
)
def test_another_word_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDispatchConfig) as refused:
        ProgramConfig(**wrong)
    assert str(refused.value) == message


def test_bounds_are_left_to_a_device_only_where_it_keeps_them() -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        target_for(device(), (), ProgramConfig(bounds="robust"))
    assert str(refused.value) == (
        "the configuration asks for bounds = 'robust', and robustBufferAccess is not on for 'Example GPU 9000'. "
        "Fix: set VYRE_ROBUST_ACCESS=1 before the driver is opened, or leave bounds at 'checked'."
    )


def test_a_module_is_lowered_already() -> None:
    with pytest.raises(UnsupportedFeature, match="asks for floats = 'fast', which compile does not keep for a module"):
        check_supported_fields(ProgramConfig(floats="fast"), {"ulp_budget"}, "module")
    check_supported_fields(ProgramConfig(ulp_budget=1), {"ulp_budget"}, "module")


FLOATS = Program.wrapped(
    [X, Y],
    (64, 1, 1),
    [store(Y, 0, load(X, 0) * load(X, 1) + load(X, 2)), store(Y, 1, fma(load(X, 0), load(X, 1), load(X, 2)))],
)
MODES = {
    "exact": LoweringTarget(),
    "device": LoweringTarget(strict=False),
    "fast": LoweringTarget(strict=False, contracts=True),
}


@pytest.mark.parametrize(("mode", "kept", "flushes"), [("exact", 2, True), ("device", 2, False), ("fast", 0, False)])
def test_a_product_and_a_sum_are_joined_in_fast_floats_only(lower: Lower, mode: str, kept: int, *, flushes: bool) -> None:
    found = decoded(lower(FLOATS, (), MODES[mode]).code)
    exact = [one for opcode, one in found if opcode == Op.Decorate and one[1] == Decoration.NO_CONTRACTION]
    opcodes = [opcode for opcode, _ in found]
    assert (len(exact), Ins.BitwiseAnd in opcodes, opcodes.count(Ins.FMul), opcodes.count(Ins.FAdd)) == (kept, flushes, 1, 1)


ACCESSES = {
    "a load": ([let("a", load(X, I))], 0),
    "a store": ([store(Y, I, f32(1.0))], 0),
    "an atomic": ([let("a", atomic_add("n", I, 1))], 0),
    "workgroup memory": ([store(SHARED, I, f32(1.0))], 1),
    "what is pushed": ([store(Y, 0, load(PUSHED, I))], 1),
    "a guard of the program": ([if_(buf_len(Y) > I, [store(Y, I, f32(1.0))])], 1),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_without_checks_those_are_left_that_the_device_does_not_do(lower: Lower, name: str) -> None:
    nodes, left = ACCESSES[name]
    made = Program.wrapped([X, Y, BufferDecl.read_write("n", 3, U32), SHARED, PUSHED], (64, 1, 1), nodes)
    found = []
    for target in (LoweringTarget(), LoweringTarget(checks=False)):
        opcodes = [opcode for opcode, _ in decoded(lower(made, (), target).code)]
        found.append(sum(opcodes.count(one) for one in (Ins.ULessThan, Ins.UGreaterThan)))
    assert (found[1], found[0] >= 1) == (left, True)


UNGUARDED = Program.wrapped([Y], (64, 1, 1), [store(Y, I, f32(1.0))])
GUARDED = Program.wrapped([Y], (64, 1, 1), [if_(buf_len(Y) > I, [store(Y, I, f32(1.0))])])


def test_a_write_out_of_range_binds_a_program_to_its_workgroup_where_nobody_checks() -> None:
    free = [why_workgroup_is_fixed(one, is_checked=checked) for one in (UNGUARDED, GUARDED) for checked in (True, False)]
    assert free == [None, "invocations past the last element may write to 'y'", None, None]
    sizes = []
    for checked in (True, False):
        prepared = prepare(UNGUARDED, None, None, capabilities_of(device()), LoweringTarget(checks=checked))
        sizes.append(len(program_target(prepared, None, device()).space.axes[0].values))
    assert sizes == [len(program_space(UNGUARDED).axes[0].values), 1] == [6, 1]


def test_records_of_tuning_are_for_one_way_of_lowering() -> None:
    prepared = prepare(GUARDED, None, None, capabilities_of(device()), LoweringTarget())
    configs = [None, ProgramConfig(), DispatchConfig(ulp_budget=1), ProgramConfig(ulp_budget=1)]
    configs += [ProgramConfig(floats=one) for one in ("exact", "device", "fast")] + [ProgramConfig(bounds="robust")]
    found = [program_target(prepared, one, device()).identity() for one in configs]
    assert [len(set(found)), len({found[0], found[1], found[4]}), found[2] == found[3]] == [5, 1, True]
