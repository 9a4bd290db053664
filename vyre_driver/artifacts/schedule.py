"""Schedules, which graphs and artifacts run as: values in memory, and steps over them in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vyre_driver.artifacts.running import BoundSchedule
from vyre_driver.binding.plan import BindingPlan, BindingRole
from vyre_driver.checks import check_text
from vyre_driver.errors import InvalidInput, InvalidProgram, UnsupportedFeature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.artifacts.parts import Lifetime
    from vyre_driver.driver import Driver
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.spirv.module import SpirvModule

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
