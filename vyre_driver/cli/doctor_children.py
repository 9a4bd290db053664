"""Run the checks of ``vyre-driver doctor`` in child processes: one that crashes or hangs does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cli.doctor_checks import Check, State
from vyre_driver.cli.doctor_vulkan import manifests
from vyre_driver.process.workers import ChildDied, ChildTimeout, answer_of, command_to_try

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TIMEOUT_S = 30.0
_PROBE = "vyre_driver.cli.doctor_probe"
_MAX_LOADER_LINES = 8
_MAX_LINE = 200
_BEFORE_DEVICES = ("python", "extensions", "kompute", "variables", "device files", "Vulkan loader")
_AFTER_DEVICES = ("plug-ins", "backends", "cache", "autotune")


def examine(timeout_s: float) -> Iterator[Check]:
    """Make every check, each within ``timeout_s`` seconds, and yield them in the order of the examination."""
    for name in _BEFORE_DEVICES:
        yield _child(name, (), timeout_s)
    places = manifests()
    if not places:
        fix = "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one)"
        yield Check("drivers", State.FAILURE, "no driver manifest is where the loader looks", fixes=(fix,))
    for place in places:
        yield _child("manifest", (place,), timeout_s)
    devices = _child("devices", (), timeout_s, VK_LOADER_DEBUG="error,warn")
    yield devices
    for name in _AFTER_DEVICES:
        yield _child(name, (), timeout_s)
    for device in devices.facts.get("devices", ()):
        yield _child("dispatch", (f"uuid:{device['uuid']}",), timeout_s)


def _child(name: str, arguments: tuple[str, ...], timeout_s: float, **changes: str) -> Check:
    """Run one check; if its process gave no result, how the process ended is the result."""
    shown = f"{name} {arguments[0]}" if arguments else name
    command = command_to_try(_PROBE, name, *arguments)
    try:
        data, err = answer_of(_PROBE, name, *arguments, within=timeout_s, env=settings.child_environment(**changes))
    except ChildTimeout:
        fix = f"find out what hangs with: {command}"
        return Check(shown, State.FAILURE, f"did not end in {timeout_s:g} s and was killed", fixes=(fix,))
    except ChildDied as error:
        how = f"{'was killed by' if error.signal else 'ended with'} {error.how}"
        fix = f"look into it with: {command}; a driver that crashes here would crash your program"
        said = _lines(error.stderr)[-_MAX_LOADER_LINES:]
        return Check(shown, State.FAILURE, f"its process {how}", tuple(said), (fix,), {"status": error.status})
    found = Check.of_data(data)
    loader = tuple(line for line in _lines(err) if "ERROR" in line or "WARN" in line)[:_MAX_LOADER_LINES]
    if loader and changes:
        facts = {"loader_messages": list(loader)}
        return Check(found.name, found.state, found.says, (*found.details, *loader), found.fixes, found.facts | facts)
    return found


def _lines(err: bytes) -> list[str]:
    """Return printable lines, none too long."""
    lines = err.decode("utf-8", "backslashreplace").splitlines()
    return ["".join(one if one.isprintable() else "?" for one in line)[:_MAX_LINE] for line in lines if line.strip()]
