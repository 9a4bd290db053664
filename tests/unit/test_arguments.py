"""What may be given for a buffer: each kind of thing that holds numbers, and what is no such thing."""

from __future__ import annotations

import ctypes
import mmap
from array import array
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from inputs import OnlyArrayInterface, OnlyDLPack
from literals import UINTS, buffer, reflection, refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Element, Scalar

if TYPE_CHECKING:
    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.spirv.reflection import BufferInterface

FLOATS = np.array([1.5, -2, 3], np.float32)
Y = buffer("y", 0, "rw")
WORDS = buffer("words", 0, "rw", element=UINTS)
SHORTS = buffer("shorts", 0, "rw", element=Element(2, Scalar("u", 16), 1))
HALVES = buffer("halves", 0, "rw", element=Element(2, Scalar("f", 16), 1))
BYTES = buffer("bytes", 0, "rw", element=Element(1, Scalar("u", 8), 1))
RAW = buffer("raw", 0, "rw", element=Element(12, None, 12))


def taken(declared: BufferInterface, given: object) -> BufferArgument:
    (found,) = BindingPlan.from_reflection(reflection(declared)).check_arguments([given], {})
    return found


def told(declared: BufferInterface, given: object) -> tuple[object, ...]:
    found = taken(declared, given)
    assert found.data is not None
    return found.data.tolist(), found.shape, str(found.dtype), found.data.flags.c_contiguous


def mapped(data: bytes) -> mmap.mmap:
    anonymous = mmap.mmap(-1, len(data))
    anonymous[:] = data
    return anonymous


TYPED = {
    "memoryview": memoryview(FLOATS),
    "array.array": array("f", FLOATS.tolist()),
    "ctypes": (ctypes.c_float * 3)(*FLOATS.tolist()),
    "array interface": OnlyArrayInterface(FLOATS),
    "DLPack": OnlyDLPack(FLOATS.copy()),
    "a subclass": FLOATS.view(np.recarray),
    "read-only": np.frombuffer(FLOATS.tobytes(), np.float32),
    "strided": np.repeat(FLOATS, 2)[::2],
    "reversed": FLOATS[::-1].copy()[::-1],
    "strided memoryview": memoryview(np.repeat(FLOATS, 2))[::2],
    "strided DLPack": OnlyDLPack(np.repeat(FLOATS, 2)[::2]),
}
UNTYPED = {
    "bytes": FLOATS.tobytes(),
    "bytearray": bytearray(FLOATS.tobytes()),
    "memoryview of bytes": memoryview(FLOATS.tobytes()),
    "every second byte": memoryview(np.repeat(FLOATS.view(np.uint8), 2))[::2],
    "array.array of bytes": array("B", FLOATS.tobytes()),
    "ctypes characters": ctypes.create_string_buffer(FLOATS.tobytes(), 12),
    "mmap": mapped(FLOATS.tobytes()),
    "bytes of two axes": memoryview(FLOATS.tobytes()).cast("B", (3, 4)),
}


@pytest.mark.parametrize("given", [*TYPED.values(), *UNTYPED.values()], ids=[*TYPED, *UNTYPED])
def test_whatever_holds_the_numbers_is_read_as_an_array_of_them(given: object) -> None:
    assert told(Y, given) == ([1.5, -2, 3], (3,), "float32", True)


@pytest.mark.parametrize("given", TYPED.values(), ids=TYPED)
def test_numbers_of_another_type_are_not_taken_for_bytes(given: object) -> None:
    kind, code, text = refusal(lambda: taken(WORDS, given))
    assert (kind, code) == (InvalidInput, 2201)
    assert text.startswith("input_output 'words' holds uint32 and got an array of float32. Fix: ")


@pytest.mark.parametrize("given", [*TYPED.values(), *UNTYPED.values()], ids=[*TYPED, *UNTYPED])
def test_a_raw_buffer_takes_every_one_of_them(given: object) -> None:
    assert taken(RAW, given).byte_len == 12


@pytest.mark.parametrize("given", UNTYPED.values(), ids=UNTYPED)
def test_bytes_that_are_no_whole_elements_are_refused(given: Any) -> None:  # noqa: ANN401 -- what a caller may give
    wide = buffer("wide", 0, "r", element=Element(8, Scalar("f", 64), 1))
    message = "input 'wide' has 12 bytes, which is not a whole number of 8-byte elements. Fix: pass whole elements."
    assert refusal(lambda: taken(wide, given)) == (InvalidInput, 2201, message)


def test_no_bytes_are_refused() -> None:
    message = "input_output 'y' has 0 bytes, less than the 4 bytes of one element. Fix: pass at least one element."
    assert refusal(lambda: taken(Y, b"")) == (InvalidInput, 2201, message)


def test_an_array_of_bytes_has_a_type_and_is_not_taken_for_anothers_bytes() -> None:
    with pytest.raises(InvalidInput, match="holds float32 and got an array of uint8"):
        taken(Y, FLOATS.view(np.uint8))


@pytest.mark.parametrize("given", [FLOATS.view(np.uint8), np.uint8(7), memoryview(FLOATS), "text", 7, None])
def test_only_what_has_no_type_of_its_own_is_raw(given: object) -> None:
    assert raw_bytes(given) is None


