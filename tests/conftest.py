"""What every test starts from: an environment of its own, and devices that are asked for by a marker.

A test runs as a new user would: no ``VYRE_*`` variable is set, and home and caches are its own, below its ``tmp_path`` where it
asks for that. Only a test marked ``device`` gets VYRE_ALLOW_SOFTWARE=1, because a CPU device has to do where there is no GPU;
without the marker the refusal of CPU devices, which is the default, is what tests see.

Two caches are shared, for the session or as long as a folder that is named: Mesa's own of compiled shaders, below ours
(MESA_SHADER_CACHE_DIR), and the SPIR-V of ``kernels.glsl`` (TESTS_GLSL_DIR). A test of what a driver does on its very first
pipeline is marked ``cold_mesa`` and starts without the former.

VYRE_REQUIRE (``device``, ``packaging``, ``validation``, ``extras``, ``cuda``, ``matrices``, or several with commas) makes a
missing prerequisite a failure instead of a skip.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import stable_environ
from forked import Forks

from vyre_driver.errors import VyreError
from vyre_driver.vulkan import enumerate_devices, select_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vyre_driver.ir import Program
    from vyre_driver.lowering.emit.target import EmittedModule, LoweringTarget
    from vyre_driver.vulkan import PhysicalDevice

REQUIRED = frozenset(os.environ.get("VYRE_REQUIRE", "").split(","))
HANGS_AFTER_S = 60
REDIS = Path(__file__).resolve().parents[1] / ".venv/bin/redis-server"
OWN_LINES = "vyre-driver:"  # the Vulkan loader prints lines of its own


@dataclass(frozen=True)
class Finished:
    """A child process that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> list[str]:
        """The program's own lines on stderr, or all of them if a traceback is among them."""
        lines = self.stderr.splitlines()
        if "Traceback" in self.stderr or "Exception ignored" in self.stderr:
            return lines
        return [line for line in lines if line.startswith((OWN_LINES, '{"schema": '))]


class RunChild(Protocol):
    """Run a child process to its end; a variable given as None is unset."""

    def __call__(self, *arguments: str, env: Mapping[str, str | None] | None = None, **options: Any) -> Finished: ...  # noqa: ANN401 -- subprocess's


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user whose home is ``home``."""
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith("VYRE_")}
    places = {"HOME": home, "XDG_CACHE_HOME": home / "cache", "XDG_STATE_HOME": home / "state"}
    places["VYRE_CACHE_DIR"] = home / "pipelines"
    return kept | {variable: str(place) for variable, place in places.items()}


def run_child(
    command: list[str],
    env: Mapping[str, str | None] | None,
    *,
    hangs_after_s: float = HANGS_AFTER_S,
    **options: Any,  # noqa: ANN401 -- subprocess's
) -> Finished:
    """Run a command in this environment with ``env`` on top; one that hangs is killed with its children, and fails the test."""
    changed = {**os.environ, **(env or {})}
    environment = {variable: value for variable, value in changed.items() if value is not None}
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, env=environment, encoding="utf-8", start_new_session=True, **settings) as child:
        try:
            stdout, stderr = child.communicate(timeout=hangs_after_s)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    return Finished(child.returncode, stdout or "", stderr)


@functools.cache
def missing(kind: str) -> str | None:
    """Say what a kind of test lacks on this machine; None when it can run."""
    if kind == "validation":
        return missing_validation()
    if kind == "cuda":
        return missing_cuda()
    if kind == "redis":
        return None if REDIS.exists() else f"{REDIS} is not there. Fix: python scripts/redis_server.py (`make setup` runs it)."
    if kind == "packaging":
        absent = [tool for tool in ("cc", "git", "glslangValidator") if shutil.which(tool) is None]
        return f"not installed: {', '.join(absent)}" if absent else None
    from vyre_driver.kompute._kp import load_kompute

    try:
        device = select_device(enumerate_devices(), allow_software=True)
        load_kompute()
    except VyreError as error:
        return str(error)
    if kind == "matrices" and not device.has_cooperative_matrices:
        return f"{device.name} has no cooperative matrices. Fix: make mesa, then run it with .venv/bin/python-mesa."
    return None


def missing_cuda() -> str | None:
    """Say what of CUDA or PyTorch is not here."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    return None if importlib.util.find_spec("torch") else "PyTorch is not installed. Fix: pip install torch."


def missing_validation() -> str | None:
    """Say which of the validators is not installed."""
    from validation_layer import VALIDATOR, layer_versions

    try:
        layers = layer_versions()
    except OSError as error:
        return str(error)
    if VALIDATOR not in layers:
        return f"the Vulkan loader finds no {VALIDATOR}. Fix: install vulkan-validationlayers (Debian)."
    return None if shutil.which("spirv-val") else "spirv-val is not installed. Fix: install spirv-tools (Debian)."


