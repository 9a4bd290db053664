"""Every exception this package raises, as one tree with stable codes.

    VyreError
    |-- BackendError                  the upstream categories, numbers kept
    |   |-- DeviceOutOfMemory         1001  MemoryError
    |   |-- UnsupportedFeature        1002  NotImplementedError
    |   |-- PoisonedLock              1003  RuntimeError
    |   |-- KernelCompileFailed       1004  RuntimeError
    |   |-- CooperativeResidencyExceeded  1007  RuntimeError
    |   |-- BackendNotFound           2014  LookupError
    |   |-- NoUsableBackend           2015  RuntimeError
    |   |-- DispatchFailed            1005  RuntimeError
    |   |   |-- ForkError             2005
    |   |   |-- DeviceLost            2006
    |   |   |-- DispatchTimeout       2007  TimeoutError
    |   |   |-- OutputNotWritten      2008
    |   |   |-- InputChanged          2009
    |   |   |-- DriverCrashed         2017
    |   |   |-- WorkerLost            2018
    |   |   |-- LoopCut               2019
    |   |   |-- ExecutionFault        2010
    |   |   |   |-- Trapped           2011
    |   |   |   |-- DivergentBarrier  2013
    |   |   |   `-- DataRace          2016
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
    |-- IndexOutOfRange               2212  IndexError
    |-- CopyNeeded                    2213  BufferError
    |-- NotAnArray                    2214  TypeError
    |-- RemoteUnavailable             2215  OSError
    |-- ToolUnavailable               2301  OSError
    |-- ShaderSyntaxError             2302  ValueError
    |-- KernelSourceError             2303
    |   |-- KernelSyntaxError         2304  SyntaxError
    |   |-- KernelTypeError           2305  TypeError
    |   |-- KernelNameError           2306  NameError
    |   `-- KernelFault               2307  ExecutionFault
    |       `-- KernelAssertionError  2308  AssertionError
    |-- InvalidSetting                2401  ValueError
    |-- InvalidCommand                2501  ValueError
    |-- CacheNotWarm                  2601  RuntimeError
    `-- InstallationUnusable          2701  ImportError

A message says what is wrong, with which thing, with both numbers and their units, and ends in ``Fix:`` and one imperative
sentence. The same is in attributes, so that no caller has to parse text. Codes are append-only; below 2000 they are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.validation.rules import Problem

    Frame = tuple[str, str, int, str, int, int]


class VyreError(Exception):
    """Base of every error of this package.

    ``code`` is the stable number of the class, ``stable_id`` upstream's, ``fix`` the advice, ``context`` the facts in the text.
    """

    code: int = 1999
    stable_id: int = 1999

    def __init_subclass__(cls, *, code: int | None = None, stable_id: int | None = None) -> None:
        """Give the class its code, and upstream's where that is another; a class without has its parent's."""
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if stable_id is not None or (code is not None and code < 2000):
            cls.stable_id = stable_id or cls.code

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
    is_letter = word in set("FHLMNRSX") or (word[:1] == "f" and word[1:].isdigit())
    return f"an {word}" if word[:1] in set("aeioAEIO") or is_letter else f"a {word}"


def _rebuild(cls: type[VyreError], problem: str, fix: str, context: dict[str, object]) -> VyreError:
    return cls(problem, fix=fix, **context)


class BackendError(VyreError):
    """A backend refused or failed; the seed's error family."""


class DeviceOutOfMemory(BackendError, MemoryError, code=1001):
    """The device cannot hold what was asked for (``requested_bytes``, ``available_bytes``)."""


class UnsupportedFeature(BackendError, NotImplementedError, code=1002):
    """The program needs something that this device or backend does not offer."""


class PoisonedLock(BackendError, RuntimeError, code=1003):
    """A lock of a backend was left by a failure, and what it guards may be half changed (``lock_error``)."""


class KernelCompileFailed(BackendError, RuntimeError, code=1004):
    """The Vulkan driver could not make a pipeline of a well-formed module."""


class CooperativeResidencyExceeded(BackendError, RuntimeError, code=1007):
    """The workgroups of a cooperative dispatch do not fit on the device together (``grid_blocks``, ``resident_limit``)."""


class DispatchFailed(BackendError, RuntimeError, code=1005):
    """The work was submitted to the device and failed."""


class ForkError(DispatchFailed, code=2005):
    """A device opened in the parent process was used in a forked child."""


