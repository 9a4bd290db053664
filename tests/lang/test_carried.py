"""Kernels in other processes and other threads: pickled by name and by text, copied, forked, called by many at once."""

from __future__ import annotations

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import pickletools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import carried_kernels
import numpy as np
import pytest
from carried_kernels import BOX, found, made, marked, named
from refusals import refusal

from vyre_driver.driver import Driver
from vyre_driver.lang import (
    Const,
    In,
    Index,
    InOut,
    Kernel,
    Out,
    default_driver,
    elementwise,
    f32,
    fuse,
    i32,
    kernel,
    reduction,
    scan,
)
from vyre_driver.lang.launch import specializations
from vyre_driver.vulkan.devices import DeviceType

if TYPE_CHECKING:
    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

TABLE = [1, 2, 3]
THREADS = 8


def _again(given: Any) -> Any:  # noqa: ANN401 -- whatever is pickled
    return pickle.loads(pickle.dumps(given))  # noqa: S301 -- our own


def test_a_kernel_of_a_module_is_its_name() -> None:
    assert _again(named) is named
    assert _again(marked) is marked
    assert [one[1] for one in pickletools.genops(pickle.dumps(named)) if isinstance(one[1], str)] == [
        "carried_kernels",
        "named",
    ]


def test_a_variant_is_its_kernel_and_what_was_said() -> None:
    variant = _again(named.with_(times=7).over(3))
    assert repr(variant) == repr(named.with_(times=7).over(3))
    assert variant is named.with_(times=7).over(3)


def test_a_name_outside_that_a_variable_of_the_kernel_hides_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("x", "v", "r", "then"):  # parameters, variables and what closures take
        monkeypatch.setattr(carried_kernels, name, np.zeros(3), raising=False)
    assert _again(made(5)).program() == made(5).program()


def test_a_closure_is_its_text_and_what_it_takes() -> None:
    one, other = _again(made(5)), _again(made(6))
    assert (one.program(), other.program()) == (made(5).program(), made(6).program())
    assert one.program() != other.program()
    assert _again(one).program() == one.program()
    variant = made(5).over(2)
    assert _again(variant).program() == variant.program() != one.program()


def test_a_kernel_keeps_the_options_of_its_decorator() -> None:
    @kernel(signature="(n)->(n)", over="y", floats="exact", bounds="robust")
    def options(i: Index, x: In[f32], y: Out[f32], *, times: Const[int], on: Const[bool] = True) -> None:
        y[i] = x[i] + times if on else 0.0

    assert _again(options).definition._replace(programs=None) == options.definition._replace(programs=None)
    assert [one.has_default for one in _again(options).definition.signature.constants] == [False, True]
    assert str(_again(options).__signature__) == str(options.__signature__)


def test_messages_show_the_lines_of_a_kernel_that_was_carried() -> None:
    @kernel
    def mistaken(i: Index, y: Out[i32]) -> None:
        y[i] = unknown  # type: ignore[name-defined] # noqa: F821 -- the mistake

    with pytest.raises(NameError) as here:
        mistaken.program()
    with pytest.raises(NameError) as there:
        _again(mistaken).program()
    assert there.value.frames[0][2:] == here.value.frames[0][2:]  # type: ignore[attr-defined] # a KernelNameError
    assert "y[i] = unknown" in str(there.value)


def test_a_copy_is_the_kernel_itself() -> None:
    assert copy.copy(named) is copy.deepcopy(named) is named
    assert copy.deepcopy([marked])[0] is marked


def test_what_cannot_be_carried_is_named() -> None:
    @kernel
    def with_a_list(i: Index, y: Out[i32]) -> None:
        y[i] = TABLE[0]

    assert str(refusal(lambda: pickle.dumps(with_a_list), TypeError)) == (
        "'TABLE', which 'with_a_list' takes from outside, is of type list, and cannot be carried elsewhere. "
        "Fix: pass it as a parameter, or carry with_a_list.program().to_wire()."
    )


def closures(by: float) -> tuple[Any, ...]:
    @elementwise
    def scaled(x: f32, *, turns: Const[int] = 2) -> f32:
        return x * by * turns

    @reduction(zero=0.0)
    def total(a: Any, b: Any) -> Any:  # noqa: ANN401 -- of any type
        return a + b

    return scaled, fuse(lambda x: x + by), total, reduction(max, zero=0), scan(lambda a, b: a + b)


