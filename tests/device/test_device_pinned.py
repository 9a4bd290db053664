"""Arrays in pinned memory: the device copies from and to them itself, and they outlive it."""

from __future__ import annotations

import functools
import gc
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import Spin
from lacking_devices import lack_features
from literals import refusal

from vyre_driver import Driver, kernels
from vyre_driver.errors import DeviceLost, DeviceOutOfMemory, DispatchFailed, DispatchTimeout, InvalidInput, UnsupportedFeature
from vyre_driver.kompute import pinned as pinned_module
from vyre_driver.kompute.array_dispatch import RecordedDispatch
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RunChild
    from numpy.typing import NDArray

pytestmark = pytest.mark.device

LAYERED = ["shared with the host", "writable by the host", "out of the host's reach"]
APART = LAYERED[1:]
COUNT = 150_000  # 600 KB: pinned arrays of this length are copied by the device, also where the host writes its memory
NEVER = Deadline(None, "the device")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each copy that the host makes."""
    lengths: list[int] = []
    copy = _layer.copy_bytes

    def counted(target: Any, source: Any) -> None:  # noqa: ANN401 -- buffers
        lengths.append(memoryview(target).nbytes)
        copy(target, source)

    monkeypatch.setattr(_layer, "copy_bytes", counted)
    return lengths


@pytest.fixture
def spin(place: tuple[Driver, bool, bool]) -> Spin:
    """Work that outlasts a wait of the host, under the layer."""
    return Spin(place[0], 0.2)


def counting(driver: Driver, count: int = COUNT) -> NDArray[np.float32]:
    """A pinned array of 0, 1, 2, ..."""
    made = driver.pinned(count, np.float32)
    made[:] = np.arange(count)
    return made


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_a_pinned_array_is_an_array_of_zeros(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    made = driver.pinned((3, 5), "u2")
    assert (made.tolist(), made.dtype, made.flags.c_contiguous, made.flags.writeable) == ([[0] * 5] * 3, np.uint16, True, True)
    made[1] = 7
    assert (made.sum(), driver.pinned((), "f4").shape, driver.pinned((0, 3), "f4").shape) == (35, (), (0, 3))
    large = driver.pinned((3, 1 << 20), "f4")
    assert (large.ctypes.data % (1 << 21), large.any()) == (0, False)


@pytest.mark.parametrize("place", APART, indirect=True)
def test_the_device_copies_pinned_arrays_itself(place: tuple[Driver, bool, bool], copied: list[int]) -> None:
    driver = place[0]
    source, target = counting(driver), driver.pinned(COUNT, "f4")
    buffer = driver.buffer(source)
    assert buffer.read(out=target) is target
    assert (target == np.arange(COUNT)).all()
    source[:] += 1
    buffer.write(source)
    buffer[5:].read(out=target[5:])
    assert (target[:5].tolist(), (target[5:] == source[5:]).all()) == ([0, 1, 2, 3, 4], True)
    assert copied == []
    assert (buffer.read() == source).all()
    assert copied == [4 * COUNT]


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_calls_take_pinned_arrays_between_others(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    saxpy = kernels.saxpy(driver)
    x, y, out = counting(driver), np.ones(COUNT, np.float32), driver.pinned(COUNT, "f4")
    for _ in range(2):
        assert saxpy(x, y, alpha=2.0, out=out) is out
        assert (out == 2 * np.arange(COUNT) + 1).all()
        x[:] -= 1
        assert (saxpy(x, y, alpha=1.0) == np.arange(COUNT)).all()
        x[:] += 1
    assert (x == np.arange(COUNT)).all()


@pytest.mark.parametrize("place", APART, indirect=True)
def test_a_call_with_pinned_arrays_copies_nothing_by_the_host(place: tuple[Driver, bool, bool], copied: list[int]) -> None:
    driver = place[0]
    saxpy = kernels.saxpy(driver)
    x, y, out = counting(driver), counting(driver), driver.pinned(COUNT, "f4")
    saxpy(x, y, alpha=2.0, out=out)
    assert ((out == 3 * np.arange(COUNT)).all(), copied) == (True, [])


@pytest.mark.parametrize("place", APART, indirect=True)
def test_copies_of_pinned_arrays_take_effect_in_the_order_of_submission(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver = place[0]
    source, target = counting(driver), driver.pinned(COUNT, "f4")
    buffer, other = driver.buffer(np.zeros(COUNT, np.float32)), driver.empty(COUNT, "f4")
    running = spin.bound.submit()
    buffer.write(source)
    buffer.copy_to(other)
    buffer.fill(3)
    other.read(out=target)
    assert (running.done(), (target == np.arange(COUNT)).all(), (buffer.read() == 3).all()) == (True, True, True)


@pytest.mark.parametrize("place", APART, indirect=True)
def test_after_a_time_out_a_pinned_copy_is_finished_by_the_next(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver = place[0]
    source, target = counting(driver), driver.pinned(COUNT, "f4")
    memory = driver.empty(COUNT, "f4").memory
    running = spin.bound.submit()
    with pytest.raises(DispatchTimeout):
        memory.write_range(0, source, Deadline(0, "the device"))
    memory.read_range(0, 4 * COUNT, NEVER, target.view(np.uint8))
    assert ((target == source).all(), running.done()) == (True, True)


@pytest.mark.parametrize("place", APART, indirect=True)
def test_an_upload_that_an_interrupt_left_behind_does_not_overwrite_the_next_call(
    place: tuple[Driver, bool, bool], spin: Spin, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = place[0]
    saxpy = functools.partial(driver.compile(shipped_module("saxpy")), alpha=1.0, count=COUNT)
    x, ones = counting(driver), np.ones(COUNT, np.float32)
    saxpy(x, x)
    running = spin.bound.submit()  # nothing is uploaded before it has ended
    with monkeypatch.context() as pressed:
        pressed.setattr(RecordedDispatch, "_submission", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            saxpy(x, x)
    assert not running.done()
    assert (saxpy(ones, ones) == 2).all()


def press_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_a_pinned_array_outlives_buffers_driver_and_its_own_views(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    source = counting(driver)
    part = source.reshape(100, -1)[7, 3:9]
    buffer = driver.buffer(source)
    del source
    driver.close()
    del buffer, driver
    gc.collect()
    assert part.tolist() == [10503.0 + place for place in range(6)]
    part[:] = 1
    assert part.sum() == 6


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_one_drivers_pinned_array_is_any_array_to_another(place: tuple[Driver, bool, bool]) -> None:
    with Driver(allow_software=True) as other:
        source = counting(other)
        assert (place[0].buffer(source).read() == source).all()
        place[0].buffer(source[::-1]).read(out=source)
    assert (source == np.arange(COUNT)[::-1]).all()
    assert (place[0].buffer(source).read() == source).all()


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_pinned_memory_is_given_back(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    layer: Any = driver.context.device.layer

    def mapped_bytes() -> int:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")

    driver.pinned(1 << 20, "f4")
    before, live = mapped_bytes(), layer.counters()["memory_live_bytes"]
    for _ in range(200):
        driver.pinned(1 << 20, "f4")
    assert (mapped_bytes() - before < 50 << 20, layer.counters()["memory_live_bytes"]) == (True, live)


def test_a_fork_may_look_at_a_pinned_array(layered: Driver) -> None:
    made = counting(layered, 1000)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        seen = float(made.sum())
        made[:] = 0
        os.write(writer, repr((seen, refusal(lambda: layered.pinned(3, "f4"))[0].__name__)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"(499500.0, 'ForkError')"
    assert (os.waitpid(child, 0)[1], made.sum()) == (0, 499500.0)


def test_eight_threads_pin_copy_and_let_go(layered: Driver) -> None:
    layered.context.device.shares_memory = False
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(10):
            source, target = layered.pinned(COUNT, "u4"), layered.pinned(COUNT, "u4")
            source[:] = number * 100 + turn
            layered.buffer(source).read(out=target)
            if not (target == number * 100 + turn).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


FAULTS: dict[str, tuple[Callable[[Driver], object], type[Exception], int]] = {
    "a shape": (lambda driver: driver.pinned(-1, "f4"), InvalidInput, 2201),
    "a type": (lambda driver: driver.pinned(3, "O"), InvalidInput, 2201),
    "too large": (lambda driver: driver.pinned(1 << 50, "f4"), DeviceOutOfMemory, 1001),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_pinned_is_refused(layered: Driver, fault: str) -> None:
    call, error, code = FAULTS[fault]
    assert refusal(lambda: call(layered))[:2] == (error, code)


def test_more_than_the_host_has_left_is_refused(layered: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts = tmp_path / "meminfo"
    facts.write_text("MemTotal:  64 kB\nMemAvailable:      8 kB\n")
    available = pinned_module.available_bytes(facts)
    monkeypatch.setattr(pinned_module, "available_bytes", lambda: available)
    assert refusal(lambda: layered.pinned(10_000, "u1")) == (
        DeviceOutOfMemory,
        1001,
        (
            "pinned memory of 10000 bytes is more than the host can give, which has 8192 bytes left. Fix: pin less at once, "
            "and use it again for the next piece."
        ),
    )
    assert layered.pinned(8192, "u1").nbytes == 8192


def test_a_process_whose_memory_is_limited_learns_what_to_raise(run_python: RunChild) -> None:
    code = """
