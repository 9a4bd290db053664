"""Buffers as arrays: shapes, views, fills, copies, and what they refuse."""

from __future__ import annotations

import copy
import random
import threading
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from literals import refusal

from vyre_driver.errors import CopyNeeded, InvalidInput, NotAnArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver import Driver

pytestmark = pytest.mark.device

RECORD = np.dtype([("id", "<u2"), ("weight", "<f4")])
LONG_RECORD = np.dtype([("id", "<u4"), ("values", "<f8", (4,))])
WHOLE = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")
FILLS: list[tuple[str, object, object]] = [  # of a type: a value, and what numpy is to make of it
    *[(kind, 7, 7) for kind in (*WHOLE, "f2", "f4", "f8", "c8", "c16")],
    *[(kind, np.iinfo(kind).min, np.iinfo(kind).min) for kind in WHOLE],
    *[(kind, np.iinfo(kind).max, np.iinfo(kind).max) for kind in WHOLE],
    ("f4", float("nan"), np.nan),
    ("f2", np.float64("inf"), np.inf),
    ("f2", -0.0, -0.0),
    ("c8", 1 - 2j, 1 - 2j),
    ("?", np.True_, True),
    ("?", 1, True),
    ("u1", True, 1),
    ("f4", np.array(2.5), 2.5),
]


@pytest.mark.parametrize("shape", [(), (5,), (0,), (2, 3), (2, 0, 3)])
def test_a_buffer_says_of_itself_what_numpy_says(driver: Driver, shape: tuple[int, ...]) -> None:
    made, twin = driver.zeros(shape, np.uint16), np.zeros(shape, np.uint16)
    names = ("shape", "dtype", "size", "ndim", "itemsize", "nbytes")
    assert [getattr(made, name) for name in names] == [getattr(twin, name) for name in names]
    np.testing.assert_array_equal(made.read(), twin, strict=True)
    if shape:
        assert len(made) == len(twin)
    else:
        with pytest.raises(TypeError, match=r"has no axes, and no length\. Fix: use size\.$"):
            len(made)


def test_slices_of_slices_of_other_shapes_and_types_are_what_numpy_makes_of_them(driver: Driver) -> None:
    twin = np.arange(120, dtype=np.uint16).reshape(4, 5, 6)
    made = driver.buffer(twin)
    steps: list[Callable[[Any], Any]] = [
        lambda one: one[1:],
        lambda one: one[1, 1:4],
        lambda one: one[-1][2, 1:3],
        lambda one: one[2, 3, 4, ...],
        lambda one: one[2:2],
        lambda one: one[...],
        lambda one: one.reshape(-1)[7:67].reshape(3, -1)[1],
        lambda one: one.reshape((2, 60))[1].view(np.uint8)[3:9],
        lambda one: one.view(np.uint32)[3, 1:3].view("f2"),
        lambda one: one[3:].reshape(30).view(np.int16)[-5:],
    ]
    for step in steps:
        found = step(made)
        np.testing.assert_array_equal(found.read(), step(twin), strict=True)
        changed = step(twin) + np.asarray(1, found.dtype)
        found[...] = changed
        step(twin)[...] = changed
        np.testing.assert_array_equal(made.read(), twin, strict=True)


@pytest.mark.parametrize(("kind", "value", "wanted"), FILLS)
def test_a_fill_sets_every_element_of_the_view_and_nothing_else(
    driver: Driver, kind: str, value: object, wanted: object
) -> None:
    dtype = np.dtype(kind)
    for offset, count in ((0, 9), (1, 7), (3, 1), (2, 0), (1, 8)):
        made = driver.buffer(np.full(9 * dtype.itemsize, 0xA5, np.uint8)).view(dtype)
        twin = np.full(9 * dtype.itemsize, 0xA5, np.uint8).view(dtype)
        made[offset : offset + count].fill(value)
        twin[offset : offset + count] = wanted
        assert made.read().tobytes() == twin.tobytes()


def test_numbers_that_numpy_does_not_know_are_filled(driver: Driver) -> None:
    made = driver.zeros(5, ml_dtypes.bfloat16)
    made[1:3].fill(1.5)
    assert made.read().astype(np.float32).tolist() == [0, 1.5, 1.5, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(RECORD, (7, 0.5)), (RECORD, np.array((7, 0.5), RECORD)), (LONG_RECORD, (3, (1, 2, 3, 4))), ("V7", np.void(b"abcdefg"))],
    ids=["tuple", "record", "long record", "bytes"],
)
def test_records_are_filled_and_set_whole(driver: Driver, dtype: Any, value: Any) -> None:  # noqa: ANN401 -- whatever  # noqa: ANN401 -- whatever
    made, twin = driver.zeros(7, dtype), np.zeros(7, dtype)
    assert made.read().tobytes() == twin.tobytes()
    made[1:6].fill(value)
    made[1:6][4:].fill(0)
    made[0] = value
    twin[[0, 1, 2, 3, 4]] = value
    assert made.read().tobytes() == twin.tobytes()


