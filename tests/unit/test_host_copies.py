"""Copies between arrays and memory of buffers, by their bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from vyre_driver.vulkan.layer._layer import copy_bytes

LONG = 1 << 17  # bytes, more than what is copied with the GIL held


@pytest.mark.parametrize("count", [0, 1, 63, LONG - 1, LONG])
def test_all_bytes_are_copied(count: int) -> None:
    source = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    target = np.full(count + 2, 7, np.uint8)
    copy_bytes(target[1:-1], source)
    np.testing.assert_array_equal(target, [7, *source, 7])


@pytest.mark.parametrize(
    "source",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(2.5),
        np.arange(4, dtype=">f8"),
        np.array([(1, 2.5)], [("a", "<u4"), ("b", "<f4")]),
        np.arange(3, dtype=np.float16),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.zeros((0, 4), np.float32),
    ],
    ids=lambda one: str(one.dtype),
)
def test_arrays_of_any_type_and_shape_are_copied(source: np.ndarray) -> None:
    source.flags.writeable = False
    target = np.empty_like(source)
    copy_bytes(target, source)
    assert target.tobytes() == source.tobytes()


def test_elements_that_other_packages_define_are_copied() -> None:
    source = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    target = np.empty_like(source)
    copy_bytes(target, source)
    assert target.tolist() == [1.5, -2.0]


@pytest.mark.parametrize("count", [(8 << 20) - 1, (8 << 20) + 4097, (33 << 20) + 5])
@pytest.mark.parametrize("shift", [0, 3])
def test_all_bytes_are_copied_by_several_threads(count: int, shift: int) -> None:
    source = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    target = np.full(count + 8, 7, np.uint8)
    copy_bytes(target[4 + shift : 4 + shift + count], source)
    np.testing.assert_array_equal(target[4 + shift :][:count], source)
    assert (set(target[: 4 + shift]), set(target[4 + shift + count :])) == ({7}, {7})


@pytest.mark.parametrize("length", [LONG, 32 << 20])
def test_a_target_may_overlap_its_source(length: int) -> None:
    whole = np.arange(length + 1, dtype=np.uint32).astype(np.uint8)
    expected = whole[:-1].copy()
    copy_bytes(whole[1:], whole[:-1])
    np.testing.assert_array_equal(whole[1:], expected)


@pytest.mark.parametrize(
    ("target", "source", "error", "message"),
    [
        (np.zeros(4, np.uint8), np.zeros(5, np.uint8), ValueError, "5 bytes do not fill 4"),
        (np.zeros(8, np.uint8)[::2], np.zeros(4, np.uint8), ValueError, "not C-contiguous"),
        (np.zeros(4, np.uint8), np.zeros(8, np.uint8)[::2], ValueError, "not C-contiguous"),
        (b"1234", np.zeros(4, np.uint8), BufferError, "not writable"),
        (np.frombuffer(b"1234", np.uint8), np.zeros(4, np.uint8), ValueError, "read-only"),
        ([1], np.zeros(4, np.uint8), TypeError, "bytes-like"),
    ],
    ids=["sizes", "strided target", "strided source", "bytes", "read-only", "a list"],
)
def test_what_cannot_be_copied_is_refused_and_leaves_the_target(
    target: object, source: np.ndarray, error: type[Exception], message: str
) -> None:
    before = bytes(np.asarray(target).tobytes())
    with pytest.raises(error, match=message):
        copy_bytes(target, source)
    assert bytes(np.asarray(target).tobytes()) == before
