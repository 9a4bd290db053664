"""What a module needs against what a device has, sizes of subgroups too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from literals import DEVICE, buffer, device, reflection, refusal

from vyre_driver.binding import requirements
from vyre_driver.binding.subgroup_size import check_subgroup_size
from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature, VyreError
from vyre_driver.spirv.interface import FloatControl
from vyre_driver.spirv.layout import Member, Scalar
from vyre_driver.spirv.opcodes import Capability
from vyre_driver.vulkan.devices import PhysicalDevice, SubgroupSizeControl

if TYPE_CHECKING:
    from vyre_driver.spirv.reflection import Reflection


API_1_1, API_1_2 = 1 << 22 | 1 << 12, 1 << 22 | 2 << 12


def check_requirements(
    given: Reflection, on: PhysicalDevice, features: frozenset[str] = frozenset(), api_version: int = API_1_1
) -> None:
    requirements.check_requirements(given, on, features, api_version)


SUBGROUPS = {
    61: ("GroupNonUniform", 0x1),
    62: ("GroupNonUniformVote", 0x2),
    63: ("GroupNonUniformArithmetic", 0x4),
    64: ("GroupNonUniformBallot", 0x8),
    65: ("GroupNonUniformShuffle", 0x10),
    66: ("GroupNonUniformShuffleRelative", 0x20),
    67: ("GroupNonUniformClustered", 0x40),
    68: ("GroupNonUniformQuad", 0x80),
}


@pytest.mark.parametrize("version", [(1, 0), (1, 1), (1, 2), (1, 3)])
def test_older_spirv_is_accepted(version: tuple[int, int]) -> None:
    check_requirements(reflection(version=version), DEVICE)


def test_capabilities_that_need_no_feature_are_accepted() -> None:
    check_requirements(reflection(capabilities=(0, 1, 43, 44, 46, 47, 49, 50, 4437)), DEVICE)


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        (4423, "SubgroupBallotKHR"),
        (99999, "capability 99999"),
    ],
)
def test_a_capability_whose_feature_is_never_switched_on_is_refused_by_name(capability: int, name: str) -> None:
    message = f"the shader needs {name}, and this driver switches no such feature on. Fix: rewrite it without that capability."
    given = reflection(capabilities=(1, capability))
    assert refusal(lambda: check_requirements(given, DEVICE)) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize("capability", SUBGROUPS)
def test_a_subgroup_capability_is_accepted_where_the_device_has_just_its_operations(capability: int) -> None:
    check_requirements(reflection(capabilities=(1, capability)), device(subgroup_operations=SUBGROUPS[capability][1]))


@pytest.mark.parametrize("capability", SUBGROUPS)
def test_a_subgroup_capability_is_refused_where_the_device_lacks_just_its_operations(capability: int) -> None:
    name, bit = SUBGROUPS[capability]
    message = (
        f"the shader needs {name}, and 'Example GPU 9000' has no such subgroup operations. "
        "Fix: rewrite it without them, or choose another device."
    )
    lacking = device(subgroup_operations=0xFF & ~bit)
    found = refusal(lambda: check_requirements(reflection(capabilities=(1, capability)), lacking))
    assert found == (UnsupportedFeature, 1002, message)


def test_subgroup_operations_of_other_stages_than_compute_do_not_count() -> None:
    message = (
        "the shader needs GroupNonUniform, and 'Example GPU 9000' has no such subgroup operations. "
        "Fix: rewrite it without them, or choose another device."
    )
    graphics_only = device(subgroup_stages=0x1F)
    found = refusal(lambda: check_requirements(reflection(capabilities=(1, 61)), graphics_only))
    assert found == (UnsupportedFeature, 1002, message)


def test_buffers_exactly_at_the_limit_are_accepted() -> None:
    check_requirements(reflection(*(buffer(f"b{at}", at) for at in range(8))), DEVICE)


@pytest.mark.parametrize("bindings", [range(9), [8], [0, 8]])
def test_bindings_over_the_limit_are_refused_gaps_counted(bindings: list[int]) -> None:
    message = "the shader binds 9 storage buffers, and the device allows 8: 'b8' is one too many. Fix: use fewer buffers."
    given = reflection(*(buffer(f"b{at}", at) for at in bindings))
    assert refusal(lambda: check_requirements(given, DEVICE)) == (LimitExceeded, 2104, message)


def test_push_constants_exactly_at_the_limit_are_accepted() -> None:
    check_requirements(reflection(push_constant_bytes=128), DEVICE)


def test_push_constants_over_the_limit_are_refused() -> None:
    message = (
        "the shader's push constants take 132 bytes, the last of them 'beta', and the device allows 128 bytes. "
        "Fix: move some of them into a buffer."
    )
    members = Member("beta", 128, Scalar("f", 32)), Member("alpha", 0, Scalar("f", 32))
    given = reflection(push_constants=members, push_constant_bytes=132)
    assert refusal(lambda: check_requirements(given, DEVICE)) == (LimitExceeded, 2104, message)


def test_shared_memory_exactly_at_the_limit_is_accepted() -> None:
    check_requirements(reflection(shared_bytes=32768), DEVICE)


def test_shared_memory_over_the_limit_is_refused() -> None:
    message = (
        "the shader's workgroups share 32769 bytes, the largest part of them in 'tile', and the device allows 32768 bytes. "
        "Fix: use smaller shared arrays."
    )
    given = reflection(shared_bytes=32769, largest_shared="tile")
    assert refusal(lambda: check_requirements(given, DEVICE)) == (LimitExceeded, 2104, message)


NEEDS = {
    9: ("Float16", "shaderFloat16"),
    10: ("Float64", "shaderFloat64"),
    11: ("Int64", "shaderInt64"),
    12: ("Int64Atomics", "shaderBufferInt64Atomics"),
    22: ("Int16", "shaderInt16"),
    39: ("Int8", "shaderInt8"),
    4433: ("StorageBuffer16BitAccess", "storageBuffer16BitAccess"),
    4434: ("UniformAndStorageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess"),
    4435: ("StoragePushConstant16", "storagePushConstant16"),
    4441: ("VariablePointersStorageBuffer", "variablePointersStorageBuffer"),
    4442: ("VariablePointers", "variablePointers"),
    4448: ("StorageBuffer8BitAccess", "storageBuffer8BitAccess"),
    4449: ("UniformAndStorageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess"),
    4450: ("StoragePushConstant8", "storagePushConstant8"),
    5345: ("VulkanMemoryModel", "vulkanMemoryModel"),
    5346: ("VulkanMemoryModelDeviceScope", "vulkanMemoryModelDeviceScope"),
    6019: ("DotProduct", "shaderIntegerDotProduct"),
    4212: ("Float8EXT", "shaderFloat8"),
    4213: ("Float8CooperativeMatrixEXT", "shaderFloat8CooperativeMatrix"),
    5116: ("BFloat16TypeKHR", "shaderBFloat16Type"),
    5117: ("BFloat16DotProductKHR", "shaderBFloat16DotProduct"),
    5118: ("BFloat16CooperativeMatrixKHR", "shaderBFloat16CooperativeMatrix"),
    5430: ("CooperativeMatrixReductionsNV", "cooperativeMatrixReductions"),
    5431: ("CooperativeMatrixConversionsNV", "cooperativeMatrixConversions"),
    5432: ("CooperativeMatrixPerElementOperationsNV", "cooperativeMatrixPerElementOperations"),
    5433: ("CooperativeMatrixTensorAddressingNV", "cooperativeMatrixTensorAddressing"),
    5434: ("CooperativeMatrixBlockLoadsNV", "cooperativeMatrixBlockLoads"),
    5439: ("TensorAddressingNV", "cooperativeMatrixTensorAddressing"),
    6022: ("CooperativeMatrixKHR", "cooperativeMatrix"),
    6033: ("AtomicFloat32AddEXT", "shaderBufferFloat32AtomicAdd"),
}


@pytest.mark.parametrize("capability", NEEDS)
def test_a_capability_whose_feature_is_switched_on_is_accepted(capability: int) -> None:
    check_requirements(reflection(capabilities=(1, capability)), DEVICE, frozenset({NEEDS[capability][1]}))


@pytest.mark.parametrize("capability", NEEDS)
def test_a_capability_whose_feature_the_device_lacks_is_refused(capability: int) -> None:
    name, feature = NEEDS[capability]
    message = f"the shader needs {name}, and {DEVICE.name!r} does not have {feature}. "
    message += "Fix: rewrite it without, or choose another device."
    found = refusal(lambda: check_requirements(reflection(capabilities=(1, capability)), DEVICE))
    assert found == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize("capability", NEEDS)
def test_a_capability_whose_feature_is_there_and_off_is_refused(capability: int) -> None:
    name, feature = NEEDS[capability]
    having = device(features=frozenset({feature}))
    message = f"the shader needs {name}, and {feature} is not switched on. "
    message += "Fix: rewrite it without, or choose another device."
    found = refusal(lambda: check_requirements(reflection(capabilities=(1, capability)), having))
    assert found == (UnsupportedFeature, 1002, message)


# Vulkan's minor version -> the newest SPIR-V that it takes (Vulkan 1.3, appendix "Vulkan Environment for SPIR-V").
NEWEST = {0: (1, 0), 1: (1, 3), 2: (1, 5), 3: (1, 6), 4: (1, 6)}


def vulkan(minor: int) -> int:
    return 1 << 22 | minor << 12 | 200


@pytest.mark.parametrize("minor", NEWEST)
def test_spirv_as_new_as_the_opened_vulkan_takes_is_accepted(minor: int) -> None:
    check_requirements(reflection(version=NEWEST[minor]), DEVICE, api_version=vulkan(minor))


@pytest.mark.parametrize(("minor", "newer"), [(0, (1, 1)), (1, (1, 4)), (2, (1, 6)), (3, (1, 7)), (3, (2, 0))])
def test_spirv_newer_than_the_opened_vulkan_takes_is_refused(minor: int, newer: tuple[int, int]) -> None:
    most = NEWEST[minor]
    message = (
        f"the module is SPIR-V {newer[0]}.{newer[1]}, and the device is open for Vulkan 1.{minor}, which takes "
        f"at most {most[0]}.{most[1]}. Fix: compile it for Vulkan 1.{minor} (glslangValidator --target-env vulkan1.{minor})."
    )
    found = refusal(lambda: check_requirements(reflection(version=newer), DEVICE, api_version=vulkan(minor)))
    assert found == (UnsupportedFeature, 1002, message)


CONTROLS = {
    4464: "shaderDenormPreserveFloat",
    4465: "shaderDenormFlushToZeroFloat",
    4466: "shaderSignedZeroInfNanPreserveFloat",
    4467: "shaderRoundingModeRTEFloat",
    4468: "shaderRoundingModeRTZFloat",
}
MEMBERS = frozenset(f"{name}{width}" for name in CONTROLS.values() for width in (16, 32, 64))


def controlled(*controls: tuple[int, int], declares: tuple[int, ...] = ()) -> Reflection:
    """A shader that states these float controls, capability and width, and declares these capabilities and theirs."""
    stated = tuple(FloatControl(Capability(one), width) for one, width in controls)
    return reflection(capabilities=(1, *dict.fromkeys((*declares, *(one for one, _ in controls)))), float_controls=stated)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("capability", CONTROLS)
def test_a_float_control_is_accepted_where_the_device_has_just_it_and_refused_where_it_lacks_just_it(
    capability: int, width: int
) -> None:
    member = f"{CONTROLS[capability]}{width}"
    given = controlled((capability, width))
    check_requirements(given, device(float_controls=frozenset({member})), api_version=API_1_2)
    lacking = device(float_controls=MEMBERS - {member})
    message = (
        f"the shader needs {Capability(capability).name} {width}, and 'Example GPU 9000' does not have {member}. "
        "Fix: rewrite it without, or choose another device."
    )
    assert refusal(lambda: check_requirements(given, lacking, api_version=API_1_2)) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize("capability", CONTROLS)
def test_a_float_control_that_is_declared_and_not_stated_is_asked_of_any_width(capability: int) -> None:
    given = controlled(declares=(capability,))
    members = [f"{CONTROLS[capability]}{width}" for width in (16, 32, 64)]
    for member in members:
        check_requirements(given, device(float_controls=frozenset({member})), api_version=API_1_2)
    message = (
        f"the shader needs {Capability(capability).name}, and 'Example GPU 9000' does not have {' or '.join(members)}. "
        "Fix: rewrite it without, or choose another device."
    )
    lacking = device(float_controls=MEMBERS.difference(members))
    assert refusal(lambda: check_requirements(given, lacking, api_version=API_1_2)) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (controlled((4467, 32)), "RoundingModeRTE 32"),
        (controlled(declares=(4464,)), "DenormPreserve"),
        (reflection(float_controls=(FloatControl(Capability.RoundingModeRTZ, 16),)), "RoundingModeRTZ 16"),
    ],
    ids=["both", "declared", "stated"],
)
def test_float_controls_are_refused_before_vulkan_has_them_itself(given: Reflection, needed: str) -> None:
    message = (
        f"the shader needs {needed}, and the device is open for Vulkan 1.1, which has float controls by an extension only "
        "that this driver does not switch on. "
        "Fix: run it on a device and a Vulkan loader of version 1.2 or newer."
    )
    having = device(float_controls=MEMBERS)
    check_requirements(given, having, api_version=API_1_2)
    assert refusal(lambda: check_requirements(given, having)) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize(
    ("stated", "independence", "needed"),
    [
        (((4464, 16), (4465, 32)), "denormBehaviorIndependence", "DenormPreserve 16 and DenormFlushToZero 32"),
        (((4467, 64), (4468, 16)), "roundingModeIndependence", "RoundingModeRTE 64 and RoundingModeRTZ 16"),
    ],
)
def test_widths_differ_only_where_the_device_takes_them_apart(
    stated: tuple[tuple[int, int], ...], independence: str, needed: str
) -> None:
    given = controlled(*stated)
    check_requirements(given, device(float_controls=MEMBERS | {independence}), api_version=API_1_2)
    other = {"denormBehaviorIndependence", "roundingModeIndependence"} - {independence}
    message = (
        f"the shader needs {needed}, and 'Example GPU 9000' takes one of the two for all widths: its {independence} is "
        "VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE. Fix: state the same for all widths, or choose another device."
    )
    alike = device(float_controls=MEMBERS | other)
    assert refusal(lambda: check_requirements(given, alike, api_version=API_1_2)) == (UnsupportedFeature, 1002, message)


def test_widths_that_are_stated_alike_or_left_open_need_no_independence() -> None:
    alike = device(float_controls=MEMBERS)
    check_requirements(controlled((4464, 16), (4464, 32), (4464, 64), (4467, 32), (4466, 64)), alike, api_version=API_1_2)
    check_requirements(controlled((4465, 32), (4468, 16), declares=(4464, 4467)), alike, api_version=API_1_2)


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