@pytest.mark.device
def test_functions_of_whole_arrays_are_carried_too() -> None:
    x = np.arange(4, dtype=np.float32)
    expected = [[0, 6, 12, 18], [3, 4, 5, 6], 6, 3, [0, 1, 3, 6]]
    for one, result in zip(closures(3.0), expected, strict=True):
        assert copy.copy(one) is copy.deepcopy(one) is one
        again = _again(one)
        assert (again(x).tolist(), repr(again)) == (result, repr(one))
        with Driver() as driver, pytest.raises(TypeError, match="belongs to a device that this process has open"):
            pickle.dumps(one.on(driver))

    scaled = closures(3.0)[0]

    @kernel
    def uses(i: Index, x: In[f32], y: Out[f32]) -> None:
        y[i] = scaled(x[i], turns=1)

    assert _again(uses).program() == uses.program()


@pytest.mark.device
def test_a_kernel_on_a_driver_is_not_carried() -> None:
    with Driver() as driver, pytest.raises(TypeError, match="a Kernel belongs to a device that this process has open"):
        pickle.dumps(named.on(driver))


@pytest.mark.device
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_kernels_of_a_module_and_closures_run_in_a_new_process(method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(found, (made(5),)) == found(made(5))
        assert pool.apply(found, (named, 4)) == found(named, 4)
        assert pool.apply(found, (named.with_(times=5), 4))[0] == [k * 3 + 3 + 20 + BOX.area() for k in range(4)]


@pytest.mark.device
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_kernels_of_a_program_run_in_its_children(run_python: RunChild, method: str) -> None:
    done = run_python(str(Path(carried_kernels.__file__)), method)
    assert done.complaint == []
    assert done.stdout.splitlines() == [
        "[85, 102, 119, 136] True True",
        "[216, 252, 288, 324] True True",
        "[27, 30, 33, 36] True True",
        "[55, 58, 61, 64] True True",
    ]


@pytest.mark.device
def test_a_forked_child_opens_its_own_driver_and_on_hardware_is_refused(physical_device: PhysicalDevice) -> None:
    assert found(named, 4)[0] == [27, 30, 33, 36]
    parent = default_driver()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = f"{found(named, 4)[0]} {default_driver() is parent}"
        except BaseException as error:  # noqa: BLE001 -- the parent says it
            text = repr(error)
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    if physical_device.device_type is DeviceType.CPU:
        assert text == "[27, 30, 33, 36] False"
    else:
        assert text.startswith(f'ForkError("process {child} was forked from {os.getpid()}, which had opened a device; '), text
    os.waitpid(child, 0)
    assert found(named, 5)[0] == [29, 32, 35, 38]


@pytest.mark.device
def test_eight_threads_compile_a_new_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    translated, compiled = [], []
    translate, compile_ = specializations.translate, Driver.compile
    monkeypatch.setattr(specializations, "translate", lambda *given: translated.append(1) or translate(*given))
    monkeypatch.setattr(Driver, "compile", lambda *given, **named: compiled.append(1) or compile_(*given, **named))
    called, begin = made(7), threading.Barrier(THREADS)

    def call(k: int) -> list[int]:
        begin.wait()
        result: Any = called(np.arange(100, dtype=np.int32) * k)
        return list(result)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(call, range(THREADS)))
    assert results == [[(k * j + 7) * 23 for j in range(100)] for k in range(THREADS)]
    assert (len(translated), len(compiled)) == (1, 1)


@pytest.mark.device
def test_threads_call_one_kernel_with_types_and_constants_of_their_own() -> None:
    from typing import TypeVar

    T = TypeVar("T", f32, i32)

    @kernel
    def generic(i: Index, x: InOut[T], *, times: Const[int]) -> None:  # type: ignore[valid-type] # the variable of the kernel
        x[i] = x[i] * times

    def call(at: int) -> bool:
        dtype = (np.int32, np.float32)[at % 2]
        return all(
            (generic(np.arange(8, dtype=dtype), times=at // 2) == np.arange(8, dtype=dtype) * (at // 2)).all()
            for _ in range(50)
        )

    assert isinstance(generic, Kernel)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(call, range(THREADS)))