def test_a_long_record_fills_more_than_the_host_gives_at_once(place: tuple[Driver, bool, bool]) -> None:
    twin = np.zeros(10_000, LONG_RECORD)
    made = place[0].buffer(twin)
    made[1:-2].fill((3, (1, 2, 3, 4)))
    twin[1:-2] = (3, (1, 2, 3, 4))
    assert made.read().tobytes() == twin.tobytes()
    assert made.nbytes > 3 << 16


def test_zeros_are_zeros_of_any_type(driver: Driver) -> None:
    for dtype in ("?", "c16", "V33", RECORD, LONG_RECORD):
        assert driver.zeros(3, dtype).read().tobytes() == bytes(3 * np.dtype(dtype).itemsize), dtype


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u1", 256),
        ("u1", -1),
        ("i8", 2**63),
        ("u4", 1.0),
        ("i4", 2**64),
        ("?", 2),
        ("?", 1.0),
        ("f4", 1e300),
        ("f2", 70000),
        ("f4", 1 + 0j),
        ("c8", 1e300),
        ("f8", "1.5"),
        ("f8", b"1.5"),
        ("f8", None),
        ("f8", np.datetime64(5, "s")),
        ("f8", [1.0]),
        ("f8", np.ones((1, 1))),
        ("f8", object()),
        (RECORD, 3),
        (RECORD, (1, 2, 3)),
        (RECORD, (1, "x")),
        (RECORD, np.array((1, 2.0), [("a", "<u2"), ("b", "<f4")])),
    ],
)
def test_what_is_no_value_of_the_type_is_not_filled_in(driver: Driver, dtype: Any, value: object) -> None:  # noqa: ANN401 -- whatever
    made = driver.zeros(3, dtype)
    kind, code, said = refusal(lambda: made.fill(value))
    begin = f"Buffer of shape (3,) and type {made.dtype} cannot be filled with {value!r}"
    assert (kind, code, said.startswith(begin), said.endswith("Fix: give one number of its type.")) == (
        InvalidInput,
        2201,
        True,
        True,
    )
    assert made.read().tobytes() == bytes(made.nbytes)


def test_items_are_set_by_numbers_arrays_bytes_lists_and_buffers(driver: Driver) -> None:
    made, twin = driver.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    row = np.arange(4, dtype=np.float32)
    made[0] = 2.5
    made[1] = row
    made[2, 1:3] = (row + 9)[:2].tobytes()
    made[2, 3] = driver.buffer(np.array(6, np.float32))
    made[2:2] = 5
    twin[0], twin[1], twin[2, 1:3], twin[2, 3] = 2.5, row, [9, 10], 6
    np.testing.assert_array_equal(made.read(), twin, strict=True)


@pytest.mark.parametrize("value", [[[1], [1, 2]], None, "x", [1, 2, 3, 4], np.zeros(3, np.float32), b"abc", object()])
def test_what_does_not_fit_is_not_set(driver: Driver, value: Any) -> None:  # noqa: ANN401 -- whatever
    made = driver.zeros(4, np.float32)
    assert refusal(lambda: made.__setitem__(slice(None), value))[:2] == (InvalidInput, 2201)
    assert made.read().tolist() == [0] * 4


def test_a_shape_that_does_not_fit_is_refused(driver: Driver) -> None:
    made, none = driver.zeros((2, 5), np.uint32), driver.zeros((0, 3), np.uint32)
    fix = "Fix: give lengths whose product is 10; one of them may be -1."
    said = "Buffer of shape (2, 5) and type uint32 has 10 elements, and cannot be reshaped to"
    for shape in ((3,), (-1, -1), (), (True, 10), (-2, -5), (3, -1), (0, -1), (10**30, -1), (2.5, 4)):
        assert refusal(lambda shape=shape: made.reshape(*shape)) == (InvalidInput, 2201, f"{said} {shape!r}. {fix}")
    for one in ("ab", None, 2.5):
        assert refusal(lambda one=one: made.reshape(one)) == (InvalidInput, 2201, f"{said} {one!r}. {fix}")
    assert [none.reshape(*shape).shape for shape in ((-1,), (3, 0), (-1, 3), (0, 7))] == [(0,), (3, 0), (0, 3), (0, 7)]


