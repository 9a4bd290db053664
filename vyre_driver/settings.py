"""The only reader of ``VYRE_*`` environment variables, and where a user's files lie without them.

Each variable is read when it is needed, never at import, so one that is set later still counts. Empty means unset. A value
that is not valid is refused with the variable's name, never guessed at.

``SETTINGS`` is the table that docs/settings.md is checked against, in the order of the definitions.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vyre_driver._loading import missing_is_named
from vyre_driver.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Collection

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_BYTE_SIZE = re.compile(r"([0-9]{1,18})([KMGkmg]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable: its name, what it does, what it takes, and what holds without it."""

    variable: str
    effect: str
    takes: str = "a switch"
    default: str = "off"


DEVICE = Setting(
    "VYRE_DEVICE",
    "Which Vulkan device a Driver opens when its `device` argument is not given.",
    "`uuid:`, `pci:`, `name:` or `type:` and a value, or an index",
    "the best device",
)
ALLOW_SOFTWARE = Setting("VYRE_ALLOW_SOFTWARE", "Lets a Driver open a Vulkan device of type CPU (llvmpipe and its like).")
CACHE_DIR = Setting(
    "VYRE_CACHE_DIR",
    "Where the pipeline cache keeps its entries.",
    "an absolute directory",
    "`$XDG_CACHE_HOME/vyre/pipelines`, else `~/.cache/vyre/pipelines`",
)
CACHE_DISABLE = Setting("VYRE_CACHE_DISABLE", "Keeps the pipeline cache in memory only.")
CACHE_READONLY = Setting(
    "VYRE_CACHE_READONLY",
    "Changes nothing in the pipeline cache's directory; new entries stay in memory.",
)
CACHE_MAX_SIZE = Setting(
    "VYRE_CACHE_MAX_SIZE",
    "How much of the disk the pipeline cache may take; what was not used for longest goes first.",
    "a number of bytes, also with `K`, `M` or `G` (powers of 1024)",
    "`1G`",
)
CACHE_BASE = Setting(
    "VYRE_CACHE_BASE",
    "Another pipeline cache below this one, never changed: what is not here is looked for there. For a container's image.",
    "an absolute directory",
    "none",
)
CACHE_HMAC_KEY_FILE = Setting(
    "VYRE_CACHE_HMAC_KEY_FILE",
    "The key that cache entries are sealed with; with one, no entry without its seal is taken.",
    "an absolute path",
    "none",
)
CACHE_REMOTE = Setting(
    "VYRE_CACHE_REMOTE",
    "Where entries are looked for that are not here: a store that machines share.",
    "a URL: `redis://`, `rediss://`, `unix:`, `file:`, `s3://`, `gs://`, `az://` or `https://`; without a password",
    "none",
)
CACHE_REMOTE_MODE = Setting(
    "VYRE_CACHE_REMOTE_MODE",
    "Whether that store is asked at all, only read, or also given what is compiled here.",
    "`off`, `read` or `write`",
    "`write` with a signing key, else `read`",
)
CACHE_REMOTE_TIMEOUT = Setting(
    "VYRE_CACHE_REMOTE_TIMEOUT",
    "How long a first answer of that store is waited for.",
    "a number of seconds above 0",
    "`0.25`",
)
CACHE_REMOTE_SECRET_FILE = Setting(
    "VYRE_CACHE_REMOTE_SECRET_FILE",
    "User and password for that store, as `user:password` in a file that nobody else may read.",
    "an absolute path",
    "none",
)
CACHE_TRUST_FILE = Setting(
    "VYRE_CACHE_TRUST_FILE",
    "The public keys whose signed entries and tuning records are taken, one named key a line.",
    "an absolute path",
    "none",
)
CACHE_SIGN_KEY_FILE = Setting(
    "VYRE_CACHE_SIGN_KEY_FILE",
    "The private key with which what is compiled or tuned here is signed for others.",
    "an absolute path",
    "none",
)
CACHE_RECORD = Setting(
    "VYRE_CACHE_RECORD",
    "Writes down what kernels are compiled of, for `vyre-driver cache warm`; any number of processes may add to one file.",
    "an absolute path",
    "none",
)
ASSERT_WARM = Setting(
    "VYRE_ASSERT_WARM",
    "Raises CacheNotWarm wherever something would have to be compiled, as `driver.assert_warm()` does.",
)
AUTOTUNE = Setting(
    "VYRE_AUTOTUNE",
    "Whether stored tuning records are used; with `tune` what has none is tuned when it is first used, with `force` anything.",
    "`off`, `read`, `tune` or `force`",
    "`read`",
)
AUTOTUNE_FILE = Setting(
    "VYRE_AUTOTUNE_FILE",
    "Where tuning records are kept.",
    "an absolute path",
    "`$XDG_STATE_HOME/vyre/autotune.toml`, else `~/.local/state/vyre/autotune.toml`",
)
ROBUST_ACCESS = Setting(
    "VYRE_ROBUST_ACCESS",
    "Switches robustBufferAccess on: what a shader reads or writes past a buffer's end harms nothing else. Costs speed.",
)
PIPELINE_STATISTICS = Setting(
    "VYRE_PIPELINE_STATISTICS",
    "Asks the Vulkan driver for statistics of compiled code, such as registers and spills: `kernel.trace.executables`, and the "
    "results of tuning. Pipelines are compiled anew for it. Read when a device is opened.",
)
MEMORY_LIMIT = Setting(
    "VYRE_MEMORY_LIMIT",
    "How much of a device's memory the buffers of a Driver may take. Read when a device is opened.",
    "a number of bytes, also with `K`, `M` or `G` (powers of 1024)",
    "all of it",
)
SPIRV_VAL = Setting(
    "VYRE_SPIRV_VAL",
    "Asks spirv-val, where it is installed, about each module that a driver is to compile, and refuses what it refuses.",
    default="on",
)
STRICT = Setting(
    "VYRE_STRICT",
    "Makes a Driver strict whose `strict` argument is not given: the buffers of each call are checked, so are loops on a CPU "
    "device, and robust access is on.",
)
INTERPRET = Setting(
    "VYRE_INTERPRET",
    "Runs calls of Python kernels without a device: with `1` on the reference interpreter, which tells accesses out of range, "
    "races and failed asserts by line; with `python` as the function itself. Read at each call; `bind` and `tune` do not look "
    "at it.",
    "`1` or `python`",
    "off",
)
TRACE = Setting(
    "VYRE_TRACE",
    "The file that a process which opens a Driver writes its trace to when it ends, `{pid}` in its name being its number "
    "(docs/profiling.md).",
    "an absolute path",
    "none",
)
OPENTELEMETRY = Setting(
    "VYRE_OPENTELEMETRY",
    "Exports spans and metrics of each Driver through opentelemetry-api (1.30 or later), which must be installed.",
)
TOP = Setting("VYRE_TOP", "Shows the drivers of a process to `vyre-driver top`, through a socket that only this user may open.")

