"""What cooperative matrices need against the shapes that a device names."""

from __future__ import annotations

import array
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from literals import DEVICE, LIMITS, device, refusal
from matrix_modules import BF16, F16, F32, S8, S32, U8, WORKGROUP, Product, built, two_entries

from vyre_driver.errors import LimitExceeded, UnsupportedFeature, VyreError
from vyre_driver.lowering.source import module_source
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.vulkan import CooperativeMatrix2Limits, CooperativeMatrixShape, FlexibleMatrixShape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.vulkan.devices import PhysicalDevice

API_1_3 = 1 << 22 | 3 << 12
FEATURES = frozenset({"cooperativeMatrix", "vulkanMemoryModel", "shaderFloat16"})
FLEXIBLE = FEATURES | {"cooperativeMatrixFlexibleDimensions", "cooperativeMatrixWorkgroupScope"}


def fixed(m: int, n: int, k: int, a: str = "float16", c: str = "float32") -> CooperativeMatrixShape:
    return CooperativeMatrixShape(m, n, k, a, a, c, c, saturating=False, scope="subgroup")


def flexible(m: int, n: int, k: int, invocations: int = 64) -> FlexibleMatrixShape:
    scope = "workgroup" if invocations else "subgroup"
    return FlexibleMatrixShape(m, n, k, "float16", "float16", "float32", "float32", False, scope, invocations)


EIGHTS = device(
    name="Eights",
    features=FEATURES,
    cooperative_matrices=(fixed(8, 8, 8), fixed(8, 8, 8, c="float16"), fixed(8, 8, 8, "sint8", "sint32")),
    flexible_matrices=(),
    cooperative_matrix2=None,
)
BOTH = device(
    name="Both",
    features=FLEXIBLE,
    cooperative_matrices=(fixed(16, 16, 16), fixed(16, 16, 32, "sint8", "sint32"), fixed(16, 8, 16)),
    flexible_matrices=(flexible(32, 16, 16), flexible(64, 32, 16, invocations=128), flexible(16, 16, 16, invocations=0)),
    cooperative_matrix2=CooperativeMatrix2Limits(256, 256, 2048),
)


def compiled(
    product: Product, on: PhysicalDevice, constants: Mapping[str, object] | None = None, *, off: frozenset[str] = frozenset()
) -> object:
    return module_source(built(product), constants, on, on.features - off, API_1_3)


TAKEN: list[tuple[Product, PhysicalDevice]] = [
    (Product(8, 8, 8), EIGHTS),
    (Product(8, 8, 8, types=(F16,) * 4), EIGHTS),
    (Product(8, 8, 8, types=(S8, S8, S32, S32), operands=15), EIGHTS),
    (Product(8, 8, 8, types=(U8, U8, S32, S32), operands=15), EIGHTS),  # the operands say what has a sign
    (Product(8, 8, is_multiplied=False), EIGHTS),
    (Product(16, 16, 16), BOTH),
    (Product(16, 8, 16), BOTH),
    (Product(16, 16, 32, types=(S8, S8, S32, S32), operands=15), BOTH),
    (Product(64, 32, 48), BOTH),
    (Product(256, 256, 256), BOTH),
    (Product(32, 16, 16, scope=WORKGROUP), BOTH),
    (Product(64, 96, 256, scope=WORKGROUP, workgroup=128), BOTH),
    (Product(96, 16, scope=WORKGROUP, is_multiplied=False), BOTH),
]


@pytest.mark.parametrize(("product", "on"), TAKEN, ids=[str(at) for at in range(len(TAKEN))])
def test_shapes_that_the_device_names_are_taken(product: Product, on: PhysicalDevice) -> None:
    assert compiled(product, on) is not None


