"""The cooperative matrices that a module names and multiplies, as it is read."""

from __future__ import annotations

import array

import pytest
from assembler import invalid
from literals import F32 as F32_SCALAR
from literals import refusal
from matrix_modules import BF16, E4M3, F16, F32, S8, S32, U8, U32, WORKGROUP, Product, built, two_entries

from vyre_driver.spirv.module import SpirvModule
from vyre_driver.vulkan import CooperativeMatrixShape, FlexibleMatrixShape


def shapes(module: SpirvModule, words: tuple[int, ...] = ()) -> list[str]:
    return [str(one.shape(words)) for one in module.reflection.products]


READ = {
    "16x16x16 float16 x float16 + float32 -> float32 (subgroup)": Product(),
    "8x32x4 float16 x float16 + float32 -> float32 (subgroup)": Product(8, 32, 4),
    "16x16x16 bfloat16 x bfloat16 + float32 -> float32 (subgroup)": Product(types=(BF16, BF16, F32, F32)),
    "16x16x16 float8_e4m3 x float8_e4m3 + float16 -> float32 (subgroup)": Product(types=(E4M3, E4M3, F16, F32)),
    "16x16x16 sint8 x sint8 + sint32 -> sint32 (subgroup)": Product(types=(S8, S8, S32, S32), operands=15),
    "16x16x16 uint8 x sint8 + uint32 -> sint32 (subgroup)": Product(types=(U8, U8, U32, U32), operands=2 | 8),
    "16x16x16 sint8 x sint8 + sint32 -> sint32 (subgroup, saturating)": Product(types=(S8, S8, S32, S32), operands=31),
    "16x16x16 float16 x float16 + float16 -> float16 (workgroup)": Product(types=(F16,) * 4, scope=WORKGROUP),
}


@pytest.mark.parametrize("expected", READ)
def test_a_product_is_read_as_a_device_names_it(expected: str) -> None:
    assert shapes(built(READ[expected])) == [expected]


def test_sizes_are_worked_out_with_the_constants_of_a_compile() -> None:
    module = built(Product(m=("M", 8), n=("N", 8), k=16))
    expected = [
        ["8x8x16 float16 x float16 + float32 -> float32 (subgroup)"],
        ["32x64x16 float16 x float16 + float32 -> float32 (subgroup)"],
    ]
    assert [shapes(module), shapes(module, (32, 64))] == expected
    assert [one.is_specialized for one in module.reflection.products] == [True]


def test_the_same_product_and_the_same_matrix_are_there_once() -> None:
    found = built(Product(doubled=True)).reflection
    assert (len(found.products), len(found.matrices)) == (1, 3)


def test_a_matrix_that_nothing_is_multiplied_with_is_read_too() -> None:
    found = built(Product(m=4, n=8, types=(F16, F16, F32, F32), is_multiplied=False)).reflection
    (matrix,) = found.matrices
    assert (found.products, matrix.size(()), matrix.component, matrix.use.value()) == ((), (4, 8), F32_SCALAR, 2)


@pytest.mark.parametrize("wrong", [{"rows_of_b": 8}, {"uses": (1, 1, 2, 2)}, {"uses": (0, 1, 2, 0)}])
def test_matrices_that_do_not_fit_together_have_no_shape(wrong: dict[str, object]) -> None:
    assert shapes(built(Product(**wrong))) == ["None"]  # type: ignore[arg-type]


def test_an_entry_point_has_the_products_of_its_own_functions() -> None:
    code = two_entries(Product(), Product(8, 8, 8))
    found = {name: shapes(SpirvModule.from_bytes(code, entry=name)) for name in ("one", "two")}
    assert found == {
        "one": ["16x16x16 float16 x float16 + float32 -> float32 (subgroup)"],
        "two": ["8x8x8 float16 x float16 + float32 -> float32 (subgroup)"],
    }


def test_without_the_capability_a_module_is_not_walked() -> None:
    found = built(Product(capabilities=())).interface
    assert found.matrices == ()


def changed(module: SpirvModule, op: int, at: int, word: int) -> bytes:
    """The module's bytes with one operand of its first instruction of an opcode replaced."""
    words = array.array("I", module.code)
    place = 5
    while words[place] & 0xFFFF != op:
        place += words[place] >> 16
    words[place + 1 + at] = word
    return words.tobytes()


def operand(module: SpirvModule, op: int, at: int) -> int:
    words = array.array("I", module.code)
    place = 5
    while words[place] & 0xFFFF != op:
        place += words[place] >> 16
    return words[place + 1 + at]


def test_sizes_and_components_that_are_none_are_refused() -> None:
    module = built(Product())
    matrix, component = operand(module, 4456, 0), operand(module, 4456, 1)
    for at in (2, 3, 4, 5):
        code = changed(module, 4456, at, component)
        problem = f"a size of matrix type %{matrix} does not follow from integers"
        assert refusal(lambda code=code: SpirvModule.from_bytes(code)) == invalid(problem)
    void = operand(module, 19, 0)
    problem = f"%{void} is the type of a matrix's components and is not a scalar"
    assert refusal(lambda: SpirvModule.from_bytes(changed(module, 4456, 1, void))) == invalid(problem)


def test_a_product_of_what_is_no_matrix_is_refused() -> None:
    module = built(Product())
    void = operand(module, 19, 0)
    problem = f"%{void} is multiplied as a cooperative matrix and is none"
    assert refusal(lambda: SpirvModule.from_bytes(changed(module, 4459, 3, void))) == invalid(problem)


def test_the_summary_shows_what_is_multiplied_at_the_constants_defaults() -> None:
    shown = [line for line in str(built(Product(m=("M", 8), doubled=True))).splitlines() if "matrix product" in line]
    assert shown == ["  matrix product 8x16x16 float16 x float16 + float32 -> float32 (subgroup)"]
    assert "  matrix product of matrices that do not fit together" in str(built(Product(rows_of_b=8))).splitlines()


def test_shapes_are_shown_in_a_line() -> None:
    fixed = CooperativeMatrixShape(16, 8, 32, "sint8", "uint8", "sint32", "uint32", saturating=True, scope="subgroup")
    of_workgroup = FlexibleMatrixShape(16, 8, 32, "float16", "float16", "float32", "float32", False, "workgroup", 128)
    of_subgroup = FlexibleMatrixShape(8, 8, 8, "float16", "float16", "float32", "float32", False, "subgroup", 0)
    assert [str(one) for one in (fixed, of_workgroup, of_subgroup)] == [
        "16x8x32 sint8 x uint8 + sint32 -> uint32 (subgroup, saturating)",
        "multiples of 16x8x32 float16 x float16 + float32 -> float32 (workgroup of 128)",
        "multiples of 8x8x8 float16 x float16 + float32 -> float32 (subgroup)",
    ]