SETTINGS = tuple(one for one in list(vars().values()) if isinstance(one, Setting))


def text(setting: Setting) -> str | None:
    """The variable's value, or None when it is unset or empty."""
    return os.environ.get(setting.variable) or None


def foreign_variables(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of others whose names begin with one of the prefixes, sorted by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(prefixes)}


def child_environment(**changes: str) -> dict[str, str]:
    """Return the environment for a child process, with some variables changed."""
    return {**os.environ, **changes}


def _refused(setting: Setting, value: str, problem: str, valid: str) -> InvalidSetting:
    """Return the error of a value: what the variable is or does, and what to set it to."""
    return InvalidSetting(
        f"{setting.variable} {problem}", fix=f"set {setting.variable} to {valid}", variable=setting.variable, value=value
    )


def switch(setting: Setting) -> bool:
    """Whether the variable, or its default without it, switches something on.

    Raises
    ------
    InvalidSetting
        If the value is none of 1 true yes on 0 false no off.
    """
    value = text(setting) or setting.default
    if value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    raise _refused(setting, value, f"is {value!r}, which is neither on nor off", "1 or 0, or unset it")


def choice(setting: Setting, known: Collection[str]) -> str | None:
    """Return the one of the known words that the variable holds, in lower case, or None when it is unset.

    Raises
    ------
    InvalidSetting
        If it is none of them.
    """
    value = text(setting)
    if value is not None and value.lower() not in known:
        raise _refused(setting, value, f"is {value!r}, which is none of {', '.join(known)}", "one of them, or unset it")
    return value and value.lower()


