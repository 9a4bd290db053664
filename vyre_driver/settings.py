"""The only reader of ``VYRE_*`` environment variables, and where a user's files lie without them.

Each variable is read when it is needed, never at import, so one that is set later still counts. Empty means unset. A value
that is not valid is refused with the variable's name, never guessed at.

``SETTINGS`` is the table that docs/settings.md is checked against.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vyre_driver.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Collection

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_BYTE_SIZE = re.compile(r"([0-9]{1,18})([KMGkmg]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable: its name, what it takes, what holds without it, what it does."""

    variable: str
    takes: str
    default: str
    effect: str


DEVICE = Setting(
    "VYRE_DEVICE",
    "`uuid:`, `pci:`, `name:` or `type:` and a value, or an index",
    "the best device",
    "Which Vulkan device a Driver opens when its `device` argument is not given.",
)
ALLOW_SOFTWARE = Setting(
    "VYRE_ALLOW_SOFTWARE",
    "a switch",
    "off",
    "Lets a Driver open a Vulkan device of type CPU (llvmpipe and its like).",
)
BACKEND = Setting(
    "VYRE_BACKEND",
    "the id of a backend",
    "the best one",
    "Which backend `acquire_preferred_dispatch_backend` takes. It may name an interpreter, which is never chosen otherwise.",
)
DISABLE_PLUGINS = Setting(
    "VYRE_DISABLE_PLUGINS",
    "a switch",
    "off",
    "Leaves out backends of other packages: none of their code is imported.",
)
PLUGIN_TIMEOUT = Setting(
    "VYRE_PLUGIN_TIMEOUT",
    "a number of seconds above 0",
    "`10`",
    "How long the import of another package's backend may take before it counts as broken.",
)
CACHE_DIR = Setting(
    "VYRE_CACHE_DIR",
    "an absolute directory",
    "`$XDG_CACHE_HOME/vyre/pipelines`, else `~/.cache/vyre/pipelines`",
    "Where the pipeline cache keeps its entries.",
)
CACHE_DISABLE = Setting(
    "VYRE_CACHE_DISABLE",
    "a switch",
    "off",
    "Keeps the pipeline cache in memory only.",
)
CACHE_READONLY = Setting(
    "VYRE_CACHE_READONLY",
    "a switch",
    "off",
    "Changes nothing in the pipeline cache's directory; new entries stay in memory.",
)
CACHE_MAX_SIZE = Setting(
    "VYRE_CACHE_MAX_SIZE",
    "a number of bytes, also with `K`, `M` or `G` (powers of 1024)",
    "`1G`",
    "How much of the disk the pipeline cache may take; what was not used for longest goes first.",
)
ASSERT_WARM = Setting(
    "VYRE_ASSERT_WARM",
    "a switch",
    "off",
    "Raises CacheNotWarm wherever something would have to be compiled, as `driver.assert_warm()` does.",
)

CACHE_BASE = Setting(
    "VYRE_CACHE_BASE",
    "an absolute directory",
    "none",
    "Another pipeline cache below this one, never changed: what is not here is looked for there. For a container's image.",
)
CACHE_HMAC_KEY_FILE = Setting(
    "VYRE_CACHE_HMAC_KEY_FILE",
    "an absolute path",
    "none",
    "The key that cache entries are sealed with; with one, no entry without its seal is taken.",
)
AUTOTUNE = Setting(
    "VYRE_AUTOTUNE",
    "`off`, `read`, `tune` or `force`",
    "`read`",
    "Whether stored tuning records are used; with `tune` what has none is tuned when it is first used, with `force` anything.",
)
AUTOTUNE_FILE = Setting(
    "VYRE_AUTOTUNE_FILE",
    "an absolute path",
    "`$XDG_STATE_HOME/vyre/autotune.toml`, else `~/.local/state/vyre/autotune.toml`",
    "Where tuning records are kept.",
)
LAYER = Setting(
    "VYRE_LAYER",
    "a switch",
    "on",
    "Runs kompute under the vyre Vulkan layer; without it everything works, slower.",
)
LAYER_HOOKS_OFF = Setting(
    "VYRE_LAYER_HOOKS_OFF",
    "names separated by commas: `pipeline_cache fences waits memory features results barriers shared_pipelines`",
    "none",
    "Switches single hooks of the layer off.",
)

ROBUST_ACCESS = Setting(
    "VYRE_ROBUST_ACCESS",
    "a switch",
    "off",
    "Switches robustBufferAccess on: what a shader reads or writes past a buffer's end harms nothing else. Costs speed.",
)

