"""kompute behind the interface of all backends: every wish kept or refused, times, resident buffers, a lost device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import SPIN, TURNS, Spin, glsl

from vyre_driver import Driver, acquire, acquire_preferred_dispatch_backend
from vyre_driver.backends import DeviceProfile, DispatchConfig, PersistentThreadMode, SpeculationMode, explain_acquisition
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.errors import (
    DispatchFailed,
    DispatchTimeout,
    InvalidInput,
    LimitExceeded,
    OutputNotWritten,
    UnsupportedFeature,
    VyreError,
)
from vyre_driver.kompute.timing import elapsed_ns
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.base import LoadedArtifact
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device
X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}

ADD_GROUP_SIZE = """
layout(local_size_x_id = 3, local_size_y = 1, local_size_z = 1) in;
layout(set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = x[i] + gl_WorkGroupSize.x; }
"""
DOUBLE = """
layout(set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(set = 0, binding = 1) buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = 2 * y[i] + x[i]; }
"""


@pytest.fixture
def doubled(backend: KomputeBackend) -> LoadedArtifact:
    """y = 2 y + x."""
    return backend.load(glsl(DOUBLE))


def refused(action: Callable[[], object]) -> tuple[type[VyreError], str]:
    with pytest.raises(VyreError) as error:
        action()
    return type(error.value), error.value.problem


def test_the_preferred_backend_of_this_machine_is_kompute_and_says_why() -> None:
    found = explain_acquisition()
    with found.backend as backend:
        assert isinstance(backend, KomputeBackend)
        rows = [(one.id, one.device, one.is_software) for one in found.why]
        device = backend.driver.device
    assert rows[0] == ("kompute", device.name, device.is_software)
    assert found.why[0].verdict.startswith("chosen")


def test_without_leave_a_software_device_is_not_taken(monkeypatch: pytest.MonkeyPatch, physical_device: PhysicalDevice) -> None:
    if not physical_device.is_software:
        pytest.skip("this machine has a GPU")
    monkeypatch.delenv("VYRE_ALLOW_SOFTWARE")
    with pytest.raises(VyreError, match=r"kompute: the only device that fits.*is a CPU"):
        acquire_preferred_dispatch_backend()


def test_its_profile_is_that_of_the_opened_device(backend: KomputeBackend) -> None:
    driver = backend.driver
    expected = DeviceProfile.from_physical_device(driver.device, driver.context.device.features, backend="kompute")
    limits = driver.device.limits
    assert (backend.id, backend.version, backend.profile, backend.max_grid, backend.device_lost) == (
        "kompute",
        driver.context.device.api.flavour,
        expected,
        limits.max_compute_work_group_count,
        False,
    )


def test_a_module_is_dispatched_and_loaded_once_dispatched_often(backend: KomputeBackend) -> None:
    module = shipped_module("saxpy")
    loaded = backend.load(module)
    once = backend.dispatch(module, [X, X], push_constants=PUSH)
    again = [loaded.dispatch([X, X], push_constants=PUSH)[0] for _ in range(2)]
    assert [one.tolist() for one in (*once, *again)] == [(3 * X).tolist()] * 3
    assert loaded.id == backend.driver.compile(module).trace.key


def test_something_else_than_a_module_is_refused_by_name(backend: KomputeBackend) -> None:
    assert refused(lambda: backend.load("saxpy.spv")) == (
        UnsupportedFeature,
        "backend 'kompute' has no way to run something of type str",
    )


def test_a_timed_dispatch_tells_the_parts_of_its_time(backend: KomputeBackend, doubled: LoadedArtifact) -> None:
    ones = np.ones(64, np.uint32)
    found = doubled.dispatch_timed([ones, ones])
    assert found.outputs[0].tolist() == [3] * 64
    enqueue_ns, wait_ns = found.enqueue_ns or 0, found.wait_ns or 0
    assert 0 < enqueue_ns + wait_ns <= found.wall_ns
    if backend.driver.context.device.is_timed:
        assert 0 < (found.device_ns or 0) <= enqueue_ns + wait_ns
    else:
        assert found.device_ns is None


def test_the_devices_clock_is_asked_where_there_is_one(backend: KomputeBackend) -> None:
    assert backend.driver.context.device.is_timed is backend.profile.supports_device_timestamps


def test_ticks_become_nanoseconds_though_the_clock_wraps_around(physical_device: PhysicalDevice) -> None:
    family = physical_device.compute_family
    assert family is not None
    wraps = 1 << family.timestamp_valid_bits
    period = physical_device.limits.timestamp_period_ns
    assert [elapsed_ns(*ticks, physical_device) for ticks in ((5, 15), (wraps - 5, 5))] == [round(10 * period)] * 2


@pytest.mark.parametrize("timed", [False, True])
def test_a_program_runs_over_its_own_output_as_often_as_is_wished(doubled: LoadedArtifact, timed: bool) -> None:  # noqa: FBT001 -- a parameter
    x, y = np.ones(70, np.uint32), np.zeros(70, np.uint32)
    config = DispatchConfig(fixpoint_iterations=10)
    outputs = doubled.dispatch_timed([x, y], config).outputs if timed else doubled.dispatch([x, y], config)
    assert (outputs[0].tolist(), y.tolist()) == ([2**10 - 1] * 70, [0] * 70)


def test_a_strict_driver_watches_every_iteration() -> None:
    leaves_half = DOUBLE.replace("buffer Y", "writeonly buffer Y").replace("2 * y[i] + x[i]", "x[i]").replace("i <", "2 * i <")
    with KomputeBackend(Driver(strict=True)) as backend:
        loaded = backend.load(glsl(leaves_half), config=DispatchConfig(fixpoint_iterations=2))
        x = np.ones(8, np.uint32)
        assert refused(lambda: loaded.dispatch([x, x]))[0] is OutputNotWritten
        assert refused(lambda: loaded.dispatch_timed([x, x]))[0] is OutputNotWritten
        doubled = backend.load(glsl(DOUBLE)).dispatch([x, x], DispatchConfig(fixpoint_iterations=3))
        assert doubled[0].tolist() == [15] * 8


def test_a_workgroup_is_overridden_where_a_constant_decides_it(backend: KomputeBackend) -> None:
    loaded = backend.load(glsl(ADD_GROUP_SIZE), config=DispatchConfig(workgroup_override=(16, 1, 1)))
    x = np.zeros(40, np.uint32)
    sizes = [loaded.dispatch([x, x])[0], loaded.dispatch([x, x], DispatchConfig(workgroup_override=(4, 1, 1)))[0]]
    assert [set(one.tolist()) for one in sizes] == [{16}, {4}]


def test_a_workgroup_that_no_constant_decides_is_kept_or_refused(doubled: LoadedArtifact) -> None:
    x = np.ones(8, np.uint32)
    assert doubled.dispatch([x, x], DispatchConfig(workgroup_override=(64, 1, 1)))[0].tolist() == [3] * 8
    assert refused(lambda: doubled.dispatch([x, x], DispatchConfig(workgroup_override=(32, 1, 1)))) == (
        UnsupportedFeature,
        (
            "backend 'kompute' has no way to keep workgroup_override (32, 1, 1): the module's workgroups are 64x1x1, "
            "which no constant decides"
        ),
    )


def test_a_grid_is_overridden(doubled: LoadedArtifact) -> None:
    x = np.ones(200, np.uint32)
    for outputs in (
        doubled.dispatch([x, x], DispatchConfig(grid_override=(2, 1, 1))),
        doubled.dispatch_timed([x, x], DispatchConfig(grid_override=(2, 1, 1))).outputs,
    ):
        assert outputs[0].tolist() == [3] * 128 + [1] * 72


def test_an_override_over_a_limit_of_the_device_is_refused(backend: KomputeBackend, doubled: LoadedArtifact) -> None:
    x = np.ones(8, np.uint32)
    limit = backend.max_grid[1]
    over = DispatchConfig(grid_override=(1, limit + 1, 1))
    assert refused(lambda: doubled.dispatch([x, x], over)) == (
        LimitExceeded,
        f"grid_override has {limit + 1} workgroups along y, and the device allows {limit}",
    )


def test_outputs_over_the_wish_are_refused_before_memory_is_spent(backend: KomputeBackend, doubled: LoadedArtifact) -> None:
    x = np.ones(64, np.uint32)
    before = backend.metrics()
    for dispatch in (doubled.dispatch, doubled.dispatch_timed):
        assert refused(lambda dispatch=dispatch: dispatch([x, x], DispatchConfig(max_output_bytes=255))) == (  # type: ignore[misc]
            LimitExceeded,
            "the outputs of the dispatch have 256 bytes, and max_output_bytes is 255 bytes",
        )
    assert backend.metrics() == before
    assert doubled.dispatch([x, x], DispatchConfig(max_output_bytes=256))[0].nbytes == 256


@pytest.mark.parametrize(
    "config",
    [
        DispatchConfig(profile="fast"),
        DispatchConfig(cooperative=True),
        DispatchConfig(speculation=SpeculationMode.FORCE),
        DispatchConfig(persistent_thread=PersistentThreadMode.FORCE),
    ],
    ids=["profile", "cooperative", "speculation", "persistent"],
)
def test_what_kompute_cannot_do_is_refused_at_load_and_at_dispatch(
    backend: KomputeBackend, doubled: LoadedArtifact, config: DispatchConfig
) -> None:
    x = np.ones(8, np.uint32)
    found = [
        refused(action)[0]
        for action in (lambda: backend.load(glsl(DOUBLE), config=config), lambda: doubled.dispatch([x, x], config))
    ]
    assert found == [UnsupportedFeature] * 2


@pytest.mark.parametrize("timed", [False, True])
def test_a_dispatch_that_takes_too_long_is_told(backend: KomputeBackend, timed: bool) -> None:  # noqa: FBT001 -- a parameter
    loaded = backend.load(glsl(SPIN))
    config = DispatchConfig(timeout=0.001, grid_override=(*Spin(backend.driver, seconds=0.1).grid[:2], 1))
    dispatch = loaded.dispatch_timed if timed else loaded.dispatch
    arrays = [np.zeros(1, np.uint32), np.ones(1, np.uint32)]
    found, _ = refused(lambda: dispatch(arrays, config, push_constants={"turns": TURNS}))
    assert found is DispatchTimeout


def test_resident_buffers_stay_on_the_device_between_dispatches(backend: KomputeBackend, doubled: LoadedArtifact) -> None:
    x, y = (backend.allocate_resident(256, np.uint32) for _ in range(2))
    backend.upload_resident(x, np.ones(64, np.uint32))
    backend.upload_resident(y, bytes(256))
    times = [backend.dispatch_resident(doubled, [x, y], config) for config in (None, DispatchConfig(fixpoint_iterations=2))]
    assert backend.download_resident(y) == np.full(64, 7, np.uint32).tobytes()
    assert backend.download_resident(y, 4, 8) == np.array([7], np.uint32).tobytes()
    assert [one.outputs for one in times] == [(), ()]
    backend.free_resident(y)
    backend.free_resident(y)
    assert refused(lambda: backend.download_resident(y)) == (DispatchFailed, "the buffer is closed")


def test_a_resident_dispatch_takes_only_what_this_backend_loaded(backend: KomputeBackend) -> None:
    with acquire("null") as other:
        foreign: Any = other.load("anything")
        assert refused(lambda: backend.dispatch_resident(foreign, [])) == (
            InvalidInput,
            "what is dispatched was not loaded by this backend",
        )
    assert refused(lambda: backend.allocate_resident(5, np.uint32)) == (
        InvalidInput,
        "5 bytes are not a whole number of uint32, one or more",
    )


def test_a_closed_backend_raises_and_a_second_close_does_nothing(backend: KomputeBackend, doubled: LoadedArtifact) -> None:
    backend.close()
    backend.close()
    x = np.ones(8, np.uint32)
    assert refused(lambda: doubled.dispatch([x, x]))[0] is DispatchFailed
