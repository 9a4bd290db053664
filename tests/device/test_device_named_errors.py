"""What is not valid, given to a backend or a driver: an error with a name, a code and a fix, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver import Driver
from vyre_driver.backends import DispatchConfig, acquire
from vyre_driver.errors import InvalidDispatchConfig, InvalidInput, UnsupportedFeature, VyreError
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.backends import Backend

pytestmark = pytest.mark.device
PUSH = {"factor": 2, "summand": 1}
ONES = np.ones(4, np.uint32)
JUNK: list[Any] = [
    None,
    5,
    -1,
    2.5,
    float("nan"),
    True,
    "abc",
    b"abc",
    [],
    [None],
    {},
    {1: 2},
    object(),
    np.array([object()]),
    np.array("abc"),
    np.dtype("V0"),
    np.dtype("(2,)f4"),
    "O",
    10**30,
]


def program() -> Program:
    out = BufferDecl.output("out", 0, DataType.U32).with_count(4)
    return Program.wrapped([out], (4, 1, 1), [store(out, gid_x(), gid_x())])


@pytest.fixture(params=["kompute", "cpu-ref", "null"])
def any_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with acquire(request.param) as opened:
        yield opened


def raw(calls: dict[str, Callable[[Any], object]]) -> list[str]:
    """Which of the calls raise anything but an error of this package for a piece of junk."""
    found = []
    for name, call in calls.items():
        for junk in JUNK:
            try:
                call(junk)
            except VyreError as error:
                if not error.fix:
                    found.append(f"{name}({junk!r}): {error}")
            except Exception as error:  # noqa: BLE001 -- what must not be
                found.append(f"{name}({junk!r}): {type(error).__name__} {error}")
    return found


def test_no_method_of_a_backend_lets_a_raw_error_out(any_backend: Backend) -> None:
    artifact: Any = program()
    loaded = any_backend.load(artifact)
    calls: dict[str, Callable[[Any], object]] = {
        "load": any_backend.load,
        "load, specs": lambda junk: any_backend.load(artifact, constants=junk).dispatch([]),
        "load, config": lambda junk: any_backend.load(artifact, config=junk).dispatch([]),
        "dispatch": lambda junk: any_backend.dispatch(junk, []),
        "dispatch, inputs": lambda junk: any_backend.dispatch(artifact, junk),
        "dispatch, an input": lambda junk: any_backend.dispatch(artifact, [junk]),
        "dispatch, config": lambda junk: any_backend.dispatch(artifact, [], junk),
        "dispatch, push": lambda junk: any_backend.dispatch(artifact, [], push_constants=junk),
        "loaded, inputs": loaded.dispatch,
        "loaded, config": lambda junk: loaded.dispatch([], junk),
        "loaded, push": lambda junk: loaded.dispatch([], push_constants=junk),
        "timed, inputs": loaded.dispatch_timed,
        "timed, config": lambda junk: loaded.dispatch_timed([], junk),
        "allocate": any_backend.allocate_resident,
        "allocate, type": lambda junk: any_backend.allocate_resident(16, junk),
        "upload to": lambda junk: any_backend.upload_resident(junk, b"abc"),
        "download from": any_backend.download_resident,
        "free": any_backend.free_resident,
        "resident, loaded": lambda junk: any_backend.dispatch_resident(junk, []),
        "resident, buffers": lambda junk: any_backend.dispatch_resident(loaded, junk),
        "resident, a buffer": lambda junk: any_backend.dispatch_resident(loaded, [junk]),
        "resident, config": lambda junk: any_backend.dispatch_resident(loaded, [], junk),
    }
    if any_backend.supports_resident_buffers:
        held = any_backend.allocate_resident(16, np.uint32)
        calls |= {
            "upload": lambda junk: any_backend.upload_resident(held, junk),
            "download, start": lambda junk: any_backend.download_resident(held, junk),
            "download, end": lambda junk: any_backend.download_resident(held, 0, junk),
        }
    assert raw(calls) == []


def test_no_method_of_a_driver_lets_a_raw_error_out() -> None:
    with Driver() as driver:
        module = glsl(STEP)
        kernel, buffer = driver.compile(module), driver.buffer(ONES)
        calls: dict[str, Callable[[Any], object]] = {
            "compile": driver.compile,
            "compile, specs": lambda junk: driver.compile(module, junk),
            "compile, config": lambda junk: driver.compile(module, None, junk),
            "compile, space": lambda junk: driver.compile(module, space=junk),
            "compile a program, specs": lambda junk: driver.compile(program(), junk),
            "compile a program, config": lambda junk: driver.compile(program(), None, junk),
            "buffer": driver.buffer,
            "empty": lambda junk: driver.empty(junk, np.uint32),
            "empty, type": lambda junk: driver.empty(4, junk),
            "write": buffer.write,
            "call": lambda junk: kernel(junk, push_constants=PUSH),
            "call, groups": lambda junk: kernel(ONES, push_constants=PUSH, workgroups=junk),
            "call, push": lambda junk: kernel(ONES, push_constants=junk),
            "call, out_shapes": lambda junk: kernel(ONES, push_constants=PUSH, out_shapes=junk),
            "call, timeout": lambda junk: kernel(ONES, push_constants=PUSH, timeout=junk),
            "call, strict": lambda junk: kernel(ONES, push_constants=PUSH, strict=junk),
            "bind": lambda junk: kernel.bind(junk, push_constants=PUSH),
            "bind, groups": lambda junk: kernel.bind(buffer, push_constants=PUSH, workgroups=junk),
            "run": lambda junk: kernel.bind(buffer, push_constants=PUSH).run(junk),
            "batch": lambda junk: driver.batch().add(junk),
        }
        assert raw(calls) == []


@pytest.mark.parametrize(
    ("config", "kind", "problem"),
    [
        ("nonsense", InvalidDispatchConfig, "the configuration of a dispatch is of type str"),
        (
            DispatchConfig(workgroup_override=(8, 1, 1)),
            UnsupportedFeature,
            "the configuration asks for workgroup_override = (8, 1, 1), which compile does not keep for a module",
        ),
        (
            DispatchConfig(ulp_budget=4, timeout=2.0),
            UnsupportedFeature,
            "the configuration asks for timeout = 2.0, which compile does not keep for a module",
        ),
    ],
)
def test_a_configuration_that_compile_does_not_keep_for_a_module_is_refused(
    config: DispatchConfig, kind: type[VyreError], problem: str
) -> None:
    with Driver() as driver:
        driver.compile(glsl(STEP), config=DispatchConfig(ulp_budget=4))
        with pytest.raises(kind) as refused:
            driver.compile(glsl(STEP), config=config)
    assert refused.value.problem == problem


@pytest.mark.parametrize(
    "config", [DispatchConfig(label="x"), DispatchConfig(profile="x"), DispatchConfig(grid_override=(1, 1, 1))]
)
def test_a_configuration_that_compile_does_not_keep_for_a_program_is_refused(config: DispatchConfig) -> None:
    with Driver() as driver:
        kind, code, message = refusal(lambda: driver.compile(program(), config=config))
    assert (kind, code) == (UnsupportedFeature, 1002)
    assert "which compile does not keep for a program. Fix: leave it out" in message


@pytest.mark.parametrize("switch", ["strict", "allow_software"])
def test_a_switch_that_is_neither_true_nor_false_is_refused(switch: str) -> None:
    kind, code, message = refusal(lambda: Driver(**{switch: "no"}))  # type: ignore[arg-type]
    assert (kind, code, message) == (
        InvalidInput,
        2201,
        f"{switch} is 'no', which is neither True nor False. Fix: give True or False, or None to do as the environment says.",
    )
