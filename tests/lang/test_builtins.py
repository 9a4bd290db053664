"""Each row of the table of builtins: as a program, as plain Python, by numpy or ``math``, and on a device; what it refuses."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.errors import KernelTypeError
from vyre_driver.lang import kernel, reduction
from vyre_driver.lang.frontend.builtins.table import ALL, BUILTINS, TABLE
from vyre_driver.lang.types import In, Index, Out, bool_, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.lang.frontend.builtins.table import Builtin
    from vyre_driver.lang.types import ScalarType

    Arrays = list[NDArray[Any]]

FLOATS = (0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -3.0, 7.0, 100.0, 3e9, np.inf, -np.inf, np.nan)
VALUES: dict[ScalarType, tuple[Any, ...]] = {
    f32: FLOATS,
    f64: FLOATS,
    i32: (0, 1, -1, 2, -7, 12, 100, 2**31 - 1),
    u32: (0, 1, 2, 7, 12, 100, 2**31, 2**32 - 1),
    i64: (0, 1, -1, -7, 12, 2**40, 2**62),
    u64: (0, 1, 7, 12, 2**40, 2**63),
    bool_: (False, True),
}
# Of 0.0 and -0.0 either may be the lesser, and numpy's power of -0.0 and -inf differs between arrays and scalars.
SIGNLESS = {"np.fmin", "np.fmax", "np.minimum", "np.maximum", "np.clip", "pow math.pow np.power"}
rows = pytest.mark.parametrize("builtin", BUILTINS, ids=lambda builtin: builtin.names)


def arguments(builtin: Builtin, kind: ScalarType) -> Arrays:
    """Return an array for each argument: all pairs of values, and of three arguments each value beside others."""
    values = VALUES[kind]
    if builtin.names in SIGNLESS and kind in {f32, f64}:
        values = tuple(value for value in values if not np.signbit(value) or (value and np.isfinite(value)))
    if builtin.most == 3:
        columns = list(zip(values, values[1:] + values[:1], values[2:] + values[:2], strict=True))
    else:
        columns = list(itertools.product(values, repeat=builtin.most))
    return [np.array(column, kind.dtype) for column in zip(*columns, strict=True)]


def lines(builtin: Builtin, kind: ScalarType) -> tuple[str, Arrays]:
    """Return a kernel that calls a builtin with numbers of a type, and its arguments."""
    given = arguments(builtin, kind)
    result = builtin.result_of(kind)
    called = f"function({', '.join(f'x{place}[i]' for place in range(len(given)))})"
    heads = [f"x{place}: In[{'bool_' if kind is bool_ else kind}]" for place in range(len(given))]
    count = 2 if builtin.names.startswith("divmod") else 1
    heads += [f"o{place}: Out[{'bool_' if result is bool_ else result}]" for place in range(count)]
    stored = ", ".join(f"o{place}[i]" for place in range(count))
    return f"def k(i: Index, {', '.join(heads)}):\n    {stored} = {called}\n", given


def is_like(found: NDArray[Any], expected: NDArray[Any], *, exactly: bool) -> NDArray[np.bool_]:
    if found.dtype.kind != "f":
        return found == expected
    near = (found == expected) if exactly else np.isclose(found, expected, 2e-5, 0)
    return np.where(np.isnan(expected), np.isnan(found), near & (np.signbit(found) == np.signbit(expected)))


def differing(found: Any, expected: Any, given: Arrays, *, exactly: bool) -> list[str]:  # noqa: ANN401 -- an array, or a tuple
    """Return a line for each element that differs."""
    both = zip(*((one if isinstance(one, tuple) else (one,)) for one in (found, expected)), strict=True)
    return [
        f"of {[column[at] for column in given]}: {one[at]!r}, not {other[at]!r}"
        for one, other in both
        for at in np.flatnonzero(~is_like(one, other, exactly=exactly))
    ]


@rows
@np.errstate(all="ignore")
def test_a_builtin_is_as_a_program_what_it_is_in_python(builtin: Builtin) -> None:
    found = []
    for kind in (*builtin.types, *builtin.converted):
        text, given = lines(builtin, kind)
        called = kernel.from_source(text, {"function": builtin.functions[0]})
        found += differing(called.python(*given), called.interpret(*given), given, exactly=builtin.error == "exact")
    assert found == []


def expected(builtin: Builtin, result: ScalarType, given: Arrays) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return what numpy gives, else ``math``, and for which elements: not where that raises, or is no number of the type."""
    of_numpy = [one for name, one in zip(builtin.names.split(), builtin.functions, strict=False) if name.startswith("np.")]
    function = (of_numpy or builtin.functions)[0]
    wider = [column.astype(np.float64) if column.dtype == np.float32 else column for column in given]
    values: dict[int, Any] = {}
    for place, numbers in enumerate(zip(*wider, strict=True)):
        try:
            value = function(*numbers) if of_numpy else function(*(one.item() for one in numbers))
        except (ValueError, ArithmeticError):
            continue
        if not result.is_whole or result.bounds[0] <= value <= result.bounds[1]:
            values[place] = value
    return np.array(list(values)), np.array(list(values.values())).astype(result.dtype)


