"""Which size of subgroups a device gives to a workgroup, and how each other one is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from literals import device, refusal

from vyre_driver.binding.subgroup_size import check_subgroup_size
from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature, VyreError
from vyre_driver.vulkan.devices import PhysicalDevice, SubgroupSizeControl

BOTH = frozenset({"subgroupSizeControl", "computeFullSubgroups"})
OFFERED = SubgroupSizeControl(min_size=16, max_size=64, max_compute_workgroup_subgroups=4, required_size_stages=0x60)
HAVING = device(name="made", features=BOTH, subgroup_size_control=OFFERED)
ASKED = "the configuration asks for subgroups of 32 invocations, and "


def refused(size: int, workgroup: tuple[int, int, int], on: PhysicalDevice, features: frozenset[str]) -> object:
    return refusal(lambda: check_subgroup_size(size, workgroup, on, features, "'mul'"))


@pytest.mark.parametrize(
    ("size", "workgroup"), [(16, (16, 1, 1)), (64, (64, 1, 1)), (32, (32, 2, 2)), (16, (64, 1, 1)), (64, (256, 1, 1))]
)
def test_what_the_device_offers_passes(size: int, workgroup: tuple[int, int, int]) -> None:
    check_subgroup_size(size, workgroup, HAVING, BOTH, "'mul'")


OUTSIDE = "the configuration asks for subgroups of {} invocations, and those of 'made' have 16 to 64"
MANY = "a workgroup of 'mul' has {} invocations, and the device allows {}: 4 subgroups of {}"
REFUSED: list[tuple[int, tuple[int, int, int], type[VyreError], str, str]] = [
    (8, (8, 1, 1), LimitExceeded, OUTSIDE.format(8), "give a subgroup_size of 16 to 64"),
    (128, (128, 1, 1), LimitExceeded, OUTSIDE.format(128), "give a subgroup_size of 16 to 64"),
    (32, (32, 5, 1), LimitExceeded, MANY.format(160, 128, 32), "choose a smaller workgroup, or a larger subgroup_size"),
    (64, (64, 1, 5), LimitExceeded, MANY.format(320, 256, 64), "choose a smaller workgroup"),
    (
        32,
        (16, 4, 1),
        InvalidDispatchConfig,
        "a workgroup of 'mul' has 16 invocations along x, which fill no whole subgroups of 32",
        "choose a workgroup whose x is a multiple of 32",
    ),
]


@pytest.mark.parametrize(("size", "workgroup", "kind", "problem", "fix"), REFUSED)
def test_a_size_that_does_not_fit_is_refused(
    size: int, workgroup: tuple[int, int, int], kind: type[VyreError], problem: str, fix: str
) -> None:
    assert refused(size, workgroup, HAVING, BOTH) == (kind, kind.code, f"{problem}. Fix: {fix}.")


def test_the_only_size_of_a_device_is_named_as_one() -> None:
    only = replace(HAVING, subgroup_size_control=replace(OFFERED, min_size=64))
    assert refused(32, (64, 1, 1), only, BOTH) == (
        LimitExceeded,
        2104,
        ASKED + "those of 'made' have 64. Fix: give a subgroup_size of 64.",
    )


@pytest.mark.parametrize("feature", sorted(BOTH))
def test_a_device_without_a_feature_is_refused(feature: str) -> None:
    lacking = replace(HAVING, features=BOTH - {feature})
    assert refused(32, (32, 1, 1), lacking, BOTH - {feature}) == (
        UnsupportedFeature,
        1002,
        ASKED + f"'made' does not have {feature}. Fix: leave subgroup_size out.",
    )


@pytest.mark.parametrize("feature", sorted(BOTH))
def test_a_feature_that_is_not_on_is_refused(feature: str) -> None:
    assert refused(32, (32, 1, 1), HAVING, BOTH - {feature}) == (
        UnsupportedFeature,
        1002,
        ASKED + f"{feature} is not switched on. Fix: leave subgroup_size out.",
    )


@pytest.mark.parametrize("offered", [None, replace(OFFERED, required_size_stages=0x40)])
def test_a_device_that_takes_no_size_in_compute_shaders_is_refused(offered: SubgroupSizeControl | None) -> None:
    assert refused(32, (32, 1, 1), replace(HAVING, subgroup_size_control=offered), BOTH) == (
        UnsupportedFeature,
        1002,
        ASKED + "'made' takes no required size in compute shaders (requiredSubgroupSizeStages). Fix: leave subgroup_size out.",
    )
