"""Streams give what calls give, chunk by chunk and in order."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from kernels import SHIFT, STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput, KernelFault
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, load, store
from vyre_driver.kompute import memory as memory_module
from vyre_driver.lang import In, Index, InOut, Out, bool_, f32, i32, kernel, u8, u32
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vyre_driver import Driver
    from vyre_driver.runtime.stream import StreamProgress

pytestmark = pytest.mark.device

PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
STEPS = {"factor": 2, "summand": 1}
SIZES = (1000, 1, 63, 1000, 4096, 4097, 1000, 0, 5, 65_537, 1000, 1)
BYTES = """#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint8_t x[]; };
layout(binding = 1) buffer Y { uint16_t y[]; };
layout(binding = 2) writeonly buffer Z { uint8_t z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[i] = uint16_t(y[i] + x[i]);
    if (i < z.length() && i % 3u == 1u) z[i] = uint8_t(x[i] ^ uint8_t(7));
}
"""
ITEMS = """
struct Item { vec3 at; uint id; mat2 turn; };
layout(binding = 0) buffer P { Item items[]; };
layout(binding = 1) writeonly buffer Q { vec3 turned[]; };
void main() {
    uint i = gl_GlobalInvocationID.x; if (i >= items.length()) return;
    turned[i] = items[i].at.zyx; items[i].id += 1u; items[i].turn = transpose(items[i].turn);
}
"""


@kernel
def axpy(i: Index, x: In[f32], y: InOut[f32], z: Out[f32], a: f32) -> None:
    z[i] = a * x[i]
    y[i] = y[i] + 1.0


@kernel
def marked(i: Index, x: In[bool_], y: InOut[bool_], z: Out[bool_], n: Out[u8]) -> None:
    y[i] = x[i] != y[i]
    if i % 3 == 1:
        z[i] = True
    n[i] = u8(i % 200)


@kernel(checks=True)
def gathered(i: Index, at: In[i32], x: In[u32], y: Out[u32]) -> None:
    y[i] = x[at[i]]


def part_of_a_program() -> Program:
    x, y = BufferDecl.read("x", 0, DataType.U32), BufferDecl.output("y", 1, DataType.U32)
    y = y.with_count(4).with_output_byte_range((4, 12))
    return Program.wrapped([x, y], (4, 1, 1), [store("y", gid_x(), load("x", gid_x()))])


def random(size: int, kind: str) -> Any:  # noqa: ANN401 -- an array
    return np.random.default_rng(size).integers(0, 2 if kind == "?" else 200, size).astype(kind)


CASES: dict[str, tuple[Callable[[Driver], Any], Callable[[int], object], dict[str, Any]]] = {
    "words": (lambda driver: driver.compile(glsl(STEP)), lambda size: random(size, "u4"), STEPS),
    "an output of its own": (
        lambda driver: driver.compile(glsl(SHIFT)),
        lambda size: (random(size, "u4"), random(size, "u4")),
        {},
    ),
    "bytes and halves": (
        lambda driver: driver.compile(glsl(BYTES)),
        lambda size: {"x": random(size, "u1"), "y": random(size, "u2"), "out_shapes": {"z": size}},
        {},
    ),
    "structures": (
        lambda driver: driver.compile(glsl(ITEMS)),
        lambda size: {
            "items": [{"at": (one, 2, 3), "id": one, "turn": [(1, 2), (3, one)]} for one in range(min(size, 70))],
            "out_shapes": {"turned": min(size, 70)},
        },
        {},
    ),
    "a program": (lambda driver: driver.compile(part_of_a_program()), lambda size: random(max(4, size), "u4")[:4], {}),
    "Python": (axpy.on, lambda size: (random(size, "f4"), random(size, "f4")), {"a": 2.5}),
    "bools": (marked.on, lambda size: {"x": random(size, "?"), "y": random(size, "?")}, {}),
    "checks": (
        gathered.on,
        lambda size: (np.arange(size, dtype="i4")[::-1].copy(), random(size, "u4")),
        {},
    ),
}


def called(run: Callable[..., Any], chunk: object, named: Mapping[str, Any]) -> object:
    """Return what a call with a chunk gives."""
    if isinstance(chunk, dict):
        return run(**{**named, **chunk})
    return run(*(chunk if isinstance(chunk, tuple) else (chunk,)), **named)


def plain(result: object) -> object:
    """Return types, shapes and values of a result."""
    if isinstance(result, tuple):
        return [plain(one) for one in result]
    array = np.asarray(result)
    return array.dtype, array.shape, repr(array.tolist())


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("case", CASES)
def test_a_stream_gives_what_calls_give(place: tuple[Driver, bool, bool], case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "LONG_BYTES", 15_000)
    driver = place[0]
    if case == "bytes and halves" and "shaderInt16" not in driver.context.device.features:
        return
    make, chunk_of, named = CASES[case]
    run = make(driver)
    sizes = [size for size in SIZES if size or case not in {"structures", "a program"}]
    expected = [plain(called(run, chunk_of(size), named)) for size in sizes]
    for strict in ({}, {"strict": True}) if case == "words" else ({},):
        assert [plain(one) for one in driver.stream(run, map(chunk_of, sizes), **named, **strict)] == expected
    assert [plain(one) for one in driver.stream(run, iter([]), **named)] == []


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_kernels_are_given_chunks_by_turns_in_every_form(place: tuple[Driver, bool, bool], tmp_path: Path) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    pinned = driver.pinned(100, "u4")
    pinned[:] = 3
    mapped = np.memmap(tmp_path / "chunk", np.uint32, "w+", shape=(100,))
    mapped[:] = 4
    table = np.arange(1000, dtype=np.uint32).reshape(10, 100)
    chunks: list[Any] = [
        pinned,
        mapped,
        (table[0],),
        table[:, 0],
        [np.uint32(7)] * 5,
        table[3].tobytes(),
        pinned[::7],
        memoryview(table[4]),
    ]
    chunks += [
        {"values": table[1], "workgroups": 1},
        {"values": table[2], "factor": 5, "label": "mine"},
        {"values": table[5], "invocations": 3},
    ]
    expected = [plain(called(step, chunk, STEPS)) for chunk in chunks]
    assert [plain(one) for one in driver.stream(step, (chunk for chunk in chunks * 3), **STEPS)] == expected * 3
    assert [plain(one) for one in driver.stream(step, table, **STEPS)] == [plain(2 * row + 1) for row in table]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_results_are_written_to_the_arrays_of_out(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    rows, out = np.arange(90, dtype=np.uint32).reshape(9, 10), np.zeros((9, 10), np.uint32)
    assert all(np.shares_memory(one, row) for one, row in zip(driver.stream(step, rows, out=out, **STEPS), out, strict=True))
    assert (out == 2 * rows + 1).all()
    found = list(driver.stream(step, rows, out=[None, *out[1:8], None], **STEPS))
    assert ([one.tolist() for one in found], [np.shares_memory(one, out) for one in found]) == (
        (2 * rows + 1).tolist(),
        [False, *[True] * 7, False],
    )
    named = list(
        driver.stream(axpy, [(np.ones(4, "f4"), np.ones(4, "f4")) for _ in range(6)], out=np.zeros((6, 4), "f4"), a=3.0)
    )
    assert [[one.tolist() for one in pair] for pair in named] == [[[2.0] * 4, [3.0] * 4]] * 6


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_one_of_several_results_is_written_to_an_array_and_begins_with_zeros(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    halves = driver.compile(glsl(BYTES))
    inputs = [(np.full(9, number, "u1"), np.full(9, number, "u2")) for number in range(6)]
    seconds = np.full((6, 9), 77, np.uint8)
    targets = list(seconds)
    results = list(driver.stream(halves, inputs, out=[(None, one) for one in targets]))
    assert [second is one for (_, second), one in zip(results, targets, strict=True)] == [True] * 6
    assert [first.tolist() for first, _ in results] == [[2 * number] * 9 for number in range(6)]
    assert seconds.tolist() == [[0, number ^ 7, 0] * 3 for number in range(6)]


@pytest.mark.parametrize("place", ["shared with the host"], indirect=True)
def test_out_that_ends_early_is_told_where_it_ends(place: tuple[Driver, bool, bool]) -> None:
    step, rows = place[0].compile(glsl(STEP)), np.zeros((9, 10), np.uint32)
    stream = place[0].stream(step, rows, out=np.ones((6, 10), np.uint32), **STEPS)
    assert [next(stream).tolist() for _ in range(6)] == [[1] * 10] * 6
    assert refusal(lambda: next(stream)) == (
        InvalidInput,
        2201,
        "out of the stream has ended after 6, and there is another chunk. Fix: give one for each chunk.",
    )
    assert len(list(place[0].stream(step, rows[:2], out=np.ones((6, 10), np.uint32), **STEPS))) == 2


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_fault_that_a_kernel_finds_is_raised_in_the_place_of_its_chunk(place: tuple[Driver, bool, bool]) -> None:
    x = np.arange(10, dtype=np.uint32)
    chunks = [(np.full(10, number, np.int32), x) for number in (3, 4, 5, 10, 6, 7)]
    stream = place[0].stream(gathered, chunks)
    assert [next(stream).tolist() for _ in range(3)] == [[3] * 10, [4] * 10, [5] * 10]
    with pytest.raises(KernelFault) as fault:
        next(stream)
    assert (fault.value.context["chunk"], stream.finished, list(stream)) == (3, 3, [])


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_progress_is_told_after_each_chunk_with_the_bytes_that_were_moved(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    told: list[StreamProgress] = []
    inputs = [{"from": np.zeros(size, "u4"), "out_shapes": {"to": size + 1}} for size in (4, 10, 3)]
    stream = driver.stream(driver.compile(glsl(SHIFT)), inputs, on_progress=told.append)
    assert (operator.length_hint(stream), len(list(stream)), operator.length_hint(stream)) == (3, 3, 0)
    moved = [(16, 20), (56, 64), (68, 80)]
    assert [(one.chunks, one.total, one.bytes_to_device, one.bytes_from_device) for one in told] == [
        (number, 3, *both) for number, both in enumerate(moved, start=1)
    ]
    assert sorted(one.seconds for one in told) == [one.seconds for one in told]
    unknown = driver.stream(driver.compile(glsl(STEP)), (one for one in [np.zeros(1, "u4")]), on_progress=told.append, **STEPS)
    assert (operator.length_hint(unknown), len(list(unknown)), told[-1].total) == (0, 1, None)


def test_a_progress_bar_goes_along_with_a_stream(layered: Driver) -> None:
    track: Any = imported("rich.progress").track
    rows = np.zeros((5, 10), np.uint32)
    assert len(list(track(layered.stream(layered.compile(glsl(STEP)), rows, **STEPS), disable=True))) == 5


@pytest.mark.parametrize("how", ["1", "python"])
def test_what_is_interpreted_is_interpreted_in_a_stream_too(layered: Driver, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, dispatches in (("0", 12), (how, 0)):
        monkeypatch.setenv("VYRE_INTERPRET", value)
        before = layered.events.counts()[EventKind.DISPATCH]
        check_axpy(layered)
        assert layered.events.counts()[EventKind.DISPATCH] - before == dispatches


def check_axpy(driver: Driver) -> None:
    """Stream through a Python kernel, twice six chunks."""
    chunks = [(np.full(4, number, "f4"), np.ones(4, "f4")) for number in range(6)]
    for out in (None, np.zeros((6, 4), "f4")):
        found = list(driver.stream(axpy, [(x, y.copy()) for x, y in chunks], out=out, a=3.0))
        assert [[one.tolist() for one in pair] for pair in found] == [[[2.0] * 4, [3.0 * number] * 4] for number in range(6)]