@pytest.mark.parametrize(
    "builtin",
    [one for one in BUILTINS if one.own is None and "divmod" not in one.names],
    ids=lambda builtin: builtin.names,
)
@np.errstate(all="ignore")
def test_a_builtin_gives_what_numpy_or_math_gives(builtin: Builtin) -> None:
    found = []
    for kind in builtin.types:
        text, given = lines(builtin, kind)
        called = kernel.from_source(text, {"function": builtin.functions[0]})
        places, wanted = expected(builtin, builtin.result_of(kind), given)
        asked = [column[places] for column in given]
        found += differing(called.interpret(*given)[places], wanted, asked, exactly=builtin.error == "exact")
    assert found == []


@pytest.mark.device
@rows
@np.errstate(all="ignore")
def test_a_builtin_is_on_a_device_what_it_is_on_the_reference(builtin: Builtin) -> None:
    found = []
    for kind in builtin.types:
        text, given = lines(builtin, kind)
        called = kernel.from_source(text, {"function": builtin.functions[0]})
        if kind in {f32, f64}:
            moderate = np.all([np.isfinite(column) & (np.abs(column) < 50) for column in given], 0)
            given = [column[moderate] for column in given]
        device, reference = called(*given), called.interpret(*given)
        if builtin.error.startswith("device"):
            is_number = np.isfinite(reference)
            found += [kind] if not np.allclose(device[is_number], reference[is_number], 5e-4, 5e-4) else []
        else:
            found += differing(device, reference, given, exactly=builtin.error == "exact")
    assert found == []


@rows
def test_other_types_and_keywords_are_refused(builtin: Builtin) -> None:
    names = {"function": builtin.functions[0]}
    accepted = []
    for kind in ALL:
        if kind not in (*builtin.types, *builtin.converted):
            heads = ", ".join(f"x{place}: In[{'bool_' if kind is bool_ else kind}]" for place in range(builtin.most))
            called = ", ".join(f"x{place}[i]" for place in range(builtin.most))
            text = f"def k(i: Index, {heads}):\n    v = function({called})\n"
            try:
                kernel.from_source(text, names).program()
            except KernelTypeError:
                continue
            accepted.append(kind)
    assert accepted == []
    with pytest.raises(KernelTypeError, match="takes no keywords"):
        kernel.from_source("def k(i: Index, x0: In[f32]):\n    v = function(x0[i], other=1)\n", names).program()


def test_a_function_is_in_one_row() -> None:
    assert len(TABLE) == sum(len(set(builtin.functions)) for builtin in BUILTINS)


def run(expression: str, kind: str, values: list[Any], result: str | None = None) -> list[Any]:
    """Return what the reference gives for ``expression`` of each value ``x``."""
    text = f"def k(i: Index, v: In[{kind}], o: Out[{result or kind}]):\n    x = v[i]\n    o[i] = {expression}\n"
    made = kernel.from_source(text, {"math": math, "np": np, "i32": i32})
    return made.interpret(np.array(values, {"f32": np.float32, "u32": np.uint32, "i32": np.int32}[kind])).tolist()


def test_isqrt_is_exact_to_the_greatest_word() -> None:
    roots = np.random.default_rng(0).integers(1, 65536, 500)
    words = [0, 1, 2, 3, 2**32 - 1, *(int(root) ** 2 - 1 for root in roots), *(int(root) ** 2 for root in roots)]
    assert run("math.isqrt(x)", "u32", words, "i32") == [math.isqrt(word) for word in words]
    assert run("math.isqrt(x)", "i32", [-1, 16, 2**31 - 1]) == [0, 4, 46340]


def test_gcd_of_negative_numbers_and_of_zero_is_that_of_python() -> None:
    values = [0, 1, -12, 18, -35, 2**31 - 1, -(2**31) + 2]
    assert run("math.gcd(x, -12)", "i32", values) == [math.gcd(value, -12) for value in values]
    assert run("math.gcd(x, 0)", "i32", values) == [abs(value) for value in values]
    assert run("math.gcd(x, i32(-2147483648))", "i32", values[1:]) == [math.gcd(value, -(2**31)) for value in values[1:]]