import resource
from pathlib import Path
from vyre_driver import Driver
from vyre_driver.errors import DeviceOutOfMemory
with Driver() as driver:
    driver.pinned(1, "u1")
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
    try:
        driver.pinned(256 << 20, "u1")
    except DeviceOutOfMemory as error:
        print(error)
    print(driver.pinned(1 << 20, "u1").sum())
"""
    done = run_python("-c", code)
    message = (
        "this process gets no 268435456 bytes of memory to pin. Fix: raise the limit of its address space (ulimit -v), or pin "
        "less at once and use it again for the next piece."
    )
    assert (done.stdout.splitlines(), done.stderr, done.status) == ([message, "0"], "", 0)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("", None), ("MemAvailable: many kB", None), ("MemAvailable:", None)]
)
def test_a_host_that_does_not_tell_its_memory_is_not_asked(tmp_path: Path, text: str | None, expected: int | None) -> None:
    facts = tmp_path / "meminfo"
    if text is not None:
        facts.write_text(text)
    assert pinned_module.available_bytes(facts) is expected


@pytest.mark.parametrize(
    ("call", "result", "error"),
    [("create_buffer", -1, DeviceOutOfMemory), ("allocate", -2, DeviceOutOfMemory), ("allocate", -4, DeviceLost)],
)
@pytest.mark.usefixtures("_nothing_fails_any_more")
def test_what_vulkan_refuses_is_raised(opened: Driver, call: str, result: int, error: type[Exception]) -> None:
    _layer.inject(call, 1, result)
    with pytest.raises(error):
        opened.pinned(1000, "f4")
    if error is not DeviceLost:
        assert opened.pinned(3, "f4").tolist() == [0, 0, 0]


@pytest.mark.usefixtures("_nothing_fails_any_more")
def test_what_a_device_does_not_import_is_told_as_memory_of_the_host(opened: Driver) -> None:
    _layer.inject("allocate", 1, -2)
    assert refusal(lambda: opened.pinned(3000, "f4")) == (
        DeviceOutOfMemory,
        1001,
        (
            f"{opened.device.name!r} does not import 12000 bytes of the host's memory (VkResult -2). Fix: let go of "
            "pinned arrays, or pin less at once and use it again for the next piece."
        ),
    )


def test_without_the_extension_nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as driver:
        assert refusal(lambda: driver.pinned(3, "f4")) == (
            UnsupportedFeature,
            1002,
            (
                f"{driver.device.name!r} cannot copy from this process's memory by itself: that takes "
                "VK_EXT_external_memory_host. Fix: use numpy.empty(), whose arrays are copied by the host."
            ),
        )


def test_a_closed_driver_pins_nothing(layered: Driver) -> None:
    layered.close()
    assert refusal(lambda: layered.pinned(3, "f4"))[0] is DispatchFailed
