"""What a program does by itself at each call, on every backend: counts that are pushed, the grid, and which bytes come back.

Source: spec item 2.2 (dispatch parameters), docs/binding.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.binding.dispatch_parameters import covering_grid, dispatch_element_count
from vyre_driver.binding.grid import check_guessable, covering, invocations_of_shapes
from vyre_driver.binding.outputs import trimmed_output
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.nodes import ProgramCapability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.ir.predicates import ShapePredicate
    from vyre_driver.ir.program import Program


class ProgramRules(NamedTuple):
    """The rules of one program.

    ``looks_beyond_x`` says that it looks at more axes of its grid than the first. ``counted_slots`` are the descriptors whose
    element count is pushed, in the order of the push constants; ``predicates`` has the shape predicate of each descriptor, or
    None.
    """

    plan: BindingPlan
    workgroup: tuple[int, int, int]
    has_atomics: bool
    counted_slots: tuple[int, ...]
    predicates: tuple[ShapePredicate | None, ...]
    looks_beyond_x: bool = False

    @classmethod
    def of(cls, program: Program, plan: BindingPlan) -> ProgramRules:
        """Return the rules of a program with its plan."""
        found = program.stats().capabilities
        return cls(
            plan,
            program.workgroup_size,
            has_atomics=ProgramCapability.ATOMICS in found,
            counted_slots=tuple(slot for slot, one in enumerate(plan.descriptors) if not one.static_byte_len),
            predicates=tuple(program.buffers[one.buffer_index].shape_predicate for one in plan.descriptors),
            looks_beyond_x=ProgramCapability.GRID_AXES in found,
        )

    def push_words(self, arguments: Sequence[BufferArgument]) -> tuple[int, ...]:
        """Return the push constants of a call: the elements of each buffer that run time sizes; raises as ``check_counts``."""
        self.check_counts(arguments)
        return tuple(arguments[slot].element_count for slot in self.counted_slots)

    def check_counts(self, arguments: Sequence[BufferArgument]) -> None:
        """Check that the count of each buffer fulfils its shape predicate, and raise InvalidProgram otherwise."""
        for one, predicate in zip(arguments, self.predicates, strict=True):
            if predicate is not None and not predicate.holds(one.element_count):
                raise InvalidProgram(
                    f"buffer {one.binding.name!r} has {one.element_count} elements, and its shape predicate is {predicate}",
                    fix="pass a buffer whose count fulfils it",
                    binding=one.binding.name,
                    count=one.element_count,
                )

    def groups(self, arguments: Sequence[BufferArgument]) -> tuple[int, int, int]:
        """Return the workgroups that cover the elements of a call, or the places in the shape of its outputs.

        Raises
        ------
        InvalidInput
            If workgroup or program use more axes than x, and no output has them: the grid cannot be guessed then.
        LimitExceeded
            If there are more than 2**32 - 1.
        """
        has_axes = self.workgroup[1:] != (1, 1) or self.looks_beyond_x
        found = invocations_of_shapes(arguments, self.workgroup) if has_axes else None
        if found is not None:
            return covering(found, self.workgroup)
        check_guessable(self.workgroup, beyond_x=self.looks_beyond_x, subject="program")
        counts = {one.binding.buffer_index: one.element_count for one in arguments}
        counted = [replace(one, element_count=counts.get(one.buffer_index, one.element_count)) for one in self.plan.bindings]
        count = dispatch_element_count(replace(self.plan, bindings=tuple(counted)), has_atomics=self.has_atomics)
        return covering_grid(count, self.workgroup)

    def trimmed(self, outputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return what comes back of the outputs: their output ranges."""
        givers = [one for one in self.plan.descriptors if one.output_index is not None]
        return [trimmed_output(binding, array) for binding, array in zip(givers, outputs, strict=True)]
