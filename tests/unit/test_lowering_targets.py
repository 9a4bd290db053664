"""What lowered code relies on, by what the device says and how it was opened, and what no device is given."""

from __future__ import annotations

import pytest
from literals import device

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import BufferDecl, DataType, Program
from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, LoweringTarget
from vyre_driver.lowering.program import prepare, target_for
from vyre_driver.target.config import DispatchConfig
from vyre_driver.target.profile import capabilities_of

VULKAN_1_1, VULKAN_1_2 = 1 << 22 | 1 << 12, 1 << 22 | 2 << 12
NVIDIA, LLVMPIPE, RADV = 4, 13, 3
ALL = frozenset({FLUSH, PRESERVE, ROUND_TO_EVEN, "denormBehaviorIndependence", "roundingModeIndependence"})


@pytest.mark.parametrize(
    ("told", "version", "controls"),
    [
        (ALL, VULKAN_1_2, {FLUSH, PRESERVE, ROUND_TO_EVEN}),
        (ALL, None, {FLUSH, PRESERVE, ROUND_TO_EVEN}),
        (ALL, VULKAN_1_1, set()),  # there it would be an extension, which nobody switches on
        (ALL - {"denormBehaviorIndependence"}, VULKAN_1_2, {PRESERVE, ROUND_TO_EVEN}),
        (ALL - {"roundingModeIndependence"}, VULKAN_1_2, {FLUSH, PRESERVE}),
        ({"shaderDenormPreserveFloat32", "denormBehaviorIndependence"}, VULKAN_1_2, set()),
    ],
)
def test_float_controls_are_used_where_one_width_may_be_told_by_itself(
    told: frozenset[str], version: int | None, controls: set[str]
) -> None:
    found = target_for(device(float_controls=frozenset(told)), {"shaderInt64"}, None, version)
    assert found.features == controls | {"shaderInt64"}


@pytest.mark.parametrize(
    ("driver_id", "options"),
    [
        (NVIDIA, {"fuses": True, "divides": False, "fences": True, "hides": False}),
        (LLVMPIPE, {"fuses": False, "divides": False, "fences": False, "hides": True}),
        (RADV, {"fuses": False, "divides": False, "fences": True, "hides": False}),
    ],
)
def test_what_is_known_of_a_driver_decides_what_is_left_to_it(driver_id: int, options: dict[str, bool]) -> None:
    one = device(driver_id=driver_id, float_controls=frozenset())
    found = [target_for(one, (), config) for config in (None, DispatchConfig(ulp_budget=0), DispatchConfig(ulp_budget=1))]
    assert found == [LoweringTarget(strict=strict, **options) for strict in (True, True, False)]


@pytest.mark.parametrize(
    ("driver_id", "told", "version", "divides"),
    [
        (NVIDIA, ALL, VULKAN_1_2, True),
        (NVIDIA, ALL - {ROUND_TO_EVEN}, VULKAN_1_2, False),  # a third of its quotients would differ
        (NVIDIA, ALL - {"roundingModeIndependence"}, VULKAN_1_2, False),
        (NVIDIA, ALL, VULKAN_1_1, False),
        (RADV, ALL, VULKAN_1_2, False),
    ],
)
def test_quotients_are_the_devices_own_where_that_was_tried_and_it_can_be_told_how_to_round(
    driver_id: int, told: frozenset[str], version: int, *, divides: bool
) -> None:
    assert target_for(device(driver_id=driver_id, float_controls=told), (), None, version).divides is divides


@pytest.mark.parametrize(
    "buffers", [[], [BufferDecl.workgroup("tile", 4, DataType.U32)], [BufferDecl.push("n", 0, DataType.U32)]]
)
def test_a_program_that_binds_nothing_is_refused_by_name(buffers: list[BufferDecl]) -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        prepare(Program.wrapped(buffers, (1, 1, 1), []), None, None, capabilities_of(device()), LoweringTarget())
    assert str(refused.value) == (
        "the program cannot run through kompute, which makes no pipeline without a buffer: "
        f"it declares {len(buffers)}, and 0 of them outside workgroup memory and push constants. Fix: add an output buffer."
    )
    assert refused.value.code == 1002