def test_a_view_as_another_type_takes_whole_elements(driver: Driver) -> None:
    made = driver.buffer(np.arange(12, dtype=np.uint8).reshape(2, 6))
    assert [(one.shape, one.dtype) for one in (made.view("i1"), made.view("<u2"), made.view("V6"), made.view(RECORD))] == [
        ((2, 6), np.int8),
        ((2, 3), np.uint16),
        ((2, 1), np.dtype("V6")),
        ((2, 1), RECORD),
    ]
    assert refusal(lambda: made.view(np.uint32)) == (
        InvalidInput,
        2201,
        (
            "the last axis of Buffer of shape (2, 6) and type uint8 has 6 bytes, which is not a whole number of 4-byte "
            "elements of uint32. Fix: reshape it first."
        ),
    )
    assert refusal(lambda: made[0, 0].view(np.uint16))[:2] == (InvalidInput, 2201)
    for dtype in ("O", "U3", "V0", None, "nonsense", ("u4", 2)):
        assert refusal(lambda dtype=dtype: made.view(dtype))[:2] == (InvalidInput, 2201), dtype


def test_parts_that_overlap_are_copied_as_numpy_copies_them(place: tuple[Driver, bool, bool]) -> None:
    """Both ways, at any byte; and between buffers."""
    chosen = random.Random(7)  # noqa: S311 -- a fixed one
    twins = [np.arange(101, dtype=np.uint8), np.arange(101, 202, dtype=np.uint8)]
    made = [place[0].buffer(twin) for twin in twins]
    for _ in range(60):
        length = chosen.randrange(60)
        here, there = (slice(start, start + length) for start in (chosen.randrange(101 - length) for _ in range(2)))
        one, other = chosen.choice([(0, 0), (0, 0), (0, 1), (1, 0)])
        made[one][here].copy_to(made[other][there])
        twins[other][there] = twins[one][here].copy()
    for buffer, twin in zip(made, twins, strict=True):
        np.testing.assert_array_equal(buffer.read(), twin, strict=True)


def test_a_copy_to_another_driver_goes_through_the_host(driver: Driver) -> None:
    from vyre_driver import Driver as Another

    with Another() as other:
        target = other.zeros((2, 4), np.int16)
        driver.buffer(np.arange(4, dtype=np.int16)).copy_to(target[1])
        target[0] = driver.buffer(np.arange(4, 8, dtype=np.int16))
        assert target.read().tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_a_copy_to_another_shape_type_or_thing_is_refused(driver: Driver) -> None:
    made = driver.zeros(4, np.float32)
    targets = driver.zeros((2, 2), "f4"), driver.zeros(4, "i4"), np.zeros(4, "f4"), None
    for target in targets:
        assert refusal(lambda target=target: made.copy_to(target)) == (
            InvalidInput,
            2201,
            (
                f"Buffer of shape (4,) and type float32 cannot be copied to {target!r}, which is of another shape or type. "
                "Fix: copy it to one of that shape and type; reshape() and view() give views of another."
            ),
        )


def frozen(array: Any) -> Any:  # noqa: ANN401 -- whatever  # noqa: ANN401 -- whatever
    array.flags.writeable = False
    return array


OUTS = {
    "another shape": (lambda: np.zeros(6, "f4"), "out= has shape (6,) and type float32"),
    "another type": (lambda: np.zeros((2, 3), "f8"), "out= has shape (2, 3) and type float64"),
    "transposed": (lambda: np.zeros((3, 2), "f4").T, "is not contiguous"),
    "strided": (lambda: np.zeros((2, 6), "f4")[:, ::2], "is not contiguous"),
    "read-only": (lambda: frozen(np.zeros((2, 3), "f4")), "cannot be written to"),
    "list": (lambda: [[0, 0, 0]] * 2, "out= is of type list"),
    "bytearray": (lambda: bytearray(24), "out= is of type bytearray"),
}


@pytest.mark.parametrize("what", OUTS)
def test_an_array_to_read_into_that_does_not_fit_is_refused(driver: Driver, what: str) -> None:
    make, said = OUTS[what]
    kind, code, message = refusal(lambda: driver.zeros((2, 3), "f4").read(out=make()))
    assert (kind, code, said in message) == (InvalidInput, 2201, True), message


def test_a_read_fills_the_array_that_is_given_and_returns_it(driver: Driver, tmp_path: Any) -> None:  # noqa: ANN401 -- whatever
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = driver.buffer(given)
    whole = np.zeros((4, 3), np.float32)
    mapped = np.memmap(tmp_path / "file", np.float32, "w+", shape=(2, 3))
    for out in (whole[1:3], mapped, np.zeros((2, 3), np.float32)):
        assert made.read(out=out) is out
        assert out.tolist() == given.tolist()
    assert whole[[0, 3]].tolist() == [[0] * 3] * 2
    number, none = np.zeros((), np.float32), np.zeros((0, 3), np.float32)
    assert (made[1, 2].read(out=number) is number, float(number), made[:0].read(out=none) is none) == (True, 5.0, True)