SPIRV_VAL = Setting(
    "VYRE_SPIRV_VAL",
    "a switch",
    "on",
    "Asks spirv-val, where it is installed, about each module that a driver is to compile, and refuses what it refuses.",
)

STRICT = Setting(
    "VYRE_STRICT",
    "a switch",
    "off",
    "Makes a Driver strict whose `strict` argument is not given: the buffers of each call are checked, robust access is on.",
)

OPENTELEMETRY = Setting(
    "VYRE_OPENTELEMETRY",
    "a switch",
    "off",
    "Makes a span of each event of a Driver through opentelemetry-api, which must be installed.",
)

SETTINGS = (
    DEVICE,
    ALLOW_SOFTWARE,
    BACKEND,
    DISABLE_PLUGINS,
    PLUGIN_TIMEOUT,
    CACHE_DIR,
    CACHE_DISABLE,
    CACHE_READONLY,
    CACHE_MAX_SIZE,
    CACHE_BASE,
    CACHE_HMAC_KEY_FILE,
    ASSERT_WARM,
    AUTOTUNE,
    AUTOTUNE_FILE,
    LAYER,
    LAYER_HOOKS_OFF,
    ROBUST_ACCESS,
    SPIRV_VAL,
    STRICT,
    OPENTELEMETRY,
)


def text(setting: Setting) -> str | None:
    """The variable's value, or None when it is unset or empty."""
    return os.environ.get(setting.variable) or None


def foreign_variables(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of others whose names begin with one of the prefixes, sorted by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(prefixes)}


def child_environment(**changes: str) -> dict[str, str]:
    """Return the environment for a child process, with some variables changed."""
    return {**os.environ, **changes}


def switch(setting: Setting, *, unset: bool = False) -> bool:
    """Whether the variable switches something on; ``unset`` is what holds without it.

    Raises
    ------
    InvalidSetting
        If the value is none of 1 true yes on 0 false no off.
    """
    value = text(setting)
    if value is None:
        return unset
    if value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    raise InvalidSetting(
        f"{setting.variable} is {value!r}, which is neither on nor off",
        fix=f"set {setting.variable} to 1 or 0, or unset it",
        variable=setting.variable,
        value=value,
    )


def names(setting: Setting, known: Collection[str]) -> frozenset[str]:
    """Return the names that the variable lists, separated by commas.

    Raises
    ------
    InvalidSetting
        If one of them is not among ``known``.
    """
    value = text(setting)
    found = frozenset(name.strip() for name in value.split(",")) if value else frozenset()
    for name in sorted(found - set(known)):
        raise InvalidSetting(
            f"{setting.variable} names {name!r}, which is none of {', '.join(known)}",
            fix=f"set {setting.variable} to names from that list, separated by commas",
            variable=setting.variable,
            value=value,
        )
    return found


def choice(setting: Setting, known: Collection[str]) -> str | None:
    """Return the one of the known words that the variable holds, in lower case, or None when it is unset.

    Raises
    ------
    InvalidSetting
        If it is none of them.
    """
    value = text(setting)
    if value is None or value.lower() in known:
        return value and value.lower()
    raise InvalidSetting(
        f"{setting.variable} is {value!r}, which is none of {', '.join(known)}",
        fix=f"set {setting.variable} to one of them, or unset it",
        variable=setting.variable,
        value=value,
    )


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
    match = _BYTE_SIZE.fullmatch(value)
    size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if size == 0:
        raise InvalidSetting(
            f"{setting.variable} is {value!r}, which is not a number of bytes from 1 on",
            fix=f"set {setting.variable} to an integer, with K, M or G behind it as you like, or unset it",
            variable=setting.variable,
            value=value,
        )
    return size


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
        raise InvalidSetting(
            f"{setting.variable} is {value!r}, which is not a number of seconds above 0",
            fix=f"set {setting.variable} to a number such as 2.5, or unset it",
            variable=setting.variable,
            value=value,
        )
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
        raise InvalidSetting(
            f"{setting.variable} is {value!r}, a relative path",
            fix=f"set {setting.variable} to an absolute path",
            variable=setting.variable,
            value=value,
        )
    return path


def user_directory(kind: Literal["cache", "state"]) -> Path | None:
    """Return ``vyre`` below XDG_CACHE_HOME or XDG_STATE_HOME, else below ``~/.cache`` or ``~/.local/state``.

    None without a usable home. A relative or empty variable is ignored, and neither the working directory nor a
    temporary one is ever used.
    """
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
