"""The tree of errors: codes, built-in bases, messages, and the way through a process boundary."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from vyre_driver import errors
from vyre_driver.errors import VyreError

# Class -> its code, its parent, and the built-in error that a stranger would catch.
TREE = {
    "VyreError": (1999, "Exception", Exception),
    "BackendError": (1999, "VyreError", Exception),
    "DeviceOutOfMemory": (1001, "BackendError", MemoryError),
    "UnsupportedFeature": (1002, "BackendError", NotImplementedError),
    "PoisonedLock": (1003, "BackendError", RuntimeError),
    "KernelCompileFailed": (1004, "BackendError", RuntimeError),
    "CooperativeResidencyExceeded": (1007, "BackendError", RuntimeError),
    "DispatchFailed": (1005, "BackendError", RuntimeError),
    "ForkError": (2005, "DispatchFailed", RuntimeError),
    "DeviceLost": (2006, "DispatchFailed", RuntimeError),
    "DispatchTimeout": (2007, "DispatchFailed", TimeoutError),
    "OutputNotWritten": (2008, "DispatchFailed", RuntimeError),
    "InputChanged": (2009, "DispatchFailed", RuntimeError),
    "DriverCrashed": (2017, "DispatchFailed", RuntimeError),
    "WorkerLost": (2018, "DispatchFailed", RuntimeError),
    "LoopCut": (2019, "DispatchFailed", RuntimeError),
    "ExecutionFault": (2010, "DispatchFailed", RuntimeError),
    "Trapped": (2011, "ExecutionFault", RuntimeError),
    "StepBudgetExceeded": (2012, "DispatchFailed", RuntimeError),
    "DivergentBarrier": (2013, "ExecutionFault", RuntimeError),
    "DataRace": (2016, "ExecutionFault", RuntimeError),
    "BackendNotFound": (2014, "BackendError", LookupError),
    "NoUsableBackend": (2015, "BackendError", RuntimeError),
    "InvalidProgram": (1006, "BackendError", ValueError),
    "InvalidModule": (2101, "InvalidProgram", ValueError),
    "InvalidSpecialization": (2102, "InvalidProgram", ValueError),
    "InvalidPushConstant": (2103, "InvalidProgram", ValueError),
    "LimitExceeded": (2104, "InvalidProgram", ValueError),
    "InvalidContainer": (2105, "InvalidProgram", ValueError),
    "InvalidDispatchConfig": (2106, "InvalidProgram", ValueError),
    "VulkanUnavailable": (2001, "VyreError", OSError),
    "DeviceNotFound": (2002, "VyreError", LookupError),
    "SoftwareDeviceRefused": (2003, "DeviceNotFound", LookupError),
    "BackendUnavailable": (2004, "VyreError", ImportError),
    "InvalidInput": (2201, "VyreError", ValueError),
    "FileUnusable": (2202, "VyreError", OSError),
    "InvalidKey": (2203, "VyreError", ValueError),
    "InvalidBlob": (2204, "VyreError", ValueError),
    "CacheUnusable": (2205, "VyreError", OSError),
    "InvalidBundle": (2206, "VyreError", ValueError),
    "InvalidRegistration": (2207, "VyreError", ValueError),
    "InvalidAutotuneRecord": (2208, "VyreError", ValueError),
    "InvalidAutotuneFile": (2209, "VyreError", ValueError),
    "InvalidTuningSpace": (2210, "VyreError", ValueError),
    "TuningFailed": (2211, "VyreError", RuntimeError),
    "RemoteUnavailable": (2215, "VyreError", OSError),
    "IndexOutOfRange": (2212, "VyreError", IndexError),
    "CopyNeeded": (2213, "VyreError", BufferError),
    "NotAnArray": (2214, "VyreError", TypeError),
    "ToolUnavailable": (2301, "VyreError", OSError),
    "ShaderSyntaxError": (2302, "VyreError", ValueError),
    "KernelSourceError": (2303, "VyreError", Exception),
    "KernelSyntaxError": (2304, "KernelSourceError", SyntaxError),
    "KernelTypeError": (2305, "KernelSourceError", TypeError),
    "KernelNameError": (2306, "KernelSourceError", NameError),
    "KernelFault": (2307, "KernelSourceError", RuntimeError),
    "KernelAssertionError": (2308, "KernelFault", AssertionError),
    "InvalidSetting": (2401, "VyreError", ValueError),
    "InvalidCommand": (2501, "VyreError", ValueError),
    "CacheNotWarm": (2601, "VyreError", RuntimeError),
    "InstallationUnusable": (2701, "VyreError", ImportError),
}
CLASSES = {name: found for name, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, VyreError)}

each_class = pytest.mark.parametrize("kind", CLASSES.values())


def parts(error: VyreError) -> tuple[object, ...]:
    return type(error), str(error), error.args, error.problem, error.fix, error.context, error.code


def test_the_tree_is_the_one_that_was_promised() -> None:
    assert {name: (found.code, found.__bases__[0].__name__) for name, found in CLASSES.items()} == {
        name: (code, parent) for name, (code, parent, _) in TREE.items()
    }


def test_a_code_belongs_to_one_class() -> None:
    codes = [found.code for found in CLASSES.values() if "code" in vars(found)]
    assert len(set(codes)) == len(codes) == len(TREE) - 1


def test_upstreams_number_is_that_of_the_nearest_category_that_upstream_has() -> None:
    own = {kind.stable_id for kind in CLASSES.values()}
    named = [
        errors.DeviceLost,
        errors.DriverCrashed,
        errors.KernelFault,
        errors.InvalidContainer,
        errors.BackendNotFound,
        errors.InvalidInput,
        errors.KernelTypeError,
    ]
    assert [kind.stable_id for kind in named] == [1008, 1005, 1005, 1006, 1999, 1999, 1999]
    assert own == {1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1999}
    assert {kind.code: kind.stable_id for kind in CLASSES.values() if kind.code < 2000 and kind.stable_id != kind.code} == {}


@each_class
def test_an_error_is_caught_as_its_built_in_kind(kind: type[VyreError]) -> None:
    with pytest.raises(TREE[kind.__name__][2]) as error:
        raise kind("it is broken", fix="mend it")
    assert type(error.value) is kind


@each_class
def test_a_message_is_the_problem_and_then_the_fix(kind: type[VyreError]) -> None:
    assert str(kind("'x' has 3 bytes", fix="pass 4 bytes", expected=4)) == "'x' has 3 bytes. Fix: pass 4 bytes."


@each_class
def test_what_a_message_says_is_also_in_attributes(kind: type[VyreError]) -> None:
    error = kind("'x' has 3 bytes", fix="pass 4 bytes", expected=4)
    assert (error.problem, error.fix, error.context) == ("'x' has 3 bytes", "pass 4 bytes", {"expected": 4})


@each_class
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_pickled_whole(kind: type[VyreError], protocol: int) -> None:
    error = kind("'x' has 3 bytes", fix="pass 4 bytes", expected=4, names=["x"])
    assert parts(pickle.loads(pickle.dumps(error, protocol))) == parts(error)  # noqa: S301 -- our own bytes


@each_class
def test_an_error_is_copied_whole(kind: type[VyreError]) -> None:
    error = kind("'x' has 3 bytes", fix="pass 4 bytes", expected=4, names=["x"])
    assert parts(copy.deepcopy(error)) == parts(error)


@each_class
def test_an_error_without_advice_cannot_be_made(kind: type[VyreError]) -> None:
    with pytest.raises(TypeError, match="fix"):
        kind("it is broken")  # type: ignore[call-arg]
