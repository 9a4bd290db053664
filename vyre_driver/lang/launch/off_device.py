"""Calls of a kernel that no device runs: on the reference interpreter, and as plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference.dispatch import DEFAULT_STEP_BUDGET, interpret
from vyre_driver.errors import ExecutionFault, StepBudgetExceeded
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.interpret.as_python import run_as_python
from vyre_driver.lang.interpret.faults import Faults
from vyre_driver.lang.launch.fitting import fitted, scalar_of
from vyre_driver.lang.types import Access, bool_

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from vyre_driver.lang.launch.choices import Choices
    from vyre_driver.lang.launch.fitting import FittedCall
    from vyre_driver.lang.launch.launcher import Launcher
    from vyre_driver.lang.source.parameters import KernelSignature

    Arrays = dict[str, NDArray[Any]]


class _Call(NamedTuple):
    """A call that fits: ``arrays`` are all that it has, as they are on the host, of the kernel's own types."""

    fit: FittedCall
    arrays: Arrays
    numbers: Mapping[str, bool | int | float]


def run_on_reference(
    launcher: Launcher,
    choices: Choices,
    given: tuple[object, ...],
    named: dict[str, object],
    step_budget: int = DEFAULT_STEP_BUDGET,
) -> Any:  # noqa: ANN401 -- what the call returns
    """Run a call of a kernel on the reference interpreter; raises as :meth:`vyre_driver.lang.kernel.Kernel.interpret`."""

    def run(call: _Call) -> list[NDArray[Any]]:
        signature, translated = launcher.definition.signature, call.fit.translated
        inputs, counts, contents = [], {}, {}
        for name, access in _accesses(signature).items():
            array = call.arrays[name]
            words = _words(array if array.size else np.zeros(1, array.dtype)).reshape(-1)
            if access is Access.OUT:
                counts[name], contents[name] = words.size, words
            else:
                inputs.append(words)
        inputs += [_pushed(name, signature, call) for name in translated.scalars]
        axes = len(call.fit.reach.groups)
        try:
            found = interpret(
                translated.program,
                inputs,
                grid=call.fit.grid,
                element_counts=counts,
                step_budget=step_budget,
                races=True,
                contents=contents,
            )
        except (ExecutionFault, StepBudgetExceeded) as error:
            raise Faults(translated, axes, call.fit.shapes).of(error) from None
        written = [call.arrays[name] for name, access in _accesses(signature).items() if access.writes]
        return [_result(one, like) for one, like in zip(found.outputs, written, strict=True)]

    return _run(launcher, choices, given, named, "trap", run)


def run_plainly(
    function: types.FunctionType, launcher: Launcher, choices: Choices, given: tuple[object, ...], named: dict[str, object]
) -> Any:  # noqa: ANN401 -- what the call returns
    """Run a call of a kernel as Python; raises as :meth:`vyre_driver.lang.kernel.Kernel.python`."""

    def run(call: _Call) -> list[NDArray[Any]]:
        signature, reach = launcher.definition.signature, call.fit.reach
        grid = reach.groups if signature.group is not None or reach.extent is None else reach.extent
        arrays = _apart(call.arrays, _accesses(signature))
        run_as_python(function, signature, call.fit.specialization, {**arrays, **call.numbers}, grid)
        return [arrays[name] for name, access in _accesses(signature).items() if access.writes]

    return _run(launcher, choices, given, named, "plain", run)


def _run(  # noqa: PLR0913 -- a call, and how it is run
    launcher: Launcher,
    choices: Choices,
    given: tuple[object, ...],
    named: dict[str, object],
    mode: str,
    run: Callable[[_Call], list[NDArray[Any]]],
) -> Any:  # noqa: ANN401 -- what the call returns
    """Match a call, run it on arrays of the host, and write back what it wrote."""
    one, arrays, numbers = launcher.matched(choices, given, named)
    fit = fitted(launcher.definition, choices, {**dict(choices.constants), **one.constants}, arrays, mode=mode)
    accesses = _accesses(launcher.definition.signature)
    call = _Call(fit, {name: _on_host(name, array, fit, accesses[name]) for name, array in arrays.items()}, numbers)
    written = [name for name, access in accesses.items() if access.writes]
    found = run(call) if fit.grid is not None else [call.arrays[name] for name in written]
    buffers = [array for array in arrays.values() if isinstance(array, Buffer)]
    stay = buffers and all(array is None or isinstance(array, Buffer) for array in arrays.values())
    driver = buffers[0].device.driver() if stay else None
    results: list[Any] = []
    for name, result in zip(written, found, strict=True):
        target = arrays[name]
        if isinstance(target, Buffer):
            target.write(result.astype(target.dtype))
        elif target is not None and target is not result:
            np.copyto(target, result, casting="unsafe")
        results.append(result if driver is None or target is not None else driver.buffer(_words(result)))
    return launcher.returned(one, results)


def _accesses(signature: KernelSignature) -> dict[str, Access]:
    return {one.name: one.type.access for one in signature.arrays}  # type: ignore[union-attr] # arrays


def _on_host(name: str, array: NDArray[Any] | Buffer | None, fit: FittedCall, access: Access) -> NDArray[Any]:
    """Return an array of a call on the host: zeros for an output that is no buffer, as on a device, else what it holds."""
    dtype = fit.elements[name].dtype
    if isinstance(array, np.ndarray) and access is Access.OUT and fit.grid is not None:
        return np.zeros(array.shape, dtype)
    if array is None:
        return np.zeros(fit.left_out[name], dtype)
    found = array.read() if isinstance(array, Buffer) else array
    return found if found.dtype == dtype else found != 0  # bools that are held as words


def _apart(arrays: Arrays, accesses: Mapping[str, Access]) -> Arrays:
    """Return arrays of which none that is read alone changes while it is read: the device has copies too."""
    written = [arrays[name] for name, access in accesses.items() if access.writes]
    shared = {name for name in arrays if any(np.may_share_memory(arrays[name], one) for one in written)}
    return {name: one.copy() if accesses[name] is Access.IN and name in shared else one for name, one in arrays.items()}


def _word(array: NDArray[Any]) -> np.dtype[Any]:
    """Return the type that an array has in a program's memory: bools are words."""
    return np.dtype(np.uint32) if array.dtype == np.bool_ else array.dtype


def _words(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it lies in a program's memory."""
    return np.ascontiguousarray(array, _word(array))


def _result(found: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Return what came back of a program as an array like that of the call."""
    if not like.size:  # a word stood in its place
        return like
    return found.reshape(-1).view(_word(like)).reshape(like.shape).astype(like.dtype, copy=False)


def _pushed(name: str, signature: KernelSignature, call: _Call) -> NDArray[Any]:
    """Return a number that the program is given, as an array of it."""
    kind = next((one.type for one in signature.scalars if one.name == name), None)
    if kind is None:  # how far something goes
        return np.array([call.fit.fixed[name]], np.uint32)
    scalar = scalar_of(kind, dict(call.fit.specialization.types))  # type: ignore[arg-type] # a number's
    return np.array([call.numbers[name]], np.uint32 if scalar is bool_ else scalar.dtype)
