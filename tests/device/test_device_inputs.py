"""What may be given in an array's place, on a device: it is read, never written to, and refused when it cannot be read."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from inputs import OnlyArrayInterface, OnlyDLPack
from kernels import STEP
from literals import refusal

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

COUNTED = np.arange(1, 7, dtype=np.uint32)
PUSH = {"factor": 3, "summand": 1}
STEPPED = (3 * COUNTED + 1).tolist()
ADD = """
layout(binding = 0) readonly buffer Left { float left[]; };
layout(binding = 1) readonly buffer Right { float right[]; };
layout(binding = 2) writeonly buffer Sum { float sum[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < sum.length()) sum[i] = left[i] + right[i]; }
"""
# Flips the sign bit of 16-bit floats of any kind.
NEGATE = """
#version 450
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer Values { uint16_t values[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < values.length()) values[i] = uint16_t(uint(values[i]) ^ 0x8000u);
}
""".lstrip()


def read_only(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copied = given.copy()
    copied.flags.writeable = False
    return copied


KINDS: dict[str, Callable[[np.ndarray[Any, Any]], object]] = {
    "an array": np.copy,
    "memoryview": lambda given: memoryview(given.copy()),
    "memoryview of bytes": lambda given: memoryview(given.tobytes()),
    "bytes": lambda given: given.tobytes(),
    "bytearray": lambda given: bytearray(given.tobytes()),
    "array.array": lambda given: array("I" if given.dtype == np.uint32 else "f", given.tolist()),
    "only __array_interface__": lambda given: OnlyArrayInterface(given.copy()),
    "only DLPack": lambda given: OnlyDLPack(given.copy()),
    "read-only": read_only,
    "non-contiguous": lambda given: np.repeat(given, 2)[::2],
    "reversed": lambda given: given[::-1].copy()[::-1],
    "non-contiguous memoryview": lambda given: memoryview(np.repeat(given, 2))[::2],
    "non-contiguous DLPack": lambda given: OnlyDLPack(np.repeat(given, 2)[::2]),
}
each_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def as_list(given: object) -> list[int]:
    """The words that something holds, whatever protocol it speaks."""
    if isinstance(given, (OnlyArrayInterface, OnlyDLPack)):
        given = given.held
    return np.frombuffer(np.ascontiguousarray(given).tobytes(), np.uint32).tolist()  # type: ignore[call-overload, no-any-return]


@each_kind
def test_a_read_write_buffer_takes_it_and_gives_back_a_new_array(
    compiled: CompileText, make: Callable[[np.ndarray[Any, Any]], object]
) -> None:
    given = make(COUNTED)
    got = compiled(STEP)(given, push_constants=PUSH)
    assert (got.tolist(), str(got.dtype), got.shape) == (STEPPED, "uint32", (6,))
    assert as_list(given) == COUNTED.tolist()


@each_kind
def test_a_read_only_buffer_takes_it_beside_an_array(
    compiled: CompileText, make: Callable[[np.ndarray[Any, Any]], object]
) -> None:
    kernel, floats = compiled(ADD), np.arange(6, dtype=np.float32)
    sums = [kernel(*pair, out_shapes={"sum": 6}).tolist() for pair in ((make(floats), floats), (floats, make(floats)))]
    assert sums == [(2 * floats).tolist()] * 2


@each_kind
def test_a_resident_buffer_takes_it(driver: Driver, make: Callable[[np.ndarray[Any, Any]], object]) -> None:
    held = driver.empty(6, np.uint32)
    held.write(make(COUNTED))
    assert (held.read().tolist(), driver.buffer(make(COUNTED)).read().view(np.uint32).tolist()) == ([*range(1, 7)],) * 2


def test_contents_are_read_anew_in_every_call(compiled: CompileText) -> None:
    kernel, given = compiled(STEP), bytearray(8)
    got = []
    for value in (1, 2, 1):
        given[:] = np.full(2, value, np.uint32).tobytes()
        got.append(kernel(given, push_constants=PUSH).tolist())
    assert got == [[4, 4], [7, 7], [4, 4]]


def test_an_array_of_no_axes_comes_back_as_one(compiled: CompileText) -> None:
    kernel = compiled(STEP)
    got = [
        kernel(given, push_constants=PUSH)
        for given in (np.array(5, np.uint32), np.uint32(5), OnlyArrayInterface(np.array(5, np.uint32)))
    ]
    assert [(one.tolist(), one.shape) for one in got] == [(16, ())] * 3


def test_bfloat16_is_taken_by_its_bits_and_comes_back_as_itself(compiled: CompileText) -> None:
    kernel, given = compiled(NEGATE), np.array([1.5, 2, 3], ml_dtypes.bfloat16)
    for _ in range(2):
        got = kernel(given)
        assert (got.tolist(), got.dtype, given.tolist()) == ([-1.5, -2, -3], given.dtype, [1.5, 2, 3])
    assert kernel(given.view(np.uint16)).tolist() == (given.view(np.uint16) ^ 0x8000).tolist()


def test_a_call_that_is_refused_leaves_the_kernel_as_it_was(compiled: CompileText) -> None:
    kernel = compiled(STEP)
    refused = [
        refusal(lambda given=given: kernel(given, push_constants=PUSH))[:2]
        for given in (b"123", OnlyDLPack(COUNTED.copy(), (2, 0)), OnlyArrayInterface(COUNTED.astype(np.float32)), None)
    ]
    assert (refused, kernel(COUNTED, push_constants=PUSH).tolist()) == ([(InvalidInput, 2201)] * 4, STEPPED)


def test_a_buffer_on_another_device_is_refused_for_a_resident_one_too(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="on a DLPack device of type 2, and takes the CPU's memory"):
        driver.buffer(OnlyDLPack(COUNTED.copy(), (2, 0)))


def test_a_resident_buffer_takes_as_many_bytes_as_it_has_and_no_others(driver: Driver) -> None:
    held = driver.buffer(COUNTED)
    with pytest.raises(InvalidInput, match="holds 24 bytes of uint32 and got 20 bytes of uint8"):
        held.write(bytes(20))
    assert held.read().tolist() == COUNTED.tolist()


def test_the_same_arrays_again_take_the_short_way(saxpy: Kernel) -> None:
    """Numpy arrays that were proven once are not proven again; what is not an array is, and gives the same."""
    x = np.arange(6, dtype=np.float32)
    push = {"alpha": 2, "count": 6}
    got = [
        saxpy(*pair, push_constants=push).tolist()
        for pair in ((x, x), (x, x), (x, x.tobytes()), (x[::1], x), (memoryview(x), x))
    ]
    assert got == [(3 * x).tolist()] * 5
