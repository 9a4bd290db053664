"""Drivers and shaders for the device tests."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from extras import imported
from kernels import glsl
from machines import Machines
from servers import running_server
from witnessed import witness_below

from vyre_driver import Driver, Kernel, acquire
from vyre_driver import driver as driver_module
from vyre_driver.autotune import AutotuneStore, Budget
from vyre_driver.autotune.measure import tune as tuning
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.kompute import cuda
from vyre_driver.kompute.blocks import DeviceMemory
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import RedisServer

    from vyre_driver.distributed import FleetPool, LocalFleet
    from vyre_driver.vulkan.devices import PhysicalDevice

# Where buffers may lie: the kind of device, and whether writes and reads reach the device's memory without a copy on the
# device. lavapipe's one memory type is all of these.
PLACES = {
    "shared with the host": (DeviceType.CPU, True, True),
    "writable by the host": (DeviceType.DISCRETE, True, False),
    "out of the host's reach": (DeviceType.DISCRETE, False, False),
}


class CompileText(Protocol):
    """Compile GLSL text for the ``driver``, behind a head that sets 64 invocations a workgroup unless it has its own."""

    def __call__(self, text: str, specs: dict[str, object] | None = None) -> Kernel: ...


@pytest.fixture
def records_in_memory() -> AutotuneStore:
    """Tuning records that no file keeps; the ``driver`` of a test that asks for them has its records there."""
    return AutotuneStore()


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A driver on the best device, with a cache of this test's own."""
    in_memory = "records_in_memory" in request.fixturenames
    with Driver(autotune=request.getfixturevalue("records_in_memory") if in_memory else None) as opened:
        yield opened


@pytest.fixture
def opened() -> Iterator[Driver]:
    """A driver as the environment has it."""
    with Driver() as driver:
        yield driver


@pytest.fixture
def layered() -> Iterator[Driver]:
    """A driver whose records are in memory."""
    with Driver(autotune=AutotuneStore()) as opened:
        yield opened


@pytest.fixture
def quick_tuning(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is tuned unasked is timed a few times only; the names of what was tuned."""
    tuned, tune = [], tuning.tune

    def counted(kernel: Any, *given: Any, **how: Any) -> object:  # noqa: ANN401 -- those of tune
        tuned.append(kernel.definition.name)
        return tune(kernel, *given, **how)

    monkeypatch.setattr(tuning, "UNASKED", Budget(seconds=30, max_samples=8))
    monkeypatch.setattr(tuning, "tune", counted)
    return tuned


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Driver, bool, bool]]:
    """A driver whose buffers lie in one of those places, and whether its writes and its reads do without a copy."""
    device_type, is_mapped, is_shared = PLACES[request.param]

    def select(*arguments: object, **options: bool) -> PhysicalDevice:
        return dataclasses.replace(select_device(*arguments, **options), device_type=device_type)  # type: ignore[arg-type]

    monkeypatch.setattr(driver_module, "select_device", select)
    if not is_mapped:
        monkeypatch.setattr(DeviceMemory, "maps", lambda *_: False)
    with Driver(allow_software=True) as driver:
        yield driver, is_mapped, is_shared


@pytest.fixture
def backend() -> Iterator[KomputeBackend]:
    """The kompute backend."""
    with acquire("kompute") as opened:
        assert isinstance(opened, KomputeBackend)
        yield opened


@pytest.fixture
def compiled(driver: Driver) -> CompileText:
    """Kernels of GLSL text on the ``driver``."""
    return lambda text, constants=None: driver.compile(glsl(text), constants)


@pytest.fixture
def saxpy(driver: Driver) -> Kernel:
    """The shipped saxpy kernel on the ``driver``."""
    return driver.compile(shipped_module("saxpy"))


@pytest.fixture
def _nothing_fails_any_more() -> Iterator[None]:
    """Whatever the test had the layer do to calls of Vulkan is over after it."""
    yield
    for call in _layer.CALLS[1:]:
        _layer.inject(call, 0, 0)


@pytest.fixture(scope="session")
def built_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that does as CUDA's driver does, with lavapipe's memory."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    library = tmp_path_factory.mktemp("cuda") / "libcuda.so"
    source = Path(__file__).with_name("children") / "fake_cuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(source)], check=True)
    return library


@pytest.fixture
def fake_cuda(built_cuda: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, physical_device: PhysicalDevice) -> Path:
    """A CUDA of this test's own, whose second GPU is the device: its library."""
    if physical_device.device_type is not DeviceType.CPU:
        pytest.skip(f"{physical_device.name!r} is hardware, whose memory only its own CUDA can import")
    library = Path(shutil.copy(built_cuda, tmp_path / "libcuda.so.1"))
    monkeypatch.setattr(cuda, "_LIBRARY", str(library))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))  # which the loader reads when a child process starts
    monkeypatch.setenv("FAKE_CUDA_UUIDS", "07" * 16 + physical_device.device_uuid.hex())
    return library


@pytest.fixture
def children() -> Path:
    """The folder of the scripts that run in child processes."""
    return Path(__file__).parent / "children"


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the layer below writes down what pipeline caches are made of."""
    return witness_below(tmp_path / "witness", monkeypatch)


@pytest.fixture(scope="module")  # other modules look for processes that were left behind
def one_server() -> Iterator[RedisServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def machines(
    one_server: RedisServer, tmp_path: Path, physical_device: PhysicalDevice, monkeypatch: pytest.MonkeyPatch
) -> Machines:
    one_server.reset()
    return Machines(tmp_path, one_server, physical_device, monkeypatch)


@pytest.fixture(scope="module")
def ended_tracker() -> Iterator[None]:
    """End the process that multiprocessing starts beside those it spawns: other tests look for processes that were left."""
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined] # noqa: SLF001 -- nothing else ends it


@pytest.fixture(scope="module")
def fleet(ended_tracker: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:  # noqa: ARG001 -- it ends behind this
    """Two worker processes on the first device, with a cache of their own."""
    imported("distributed")
    from vyre_driver.distributed import LocalFleet

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LP_NUM_THREADS", "1")
        patch.setenv("VYRE_CACHE_DIR", str(tmp_path_factory.mktemp("fleet")))
        with LocalFleet([0, 0], allow_software=True) as opened:
            yield opened


@pytest.fixture
def pool(fleet: LocalFleet) -> FleetPool:
    from vyre_driver.distributed import FleetPool

    return FleetPool(fleet.client, no_workers_s=60.0)
