"""Every way to use a buffer beside what numpy makes of it, for the tests of order and for the validation layer to watch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from kernels import SHIFT, glsl

from vyre_driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.futures import DispatchFuture

WORDS = 1024
# In place, and late: what it makes of an element it reads at once and writes at the end of its turns.
LATE = """
layout(push_constant) uniform Push { uint turns; };
layout(binding = 0) buffer Values { uint values[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= values.length()) return;
    uint before = values[i];
    uint spun = before;
    for (uint turn = 0u; turn < turns; turn++) spun = spun * 1664525u + 1013904223u;
    values[i] = 3u * before + (spun == 12345u ? 2u : 1u);
}
"""
TURNS = {True: 10_000, False: 200_000}  # by whether the device is a CPU


class Consumer:
    """Has numpy look at a buffer through DLPack, by a copy where there is no other way."""

    def __init__(self, buffer: Buffer) -> None:
        """Look at it."""
        self._buffer = buffer

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        is_seen = self._buffer.__dlpack_device__() == (1, 0)
        return self._buffer.__dlpack__() if is_seen else self._buffer.__dlpack__(copy=True, dl_device=(1, 0))


class Scene:
    """Two buffers, their twins in numpy, and what runs on them that nobody has waited for."""

    def __init__(self, driver: Driver, turns: int | None = None) -> None:
        """Fill them with numbers that no two elements share."""
        self.kernel = driver.compile(glsl(LATE))
        self.shift = driver.compile(glsl(SHIFT))
        self.driver = driver
        self.turns = TURNS[driver.device.is_software] if turns is None else turns
        self.twins = [np.arange(WORDS, dtype=np.uint32) + np.uint32(10_000 * number) for number in range(2)]
        self.buffers = [driver.buffer(twin) for twin in self.twins]
        self.running: list[DispatchFuture] = []
        self.pending = 0
        self._stamps = itertools.count(77)

    def play(self, first: str, second: str, slices: tuple[slice, slice]) -> None:
        """Use slices of the buffer in two ways behind a late kernel, and check all that is read on the way and left."""
        self.submit(slice(None))
        self.pending += not self.running[-1].done()
        for way, part in ((first, slices[0]), (second, slices[1])):
            WAYS[way](self, part)
        for number in range(2):
            np.testing.assert_array_equal(self.buffers[number].read(), self.twins[number], f"{first}, then {second}")
        for future in self.running:
            future.result()
        self.running.clear()

    def stamp(self) -> int:
        """Return a number that was nowhere before."""
        return next(self._stamps)

    def check(self, found: NDArray[Any], part: slice) -> None:
        """Check that this is what the buffer holds now."""
        np.testing.assert_array_equal(found, self.twins[0][part])

    def step(self, part: slice) -> None:
        """Have the twin take the kernel's step."""
        self.twins[0][part] = 3 * self.twins[0][part] + np.uint32(1)

    def submit(self, part: slice) -> None:
        self.running.append(self.kernel.bind(self.buffers[0][part], turns=self.turns).submit())
        self.step(part)

    def call(self, part: slice) -> None:
        self.kernel(self.buffers[0][part], turns=10)
        self.step(part)

    def target(self, part: slice) -> None:
        """A call with an array whose result goes into the buffer."""
        given = np.full(self.twins[0][part].shape, self.stamp(), np.uint32)
        self.kernel(given, turns=10, out=self.buffers[0][part])
        self.twins[0][part] = 3 * given + np.uint32(1)

    def batch(self, part: slice) -> None:
        """Each of its dispatches needs what the one before wrote, or overwrites what that read."""
        batch = self.driver.batch()
        for one in (part, slice(part.start, 640)):
            batch.add(self.kernel.bind(self.buffers[0][one], turns=self.turns // 4))
            batch.add(self.shift.bind(self.buffers[0][one], self.buffers[1][one]))
            self.step(one)
            self.twins[1][one] = 3 * np.roll(self.twins[0][one], -67) + np.uint32(1)
        self.running.append(batch.submit())

    def fill(self, part: slice) -> None:
        value = self.stamp()
        self.buffers[0][part].fill(value)
        self.twins[0][part] = value

    def fill_bytes(self, part: slice) -> None:
        """Fill what begins and ends within words."""
        value = self.stamp() % 256
        inside = slice(4 * part.start + 1, 4 * part.stop - 2)
        self.buffers[0].view(np.uint8)[inside].fill(value)
        self.twins[0].view(np.uint8)[inside] = value

    def copy_in(self, part: slice) -> None:
        self.buffers[1][part].copy_to(self.buffers[0][part])
        self.twins[0][part] = self.twins[1][part]

    def copy_out(self, part: slice) -> None:
        self.buffers[0][part].copy_to(self.buffers[1][part])
        self.twins[1][part] = self.twins[0][part]

    def copy_within(self, part: slice) -> None:
        source, target = slice(part.start, part.stop - 9), slice(part.start + 9, part.stop)
        self.buffers[0][source].copy_to(self.buffers[0][target])
        self.twins[0][target] = self.twins[0][source].copy()

    def write(self, part: slice) -> None:
        given = np.full(self.twins[0][part].shape, self.stamp(), np.uint32)
        self.buffers[0][part] = given
        self.twins[0][part] = given

    def read(self, part: slice) -> None:
        self.check(self.buffers[0][part].read(), part)

    def array(self, part: slice) -> None:
        self.check(np.asarray(self.buffers[0][part]), part)

    def dlpack(self, part: slice) -> None:
        self.check(np.from_dlpack(Consumer(self.buffers[0][part])).copy(), part)


WAYS: dict[str, Callable[[Scene, slice], None]] = {
    "a kernel that is submitted": Scene.submit,
    "a call": Scene.call,
    "a call into it": Scene.target,
    "a batch": Scene.batch,
    "a fill": Scene.fill,
    "a fill of bytes": Scene.fill_bytes,
    "a copy to it": Scene.copy_in,
    "a copy of it": Scene.copy_out,
    "a copy within it": Scene.copy_within,
    "a write": Scene.write,
    "a read": Scene.read,
    "numpy's array": Scene.array,
    "DLPack": Scene.dlpack,
}
# The second begins where no descriptor may.
SLICES = slice(64, 700), slice(301, 901)


def every_pair_in_order() -> None:
    """Use overlapping slices of one buffer in every way, and then in every other."""
    with Driver() as driver:
        scene = Scene(driver, turns=2_000)
        for number, (first, second) in enumerate(itertools.product(WAYS, repeat=2)):
            scene.play(first, second, SLICES if number % 2 else SLICES[::-1])
