"""A schedule on a driver: its values in resident buffers, its steps in one batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.binding.arguments import as_array
from vyre_driver.binding.dispatch_parameters import covering_grid, dispatch_element_count
from vyre_driver.checks import U64_MAX, integer_within
from vyre_driver.errors import InvalidDispatchConfig, InvalidInput, InvalidProgram, LimitExceeded, UnsupportedFeature
from vyre_driver.ir.numpy_types import MAX_AXES, numpy_element
from vyre_driver.ir.program import Program
from vyre_driver.ir.stats import ProgramCapability
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.compiling import NamedProgram
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver.artifacts.schedule import Schedule, Step, Value
    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.driver import Driver
    from vyre_driver.runtime.bound import BoundKernel

_RESULTS = frozenset({Lifetime.OUTPUT, Lifetime.RETAINED})


class BoundSchedule:
    """A schedule whose values are resident buffers of a driver; ``run`` may be called again and again.

    ``buffers`` has them by the names of the values: write to those of the inputs between two runs. What is retained stays as
    the last run left it.
    """

    def __init__(self, driver: Driver, schedule: Schedule, arrays: Mapping[str, object], symbols: Mapping[str, int]) -> None:
        """Made by ``bind`` of a graph or an artifact; raises as that."""
        if not schedule.steps:
            raise InvalidProgram("there are no nodes, so there is nothing to run", fix="add a node")
        contents = _contents(schedule, arrays)
        extents = _extents(schedule, contents, symbols)
        memory: dict[int, Buffer] = {}
        for number, value in enumerate(schedule.values):
            if value.is_given:
                array = contents[value.name]
                memory[number] = array if isinstance(array, Buffer) else driver.buffer(array, value.name)
            elif value.memory == number:
                memory[number] = driver.empty(_made_shape(value, extents), _element(value).base, value.name)
        placed = [memory[value.memory] for value in schedule.values]
        self.buffers = {value.name: buffer for value, buffer in zip(schedule.values, placed, strict=True)}
        self._results = [value.name for value in schedule.values if value.lifetime in _RESULTS]
        self._made = [memory[place] for place in memory if not schedule.values[place].is_given]
        replaced = [(value.memory, value.replaces) for value in schedule.values if value.replaces is not None]
        self._successors = [(memory[source], memory[target]) for source, target in replaced]
        self._copies: list[tuple[Buffer, Buffer]] = []
        self._batch = driver.batch()
        for step in schedule.steps:
            self._batch.add(_bound(driver, step, self._memory_of(driver, step, placed)))

    def run(self, timeout: float | None = None) -> dict[str, NDArray[Any]]:
        """Run all steps, and return the outputs and what is retained, by name.

        What the steps make starts as zeros. Waits ``timeout`` seconds at most, for ever without; raises as ``Batch.run``.
        """
        for buffer in self._made:
            buffer.fill(0)
        for source, target in self._copies:
            source.copy_to(target)
        self._batch.run(timeout)
        for source, target in self._successors:
            source.copy_to(target)
        return {name: self.buffers[name].read() for name in self._results}

    def _memory_of(self, driver: Driver, step: Step, placed: list[Buffer]) -> dict[str, Buffer]:
        """Return the memory of each buffer of a step by name; what it writes without being allowed to is a copy."""
        memory = {name: placed[number] for name, number in step.buffers.items()}
        for name in step.copied:
            copy = driver.empty(memory[name].shape, memory[name].dtype, name)
            self._copies.append((memory[name], copy))
            memory[name] = copy
        return memory

    __reduce_ex__ = refuse_copies


def _bound(driver: Driver, step: Step, memory: Mapping[str, Buffer]) -> BoundKernel:
    code, size = step.code, step.subgroup_size
    config = DispatchConfig(subgroup_size=size) if size else None
    try:
        kernel = driver.compile(NamedProgram(step.name, code) if isinstance(code, Program) else code, config=config)
    except (UnsupportedFeature, LimitExceeded, InvalidDispatchConfig) as error:
        if not size:
            raise
        raise UnsupportedFeature(
            f"the code of {step.name!r} is for subgroups of {size} invocations ({error.problem})",
            fix="run it without spirv(), by its programs",
        ) from error
    buffers = [memory[binding.name] for binding in kernel.buffers]
    workgroups = _grid(code, kernel.plan, buffers) if isinstance(code, Program) else step.workgroups
    return kernel.bind(*buffers, workgroups=workgroups, label=step.name)


def _grid(program: Program, plan: BindingPlan, buffers: list[Buffer]) -> tuple[int, int, int] | None:
    """Return the grid that upstream's 0.7 gives a program: it covers a number of elements, whatever shape they have.

    None for a program of one axis and without subgroup operations, whose kernel finds the same, and may be tuned.
    """
    capabilities = program.stats().capabilities
    uses_subgroups = ProgramCapability.SUBGROUP in capabilities
    if program.workgroup_size[1:] == (1, 1) and ProgramCapability.GRID_AXES not in capabilities and not uses_subgroups:
        return None
    bound = zip(plan.descriptors, buffers, strict=True)
    counts = {binding.buffer_index: buffer.nbytes // binding.stride for binding, buffer in bound}
    counted = [
        replace(binding, element_count=counts.get(binding.buffer_index, binding.element_count)) for binding in plan.bindings
    ]
    # Subgroup operations count like atomics since 0.7, and not before it, whose grid a kernel infers.
    covers_inputs = ProgramCapability.ATOMICS in capabilities or uses_subgroups
    count = dispatch_element_count(replace(plan, bindings=tuple(counted)), has_atomics=covers_inputs)
    return covering_grid(count, program.workgroup_size)


def _contents(schedule: Schedule, arrays: Mapping[str, object]) -> dict[str, NDArray[Any] | Buffer]:
    """Return the arrays of the values from outside, of the right types; raises InvalidInput."""
    expected = {value.name: value for value in schedule.values if value.is_given}
    for name in [*arrays, *expected]:
        if name in expected and name in arrays:
            continue
        problem = f"nothing is given for {name!r}" if name in expected else f"{name!r} is no value that is given from outside"
        raise InvalidInput(problem, fix=f"give exactly {', '.join(map(repr, expected)) or 'nothing'}", binding=name)
    contents = {}
    for name, value in expected.items():
        array = arrays[name]
        contents[name] = array if isinstance(array, Buffer) else as_array(array)
        dtype, element = contents[name].dtype, _element(value).base
        if dtype != element:
            raise InvalidInput(
                f"the array for {name!r} has elements of {dtype}, and {value.element} takes {element}",
                fix=f"give an array of {element}",
                binding=name,
            )
    return contents


def _element(value: Value) -> np.dtype[Any]:
    """Return the numpy type of a value's elements; raises UnsupportedFeature if they have none, or share bytes."""
    element = numpy_element(value.element)
    if element is None or element.packed:
        raise UnsupportedFeature(
            f"value {value.name!r} has elements of {value.element}, which no array of whole elements holds",
            fix="use elements of a fixed number of bytes",
        )
    base = element.dtype
    shape: tuple[int, ...] = ()
    while base.subdtype is not None:  # a vector of vectors
        base, inner = base.subdtype
        shape += inner
    _check_rank(value, len(shape))
    return np.dtype((base, shape))


