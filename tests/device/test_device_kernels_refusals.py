"""What the functions of ``kernels`` refuse, and by which name: that of the function, with arguments that it has."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver import kernels
from vyre_driver.errors import InvalidInput, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver import Driver

pytestmark = pytest.mark.device

FUNCTIONS = [name for name in kernels.__all__ if callable(getattr(kernels, name)) and name[0].islower()]
ON_A_DRIVER = [name for name in FUNCTIONS if not name.startswith("quantized")]
ODD: list[Any] = [
    None,
    "text",
    b"bytes",
    3,
    float("nan"),
    np.float32(1),
    np.array(2, np.float32),
    [[1, 2], [3]],
    [],
    {"a": 1},
    object(),
    np.array(["a", "b"]),
    np.array([None]),
    np.zeros((2, 2), complex),
    np.zeros((2, 2), [("a", "f4")]),
    np.zeros((1, 1, 1, 1, 1, 1), np.float32),
    int,
]


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kernels.PerformanceWarning)
        yield


def raised_by(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 -- which one it is, is what the test asks
        return error
    return None


def raw_errors(calls: list[Callable[[], object]]) -> list[Exception]:
    return [error for error in map(raised_by, calls) if error is not None and not isinstance(error, VyreError)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_is_given_errors_are_those_of_the_package(opened: Driver, name: str) -> None:
    function = getattr(kernels, name)
    if name not in ON_A_DRIVER:
        assert raw_errors([lambda odd=odd: function(odd) for odd in ODD]) == []
        return
    kernel = function(opened)
    count = len(kernel.definition.inputs)
    usual = np.ones((4, 4), np.float32)
    calls: list[Callable[[], object]] = [lambda odd=odd: function(odd) for odd in ODD]
    for odd in ODD:
        calls += [lambda odd=odd, n=n: kernel(*[odd] * n) for n in range(5)]
        calls += [lambda odd=odd, n=n: kernel.bind(*[odd] * n, out=odd) for n in (0, count)]
        calls += [lambda odd=odd, at=at: kernel(*[odd if n == at else usual for n in range(count)]) for at in range(count)]
        calls.append(lambda odd=odd: kernel(*[usual] * count, out=odd))
    assert raw_errors(calls) == []


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("attention", ("dtype", "is_causal", "heads_first", "require")),
        ("matmul", ("dtype", "out_dtype", "transpose_a", "bias", "activation", "require")),
        ("linear", ("dtype", "bias", "residual", "activation", "require")),
        ("conv2d", ("dtype", "out_dtype", "bias", "activation", "stride", "padding", "require")),
    ],
)
def test_whatever_a_kernel_is_made_with_errors_are_those_of_the_package(
    opened: Driver, name: str, parameters: tuple[str, ...]
) -> None:
    function = getattr(kernels, name)
    assert raw_errors([lambda odd=odd, one=one: function(opened, **{one: odd}) for odd in ODD for one in parameters]) == []


@pytest.mark.parametrize("name", ON_A_DRIVER)
def test_a_kernel_made_without_a_driver_says_what_to_pass(name: str) -> None:
    array, said = np.ones((2, 2), np.float32), f"{name} is made for a driver and got something of type ndarray."
    expected = (InvalidInput, 2201, f"{said} Fix: pass a Driver, and call what comes back on arrays.")
    assert refusal(lambda: getattr(kernels, name)(array)) == expected
    if name in {"attention", "conv2d", "linear", "matmul"}:  # whose second argument is a type
        assert refusal(lambda: getattr(kernels, name)(array, array)) == expected


HALVES = np.ones((2, 4), np.float16)
COUNTS: dict[str, tuple[dict[str, Any], int, str]] = {
    "linear without its bias": (
        {"name": "linear"},
        2,
        (
            "linear takes 3 arrays (x, weight, bias) and got 2. "
            "Fix: give 3, or make the kernel without one: kernels.linear(..., bias=False)."
        ),
    ),
    "linear with a bias too many": (
        {"name": "linear", "bias": False},
        3,
        (
            "linear takes 2 arrays (x, weight) and got 3. "
            "Fix: give 2, or make the kernel with one more: kernels.linear(..., bias=True)."
        ),
    ),
    "conv2d without its bias": (
        {"name": "conv2d"},
        2,
        (
            "conv2d takes 3 arrays (x, weight, bias) and got 2. "
            "Fix: give 3, or make the kernel without one: kernels.conv2d(..., bias=False)."
        ),
    ),
    "matmul of int8 with a bias": (
        {"name": "matmul", "dtype": "int8"},
        3,
        "matmul takes 2 arrays (a, b) and got 3. Fix: give 2.",
    ),
    "attention of one array": ({"name": "attention"}, 1, "attention takes 3 arrays (q, k, v) and got 1. Fix: give 3."),
    "softmax of two arrays": ({"name": "softmax"}, 2, "softmax takes 1 array (x) and got 2. Fix: give 1."),
}


@pytest.mark.parametrize("case", COUNTS)
def test_another_number_of_arrays_is_refused_by_the_functions_name(opened: Driver, case: str) -> None:
    made_with, count, message = COUNTS[case]
    parameters = {key: value for key, value in made_with.items() if key != "name"}
    kernel = getattr(kernels, made_with["name"])(opened, **parameters)
    assert refusal(lambda: kernel(*[HALVES] * count)) == (InvalidInput, 2201, message)


def test_a_weight_that_does_not_fit_is_refused_without_a_word_of_transposing(opened: Driver) -> None:
    kernel = kernels.linear(opened, bias=False)
    assert refusal(lambda: kernel(HALVES, HALVES.reshape(4, 2)))[2] == (
        "x of linear has the shape (2, 4) and weight (4, 2): rows of 4 numbers, and columns of 2. "
        "Fix: give weight of shape (..., n, 4)."
    )
