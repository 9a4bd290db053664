"""Every exception this package raises, as one tree with stable codes.

    VyreError
    |-- BackendError                  the upstream categories, numbers kept
    |   |-- DeviceOutOfMemory         1001  MemoryError
    |   |-- UnsupportedFeature        1002  NotImplementedError
    |   |-- KernelCompileFailed       1004  RuntimeError
    |   |-- BackendNotFound           2014  LookupError
    |   |-- NoUsableBackend           2015  RuntimeError
    |   |-- DispatchFailed            1005  RuntimeError
    |   |   |-- ForkError             2005
    |   |   |-- DeviceLost            2006
    |   |   |-- DispatchTimeout       2007  TimeoutError
    |   |   |-- OutputNotWritten      2008
    |   |   |-- InputChanged          2009
    |   |   |-- ExecutionFault        2010
    |   |   |   |-- Trapped           2011
    |   |   |   `-- DivergentBarrier  2013
    |   |   `-- StepBudgetExceeded    2012
    |   `-- InvalidProgram            1006  ValueError
    |       |-- InvalidModule         2101
    |       |-- InvalidSpecialization 2102
    |       |-- InvalidPushConstant   2103
    |       |-- LimitExceeded         2104
    |       |-- InvalidContainer      2105
    |       `-- InvalidDispatchConfig 2106
    |-- VulkanUnavailable             2001  OSError
    |-- DeviceNotFound                2002  LookupError
    |   `-- SoftwareDeviceRefused     2003
    |-- BackendUnavailable            2004  ImportError
    |-- InvalidInput                  2201  ValueError
    |-- FileUnusable                  2202  OSError
    |-- InvalidKey                    2203  ValueError
    |-- InvalidBlob                   2204  ValueError
    |-- CacheUnusable                 2205  OSError
    |-- InvalidBundle                 2206  ValueError
    |-- InvalidRegistration           2207  ValueError
    |-- InvalidAutotuneRecord         2208  ValueError
    |-- InvalidAutotuneFile           2209  ValueError
    |-- InvalidTuningSpace            2210  ValueError
    |-- TuningFailed                  2211  RuntimeError
    |-- ToolUnavailable               2301  OSError
    |-- ShaderSyntaxError             2302  ValueError
    |-- InvalidSetting                2401  ValueError
    |-- InvalidCommand                2501  ValueError
    `-- CacheNotWarm                  2601  RuntimeError

A message says what is wrong, with which thing, with both numbers and their units, and ends in ``Fix:`` and one imperative
sentence. What it says is also in attributes, so that no caller has to parse text. Codes are append-only.

Source: the categories and numbers 1001-1006 are upstream's backend errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vyre_driver.ir.validation.rules import Problem


class VyreError(Exception):
    """Base of every error of this package.

    ``code`` is a stable number of the class, ``fix`` the advice alone, ``context`` the facts named in the message.
    """

    code: int = 1999

    def __init__(self, problem: str, *, fix: str, **context: object) -> None:
        """Build the message ``<problem>. Fix: <fix>.`` and keep its parts."""
        super().__init__(f"{problem}. Fix: {fix}.")
        self.problem = problem
        self.fix = fix
        self.context: dict[str, object] = context

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by parts, so that an error survives a process boundary whole."""
        return _rebuild, (type(self), self.problem, self.fix, self.context)


def with_article(word: str) -> str:
    """Return a word behind ``a`` or ``an``, as it is read out: an i32, an f32, a u32, an int."""
    return f"an {word}" if word[:1] in set("aeio") or (word[:1] == "f" and word[1:].isdigit()) else f"a {word}"


def _rebuild(cls: type[VyreError], problem: str, fix: str, context: dict[str, object]) -> VyreError:
    return cls(problem, fix=fix, **context)


class BackendError(VyreError):
    """A backend refused or failed; the seed's error family."""


class DeviceOutOfMemory(BackendError, MemoryError):
    """The device cannot hold what was asked for (``requested_bytes``, ``available_bytes``)."""

    code = 1001


class UnsupportedFeature(BackendError, NotImplementedError):
    """The program needs something that this device or backend does not offer."""

    code = 1002


class KernelCompileFailed(BackendError, RuntimeError):
    """The Vulkan driver could not make a pipeline of a well-formed module."""

    code = 1004


class DispatchFailed(BackendError, RuntimeError):
    """The work was submitted to the device and failed."""

    code = 1005


class ForkError(DispatchFailed):
    """A device opened in the parent process was used in a forked child."""

    code = 2005


class DeviceLost(DispatchFailed):
    """The device stopped answering; nothing made on it works any more, and a new Driver may."""

    code = 2006


class DispatchTimeout(DispatchFailed, TimeoutError):
    """The work did not end in the time given; it is still running (``timeout_s``)."""

    code = 2007


class OutputNotWritten(DispatchFailed):
    """A shader left elements of an output unwritten (``binding``, ``count``, ``elements``, ``first_index``)."""

    code = 2008


