"""Schedules, which graphs and artifacts run as: values in memory, and steps over them in order.

On a driver the values lie in resident buffers, and the steps are one batch. Which memory a value of a graph or an artifact lies
in is decided so that nobody sees it change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.binding.arguments import as_array
from vyre_driver.binding.dispatch_parameters import covering_grid, dispatch_element_count
from vyre_driver.binding.plan import BindingPlan, BindingRole
from vyre_driver.checks import U64_MAX, check_text, integer_within
from vyre_driver.errors import InvalidDispatchConfig, InvalidInput, InvalidProgram, LimitExceeded, UnsupportedFeature
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import MAX_AXES, numpy_element
from vyre_driver.ir.nodes import Node, ProgramCapability
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.buffer_uses import written_by
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.compiling import NamedProgram
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from vyre_driver.driver import Driver
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.spirv.module import SpirvModule


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


Item = TypeVar("Item")


class Value(NamedTuple):
    """A value of a schedule.

    ``memory`` is the number of the value whose memory it lies in, mostly its own; ``is_given`` tells that the caller gives its
    array. ``replaces`` is the number of the value that takes its contents when a run has ended.
    """

    name: str
    element: DataType
    shape: tuple[int | str, ...]
    lifetime: Lifetime
    memory: int
    is_given: bool
    replaces: int | None = None


class Step(NamedTuple):
    """A program or a module to run once, with the number of the value of each buffer by name.

    ``workgroups`` is the grid of a module; a program has its own, as upstream infers it. ``copied`` names the buffers that are
    a copy of their value, which is made when a run begins. ``subgroup_size`` is what the code demands, 0 for any.
    """

    name: str
    code: Program | SpirvModule
    buffers: Mapping[str, int]
    workgroups: tuple[int, int, int] | None = None
    copied: frozenset[str] = frozenset()
    subgroup_size: int = 0


class Schedule(NamedTuple):
    """Steps that run one after the other on values."""

    values: tuple[Value, ...]
    steps: tuple[Step, ...]


class Runnable(ABC):
    """A graph or an artifact, which has a schedule and runs on a driver."""

    @abstractmethod
    def schedule(self) -> Schedule:
        """Return the values and the steps.

        Raises
        ------
        InvalidProgram
            If a step leaves a buffer of its program without a value, or takes a value that has been replaced by then.
        UnsupportedFeature
            If it needs what a schedule cannot give.
        """

    def bind(self, driver: Driver, arrays: Mapping[str, object], symbols: Mapping[str, int] | None = None) -> BoundSchedule:
        """Return the schedule on buffers of a driver, recorded as one batch.

        Parameters
        ----------
        arrays
            The contents of each value that is given from outside, by name: an array of its shape, or a buffer of this driver,
            which is used where it is.
        symbols
            Numbers of symbols in shapes, by name; those that the shapes of the arrays tell may be left out.

        Raises
        ------
        InvalidInput
            If an array is missing, unknown, or of another shape or type, or nothing tells the number of a symbol.
        InvalidProgram
            If a program is not valid, or leaves a buffer without a value.
        UnsupportedFeature
            If the device or a schedule cannot do it.
        """
        return BoundSchedule(driver, self.schedule(), mapping_of(arrays, "arrays"), mapping_of(symbols, "symbols"))

    def run(
        self, driver: Driver, arrays: Mapping[str, object], symbols: Mapping[str, int] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run it once, and return the outputs and what is retained, by name; parameters and errors as of ``bind``."""
        return self.bind(driver, arrays, symbols).run()


def mapping_of(given: Mapping[str, Item] | None, name: str) -> Mapping[str, Item]:
    """Return what is given by name, and nothing for None; raises InvalidInput if it is no mapping with texts for keys."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} is of type {type(given).__name__}, and must be a mapping", fix=f"give {name} by name")
    for key in given:
        check_text(f"a key of {name}", key)
    return given


def external_buffers(program: Program, name: str) -> list[str]:
    """Return the buffers of a program that have to be bound, in the order of its bindings; ``name`` is that of the node.

    Raises
    ------
    UnsupportedFeature
        If one is a push constant, for which a schedule has no place.
    """
    buffers = []
    for binding in BindingPlan.build(program).bindings:
        if binding.is_pushed:
            raise UnsupportedFeature(
                f"buffer {binding.name!r} of node {name!r} is a push constant, and the nodes of a graph take buffers",
                fix="declare it with MemoryKind.READONLY",
            )
        if binding.role is not BindingRole.SHARED:
            buffers.append(binding.name)
    return buffers


def check_connected(program: Program, name: str, connected: Mapping[str, int]) -> None:
    """Check that each buffer of a node's program has a value; raises InvalidProgram, and as ``external_buffers``."""
    for buffer in external_buffers(program, name):
        if buffer not in connected:
            raise InvalidProgram(
                f"node {name!r} leaves buffer {buffer!r} of its program without a value",
                fix="connect every buffer of the program",
            )


