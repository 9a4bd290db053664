"""A kernel run twice: as a program on the reference interpreter, and as plain Python."""

from __future__ import annotations

import linecache
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.lang.frontend.checking import FAULT_WORDS
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.interpret.as_python import run_as_python
from vyre_driver.lang.source.parameters import Specialization, signature_of
from vyre_driver.lang.types import Access

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.case import RunProgram
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.source.parameters import KernelSignature

_STEP_BUDGET = 1 << 18


class Results(NamedTuple):
    """What both ways left in the arrays that a kernel writes to, by name."""

    program: dict[str, NDArray[Any]]
    python: dict[str, NDArray[Any]]
    order_mattered: bool

    def differences(self) -> list[str]:
        """Return a line for each array that is not the same, bit for bit, but for the bits of a NaN."""
        found = []
        for name, one in self.program.items():
            other = self.python[name]
            same = one == other
            if one.dtype.kind in "fV":  # bf16 is a V
                words = f"u{one.itemsize}"
                same = (one.view(words) == other.view(words)) | (np.isnan(one) & np.isnan(other))
            if not same.all():
                at = tuple(int(k) for k in np.argwhere(~same)[0])
                found.append(
                    f"{name}{list(at)}: {one[at]!r} as a program, {other[at]!r} as Python ({int((~same).sum())} differ)"
                )
        return found


def function_of(text: str, name: str, names: Mapping[str, object]) -> types.FunctionType:
    """Return a function of a text, whose source can be found as that of a file."""
    filename = f"<{name} {hash(text) & 0xFFFF_FFFF:x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    found: dict[str, Any] = dict(names)
    exec(compile(text, filename, "exec", dont_inherit=True), found)  # noqa: S102 -- a text of the test's own
    made: types.FunctionType = found[name]
    return made


def translated(function: types.FunctionType, **given: Any) -> TranslatedKernel:  # noqa: ANN401 -- fields of a Specialization
    """Return what a function is translated to."""
    return translate(function, signature_of(function), Specialization(**given))


def run_both(
    function: types.FunctionType,
    arguments: Mapping[str, Any],
    grid: Sequence[int],
    constants: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Results:
    """Run a kernel both ways; ``arguments`` are arrays and numbers by name, ``grid`` as :func:`run_as_python` takes it.

    With ``mode="record"`` the program also checks itself, which changes no result.
    """
    signature = signature_of(function)
    specialization = Specialization(tuple((constants or {}).items()), mode=mode)
    translated = translate(function, signature, specialization)
    program, order_mattered = _as_program(translated, signature, arguments, grid)
    copies = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    run_as_python(function, signature, specialization, copies, grid)
    return Results(program, {name: copies[name] for name in program}, order_mattered)


def run_reference(
    function: types.FunctionType, arguments: Mapping[str, Any], grid: Sequence[int]
) -> tuple[dict[str, NDArray[Any]], bool]:
    """Return what a kernel leaves in the arrays that it writes to, and whether the order of invocations mattered."""
    signature = signature_of(function)
    return _as_program(translate(function, signature, Specialization()), signature, arguments, grid)


def run_on_device(
    function: types.FunctionType,
    arguments: Mapping[str, Any],
    grid: Sequence[int],
    constants: Mapping[str, Any] | None = None,
    run: RunProgram | None = None,
) -> dict[str, NDArray[Any]]:
    """Return what a kernel leaves in the arrays that it writes to, by a backend, or else on the best device."""
    signature = signature_of(function)
    translated = translate(function, signature, Specialization(tuple((constants or {}).items())))
    inputs, counts = _inputs(translated, signature, arguments, grid)
    with ExitStack() as stack:
        if run is None:
            run = open_backend("kompute", stack)
        found = run(translated.program, inputs, grid=groups_of(translated, signature, grid), element_counts=counts)
    return _by_name(signature, arguments, found)


def _as_program(
    kernel: TranslatedKernel, signature: KernelSignature, arguments: Mapping[str, Any], grid: Sequence[int]
) -> tuple[dict[str, NDArray[Any]], bool]:
    inputs, counts = _inputs(kernel, signature, arguments, grid)
    found = interpret(
        kernel.program,
        inputs,
        grid=groups_of(kernel, signature, grid),
        element_counts=counts,
        step_budget=_STEP_BUDGET,
    )
    return _by_name(signature, arguments, found.outputs), found.order_mattered


def _inputs(
    kernel: TranslatedKernel, signature: KernelSignature, arguments: Mapping[str, Any], grid: Sequence[int]
) -> tuple[list[NDArray[Any]], dict[str, int]]:
    """Return the arrays and numbers that a program is given, and the elements of its outputs that bring none."""
    inputs: list[NDArray[Any]] = []
    counts: dict[str, int] = {}
    for one in signature.arrays:
        array = arguments[one.name]
        if one.type.access is Access.OUT:
            counts[one.name] = array.size
        else:
            inputs.append(np.ascontiguousarray(array).reshape(-1))
    inputs += [pushed(name, signature, arguments, grid) for name in kernel.scalars]
    if kernel.faults:
        inputs.append(np.zeros(FAULT_WORDS, np.uint32))
    return inputs, counts


def _by_name(
    signature: KernelSignature, arguments: Mapping[str, Any], found: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    written = [one.name for one in signature.arrays if one.type.access.writes]
    return {
        name: np.ascontiguousarray(output).reshape(-1).view(arguments[name].dtype).reshape(arguments[name].shape)
        for name, output in zip(written, found, strict=False)
    }


def pushed(name: str, signature: KernelSignature, arguments: Mapping[str, Any], grid: Sequence[int]) -> NDArray[Any]:
    """Return a number that a call gives to a program, by the name that the translation gave it."""
    owner, _, rest = name.partition(".")
    if rest.startswith("shape"):
        return np.array([arguments[owner].shape[int(rest[6:-1])]], np.uint32)
    if rest == "extent":
        return np.array([grid[signature.indexes.index(owner)]], np.uint32)
    if rest.startswith("groups"):
        return np.array([grid[int(rest[7:-1])]], np.uint32)
    dtype = next(one.type.dtype for one in signature.scalars if one.name == name)
    return np.array([arguments[name]], np.uint32 if dtype == np.bool_ else dtype)


def groups_of(kernel: TranslatedKernel, signature: KernelSignature, grid: Sequence[int]) -> tuple[int, int, int]:
    """Return the workgroups along x, y and z that a call of a kernel runs."""
    if signature.group is None:
        size = kernel.program.workgroup_size
        x, y, z = (*(-(-count // along) for count, along in zip(reversed(grid), size, strict=False)), 1, 1)[:3]
    else:
        x, y, z = (*reversed(grid), 1, 1)[:3]
    return x, y, z