def byte_size(setting: Setting) -> int | None:
    """Return the variable's number of bytes, 1 or more, or None when it is unset; K, M and G are powers of 1024.

    Raises
    ------
    InvalidSetting
        If the value is no such number.
    """
    value = text(setting)
    if value is None:
        return None
    size = bytes_of(value)
    if size == 0:
        valid = "an integer, with K, M or G behind it as you like, or unset it"
        raise _refused(setting, value, f"is {value!r}, which is not a number of bytes from 1 on", valid)
    return size


def bytes_of(size: str) -> int:
    """Return the bytes of a text such as ``512M``; 0 for one that is no number of bytes. K, M and G are powers of 1024."""
    match = _BYTE_SIZE.fullmatch(size)
    return int(match[1]) * _UNITS[match[2].upper()] if match else 0


def seconds(setting: Setting) -> float | None:
    """Return the variable's number of seconds, above 0 and finite, or None when it is unset.

    Raises
    ------
    InvalidSetting
        If the value is no such number.
    """
    value = text(setting)
    if value is None:
        return None
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        valid = "a number such as 2.5, or unset it"
        raise _refused(setting, value, f"is {value!r}, which is not a number of seconds above 0", valid)
    return found


def absolute_path(setting: Setting) -> Path | None:
    """The variable's value as an absolute path, or None when it is unset; nothing need be there.

    Raises
    ------
    InvalidSetting
        If the path is relative: what it names would change with the working directory.
    """
    value = text(setting)
    if value is None:
        return None
    path = Path(os.path.expanduser(value))  # noqa: PTH111 -- Path.expanduser raises where there is no such home
    if not path.is_absolute():
        raise _refused(setting, value, f"is {value!r}, a relative path", "an absolute path")
    return path


def user_directory(kind: Literal["cache", "state"]) -> Path | None:
    """Return ``vyre`` below XDG_CACHE_HOME or XDG_STATE_HOME, else below ``~/.cache`` or ``~/.local/state``.

    None without a usable home. A relative or empty variable is ignored, and neither the working directory nor a
    temporary one is ever used.
    """
    with missing_is_named():
        import platformdirs

    find, below_home = {
        "cache": (platformdirs.user_cache_dir, "~/.cache/vyre"),
        "state": (platformdirs.user_state_dir, "~/.local/state/vyre"),
    }[kind]
    try:
        found = Path(find("vyre", appauthor=False))
    except RuntimeError:  # platformdirs found no home
        found = Path()
    if not found.is_absolute():
        found = Path(os.path.expanduser(below_home))  # noqa: PTH111 -- Path.expanduser raises without a home
    return found if found.is_absolute() else None


def runtime_directory() -> Path | None:
    """Return where sockets go: ``vyre`` below XDG_RUNTIME_DIR or /run/user/UID, else ``run`` in the state directory.

    None without a usable home. A relative or empty variable is ignored, and no temporary directory is ever used.
    """
    named = Path(os.environ.get("XDG_RUNTIME_DIR") or "")
    usual = Path(f"/run/user/{os.geteuid()}")
    for base in (named, usual):
        if base.is_absolute() and base.is_dir():
            return base / "vyre"
    state = user_directory("state")
    return None if state is None else state / "run"
