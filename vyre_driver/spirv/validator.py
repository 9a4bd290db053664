"""Validate a module with the Khronos validator where it is installed: spirv-val in a child process.

A driver trusts its compiler's input, and some die on a module that breaks the rules inside its functions. Our own reading
refuses what is badly framed or declared; the validator knows all the rules.

Source: SPIRV-Tools' spirv-val; Vulkan 1.3, appendix "Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import settings
from vyre_driver.errors import InvalidModule, ToolUnavailable
from vyre_driver.process.tools import SPIRV_VAL, Tool, find_tool
from vyre_driver.process.workers import ChildTimeout
from vyre_driver.vulkan.version import known_minor

if TYPE_CHECKING:
    from collections.abc import Collection

_TIMEOUT_S = 120
_MAX_KEPT = 64
# The layouts of buffers and of LocalSizeId are what reflection reads, whatever the device says of them.
_OPTIONS = ("--scalar-block-layout", "--allow-localsizeid")
_LOG = logging.getLogger("vyre_driver.spirv")
_UNKNOWN_CAPABILITY = re.compile(r"Invalid capability operand: (\d+)")
# What it says before it judges anything, where it does not know a version, a number or a set of instructions.
_UNKNOWN = re.compile(
    r"Invalid [\w -]+ operand: (?P<number>\d+)|Invalid opcode: (?P<opcode>\d+)"
    r"|Invalid extended instruction import 'NonSemantic\.|Invalid SPIR-V header|Unrecognized target env"
)
_LINE = re.compile(r"^line \d+: ")
_UNKNOWN_BIT = re.compile(r"has invalid mask component (\d+)")
_NO_NUMBERS = 0x4000  # the registry gives numbers out from below, and is at about 7,400
_NO_BITS = 1 << 28  # of its masks the longest has 27


def check_valid(code: bytes, capabilities: Collection[int], api_version: int, source: str) -> None:
    """Check that spirv-val, where it is installed, accepts the module for a device opened for this packed Vulkan version.

    ``capabilities`` are the module's, each of which the device was found to have. A validator that does not know one of them,
    or a number or version that SPIR-V may have, is older than the module and cannot judge it: that is logged once, and the
    module accepted. VYRE_SPIRV_VAL=0 switches the check off. Verdicts on the last 64 modules are kept.

    Raises
    ------
    InvalidModule
        If it is refused, or the validator dies on it.
    ToolUnavailable
        If the validator cannot be run, or does not finish in 120 s.
    """
    tool = find_tool(SPIRV_VAL) if settings.switch(settings.SPIRV_VAL) else None
    if tool is None:
        return
    complaint = verdicts.complaint(tool, f"vulkan1.{known_minor(api_version)}", code)
    if not complaint:
        return
    if _is_older(complaint, capabilities):
        _log_older(tool.path, _LINE.sub("", complaint))
        return
    raise InvalidModule(
        f"{source} is not a valid SPIR-V module: {SPIRV_VAL} says {complaint}",
        fix="correct the shader, rebuild it with a newer compiler, or set VYRE_SPIRV_VAL=0 to run it unchecked",
        source=source,
    )


def _is_older(complaint: str, capabilities: Collection[int]) -> bool:
    """Return whether a validator complains of what it does not know, and not of what it knows to be wrong.

    Numbers that SPIR-V has not given out are not newer than any validator.
    """
    capability = _UNKNOWN_CAPABILITY.search(complaint)
    if capability is not None:
        return int(capability[1]) in capabilities
    unknown, bit = _UNKNOWN.search(complaint), _UNKNOWN_BIT.search(complaint)
    if unknown is None:
        return False
    if bit is not None:
        return int(bit[1]) < _NO_BITS
    return int(unknown["number"] or unknown["opcode"] or 0) < _NO_NUMBERS


@functools.lru_cache(maxsize=64)
def _log_older(path: str, complaint: str) -> None:
    """Log, once for each of the last 64 complaints, that a validator is too old for a module."""
    _LOG.warning(
        "%s is older than a module, which runs unchecked: %s. Install a newer one, or pip install 'vyre-driver[glsl]'",
        path,
        complaint,
    )


class _Verdicts:
    """The last verdicts, by the digests of modules: the modules themselves, of up to 64 MiB each, need not stay."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, bytes], str] = OrderedDict()
        self._changing = threading.Lock()

    def complaint(self, tool: Tool, environment: str, code: bytes) -> str:
        """Return the validator's message for a module, or the remembered one; raises as ``_ask``."""
        asked = tool.path, environment, blake3(code).digest()
        with self._changing:
            if asked in self._kept:
                self._kept.move_to_end(asked)
                return self._kept[asked]
        found = _ask(tool, environment, code)
        with self._changing:
            self._kept[asked] = found
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget them."""
        with self._changing:
            self._kept.clear()


verdicts = _Verdicts()


def _ask(tool: Tool, environment: str, code: bytes) -> str:
    """Return the first of the validator's errors; nothing where it has none, or does not take our options."""
    try:
        done = tool.run(["--target-env", environment, *_OPTIONS, "-"], code, _TIMEOUT_S)
    except ChildTimeout as error:
        raise ToolUnavailable(
            f"{SPIRV_VAL} did not judge a module of {len(code)} bytes in {_TIMEOUT_S} s",
            fix="make the shader smaller, or set VYRE_SPIRV_VAL=0",
            tool=SPIRV_VAL,
        ) from error
    if done.returncode < 0:
        return f"nothing: it died of signal {-done.returncode}"
    said = done.stderr.decode("utf-8", "replace").partition("error: ")[2].splitlines()
    return said[0].strip().rstrip(".") if done.returncode and said else ""