_WRITABLE = frozenset({BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY})


class Taken(NamedTuple):
    """A buffer of a node that is bound to a value; ``may_change`` says that its contract lets the node write it."""

    buffer: str
    value: int
    may_change: bool


class Made(NamedTuple):
    """A buffer of a node that becomes a value; ``prior`` is the retained value that it replaces."""

    buffer: str
    value: int
    prior: int | None = None


class WiredNode(NamedTuple):
    """A program, and the values of its buffers."""

    name: str
    program: Program
    taken: tuple[Taken, ...]
    made: tuple[Made, ...]


def schedule_of(values: Sequence[Value], nodes: Sequence[WiredNode]) -> Schedule:
    """Return the nodes as steps, over values that are each in memory of their own.

    A node that writes a buffer of a value, which is not its to change, gets a copy. An output that replaces a retained value
    lies in the memory of that value where the node writes it in place; elsewhere it is copied there when a run has ended.

    Raises
    ------
    InvalidProgram
        If a node leaves a buffer without a value, takes a value that has been replaced in place, or writes one that others
        need; or if two outputs replace one value.
    UnsupportedFeature
        As ``external_buffers``.
    """
    wiring = _Wiring(values, {port.value: place for place, node in enumerate(nodes) for port in node.taken})
    steps = tuple([wiring.step(place, node) for place, node in enumerate(nodes)])
    return Schedule(tuple(wiring.values), steps)


class _Wiring:
    """The values while the steps are made."""

    def __init__(self, values: Sequence[Value], last_uses: Mapping[int, int]) -> None:
        self.values = list(values)
        self._last_uses = last_uses  # the place of the last node that takes a value
        self._successors: dict[int, str] = {}  # of each value that is replaced: the name of the one that does
        self._overwritten: set[int] = set()  # values whose memory has that of their successor
        self._changed: set[int] = set()  # retained values that nodes have written

    def step(self, place: int, node: WiredNode) -> Step:
        """Return the step of a node, and place what it makes."""
        buffers = {}
        for port in node.taken:
            self._check_current(node, port.value)
            buffers[port.buffer] = port.value
        for made in node.made:
            if made.prior is not None:
                self._replace(node, made, made.prior, is_in_place=buffers.get(made.buffer) == made.prior)
            buffers[made.buffer] = made.value
        check_connected(node.program, node.name, buffers)
        inputs = [port for port in node.taken if buffers[port.buffer] == port.value]
        written = _written_buffers(node.program, {port.buffer for port in inputs})
        copied = [port.buffer for port in inputs if port.buffer in written and self._needs_copy(place, node, port)]
        return Step(node.name, node.program, buffers, copied=frozenset(copied))

    def _check_current(self, node: WiredNode, number: int) -> None:
        if number in self._overwritten:
            name, successor = self.values[number].name, self._successors[number]
            raise InvalidProgram(
                f"node {node.name!r} takes value {name!r}, which {successor!r} has replaced in place by then",
                fix=f"put the node before the one that makes {successor!r}, or give {successor!r} a buffer of its own",
            )

    def _needs_copy(self, place: int, node: WiredNode, port: Taken) -> bool:
        """Return whether a node writes a copy of a value that it takes; raises InvalidProgram where none can be made."""
        value = self.values[port.value]
        if value.lifetime is Lifetime.RETAINED and port.may_change:
            self._changed.add(port.value)
            return False
        if value.is_given and port.value not in self._changed:
            return True
        if value.lifetime is Lifetime.INVOCATION and self._last_uses[port.value] == place:
            return False
        raise InvalidProgram(
            f"node {node.name!r} writes buffer {port.buffer!r}, and others need value {value.name!r}, which it is bound to",
            fix="let the program write another buffer",
        )

    def _replace(self, node: WiredNode, made: Made, prior: int, *, is_in_place: bool) -> None:
        """Give an output the memory of the value that it replaces, or note that it is copied there."""
        name, value = self.values[made.value].name, self.values[prior]
        if prior in self._successors:
            raise InvalidProgram(
                f"{self._successors[prior]!r} and {name!r} of node {node.name!r} both replace value {value.name!r}",
                fix="replace a retained value once",
            )
        self._successors[prior] = name
        if is_in_place:
            self._overwritten.add(prior)
            self.values[made.value] = self.values[made.value]._replace(memory=value.memory)
        else:
            # The value that the chain of successors began with.
            state = value.memory if value.replaces is None else value.replaces
            self.values[made.value] = self.values[made.value]._replace(replaces=state)


def _written_buffers(program: Program, names: AbstractSet[str]) -> AbstractSet[str]:
    """Return which of these buffers a program writes."""
    if not any(buffer.name in names and buffer.access in _WRITABLE for buffer in program.buffers):
        return frozenset()
    nodes = [term for term in terms_within(*program.entry) if isinstance(term, Node)]
    return names & frozenset().union(*map(written_by, nodes))