def _check_rank(value: Value, rank: int) -> None:
    """Check that an array may have so many axes; raises UnsupportedFeature."""
    if rank > MAX_AXES:
        raise UnsupportedFeature(
            f"value {value.name!r} has {rank} axes, and arrays of numpy have {MAX_AXES} at most",
            fix="write the graph with fewer axes",
            value=rank,
            limit=MAX_AXES,
        )


def _extents(schedule: Schedule, contents: Mapping[str, NDArray[Any] | Buffer], symbols: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of the symbols, from ``symbols`` and the arrays' shapes; raises InvalidInput if they disagree."""
    extents: dict[str, int] = {}
    known = {extent for value in schedule.values for extent in value.shape if isinstance(extent, str)}
    for name, number in symbols.items():
        if name not in known:
            fix = f"give only {', '.join(map(repr, sorted(known)))}" if known else "leave symbols out"
            raise InvalidInput(f"{name!r} is no symbol of the shapes", fix=fix)
        if integer_within(number, 0, U64_MAX) is None:
            raise InvalidInput(f"symbol {name!r} is {number!r}", fix="give a number from 0 to 2**64 - 1")
        extents[name] = number
    for value in schedule.values:
        if value.is_given:
            _match(value, tuple(contents[value.name].shape), extents)
    return extents


def _match(value: Value, shape: tuple[int, ...], extents: dict[str, int]) -> None:
    """Check an array's shape against that of its value, and note what it says of symbols; raises InvalidInput."""
    inner = _element(value).shape
    outer = shape[: len(shape) - len(inner)]
    fits = len(outer) == len(value.shape) and shape[len(outer) :] == inner
    for extent, length in zip(value.shape, outer, strict=False):
        expected = extents.setdefault(extent, length) if isinstance(extent, str) else extent or length
        fits = fits and expected == length
    if not fits:
        known = ", ".join(_described(extent, extents) for extent in value.shape)
        raise InvalidInput(
            f"the array for {value.name!r} has the shape {shape}, and the value ({known}) of {value.element}",
            fix=f"give an array of the shape of {value.name!r}",
            binding=value.name,
        )


def _described(extent: int | str, extents: Mapping[str, int]) -> str:
    if isinstance(extent, str):
        return f"{extent} = {extents[extent]}" if extent in extents else extent
    return str(extent or "any")


def _made_shape(value: Value, extents: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of a value that a step makes; raises InvalidInput if nothing tells it."""
    for extent in value.shape:
        if not extent or (isinstance(extent, str) and extent not in extents):
            raise InvalidInput(
                f"nothing tells {f'the symbol {extent!r}' if extent else 'a dimension'} in the shape of {value.name!r}",
                fix="give it in symbols=" if extent else "write the graph with a number there",
                binding=value.name,
            )
    shape = tuple([extents[extent] if isinstance(extent, str) else extent for extent in value.shape]) + _element(value).shape
    _check_rank(value, len(shape))
    return shape
