"""Floats that numpy does not have, in shaders: bfloat16 and float8 are read as what they are, and take arrays of their bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from assembler import BASE, assemble, invalid, op, reflect
from literals import DEVICE, F32, buffer, device, reflection, refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.lowering.source import module_source
from vyre_driver.spirv.layout import Array, Element, Member, Scalar, Struct, Vector, shape_of_views
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from vyre_driver.spirv.layout import MemoryType

BF16, E4M3, E5M2 = Scalar("bf", 16), Scalar("e4m3", 8), Scalar("e5m2", 8)
# Scalar -> the words of its OpTypeFloat, its capability, the device feature of that.
DECLARED = {
    BF16: (op(22, 5, 16, 0), 5116, "BFloat16TypeKHR", "shaderBFloat16Type"),
    E4M3: (op(22, 5, 8, 4214), 4212, "Float8EXT", "shaderFloat8"),
    E5M2: (op(22, 5, 8, 4215), 4212, "Float8EXT", "shaderFloat8"),
}
OWN = {BF16: ml_dtypes.bfloat16, E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}
API_1_3 = 1 << 22 | 3 << 12


def parts_of(scalar: Scalar) -> dict[str, list[int]]:
    words, capability, _, _ = DECLARED[scalar]
    return {
        "capability": [*op(17, 1), *op(17, capability)],
        "float": words,
        "stride": op(71, 6, 6, scalar.byte_len),
    }


def module_of(scalar: Scalar) -> SpirvModule:
    return SpirvModule.from_bytes(assemble(BASE | parts_of(scalar)))


def plan_of(scalar: Scalar) -> BindingPlan:
    return BindingPlan.from_reflection(reflect(**parts_of(scalar)))


@pytest.mark.parametrize("scalar", DECLARED)
def test_a_buffer_is_read_as_of_the_encoding_that_its_type_has(scalar: Scalar) -> None:
    assert reflect(**parts_of(scalar)).buffers[0].element == Element(scalar.byte_len, scalar, 1)
    assert module_of(scalar).signature == f"kernel(binding_0: {scalar}[n] inout)"


@pytest.mark.parametrize(
    ("words", "bits"),
    [(op(22, 5, 32, 0), 32), (op(22, 5, 8, 0), 8), (op(22, 5, 16, 4214), 16), (op(22, 5, 32, 4215), 32), (op(22, 5, 8), 8)],
)
def test_an_encoding_of_another_width_is_refused(words: list[int], bits: int) -> None:
    assert refusal(lambda: reflect(float=words)) == invalid(f"type %5 is a number of {bits} bits")


def test_a_float_of_an_unknown_encoding_is_refused_as_unknown_and_not_as_invalid() -> None:
    message = (
        "<bytes> has floats of 8 bits in FP encoding 4216, which this driver does not know. "
        "Fix: keep them as unsigned integers of their width."
    )
    assert refusal(lambda: reflect(float=op(22, 5, 8, 4216))) == (UnsupportedFeature, 1002, message)


@pytest.mark.parametrize("scalar", DECLARED)
def test_a_device_without_the_feature_is_told_by_its_name(scalar: Scalar) -> None:
    _, _, capability, feature = DECLARED[scalar]
    message = (
        f"the shader needs {capability}, and {DEVICE.name!r} does not have {feature}. "
        "Fix: rewrite it without, or choose another device."
    )
    module = module_of(scalar)
    assert refusal(lambda: module_source(module, None, DEVICE, (), API_1_3)) == (UnsupportedFeature, 1002, message)
    having = device(features=frozenset({feature}))
    assert module_source(module, None, having, {feature}, API_1_3).plan.bindings[0].element == Element(
        scalar.byte_len, scalar, 1
    )


@pytest.mark.parametrize("scalar", DECLARED)
def test_arrays_of_bits_and_of_ml_dtypes_are_taken_as_they_are_and_come_back_as_given(scalar: Scalar) -> None:
    words = np.dtype(scalar.dtype)
    for dtype in (words, np.dtype(OWN[scalar])):
        (argument,) = plan_of(scalar).check_arguments([np.arange(4, dtype=np.uint8).astype(words).view(dtype)], {})
        assert argument.data is not None
        assert (argument.data.view(words).tolist(), argument.dtype) == ([0, 1, 2, 3], dtype)


@pytest.mark.parametrize("scalar", DECLARED)
def test_raw_bytes_are_elements_and_a_fresh_output_is_bits(scalar: Scalar) -> None:
    (argument,) = plan_of(scalar).check_arguments([bytes(range(4))], {})
    assert (argument.dtype, argument.shape) == (np.dtype(scalar.dtype), (4 // scalar.byte_len,))
    written = BindingPlan.from_reflection(reflection(buffer("x", 0, "w", element=Element(scalar.byte_len, scalar, 1))))
    (fresh,) = written.check_arguments([], {"x": 3})
    assert (fresh.dtype, fresh.shape) == (np.dtype(scalar.dtype), (3,))


OTHERS: list[tuple[Scalar, Any, str]] = [
    (BF16, np.ones(4, np.float16), "float16"),
    (BF16, np.ones(4, np.float32), "float32"),
    (BF16, np.ones(4, np.int16), "int16"),
    (BF16, np.ones(4, ">u2"), ">u2"),
    (BF16, np.ones(4, ml_dtypes.float8_e5m2), "float8_e5m2"),
    (BF16, [1.0, 2.0], "float64"),
    (BF16, [1, 2], "int64"),
    (E4M3, np.ones(4, ml_dtypes.float8_e5m2), "float8_e5m2"),
    (E4M3, np.ones(4, np.float16), "float16"),
    (E5M2, np.ones(4, np.int8), "int8"),
]


@pytest.mark.parametrize(("scalar", "given", "received"), OTHERS, ids=[str(at) for at in range(len(OTHERS))])
def test_arrays_of_other_numbers_are_refused_with_what_keeps_them(scalar: Scalar, given: object, received: str) -> None:
    message = (
        f"input_output 'binding_0' holds {scalar} and got an array of {received}. "
        f"Fix: convert it with .astype(ml_dtypes.{np.dtype(OWN[scalar])}), which keeps the numbers, or pass their bits as "
        f"numpy.uint{scalar.bits}."
    )
    assert refusal(lambda: plan_of(scalar).check_arguments([given], {})) == (InvalidInput, 2201, message)


def test_resident_buffers_are_held_to_the_same() -> None:
    class Resident:
        def __init__(self, dtype: Any) -> None:  # noqa: ANN401 -- a type of numpy
            self.shape, self.dtype, self.nbytes = (4,), np.dtype(dtype), 4 * np.dtype(dtype).itemsize

    plan = plan_of(BF16)
    assert [plan.check_resident([Resident(one)])[0].byte_len for one in (np.uint16, ml_dtypes.bfloat16)] == [8, 8]
    with pytest.raises(InvalidInput, match="holds bf16 and got an array of float16"):
        plan.check_resident([Resident(np.float16)])


def plan_of_block(*members: tuple[str, int, MemoryType]) -> BindingPlan:
    declared = Struct("B", tuple(Member(*one) for one in members), max(offset + found.byte_len for _, offset, found in members))
    header, element, count, least = shape_of_views([declared])
    made = buffer("b", 0, "rw", header_bytes=header, element=element, count=count, least_bytes=least, block=declared)
    return BindingPlan.from_reflection(reflection(made))


HEADED = plan_of_block(("scale", 0, BF16), ("gain", 4, F32), ("y", 8, Array(BF16, None, 2)))


def test_members_of_a_structure_are_given_as_bits_or_as_ml_dtypes_has_them() -> None:
    items = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    expected = np.array([0x4000, 0, 0, 0x3F80, *items.view(np.uint16)], np.uint16).tobytes()
    for scale, y in ((ml_dtypes.bfloat16(2), items), (np.uint16(0x4000), items.view(np.uint16))):
        assert HEADED.pack("b", {"scale": scale, "gain": 1.0, "y": y}).tobytes() == expected


@pytest.mark.parametrize("scale", [2, 2.0, np.float16(2), np.float32(2)])
def test_a_number_for_a_member_that_may_be_value_or_bits_is_refused(scale: object) -> None:
    message = (
        f"member 'scale' of input_output 'b' is bf16, and {scale!r} does not have the bits of one (ml_dtypes.bfloat16, "
        "numpy.uint16). Fix: give bf16."
    )
    given = {"scale": scale, "gain": 1.0, "y": np.zeros(1, np.uint16)}
    assert refusal(lambda: HEADED.pack("b", given)) == (InvalidInput, 2201, message)


def test_an_array_of_halves_for_members_of_bfloat16_is_refused() -> None:
    given = {"scale": np.uint16(0), "gain": 1.0, "y": np.ones(2, np.float16)}
    with pytest.raises(
        InvalidInput, match=r"member 'y' of input_output 'b' is 2 x bf16, and 1\.0 does not have the bits of one"
    ):
        HEADED.pack("b", given)


def test_padded_vectors_take_arrays_of_bits_and_no_halves() -> None:
    plan = plan_of_block(("at", 0, Array(Vector(BF16, 3), None, 8)))
    (argument,) = plan.check_arguments([np.array([(1, 2, 3)], np.uint16)], {})
    assert argument.data is not None
    assert argument.data.tobytes() == bytes([1, 0, 2, 0, 3, 0, 0, 0])
    with pytest.raises(InvalidInput, match=r"Fix: pass uint16 of shape \(n, 3\)"):
        plan.check_arguments([np.ones((1, 3), np.float16)], {})


def test_push_constants_of_such_floats_are_refused() -> None:
    pushed = {
        "decorations": [*op(71, 31, 2), *op(72, 31, 0, 35, 0)],
        "declarations": [*op(22, 34, 16, 0), *op(30, 31, 34), *op(32, 32, 9, 31), *op(59, 32, 35, 9)],
    }
    message = (
        "<bytes> cannot run through kompute: push constant 'member_0' is made of bf16 numbers. "
        "Fix: use float, and convert it in the shader."
    )
    assert refusal(lambda: reflect(**pushed)) == (UnsupportedFeature, 1002, message)


def test_a_default_of_such_a_constant_is_shown_by_its_bits() -> None:
    changed = {"decorations": op(71, 20, 1, 0), "declarations": [*op(22, 34, 16, 0), *op(50, 34, 20, 0x3F80)]}
    module = SpirvModule.from_bytes(assemble(BASE | changed))
    assert module.signature == "kernel(binding_0: f32[n] inout; constant_0: bf16 = 0x3f80)"


def test_a_stub_leaves_the_type_of_such_arrays_open() -> None:
    assert "binding_0: Values" in stub_of(module_of(BF16))