@pytest.mark.parametrize(
    ("given", "shape"),
    [(np.array(7, np.float32), ()), (np.float32(7), ()), (OnlyArrayInterface(np.array(7, np.float32)), ())],
)
def test_an_array_of_no_axes_is_one_element(given: object, shape: tuple[int, ...]) -> None:
    assert told(Y, given) == ([7], shape, "float32", True)


@pytest.mark.parametrize("name", ["memoryview", "array.array", "ctypes", "array interface", "DLPack", "read-only"])
def test_what_lies_in_one_piece_is_not_copied(name: str) -> None:
    found = taken(Y, TYPED[name]).data
    again = taken(Y, TYPED[name]).data
    assert found is not None
    assert again is not None
    assert np.shares_memory(found, again)


@pytest.mark.parametrize("name", ["strided", "strided memoryview", "strided DLPack"])
def test_what_does_not_lie_in_one_piece_is_copied(name: str) -> None:
    found = taken(Y, TYPED[name]).data
    assert found is not None
    assert not np.shares_memory(found, as_array(TYPED[name]))


@pytest.mark.parametrize(
    ("declared", "dtype"), [(SHORTS, ml_dtypes.bfloat16), (BYTES, ml_dtypes.float8_e4m3fn), (BYTES, ml_dtypes.float8_e5m2)]
)
def test_an_array_of_ml_dtypes_is_taken_by_its_bits_and_keeps_its_type(declared: BufferInterface, dtype: Any) -> None:  # noqa: ANN401
    given = np.array([1, -2, 0.5], dtype)
    found = taken(declared, given)
    assert found.data is given
    assert (found.dtype, found.shape, found.element_count) == (np.dtype(dtype), (3,), 3)


@pytest.mark.parametrize(
    ("declared", "given", "holds", "got"),
    [
        (HALVES, np.zeros(2, ml_dtypes.bfloat16), "float16", "bfloat16"),
        (WORDS, np.zeros(2, ml_dtypes.bfloat16), "uint32", "bfloat16"),
        (SHORTS, np.zeros(2, ml_dtypes.float8_e4m3fn), "uint16", "float8_e4m3fn"),
        (SHORTS, np.zeros(2, np.float16), "uint16", "float16"),
    ],
)
def test_bits_are_taken_only_as_unsigned_words_of_their_own_width(
    declared: BufferInterface, given: object, holds: str, got: str
) -> None:
    with pytest.raises(InvalidInput, match=f"holds {holds} and got an array of {got}"):
        taken(declared, given)


@pytest.mark.parametrize(
    ("device", "type_number"),
    [((2, 0), 2), ((3, 0), 3), ((13, 0), 13), ((10, 1), 10)],
    ids=["CUDA", "pinned", "managed", "ROCm"],
)
def test_memory_of_a_device_is_refused_by_its_number(device: tuple[int, int], type_number: int) -> None:
    assert refusal(lambda: taken(Y, OnlyDLPack(FLOATS.copy(), device))) == (
        InvalidInput,
        2201,
        (
            f"input_output 'y' got an array of type OnlyDLPack on a DLPack device of type {type_number}, and takes the CPU's "
            "memory (type 1). Fix: copy it to the CPU first, for example with .cpu() or .get()."
        ),
    )


class OnDevice(OnlyArrayInterface):
    """Speaks numpy's protocol too, and lies on a device all the same."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_memory_of_a_device_is_refused_before_its_contents_are_asked_for() -> None:
    with pytest.raises(InvalidInput, match="on a DLPack device of type 2"):
        taken(Y, OnDevice(FLOATS))


class Failing:
    """An exporter that cannot."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        raise self.error


class NoPair(Failing):
    """An exporter on no device."""

    def __dlpack_device__(self) -> Any:  # noqa: ANN401 -- deliberately wrong
        return None


@pytest.mark.parametrize("error", [BufferError("read-only"), RuntimeError("requires grad"), TypeError("no"), ValueError("no")])
def test_an_exporter_that_fails_is_refused_with_its_reason(error: Exception) -> None:
    message = (
        f"input_output 'y' got something that is not an array ({error}). "
        "Fix: pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack."
    )
    assert refusal(lambda: taken(Y, Failing(error))) == (InvalidInput, 2201, message)


@pytest.mark.parametrize("given", [NoPair(ValueError()), OnlyDLPack(FLOATS.astype(">f4")), released := memoryview(b"1234")])
def test_a_broken_object_is_refused(given: object) -> None:
    released.release()
    assert refusal(lambda: taken(Y, given))[:2] == (InvalidInput, 2201)


@pytest.mark.parametrize("given", [None, object(), {1.0}, {"a": 1}])
def test_what_holds_no_numbers_is_refused(given: object) -> None:
    message = "input_output 'y' got an array of Python objects. Fix: pass an array of numbers."
    assert refusal(lambda: taken(Y, given)) == (InvalidInput, 2201, message)


def test_a_resident_buffer_of_ml_dtypes_is_taken_by_its_bits() -> None:
    class Held:
        dtype = np.dtype(ml_dtypes.bfloat16)
        nbytes = 8
        shape = (4,)

    (found,) = BindingPlan.from_reflection(reflection(SHORTS)).check_resident([Held()])
    assert (found.dtype, found.byte_len) == (np.dtype(ml_dtypes.bfloat16), 8)
