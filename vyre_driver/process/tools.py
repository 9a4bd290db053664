"""Find and run programs of others: those on PATH, and those that the wheels of the extra ``glsl`` bring.

cmeel's wheels put programs and libraries into ``cmeel.prefix`` beside the packages. Their scripts in ``bin`` are not used: each
starts a Python that may be another one, and they are on PATH only while the environment is activated.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.errors import ToolUnavailable
from vyre_driver.process.workers import ChildTimeout, Ended, run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

GLSLANG, SPIRV_VAL, SPIRV_DIS = "glslangValidator", "spirv-val", "spirv-dis"
PACKAGES = {
    GLSLANG: "glslang-tools (Debian, Ubuntu), glslang (Fedora, Arch)",
    SPIRV_VAL: "spirv-tools (Debian, Ubuntu, Fedora, Arch)",
    SPIRV_DIS: "spirv-tools (Debian, Ubuntu, Fedora, Arch)",
}
_PREFIX = "cmeel.prefix"
_VERSION_TIMEOUT_S = 30
_SCRIPT_BYTES = 512
# "Glslang Version: 11:13.1.1" (the first number is the SPIR-V generator's), "SPIRV-Tools v2025.5 ..."
_VERSION = re.compile(rb"^(?:Glslang Version: (?:\d+[:-])?|SPIRV-Tools v)(\d+(?:\.\d+)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that lies at an absolute path; ``libraries``, for a wheel's, are the directories of what it links."""

    name: str
    path: str
    libraries: tuple[str, ...] = ()

    @property
    def is_from_wheel(self) -> bool:
        """Whether a wheel brought it, and not the system."""
        return bool(self.libraries)

    @property
    def version(self) -> tuple[int, ...] | None:
        """What it says its version is; None where it does not run or cannot be understood. It is asked once."""
        return self._about()[0]

    @property
    def problem(self) -> str:
        """Why it does not run here; nothing where it does."""
        return self._about()[1]

    def run(self, arguments: Sequence[str], given: bytes, within: float, **how: Any) -> Ended:  # noqa: ANN401 -- Popen's
        """Run it on what it reads; raises ChildTimeout after so many seconds, ToolUnavailable if it cannot be run."""
        # The loader's complaint about a wheel's program would be taken for the program's own about what it reads.
        if self.is_from_wheel and self.problem:
            raise self._unavailable(self.problem, f"install {PACKAGES[self.name]}")
        try:
            return run_tool([self.path, *arguments], given, within, env=_environment(self.libraries), **how)
        except OSError as error:
            raise self._unavailable(str(error.strerror), "install it anew") from error

    def _unavailable(self, problem: str, fix: str) -> ToolUnavailable:
        fix += ", or set VYRE_SPIRV_VAL=0" if self.name == SPIRV_VAL else ""
        return ToolUnavailable(f"{self.path} cannot be run ({problem})", fix=fix, tool=self.name)

    def _about(self) -> tuple[tuple[int, ...] | None, str]:
        try:
            found = os.stat(self.path)  # noqa: PTH116 -- of a text
        except OSError as error:
            return None, str(error.strerror)
        return _ask(self.path, self.libraries, found.st_mtime_ns, found.st_size)


def find_tool(name: str) -> Tool | None:
    """Return the program to use: the newest of those there are, the system's before a wheel's; None where there is none.

    PATH and ``sys.path`` are looked at anew each time, so that what is installed meanwhile is found.
    """
    found = _all(name)
    # One alone is not asked for its version: that would start it once more.
    return found[0] if len(found) == 1 else max(found, key=_rank, default=None)


def find_tools(name: str) -> list[Tool]:
    """Return the programs of this name on PATH and in wheels, the one that is used first."""
    return sorted(_all(name), key=_rank, reverse=True)


def not_installed(name: str, needed_for: str) -> ToolUnavailable:
    """Return the error of a program that is nowhere."""
    fix = f"pip install 'vyre-driver[glsl]', or install {PACKAGES[name]}"
    return ToolUnavailable(f"{name} is not installed, and {needed_for}", fix=fix, tool=name)


def _rank(tool: Tool) -> tuple[bool, tuple[int, ...], bool]:
    return not tool.problem, tool.version or (), not tool.is_from_wheel


def _all(name: str) -> list[Tool]:
    brought = _in_wheel(name)
    there = _on_path(name, scripts=brought is None)
    return [one for one in (there, brought) if one is not None]


def _in_wheel(name: str) -> Tool | None:
    # What a relative place holds depends on the working directory, in which others may write.
    places = [os.path.join(one, _PREFIX) for one in sys.path if isinstance(one, str) and os.path.isabs(one)]  # noqa: PTH117, PTH118
    for place in places:
        path = os.path.join(place, "bin", name)  # noqa: PTH118 -- os.path: no error where this user may not look
        if os.path.isfile(path):  # noqa: PTH113
            # glslang's wheel links a library of the one of SPIRV-Tools, which may be installed in another place.
            others = [one for one in places if os.path.isdir(one)]  # noqa: PTH112
            return Tool(name, path, tuple(os.path.join(one, "lib") for one in dict.fromkeys([place, *others])))  # noqa: PTH118
    return None


def _on_path(name: str, *, scripts: bool) -> Tool | None:
    """Find it on PATH; without ``scripts``, those that would start a wheel's program are passed over."""
    for directory in os.get_exec_path():
        path = shutil.which(name, path=directory)
        if path is not None and (scripts or not _is_script_of_wheel(path)):
            return Tool(name, os.path.abspath(path))  # noqa: PTH100 -- as PATH has it
    return None


def _is_script_of_wheel(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- of a text
            return b"from cmeel" in file.read(_SCRIPT_BYTES)
    except OSError:
        return False


def _environment(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the environment with these directories first among those of shared libraries: the wheels' files name none."""
    given = settings.foreign_variables(("LD_LIBRARY_PATH",)).get("LD_LIBRARY_PATH")
    path = [*libraries, *([given] if given else [])]  # an empty part would be the working directory
    return settings.child_environment(LD_LIBRARY_PATH=os.pathsep.join(path)) if libraries else settings.child_environment()


@functools.lru_cache(maxsize=64)
def _ask(path: str, libraries: tuple[str, ...], *_changed: int) -> tuple[tuple[int, ...] | None, str]:
    """Return a program's version, and why it does not run; ``_changed`` has it asked again after an update."""
    try:
        done = run_tool([path, "--version"], b"", _VERSION_TIMEOUT_S, env=_environment(libraries))
    except ChildTimeout:
        return None, f"it did not end in {_VERSION_TIMEOUT_S} s"
    except OSError as error:
        if error.errno == errno.ENOENT:  # the file is there: what is not is the loader that it names
            return None, "it is for another C library, whose loader is not here"
        return None, str(error.strerror)
    found = _VERSION.search(done.stdout)
    if found:
        return tuple(int(one) for one in found[1].split(b".")), ""
    if done.returncode < 0:
        return None, f"it died of signal {-done.returncode}"
    said = done.stderr.decode("utf-8", "replace").splitlines()
    return None, (
        said[0].strip().removeprefix(f"{path}: ") if said else f"it ended with status {done.returncode}"
    ) if done.returncode else ""
