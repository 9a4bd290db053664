"""A module's code as text, by spirv-dis of the Khronos tools in a child process."""

from __future__ import annotations

from vyre_driver.errors import InvalidModule, ToolUnavailable
from vyre_driver.process.tools import SPIRV_DIS, find_tool, not_installed
from vyre_driver.process.workers import ChildTimeout

_TIMEOUT_S = 120


def disassemble(code: bytes, source: str = "the module") -> str:
    """Return the instructions of a SPIR-V module, one a line; ``source`` names the module in errors.

    Raises
    ------
    ToolUnavailable
        If spirv-dis is not installed, cannot be run, or does not finish in 120 s.
    InvalidModule
        If it refuses the module, or dies on it.
    """
    tool = find_tool(SPIRV_DIS)
    if tool is None:
        raise not_installed(SPIRV_DIS, "modules are disassembled with it")
    try:
        done = tool.run(["--no-color", "-"], code, _TIMEOUT_S)
    except ChildTimeout as error:
        raise ToolUnavailable(
            f"{SPIRV_DIS} did not finish {source} of {len(code)} bytes in {_TIMEOUT_S} s",
            fix="disassemble a smaller module",
            tool=SPIRV_DIS,
        ) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("error: ")[2].splitlines()
        why = said[0].rstrip(".") if said else "no reason given"
        how = f"it died of signal {-done.returncode}" if done.returncode < 0 else why
        raise InvalidModule(
            f"{SPIRV_DIS} cannot disassemble {source}: {how}",
            fix="rebuild the shader with its compiler, or install a newer spirv-tools",
            source=source,
        )
    return done.stdout.decode("utf-8", "replace")
