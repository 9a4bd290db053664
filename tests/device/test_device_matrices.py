"""Cooperative matrices on a device that has them: lavapipe from Mesa 26 on, or a GPU."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matrix_modules import Product, built
from matrix_products import ArrayProduct, product_module

from vyre_driver.errors import UnsupportedFeature

if TYPE_CHECKING:
    from conftest import RunChild
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.vulkan import CooperativeMatrixShape, PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.matrices]

LAVAPIPE = 13
NAMED_BY_LAVAPIPE = [
    "8x8x8 float16 x float16 + float16 -> float16 (subgroup)",
    "8x8x8 float16 x float16 + float32 -> float32 (subgroup)",
    "8x8x8 sint8 x sint8 + sint32 -> sint32 (subgroup)",
    "8x8x8 uint8 x uint8 + uint32 -> uint32 (subgroup)",
]
NUMBERS = {
    "float16": np.float16,
    "float32": np.float32,
    "sint8": np.int8,
    "uint8": np.uint8,
    "sint32": np.int32,
    "uint32": np.uint32,
}
# What factors are drawn from, by types of a and c: sums of 96 products are exact, and many in float32 are beyond float16.
DRAWN = {
    ("float16", "float32"): (-100, 101),
    ("float16", "float16"): (-4, 5),
    ("sint8", "sint32"): (-128, 128),
    ("uint8", "uint32"): (0, 256),
}


def named_shape(device: PhysicalDevice, a: str, c: str) -> CooperativeMatrixShape:
    """The first shape of a subgroup that the device names for these types."""
    wanted = ((a, a, c, c), False, "subgroup")
    found = [one for one in device.cooperative_matrices if (one.types, one.saturating, one.scope) == wanted]
    if not found:
        pytest.skip(f"{device.name} names no {a} x {a} + {c} -> {c} (subgroup)")
    return found[0]


def check_product(driver: Driver, product: ArrayProduct) -> None:
    """Check that the device's product of drawn integers is numpy's."""
    shape, numbers = product.shape, np.random.default_rng(26)
    (m, n), k = product.size, product.depth
    a, b = (numbers.integers(*DRAWN[shape.a, shape.result], size).astype(NUMBERS[shape.a]) for size in ((m, k), (k, n)))
    right = (a.astype(np.int64) @ b.astype(np.int64)).astype(NUMBERS[shape.result])
    kernel = driver.compile(product_module(product, driver.device.subgroup_size))
    given, expected = [laid_out(a, "a", product), laid_out(b, "b", product)], laid_out(right, "c", product)
    found = np.asarray(kernel(*given, out_shapes={"c": expected.shape}, workgroups=product.workgroups))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def laid_out(array: NDArray[np.generic], name: str, product: ArrayProduct) -> NDArray[np.generic]:
    return np.ascontiguousarray(array.T if name in product.by_columns else array)


def test_lavapipe_names_products_of_eights(physical_device: PhysicalDevice) -> None:
    if physical_device.driver_id != LAVAPIPE:
        pytest.skip(f"{physical_device.name} is not lavapipe")
    assert sorted(map(str, physical_device.cooperative_matrices)) == NAMED_BY_LAVAPIPE


def test_a_child_process_has_the_device_of_the_tests(physical_device: PhysicalDevice, run_cli: RunChild) -> None:
    done = run_cli("devices", "--json")
    assert (done.status, done.complaint) == (0, [])
    devices = {one["name"]: len(one["cooperative_matrices"]) for one in json.loads(done.stdout)["devices"]}
    assert devices[physical_device.name] == len(physical_device.cooperative_matrices)


@pytest.mark.parametrize("by_columns", ["", "a", "b", "abc"])
@pytest.mark.parametrize("types", DRAWN, ids="-".join)
def test_a_product_of_matrices_is_numpys(opened: Driver, types: tuple[str, str], by_columns: str) -> None:
    check_product(opened, ArrayProduct(named_shape(opened.device, *types), 2, 3, 3, by_columns))


def test_a_product_of_a_multiple_of_a_named_shape_is_numpys_where_sizes_are_flexible(opened: Driver) -> None:
    device = opened.device
    halves = ("float16", "float16", "float32", "float32")
    found = [one for one in device.flexible_matrices if (one.types, one.saturating, one.scope) == (halves, False, "subgroup")]
    if not found:
        pytest.skip(f"{device.name} takes no multiples of a shape of float16 for a subgroup")
    named = named_shape(device, "float16", "float32")
    check_product(opened, ArrayProduct(dataclasses.replace(named, m=2 * found[0].m, n=found[0].n, k=2 * found[0].k), 4, 3, 2))


def test_a_fragment_that_the_device_does_not_name_is_refused(opened: Driver) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        opened.compile(built(Product(3, 5, 7)))
    device = opened.device
    said, nearest = str(caught.value).split("the nearest is ")
    assert said == (
        "the shader multiplies 3x5x7 float16 x float16 + float32 -> float32 (subgroup) in a workgroup of 64 invocations, and "
        f"{device.name!r} names no such shape; of the {len(device.matrix_shapes(flexible=True))} that it names "
    )
    shape, fix = nearest.split(". Fix: ")
    assert shape.partition(", of at most ")[0] in map(str, device.matrix_shapes(flexible=True))
    assert fix == "write the shader for a shape that `vyre-driver devices --json` lists, or choose another device."