class DeviceLost(DispatchFailed, code=2006, stable_id=1008):
    """The device stopped answering; nothing made on it works any more, and a new Driver may (``device``, ``generation``)."""


class DispatchTimeout(DispatchFailed, TimeoutError, code=2007):
    """The work did not end in the time given; it is still running (``timeout_s``)."""


class OutputNotWritten(DispatchFailed, code=2008):
    """A shader left elements of an output unwritten (``binding``, ``count``, ``elements``, ``first_index``)."""


class InputChanged(DispatchFailed, code=2009):
    """A dispatch changed a read-only buffer (``binding``, ``count``, ``elements``, ``first_index``)."""


class DriverCrashed(DispatchFailed, code=2017):
    """The process that an isolated driver works in has ended; a new one takes the next call (``pid``, ``how``, ``signal``)."""


class WorkerLost(DispatchFailed, code=2018):
    """The processes that had the work have died, or none could take it (``task``, ``worker``: the last one's address)."""


class LoopCut(DispatchFailed, code=2019):
    """The device's driver ended a loop before its condition failed, as llvmpipe does (``limit``: the turns it allows)."""


class ExecutionFault(DispatchFailed, code=2010):
    """An invocation did what has no result, such as an i32 division by zero (``invocation``, ``path``)."""


class Trapped(ExecutionFault, code=2011):
    """The program stopped itself (``address``, ``tag``)."""


class StepBudgetExceeded(DispatchFailed, code=2012):
    """An invocation ran more statements than it was given (``limit``, ``invocation``, ``path``)."""


class DivergentBarrier(ExecutionFault, code=2013):
    """Only some of the invocations that a barrier waits for have reached it."""


class DataRace(ExecutionFault, code=2016):
    """Invocations that no barrier orders use one element, and one of them writes it.

    ``buffer``, ``element``: its flat place. Of the later and the earlier one: ``invocations``, None where it is one of several,
    ``paths``, their statements, and what each ``does``: it reads, stores or changes (an atomic).
    """


class BackendNotFound(BackendError, LookupError, code=2014):
    """No backend has the given id (``wanted``, ``near``)."""


class NoUsableBackend(BackendError, RuntimeError, code=2015):
    """No backend that dispatches is available without being named (``tried``: why not, by id)."""


class InvalidProgram(BackendError, ValueError, code=1006):
    """The program cannot run anywhere as it is."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that the validator found, in order: at most 1000; empty when something else refused the program."""
        return self.context.get("problems", ())  # type: ignore[return-value]


class InvalidModule(InvalidProgram, code=2101):
    """The bytes are not a SPIR-V module that may be given to a driver."""


class InvalidSpecialization(InvalidProgram, code=2102):
    """A specialization constant is unknown, of the wrong type, or out of range."""


class InvalidPushConstant(InvalidProgram, code=2103):
    """A push constant is unknown, missing, of the wrong type, or out of range."""


class LimitExceeded(InvalidProgram, code=2104):
    """A number is over a limit of the device (``value``, ``limit``)."""


class InvalidContainer(InvalidProgram, code=2105):
    """The bytes are not a program, a graph or an artifact in a form that can be read (``offset``)."""


class InvalidDispatchConfig(InvalidProgram, code=2106):
    """A field of a dispatch configuration is of the wrong type or out of range (``field``, ``value``)."""


class VulkanUnavailable(VyreError, OSError, code=2001):
    """There is no Vulkan loader, or it found no driver."""


class DeviceNotFound(VyreError, LookupError, code=2002):
    """No device, or more than one, answers to the given name."""


class SoftwareDeviceRefused(DeviceNotFound, code=2003):
    """Only a CPU device is there, and none was allowed."""


class BackendUnavailable(VyreError, ImportError, code=2004):
    """A package that this backend is made of is not installed or cannot be loaded."""


class InvalidInput(VyreError, ValueError, code=2201):
    """An array does not fit its binding (``binding``, and both numbers)."""


class FileUnusable(VyreError, OSError, code=2202):
    """A file given by the user cannot be read, or one to be written cannot be (``path``)."""


class InvalidKey(VyreError, ValueError, code=2203):
    """A part of a key or fingerprint is of the wrong type, size or range (``field``, ``value``)."""


class InvalidBlob(VyreError, ValueError, code=2204):
    """A raw blob is over the cache's limit or is none (``kind``: ``InvalidInput`` on writing, ``InvalidData`` on reading)."""


class CacheUnusable(VyreError, OSError, code=2205):
    """The cache's directory may not be used, or not be written to (``root``, ``reason``)."""