FIX = "Fix: write the shader for a shape that `vyre-driver devices --json` lists, or choose another device."
HALVES, MOST = "float16 x float16 + float32 -> float32", "of at most 256 rows and columns"
REFUSED: list[tuple[Product, PhysicalDevice, str, str]] = [
    (
        Product(16, 16, 16),
        EIGHTS,
        "multiplies 16x16x16 float16 x float16 + float32 -> float32 (subgroup) in a workgroup of 64",
        "of the 3 that it names the nearest is 8x8x8 float16 x float16 + float32 -> float32 (subgroup)",
    ),
    (
        Product(8, 8, 8, types=(BF16, BF16, F32, F32)),
        EIGHTS,
        "multiplies 8x8x8 bfloat16 x bfloat16 + float32 -> float32 (subgroup) in a workgroup of 64",
        "of the 3 that it names the nearest is 8x8x8 float16 x float16 + float32 -> float32 (subgroup)",
    ),
    (
        Product(8, 8, 8, types=(S8, S8, S32, S32), operands=15 - 1),
        EIGHTS,
        "multiplies 8x8x8 uint8 x sint8 + sint32 -> sint32 (subgroup) in a workgroup of 64",
        "of the 3 that it names the nearest is 8x8x8 sint8 x sint8 + sint32 -> sint32 (subgroup)",
    ),
    (
        Product(8, 8, 8, types=(S8, S8, S32, S32), operands=31),
        EIGHTS,
        "multiplies 8x8x8 sint8 x sint8 + sint32 -> sint32 (subgroup, saturating) in a workgroup of 64",
        "of the 3 that it names the nearest is 8x8x8 sint8 x sint8 + sint32 -> sint32 (subgroup)",
    ),
    (
        Product(8, 16, is_multiplied=False),
        EIGHTS,
        "has a matrix 8x16 of float32 (use accumulator, subgroup) in a workgroup of 64",
        "of the 3 that it names the nearest is 8x8x8 float16 x float16 + float32 -> float32 (subgroup)",
    ),
    (
        Product(64, 24, 16),
        BOTH,
        "multiplies 64x24x16 float16 x float16 + float32 -> float32 (subgroup) in a workgroup of 64",
        f"of the 6 that it names the nearest is multiples of 16x16x16 {HALVES} (subgroup), {MOST}",
    ),
    (
        Product(32, 16, 272),
        BOTH,
        f"multiplies 32x16x272 {HALVES} (subgroup) in a workgroup of 64",
        f"of the 6 that it names the nearest is multiples of 16x16x16 {HALVES} (subgroup), {MOST}",
    ),
    (
        Product(64, 32, 16, scope=WORKGROUP, workgroup=256),
        BOTH,
        "multiplies 64x32x16 float16 x float16 + float32 -> float32 (workgroup) in a workgroup of 256",
        f"of the 6 that it names the nearest is multiples of 64x32x16 {HALVES} (workgroup of 128), {MOST}",
    ),
]


@pytest.mark.parametrize(("product", "on", "asked", "nearest"), REFUSED, ids=[str(at) for at in range(len(REFUSED))])
def test_shapes_that_the_device_does_not_name_are_refused_with_the_nearest_that_it_does(
    product: Product, on: PhysicalDevice, asked: str, nearest: str
) -> None:
    message = f"the shader {asked} invocations, and {on.name!r} names no such shape; {nearest}. {FIX}"
    assert refusal(lambda: compiled(product, on)) == (UnsupportedFeature, 1002, message)


SIZED = Product(("M", 16), ("N", 16), ("K", 16))


def test_the_constants_of_a_compile_decide() -> None:
    message = (
        f"the shader multiplies 16x16x16 {HALVES} (subgroup) in a workgroup of 64 invocations, and "
        "'Eights' names no such shape; of the 3 that it names the nearest is 8x8x8 float16 x float16 + float32 -> float32 "
        "(subgroup). Fix: give specialization constants for a shape that `vyre-driver devices --json` lists, or choose another "
        "device."
    )
    assert refusal(lambda: compiled(SIZED, EIGHTS)) == (UnsupportedFeature, 1002, message)
    assert compiled(SIZED, EIGHTS, {"M": 8, "N": 8, "K": 8}) is not None


@pytest.mark.parametrize(
    "lacking",
    [{"cooperative_matrices": (), "flexible_matrices": ()}, {"cooperative_matrix_stages": 0x10}],
)
def test_a_device_that_names_no_shape_for_compute_takes_none(lacking: dict[str, Any]) -> None:
    on = device(features=FEATURES, **lacking)
    message = (
        f"the shader multiplies 16x16x16 {HALVES} (subgroup) in a workgroup of 64 invocations, and "
        f"{DEVICE.name!r} names no such shape, nor any other. Fix: choose another device."
    )
    assert refusal(lambda: compiled(Product(), on)) == (UnsupportedFeature, 1002, message)