class InputChanged(DispatchFailed):
    """A dispatch changed a read-only buffer (``binding``, ``count``, ``elements``, ``first_index``)."""

    code = 2009


class ExecutionFault(DispatchFailed):
    """An invocation did what has no result, such as an i32 division by zero (``invocation``, ``path``)."""

    code = 2010


class Trapped(ExecutionFault):
    """The program stopped itself (``address``, ``tag``)."""

    code = 2011


class StepBudgetExceeded(DispatchFailed):
    """An invocation ran more statements than it was given (``limit``)."""

    code = 2012


class DivergentBarrier(ExecutionFault):
    """Only some of the invocations that a barrier waits for have reached it."""

    code = 2013


class BackendNotFound(BackendError, LookupError):
    """No backend has the given id (``wanted``, ``near``)."""

    code = 2014


class NoUsableBackend(BackendError, RuntimeError):
    """No backend that dispatches is available without being named (``tried``: why not, by id)."""

    code = 2015


class InvalidProgram(BackendError, ValueError):
    """The program cannot run anywhere as it is."""

    code = 1006

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that the validator found, in order: at most 1000; empty when something else refused the program."""
        found: tuple[Problem, ...] = self.context.get("problems", ())  # type: ignore[assignment]
        return found


class InvalidModule(InvalidProgram):
    """The bytes are not a SPIR-V module that may be given to a driver."""

    code = 2101


class InvalidSpecialization(InvalidProgram):
    """A specialization constant is unknown, of the wrong type, or out of range."""

    code = 2102


class InvalidPushConstant(InvalidProgram):
    """A push constant is unknown, missing, of the wrong type, or out of range."""

    code = 2103


class LimitExceeded(InvalidProgram):
    """A number is over a limit of the device (``value``, ``limit``)."""

    code = 2104


class InvalidContainer(InvalidProgram):
    """The bytes are not a program in a form that can be read (``offset``)."""

    code = 2105


class InvalidDispatchConfig(InvalidProgram):
    """A field of a dispatch configuration is of the wrong type or out of range (``field``, ``value``)."""

    code = 2106


class VulkanUnavailable(VyreError, OSError):
    """There is no Vulkan loader, or it found no driver."""

    code = 2001


class DeviceNotFound(VyreError, LookupError):
    """No device, or more than one, answers to the given name."""

    code = 2002


class SoftwareDeviceRefused(DeviceNotFound):
    """Only a CPU device is there, and none was allowed."""

    code = 2003


class BackendUnavailable(VyreError, ImportError):
    """A package that this backend is made of is not installed or cannot be loaded."""

    code = 2004


class InvalidInput(VyreError, ValueError):
    """An array does not fit its binding (``binding``, and both numbers)."""

    code = 2201


class FileUnusable(VyreError, OSError):
    """A file given by the user cannot be read, or one to be written cannot be (``path``)."""

    code = 2202


class InvalidKey(VyreError, ValueError):
    """A part of a key or fingerprint is of the wrong type, size or range (``field``, ``value``)."""

    code = 2203


class InvalidBlob(VyreError, ValueError):
    """A raw blob is over the cache's limit or is none (``kind``: ``InvalidInput`` on writing, ``InvalidData`` on reading)."""

    code = 2204


class CacheUnusable(VyreError, OSError):
    """The cache's directory may not be used, or not be written to (``root``, ``reason``)."""

    code = 2205


class InvalidBundle(VyreError, ValueError):
    """The file is not a bundle of cache entries, or nothing vouches for it."""

    code = 2206


class InvalidRegistration(VyreError, ValueError):
    """What is registered is not a backend, or its id is taken (``backend``, ``sources``)."""

    code = 2207


class InvalidAutotuneRecord(VyreError, ValueError):
    """A field of a tuning record is of the wrong type or out of range (``field``, ``value``)."""

    code = 2208


class InvalidAutotuneFile(VyreError, ValueError):
    """The file is not an autotune file, or a newer version's, which this one does not write to (``path``)."""

    code = 2209


class InvalidTuningSpace(VyreError, ValueError):
    """The tuning space is not valid, or has no candidate that this device can run (``constant`` or ``refused``)."""

    code = 2210


class TuningFailed(VyreError, RuntimeError):
    """No candidate gave a right result in time (``kernel``, ``outcomes``)."""

    code = 2211


class ToolUnavailable(VyreError, OSError):
    """A tool that this step runs as a child process is not installed (``tool``)."""

    code = 2301


class ShaderSyntaxError(VyreError, ValueError):
    """A GLSL source does not compile; the compiler's own lines are in the message."""

    code = 2302


class InvalidSetting(VyreError, ValueError):
    """An environment variable holds a value that is not valid (``variable``, ``value``)."""

    code = 2401


class InvalidCommand(VyreError, ValueError):
    """A command line that is not valid."""

    code = 2501


class CacheNotWarm(VyreError, RuntimeError):
    """Something would have to be compiled where nothing may be (``key``, ``reason``)."""

    code = 2601