def skip_or_fail(kind: str, reason: str) -> None:
    """Skip the test, or fail it where VYRE_REQUIRE names its kind."""
    if kind in REQUIRED:
        pytest.fail(f"VYRE_REQUIRE={kind}: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_configure(config: pytest.Config) -> None:
    """Make the session's caches, which the workers of pytest-xdist inherit, let Mesa look around, and hear Ctrl-C.

    A shell that runs something in the background has it ignore Ctrl-C, and all that it starts.
    """
    stable_environ.install()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for variable, kind in (("MESA_SHADER_CACHE_DIR", "mesa"), ("TESTS_GLSL_DIR", "glsl")):
        if variable in os.environ:
            Path(os.environ[variable]).mkdir(parents=True, exist_ok=True)
        else:
            folder = tempfile.TemporaryDirectory(prefix=f"vyre-tests-{kind}-", ignore_cleanup_errors=True)
            config.add_cleanup(folder.cleanup)
            os.environ[variable] = folder.name
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # starting them was half of what importing numpy took


def pytest_collection_finish() -> None:
    """Leave the 400,000 objects of ten thousand tests out of each garbage collection that one of them asks for."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for kind in ("device", "packaging", "validation", "cuda", "matrices", "redis"):
        if item.get_closest_marker(kind) is not None:
            reason = missing(kind)
            if reason is not None:
                skip_or_fail(kind, reason)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory that is not there yet, and the next one each time: pytest looks for a free name among thousands."""
    place = tmp_path_factory.mktemp("homes")
    return (place / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    home = request.getfixturevalue("tmp_path") / "home" if "tmp_path" in request.fixturenames else next(homes)
    home.mkdir()
    environment = clean_environment(home)
    for variable in set(os.environ) - set(environment):
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        if os.environ.get(variable) != value:  # most are as they were: setting them all took a fifth of a small test's time
            monkeypatch.setenv(variable, value)
    if request.node.get_closest_marker("cold_mesa") is not None:
        monkeypatch.delenv("MESA_SHADER_CACHE_DIR")  # then it is below XDG_CACHE_HOME
    if request.node.get_closest_marker("device") is not None:
        monkeypatch.setenv("VYRE_ALLOW_SOFTWARE", "1")


class Lower(Protocol):
    """Lower a program; what comes of it has to pass the validator for Vulkan 1.1, where that is installed."""

    def __call__(self, program: Program, specs: Iterable[str] = (), target: LoweringTarget | None = None) -> EmittedModule: ...


@pytest.fixture
def lower() -> Lower:
    """The one way by which tests lower programs without a device (on one, the driver asks the validator itself).

    What a module declares beyond every device's capabilities has to be a feature that it names and that the target has.
    """
    from vyre_driver.binding import BindingPlan
    from vyre_driver.lowering.emit.entry import emit
    from vyre_driver.lowering.emit.target import LoweringTarget
    from vyre_driver.spirv.opcodes import CORE_CAPABILITIES, FEATURE_OF_CAPABILITY, SUBGROUP_CAPABILITIES, float_control

    tool = shutil.which("spirv-val")

    def lowered(program: Program, specs: Iterable[str] = (), target: LoweringTarget | None = None) -> EmittedModule:
        target = LoweringTarget() if target is None else target
        made = emit(program, BindingPlan.build(program), specs, target)
        beyond = set(made.capabilities) - CORE_CAPABILITIES - SUBGROUP_CAPABILITIES.keys()
        features = made.features - {"shaderSharedFloat32AtomicAdd"}  # beside that of buffers, with one capability
        assert {FEATURE_OF_CAPABILITY.get(one) or float_control(one, 32) for one in beyond} == features
        assert made.features <= target.features
        if tool is not None:
            command = [tool, "--target-env", "vulkan1.1", "-"]
            done = subprocess.run(command, input=made.code, capture_output=True, check=False)
            assert (done.returncode, done.stdout + done.stderr) == (0, b""), program
        elif "validation" in REQUIRED:
            pytest.fail("VYRE_REQUIRE=validation: spirv-val is not installed", pytrace=False)
        return made

    return lowered


@pytest.fixture
def system_tools_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have only PATH looked at for glslangValidator and its like, and not the wheels of the extra ``glsl``."""
    monkeypatch.setattr("vyre_driver.process.tools._PREFIX", "nowhere")


@pytest.fixture
def run_program() -> RunChild:
    """Run the program that the first argument names."""

    def run(*arguments: str, env: Mapping[str, str | None] | None = None, **options: Any) -> Finished:  # noqa: ANN401 -- subprocess's
        return run_child([*arguments], env, **options)

    return run


@pytest.fixture
def run_python(run_program: RunChild) -> RunChild:
    """Run this Python with arguments."""
    return functools.partial(run_program, sys.executable)


@pytest.fixture(scope="module")  # other modules look for processes that were left behind
def _forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture
def run_forked(_forks: Forks) -> RunChild:
    """Run a script or ``-c CODE`` as ``run_python`` does, where neither Python's start nor what is imported is looked at."""

    def run(*arguments: str, env: Mapping[str, str | None] | None = None, hangs_after_s: float = HANGS_AFTER_S) -> Finished:
        environment = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
        return Finished(*_forks.run(arguments, environment, hangs_after_s))

    return run


@pytest.fixture
def run_cli(run_python: RunChild) -> RunChild:
    """Run the command line in a process of its own."""
    return functools.partial(run_python, "-m", "vyre_driver")


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunChild:
    """Run the command line in this process, for what needs none of its own, which takes half a second to start."""
    from vyre_driver.cli import main

    def run(*arguments: str, env: Mapping[str, str | None] | None = None) -> Finished:
        with monkeypatch.context() as patch:
            for variable, value in (env or {}).items():
                patch.delenv(variable, raising=False) if value is None else patch.setenv(variable, value)
            try:
                status = main(arguments)
            except SystemExit as ended:  # --help and --version
                status = int(ended.code or 0)
        return Finished(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def cli_at_home() -> Callable[[Path], RunChild]:
    """Return a ``run_cli`` for a user with this home, for fixtures that outlive a test."""

    def at(home: Path) -> RunChild:
        def run(*arguments: str, env: Mapping[str, str | None] | None = None, **options: Any) -> Finished:  # noqa: ANN401 -- subprocess's
            return run_child(
                [sys.executable, "-m", "vyre_driver", *arguments], {**clean_environment(home), **(env or {})}, **options
            )

        return run

    return at


@pytest.fixture(scope="session")
def physical_device() -> PhysicalDevice:
    """The device that a Driver opens when none is named."""
    return select_device(enumerate_devices(), allow_software=True)