def test_numpy_makes_a_copy_and_only_where_it_may(driver: Driver) -> None:
    made = driver.buffer(np.arange(4, dtype=np.int16))
    found = np.asarray(made)
    found[:] = 9
    assert (made.read().tolist(), np.array(made[1:3]).tolist()) == ([0, 1, 2, 3], [1, 2])
    np.testing.assert_array_equal(np.asarray(made, np.float64), np.arange(4.0), strict=True)
    np.testing.assert_array_equal(made.__array__(np.dtype("i4"), copy=True), np.arange(4, dtype=np.int32), strict=True)
    np.testing.assert_array_equal(np.stack([made, made]), np.array([range(4)] * 2, np.int16), strict=True)  # type: ignore[arg-type]
    assert refusal(lambda: made.__array__(copy=False)) == (
        CopyNeeded,
        2213,
        "Buffer of shape (4,) and type int16 cannot be a numpy array without a copy. Fix: leave copy=False out.",
    )


def test_copies_are_buffers_of_their_own(driver: Driver) -> None:
    made = driver.buffer(np.arange(6, dtype=np.uint32).reshape(2, 3), "numbers")
    part = made[1]
    shallow, deep, inside = copy.copy(part), copy.deepcopy(made), copy.deepcopy([made, made])
    made.fill(0)
    made.close()
    assert inside[0] is inside[1]
    assert [one.read().tolist() for one in (shallow, deep, inside[0])] == [[3, 4, 5]] + [[[0, 1, 2], [3, 4, 5]]] * 2
    assert (shallow.offset, shallow.name) == (0, "numbers")
    assert copy.copy(driver.zeros((2, 0), "f4")).shape == (2, 0)


def test_a_buffer_is_equal_to_itself_alone(driver: Driver) -> None:
    made = driver.zeros(3, "f4")
    others = made[:], copy.copy(made), None, 0
    assert [made == one for one in others] + [one == made for one in others] == [False] * 8
    assert [refusal(call)[0] for call in (lambda: made == np.zeros(3, "f4"), lambda: np.zeros(3, "f4") == made)] == [
        NotAnArray
    ] * 2
    assert (made == made, made != made, len({made, made, made[:]}), {made: 1}[made]) == (True, False, 2, 1)  # noqa: PLR0124 -- what is asked


def test_a_buffer_is_closed_with_its_block(driver: Driver) -> None:
    with driver.zeros(3, "f4") as made, made[1:] as part:
        assert (made.is_closed, part.read().tolist()) == (False, [0, 0])
    assert (made.is_closed, part.is_closed) == (True, True)
    whole = driver.zeros(3, "f4")
    with whole[1:] as part:
        again = part[1:]
    assert (part.is_closed, again.is_closed, whole.is_closed, whole.read().tolist()) == (True, False, False, [0] * 3)


def test_reprs_tell_views_and_what_is_closed(driver: Driver) -> None:
    made = driver.zeros((2, 3), "f4", "a <name>")
    on = f"shape (2, 3), float32, 24 bytes, on {driver.device.name!r}"
    assert repr(made) == f"<vyre_driver.Buffer 'a <name>' {on}>" or repr(made).endswith(f"{on}>")
    part = made[:]
    assert repr(part).endswith(f"{on}, a view>")
    assert ("<td>a view</td>" in part._repr_html_(), "state" in made._repr_html_()) == (True, False)
    made.close()
    assert [repr(one).endswith(f"{on}, closed>") for one in (made, part)] == [True, True]
    assert "<td>closed</td>" in made._repr_html_()


def test_threads_write_disjoint_slices_while_others_read_and_fill(place: tuple[Driver, bool, bool]) -> None:
    """None loses what another wrote, wherever the memory lies; ends of slices lie within words."""
    made = place[0].zeros(8 * 101, np.uint8)
    other = place[0].zeros(8 * 101, np.uint8)
    wrong: list[object] = []

    def work(number: int) -> None:
        part, target = (one[number * 101 : number * 101 + 101] for one in (made, other))
        for turn in range(12):
            wanted = np.full(101, 16 * number + turn, np.uint8)
            if turn % 3:
                part.write(wanted)
            else:
                part.fill(16 * number + turn)
            part.copy_to(target)
            if not (np.array_equal(part.read(), wanted) and np.array_equal(target.read(), wanted)):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends = np.repeat(np.arange(8, dtype=np.uint8) * 16 + 11, 101)
    assert (wrong, np.array_equal(made.read(), ends), np.array_equal(other.read(), ends)) == ([], True, True)