def test_flexible_shapes_count_where_they_are_switched_on_alone() -> None:
    product = Product(64, 32, 48)
    with pytest.raises(UnsupportedFeature, match="of the 3 that it names the nearest is 16x16x16 float16"):
        compiled(product, BOTH, off=frozenset({"cooperativeMatrixFlexibleDimensions"}))
    assert compiled(product, BOTH) is not None


def test_matrices_of_a_workgroup_need_their_feature() -> None:
    product, feature = Product(32, 16, 16, scope=WORKGROUP), "cooperativeMatrixWorkgroupScope"
    off = (
        f"the shader has matrices of a whole workgroup, and {feature} is not switched on. "
        "Fix: make them matrices of a subgroup, or choose another device."
    )
    lacking = (
        f"the shader has matrices of a whole workgroup, and 'Eights' does not have {feature}. "
        "Fix: make them matrices of a subgroup, or choose another device."
    )
    assert refusal(lambda: compiled(product, BOTH, off=frozenset({feature}))) == (UnsupportedFeature, 1002, off)
    assert refusal(lambda: compiled(product, EIGHTS)) == (UnsupportedFeature, 1002, lacking)


def test_a_workgroup_with_matrices_of_its_own_has_a_limit_of_its_own() -> None:
    message = (
        "the shader has matrices of a whole workgroup of 512 invocations, and the device allows 256 with such. "
        "Fix: choose a workgroup of at most 256 invocations."
    )
    given = Product(32, 16, 16, scope=WORKGROUP, workgroup=512)
    assert refusal(lambda: compiled(given, BOTH)) == (LimitExceeded, 2104, message)


def test_shared_memory_that_the_device_keeps_for_such_matrices_is_not_the_shaders() -> None:
    words = (LIMITS.max_compute_shared_memory_size - 2048) // 4
    assert compiled(Product(32, 16, 16, scope=WORKGROUP, shared_words=words), BOTH) is not None
    assert compiled(Product(32, 16, 16, shared_words=words + 1), BOTH) is not None
    message = (
        "the shader's workgroups share 30724 bytes, and the device allows 32768 bytes, of which it keeps 2048 for matrices of "
        "a whole workgroup. Fix: use smaller shared arrays, or matrices of a subgroup."
    )
    given = Product(32, 16, 16, scope=WORKGROUP, shared_words=words + 1)
    assert refusal(lambda: compiled(given, BOTH)) == (LimitExceeded, 2104, message)


def test_factors_that_do_not_fit_together_are_refused_with_their_sizes() -> None:
    message = (
        "the shader multiplies matrices that do not fit together: A 8x8 of float16 (use A, subgroup), B 16x8 of float16 (use "
        "B, subgroup), C 8x8 of float32 (use accumulator, subgroup), result 8x8 of float32 (use accumulator, subgroup). "
        "Fix: make A m x k, B k x n, C and the result m x n, and all of one scope."
    )
    assert refusal(lambda: compiled(Product(8, 8, 8, rows_of_b=16), EIGHTS)) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize("change", [lambda _: 0, lambda _: 0xFFFF_FFFF, lambda word: word + 1, lambda word: word ^ 2])
def test_a_module_with_a_word_changed_is_taken_or_refused(change: Callable[[int], int]) -> None:
    words = array.array("I", built(Product(("M", 32), 16, 16, scope=WORKGROUP, doubled=True)).code)
    for place in range(5, len(words)):
        changed = words[:]
        changed[place] = change(words[place]) & 0xFFFF_FFFF
        with contextlib.suppress(VyreError):
            module_source(SpirvModule.from_bytes(changed.tobytes()), None, BOTH, BOTH.features, API_1_3)


def test_what_another_entry_point_multiplies_does_not_count() -> None:
    code = two_entries(Product(8, 8, 8), Product())
    one, two = (SpirvModule.from_bytes(code, entry=name) for name in ("one", "two"))
    assert module_source(one, None, EIGHTS, EIGHTS.features, API_1_3) is not None
    with pytest.raises(UnsupportedFeature, match="multiplies 16x16x16 float16"):
        module_source(two, None, EIGHTS, EIGHTS.features, API_1_3)
