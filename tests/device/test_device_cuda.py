"""Buffers whose memory CUDA sees too: a CUDA of ours imports what lavapipe exports, so that the memory is really the same."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dataclasses
import gc
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from dlpack_consumer import Taken
from kernels import STEP, Spin, glsl
from literals import refusal
from test_device_array_ends import in_a_fork

from vyre_driver import Driver
from vyre_driver.errors import CopyNeeded, DeviceLost, DeviceOutOfMemory, DispatchFailed, InvalidInput, UnsupportedFeature
from vyre_driver.kompute import cuda
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.errors import VyreError

pytestmark = pytest.mark.device

PUSH = {"factor": 2, "summand": 1}
ROOM = "free buffers, and what other libraries keep on the GPU"
COPIES = "copy it with numpy.asarray(buffer) or buffer.read(), or ask for copy=True and dl_device=(1, 0)"
NOT_FOUND = "cannot open shared object file: No such file or directory"
UNDER_LAYER = ["shared with the host", "writable by the host", "out of the host's reach"]
NOTHING = (1, 0, 0, 0)  # contexts retained, contexts current, memory imported, buffers mapped
ONE = (1, 0, 1, 1)


@pytest.fixture
def counts(fake_cuda: Path) -> Callable[[], tuple[int, ...]]:
    """Return what the CUDA of this test holds."""
    loaded, found = ctypes.CDLL(str(fake_cuda)), (ctypes.c_int * 4)()

    def count() -> tuple[int, ...]:
        gc.collect()
        loaded.fake_cuda_counts(found)
        return tuple(found)

    return count


def files() -> list[str]:
    """The file descriptors of this process that are memory, by their targets."""
    targets = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own
            targets.append(str(one.readlink()))
    return [target for target in targets if "memory fd" in target]


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize("place", UNDER_LAYER, indirect=True)
def test_vulkan_and_cuda_see_the_same_memory(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    kernel = driver.compile(glsl(STEP))
    shared = driver.buffer(np.arange(6, dtype=np.uint32).reshape(2, 3), share="cuda")
    taken = Taken(shared.__dlpack__())
    seen = taken.memory
    assert seen.tolist() == [[0, 1, 2], [3, 4, 5]]
    kernel(shared, **PUSH, out=shared)
    assert seen.tolist() == [[1, 3, 5], [7, 9, 11]]
    seen[1] = (20, 30, 40)
    assert shared.read().tolist() == [[1, 3, 5], [20, 30, 40]]
    kernel.bind(shared, **PUSH).run()
    assert seen.tolist() == [[3, 7, 11], [41, 61, 81]]
    shared[0, 1:] = np.array([8, 9], np.uint32)
    shared[1].fill(5)
    assert seen.tolist() == [[3, 8, 9], [5, 5, 5]]
    again = Taken(shared.__dlpack__(stream=1, max_version=(1, 0)))
    assert (again.address, again.said["shape"]) == (taken.address, (2, 3))
    for one in (taken, again):
        one.let_go()


def test_a_capsule_says_type_shape_and_strides_in_the_form_that_is_asked_for(
    opened: Driver, counts: Callable[[], tuple[int, ...]]
) -> None:
    shared = opened.zeros((4, 3, 2), np.float32, share="cuda")
    first = Taken(shared.__dlpack__())
    base = first.address
    parts: list[tuple[Any, dict[str, Any], dict[str, object], int]] = [
        (shared, {}, {"type": (2, 32, 1), "shape": (4, 3, 2), "strides": (6, 2, 1)}, 0),
        (shared[1:3], {}, {"type": (2, 32, 1), "shape": (2, 3, 2), "strides": (6, 2, 1)}, 24),
        (shared[2, 1, 1], {"stream": -1}, {"type": (2, 32, 1), "shape": (), "strides": ()}, 60),
        (shared[3].reshape(-1), {"dl_device": (2, 1)}, {"type": (2, 32, 1), "shape": (6,), "strides": (1,)}, 72),
        (shared[1].view(np.int16), {"copy": False}, {"type": (0, 16, 1), "shape": (3, 4), "strides": (4, 1)}, 24),
        (shared.view(np.uint8)[0, 0], {}, {"type": (1, 8, 1), "shape": (8,), "strides": (1,)}, 0),
        (shared.view(np.complex64), {}, {"type": (5, 64, 1), "shape": (4, 3, 1), "strides": (3, 1, 1)}, 0),
        (shared.view(np.bool_)[0, 0], {}, {"type": (6, 8, 1), "shape": (8,), "strides": (1,)}, 0),
    ]
    for part, asked, said, offset in parts:
        for version, form in ((None, {}), ((0, 8), {}), ((1, 3), {"version": (1, 0), "flags": 0})):
            taken = Taken(part.__dlpack__(max_version=version, **asked))
            assert (taken.said, taken.address - base) == ({"device": (2, 1), **said, **form}, offset)
            taken.let_go()
    assert (shared.__dlpack_device__(), shared[1].__dlpack_device__(), counts()) == ((2, 1), (2, 1), ONE)
    first.let_go()


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize("place", UNDER_LAYER, indirect=True)
def test_the_cpu_and_copies_are_served_as_ever(place: tuple[Driver, bool, bool]) -> None:
    given = np.arange(4, dtype=np.int64)
    shared = place[0].buffer(given, share="cuda")
    for asked in ({"copy": True}, {"dl_device": (1, 0)}, {"copy": True, "dl_device": (1, 0)}):
        taken = Taken(shared.__dlpack__(**asked))  # type: ignore[arg-type]
        assert (taken.memory.tolist(), taken.said["device"]) == (given.tolist(), (1, 0))
        taken.let_go()
    assert (np.asarray(shared).tolist(), copy.copy(shared).__dlpack_device__()) == (
        given.tolist(),
        place[0].buffer(given).__dlpack_device__(),
    )
    named = "Buffer of shape (4,) and type int64"
    assert [
        refusal(lambda: shared.__dlpack__(dl_device=(2, 0))),
        refusal(lambda: shared.__dlpack__(dl_device=(2, 1), copy=True)),
    ] == [
        (
            CopyNeeded,
            2213,
            f"{named} cannot be given to DLPack device (2, 0) without a copy. Fix: {COPIES}.",
        ),
        (CopyNeeded, 2213, f"{named} is not copied for CUDA. Fix: leave copy=True out, and copy what was made of it."),
    ]


@pytest.mark.usefixtures("counts")
def test_a_capsule_comes_when_the_work_before_has_ended(opened: Driver) -> None:
    spin, shared = Spin(opened, 0.1), opened.zeros(4, np.uint32, share="cuda")
    ended = np.from_dlpack(spin.ended)
    before = int(ended[0])
    future = spin.bound.submit()
    taken = Taken(shared.__dlpack__(stream=1))
    assert int(ended[0]) - before == spin.groups
    future.result()
    taken.let_go()


def test_what_cuda_was_given_outlives_buffer_and_driver(counts: Callable[[], tuple[int, ...]]) -> None:
    before = files()
    driver = Driver()
    shared = driver.buffer(np.arange(4, dtype=np.uint32), share="cuda")
    taken, part = Taken(shared.__dlpack__()), Taken(shared[1:].__dlpack__(max_version=(1, 0)))
    allocated = driver.context.device.allocated
    shared.close()
    assert (driver.context.device.allocated, counts(), allocated) == (16, ONE, 16)
    driver.close()
    taken.memory[2] = 7
    assert (part.memory.tolist(), counts()) == ([1, 7, 3], ONE)
    taken.let_go()
    assert (part.memory.tolist(), counts()) == ([1, 7, 3], ONE)
    thread = threading.Thread(target=part.let_go)
    thread.start()
    thread.join()
    assert (counts(), driver.context.device.allocated, files()) == (NOTHING, 0, before)


def test_a_capsule_that_nobody_takes_leaves_nothing(opened: Driver, counts: Callable[[], tuple[int, ...]]) -> None:
    before = files()
    shared = opened.zeros(1024, np.float32, share="cuda")
    capsules = [shared.__dlpack__(), shared.__dlpack__(max_version=(1, 0)), shared[5:].__dlpack__()]
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(shared)  # numpy takes no memory of CUDA's
    del shared
    assert counts() == ONE
    del capsules
    assert (counts(), files()) == (NOTHING, before)


def test_a_buffer_without_elements_is_shared_too(opened: Driver, counts: Callable[[], tuple[int, ...]]) -> None:
    none = opened.empty((2, 0), np.float64, share="cuda")
    taken = Taken(none.__dlpack__())
    assert (taken.said, taken.address) == ({"device": (2, 1), "type": (2, 64, 1), "shape": (2, 0), "strides": (1, 1)}, 0)
    taken.let_go()
    assert (counts(), none.__dlpack_device__()) == (NOTHING, (2, 1))


@pytest.mark.usefixtures("counts")
def test_closed_buffers_and_structures_have_no_capsule(opened: Driver) -> None:
    pairs = opened.empty(2, np.dtype([("x", "f4"), ("y", "f4")]), share="cuda")
    words = opened.empty(2, np.float32, share="cuda")
    words.close()
    assert [refusal(pairs.__dlpack__), refusal(words.__dlpack__)] == [
        (
            InvalidInput,
            2201,
            f"DLPack has no type for elements of {pairs.dtype}. Fix: share a view of numbers: buffer.view(numpy.uint8).",
        ),
        (DispatchFailed, 1005, "the buffer is closed. Fix: make a new one."),
    ]


@pytest.mark.parametrize(
    ("changed", "problem", "fix"),
    [
        (
            {"library": "libno.so.1"},
            f"share='cuda' needs CUDA's driver, and libno.so.1 cannot be loaded (libno.so.1: {NOT_FOUND})",
            "install NVIDIA's driver with CUDA, or leave share out",
        ),
        (
            {"library": "libc.so.6"},
            "share='cuda' needs CUDA's driver, and libc.so.6 is too old ({libc}: undefined symbol: cuInit)",
            "update NVIDIA's driver, or leave share out",
        ),
        (
            {"FAKE_CUDA_FAILS": "cuInit=100"},
            "share='cuda' needs CUDA's driver, and CUDA does not start (cuInit returned CUDA_ERROR_NO_DEVICE (100))",
            "let nvidia-smi show the GPU, or leave share out",
        ),
        (
            {"FAKE_CUDA_UUIDS": "07" * 32},
            "share='cuda' needs a GPU that CUDA sees, and none of the 2 that it sees is {name!r}, UUID {uuid}",
            "open one that CUDA sees (VYRE_DEVICE, CUDA_VISIBLE_DEVICES), or leave share out",
        ),
    ],
)
@pytest.mark.usefixtures("counts")
def test_where_cuda_cannot_see_the_memory_that_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], problem: str, fix: str
) -> None:
    for variable, value in changed.items():
        if variable == "library":
            monkeypatch.setattr(cuda, "_LIBRARY", value)
        else:
            monkeypatch.setenv(variable, value)
    with Driver() as driver:
        name, uuid = driver.device.name, driver.device.device_uuid.hex()
        asked: list[Callable[[], object]] = [
            lambda: driver.empty(0, np.float32, share="cuda"),
            lambda: driver.zeros(4, np.float32, share="cuda"),
            lambda: driver.buffer(np.ones(4), share="cuda"),
        ]
        for ask in asked:
            kind, code, said = refusal(ask)
            said = said.replace(said[said.find("(/") + 1 : said.find(": undefined")], "{libc}") if "{libc}" in problem else said
            expected = f"{problem}. Fix: {fix}."
            assert (kind, code, said.replace(repr(name), "{name!r}").replace(uuid, "{uuid}")) == (
                UnsupportedFeature,
                1002,
                expected,
            )
        assert driver.buffer(np.ones(4)).read().tolist() == [1, 1, 1, 1]


@pytest.mark.usefixtures("counts")
def test_a_device_that_does_not_export_memory_shares_none(opened: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    without = dataclasses.replace(opened.device, extensions=opened.device.extensions - {"VK_KHR_external_memory_fd"})
    monkeypatch.setattr(opened.context.device, "physical", without)
    assert refusal(lambda: opened.empty(4, np.float32, share="cuda")) == (
        UnsupportedFeature,
        1002,
        f"share='cuda' needs VK_KHR_external_memory_fd, and {opened.device.name!r} does not have it. Fix: leave share out.",
    )


@pytest.mark.usefixtures("counts")
def test_nothing_but_cuda_is_shared_with(opened: Driver) -> None:
    assert refusal(lambda: opened.empty(4, np.float32, share="hip")) == (
        InvalidInput,
        2201,
        "share is 'hip', and a buffer is shared with 'cuda' or nobody. Fix: give share='cuda', or leave it out.",
    )


@pytest.mark.parametrize("call", ["cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"])
def test_what_cuda_refuses_is_given_back(
    opened: Driver, counts: Callable[[], tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = files()
    found = []
    for result in (2, 999):
        monkeypatch.setenv("FAKE_CUDA_FAILS", f"{call}={result}")
        found.append(refusal(lambda: opened.empty(4, np.float32, share="cuda")))
    monkeypatch.delenv("FAKE_CUDA_FAILS")
    what = "CUDA cannot take the 16 bytes of a buffer"
    assert found == [
        (
            DeviceOutOfMemory,
            1001,
            f"{what} ({call} returned CUDA_ERROR_OUT_OF_MEMORY (2)). Fix: {ROOM}.",
        ),
        (
            DispatchFailed,
            1005,
            f"{what} ({call} returned an unknown error (999)). Fix: update the GPU's driver, or leave share out.",
        ),
    ]
    assert (counts(), files(), opened.context.device.allocated) == (NOTHING, before, 0)
    assert Taken(opened.zeros(4, np.float32, share="cuda").__dlpack__()).memory.tolist() == [0, 0, 0, 0]


@pytest.mark.usefixtures("_nothing_fails_any_more")
@pytest.mark.parametrize(
    ("call", "result", "kind"),
    [
        ("export", -2, DeviceOutOfMemory),
        ("export", -3, DispatchFailed),
        ("allocate", -2, DeviceOutOfMemory),
        ("create_buffer", -1, DeviceOutOfMemory),
        ("bind", -2, DeviceOutOfMemory),
    ],
)
def test_what_vulkan_does_not_export_leaves_nothing(
    opened: Driver, counts: Callable[[], tuple[int, ...]], call: str, result: int, kind: type[VyreError]
) -> None:
    before = files()
    _layer.inject(call, 1, result)
    raised, _, said = refusal(lambda: opened.empty(4, np.float32, share="cuda"))
    expected = f"{call} failed on {opened.device.name!r} with VkResult {result}"
    assert (raised, said[: len(expected)]) == (kind, expected)
    layer = opened.context.device.layer
    assert (counts(), files(), layer.counters()["memory_live_bytes"]) == (NOTHING, before, 0)
    assert opened.zeros(4, np.float32, share="cuda").read().tolist() == [0, 0, 0, 0]


@pytest.mark.usefixtures("_nothing_fails_any_more", "counts")
def test_a_device_that_is_lost_in_an_export_stays_lost() -> None:
    with Driver() as driver:
        _layer.inject("export", 1, -4)
        found = [refusal(lambda: driver.empty(4, np.float32, share="cuda"))[0] for _ in range(2)]
        assert (found, refusal(lambda: driver.empty(4, np.float32))[0]) == ([DeviceLost, DeviceLost], DeviceLost)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_leaves_cudas_memory_to_its_parent(opened: Driver, counts: Callable[[], tuple[int, ...]]) -> None:
    shared = opened.zeros(4, np.uint32, share="cuda")
    taken = Taken(shared.__dlpack__())

    def let_go() -> object:
        shared.close()
        taken.let_go()
        return counts()

    assert in_a_fork(let_go) == repr(ONE).encode()
    taken.memory[0] = 3
    assert (shared.read().tolist(), counts()) == ([3, 0, 0, 0], ONE)
    taken.let_go()