class InvalidBundle(VyreError, ValueError, code=2206):
    """The file is not a bundle of cache entries, or nothing vouches for it."""


class InvalidRegistration(VyreError, ValueError, code=2207):
    """The registered object is not a backend, or its id is taken (``backend``, ``sources``)."""


class InvalidAutotuneRecord(VyreError, ValueError, code=2208):
    """A field of a tuning record is of the wrong type or out of range (``field``, ``value``)."""


class InvalidAutotuneFile(VyreError, ValueError, code=2209):
    """The file is not an autotune file, or a newer version's, which this one does not write to (``path``)."""


class InvalidTuningSpace(VyreError, ValueError, code=2210):
    """The tuning space is not valid, or has no candidate that this device can run (``constant`` or ``refused``)."""


class TuningFailed(VyreError, RuntimeError, code=2211):
    """No candidate gave a right result in time (``kernel``, ``outcomes``)."""


class IndexOutOfRange(VyreError, IndexError, code=2212):
    """An index of a buffer is out of range, or has more items than there are axes (``index``, ``axis``, ``length``)."""


class CopyNeeded(VyreError, BufferError, code=2213):
    """The host cannot see a buffer's memory without a copy, and no copy was asked for."""


class NotAnArray(VyreError, TypeError, code=2214):
    """A buffer was used as an array that computes, which it is not (``operation``)."""


class RemoteUnavailable(VyreError, OSError, code=2215):
    """A command asked the shared store for something, and did not get it (``address``, ``kind``)."""


class ToolUnavailable(VyreError, OSError, code=2301):
    """A tool that this step runs as a child process is not installed (``tool``)."""


class ShaderSyntaxError(VyreError, ValueError, code=2302):
    """A GLSL source does not compile; the compiler's own lines are in the message."""


class KernelSourceError(VyreError, code=2303):
    """A Python function cannot be translated to a program, or does what it must not; reported at the lines to blame.

    ``frames`` are the places from the kernel down through the functions that it calls, each (function, filename, line, text of
    the line, column, end column), in characters from 0; none where no line is to blame.
    """

    def __init__(self, problem: str, *, fix: str, frames: Sequence[Frame] = (), **context: object) -> None:
        """Build a message that shows each place with a caret below it, and the fix on a line of its own."""
        super().__init__(problem, fix=fix, **({"frames": frames} if frames else {}), **context)
        self.frames = frames
        if frames:
            self.args = ("\n".join([problem, *map(_shown, frames), f"Fix: {fix}"]),)

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class KernelSyntaxError(KernelSourceError, SyntaxError, code=2304):
    """It is written with something that is not part of the kernel language."""


class KernelTypeError(KernelSourceError, TypeError, code=2305):
    """Types do not fit."""


class KernelNameError(KernelSourceError, NameError, code=2306):
    """A name has no value, or one that no kernel can use (``name``)."""


class KernelFault(KernelSourceError, ExecutionFault, code=2307):
    """An invocation did what it must not: an index out of range, a race, a barrier that others miss, a loop without end.

    ``invocation``, as the kernel counts; of an access out of range ``index``, ``axis``, and ``count`` where it was counted.
    """


class KernelAssertionError(KernelFault, AssertionError, code=2308):
    """An ``assert`` of a kernel does not hold."""


def _shown(frame: Frame) -> str:
    """Return a place as Python's tracebacks show it; wide characters take two columns."""
    function, filename, line, text, start, end = frame
    shown = text.lstrip()
    start, end = start - (len(text) - len(shown)), end - (len(text) - len(shown))
    before = "".join("\t" if one == "\t" else " " * _columns(one) for one in shown[: max(start, 0)])
    carets = "^" * max(sum(_columns(one) for one in shown[max(start, 0) : end]), 1)
    return f'  File "{filename}", line {line}, in {function}\n    {shown}\n    {before}{carets}'


def _columns(character: str) -> int:
    import unicodedata  # late: most errors show no source

    return 0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1


class InvalidSetting(VyreError, ValueError, code=2401):
    """An environment variable holds a value that is not valid (``variable``, ``value``)."""


class InvalidCommand(VyreError, ValueError, code=2501):
    """A command line that is not valid."""


class CacheNotWarm(VyreError, RuntimeError, code=2601):
    """Something would have to be compiled where nothing may be (``key``, ``reason``)."""


class InstallationUnusable(VyreError, ImportError, code=2701):
    """The installation does not fit this Python or this system, or a requirement is missing, too old or another module."""