def test_divmod_rounds_down_as_python() -> None:
    values = [7, -7, 0, 2**31 - 1, -(2**31)]
    for by in (3, -3):
        assert run(f"divmod(x, {by})[0]", "i32", values) == [value // by for value in values]
        assert run(f"divmod(x, {by})[1]", "i32", values) == [value % by for value in values]
    assert run("divmod(x, 0)[0] + divmod(x, 0)[1]", "i32", values) == [0] * 5
    assert run("divmod(x, -0.5)[1]", "f32", [1.25, -1.25, 3.0]) == [-0.25, -0.25, -0.0]


def test_log_takes_a_base() -> None:
    assert run("math.log(x, 10)", "f32", [0.0, 1000.0, np.inf]) == [-np.inf, pytest.approx(3.0), np.inf]


@pytest.mark.parametrize(
    ("function", "low", "high"), [(math.erfc, -4, 0.4), (math.erfc, 0.4, 9.19), (math.radians, 0, 1e3), (math.degrees, 0, 1e3)]
)
def test_a_function_is_within_its_error(function: Callable[[float], float], low: float, high: float) -> None:
    x = np.random.default_rng(0).uniform(low, high, 5_000).astype(np.float32)
    exact = np.array([function(value) for value in x.tolist()])
    found = np.array(run(f"math.{function.__name__}(x)", "f32", x.tolist()))
    assert np.max(np.abs(found - exact) / np.spacing(exact.astype(np.float32))) <= float(TABLE[function].error)


@pytest.mark.device
def test_logaddexp_is_within_its_error_and_the_same_on_a_device() -> None:
    text = """
        @kernel(floats="exact")
        def added(i: Index, x: In[f32], y: In[f32], o: Out[f32]):
            o[i] = np.logaddexp(x[i], y[i])
    """
    added = kernel.from_source(text, {"np": np})
    for reach in (1, 20, 100):
        x, y = np.random.default_rng(reach).uniform(-reach, reach, (2, 10_000)).astype(np.float32)
        exact = np.logaddexp(x, y, dtype=np.float64)
        allowed = np.where(np.abs(exact) < 1, 2.0**-23, 1.2 * np.spacing(np.abs(exact).astype(np.float32)))
        found = added.interpret(x, y)
        assert np.max(np.abs(found - exact) / allowed) <= 1
        assert np.array_equal(added(x, y), found)


def test_logaddexp_neither_overflows_nor_loses_what_is_infinite() -> None:
    values = [-np.inf, -3e38, -100.0, 0.0, 100.0, 3e38, np.inf]
    assert run("np.logaddexp(x, -np.inf)", "f32", values) == np.float32(values).tolist()
    assert run("np.logaddexp(np.inf, x)", "f32", values) == [np.inf] * len(values)
    doubled = np.logaddexp(np.float32(values), np.float32(values)).tolist()
    assert run("np.logaddexp(x, x)", "f32", values) == doubled
    assert np.isnan(run("np.logaddexp(x, np.nan) + np.logaddexp(np.nan, x)", "f32", values)).all()
    assert run("np.logaddexp(x, 2147483647)", "i32", [-(2**31), 0, 2**31 - 1], "f32") == [2.0**31] * 3


@pytest.mark.device
def test_numbers_given_as_logarithms_are_summed_on_a_device() -> None:
    total = reduction(np.logaddexp, zero=-np.inf)
    logarithms = np.random.default_rng(0).uniform(-100, 100, 1_000).astype(np.float32)
    logarithms[::3] = -np.inf
    assert total(logarithms) == pytest.approx(np.logaddexp.reduce(logarithms, dtype=np.float64), rel=1e-6)
    assert total(np.full(1_000, -np.inf, np.float32)) == -np.inf


@kernel
def cut(i: Index, x: In[f64], up: Out[f64], down: Out[f64], towards_0: Out[f64]) -> None:
    up[i] = np.ceil(x[i])
    down[i] = np.floor(x[i])
    towards_0[i] = np.trunc(x[i])


@pytest.mark.device
def test_numbers_of_64_bits_are_cut_whatever_their_size() -> None:
    sizes = np.array([0, 0.3, 0.5, 2.5, 2**31 - 0.5, 2**31 + 0.5, 3e9 + 0.7, 1e15 + 0.25, 2**52 + 1, 1e300, np.inf, np.nan])
    x = np.concatenate([sizes, -sizes])
    for on_device, wanted in zip(cut(x), (np.ceil(x), np.floor(x), np.trunc(x)), strict=True):
        assert np.array_equal(on_device, wanted, equal_nan=True)
        numbers = ~np.isnan(x)
        assert np.signbit(on_device[numbers]).tolist() == np.signbit(wanted[numbers]).tolist()
